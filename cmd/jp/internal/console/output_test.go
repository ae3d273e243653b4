package console

import (
	"bufio"
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func TestListIsJSON(t *testing.T) {
	for _, items := range [][]any{{}, {"<a&b>"}, {map[string]any{"k": "v"}, []any{}, nil, "x"}} {
		for _, format := range []string{FormatJSON, FormatJSONPretty, FormatStream} {
			var b bytes.Buffer
			w := bufio.NewWriter(&b)
			l := List{W: w, Format: format}
			for _, item := range items {
				if err := l.Add(item); err != nil {
					t.Fatal(err)
				}
			}
			if err := l.Close(); err != nil {
				t.Fatal(err)
			}
			if err := w.Flush(); err != nil {
				t.Fatal(err)
			}
			text := b.String()
			if format == FormatStream {
				if n := strings.Count(text, "\n"); n != len(items) {
					t.Errorf("%s of %v: %d lines", format, items, n)
				}
				text = "[" + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", ",") + "]"
			} else if !strings.HasSuffix(text, "]\n") {
				t.Errorf("%s of %v = %q", format, items, text)
			}
			got := []any{}
			if err := json.Unmarshal([]byte(text), &got); err != nil || !reflect.DeepEqual(got, items) {
				t.Errorf("%s of %v = %s: %v", format, items, text, err)
			}
		}
	}
}

func TestDocumentForms(t *testing.T) {
	for format, want := range map[string]string{
		FormatJSON:       `[{"a":"<\u009b>"},{"a":"y"}]` + "\n",
		FormatJSONPretty: "[\n  {\n    \"a\": \"<\\u009b>\"\n  },\n  {\n    \"a\": \"y\"\n  }\n]\n",
		FormatStream:     `{"a":"<\u009b>"}` + "\n" + `{"a":"y"}` + "\n",
	} {
		var out bytes.Buffer
		c := New(Env{Stdout: &out})
		c.Globals.Format = format
		if err := c.Document([]map[string]string{{"a": "<\u009b>"}, {"a": "y"}}); err != nil || out.String() != want {
			t.Errorf("%s: %q, %v; want %q", format, out.String(), err, want)
		}
	}
}

// TestPath: a program gets a path as it is, and a terminal nothing to act on.
func TestPath(t *testing.T) {
	for tty, want := range map[bool]string{false: "/a\x1b[2J\u202e: ok\n", true: `/a\x1b[2J\u202e: ok` + "\n"} {
		var out bytes.Buffer
		c := New(Env{Stdout: &out})
		c.IO.OutTTY = tty
		if err := c.Path("/a\x1b[2J\u202e", ": ok"); err != nil || out.String() != want {
			t.Errorf("on a terminal %v: %q, %v; want %q", tty, out.String(), err, want)
		}
	}
}
