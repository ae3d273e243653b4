package search

import (
	"strings"
	"testing"

	"jp/convstore"
)

func FuzzValueLines(f *testing.F) {
	f.Add([]byte(`{"a":[1,{"b\nc":"d\ne"}],"":null}`))
	f.Add([]byte(`{"a\n":"b"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for _, line := range valueLines(nil, raw) {
			if strings.Contains(line, "\n") {
				t.Fatalf("%q has the line %q", raw, line)
			}
		}
	})
}

// FuzzLinesOf takes the lines of every body that decodes: no panic, and no line break.
func FuzzLinesOf(f *testing.F) {
	f.Add([]byte(`{"type":"chat_request","content":"a\nb","attachments":[{"source":"s","text":"t"}]}`))
	f.Add([]byte(`{"type":"inquiry_request","id":"i","source":{"name":"n"},"question":{"text":"t","answer_type":{"options":["a\nb"]},"default":[1]}}`))
	f.Add([]byte(`{"type":"tool_call_request","name":"n","arguments_text":"no\njson"}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		body, err := convstore.DecodeBody(raw)
		if err != nil {
			return
		}
		for _, line := range linesOf(body) {
			if strings.Contains(line, "\n") {
				t.Fatalf("%q has the line %q", raw, line)
			}
		}
	})
}
