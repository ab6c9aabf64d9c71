package peers_test

import (
	"bufio"
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// envelope signs a DSSE envelope around the payload; the encoding of its base64 is the caller's.
func envelope(key ed25519.PrivateKey, payload string, encoding *base64.Encoding) string {
	const payloadType = "text/plain"
	message := fmt.Sprintf("DSSEv1 %d %s %d %s", len(payloadType), payloadType, len(payload), payload)
	return fmt.Sprintf(`{"payloadType":%q,"payload":%q,"signatures":[{"sig":%q}],"extra":1}`,
		payloadType, encoding.EncodeToString([]byte(payload)), encoding.EncodeToString(ed25519.Sign(key, []byte(message))))
}

// startPeer runs tesserapeer until the test ends, and returns its log's prefix and vkey.
func startPeer(t *testing.T, args ...string) (prefix, vkey string, stop func()) {
	t.Helper()
	cmd := exec.Command(filepath.Join(bin, "tesserapeer"), args...)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	line, _ := bufio.NewReader(out).ReadString('\n')
	if _, err := fmt.Sscanf(line, "ready %s vkey=%s\n", &prefix, &vkey); err != nil {
		t.Fatalf("%q: %v", line, err)
	}
	return prefix + "/log/peer", vkey, func() {
		t.Helper()
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("after SIGTERM: %v", err)
		}
	}
}

func post(t *testing.T, url, contentType, body string) (int, string) {
	t.Helper()
	resp, err := http.Post(url, contentType, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(answer)
}

func TestPeerAdmitsLogsAndPublishes(t *testing.T) {
	key, stranger := ed25519.NewKeyFromSeed(make([]byte, 32)), ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, 32))
	keys, dir, leaves := filepath.Join(t.TempDir(), "keys"), filepath.Join(t.TempDir(), "log"), t.TempDir()
	line := base64.StdEncoding.EncodeToString(key.Public().(ed25519.PublicKey)) + "\n"
	if err := os.WriteFile(keys, []byte(line), 0o600); err != nil {
		t.Fatal(err)
	}
	prefix, vkey, stop := startPeer(t, "-dir", dir, "-keys", keys, "-dedup", "100")

	spki, _ := x509.MarshalPKIXPublicKey(key.Public())
	keyID := fmt.Sprintf("id_%x", sha256.Sum256(spki))
	good := envelope(key, "one??>", base64.StdEncoding)
	again := envelope(key, "two??>", base64.URLEncoding)
	hinted := strings.Replace(good, `"sig"`, `"keyid":"`+keyID+`","sig"`, 1)
	bad := strings.Replace(good, `"sig":"`, `"sig":"AAAA`, 1)
	for _, c := range []struct {
		query, contentType, body string
		status                   int
		want                     string
	}{
		{"?wait=included", "application/json", good, 200, `{"index":0,"state":"included"}`},
		{"?wait=sequenced", "application/json; charset=utf-8", again, 200, `{"index":1,"state":"sequenced"}`},
		{"", "application/json", good, 200, `{"index":0,"duplicate":true,"state":"included"}`},
		{"", "application/json", envelope(stranger, "x", base64.StdEncoding), 401, `"code":"SIGNER_UNKNOWN"`},
		{"", "application/json", bad, 401, `"code":"SIGNER_UNKNOWN"`},
		{"", "application/json", strings.Replace(hinted, `"sig":"`, `"sig":"AAAA`, 1), 422, `"code":"SIGNATURE_INVALID"`},
		{"?wait=sequenced", "application/json", hinted, 200, `{"index":2,"state":"sequenced"}`},
		{"", "application/json", strings.Replace(good, `"extra"`, `"payload"`, 1), 400, `"code":"MALFORMED"`},
		{"", "application/json", "{", 400, `"code":"MALFORMED"`},
		{"", "application/json", strings.Repeat(" ", 70_000), 413, `"code":"TOO_LARGE"`},
		{"?wait=witnessed", "application/json", good, 400, `"code":"MALFORMED"`},
		{"", "text/plain", good, 415, `"code":"UNSUPPORTED_MEDIA_TYPE"`},
		{"?wait=included", "application/x-ndjson", again + "\n\n" + "[]\n" + envelope(key, "three", base64.StdEncoding), 200,
			`{"line":1,"status":200,"index":1,"duplicate":true,"state":"included"}` + "\n" + `{"line":3,"status":400,`},
	} {
		status, answer := post(t, prefix+"/receipts"+c.query, c.contentType, c.body)
		if status != c.status || !strings.Contains(answer, c.want) {
			t.Errorf("%s %.40s: %d %s, want %d %s", c.query, c.body, status, answer, c.status, c.want)
		}
	}
	for i, leaf := range []string{good, again, hinted, envelope(key, "three", base64.StdEncoding)} {
		if err := os.WriteFile(filepath.Join(leaves, fmt.Sprintf("%d.leaf", i)), []byte(leaf), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	readLog(t, prefix, vkey, "-size", "4", "-leaves", leaves)

	// What was sequenced when the signal came must stand under the last checkpoint.
	var many strings.Builder
	for i := range 700 {
		many.WriteString(envelope(key, fmt.Sprint("many ", i), base64.StdEncoding) + "\n")
	}
	status, answer := post(t, prefix+"/receipts?wait=sequenced", "application/x-ndjson", many.String())
	if status != 200 || strings.Count(answer, `"status":200`) != 700 {
		t.Errorf("%d %.200s", status, answer)
	}
	stop()
	readLog(t, serveDir(t, dir), vkey, "-size", "704", "-leaves", leaves)
}
