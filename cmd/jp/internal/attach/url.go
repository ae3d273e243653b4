package attach

import (
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"jp/convstore"
	"jp/tools/patience"
)

// fetchTimeout is the most time for a page, from the first byte that is sent to the last one that
// is read.
const fetchTimeout = 30 * time.Second

// maxRedirects is the most redirects that are followed.
const maxRedirects = 5

// IsURL reports whether a reference names a page and not a file.
func IsURL(ref string) bool {
	scheme, _, ok := strings.Cut(ref, "://")
	return ok && scheme != "" && !strings.ContainsFunc(scheme, func(c rune) bool {
		return (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && !strings.ContainsRune("+-.", c)
	})
}

// FetchError says that a page could not be read.
type FetchError struct {
	URL string // address without the values of its query
	Err error
}

func (e *FetchError) Error() string { return e.URL + ": " + e.Err.Error() }
func (e *FetchError) Unwrap() error { return e.Err }

// URL reads a page of text, or an image, over https, or over http from this machine. It follows
// redirects to public hosts and to the host of ref: no page can make jp read what only this machine
// or its network can reach. It sends no cookies and no keys. A page that cannot be read is a
// *FetchError.
func (r *Reader) URL(ctx context.Context, ref string) (convstore.Attachment, error) {
	var none convstore.Attachment
	name := WithoutValues(ref) // for messages and for the attachment
	u, err := url.Parse(ref)
	switch {
	case err != nil:
		return none, fmt.Errorf("%q: is no address", name)
	case u.User != nil:
		return none, errors.New("the address has a user or a password, which would be stored")
	case u.Scheme != "https" && u.Scheme != "http":
		return none, fmt.Errorf("%s: only https is read", name)
	case u.Hostname() == "":
		return none, fmt.Errorf("%s: names no host", name)
	case u.Scheme == "http" && !isLoopback(u.Hostname()):
		return none, fmt.Errorf("%s: http is read from this machine only; use https", name)
	}
	ctx, cancel := patience.With(ctx, fetchTimeout, fmt.Errorf("no whole answer within %v", fetchTimeout))
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, ref, nil)
	if err != nil {
		return none, fmt.Errorf("%s: is no address", name)
	}
	req.Header.Set("User-Agent", "jp")
	req.Header.Set("Accept", "text/*, application/json, application/xml;q=0.9, */*;q=0.1")
	client := newClient(u)
	defer client.CloseIdleConnections()
	resp, err := client.Do(req)
	if err != nil {
		return none, unread(ctx, name, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return none, &FetchError{name, errors.New("answered " + resp.Status)}
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, MaxImage+1))
	if err != nil {
		return none, unread(ctx, name, err)
	}
	kind, params, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		kind = "text/plain"
	}
	if set := strings.ToLower(params["charset"]); set != "" && set != "utf-8" && set != "us-ascii" && !isASCII(b) {
		return none, fmt.Errorf("%s: is in %s, and only UTF-8 is read", name, set)
	}
	return r.keep(name, kind, b)
}

// WithoutValues returns an address without the values of its query and its fragment, which may be
// keys or signatures. Models, people and the store get only that.
func WithoutValues(ref string) string {
	ref, fragment, _ := strings.Cut(ref, "#")
	before, query, ok := strings.Cut(ref, "?")
	if !ok && fragment != "" && !strings.Contains(fragment, "=") {
		return ref + "#" + fragment // a place in the page
	}
	if !ok {
		return ref
	}
	pairs := strings.Split(query, "&")
	for i, pair := range pairs {
		if name, value, ok := strings.Cut(pair, "="); ok && value != "" {
			pairs[i] = name + "=..."
		} else if !ok && pair != "" {
			pairs[i] = "..." // a value without a name
		}
	}
	return before + "?" + strings.Join(pairs, "&")
}

func isASCII(b []byte) bool {
	for _, c := range b {
		if c >= 0x80 {
			return false
		}
	}
	return true
}

// unread returns why a page was not read.
func unread(ctx context.Context, name string, err error) error {
	if ctx.Err() != nil {
		return &FetchError{name, context.Cause(ctx)}
	}
	if u, ok := errors.AsType[*url.Error](err); ok {
		err = u.Err
	}
	return &FetchError{name, err}
}

// errPrivate is the error of a redirect to an address that is not public.
var errPrivate = errors.New("leads to an address that is not public, which is not followed")

// newClient returns a client that reads first, and follows redirects of it only to what everybody
// can read.
func newClient(first *url.URL) *http.Client {
	// whether the current request is to another host than first's; whether it uses a proxy
	var moved, proxied atomic.Bool
	dialer := &net.Dialer{Timeout: 15 * time.Second}
	// The address is checked when it is dialed, because a name may resolve to another address then.
	dialer.Control = func(_, address string, _ syscall.RawConn) error {
		if at, err := netip.ParseAddrPort(address); moved.Load() && !proxied.Load() && (err != nil || !isPublic(at.Addr())) {
			return errPrivate
		}
		return nil
	}
	return &http.Client{
		Transport: &http.Transport{
			Proxy: func(req *http.Request) (*url.URL, error) {
				p, err := http.ProxyFromEnvironment(req)
				proxied.Store(p != nil)
				return p, err
			},
			// With a dialer of its own it speaks no HTTP/2, where a server that does not read stops a
			// Read or Close for as long as it likes.
			DialContext: dialer.DialContext, TLSHandshakeTimeout: 15 * time.Second,
			MaxResponseHeaderBytes: 256 << 10, DisableKeepAlives: true,
		},
		CheckRedirect: func(req *http.Request, via []*http.Request) error {
			elsewhere := req.URL.Host != first.Host
			moved.Store(elsewhere)
			switch {
			case len(via) > maxRedirects:
				return fmt.Errorf("leads elsewhere more than %d times", maxRedirects)
			case req.URL.User != nil, elsewhere && req.URL.Scheme != "https", !elsewhere && req.URL.Scheme != first.Scheme && req.URL.Scheme != "https":
				return errors.New("leads to an address that is not plain https, which is not followed")
			}
			if ip, err := netip.ParseAddr(req.URL.Hostname()); elsewhere && (isLoopback(req.URL.Hostname()) || err == nil && !isPublic(ip)) {
				return errPrivate
			}
			return nil
		},
	}
}

// isLoopback reports whether the name of a host means this machine.
func isLoopback(host string) bool {
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback() || host == "localhost" || strings.HasSuffix(host, ".localhost")
}

// isPublic reports whether ip is the same host for everybody.
func isPublic(ip netip.Addr) bool {
	ip = ip.Unmap().WithZone("")
	for _, shared := range []string{
		"100.64.0.0/10", "192.0.0.0/24", "198.18.0.0/15", "240.0.0.0/4", "0.0.0.0/8", // RFC 6890
		"64:ff9b::/96", "64:ff9b:1::/48", "2002::/16", // IPv4 addresses written as IPv6
	} {
		if netip.MustParsePrefix(shared).Contains(ip) {
			return false
		}
	}
	return ip.IsGlobalUnicast() && !ip.IsPrivate()
}
