package model

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync/atomic"
	"time"
)

// Warm starts loading the certificates of the system in the background. crypto/x509 reads them once
// per process, at the first https handshake, which takes 7-10 ms of one core. Open calls Warm for
// https endpoints; a command that knows earlier may do so itself.
func Warm() {
	go func() { _, _ = x509.SystemCertPool() }() // crypto/x509 keeps both for the handshake
}

// NewClient returns the HTTP client that providers use: its own connections, proxies from the
// environment, no cookies, no compression (it delays events and can hide a flood), and no redirect
// that could carry a key away.
func NewClient() *http.Client {
	return &http.Client{
		Transport: &http.Transport{
			Proxy:                  http.ProxyFromEnvironment,
			DialContext:            (&net.Dialer{Timeout: 15 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			ForceAttemptHTTP2:      true,
			TLSHandshakeTimeout:    15 * time.Second,
			MaxIdleConnsPerHost:    32, // of a whole tree of sub-agents
			IdleConnTimeout:        90 * time.Second,
			ExpectContinueTimeout:  time.Second,
			MaxResponseHeaderBytes: 256 << 10,
			DisableCompression:     true,
			HTTP2: &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second,
				WriteByteTimeout: 30 * time.Second},
		},
		CheckRedirect: checkRedirect,
	}
}

// checkRedirect follows a redirect only if method, scheme, host and port stay the same. net/http
// drops Authorization on the way to another host, but not the x-api-key of Anthropic, and it turns
// most redirected POSTs into GETs.
func checkRedirect(req *http.Request, via []*http.Request) error {
	from, why := via[0], ""
	switch {
	case req.URL.Scheme != from.URL.Scheme || req.URL.Host != from.URL.Host:
		why = "a key would go along"
	case req.Method != from.Method:
		why = "the request would not be sent there, only its address opened"
	case len(via) >= maxRedirects:
		why = fmt.Sprintf("it is the redirect number %d", len(via))
	default:
		return nil
	}
	to := *req.URL
	to.User, to.RawQuery, to.Fragment = nil, "", ""
	return &Error{Kind: KindBadRequest, Final: true,
		Message: fmt.Sprintf("redirected to %s: refused, since %s", clean(to.String(), ""), why),
		Hint:    "check the base URL"}
}

const maxRedirects = 5

// once sends a request once, and ends it with its context.
//
// Where an HTTP/2 server says that it has not begun a request, net/http sends it again by itself,
// as often as the server says so. No budget sees that, and only the server knows what it charges.
//
// An HTTP/2 server that does not read stops what net/http writes, and with it every Read and Close
// of a reply, for as long as the server likes. So a goroutine waits for them.
type once struct{ http.RoundTripper }

func (o once) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, leave := context.WithCancel(req.Context())
	body := &onceBody{ReadCloser: req.Body}
	body.left.Store(req.ContentLength)
	sent := req.WithContext(ctx) // a copy: a redirect needs the GetBody of the original
	sent.Body = body
	sent.GetBody = func() (io.ReadCloser, error) {
		if body.begun.Load() {
			return nil, errAgain
		}
		return body, nil
	}
	type head struct {
		resp *http.Response
		err  error
	}
	heads := make(chan head, 1)
	r, w := io.Pipe()
	context.AfterFunc(ctx, func() { _ = w.CloseWithError(ctx.Err()) })
	go func() {
		defer leave()
		resp, err := o.RoundTripper.RoundTrip(sent)
		if err != nil {
			heads <- head{err: err}
			return
		}
		reply := resp.Body
		defer reply.Close()
		resp.Body = leftBody{r, leave}
		heads <- head{resp: resp}
		_, err = io.CopyBuffer(w, reply, make([]byte, 4<<10))
		_ = w.CloseWithError(err)
	}()
	var h head
	select {
	case h = <-heads:
	case <-req.Context().Done():
		h.err = req.Context().Err()
	}
	if h.err != nil && req.Context().Err() != nil && body.left.Load() <= 0 {
		Sent(req.Context()) // or nearly so
	}
	return h.resp, h.err
}

// errAgain ends a request that net/http wants to send again.
var errAgain = errors.New("the request was sent already")

// onceBody is the body of a request.
type onceBody struct {
	io.ReadCloser
	begun atomic.Bool  // whether something of it was read
	left  atomic.Int64 // bytes that were not
}

func (b *onceBody) Read(p []byte) (int, error) {
	b.begun.Store(true)
	n, err := b.ReadCloser.Read(p)
	b.left.Add(-int64(n))
	return n, err
}

// leftBody is the body of a reply, which Close leaves.
type leftBody struct {
	io.Reader
	leave func()
}

func (b leftBody) Close() error {
	b.leave()
	return nil
}

// Bounds of what is read of a response that is an error.
const (
	maxErrorBody = 64 << 10
	errorWait    = 2 * time.Second // for the body of one, once there is its status
)

// intercept sends a request by next. It turns every answer that is not an event stream into an
// *Error, and bounds the body by MaxBytes. It reports to a Limit above it when bytes arrive,
// keep-alives included, and to a Count how far the request came.
func (c Config) intercept(req *http.Request, next func(*http.Request) (*http.Response, error)) (*http.Response, error) {
	ctx := req.Context()
	resp, err := next(req.WithContext(httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest: func(w httptrace.WroteRequestInfo) {
			if w.Err == nil {
				Sent(ctx)
			}
		},
	})))
	if err != nil {
		return nil, c.unreachable(err)
	}
	touch := activity(ctx)
	touch()
	if resp.StatusCode >= 300 {
		return nil, c.statusError(resp.StatusCode, resp.Header, readError(resp))
	}
	resp.Body = &limitedBody{ReadCloser: resp.Body, left: c.MaxBytes, config: c, touch: touch}
	// Some servers send no type, or a wrong one. Only what is certainly something else is rejected.
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if kind == "text/html" || kind == "application/json" {
		body := bufio.NewReader(resp.Body)
		if !startsEvents(body) {
			defer resp.Body.Close()
			if kind == "text/html" && !startsObject(body) {
				return nil, c.notStream(resp, kind) // a page, which costs nothing
			}
			return nil, c.unstreamed(ctx, resp, kind, body)
		}
		resp.Body = struct {
			io.Reader
			io.Closer
		}{body, resp.Body} // mislabelled
	}
	answered(ctx)
	return resp, nil
}

// notStream returns the error of an answer of another type.
func (c Config) notStream(resp *http.Response, kind string) *Error {
	return &Error{Provider: c.Name, Kind: KindStream, Final: true, Status: resp.StatusCode,
		Message: fmt.Sprintf("answered with %s, not with an event stream", kind),
		Hint:    "check the base URL"}
}

// unstreamed returns the error of an answer in JSON, with the answer itself: it is the report of an
// error, or a whole reply of a server that does not stream, which costs what it says.
func (c Config) unstreamed(ctx context.Context, resp *http.Response, kind string, body io.Reader) error {
	whole, _ := io.ReadAll(body) // as far as it comes
	e := c.notStream(resp, kind)
	if parseErrorBody(whole).message != "" {
		e = c.StreamError(whole)
	} else {
		answered(ctx)
	}
	e.Err = wholeReply(whole)
	return e
}

// wholeReply is a reply that is no stream.
type wholeReply []byte

func (wholeReply) Error() string { return "a reply that is no stream" }

// readError reads the body of an error, as far as it comes soon, and closes it: the status alone
// says what to do.
func readError(resp *http.Response) []byte {
	defer resp.Body.Close()
	late := time.AfterFunc(errorWait, func() { _ = resp.Body.Close() })
	defer late.Stop()
	body, _ := io.ReadAll(io.LimitReader(resp.Body, maxErrorBody))
	return body
}

// limitedBody reads a reply up to a number of bytes.
type limitedBody struct {
	io.ReadCloser
	left   int64
	config Config
	touch  func()
}

func (b *limitedBody) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, &Error{Provider: b.config.Name, Kind: KindTooLarge, Final: true,
			Message: fmt.Sprintf("the reply is larger than %d bytes", b.config.MaxBytes)}
	}
	if int64(len(p)) > b.left {
		p = p[:b.left+1] // one byte more shows that a reply is too large
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	if n > 0 {
		b.touch()
	}
	return n, err
}

// unreachable returns the *Error of a request that got no answer.
func (c Config) unreachable(err error) error {
	var (
		e       *Error
		opErr   *net.OpError
		dnsErr  *net.DNSError
		certErr *tls.CertificateVerificationError
		tlsErr  tls.RecordHeaderError
	)
	if errors.As(err, &e) {
		return e // of checkRedirect
	}
	e = &Error{Provider: c.Name, Kind: KindNetwork, Message: c.Clean(unwrapURL(err).Error()), Err: err}
	switch {
	case errors.As(err, &certErr), errors.As(err, &tlsErr), errors.Is(err, http.ErrSchemeMismatch):
		e.Final, e.Hint = true, "check the base URL "+c.BaseURL
	case errors.As(err, &dnsErr):
		e.Final, e.Hint = dnsErr.IsNotFound, "is this machine connected, and "+c.BaseURL+" the right address?"
	case errors.As(err, &opErr) && opErr.Op == "dial" && loopback(c.BaseURL):
		// A local server that does not run will not run a second later.
		e.Final, e.Hint = true, "is the server at "+c.BaseURL+" running?"
	case errors.Is(err, errAgain), errors.Is(err, io.EOF), errors.As(err, &opErr) && opErr.Op == "read":
		e.Message = "the connection was closed without an answer"
	}
	return e
}

// Fail turns any error of a request into what a Stream yields: the cause of the context when that
// has ended, and an *Error otherwise. An error that is not an *Error yet came while the reply was
// read.
func (c Config) Fail(ctx context.Context, err error) error {
	var (
		e       *Error
		opErr   *net.OpError
		timeout interface{ Timeout() bool }
	)
	if ctx.Err() != nil {
		if err = context.Cause(ctx); !errors.As(err, &e) { // an *Error is that of a Limit
			return err
		}
	}
	switch {
	case errors.As(err, &e):
		if e.Provider == "" {
			copied := *e
			copied.Provider = c.Name
			return &copied
		}
		return e
	case errors.Is(err, bufio.ErrTooLong): // the line would be as long the next time
		return &Error{Provider: c.Name, Kind: KindTooLarge, Final: true, Message: "a line of the reply is too long", Err: err}
	case errors.Is(err, io.ErrUnexpectedEOF), errors.As(err, &opErr), errors.As(err, &timeout) && timeout.Timeout():
		return &Error{Provider: c.Name, Kind: KindStream, Message: "the reply broke off", Err: err}
	}
	return &Error{Provider: c.Name, Kind: KindStream, Message: c.Clean(err.Error()), Err: err}
}

// Bad returns the *Error of a malformed reply.
func (c Config) Bad(kind Kind, format string, args ...any) error {
	return &Error{Provider: c.Name, Kind: kind, Message: c.Clean(fmt.Sprintf(format, args...))}
}

// unwrapURL drops the `Post "https://...": ` that net/http puts before its errors.
func unwrapURL(err error) error {
	var u *url.Error
	if errors.As(err, &u) && u.Err != nil {
		return u.Err
	}
	return err
}
