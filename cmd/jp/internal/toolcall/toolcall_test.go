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
