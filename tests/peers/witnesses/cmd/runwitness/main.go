// Command runwitness runs a foreign witness on a directory: it makes a key, enrols logs, starts the witness's own
// executable, and ends it with itself.
//
//	runwitness -dir DIR [-name NAME] [-logs FILE] [-listen ADDR] [-binary PATH]
//
// FILE has a log's vkey a line; what is enrolled already stays as it is. The executable is a `litewitness` or an `omniwitness`, by its
// name; without -binary it is the litewitness beside this command. Once requests are accepted, one line is printed:
//
//	ready http://ADDR name=NAME vkey=VKEY
//
// The directory holds the key's seed and the witness's database; a copy of it is an older state of that witness.
package main

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"time"

	"golang.org/x/mod/sumdb/note"
)

const readyWithin = time.Minute

type options struct {
	dir, name, logs, listen, binary string
}

func main() {
	// A child gets the signal of a parent's end when the thread that started it ends; this one lives as long as the process.
	runtime.LockOSThread()
	opts := &options{}
	flag.StringVar(&opts.dir, "dir", "", "directory of the witness; made where it is absent")
	flag.StringVar(&opts.name, "name", "witness.example.com/peer", "the witness's name")
	flag.StringVar(&opts.logs, "logs", "", "file with a vkey a line: the logs to enrol")
	flag.StringVar(&opts.listen, "listen", "", "where it listens; picked if absent")
	flag.StringVar(&opts.binary, "binary", "", "the witness's executable")
	flag.Parse()
	if opts.dir == "" || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "runwitness: give -dir, and no arguments")
		os.Exit(2)
	}
	if err := run(opts); err != nil {
		fmt.Fprintln(os.Stderr, "runwitness:", err)
		os.Exit(1)
	}
}

func run(opts *options) error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if opts.binary == "" {
		own, err := os.Executable()
		if err != nil {
			return err
		}
		opts.binary = filepath.Join(filepath.Dir(own), "litewitness")
	}
	if err := os.MkdirAll(opts.dir, 0o700); err != nil {
		return err
	}
	key, err := keyOf(filepath.Join(opts.dir, "seed"))
	if err != nil {
		return err
	}
	logs, err := readLogs(opts.logs)
	if err != nil {
		return err
	}
	if opts.listen == "" {
		if opts.listen, err = freeAddress(); err != nil {
			return err
		}
	}
	prepare := litewitness
	if strings.HasPrefix(filepath.Base(opts.binary), "omniwitness") {
		prepare = omniwitness
	}
	args, vkey, err := prepare(opts, key, logs)
	if err != nil {
		return err
	}
	child := exec.Command(opts.binary, args...)
	child.Stderr = os.Stderr
	child.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := child.Start(); err != nil {
		return err
	}
	ended := make(chan error, 1)
	go func() { ended <- child.Wait() }()
	if err := accepts(opts.listen, ended); err != nil {
		_ = child.Process.Kill()
		return err
	}
	fmt.Printf("ready http://%s name=%s vkey=%s\n", opts.listen, opts.name, vkey)
	select {
	case err := <-ended:
		return fmt.Errorf("%s ended: %w", opts.binary, errors.Join(err, errors.New("by itself")))
	case <-ctx.Done():
	}
	// Interrupt is what both end on; whoever does not within the time is killed with this process.
	_ = child.Process.Signal(os.Interrupt)
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
	}
	return nil
}

// keyOf reads a seed, or makes one.
func keyOf(path string) (ed25519.PrivateKey, error) {
	seed, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		seed = make([]byte, ed25519.SeedSize)
		_, _ = rand.Read(seed) // never fails
		err = os.WriteFile(path, seed, 0o600)
	}
	if err == nil && len(seed) != ed25519.SeedSize {
		err = fmt.Errorf("%s: %d bytes", path, len(seed))
	}
	if err != nil {
		return nil, err
	}
	return ed25519.NewKeyFromSeed(seed), nil
}

// enrolled is a log that the witness is to know; its origin is its key's name.
type enrolled struct{ origin, vkey string }

func readLogs(path string) ([]enrolled, error) {
	if path == "" {
		return nil, nil
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var logs []enrolled
	for vkey := range strings.Lines(string(raw)) {
		verifier, err := note.NewVerifier(strings.TrimSuffix(vkey, "\n"))
		if err != nil {
			return nil, fmt.Errorf("%s: %q: %w", path, vkey, err)
		}
		logs = append(logs, enrolled{verifier.Name(), strings.TrimSuffix(vkey, "\n")})
	}
	return logs, nil
}

func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer listener.Close()
	return listener.Addr().String(), nil
}

// accepts waits until connections are accepted.
func accepts(address string, ended chan error) error {
	for begun := time.Now(); time.Since(begun) < readyWithin; {
		connection, err := net.Dial("tcp", address)
		if err == nil {
			return connection.Close()
		}
		select {
		case err := <-ended:
			return fmt.Errorf("ended before it was ready: %w", errors.Join(err, errors.New("by itself")))
		case <-time.After(10 * time.Millisecond):
		}
	}
	return fmt.Errorf("nothing accepts connections at %s", address)
}
