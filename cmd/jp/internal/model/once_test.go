package model_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"jp/cmd/jp/internal/model"
	"jp/convstore"
)

// h2 is a server that reads requests over HTTP/2 and answers each with frames.
type h2 struct {
	early  []byte // what it writes when a request begins
	url    string
	client *http.Client // trusts the server
	bodies atomic.Int32 // requests that came whole
}

// Types of frames, see RFC 9113.
const (
	h2Data         = 0
	h2Headers      = 1
	h2Reset        = 3
	h2Settings     = 4
	h2GoAway       = 7
	h2WindowUpdate = 8
)

func h2Frame(kind, flags byte, stream uint32, payload ...uint32) []byte {
	f := binary.BigEndian.AppendUint32(nil, uint32(4*len(payload))<<8|uint32(kind))
	f = binary.BigEndian.AppendUint32(append(f, flags), stream)
	for _, n := range payload {
		f = binary.BigEndian.AppendUint32(f, n)
	}
	return f
}

// serveH2 starts a server. answer returns what it writes once the request of a stream came whole.
func serveH2(t *testing.T, answer func(stream uint32) []byte) *h2 {
	t.Helper()
	certified := httptest.NewUnstartedServer(nil)
	certified.StartTLS()
	certified.Close()
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: certified.TLS.Certificates, NextProtos: []string{"h2"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	roots := x509.NewCertPool()
	roots.AddCert(certified.Certificate())
	s := &h2{url: "https://" + l.Addr().String(), client: model.NewClient()}
	transport := s.client.Transport.(*http.Transport)
	transport.TLSClientConfig = &tls.Config{RootCAs: roots}
	t.Cleanup(transport.CloseIdleConnections)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go s.talk(c, answer)
		}
	}()
	return s
}

func (s *h2) talk(c net.Conn, answer func(uint32) []byte) {
	defer c.Close()
	head := make([]byte, 9)
	if _, err := io.ReadFull(c, make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))); err != nil {
		return
	}
	_, _ = c.Write(append(h2Frame(h2Settings, 0, 0), h2Frame(h2WindowUpdate, 0, 0, 1<<28)...))
	for {
		if _, err := io.ReadFull(c, head); err != nil {
			return
		}
		kind, flags, stream := head[3], head[4], binary.BigEndian.Uint32(head[5:])
		if _, err := io.CopyN(io.Discard, c, int64(binary.BigEndian.Uint32(head)>>8)); err != nil {
			return
		}
		if kind == h2Headers {
			_, _ = c.Write(s.early)
		}
		switch {
		case kind == h2Settings && flags == 0:
			_, _ = c.Write(h2Frame(h2Settings, 1, 0))
		case (kind == h2Data || kind == h2Headers) && flags&1 != 0:
			if s.bodies.Add(1) > 5 {
				return // a client that does not stop by itself
			}
			_, _ = c.Write(answer(stream))
		}
	}
}

// TestSentOnce: a request that a server may charge is not sent again by net/http, which no limit of
// ours sees.
func TestSentOnce(t *testing.T) {
	for name, answer := range map[string]func(uint32) []byte{
		"protocol error": func(stream uint32) []byte { return h2Frame(h2Reset, 0, stream, 1) },
		"refused stream": func(stream uint32) []byte { return h2Frame(h2Reset, 0, stream, 7) },
		"going away":     func(uint32) []byte { return h2Frame(h2GoAway, 0, 0, 0, 0) },
	} {
		formats(t, func(t *testing.T, id string) {
			server := serveH2(t, answer)
			p := providers(server.url)
			p.Client = server.client
			s, _, err := model.Open(t.Context(), id, constructors, p)
			if err != nil {
				t.Fatal(err)
			}
			r := ask("x")
			got := collect(t, model.Count(s), t.Context(), r)
			e := got.want(t, model.KindNetwork)
			if e.Message != "the connection was closed without an answer" || !e.Temporary() {
				t.Errorf("%s: error = %v, temporary %t", name, e, e.Temporary())
			}
			if want := (convstore.Usage{Input: r.Estimate()}); got.usage == nil || *got.usage != want {
				t.Errorf("%s: charged %+v, want %+v", name, got.usage, want)
			}
			if n := server.bodies.Load(); n != 1 {
				t.Errorf("%s: the request was sent %d times", name, n)
			}
		})
	}
}

// stuck is a connection whose other end reads only so many bytes.
type stuck struct {
	net.Conn
	left   int
	closed context.Context
	close  func()
}

func (c *stuck) Write(p []byte) (int, error) {
	if c.left -= len(p); c.left >= 0 {
		return c.Conn.Write(p)
	}
	<-c.closed.Done()
	return 0, net.ErrClosed
}

func (c *stuck) Close() error {
	c.close()
	return c.Conn.Close()
}

// TestLeaves: a request ends with its context, also where the server answers and reads no more.
func TestLeaves(t *testing.T) {
	formats(t, func(t *testing.T, id string) {
		server := serveH2(t, nil)
		comments := slices.Repeat([]uint32{0x3a0a0a0a}, 2048)                                              // ":\n\n\n"
		server.early = append(h2Frame(h2Headers, 4, 1, 0x88909192), h2Frame(h2Data, 0, 1, comments...)...) // status 200
		c := stuck{left: 32 << 10}
		c.closed, c.close = context.WithCancel(t.Context())
		server.client.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
			var err error
			c.Conn, err = new(net.Dialer).DialContext(ctx, network, address)
			return &c, err
		}
		p := providers(server.url)
		p.Client = server.client
		s, _, err := model.Open(t.Context(), id, constructors, p)
		if err != nil {
			t.Fatal(err)
		}
		s = model.Limit(s, model.LimitOptions{Idle: 50 * time.Millisecond})
		got := collect(t, s, t.Context(), ask(strings.Repeat("x", 1<<20)))
		_ = got.want(t, model.KindIdle)
	})
}
