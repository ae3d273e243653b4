package mcp

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// FuzzParseFile: of a .mcp.json that anybody wrote, an entry that may be used says all that it will
// do: its variables are listed, no value of one becomes a second header or variable, and a recorded
// entry is the same again.
func FuzzParseFile(f *testing.F) {
	f.Add([]byte(`{"mcpServers":{"a":{"command":"x","args":["${A}","${B:-c}"],"env":{"K":"${K}"}},"b":{"type":"http","url":"https://h/${P}","headers":{"X-K":"${T}"}}}}`), "v")
	f.Add([]byte(`{"mcpServers":{"a":{"url":"${U}"},"b":{"command":"x","env":{"JP_X":"1"}},"c":{"url":"http://u:p@h/#f"}}}`), "http://u@h")
	f.Add([]byte(`{"mcpServers":{"a":{"command":"${${A}}"},"a b":{"command":"x\u0000"},"c":null,"d":[]}}`), "${A}")
	f.Add([]byte(`{"mcpServers":{"a":{"url":"http://h","headers":{"K":"${V}","Host":"x","a:b":""}}}}`), "1\r\nX: 2")
	f.Fuzz(func(t *testing.T, data []byte, value string) {
		all, err := ParseFile(data, "/dir")
		if err != nil {
			return
		}
		for name, e := range all {
			s := e.Server
			if e.Err != nil {
				continue
			}
			if s.Name != name || !validName(name) || (s.Command == "") == (s.URL == "") || (s.Dir == "/dir") != (s.Command != "") {
				t.Fatalf("%q: %+v", name, s)
			}
			record, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			var again Server
			if err := json.Unmarshal(record, &again); err != nil || again.Digest() != s.Digest() {
				t.Fatalf("%s is recorded as another one: %+v, %v", record, again, err)
			}
			listed := map[string]bool{}
			for _, v := range s.Variables() {
				listed[v] = true
			}
			x, err := s.expanded(func(v string) (string, bool, error) {
				if !listed[v] {
					t.Errorf("%s takes %s, which is not among %v", record, v, s.Variables())
				}
				return value, true, nil
			})
			if err != nil {
				continue
			}
			if len(x.Args) != len(s.Args) || len(x.Env) != len(s.Env) || len(x.Headers) != len(s.Headers) {
				t.Errorf("%s expands to %+v", record, x)
			}
			if len(listed) == 0 && x.Address() != s.Address() {
				t.Errorf("%s names no variable and expands to %s", record, x.Address())
			}
			if x.URL == "" {
				continue
			}
			if r, err := http.NewRequest(http.MethodPost, x.URL, nil); err != nil || r.URL.User != nil || r.URL.Host == "" {
				t.Errorf("%s expands to the address %q: %v", record, x.URL, err)
			}
			for k, v := range x.Headers {
				if strings.ContainsAny(k+v, "\r\n\x00") {
					t.Errorf("%s expands to the header %q: %q", record, k, v)
				}
			}
		}
	})
}

// FuzzAccept: what a server lists of a tool is refused or clean, and is accepted again as the same.
func FuzzAccept(f *testing.F) {
	f.Add("t", " Does\x1b[31m it.\u202e ", []byte(`{"type":"object","properties":{"a":{"description":"\u001b]0;x\u0007"}}}`))
	f.Add("a b", "", []byte(`{}`))
	f.Add("t", "\xff", []byte(`{"type":"string"}`))
	f.Add("t", "", []byte(`{"a\u0000":1e999,"b":[[[[1]]]]}`))
	f.Fuzz(func(t *testing.T, name, about string, schema []byte) {
		in := &sdk.Tool{Name: name, Description: about, InputSchema: json.RawMessage(schema)}
		got, err := accept(in)
		if err != nil {
			return
		}
		if got.Name != name || cleanText(got.Name+got.Description) != got.Name+got.Description || !utf8.Valid(got.Schema) {
			t.Fatalf("%+v", got)
		}
		in = &sdk.Tool{Name: got.Name, Description: got.Description, InputSchema: got.Schema}
		if again, err := accept(in); err != nil || again.Digest() != got.Digest() {
			t.Fatalf("%+v with the schema %s, and again %+v with %s, %v", got, got.Schema, again, again.Schema, err)
		}
	})
}
