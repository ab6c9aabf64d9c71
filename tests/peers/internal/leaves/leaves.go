// Package leaves reads and names the files `<index>.leaf` in which the peers hand over entries.
package leaves

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

const suffix = ".leaf"

// Path names the file of the entry at index in dir.
func Path(dir string, index uint64) string {
	return filepath.Join(dir, strconv.FormatUint(index, 10)+suffix)
}

// Read returns the contents of every `<index>.leaf` in dir by index; other files are ignored.
func Read(dir string) (map[uint64][]byte, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*"+suffix))
	if err != nil {
		return nil, err
	}
	all := make(map[uint64][]byte, len(names))
	for _, name := range names {
		stem := strings.TrimSuffix(filepath.Base(name), suffix)
		index, err := strconv.ParseUint(stem, 10, 63)
		if err != nil || strconv.FormatUint(index, 10) != stem {
			return nil, fmt.Errorf("%s: the name must be <index>%s", name, suffix)
		}
		if all[index], err = os.ReadFile(name); err != nil {
			return nil, err
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s: no file <index>%s", dir, suffix)
	}
	return all, nil
}
