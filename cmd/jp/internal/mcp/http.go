package mcp

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// dial is the transport to a server behind an address; s is expanded.
func dial(s Server) sdk.Transport {
	return &sdk.StreamableClientTransport{
		Endpoint: s.URL, MaxRetries: 1, MaxEventSize: maxMessage,
		HTTPClient: &http.Client{
			Transport: &carrier{headers: s.Headers},
			CheckRedirect: func(*http.Request, []*http.Request) error {
				return errors.New("it redirects elsewhere, and what is sent here is not sent there")
			},
		},
	}
}

// carrier adds the headers of a server to every request and bounds what comes back.
type carrier struct{ headers map[string]string }

func (c *carrier) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, value := range c.headers {
		r.Header.Set(name, value)
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	if err == nil && !isEvents(resp) {
		resp.Body = &bounded{resp.Body, maxMessage}
	}
	return resp, err
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
