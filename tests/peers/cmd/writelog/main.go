// Command writelog makes a static log with Tessera's POSIX driver, and proofs of it, for a foreign verifier to read.
//
//	writelog -dir DIR -entries N -seed HEX -origin NAME [-rekor | -leaves DIR] [-proofs DIR] [-index I,J…] [-policy FILE]
//	writelog -vectors FILE -seed HEX [-vector-count N] [-vector-size-max N]
//
// The first form prints one line of JSON {vkey, origin, size, root}; the second writes proof vectors
// made with golang.org/x/mod/sumdb/tlog.
package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/transparency-dev/tessera"
	"github.com/transparency-dev/tessera/api/layout"
	"github.com/transparency-dev/tessera/client"
	"github.com/transparency-dev/tessera/storage/posix"
	"golang.org/x/mod/sumdb/note"

	"example.com/countersign/peers/internal/leaves"
)

type options struct {
	dir, origin, leaves, proofs, index string
	entries                            uint64
	seed, policy                       []byte // policy: nil without one
	vectors                            string
	rekor                              bool
	vectorCount                        int
	vectorSizeMax                      int64
}

type written struct {
	VKey   string `json:"vkey"`
	Origin string `json:"origin"`
	Size   uint64 `json:"size"`
	Root   []byte `json:"root"`
}

func main() {
	opts := &options{}
	flag.StringVar(&opts.dir, "dir", "", "directory of the log to write; must be absent or empty")
	flag.Uint64Var(&opts.entries, "entries", 256, "number of entries")
	flag.StringVar(&opts.origin, "origin", "example.com/peer", "origin and key name")
	flag.BoolVar(&opts.rekor, "rekor", false, "entries in the form in which Rekor v2 logs them, in place of made-up ones")
	flag.StringVar(&opts.leaves, "leaves", "", "folder of <index>.leaf files to log in place of made-up entries")
	flag.StringVar(&opts.proofs, "proofs", "", "folder for <index>.tlog-proof, <index>.leaf and policy")
	flag.StringVar(&opts.index, "index", "", "indexes to prove, separated by commas (default: the first, the last and those at tile edges)")
	flag.StringVar(&opts.vectors, "vectors", "", "file for JSON proof vectors; no log is written")
	flag.IntVar(&opts.vectorCount, "vector-count", 200, "vectors of each kind")
	flag.Int64Var(&opts.vectorSizeMax, "vector-size-max", 3000, "largest tree of a vector")
	seed := flag.String("seed", strings.Repeat("00", 32), "32 bytes in hex: the Ed25519 seed of the log key, and of the vectors' randomness")
	policy := flag.String("policy", "", "tlog-policy file: Tessera asks its witnesses, and publishes only what its quorum cosigned")
	flag.Parse()
	var err error
	if *policy != "" {
		if opts.policy, err = os.ReadFile(*policy); err != nil {
			fmt.Fprintln(os.Stderr, "writelog:", err)
			os.Exit(2)
		}
	}
	if opts.seed, err = hex.DecodeString(*seed); err != nil || len(opts.seed) != 32 || flag.NArg() > 0 || (opts.dir == "") == (opts.vectors == "") {
		fmt.Fprintln(os.Stderr, "writelog: give -dir or -vectors, a seed of 64 hex digits, and no arguments")
		os.Exit(2)
	}
	if err := run(context.Background(), opts); err != nil {
		fmt.Fprintln(os.Stderr, "writelog:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, opts *options) error {
	if opts.vectors != "" {
		return writeVectors(opts)
	}
	entries, err := entriesOf(opts)
	if err != nil {
		return err
	}
	skey, vkey, err := note.GenerateKey(bytes.NewReader(opts.seed), opts.origin)
	if err != nil {
		return err
	}
	reader, err := writeLog(ctx, opts, skey, entries)
	if err != nil {
		return err
	}
	verifier, err := note.NewVerifier(vkey)
	if err != nil {
		return err
	}
	head, raw, _, err := client.FetchCheckpoint(ctx, reader.ReadCheckpoint, verifier, opts.origin)
	if err != nil {
		return err
	}
	if head.Size != uint64(len(entries)) {
		return fmt.Errorf("the checkpoint has size %d after %d entries", head.Size, len(entries))
	}
	if opts.proofs != "" {
		if err := writeProofs(ctx, opts, reader, entries, raw, vkey); err != nil {
			return err
		}
	}
	return json.NewEncoder(os.Stdout).Encode(written{vkey, opts.origin, head.Size, head.Hash})
}

func entriesOf(opts *options) ([][]byte, error) {
	if opts.rekor {
		return rekorEntries(opts.entries)
	}
	if opts.leaves == "" {
		entries := make([][]byte, opts.entries)
		for i := range entries {
			entries[i] = madeUp(i)
		}
		return entries, nil
	}
	byIndex, err := leaves.Read(opts.leaves)
	if err != nil {
		return nil, err
	}
	entries := make([][]byte, len(byIndex))
	for i := range entries {
		entry, ok := byIndex[uint64(i)]
		if !ok {
			return nil, fmt.Errorf("%s: %d leaves, but none of index %d", opts.leaves, len(byIndex), i)
		}
		entries[i] = entry
	}
	return entries, nil
}

// madeUp is the entry at index i: lengths vary, 7 is empty, 11 as long as tlog-tiles allows, 13 is not UTF-8.
func madeUp(i int) []byte {
	switch i {
	case 7:
		return nil
	case 11:
		return bytes.Repeat([]byte("long entry 11\n"), 1+65535/14)[:65535]
	case 13:
		return []byte("entry 13 \xff\x00\n")
	}
	return append(fmt.Appendf(nil, "entry %d\n", i), bytes.Repeat([]byte{'.'}, i*37%300)...)
}

func writeLog(ctx context.Context, opts *options, skey string, entries [][]byte) (tessera.LogReader, error) {
	if names, err := os.ReadDir(opts.dir); err == nil && len(names) > 0 {
		return nil, fmt.Errorf("%s is not empty", opts.dir)
	}
	signer, err := note.NewSigner(skey)
	if err != nil {
		return nil, err
	}
	driver, err := posix.New(ctx, posix.Config{Path: opts.dir})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	appending := tessera.NewAppendOptions().
		WithCheckpointSigner(signer).
		WithCheckpointInterval(100*time.Millisecond).
		WithBatching(1024, 20*time.Millisecond)
	if opts.policy != nil {
		witnesses, err := tessera.NewWitnessGroupFromPolicy(opts.policy)
		if err != nil {
			return nil, fmt.Errorf("policy: %w", err)
		}
		appending = appending.WithWitnesses(witnesses, &tessera.WitnessOptions{Timeout: 30 * time.Second})
	}
	appender, shutdown, reader, err := tessera.NewAppender(ctx, driver, appending)
	if err != nil {
		return nil, err
	}
	futures := make([]tessera.IndexFuture, len(entries))
	for i, entry := range entries {
		futures[i] = appender.Add(ctx, tessera.NewEntry(entry))
	}
	for i, future := range futures {
		index, err := future()
		if err != nil {
			return nil, fmt.Errorf("entry %d: %w", i, err)
		}
		if index.Index != uint64(i) {
			return nil, fmt.Errorf("entry %d got index %d", i, index.Index)
		}
	}
	return reader, shutdown(ctx)
}

func writeProofs(ctx context.Context, opts *options, reader tessera.LogReader, entries [][]byte, checkpoint []byte, vkey string) error {
	size := uint64(len(entries))
	indexes, err := indexesOf(opts.index, size)
	if err != nil {
		return err
	}
	builder, err := client.NewProofBuilder(ctx, size, reader.ReadTile)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(opts.proofs, 0o755); err != nil {
		return err
	}
	for _, index := range indexes {
		path, err := builder.InclusionProof(ctx, index)
		if err != nil {
			return err
		}
		proof := fmt.Appendf(nil, "c2sp.org/tlog-proof@v1\nindex %d\n", index)
		for _, hash := range path {
			proof = append(base64.StdEncoding.AppendEncode(proof, hash), '\n')
		}
		proof = append(append(proof, '\n'), checkpoint...)
		name := filepath.Join(opts.proofs, fmt.Sprintf("%d.tlog-proof", index))
		if err := errors.Join(os.WriteFile(name, proof, 0o644), os.WriteFile(leaves.Path(opts.proofs, index), entries[index], 0o644)); err != nil {
			return err
		}
	}
	policy := "log " + vkey + "\n"
	if opts.policy != nil {
		policy += string(opts.policy)
	} else {
		policy += "quorum none\n"
	}
	return os.WriteFile(filepath.Join(opts.proofs, "policy"), []byte(policy), 0o644)
}

func indexesOf(list string, size uint64) ([]uint64, error) {
	if list == "" {
		all := []uint64{0, 7, layout.TileWidth - 1, layout.TileWidth, size / 2, size - 1}
		slices.Sort(all)
		all = slices.Compact(all)
		return slices.DeleteFunc(all, func(i uint64) bool { return i >= size }), nil
	}
	var all []uint64
	for field := range strings.SplitSeq(list, ",") {
		index, err := strconv.ParseUint(field, 10, 64)
		if err != nil || index >= size {
			return nil, fmt.Errorf("index %q of %d entries", field, size)
		}
		all = append(all, index)
	}
	return all, nil
}
