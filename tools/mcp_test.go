package tools

import (
	"encoding/json"
	"testing"
)

// What a table says of a tool of an MCP server.
func TestDecodeMCP(t *testing.T) {
	for _, tt := range []struct {
		table                    map[string]any
		source, remote, declared string
		err                      string
	}{
		{map[string]any{"source": "mcp.files"}, "mcp.files", "a", "mcp.files", ""},
		{map[string]any{"source": "mcp.files.read.all"}, "mcp.files", "read.all", "mcp.files.read.all", ""},
		{map[string]any{"source": "mcp.files.a"}, "mcp.files", "a", "mcp.files", ""},
		{map[string]any{"source": "mcp.files."}, "", "", "", `tool a: source: want builtin, local, delegation, conversation, interactive or mcp.<server>, not "mcp.files."`},
		{map[string]any{"source": "mcp.files", "env": []any{"HOME"}}, "", "", "", "tool a: env: a tool of an MCP server has none: its server runs by itself"},
		{map[string]any{"source": "mcp.files", "parameters": map[string]any{}}, "", "", "", "tool a: parameters: a tool of an MCP server has none: its server says what it takes"},
	} {
		d, err := Decode("a", tt.table, nil)
		if err != nil {
			if err.Error() != tt.err {
				t.Errorf("%v: %v, want %s", tt.table, err, tt.err)
			}
			continue
		}
		if tt.err != "" || d.Source != tt.source || d.Remote != tt.remote || d.Declared() != tt.declared || d.Schema != nil || d.Timeout != DefaultTimeout {
			t.Errorf("%v: %+v, declared %s", tt.table, d, d.Declared())
		}
		over, err := Overlay(d, map[string]any{"source": tt.declared, "run": "unattended"}, nil)
		if err != nil || over.Source != d.Source || over.Remote != d.Remote || over.Run != RunUnattended {
			t.Errorf("%v: overlay %+v, %v", tt.table, over, err)
		}
		if _, err := Overlay(d, map[string]any{"source": "mcp.other"}, nil); err == nil {
			t.Errorf("%v: an overlay moves it to another server", tt.table)
		}
	}
}

func TestPinned(t *testing.T) {
	d, err := Decode("a", map[string]any{"source": "mcp.files"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	schema := json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`)
	p, err := d.Pinned("one", "Reads.", schema)
	if err != nil || p.Description != "Reads." || p.Authority() == d.Authority() {
		t.Errorf("pinned = %+v, %v", p, err)
	}
	if other, _ := d.Pinned("two", "Reads.", schema); other.Authority() == p.Authority() {
		t.Error("another pin has the same authority")
	}
	if args, err := p.Validate(json.RawMessage(`{"n":"1"}`)); err != nil || string(args) != `{"n":1}` {
		t.Errorf("Validate = %s, %v", args, err)
	}
	for _, bad := range []string{`{"type":"object","properties":{"a":{"$ref":"http://x/y"}}}`, `{"type":"object","properties":[]}`, `7`} {
		if _, err := d.Pinned("one", "", json.RawMessage(bad)); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}
