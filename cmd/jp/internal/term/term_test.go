package term

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
)

func TestColors(t *testing.T) {
	for _, c := range []struct {
		env      string
		terminal bool
		want     bool
	}{
		{"", true, true},
		{"", false, false},
		{"NO_COLOR=1", true, false},
		{"NO_COLOR=", true, true},
		{"CLICOLOR_FORCE=1", false, true},
		{"CLICOLOR_FORCE=0", false, false},
		{"NO_COLOR=1 CLICOLOR_FORCE=1", true, false},
		{"CLICOLOR=0", true, false},
		{"TERM=dumb", true, false},
		{"TERM=dumb CLICOLOR_FORCE=1", true, true},
	} {
		if got := colors(strings.Fields(c.env), c.terminal); got != c.want {
			t.Errorf("colors(%q, %t) = %t, want %t", c.env, c.terminal, got, c.want)
		}
	}
}

func TestUTF8Locale(t *testing.T) {
	for env, want := range map[string]bool{
		"":                                  false,
		"LANG=C":                            false,
		"LANG=C.UTF-8":                      true,
		"LANG=de_DE.utf8":                   true,
		"LANG=de_DE.ISO-8859-1":             false,
		"LANG=C.UTF-8 LC_ALL=C":             false,
		"LANG=C LC_CTYPE=en_US.UTF-8":       true,
		"LC_CTYPE=C LC_ALL=en_US.UTF-8":     true,
		"LANG=en_US.UTF-8 LANG=POSIX":       false,
		"LC_ALL= LC_CTYPE= LANG=C.UTF-8":    true,
		"LC_MESSAGES=en_US.UTF-8 LANG=C":    false,
		"LC_ALL=POSIX LC_CTYPE=en_US.UTF-8": false,
	} {
		if got := utf8Locale(strings.Fields(env)); got != want {
			t.Errorf("utf8Locale(%q) = %t, want %t", env, got, want)
		}
	}
}

func TestOutputKeepsItsFirstError(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	defer w.Close()
	s := New(Options{Out: w})
	for range 2 {
		if _, err := io.WriteString(s.Out, "x"); !errors.Is(err, ErrClosed) {
			t.Fatalf("write to a pipe without reader: %v, want ErrClosed", err)
		}
	}

	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full here")
	}
	defer full.Close()
	s = New(Options{Out: full, Err: full})
	if _, err := io.WriteString(s.Out, "x"); !errors.Is(err, syscall.ENOSPC) || err.Error() != "stdout: no space left on device" {
		t.Errorf("write to /dev/full: %v", err)
	}
	if n, err := io.WriteString(s.Err, "x"); n != 1 || err != nil {
		t.Errorf("write of chrome to /dev/full: %d, %v; want 1, nil", n, err)
	}
}

func TestNewWithoutTerminal(t *testing.T) {
	var out bytes.Buffer
	s := New(Options{Out: &out, Environ: []string{"COLUMNS=40"}})
	if s.OutTTY || s.ErrTTY || s.InTTY || s.Color || s.Width != 0 {
		t.Errorf("New on buffers = %+v", s)
	}
	if got := s.Text("a\x1b[31mb"); got != "a\x1b[31mb" {
		t.Errorf("Text for a pipe = %q: changed", got)
	}
	s.OutTTY = true
	if got := s.Text("a\x1b[31mb"); got != "ab" {
		t.Errorf("Text for a terminal = %q", got)
	}
	if s := New(Options{Width: 33}); s.Width != 33 {
		t.Errorf("Width = %d, want 33", s.Width)
	}
}

// TestTerminal writes to a terminal what nobody has cleaned, cut in two at each byte.
func TestTerminal(t *testing.T) {
	const raw = "a\x1b[1mb\x1b[0m\x1b[36;1mc\x1b[8md\x1b[2Je\x1b]0;title\x07f\x1bcg\rh\bi\x9b\x31mj\u009b1mk\u202el\x1b[38;5;0mm\x1b[\xffn\n"
	const want = "a\x1b[1mb\x1b[0m\x1b[36;1mcdefghi\ufffd1mjklm\ufffdn\n"
	for cut := range len(raw) {
		var got strings.Builder
		o := &output{w: &got, clean: forTerminal(true)}
		for _, part := range []string{raw[:cut], raw[cut:]} {
			if n, err := io.WriteString(o, part); n != len(part) || err != nil {
				t.Fatalf("Write = %d, %v, want %d, nil", n, err, len(part))
			}
		}
		if got.String() != want {
			t.Errorf("cut at %d: %q, want %q", cut, got.String(), want)
		}
	}
	var got strings.Builder
	_ = draw(behind{&output{w: &got, clean: forTerminal(true)}, func() {}}, "\r\x1b[K")
	if got.String() != "\r\x1b[K" {
		t.Errorf("drawn: %q", got.String())
	}
}
