package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"jp/tools/jsondoc"
)

// dial returns the transport to a server with an address; s is expanded and checked. Path and query
// of the address may have a token in them, and package http puts the addresses of its requests into
// its errors: it gets only the host. Between two requests nobody listens to the server: the stream
// for that takes a connection of its own, which some servers do not have, ends whenever a proxy
// likes, and its end would be that of the session.
func dial(s Server, b *bounds) sdk.Transport {
	to, err := url.Parse(s.URL)
	if err != nil {
		panic(err) // see checkURL
	}
	return &sdk.StreamableClientTransport{
		Endpoint: to.Scheme + "://" + to.Host, MaxRetries: 1, MaxEventSize: maxMessage, DisableStandaloneSSE: true,
		HTTPClient: &http.Client{Transport: newCarrier(to, s.Headers, b)},
	}
}

// carrier sends every request to the whole address of a server, adds the headers and bounds the
// answers.
type carrier struct {
	to      *url.URL
	headers map[string]string
	bounds  *bounds
	// With a dialer of its own it speaks no HTTP/2, in which all calls share a connection: one that
	// is dead, or whose server does not read, would hold up every call of the process until the
	// system gives it up.
	next *http.Transport
}

func newCarrier(to *url.URL, headers map[string]string, b *bounds) *carrier {
	return &carrier{to: to, headers: headers, bounds: b, next: &http.Transport{
		Proxy: http.ProxyFromEnvironment, DialContext: (&net.Dialer{Timeout: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout: 15 * time.Second, IdleConnTimeout: 30 * time.Second, MaxResponseHeaderBytes: 256 << 10,
	}}
}

func (c *carrier) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := c.bounds.err(); err != nil {
		return nil, err
	}
	id, method, err := asked(r)
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.URL = c.to
	for name, value := range c.headers {
		r.Header.Set(name, value)
	}
	resp, err := c.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if refused := refuses(resp); refused != nil {
		_ = resp.Body.Close() // the target of a redirect may have the token in it
		if method != methodCall || id == nil {
			return nil, c.bounds.fault(refused)
		}
		resp.StatusCode, resp.Header, resp.ContentLength = http.StatusOK, http.Header{"Content-Type": {"application/json"}}, -1
		resp.Body = io.NopCloser(bytes.NewReader(failed(id, refused.Error())))
		return resp, nil
	}
	switch {
	case resp.StatusCode == http.StatusNotFound && r.Header.Get("Mcp-Session-Id") != "":
		_ = resp.Body.Close()
		resp.Body = http.NoBody // with an error in it the SDK would keep the session
		c.bounds.missing.Store(true)
		if untaken, ok := r.Context().Value(untakenKey{}).(*atomic.Bool); ok && id != nil {
			untaken.Store(true)
		}
	case isEvents(resp):
		resp.Body = &events{ReadCloser: resp.Body, bounds: c.bounds, id: id}
	case resp.StatusCode < 300 && id != nil:
		resp.Body = &answer{ReadCloser: resp.Body, ctx: r.Context(), id: id}
	default:
		resp.Body = &bounded{resp.Body, maxMessage}
	}
	return resp, nil
}

// refuses returns why a server carries out nothing of a request: for a call of a tool that is the
// answer, as another may be allowed, and for any other request the end of the session.
func refuses(resp *http.Response) error {
	switch status := resp.StatusCode; {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		return fmt.Errorf(`it answers "%d %s": headers = { Authorization = "Bearer ${NAME}" } in its entry sends the token in the `+
			`variable NAME; jp cannot sign in by itself (OAuth)`, status, http.StatusText(status))
	case status >= 300 && status < 400:
		return errors.New("it redirects to another server, and redirects are not followed")
	}
	return nil
}

// asked returns id and method of the protocol's request in r; nil = there is none.
func asked(r *http.Request) (id json.RawMessage, method string, err error) {
	if r.Method != http.MethodPost || r.GetBody == nil {
		return nil, "", nil
	}
	body, err := r.GetBody()
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = body.Close() }()
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if err := json.NewDecoder(body).Decode(&m); err != nil || m.Method == "" || bytes.Equal(m.ID, []byte("null")) {
		return nil, "", nil // not a request; the server decides
	}
	return m.ID, m.Method, nil
}

// answer is the body that answers the request id. One that is too large is replaced by an error,
// and so is one that nobody waits for any more: if it could not be read, the SDK would end the
// session.
type answer struct {
	io.ReadCloser
	ctx  context.Context
	id   json.RawMessage
	text *bytes.Reader // nil = not read yet
}

func (a *answer) Read(p []byte) (int, error) {
	if a.text == nil {
		b, err := io.ReadAll(io.LimitReader(a.ReadCloser, maxMessage+1))
		switch {
		case err != nil && a.ctx.Err() != nil:
			b = failed(a.id, "cancelled")
		case err != nil:
			return 0, err
		case len(b) > maxMessage:
			b = tooLarge(a.id)
		case jsondoc.Crowded(b, jsondoc.MaxValues):
			b = tooMany(a.id)
		}
		a.text = bytes.NewReader(b)
	}
	return a.text.Read(p)
}

// events is a body of events, and returns each event whole. It fails when there are too many. In the
// answer to the request id the first event that is too large is
// replaced by an error, and ends the answer.
type events struct {
	io.ReadCloser
	bounds *bounds
	id     json.RawMessage // nil = they answer no request

	event []byte // current event, as far as it has come
	out   []byte // bytes to return
	err   error  // error to return after out
}

func (e *events) Read(p []byte) (int, error) {
	for len(e.out) == 0 {
		if e.err != nil {
			return 0, e.err
		}
		e.more()
	}
	n := copy(p, e.out)
	e.out = e.out[n:]
	return n, nil
}

func (e *events) more() {
	var buf [32 << 10]byte
	n, err := e.ReadCloser.Read(buf[:])
	behind := max(0, len(e.event)-len("\n\r\n")+1)
	e.event, e.err = append(e.event, buf[:n]...), err
	first, end, ended := len(e.event), 0, 0
	for _, blank := range []string{"\n\n", "\n\r\n"} {
		ended += bytes.Count(e.event[behind:], []byte(blank))
		if i := bytes.Index(e.event[behind:], []byte(blank)); i >= 0 {
			first = min(first, behind+i+len(blank))
			end = max(end, behind+bytes.LastIndex(e.event[behind:], []byte(blank))+len(blank))
		}
	}
	if fault := e.bounds.said(ended); fault != nil {
		e.err = fault
		return
	}
	if err != nil {
		end = len(e.event) // the reader takes a last event without an end
	}
	switch {
	case first > maxMessage && e.id != nil:
		e.out, e.event, e.err = fmt.Appendf(nil, "data: %s\n\n", tooLarge(e.id)), nil, io.EOF
	case end > 0 && jsondoc.Crowded(e.event[:end], jsondoc.MaxValues):
		if e.id == nil {
			e.event, e.err = nil, fmt.Errorf("a message has more than %d values", jsondoc.MaxValues)
			return
		}
		e.out, e.event, e.err = fmt.Appendf(nil, "data: %s\n\n", tooMany(e.id)), nil, io.EOF
	case end > 0:
		e.out, e.event = e.event[:end:end], bytes.Clone(e.event[end:])
	case first > maxMessage: // the reader decides
		e.out, e.event = e.event, nil
	}
	e.out = unhurried(e.out)
}

// minRetry is the shortest pause in milliseconds that a server may ask for before its stream is
// opened again.
const minRetry = 1000

// unhurried returns events without lines that ask for a shorter pause. The SDK has a default.
func unhurried(events []byte) []byte {
	key := []byte("retry:")
	if !bytes.Contains(events, key) {
		return events
	}
	filtered := make([]byte, 0, len(events))
	for line := range bytes.Lines(events) {
		if value, is := bytes.CutPrefix(line, key); is {
			if n, err := strconv.ParseInt(string(bytes.TrimSpace(value)), 10, 64); err == nil && n < minRetry {
				continue
			}
		}
		filtered = append(filtered, line...)
	}
	return filtered
}

// isEvents reports whether a response is read event by event, each of which is bounded. The body of
// an error is read whole, whatever its type.
func isEvents(resp *http.Response) bool {
	kind, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	return resp.StatusCode >= 200 && resp.StatusCode < 300 && strings.EqualFold(strings.TrimSpace(kind), "text/event-stream")
}

// bounded is a body that fails after left bytes.
type bounded struct {
	io.ReadCloser
	left int
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, fmt.Errorf("the response is larger than %d bytes", maxMessage)
	}
	n, err := b.ReadCloser.Read(p[:min(len(p), b.left+1)])
	b.left -= n
	return n, err
}
