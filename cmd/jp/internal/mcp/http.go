package mcp

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// dial is the transport to a server behind an address; s is expanded.
func dial(s Server, b *bounds) sdk.Transport {
	return &sdk.StreamableClientTransport{
		Endpoint: s.URL, MaxRetries: 1, MaxEventSize: maxMessage,
		HTTPClient: &http.Client{
			Transport: &carrier{headers: s.Headers, bounds: b},
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return errors.New("it redirects elsewhere, and what is sent here is not sent there")
			},
		},
	}
}

// carrier adds the headers of a server to every request and bounds what comes back.
type carrier struct {
	headers map[string]string
	bounds  *bounds
}

func (c *carrier) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := c.bounds.err(); err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	for name, value := range c.headers {
		r.Header.Set(name, value)
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	switch {
	case err != nil:
	case resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden:
		_ = resp.Body.Close()
		return nil, c.bounds.fault(fmt.Errorf(`it answers "%d %s": headers = { Authorization = "Bearer ${NAME}" } in its entry sends the token in the `+
			`variable NAME; jp cannot sign in by itself (OAuth)`, resp.StatusCode, http.StatusText(resp.StatusCode)))
	case isEvents(resp):
		resp.Body = &events{resp.Body, c.bounds}
	default:
		resp.Body = &bounded{resp.Body, maxMessage}
	}
	return resp, err
}

// events is a body of events that fails when there are too many of them. Each takes two lines at least.
type events struct {
	io.ReadCloser
	bounds *bounds
}

func (e *events) Read(p []byte) (int, error) {
	n, err := e.ReadCloser.Read(p)
	if fault := e.bounds.said(bytes.Count(p[:n], []byte("\n")), 2*maxUnasked); fault != nil {
		return 0, fault
	}
	return n, err
}

// isEvents reports whether a response is read event by event, each of which is bounded. An error's body is read whole, whatever
// kind it says it is.
func isEvents(resp *http.Response) bool {
	kind, _, _ := strings.Cut(resp.Header.Get("Content-Type"), ";")
	return resp.StatusCode >= 200 && resp.StatusCode < 300 && strings.EqualFold(strings.TrimSpace(kind), "text/event-stream")
}

// bounded is a body that fails when it is longer than left.
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
