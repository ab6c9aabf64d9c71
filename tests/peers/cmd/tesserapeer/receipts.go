package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/transparency-dev/tessera"
)

const (
	// What stands in the log is the body as sent, so its bound is that of a tlog-tiles entry.
	bodyBytesMax  = tessera.DefaultEntrySizeLimit
	batchBytesMax = 16 << 20
	batchLinesMax = 1000
)

type server struct {
	dir     string
	keys    *keyring
	add     tessera.AddFn
	awaiter *tessera.PublicationAwaiter
}

func (s *server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /log/{account}/receipts", s.postReceipts)
	mux.HandleFunc("GET /log/{account}/checkpoint", s.getFile)
	mux.HandleFunc("GET /log/{account}/tile/", s.getFile)
	return mux
}

// getFile serves the log's directory, whose layout is that of tlog-tiles.
func (s *server) getFile(w http.ResponseWriter, r *http.Request) {
	path := strings.TrimPrefix(r.URL.Path, "/log/"+r.PathValue("account")+"/")
	w.Header().Set("Content-Type", "application/octet-stream")
	if path == "checkpoint" {
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		w.Header().Set("Cache-Control", "no-store")
	}
	// OK because the mux has cleaned the path: no element of it is "..".
	body, err := os.ReadFile(filepath.Join(s.dir, path))
	if err != nil {
		http.Error(w, "not found", http.StatusNotFound)
		return
	}
	_, _ = w.Write(body)
}

// outcome is what became of one envelope.
type outcome struct {
	line    int
	future  tessera.IndexFuture
	index   tessera.Index
	refused *refusal
}

func (s *server) postReceipts(w http.ResponseWriter, r *http.Request) {
	state := r.URL.Query().Get("wait")
	if state == "" {
		state = "included"
	}
	if state != "sequenced" && state != "included" {
		writeProblem(w, malformed("wait must be sequenced or included"))
		return
	}
	mediaType := r.Header.Get("Content-Type")
	if parsed, _, err := mime.ParseMediaType(mediaType); err == nil {
		mediaType = parsed
	}
	switch mediaType {
	case "application/json", "application/vnd.dsse.envelope.v1+json":
		s.postOne(w, r, state)
	case "application/x-ndjson":
		s.postMany(w, r, state)
	default:
		writeProblem(w, &refusal{http.StatusUnsupportedMediaType, "UNSUPPORTED_MEDIA_TYPE", "send application/json or application/x-ndjson"})
	}
}

func (s *server) postOne(w http.ResponseWriter, r *http.Request, state string) {
	body, refused := readBody(r, bodyBytesMax)
	if refused == nil {
		refused = s.keys.admit(body)
	}
	if refused != nil {
		writeProblem(w, refused)
		return
	}
	out := outcome{future: s.add(r.Context(), tessera.NewEntry(body))}
	s.await(r.Context(), &out, state)
	if out.refused != nil {
		writeProblem(w, out.refused)
		return
	}
	w.Header()["Content-Type"] = []string{"application/json"}
	_, _ = w.Write(append(out.appendMembers([]byte{'{'}, state), '}'))
}

func (s *server) postMany(w http.ResponseWriter, r *http.Request, state string) {
	body, refused := readBody(r, batchBytesMax)
	if refused != nil {
		writeProblem(w, refused)
		return
	}
	var lines [][]byte
	var outs []outcome
	for n, line := range bytes.Split(body, []byte{'\n'}) {
		if line = bytes.TrimSpace(line); len(line) > 0 {
			lines, outs = append(lines, line), append(outs, outcome{line: n + 1})
		}
	}
	if len(lines) > batchLinesMax {
		writeProblem(w, &refusal{http.StatusRequestEntityTooLarge, "TOO_LARGE", "more than 1,000 lines"})
		return
	}
	s.admitAll(lines, outs)
	for i := range outs {
		if outs[i].refused == nil {
			outs[i].future = s.add(r.Context(), tessera.NewEntry(lines[i]))
		}
	}
	answer := make([]byte, 0, 64*len(outs))
	for i := range outs {
		s.await(r.Context(), &outs[i], state)
		answer = outs[i].appendLine(answer, state)
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	_, _ = w.Write(answer)
}

// admitAll judges the lines on all cores.
func (s *server) admitAll(lines [][]byte, outs []outcome) {
	var next atomic.Int64
	var done sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), len(lines)) {
		done.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(lines); i = int(next.Add(1)) - 1 {
				if len(lines[i]) > bodyBytesMax {
					outs[i].refused = &refusal{http.StatusRequestEntityTooLarge, "TOO_LARGE", "line of more than 65,535 bytes"}
				} else {
					outs[i].refused = s.keys.admit(lines[i])
				}
			}
		})
	}
	done.Wait()
}

// await blocks until the entry has the state asked for.
func (s *server) await(ctx context.Context, out *outcome, state string) {
	if out.refused != nil {
		return
	}
	var err error
	if state == "included" {
		out.index, _, err = s.awaiter.Await(ctx, out.future)
	} else {
		out.index, err = out.future()
	}
	if err != nil {
		out.refused = &refusal{http.StatusServiceUnavailable, "BUSY", err.Error()}
	}
}

func (o *outcome) appendMembers(b []byte, state string) []byte {
	b = strconv.AppendUint(append(b, `"index":`...), o.index.Index, 10)
	if o.index.IsDup {
		b = append(b, `,"duplicate":true`...)
	}
	return append(append(append(b, `,"state":"`...), state...), '"')
}

func (o *outcome) appendLine(b []byte, state string) []byte {
	b = strconv.AppendInt(append(b, `{"line":`...), int64(o.line), 10)
	if o.refused != nil {
		b = fmt.Appendf(b, `,"status":%d,`, o.refused.status)
		return append(o.refused.appendMembers(b), "}\n"...)
	}
	return append(o.appendMembers(append(b, `,"status":200,`...), state), "}\n"...)
}

func readBody(r *http.Request, bytesMax int64) ([]byte, *refusal) {
	if r.ContentLength > bytesMax {
		return nil, &refusal{http.StatusRequestEntityTooLarge, "TOO_LARGE", "body"}
	}
	var buffer bytes.Buffer
	if r.ContentLength > 0 {
		// Room for one read beyond the end, so that the buffer never grows.
		buffer.Grow(int(r.ContentLength) + bytes.MinRead)
	}
	n, err := buffer.ReadFrom(io.LimitReader(r.Body, bytesMax+1))
	switch {
	case err != nil:
		return nil, malformed("body: %v", err)
	case n > bytesMax:
		return nil, &refusal{http.StatusRequestEntityTooLarge, "TOO_LARGE", "body"}
	}
	return buffer.Bytes(), nil
}

func (r *refusal) appendMembers(b []byte) []byte {
	b = append(append(append(b, `"code":"`...), r.code...), `","message":`...)
	quoted, err := jsontext.AppendQuote(b, r.message)
	if err != nil {
		// Invalid UTF-8 in a library's message: the code says enough.
		return append(b, `""`...)
	}
	return quoted
}

func writeProblem(w http.ResponseWriter, r *refusal) {
	w.Header().Set("Content-Type", "application/problem+json")
	w.WriteHeader(r.status)
	_, _ = w.Write(append(r.appendMembers([]byte{'{'}), '}'))
}
