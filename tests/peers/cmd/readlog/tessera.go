package main

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/transparency-dev/merkle/compact"
	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"github.com/transparency-dev/tessera/api/layout"
	"github.com/transparency-dev/tessera/client"
	"golang.org/x/mod/sumdb/tlog"
)

var hasher = rfc6962.DefaultHasher

// readTessera reads the tree that readSumdb found once more; a log that has grown since must be consistent with it.
func readTessera(ctx context.Context, opts *options, httpClient *http.Client, log *logRead, found *summary) error {
	base, err := url.Parse(opts.base)
	if err != nil {
		return err
	}
	fetcher, err := client.NewHTTPFetcher(base, httpClient)
	if err != nil {
		return err
	}
	head, _, _, err := client.FetchCheckpoint(ctx, fetcher.ReadCheckpoint, opts.log, opts.origin)
	if err != nil {
		return err
	}
	size := uint64(log.tree.N)
	if head.Size < size {
		return fmt.Errorf("checkpoint went back from size %d to %d", size, head.Size)
	}
	newest, err := client.NewProofBuilder(ctx, head.Size, fetcher.ReadTile)
	if err != nil {
		return err
	}
	if size > 0 {
		if err := verifyConsistency(ctx, newest, size, head.Size, log.tree.Hash[:], head.Hash); err != nil {
			return fmt.Errorf("checkpoints of sizes %d and %d: %w", size, head.Size, err)
		}
	}
	if err := readTesseraEntries(ctx, fetcher, log); err != nil {
		return err
	}
	return proveTessera(ctx, fetcher, log, found)
}

// readTesseraEntries rebuilds the root from the bundles and compares them with the level-0 tiles.
func readTesseraEntries(ctx context.Context, fetcher *client.HTTPFetcher, log *logRead) error {
	size := uint64(log.tree.N)
	tree := (&compact.RangeFactory{Hash: hasher.HashChildren}).NewEmptyRange(0)
	for info := range layout.Range(0, size, size) {
		bundle, err := client.GetEntryBundle(ctx, fetcher.ReadEntryBundle, info.Index, size)
		if err != nil {
			return err
		}
		if len(bundle.Entries) < int(info.N) {
			return fmt.Errorf("bundle %d: %d entries, expected %d", info.Index, len(bundle.Entries), info.N)
		}
		first := info.Index * layout.EntryBundleWidth
		leafHashes, err := client.FetchLeafHashes(ctx, fetcher.ReadTile, first, uint64(info.N), size)
		if err != nil {
			return err
		}
		for i, entry := range bundle.Entries[:info.N] {
			leafHash := hasher.HashLeaf(entry)
			if !bytes.Equal(leafHash, leafHashes[i]) {
				return fmt.Errorf("entry %d: its hash is not the one in the tile", first+uint64(i))
			}
			if err := tree.Append(leafHash, nil); err != nil {
				return err
			}
		}
	}
	root, err := tree.GetRootHash(nil)
	if err != nil {
		return err
	}
	if size == 0 {
		root = hasher.EmptyRoot()
	}
	if !bytes.Equal(root, log.tree.Hash[:]) {
		return fmt.Errorf("the entries have root %x, the checkpoint says %x", root, log.tree.Hash[:])
	}
	return nil
}

func proveTessera(ctx context.Context, fetcher *client.HTTPFetcher, log *logRead, found *summary) error {
	builder, err := client.NewProofBuilder(ctx, uint64(log.tree.N), fetcher.ReadTile)
	if err != nil {
		return err
	}
	included := 0
	for _, index := range sample(log.tree.N) {
		path, err := builder.InclusionProof(ctx, uint64(index))
		if err != nil {
			return fmt.Errorf("inclusion of %d: %w", index, err)
		}
		leafHash := log.hashes.leaf(index)
		if err := proof.VerifyInclusion(hasher, uint64(index), uint64(log.tree.N), leafHash[:], path, log.tree.Hash[:]); err != nil {
			return fmt.Errorf("inclusion of %d: %w", index, err)
		}
		included++
	}
	consistent := 0
	all := sizes(log.tree.N)
	for i, old := range all {
		oldRoot, err := tlog.TreeHash(old, log.hashes)
		if err != nil {
			return err
		}
		for _, size := range all[i:] {
			root, err := tlog.TreeHash(size, log.hashes)
			if err != nil {
				return err
			}
			if err := verifyConsistency(ctx, builder, uint64(old), uint64(size), oldRoot[:], root[:]); err != nil {
				return fmt.Errorf("consistency of %d and %d: %w", old, size, err)
			}
			consistent++
		}
	}
	if included != found.InclusionChecked || consistent != found.ConsistencyChecked {
		return fmt.Errorf("checked %d and %d proofs, x/mod checked %d and %d", included, consistent, found.InclusionChecked, found.ConsistencyChecked)
	}
	return nil
}

func verifyConsistency(ctx context.Context, builder *client.ProofBuilder, old, size uint64, oldRoot, root []byte) error {
	path, err := builder.ConsistencyProof(ctx, old, size)
	if err != nil {
		return err
	}
	return proof.VerifyConsistency(hasher, old, size, path, oldRoot, root)
}
