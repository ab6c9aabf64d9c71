// Package peers_test runs the built commands against each other, as the suites that use them do.
package peers_test

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	f_note "github.com/transparency-dev/formats/note"
	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"
)

var bin string

func TestMain(m *testing.M) {
	code, err := buildAndRun(m)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

func buildAndRun(m *testing.M) (int, error) {
	var err error
	if bin, err = os.MkdirTemp("", "peers"); err != nil {
		return 1, err
	}
	defer os.RemoveAll(bin)
	if out, err := exec.Command("go", "build", "-o", bin, "./cmd/...").CombinedOutput(); err != nil {
		return 1, fmt.Errorf("go build: %w\n%s", err, out)
	}
	return m.Run(), nil
}

// TestSourcesAreSeen opens what the commands are built of: go test answers from its cache unless a file
// that a test opened has changed, and it sees neither what a child process nor what TestMain reads.
func TestSourcesAreSeen(t *testing.T) {
	for _, pattern := range []string{"cmd/*/*.go", "internal/*/*.go", "go.*"} {
		names, err := filepath.Glob(pattern)
		if err != nil || len(names) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		for _, name := range names {
			if _, err := os.ReadFile(name); err != nil {
				t.Error(err)
			}
		}
	}
}

// run gives what a command printed and its exit code.
func run(t *testing.T, name string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs bytes.Buffer
	cmd := exec.Command(filepath.Join(bin, name), args...)
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

type written struct {
	VKey, Origin string
	Size         int64
	Root         tlog.Hash
}

func writeLog(t *testing.T, dir string, args ...string) (w written) {
	t.Helper()
	stdout, stderr, code := run(t, "writelog", append([]string{"-dir", dir, "-origin", "example.com/peer"}, args...)...)
	if code != 0 {
		t.Fatalf("writelog: exit %d: %s", code, stderr)
	}
	if err := json.Unmarshal([]byte(stdout), &w); err != nil {
		t.Fatalf("writelog: %v in %q", err, stdout)
	}
	return w
}

func serveDir(t *testing.T, dir string) string {
	server := httptest.NewServer(http.FileServer(http.Dir(dir)))
	t.Cleanup(server.Close)
	return server.URL
}

// readLog demands that readlog holds, and returns its summary.
func readLog(t *testing.T, args ...string) map[string]any {
	t.Helper()
	stdout, stderr, code := run(t, "readlog", args...)
	if code != 0 {
		t.Fatalf("readlog: exit %d: %s", code, stderr)
	}
	var found map[string]any
	if err := json.Unmarshal([]byte(stdout), &found); err != nil || strings.Count(stdout, "\n") != 1 {
		t.Fatalf("readlog: %v in %q", err, stdout)
	}
	return found
}

// fsckLog demands that Tessera's fsck finds nothing.
func fsckLog(t *testing.T, args ...string) (held map[string]any) {
	t.Helper()
	stdout, stderr, code := run(t, "fscklog", args...)
	if code != 0 {
		t.Fatalf("fscklog: exit %d: %s", code, stderr)
	}
	if err := json.Unmarshal([]byte(stdout), &held); err != nil {
		t.Fatalf("fscklog: %v in %q", err, stdout)
	}
	return held
}

func TestFsckFindsDamage(t *testing.T) {
	flip := func(b []byte) []byte { b[len(b)-1] ^= 1; return b }
	for _, file := range []string{"tile/entries/000", "tile/0/000", "tile/1/000.p/1", "checkpoint"} {
		dir := filepath.Join(t.TempDir(), "log")
		w := writeLog(t, dir, "-entries", "300")
		change(t, filepath.Join(dir, file), flip)
		if _, stderr, code := run(t, "fscklog", dir, w.VKey); code != 1 {
			t.Errorf("%s: exit %d, %s", file, code, stderr)
		}
	}
}

func TestRekorEntries(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	w := writeLog(t, dir, "-rekor", "-entries", "3")
	fsckLog(t, dir, w.VKey)
	raw, err := os.ReadFile(filepath.Join(dir, "tile/entries/000.p/3"))
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		size := int(raw[0])<<8 | int(raw[1])
		var entry struct {
			APIVersion, Kind string
			Spec             map[string]any
		}
		if err := json.Unmarshal(raw[2:2+size], &entry); err != nil || entry.APIVersion != "0.0.2" || len(entry.Spec) != 1 {
			t.Errorf("%v in %s", err, raw[2:2+size])
		}
		raw = raw[2+size:]
	}
}

func TestWrittenLogsAreRead(t *testing.T) {
	for _, c := range []struct{ size, bundles, tiles, proofs float64 }{
		{0, 0, 0, 0},
		{1, 1, 1, 1},
		{2, 1, 1, 2},
		{255, 1, 1, 255},
		{256, 1, 2, 256},
		{257, 2, 3, 257},
		{600, 3, 4, 600},
		{2345, 10, 11, 2000},
	} {
		t.Run(fmt.Sprint(c.size), func(t *testing.T) {
			t.Parallel()
			dir, proofs := filepath.Join(t.TempDir(), "log"), t.TempDir()
			args := []string{"-entries", fmt.Sprint(c.size)}
			if c.size > 0 {
				args = append(args, "-proofs", proofs)
			}
			w := writeLog(t, dir, args...)
			read := []string{serveDir(t, dir), w.VKey, "-size", fmt.Sprint(c.size)}
			if c.size > 0 {
				read = append(read, "-leaves", proofs)
				checkProofs(t, proofs, w)
			}
			found := readLog(t, read...)
			for key, want := range map[string]any{
				"size": c.size, "entries": c.size, "bundles": c.bundles, "tiles": c.tiles, "inclusion_checked": c.proofs, "root": w.Root.String(),
			} {
				if found[key] != want {
					t.Errorf("%s = %v, want %v", key, found[key], want)
				}
			}
			if c.size > 0 && found["consistency_checked"].(float64) < 1 {
				t.Error("no consistency proof checked")
			}
			for _, log := range []string{read[0], dir} {
				if held := fsckLog(t, log, w.VKey); held["size"] != c.size {
					t.Errorf("fsck of %s: %v", log, held)
				}
			}
		})
	}
}

// checkProofs reads every tlog-proof of a folder by c2sp.org/tlog-proof, and its leaf.
func checkProofs(t *testing.T, dir string, w written) {
	t.Helper()
	policy, err := os.ReadFile(filepath.Join(dir, "policy"))
	if err != nil || string(policy) != "log "+w.VKey+"\nquorum none\n" {
		t.Errorf("policy %q, %v", policy, err)
	}
	names, _ := filepath.Glob(filepath.Join(dir, "*.tlog-proof"))
	if len(names) == 0 {
		t.Error("no proofs")
	}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		leaf, err := os.ReadFile(strings.TrimSuffix(name, ".tlog-proof") + ".leaf")
		if err != nil {
			t.Fatal(err)
		}
		head, checkpoint, _ := strings.Cut(string(text), "\n\n")
		lines := strings.Split(head, "\n")
		var index int64
		if _, err := fmt.Sscanf(lines[1], "index %d", &index); err != nil || lines[0] != "c2sp.org/tlog-proof@v1" {
			t.Fatalf("%s: %q", name, head)
		}
		path := tlog.RecordProof{}
		for _, line := range lines[2:] {
			hash, err := tlog.ParseHash(line)
			if err != nil {
				t.Fatal(err)
			}
			path = append(path, hash)
		}
		if err := tlog.CheckRecord(path, w.Size, w.Root, index, tlog.RecordHash(leaf)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if !strings.HasPrefix(checkpoint, fmt.Sprintf("%s\n%d\n%v\n\n", w.Origin, w.Size, w.Root)) {
			t.Errorf("%s: checkpoint %q", name, checkpoint)
		}
	}
}

func TestGivenLeavesAreLogged(t *testing.T) {
	leaves, dir := t.TempDir(), filepath.Join(t.TempDir(), "log")
	for i := range 3 {
		if err := os.WriteFile(filepath.Join(leaves, fmt.Sprintf("%d.leaf", i)), fmt.Appendf(nil, `{"n":%d}`, i), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w := writeLog(t, dir, "-leaves", leaves)
	if found := readLog(t, serveDir(t, dir), w.VKey, "-leaves", leaves); found["leaves_compared"] != 3.0 {
		t.Errorf("%v", found)
	}
}

func TestDamageIsFound(t *testing.T) {
	other := writeLog(t, filepath.Join(t.TempDir(), "other"), "-entries", "1", "-seed", strings.Repeat("ab", 32))
	flip := func(b []byte) []byte { b[len(b)-1] ^= 1; return b }
	cut := func(b []byte) []byte { return b[:len(b)-32] }
	lengthen := func(b []byte) []byte { return append(b, 0) }
	shrink := func(b []byte) []byte { return bytes.Replace(b, []byte("\n300\n"), []byte("\n299\n"), 1) }
	for name, c := range map[string]struct {
		file   string
		damage func([]byte) []byte // nil: remove the file
		args   []string
		vkey   string
		want   string
	}{
		"an entry":          {file: "tile/entries/000", damage: flip, want: "the 300 entries have root"},
		"a full tile":       {file: "tile/0/000", damage: flip, want: "tile/0/000 (width 256): differs"},
		"a partial tile":    {file: "tile/1/000.p/1", damage: flip, want: "tile/1/000 (width 1): differs"},
		"a missing bundle":  {file: "tile/entries/001.p/44", want: "tile/entries/001.p/44: neither"},
		"a missing tile":    {file: "tile/0/001.p/44", want: "tile/0/001.p/44: neither"},
		"a trailing byte":   {file: "tile/entries/001.p/44", damage: lengthen, want: "1 bytes after entry 43"},
		"a cut bundle":      {file: "tile/entries/000", damage: cut, want: "ends within entry 255 of 256"},
		"a cut tile":        {file: "tile/0/000", damage: cut, want: "8160 bytes, expected 8192"},
		"the checkpoint":    {file: "checkpoint", damage: shrink, want: "checkpoint: invalid signature"},
		"another key":       {vkey: other.VKey, want: "checkpoint: note has no verifiable signatures"},
		"another size":      {args: []string{"-size", "301"}, want: "size 300, expected 301"},
		"another origin":    {args: []string{"-origin", "example.com/other"}, want: `expected "example.com/other"`},
		"a missing witness": {args: []string{"-witness", other.VKey}, want: "no signature by example.com/peer"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "log")
			w := writeLog(t, dir, "-entries", "300")
			if c.file != "" {
				change(t, filepath.Join(dir, c.file), c.damage)
			}
			if c.vkey == "" {
				c.vkey = w.VKey
			}
			_, stderr, code := run(t, "readlog", append(c.args, serveDir(t, dir), c.vkey)...)
			if code != 1 || !strings.Contains(stderr, c.want) {
				t.Errorf("exit %d, %q, want %q", code, stderr, c.want)
			}
		})
	}
}

func change(t *testing.T, name string, how func([]byte) []byte) {
	t.Helper()
	raw, err := os.ReadFile(name)
	if err == nil {
		err = os.Remove(name)
	}
	if err == nil && how != nil {
		err = os.WriteFile(name, how(raw), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestCosignatureIsChecked(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "log")
	w := writeLog(t, dir, "-entries", "3")
	skey, vkey, err := note.GenerateKey(rand.Reader, "example.com/witness")
	if err != nil {
		t.Fatal(err)
	}
	witness, err := f_note.NewSignerForCosignatureV1(skey)
	if err != nil {
		t.Fatal(err)
	}
	change(t, filepath.Join(dir, "checkpoint"), func(raw []byte) []byte {
		log, _ := note.NewVerifier(w.VKey)
		opened, err := note.Open(raw, note.VerifierList(log))
		if err == nil {
			raw, err = note.Sign(opened, witness)
		}
		if err != nil {
			t.Fatal(err)
		}
		return raw
	})
	url := serveDir(t, dir)
	if found := readLog(t, url, w.VKey, "-witness", vkey); found["cosignatures"] != 1.0 {
		t.Errorf("%v", found)
	}
	readLog(t, url, w.VKey) // an unknown line is no error
	change(t, filepath.Join(dir, "checkpoint"), func(raw []byte) []byte {
		at := bytes.LastIndexByte(raw[:len(raw)-10], ' ') + 20 // within the witness's signature
		raw[at] = 'A' + (raw[at]+1)%26
		return raw
	})
	if _, stderr, code := run(t, "readlog", url, w.VKey, "-witness", vkey); code != 1 || !strings.Contains(stderr, "invalid signature") {
		t.Errorf("exit %d, %q", code, stderr)
	}
}

func TestVectorsAreReproducible(t *testing.T) {
	a, b := filepath.Join(t.TempDir(), "a"), filepath.Join(t.TempDir(), "b")
	for _, name := range []string{a, b} {
		if _, stderr, code := run(t, "writelog", "-vectors", name, "-vector-count", "20", "-vector-size-max", "300"); code != 0 {
			t.Fatal(stderr)
		}
	}
	textA, _ := os.ReadFile(a)
	textB, _ := os.ReadFile(b)
	var all struct{ Inclusion, Consistency []any }
	if err := json.Unmarshal(textA, &all); err != nil || !bytes.Equal(textA, textB) {
		t.Errorf("%v; equal: %t", err, bytes.Equal(textA, textB))
	}
	if len(all.Inclusion) != 20 || len(all.Consistency) != 20 {
		t.Errorf("%d and %d vectors", len(all.Inclusion), len(all.Consistency))
	}
}
