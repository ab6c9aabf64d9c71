// Command tesserapeer is the peer of Countersign's benches: Tessera's POSIX driver behind the admission
// of `POST /log/<account>/receipts`. Its defaults are sound, not proven fastest: see README.md.
//
// It prints `ready URL vkey=VKEY` on standard output when it accepts requests, and ends on SIGTERM or
// SIGINT once everything admitted is under a published checkpoint.
package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/transparency-dev/tessera"
	"github.com/transparency-dev/tessera/storage/posix"
	"golang.org/x/mod/sumdb/note"
)

type options struct {
	listen, dir, keys, origin          string
	batchSize, dedup                   uint
	batchAge, checkpointInterval, poll time.Duration
	gcPercent                          int
}

func main() {
	opts := &options{}
	flag.StringVar(&opts.listen, "listen", "127.0.0.1:0", "address to listen on; port 0 picks one")
	flag.StringVar(&opts.dir, "dir", "", "directory of the log; made where absent")
	flag.StringVar(&opts.keys, "keys", "", "file of enrolled Ed25519 public keys: one base64 raw key a line")
	flag.StringVar(&opts.origin, "origin", "localhost/peer", "origin and key name; the key itself is new at every start")
	flag.UintVar(&opts.batchSize, "batch-size", 256, "entries that close a batch")
	flag.DurationVar(&opts.batchAge, "batch-age", 10*time.Millisecond, "age that closes a batch")
	flag.DurationVar(&opts.checkpointInterval, "checkpoint-interval", 100*time.Millisecond, "time between checkpoints (the driver refuses less than 100ms)")
	flag.DurationVar(&opts.poll, "poll", 10*time.Millisecond, "how often the awaiter looks for a new checkpoint")
	flag.UintVar(&opts.dedup, "dedup", 0, "entries remembered in memory to find duplicates; 0 turns that off")
	flag.IntVar(&opts.gcPercent, "gc-percent", 400, "GOGC")
	flag.Parse()
	if opts.dir == "" || opts.keys == "" || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "tesserapeer: -dir and -keys are required, arguments are not taken")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := run(ctx, opts); err != nil {
		fmt.Fprintln(os.Stderr, "tesserapeer:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, opts *options) error {
	debug.SetGCPercent(opts.gcPercent)
	keys, err := readKeys(opts.keys)
	if err != nil {
		return err
	}
	skey, vkey, err := note.GenerateKey(rand.Reader, opts.origin)
	if err != nil {
		return err
	}
	signer, err := note.NewSigner(skey)
	if err != nil {
		return err
	}
	// The driver outlives ctx: it must still publish what was admitted before the signal.
	driverCtx, cancel := context.WithCancel(context.Background())
	defer cancel()
	driver, err := posix.New(driverCtx, posix.Config{Path: opts.dir})
	if err != nil {
		return err
	}
	settings := tessera.NewAppendOptions().
		WithCheckpointSigner(signer).
		WithBatching(opts.batchSize, opts.batchAge).
		WithCheckpointInterval(opts.checkpointInterval)
	if opts.dedup > 0 {
		settings = settings.WithAntispam(opts.dedup, nil)
	}
	appender, shutdown, reader, err := tessera.NewAppender(driverCtx, driver, settings)
	if err != nil {
		return err
	}
	s := &server{
		dir:     opts.dir,
		keys:    keys,
		add:     appender.Add,
		awaiter: tessera.NewPublicationAwaiter(driverCtx, reader.ReadCheckpoint, opts.poll),
	}
	if err := serve(ctx, opts.listen, vkey, s.routes()); err != nil {
		return err
	}
	return shutdown(driverCtx)
}

// serve answers until ctx ends, then lets the requests under way finish.
func serve(ctx context.Context, listen, vkey string, handler http.Handler) error {
	listener, err := net.Listen("tcp", listen)
	if err != nil {
		return err
	}
	srv := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- srv.Serve(listener) }()
	fmt.Printf("ready http://%s vkey=%s\n", listener.Addr(), vkey)
	select {
	case err := <-failed:
		return err
	case <-ctx.Done():
	}
	ending, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := srv.Shutdown(ending); err != nil {
		return err
	}
	if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}
