package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"

	"golang.org/x/mod/sumdb/tlog"
)

type inclusionVector struct {
	Leaf  []byte           `json:"leaf"`
	Index int64            `json:"index"`
	Size  int64            `json:"size"`
	Path  tlog.RecordProof `json:"path"`
	Root  tlog.Hash        `json:"root"`
}

type consistencyVector struct {
	OldSize int64          `json:"old_size"`
	OldRoot tlog.Hash      `json:"old_root"`
	Size    int64          `json:"size"`
	Path    tlog.TreeProof `json:"path"`
	Root    tlog.Hash      `json:"root"`
}

type vectors struct {
	Inclusion   []inclusionVector   `json:"inclusion"`
	Consistency []consistencyVector `json:"consistency"`
}

// writeVectors proves random leaves and prefixes of one tree, the same for the same seed.
func writeVectors(opts *options) error {
	if opts.vectorCount < 1 || opts.vectorSizeMax < 1 {
		return fmt.Errorf("-vector-count and -vector-size-max must be at least 1")
	}
	var store []tlog.Hash
	reader := tlog.HashReaderFunc(func(indexes []int64) ([]tlog.Hash, error) {
		out := make([]tlog.Hash, len(indexes))
		for i, index := range indexes {
			out[i] = store[index]
		}
		return out, nil
	})
	for n := range opts.vectorSizeMax {
		hashes, err := tlog.StoredHashes(n, madeUp(int(n)), reader)
		if err != nil {
			return err
		}
		store = append(store, hashes...)
	}
	random := rand.New(rand.NewChaCha8([32]byte(opts.seed)))
	all := vectors{}
	for range opts.vectorCount {
		// Half of the sizes are small, where every shape of tree occurs.
		size := 1 + random.Int64N(opts.vectorSizeMax)
		if random.IntN(2) == 0 {
			size = 1 + random.Int64N(min(opts.vectorSizeMax, 40))
		}
		inclusion, err := proveInclusion(reader, random.Int64N(size), size)
		if err != nil {
			return err
		}
		consistency, err := proveConsistency(reader, 1+random.Int64N(size), size)
		if err != nil {
			return err
		}
		all.Inclusion = append(all.Inclusion, inclusion)
		all.Consistency = append(all.Consistency, consistency)
	}
	text, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		return err
	}
	return os.WriteFile(opts.vectors, append(text, '\n'), 0o644)
}

func proveInclusion(reader tlog.HashReader, index, size int64) (v inclusionVector, err error) {
	v = inclusionVector{Leaf: madeUp(int(index)), Index: index, Size: size}
	if v.Leaf == nil {
		v.Leaf = []byte{} // "" and not null
	}
	if v.Root, err = tlog.TreeHash(size, reader); err != nil {
		return v, err
	}
	if v.Path, err = tlog.ProveRecord(size, index, reader); err != nil {
		return v, err
	}
	if v.Path == nil {
		v.Path = tlog.RecordProof{}
	}
	return v, tlog.CheckRecord(v.Path, size, v.Root, index, tlog.RecordHash(v.Leaf))
}

func proveConsistency(reader tlog.HashReader, old, size int64) (v consistencyVector, err error) {
	v = consistencyVector{OldSize: old, Size: size}
	if v.OldRoot, err = tlog.TreeHash(old, reader); err != nil {
		return v, err
	}
	if v.Root, err = tlog.TreeHash(size, reader); err != nil {
		return v, err
	}
	if v.Path, err = tlog.ProveTree(size, old, reader); err != nil {
		return v, err
	}
	if v.Path == nil {
		v.Path = tlog.TreeProof{}
	}
	return v, tlog.CheckTree(v.Path, size, v.Root, old, v.OldRoot)
}
