package main

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"path/filepath"

	"filippo.io/torchwood"
	"golang.org/x/crypto/ssh"
	"golang.org/x/crypto/ssh/agent"
	"zombiezen.com/go/sqlite"
	"zombiezen.com/go/sqlite/sqlitex"
)

// litewitness takes its key from an ssh-agent, which is served here as long as this process lives.
func litewitness(opts *options, key ed25519.PrivateKey, logs []enrolled) (args []string, vkey string, err error) {
	signer, err := torchwood.NewCosignatureSigner(opts.name, key)
	if err != nil {
		return nil, "", err
	}
	fingerprint, socket, err := serveAgent(opts.dir, key)
	if err != nil {
		return nil, "", err
	}
	database := filepath.Join(opts.dir, "litewitness.db")
	if err := enrol(database, logs); err != nil {
		return nil, "", fmt.Errorf("%s: %w", database, err)
	}
	return []string{
		"-name", opts.name, "-db", database, "-listen", opts.listen, "-ssh-agent", socket, "-key", fingerprint,
	}, signer.Verifier().String(), nil
}

func serveAgent(dir string, key ed25519.PrivateKey) (fingerprint, socket string, err error) {
	keyring := agent.NewKeyring()
	if err := keyring.Add(agent.AddedKey{PrivateKey: key}); err != nil {
		return "", "", err
	}
	public, err := ssh.NewPublicKey(key.Public())
	if err != nil {
		return "", "", err
	}
	socket = filepath.Join(dir, "agent.sock")
	_ = os.Remove(socket) // of an earlier run
	listener, err := net.Listen("unix", socket)
	if err != nil {
		return "", "", err
	}
	go func() {
		for {
			connection, err := listener.Accept()
			if err != nil {
				return
			}
			go func() { _ = agent.ServeAgent(keyring, connection) }()
		}
	}()
	return ssh.FingerprintSHA256(public), socket, nil
}

// schema is what litewitness makes itself in an empty database; its own tool for enrolling writes into it in the same way.
const schema = `
CREATE TABLE IF NOT EXISTS log (
	origin TEXT PRIMARY KEY,
	tree_size INTEGER NOT NULL,
	tree_hash TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS key (
	origin TEXT NOT NULL,
	key TEXT NOT NULL,
	FOREIGN KEY(origin) REFERENCES log(origin)
);
`

func enrol(path string, logs []enrolled) (err error) {
	db, err := sqlite.OpenConn(path)
	if err != nil {
		return err
	}
	defer func() {
		if closed := db.Close(); err == nil {
			err = closed
		}
	}()
	if err := sqlitex.ExecScript(db, schema); err != nil {
		return err
	}
	defer sqlitex.Transaction(db)(&err)
	empty := sha256.Sum256(nil)
	root := base64.StdEncoding.EncodeToString(empty[:])
	for _, log := range logs {
		added := &sqlitex.ExecOptions{Args: []any{log.origin, root}}
		if err := sqlitex.Execute(db, "INSERT OR IGNORE INTO log (origin, tree_size, tree_hash) VALUES (?, 0, ?)", added); err != nil {
			return err
		}
		keyed := &sqlitex.ExecOptions{Args: []any{log.origin, log.vkey, log.origin, log.vkey}}
		const key = "INSERT INTO key (origin, key) SELECT ?, ? WHERE NOT EXISTS (SELECT 1 FROM key WHERE origin = ? AND key = ?)"
		if err := sqlitex.Execute(db, key, keyed); err != nil {
			return err
		}
	}
	return nil
}
