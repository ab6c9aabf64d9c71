// Command fscklog lets Tessera's own fsck look at a log: its package, with an exit code that says how it went (Tessera's command
// ends with 0 whatever it finds).
//
//	fscklog [-origin NAME] [-workers N] URL|DIR VKEY
//
// It exits 0 with one line of JSON {origin, size, root}, 1 when the log does not hold, 2 on wrong usage.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/url"
	"os"
	"strings"

	"github.com/transparency-dev/merkle/rfc6962"
	"github.com/transparency-dev/tessera/api"
	"github.com/transparency-dev/tessera/client"
	"github.com/transparency-dev/tessera/fsck"
	"golang.org/x/mod/sumdb/note"
)

type held struct {
	Origin string `json:"origin"`
	Size   uint64 `json:"size"`
	Root   []byte `json:"root"`
}

func main() {
	origin := flag.String("origin", "", "origin line to expect (default: the key's name)")
	workers := flag.Uint("workers", 4, "requests at once")
	flag.Parse()
	if flag.NArg() != 2 {
		fmt.Fprintln(os.Stderr, "usage: fscklog [-origin NAME] [-workers N] URL|DIR VKEY")
		os.Exit(2)
	}
	verifier, err := note.NewVerifier(flag.Arg(1))
	if err != nil {
		fmt.Fprintln(os.Stderr, "fscklog: vkey:", err)
		os.Exit(2)
	}
	if *origin == "" {
		*origin = verifier.Name()
	}
	found, err := look(context.Background(), flag.Arg(0), *origin, verifier, *workers)
	if err != nil {
		fmt.Fprintln(os.Stderr, "fscklog:", err)
		os.Exit(1)
	}
	if err := json.NewEncoder(os.Stdout).Encode(found); err != nil {
		fmt.Fprintln(os.Stderr, "fscklog:", err)
		os.Exit(1)
	}
}

func look(ctx context.Context, log, origin string, verifier note.Verifier, workers uint) (*held, error) {
	fetcher, err := fetcherOf(log)
	if err != nil {
		return nil, err
	}
	if err := fsck.New(origin, verifier, fetcher, leafHashes, fsck.Opts{N: workers}).Check(ctx); err != nil {
		return nil, err
	}
	head, _, _, err := client.FetchCheckpoint(ctx, fetcher.ReadCheckpoint, verifier, origin)
	if err != nil {
		return nil, err
	}
	return &held{origin, head.Size, head.Hash}, nil
}

func fetcherOf(log string) (fsck.Fetcher, error) {
	if !strings.HasPrefix(log, "http://") && !strings.HasPrefix(log, "https://") {
		return &client.FileFetcher{Root: log}, nil
	}
	prefix, err := url.Parse(strings.TrimSuffix(log, "/") + "/")
	if err != nil {
		return nil, err
	}
	return client.NewHTTPFetcher(prefix, nil)
}

// leafHashes are the RFC 6962 leaf hashes of a bundle in the form of c2sp.org/tlog-tiles.
func leafHashes(bundle []byte) ([][]byte, error) {
	var entries api.EntryBundle
	if err := entries.UnmarshalText(bundle); err != nil {
		return nil, err
	}
	hashes := make([][]byte, len(entries.Entries))
	for i, entry := range entries.Entries {
		hashes[i] = rfc6962.DefaultHasher.HashLeaf(entry)
	}
	return hashes, nil
}
