package acp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"jp/tools/jsondoc"
)

func TestLines(t *testing.T) {
	const most = 20
	long := strings.Repeat("x", 70)
	for _, tt := range []struct {
		in   string
		want []string // "long" for errLong
	}{
		{"", nil},
		{"a\nb\n", []string{"a", "b"}},
		{"a\r\n\n  \n b \nc", []string{"a", "b", "c"}},
		{long + "\nb\n", []string{"long", "b"}},
		{"a\n" + long, []string{"a", "long"}},
		{strings.Repeat("y", most-1) + "\n" + strings.Repeat("z", most) + "\n", []string{strings.Repeat("y", most-1), "long"}},
	} {
		for _, r := range []io.Reader{strings.NewReader(tt.in), iotest.OneByteReader(strings.NewReader(tt.in)), iotest.DataErrReader(strings.NewReader(tt.in))} {
			l := lines{r: bufio.NewReaderSize(r, 16), most: most}
			var got []string
			for {
				line, err := l.next()
				if errors.Is(err, io.EOF) {
					break
				}
				if err == errLong {
					line = []byte("long")
				} else if err != nil {
					t.Fatal(err)
				}
				got = append(got, string(line))
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("lines of %q = %q, want %q", tt.in, got, tt.want)
			}
		}
	}
}

// TestTextContent: nothing in a text ends the code block that it is in.
func TestTextContent(t *testing.T) {
	for text, want := range map[string]string{
		"":                         "```\n\n```",
		`z = "[ok](<; rm -rf ~>)"`: "```\n" + `z = "[ok](<; rm -rf ~>)"` + "\n```",
		"`` <!-- a\n":              "```\n`` <!-- a\n```",
		"```\n<!-- rm\n````\n-->":  "`````\n```\n<!-- rm\n````\n-->\n`````",
	} {
		if got := TextContent(text).Content.Text; got != want {
			t.Errorf("TextContent(%q) = %q, want %q", text, got, want)
		}
	}
}

// TestDecodeBounded: no message can take a hundred times its own memory.
func TestDecodeBounded(t *testing.T) {
	line := `{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"prompt":[` + strings.Repeat("{},", jsondoc.MaxValues) + `{}]}}`
	if _, _, err := decode([]byte(line)); err == nil || err.Code != codeRequest {
		t.Errorf("a message of too many values is taken: %v", err)
	}
}

// FuzzDecode: a line is a message that says the same when it is written again, or is answered with
// an error under an id that can be told.
func FuzzDecode(f *testing.F) {
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":1,"method":"session/prompt","params":{"prompt":[]}}`, `{"jsonrpc":"2.0","method":"session/cancel"}`,
		`{"jsonrpc":"2.0","id":"a","error":{"code":-1,"message":"x"}}`, `{"jsonrpc":"2.0","id":-1,"result":null}`, `[]`, `{`, `"x"`, `{"id":1e3}`,
	} {
		f.Add([]byte(line))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		line = bytes.TrimSpace(line)
		if len(line) == 0 {
			return
		}
		m, id, bad := decode(line)
		if bad != nil {
			b, err := encode(failure{"2.0", id, bad})
			if err != nil || bytes.Count(b, []byte("\n")) != 1 {
				t.Fatalf("decode(%q) is answered with %q, %v", line, b, err)
			}
			return
		}
		if m.Method == "" && m.ID == nil || m.ID != nil && !validID(m.ID) {
			t.Fatalf("decode(%q) = %+v", line, m)
		}
		b, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		again, _, bad := decode(b)
		if bad != nil || again.Method != m.Method || (m.ID != nil && !bytes.Equal(again.ID, m.ID)) {
			t.Fatalf("decode(%q) = %+v, again %+v, %v", line, m, again, bad)
		}
	})
}
