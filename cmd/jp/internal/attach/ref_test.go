package attach

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"jp/convstore"
)

func TestRefs(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"l": "one\ntwo\nthree\n", "open": "one\ntwo", "crlf": "one\r\ntwo\r\n", "u": "aé€b", "nul": "a\x00b", "d/a": "a", "empty": "", "large": strings.Repeat("0123456789abcde\n", 1<<17),
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct{ refs, want, err string }{
		{refs: `"l"`, want: "l|text/plain|one\ntwo\nthree\n\n"},
		{refs: `["l",{"file":"d"}]`, want: "l|text/plain|one\ntwo\nthree\n\nd/a|text/plain|a\n"},
		{refs: `null`},
		{refs: `{"file":"l","lines":"2-2"}`, want: "l:2-2|text/plain|two\n\n"},
		{refs: `{"file":"l","lines":"2-"}`, want: "l:2-|text/plain|two\nthree\n\n"},
		{refs: `{"file":"l","lines":"3-99"}`, want: "l:3-99|text/plain|three\n\n"},
		{refs: `{"file":"open","lines":"2-"}`, want: "open:2-|text/plain|two\n"},
		{refs: `{"file":"crlf","lines":"1-1"}`, want: "crlf:1-1|text/plain|one\r\n\n"},
		{refs: `{"file":"open","lines":"3-"}`, err: "open:3-: there is no line 3"},
		{refs: `{"file":"l","lines":"4-9"}`, err: "l:4-9: there is no line 4"},
		{refs: `{"file":"empty","lines":"1-"}`, err: "empty:1-: there is no line 1"},
		{refs: `{"file":"l","bytes":"8-9223372036854775807"}`, want: "l bytes 8-9223372036854775807|text/plain|three\n\n"},
		{refs: `{"file":"l","bytes":"4-6"}`, want: "l bytes 4-6|text/plain|two\n"},
		{refs: `{"file":"l","bytes":"8-"}`, want: "l bytes 8-|text/plain|three\n\n"},
		{refs: `{"file":"l","bytes":"14-"}`, err: "l bytes 14-: there is no byte 14"},
		{refs: `{"file":"u","bytes":"0-1"}`, want: "u bytes 0-1|text/plain|a\n"},
		{refs: `{"file":"u","bytes":"2-4"}`, want: "u bytes 2-4|text/plain|\n"},
		{refs: `{"file":"u","bytes":"2-6"}`, want: "u bytes 2-6|text/plain|€b\n"},
		{refs: `{"file":"nul","bytes":"0-0"}`, want: "nul bytes 0-0|text/plain|a\n"},
		{refs: `{"file":"nul","bytes":"0-1"}`, err: "nul bytes 0-1: is neither UTF-8 text nor an image (PNG, JPEG, GIF, WebP)"},
		{refs: `{"file":"large","bytes":"2097136-"}`, want: "large bytes 2097136-|text/plain|0123456789abcde\n\n"},
		{refs: `{"file":"large","lines":"131072-131072"}`, want: "large:131072-131072|text/plain|0123456789abcde\n\n"},
		{refs: `{"file":"large","lines":"1-"}`, err: "large:1-: is larger than 1024 KiB"},
		{refs: `{"file":"large","bytes":"0-"}`, err: "large bytes 0-: is larger than 1024 KiB"},
		{refs: `{"file":"d","lines":"1-"}`, err: "d: is a folder, not a file"},
		{refs: `{"file":"none","lines":"1-"}`, err: "none: no such file or directory"},
		{refs: `""`, err: "attach: want one of file and url"},
		{refs: `7`, err: "attach: want a path, an address, or an object with file or url"},
		{refs: `[["l"]]`, err: "attach: want a path, an address, or an object with file or url"},
		{refs: `{"file":"l","url":"https://h"}`, err: "attach: want one of file and url"},
		{refs: `{"url":"https://h","lines":"1-2"}`, err: "attach: lines, bytes: are those of a file"},
		{refs: `{"file":"l","lines":"1-2","bytes":"1-2"}`, err: "attach: want one of lines and bytes"},
		{refs: `{"file":"l","lines":"0-2"}`, err: `attach: lines: "0-2" is no range such as 10-20 or 10-`},
		{refs: `{"file":"l","lines":"3-2"}`, err: `attach: lines: "3-2" is no range such as 10-20 or 10-`},
		{refs: `{"file":"l","bytes":"-2"}`, err: `attach: bytes: "-2" is no range such as 10-20 or 10-`},
		{refs: `{"file":"l","bytes":"5"}`, err: `attach: bytes: "5" is no range such as 10-20 or 10-`},
		{refs: `{"file":"l","line":"5"}`, err: `attach: unknown field "line"`},
		{refs: `{"file":"l","File":"5"}`, err: "attach: File: is there twice"},
	} {
		var refs Refs
		err := json.Unmarshal([]byte(tt.refs), &refs)
		got := ""
		if err == nil {
			r := &Reader{Dir: dir, Workspace: dir, Notice: func(string) {}}
			list, failed := r.Refs(t.Context(), refs)
			if got, err = said(list), failed; err == nil && !refs.Made(list) {
				t.Errorf("Made(%s) = false for its own attachments", tt.refs)
			}
		}
		if tt.err != "" {
			if err == nil || err.Error() != tt.err {
				t.Errorf("Refs(%s) = %v, want %s", tt.refs, err, tt.err)
			}
			continue
		}
		if err != nil || got != tt.want {
			t.Errorf("Refs(%s) = %q, %v, want %q", tt.refs, got, err, tt.want)
		}
	}
}

// TestMade: what a folder gave is known again, however its path is written.
func TestMade(t *testing.T) {
	for _, tt := range []struct {
		ref, source string
		want        bool
	}{
		{".", "a.txt", true}, {"./", "d/a", true}, {".", "https://h/a", false}, {".", "../a", false}, {".", "/d/a", false},
		{"/", "/d/a", true}, {"/", "d/a", false}, {"..", "../a", true}, {"..", "../../a", false}, {"..", "a", false},
		{"./d/", "d/a", true}, {"d/../d", "d/a", true}, {"d", "da", false}, {"d", "d/../a", false}, {"d\xff", "d\uFFFD/a", true},
		{"https://h", "https://h/a", false},
	} {
		ref := Ref{File: tt.ref}
		if IsURL(tt.ref) {
			ref = Ref{URL: tt.ref}
		}
		if got := (Refs{ref}).Made([]convstore.Attachment{{Source: tt.source}}); got != tt.want {
			t.Errorf("Made(%q) of %q = %t, want %t", tt.ref, tt.source, got, tt.want)
		}
	}
}

// TestLinesEnd: who is stopped does not read a file to its end in search of a line.
func TestLinesEnd(t *testing.T) {
	ctx, stop := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	reads := 0
	endless := readerFunc(func(p []byte) (int, error) { // one line without an end
		if reads++; reads == 3 {
			stop(why)
		}
		if reads > 4 { // what is read at once may be more than a buffer
			return 0, errors.New("read on")
		}
		return len(p), nil
	})
	if _, err := linesOf(ctx, endless, "2-"); err != why {
		t.Errorf("linesOf = %v after %d reads, want %v", err, reads, why)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
