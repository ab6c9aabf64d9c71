package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

const (
	height = 8
	width  = 1 << height
	// 256 entries of at most 65,535 bytes, each behind a two-byte length.
	bundleBytesMax     = width * (2 + 65535)
	checkpointBytesMax = 1 << 20
)

var errNotFound = errors.New("404 not found")

// source fetches resources below one prefix.
type source struct {
	ctx    context.Context
	client *http.Client
	base   string
}

func (s *source) get(path string, bytesMax int64) ([]byte, error) {
	req, err := http.NewRequestWithContext(s.ctx, http.MethodGet, s.base+path, nil)
	if err != nil {
		return nil, err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, bytesMax+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", path, err)
	case resp.StatusCode == http.StatusNotFound:
		return nil, fmt.Errorf("%s: %w", path, errNotFound)
	case resp.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s: status %s", path, resp.Status)
	case int64(len(body)) > bytesMax:
		return nil, fmt.Errorf("%s: more than %d bytes", path, bytesMax)
	}
	return body, nil
}

// resource fetches a tile or bundle of w of 256, or the full one in place of a partial one that the
// log has deleted (c2sp.org/tlog-tiles allows that); got is the width that body has.
func (s *source) resource(path string, w int, bytesMax int64) (body []byte, got int, err error) {
	if w == width {
		body, err = s.get(path, bytesMax)
		return body, width, err
	}
	partial := path + ".p/" + strconv.Itoa(w)
	if body, err = s.get(partial, bytesMax); !errors.Is(err, errNotFound) {
		return body, w, err
	}
	if body, err = s.get(path, bytesMax); errors.Is(err, errNotFound) {
		err = fmt.Errorf("%s: neither it nor the full one: %w", partial, errNotFound)
	}
	return body, width, err
}

// hashes is a dense hash store in the order of tlog.StoredHashIndex.
type hashes []tlog.Hash

func (h hashes) ReadHashes(indexes []int64) ([]tlog.Hash, error) {
	out := make([]tlog.Hash, len(indexes))
	for i, index := range indexes {
		if index < 0 || index >= int64(len(h)) {
			return nil, fmt.Errorf("hash %d of %d", index, len(h))
		}
		out[i] = h[index]
	}
	return out, nil
}

func (h hashes) leaf(n int64) tlog.Hash { return h[tlog.StoredHashIndex(0, n)] }

// logRead is a log as rebuilt from its entries alone.
type logRead struct {
	tree   tlog.Tree
	hashes hashes
}

func readSumdb(src *source, opts *options) (*logRead, *summary, error) {
	tree, cosigned, err := readCheckpoint(src, opts)
	if err != nil {
		return nil, nil, fmt.Errorf("checkpoint: %w", err)
	}
	log := &logRead{tree: tree}
	found := &summary{Size: tree.N, Root: tree.Hash, Cosignatures: cosigned}
	if err := readBundles(src, opts, log, found); err != nil {
		return nil, nil, err
	}
	root, err := tlog.TreeHash(tree.N, log.hashes)
	if err != nil {
		return nil, nil, err
	}
	if root != tree.Hash {
		return nil, nil, fmt.Errorf("the %d entries have root %v, the checkpoint says %v", tree.N, root, tree.Hash)
	}
	tiles, err := readTiles(src, log, found)
	if err != nil {
		return nil, nil, err
	}
	return log, found, proveSumdb(log, tiles, found)
}

func readCheckpoint(src *source, opts *options) (tree tlog.Tree, cosigned int, err error) {
	raw, err := src.get("checkpoint", checkpointBytesMax)
	if err != nil {
		return tree, 0, err
	}
	opened, err := note.Open(raw, note.VerifierList(append(opts.witnesses, opts.log)...))
	if err != nil {
		return tree, 0, err
	}
	if opts.policy != nil && !opts.policy.Satisfied(raw) {
		return tree, 0, errors.New("the quorum of the policy is not met")
	}
	signed := make(map[string]bool)
	for _, sig := range opened.Sigs {
		signed[fmt.Sprintf("%s+%08x", sig.Name, sig.Hash)] = true
	}
	for _, v := range append(opts.witnesses, opts.log) {
		if key := fmt.Sprintf("%s+%08x", v.Name(), v.KeyHash()); !signed[key] {
			return tree, 0, fmt.Errorf("no signature by %s", key)
		}
	}
	if tree, err = parseCheckpoint(opened.Text, opts.origin); err == nil && opts.size >= 0 && tree.N != opts.size {
		err = fmt.Errorf("size %d, expected %d", tree.N, opts.size)
	}
	return tree, len(opts.witnesses), err
}

func parseCheckpoint(text, origin string) (tree tlog.Tree, err error) {
	lines := strings.SplitN(text, "\n", 4)
	if len(lines) < 4 {
		return tree, fmt.Errorf("%d of 3 lines", len(lines)-1)
	}
	if lines[0] != origin {
		return tree, fmt.Errorf("origin %q, expected %q", lines[0], origin)
	}
	tree.N, err = strconv.ParseInt(lines[1], 10, 64)
	if err != nil || tree.N < 0 || strconv.FormatInt(tree.N, 10) != lines[1] {
		return tree, fmt.Errorf("malformed size %q", lines[1])
	}
	tree.Hash, err = tlog.ParseHash(lines[2])
	return tree, err
}

func readBundles(src *source, opts *options, log *logRead, found *summary) error {
	log.hashes = make(hashes, 0, tlog.StoredHashCount(log.tree.N))
	for n := int64(0); n*width < log.tree.N; n++ {
		w := int(min(width, log.tree.N-n*width))
		path := "tile/entries/" + number(n)
		raw, got, err := src.resource(path, w, bundleBytesMax)
		if err != nil {
			return err
		}
		entries, err := splitBundle(raw, got)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		found.Bundles++
		for i, entry := range entries[:w] {
			index := n*width + int64(i)
			if want, ok := opts.leaves[uint64(index)]; ok {
				if !bytes.Equal(entry, want) {
					return fmt.Errorf("entry %d is not the expected leaf: %q", index, entry[:min(len(entry), 120)])
				}
				found.LeavesCompared++
			}
			stored, err := tlog.StoredHashes(index, entry, log.hashes)
			if err != nil {
				return err
			}
			log.hashes = append(log.hashes, stored...)
			found.Entries++
		}
	}
	if found.LeavesCompared != len(opts.leaves) {
		return fmt.Errorf("%d of %d expected leaves are beyond size %d", len(opts.leaves)-found.LeavesCompared, len(opts.leaves), log.tree.N)
	}
	return nil
}

// splitBundle cuts exactly n entries out of raw.
func splitBundle(raw []byte, n int) ([][]byte, error) {
	entries := make([][]byte, 0, n)
	for rest := raw; len(entries) < n; {
		if len(rest) < 2 {
			return nil, fmt.Errorf("ends within entry %d of %d", len(entries), n)
		}
		size := int(binary.BigEndian.Uint16(rest))
		if rest = rest[2:]; len(rest) < size {
			return nil, fmt.Errorf("ends within entry %d of %d", len(entries), n)
		}
		entries, rest = append(entries, rest[:size]), rest[size:]
		if len(entries) == n && len(rest) > 0 {
			return nil, fmt.Errorf("%d bytes after entry %d", len(rest), n-1)
		}
	}
	return entries, nil
}

// readTiles fetches every tile of the tree and compares it with the entries.
func readTiles(src *source, log *logRead, found *summary) (tileStore, error) {
	store := make(tileStore)
	for _, tile := range tlog.NewTiles(height, 0, log.tree.N) {
		path := fmt.Sprintf("tile/%d/%s", tile.L, number(tile.N))
		body, got, err := src.resource(path, tile.W, width*tlog.HashSize)
		if err != nil {
			return nil, err
		}
		if len(body) != got*tlog.HashSize {
			return nil, fmt.Errorf("%s: %d bytes, expected %d", path, len(body), got*tlog.HashSize)
		}
		want, err := tlog.ReadTileData(tile, log.hashes)
		if err != nil {
			return nil, err
		}
		if body = body[:len(want)]; !bytes.Equal(body, want) {
			return nil, fmt.Errorf("%s (width %d): differs from the entries", path, tile.W)
		}
		store[tile] = body
		found.Tiles++
	}
	return store, nil
}

// number is the N of a C2SP tile path, as x/mod writes it; its tile heights are no part of C2SP paths.
func number(n int64) string {
	full := tlog.Tile{H: height, L: 0, N: n, W: width}
	return strings.TrimPrefix(full.Path(), "tile/8/0/")
}

// tileStore gives tiles as they were served to tlog.TileHashReader, which authenticates them by the root.
type tileStore map[tlog.Tile][]byte

func (t tileStore) Height() int { return height }

func (t tileStore) SaveTiles([]tlog.Tile, [][]byte) {}

func (t tileStore) ReadTiles(tiles []tlog.Tile) ([][]byte, error) {
	out := make([][]byte, len(tiles))
	for i, tile := range tiles {
		if out[i] = t[tile]; out[i] == nil {
			return nil, fmt.Errorf("no tile %s in this tree", tile.Path())
		}
	}
	return out, nil
}

func proveSumdb(log *logRead, tiles tileStore, found *summary) error {
	reader := tlog.TileHashReader(log.tree, tiles)
	for _, index := range sample(log.tree.N) {
		proof, err := tlog.ProveRecord(log.tree.N, index, reader)
		if err != nil {
			return fmt.Errorf("inclusion of %d: %w", index, err)
		}
		if err := tlog.CheckRecord(proof, log.tree.N, log.tree.Hash, index, log.hashes.leaf(index)); err != nil {
			return fmt.Errorf("inclusion of %d: %w", index, err)
		}
		found.InclusionChecked++
	}
	all := sizes(log.tree.N)
	for i, old := range all {
		for _, size := range all[i:] {
			if err := checkConsistency(log, reader, old, size); err != nil {
				return fmt.Errorf("consistency of %d and %d: %w", old, size, err)
			}
			found.ConsistencyChecked++
		}
	}
	return nil
}

func checkConsistency(log *logRead, reader tlog.HashReader, old, size int64) error {
	oldRoot, err := tlog.TreeHash(old, log.hashes)
	if err != nil {
		return err
	}
	root, err := tlog.TreeHash(size, log.hashes)
	if err != nil {
		return err
	}
	proof, err := tlog.ProveTree(size, old, reader)
	if err != nil {
		return err
	}
	return tlog.CheckTree(proof, size, root, old, oldRoot)
}
