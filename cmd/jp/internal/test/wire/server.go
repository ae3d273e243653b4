// Package wire is a model provider on a local socket: a real HTTP server that speaks
// Anthropic's Messages API, OpenAI's chat completions and its Responses API, all streaming. What it
// answers comes from any model.Stream, usually a script (package script, where the format is
// described); what it is asked can be logged for tests to read. It shares no code with the
// providers, so both sides would have to be wrong in the same way to agree on an error.
//
// Over the wire a script does not see the profile of a request; rules tell agents apart by
// system, query or variant ("fast#variant" as the model). Turn and round are counted from the
// thread, the attempt from the header with which SDKs number their retries.
//
// Errors of a script become error statuses, or error events once something was said; those of
// kind network and stream cut the connection, and idle means silence. Its faults do what they
// say.
package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/model/script"
)

// Entry is one request as it is logged, one JSON object per line.
type Entry struct {
	Method string          `json:"method"`
	Path   string          `json:"path"`
	Header http.Header     `json:"header"`
	Body   json.RawMessage `json:"body"` // null when it is no JSON
}

// Options of a server. The zero value works.
type Options struct {
	Addr string    // to listen on; "" = a free port of 127.0.0.1
	Log  io.Writer // gets an Entry per request; nil = nobody
}

// Server is a running server. Safe for concurrent use.
type Server struct {
	URL string // "http://127.0.0.1:1234", where both formats are served

	http    http.Server
	handler *handler
	done    chan struct{}
}

// Start serves answers of s until Close.
func Start(s model.Stream, o Options) (*Server, error) {
	addr := o.Addr
	if addr == "" {
		addr = "127.0.0.1:0"
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("model server: %w", err)
	}
	h := &handler{stream: s, log: o.Log}
	server := &Server{URL: "http://" + l.Addr().String(), handler: h, done: make(chan struct{})}
	server.http = http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		defer close(server.done)
		_ = server.http.Serve(l) // ends with Close
	}()
	return server, nil
}

// Requests returns what was asked so far, in order of arrival.
func (s *Server) Requests() []Entry {
	s.handler.mu.Lock()
	defer s.handler.mu.Unlock()
	return append([]Entry(nil), s.handler.entries...)
}

// Close cuts all connections and waits for the server to end.
func (s *Server) Close() error {
	err := s.http.Close()
	<-s.done
	return err
}

// handler serves both formats.
type handler struct {
	stream model.Stream

	mu      sync.Mutex
	log     io.Writer
	entries []Entry
}

// maxRequest bounds the body of a request, in bytes.
const maxRequest = 64 << 20

func (h *handler) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, maxRequest))
	if err != nil {
		http.Error(w, err.Error(), http.StatusRequestEntityTooLarge)
		return
	}
	if err := h.record(req, body); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}

	var f format
	switch {
	case strings.HasSuffix(req.URL.Path, "/v1/messages"):
		f = &anthropic{}
	case strings.HasSuffix(req.URL.Path, "/chat/completions"):
		f = &openai{}
	case strings.HasSuffix(req.URL.Path, "/v1/responses"):
		f = &responses{}
	case strings.HasSuffix(req.URL.Path, "/models") && req.Method == http.MethodGet:
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"object":"list","data":[{"id":"wire","object":"model"}]}`)
		return
	default:
		http.Error(w, "not found", http.StatusNotFound)
		return
	}
	if req.Method != http.MethodPost {
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	r, err := f.request(body)
	if err == nil {
		err = r.Check()
	}
	if err != nil {
		h.refuse(w, f, &model.Error{Kind: model.KindBadRequest, Status: http.StatusBadRequest, Message: err.Error()})
		return
	}
	retries, _ := strconv.Atoi(req.Header.Get("X-Stainless-Retry-Count")) // absent = the first
	r.Attempt = retries + 1
	count(&r)

	out := &events{w: w, flush: http.NewResponseController(w)}
	for p, err := range h.stream(req.Context(), r) {
		if err == nil {
			err = f.part(out, r, p)
		}
		if err != nil {
			h.fail(req.Context(), out, f, err)
			return
		}
	}
}

// record logs a request.
func (h *handler) record(req *http.Request, body []byte) error {
	e := Entry{Method: req.Method, Path: req.URL.Path, Header: req.Header, Body: body}
	if !json.Valid(body) {
		e.Body = json.RawMessage("null")
	}
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.entries = append(h.entries, e)
	if h.log != nil {
		if _, err := h.log.Write(append(line, '\n')); err != nil {
			return err
		}
	}
	return nil
}

// count sets turn and round from the thread.
func count(r *model.Request) {
	for _, m := range r.Messages {
		switch m.Role {
		case model.User:
			r.Turn++
			r.Round = 1
		case model.Assistant:
			r.Round++
		}
	}
}

// fail ends a reply with an error, in the way that the error says.
func (h *handler) fail(ctx context.Context, out *events, f format, err error) {
	if ctx.Err() != nil {
		return // the client has left
	}
	var (
		e     *model.Error
		fault script.Fault
	)
	if !errors.As(err, &e) {
		e = &model.Error{Kind: model.KindServer, Status: http.StatusInternalServerError, Message: err.Error()}
	}
	errors.As(err, &fault)
	switch {
	case fault == script.HTML && !out.begun:
		out.w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = io.WriteString(out.w, "<html><body>Sign in to continue</body></html>")
		return
	case fault == script.Redirect && !out.begun:
		out.w.Header().Set("Location", "http://elsewhere.invalid/v1/")
		out.w.WriteHeader(http.StatusTemporaryRedirect)
		return
	case fault == script.Malformed:
		_ = out.raw("event: content_block_delta\ndata: {\"type\": \"content_bl\n\n")
		return
	case e.Kind == model.KindIdle:
		<-ctx.Done()
		return
	case fault == "" && e.Kind != model.KindNetwork && e.Kind != model.KindStream:
		if out.begun {
			f.problem(out, e)
		} else {
			h.refuse(out.w, f, e)
		}
		return
	}
	panic(http.ErrAbortHandler) // how net/http is told to cut the connection
}

// refuse answers with an error status.
func (h *handler) refuse(w http.ResponseWriter, f format, e *model.Error) {
	header := w.Header()
	header.Set("Content-Type", "application/json")
	if d := e.RetryAfter; d > 0 {
		header.Set("Retry-After", strconv.Itoa(int(math.Ceil(d.Seconds()))))
		header.Set("Retry-After-Ms", strconv.FormatInt(d.Milliseconds(), 10))
	}
	status := e.Status
	if status == 0 {
		status = http.StatusInternalServerError
	}
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(f.failure(e)) // a client that has left is none of our business
}

// format is one of the wire formats, for one request.
type format interface {
	request(body []byte) (model.Request, error)
	part(out *events, r model.Request, p model.Part) error
	problem(out *events, e *model.Error)
	failure(e *model.Error) any
}

// events writes server-sent events, each flushed.
type events struct {
	w     http.ResponseWriter
	flush *http.ResponseController
	begun bool
}

func (o *events) raw(s string) error {
	if !o.begun {
		o.begun = true
		o.w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		o.w.Header().Set("Cache-Control", "no-cache")
	}
	if _, err := io.WriteString(o.w, s); err != nil {
		return err
	}
	return o.flush.Flush()
}

// send writes one event; name is "" in OpenAI's format.
func (o *events) send(name string, data any) error {
	text, err := json.Marshal(data)
	if err != nil {
		return err
	}
	if name != "" {
		name = "event: " + name + "\n"
	}
	return o.raw(name + "data: " + string(text) + "\n\n")
}

// halves cuts a string in two, between characters, so that clients have something to join.
func halves(s string) []string {
	runes := []rune(s)
	if len(runes) < 2 {
		return []string{s}
	}
	return []string{string(runes[:len(runes)/2]), string(runes[len(runes)/2:])}
}
