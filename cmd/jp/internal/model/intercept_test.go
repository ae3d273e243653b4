package model

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
)

// TestInterceptActivity: an answer and each read of bytes are signs of life.
func TestInterceptActivity(t *testing.T) {
	touched := 0
	ctx := context.WithValue(t.Context(), activityKey{}, func() { touched++ })
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://h", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := Config{MaxBytes: 10}.intercept(req, func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(iotest.OneByteReader(strings.NewReader(": ok\n")))}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if touched != 1 {
		t.Errorf("%d signs of life after the answer, want 1", touched)
	}
	if b, err := io.ReadAll(resp.Body); string(b) != ": ok\n" || err != nil {
		t.Errorf("body = %q, %v", b, err)
	}
	if touched != 6 {
		t.Errorf("%d signs of life, want 6", touched)
	}
}

// TestInterceptCeiling: a reply is read up to the ceiling and hardly further.
func TestInterceptCeiling(t *testing.T) {
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://h", nil)
	if err != nil {
		t.Fatal(err)
	}
	for size, want := range map[int]string{9: "", 10: "", 11: "too_large: the reply is larger than 10 bytes", 20: "too_large: the reply is larger than 10 bytes"} {
		resp, err := Config{MaxBytes: 10}.intercept(req, func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(strings.Repeat("x", size)))}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(resp.Body); len(b) != min(size, 11) || message(err) != want {
			t.Errorf("%d bytes: read %d, %v, want %q", size, len(b), err, want)
		}
	}
}

func TestUnreachable(t *testing.T) {
	wrap := func(err error) error { return &url.Error{Op: "Post", URL: "http://h/?key=secret", Err: err} }
	refused := &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(10, 0, 0, 1), Port: 1}, Err: syscall.ECONNREFUSED}
	tests := []struct {
		url       string
		err       error
		message   string
		temporary bool
	}{
		{"http://10.0.0.1/", refused, "dial tcp 10.0.0.1:1: connection refused", true},
		{"http://127.0.0.1/", refused, "dial tcp 10.0.0.1:1: connection refused", false},
		{"http://h/", &net.OpError{Op: "read", Err: syscall.ECONNRESET}, "the connection was closed without an answer", true},
		{"http://h/", io.EOF, "the connection was closed without an answer", true},
		{"http://h/", &net.DNSError{Err: "no such host", Name: "h", IsNotFound: true}, "lookup h: no such host", false},
		{"http://h/", &net.DNSError{Err: "server misbehaving", Name: "h", IsTemporary: true}, "lookup h: server misbehaving", true},
		{"https://h/", &tls.CertificateVerificationError{Err: errors.New("expired")}, "tls: failed to verify certificate: expired", false},
		{"https://h/", tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}, "tls: first record does not look like a TLS handshake", false},
		{"https://h/", errors.New("http2: no idea"), "http2: no idea", true},
	}
	for _, tt := range tests {
		var e *Error
		if err := (Config{Name: "p", BaseURL: tt.url}).unreachable(wrap(tt.err)); !errors.As(err, &e) || e.Kind != KindNetwork || e.Message != tt.message || e.Temporary() != tt.temporary {
			t.Errorf("%v at %s = %v (temporary %t), want %s (%t)", tt.err, tt.url, err, e.Temporary(), tt.message, tt.temporary)
		}
	}
}

func TestFail(t *testing.T) {
	c := Config{Name: "p"}
	for _, tt := range []struct {
		err  error
		want string
	}{
		{io.ErrUnexpectedEOF, "p: stream: the reply broke off"},
		{&net.OpError{Op: "read", Err: syscall.ECONNRESET}, "p: stream: the reply broke off"},
		{errors.New("invalid character 'x'\nafter"), "p: stream: invalid character 'x' after"},
		{&Error{Kind: KindTooLarge}, "p: too_large"},
		{&Error{Provider: "q", Kind: KindTooLarge}, "q: too_large"},
	} {
		if got := c.Fail(t.Context(), tt.err); got.Error() != tt.want {
			t.Errorf("Fail(%v) = %v, want %s", tt.err, got, tt.want)
		}
	}
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if got := c.Fail(ctx, io.EOF); got != cause {
		t.Errorf("Fail = %v, want the cause", got)
	}
}
