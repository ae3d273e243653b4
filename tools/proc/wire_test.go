package proc

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"syscall"
	"testing"
	"time"
)

func TestOrderRoundTrip(t *testing.T) {
	for _, o := range []order{
		{path: "/bin/sh", dir: "/", args: []string{"sh", "-c", "exit"}, stop: []string{}, env: []string{"A=b", "C="}},
		{path: "/x", args: []string{""}, stop: []string{}, env: []string{}},
		{path: "/x", grace: 2 * time.Second, args: []string{"x"}, stop: []string{"/y", "2"}, env: []string{"A=b"}},
		{path: "\xff", dir: "\n", args: []string{"3", "", "3"}, stop: []string{}, env: []string{"", "2", "="}},
	} {
		b, err := o.encode()
		if err != nil {
			t.Errorf("%+v.encode() = %v", o, err)
			continue
		}
		if n, err := orderSize([4]byte(b)); err != nil || n != len(b)-4 {
			t.Errorf("orderSize = %d, %v, want %d", n, err, len(b)-4)
		}
		if got, err := decodeOrder(b[4:]); err != nil || !reflect.DeepEqual(got, o) {
			t.Errorf("decodeOrder(%q) = %+v, %v, want %+v", b, got, err, o)
		}
	}
	big := order{path: "/x", env: []string{strings.Repeat("x", maxOrder)}}
	if _, err := big.encode(); !errors.Is(err, syscall.E2BIG) {
		t.Errorf("encode of %d bytes = %v, want %v", maxOrder, err, syscall.E2BIG)
	}
	if _, err := orderSize([4]byte{0xff}); err == nil {
		t.Error("orderSize of 4 GiB = nil, want an error")
	}
}

func FuzzDecodeOrder(f *testing.F) {
	for _, s := range []string{"", "\x00", "/bin/sh\x00/\x001\x00\x000\x000\x00sh\x00A=b\x00", "/x\x00\x000\x00\x000\x000\x00", "/x\x00\x00-1\x00\x000\x000\x00", "/x\x00\x002\x00\x000\x000\x00a\x00",
		"/x\x00\x0001\x00\x000\x000\x00a\x00", "/x\x00\x001\x00\x002000\x001\x00a\x00b\x00", "/x\x00\x001\x00\x000\x001\x00a\x00", "/x\x00\x000\x00\x00-1\x000\x00", "/x\x00\x00\x00\x00\x00\x00"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		o, err := decodeOrder(body)
		if err != nil {
			return
		}
		b, err := o.encode()
		if err != nil || !bytes.Equal(b[4:], body) {
			t.Errorf("decodeOrder(%q) = %+v, encoded again %q, %v", body, o, b, err)
		}
	})
}

func TestReportRoundTrip(t *testing.T) {
	for _, r := range []report{
		{what: "launch"},
		{what: "started", pid: 1},
		{what: "failed", errno: syscall.ENOENT},
		{what: "unstopped", errno: syscall.ENOENT},
		{what: "stop", status: 1 << 8},
		{what: "killed"},
		{what: "exit", status: 0},
		{what: "exit", status: 3 << 8, maxRSS: 1 << 40},
		{what: "exit", status: 9},
		{what: "left", left: []int{1}},
		{what: "left", left: []int{1, 2, 3}},
		{what: "empty"},
	} {
		if got, ok := parseReport(r.String()); !ok || !reflect.DeepEqual(got, r) {
			t.Errorf("parseReport(%q) = %+v, %t, want %+v", r, got, ok, r)
		}
	}
}

func FuzzParseReport(f *testing.F) {
	for _, s := range []string{
		"", " ", "launch", "started 12", "started -1", "started", "started 99999999999", "failed 2", "failed 0", "exit 256 4096", "exit 1",
		"exit 1 2 3", "left", "left 1 2", "left  1", "empty", "empty ", "empty 1", "fatal error: runtime: out of memory", "left 0x1", "exit +1 1", "started 012", "failed -0", "killed", "killed 1", "stop 256", "stop", "unstopped 0", "exit 4294967296 1", "started 9223372036854775808",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		if r, ok := parseReport(line); ok && r.String() != line {
			t.Errorf("parseReport(%q) = %+v, which is %q", line, r, r)
		}
	})
}

func TestSetStatus(t *testing.T) {
	for _, tt := range []struct {
		status syscall.WaitStatus
		want   Exit
	}{
		{0, Exit{Code: 0}},
		{3 << 8, Exit{Code: 3}},
		{255 << 8, Exit{Code: 255}},
		{9, Exit{Code: -1, Signal: syscall.SIGKILL}},
		{11 | 0x80, Exit{Code: -1, Signal: syscall.SIGSEGV}}, // with a core file
	} {
		got := Exit{Code: -1}
		if got.setStatus(tt.status); got != tt.want {
			t.Errorf("setStatus(%#x) = %+v, want %+v", tt.status, got, tt.want)
		}
	}
}
