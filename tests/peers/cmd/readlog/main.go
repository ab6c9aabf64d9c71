// Command readlog reads a whole C2SP tlog-tiles log twice, with two libraries that share no code
// with it: golang.org/x/mod/sumdb and Tessera's client over transparency-dev/merkle.
//
//	readlog [flags] URL VKEY
//
// It exits 0 with one line of JSON, 1 when the log does not hold, 2 on wrong usage.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"time"

	f_note "github.com/transparency-dev/formats/note"
	"github.com/transparency-dev/tessera"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"example.com/countersign/peers/internal/leaves"
)

// sampleMax is the tree size up to which every leaf is proved; above it, this many, evenly spread.
const sampleMax = 2000

type options struct {
	base      string
	origin    string
	log       note.Verifier
	witnesses []note.Verifier
	policy    *tessera.WitnessGroup // nil: none given
	size      int64                 // -1: any
	leaves    map[uint64][]byte
}

// summary is what one run found; the two proof counts hold for each of the two libraries.
type summary struct {
	Size               int64     `json:"size"`
	Root               tlog.Hash `json:"root"`
	Entries            int64     `json:"entries"`
	Bundles            int       `json:"bundles"`
	Tiles              int       `json:"tiles"`
	LeavesCompared     int       `json:"leaves_compared"`
	Cosignatures       int       `json:"cosignatures"`
	InclusionChecked   int       `json:"inclusion_checked"`
	ConsistencyChecked int       `json:"consistency_checked"`
}

func main() {
	opts, err := parse(os.Args[1:], os.Stderr)
	if err != nil {
		fmt.Fprintln(os.Stderr, "readlog:", err)
		os.Exit(2)
	}
	found, err := read(context.Background(), opts, &http.Client{Timeout: time.Minute})
	if err != nil {
		fmt.Fprintln(os.Stderr, "readlog:", err)
		os.Exit(1)
	}
	// OK because a summary holds only numbers and a hash, which always marshal.
	line, _ := json.Marshal(found)
	fmt.Println(string(line))
}

func parse(args []string, stderr io.Writer) (*options, error) {
	opts := &options{}
	flags := flag.NewFlagSet("readlog", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&opts.origin, "origin", "", "origin line to expect (default: the key's name)")
	flags.Int64Var(&opts.size, "size", -1, "tree size to expect")
	dir := flags.String("leaves", "", "folder of <index>.leaf files that the entries must equal")
	flags.Func("witness", "vkey of a witness whose cosignature/v1 must be there (repeatable)", func(vkey string) error {
		v, err := f_note.NewVerifierForCosignatureV1(vkey)
		opts.witnesses = append(opts.witnesses, v)
		return err
	})
	flags.Func("policy", "tlog-policy file whose quorum must be met, as Tessera judges it", func(path string) error {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		group, err := tessera.NewWitnessGroupFromPolicy(text)
		opts.policy = &group
		return err
	})
	var positional []string
	for len(args) > 0 {
		if err := flags.Parse(args); err != nil {
			return nil, err
		}
		if args = flags.Args(); len(args) > 0 {
			positional, args = append(positional, args[0]), args[1:]
		}
	}
	if len(positional) != 2 {
		return nil, fmt.Errorf("usage: readlog [flags] URL VKEY")
	}
	var err error
	if opts.log, err = note.NewVerifier(positional[1]); err != nil {
		return nil, fmt.Errorf("vkey: %w", err)
	}
	if opts.base = strings.TrimSuffix(positional[0], "/") + "/"; opts.origin == "" {
		opts.origin = opts.log.Name()
	}
	if *dir != "" {
		opts.leaves, err = leaves.Read(*dir)
	}
	return opts, err
}

func read(ctx context.Context, opts *options, client *http.Client) (*summary, error) {
	src := &source{ctx: ctx, client: client, base: opts.base}
	log, found, err := readSumdb(src, opts)
	if err != nil {
		return nil, fmt.Errorf("x/mod: %w", err)
	}
	if err := readTessera(ctx, opts, client, log, found); err != nil {
		return nil, fmt.Errorf("tessera: %w", err)
	}
	return found, nil
}

// sample lists the indexes below size to prove, the first and the last among them.
func sample(size int64) []int64 {
	n := min(size, sampleMax)
	all := make([]int64, 0, n)
	for i := range n {
		if n == size {
			all = append(all, i)
		} else {
			all = append(all, i*(size-1)/(n-1))
		}
	}
	return all
}

// sizes lists tree sizes up to size at which shapes change: powers of two, tile edges, the last ones.
func sizes(size int64) []int64 {
	all := []int64{1, 2, 3, 7, 8, 255, 256, 257, 511, 512, 65535, 65536, 65537, size / 3, size / 2, size - 1, size}
	slices.Sort(all)
	all = slices.Compact(all)
	return slices.DeleteFunc(all, func(n int64) bool { return n < 1 || n > size })
}
