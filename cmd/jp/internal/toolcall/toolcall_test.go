package toolcall

import (
	"strings"
	"testing"

	"jp/convstore"
	"jp/tools"
)

func TestTitle(t *testing.T) {
	for _, tt := range []struct{ source, name, args, want string }{
		{tools.SourceBuiltin, "fs_read_file", `{"path":"a/b.go","start_line":3}`, "fs_read_file a/b.go"},
		{tools.SourceBuiltin, "fs_grep_files", `{"pattern":"x"}`, `fs_grep_files {"pattern":"x"}`},
		{tools.SourceBuiltin, "fs_read_file", `{"path":3}`, `fs_read_file {"path":3}`},
		{tools.SourceDelegation, "jp_query", `{"config":"agent/x","query":"Why?\nSay\u200b."}`, `agent/x: Why?\nSay\u200b.`},
		{tools.SourceDelegation, "llm_query", `{"query":"Why?"}`, "llm_query: Why?"},
		{tools.SourceLocal, "deploy", `{"path":"x","query":"y"}`, `deploy {"path":"x","query":"y"}`},
		{"mcp.files.read", "read", `{"path":"x"}`, `read {"path":"x"}`},
		{tools.SourceBuiltin, "now", "", "now"},
		{tools.SourceBuiltin, "x", "\xff", "x \uFFFD"},
		{tools.SourceLocal, "x", strings.Repeat("y", MaxShown+1), "x " + strings.Repeat("y", 117) + "…"},
	} {
		c := convstore.ToolCall{Name: tt.name, Source: tt.source, Arguments: []byte(tt.args)}
		if got := Title(c); got != tt.want {
			t.Errorf("Title(%s %.40s) = %q, want %q", tt.name, tt.args, got, tt.want)
		}
	}
}

// The arguments of a command that runs jp have the meaning that its user gave them.
func TestAskedOfACommandThatRunsJP(t *testing.T) {
	table := map[string]any{"source": "local", "description": "Deploys.", "command": "true", "access": map[string]any{"jp": []any{"query"}}}
	def, err := tools.Decode("deploy", table, nil)
	if err != nil {
		t.Fatal(err)
	}
	const args = `{"config":"agent/reader","query":"Summarise README","target":"prod"}`
	c := Asked(tools.NewQuestion(tools.KindRun, def, tools.Call{ID: "c1", Name: "deploy", Arguments: []byte(args)}, ""))
	if got, want := Title(c), "deploy "+args; got != want {
		t.Errorf("Title = %q, want %q", got, want)
	}
	if c.Source != tools.SourceLocal {
		t.Errorf("its source is %q: it is no command", c.Source)
	}
}
