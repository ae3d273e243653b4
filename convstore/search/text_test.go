package search

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"jp/convstore"
	"jp/tools/jsondoc"
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

// TestNameOnce: a name that is long or has line breaks is there once, whatever number of values it
// has, and what has more values than any reader takes is one text.
func TestNameOnce(t *testing.T) {
	long := strings.Repeat("n", longName+1)
	many := "[" + strings.Repeat("0,", jsondoc.MaxValues) + "0]"
	for raw, want := range map[string][]string{
		`{"a":[1,{"b":[2,"x\ny"]},null],"c":{}}`:     {"a: 1", "b: 2", "b: x", "y", "a: null"},
		`{"` + long[1:] + `":[1,2]}`:                 {long[1:] + ": 1", long[1:] + ": 2"},
		`{"` + long + `":[1,{"b":2},true],"c":"d"}`:  {long, "1", "b: 2", "true", "c: d"},
		`{"m\nn":["p\nq",{"` + long + `":[]}],"":0}`: {"m", "n", "p", "q", long, "0"},
		many: {many},
	} {
		if got := valueLines(nil, json.RawMessage(raw)); !slices.Equal(got, want) {
			t.Errorf("lines of %.60s: %.200q, want %.200q", raw, got, want)
		}
	}
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
