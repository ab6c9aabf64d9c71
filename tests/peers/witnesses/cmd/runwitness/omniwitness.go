package main

import (
	"bytes"
	"crypto/ed25519"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	f_note "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"
)

// omniwitness takes its key as a note key in a file, and logs as YAML beside those that are built into it.
func omniwitness(opts *options, key ed25519.PrivateKey, logs []enrolled) (args []string, vkey string, err error) {
	skey, vkey, err := note.GenerateKey(bytes.NewReader(key.Seed()), opts.name)
	if err != nil {
		return nil, "", err
	}
	if vkey, err = f_note.VKeyToCosignatureV1(vkey); err != nil {
		return nil, "", err
	}
	keyFile, logsFile := filepath.Join(opts.dir, "key"), filepath.Join(opts.dir, "logs.yaml")
	var list strings.Builder
	list.WriteString("Logs:\n")
	for _, log := range logs {
		fmt.Fprintf(&list, "  - Origin: %q\n    PublicKey: %q\n    URL: \"http://log.example.com/\"\n", log.origin, log.vkey)
	}
	if err := os.WriteFile(keyFile, []byte(skey), 0o600); err != nil {
		return nil, "", err
	}
	if err := os.WriteFile(logsFile, []byte(list.String()), 0o600); err != nil {
		return nil, "", err
	}
	args = []string{
		"--private_key_path", keyFile, "--listen", opts.listen, "--metrics_listen", "", "--db_file", filepath.Join(opts.dir, "omniwitness.db"),
		"--logtostderr",
	}
	if len(logs) > 0 {
		args = append(args, "--additional_logs", logsFile)
	}
	return args, vkey, nil
}
