package role_test

import (
	"fmt"
	"strings"
	"testing"

	"jp/profiles/role"
)

// TestToolProfile: cases R1 of the conformance table. The 25 rows of its snapshot name tools of
// another program; the snapshot of ours, from the registry itself, is in package cli.
func TestToolProfile(t *testing.T) {
	none := role.ToolProfile{}
	all := none.With(role.ToolRules{Sources: []string{"*"}})
	web := none.With(role.ToolRules{Sources: []string{"web"}})
	tests := []struct {
		name         string
		p            role.ToolProfile
		tool, source string
		want         bool
	}{
		{"nothing is allowed", none, "web_search", "web", false},
		{"all", all, "anything", "any", true},
		{"all but no source", all, "anything", "", false},
		{"name denied", all.Without(role.ToolRules{Names: []string{"x"}}), "x", "web", false},
		{"other name denied", all.Without(role.ToolRules{Names: []string{"x"}}), "y", "web", true},
		{"source denied", all.Without(role.ToolRules{Sources: []string{"web"}}), "x", "web", false},
		{"denied and allowed", web.With(role.ToolRules{Names: []string{"x"}}).Without(role.ToolRules{Names: []string{"x"}}), "x", "web", false},
		{"source denied, name allowed", none.With(role.ToolRules{Names: []string{"x"}}).Without(role.ToolRules{Sources: []string{"web"}}), "x", "web", false},
		{"one source", web, "web_search", "web", true},
		{"another source", web, "read_file", "filesystem", false},
		{"source and name: name", web.With(role.ToolRules{Names: []string{"read_file"}}), "read_file", "filesystem", true},
		{"source and name: other", web.With(role.ToolRules{Names: []string{"read_file"}}), "delete_file", "filesystem", false},
		{"case counts", web, "x", "Web", false},
		{"prefix", none.With(role.ToolRules{Sources: []string{"mcp.*"}}), "x", "mcp.github", true},
		{"prefix alone", none.With(role.ToolRules{Sources: []string{"mcp.*"}}), "x", "mcp", false},
		{"prefix and nothing", none.With(role.ToolRules{Sources: []string{"mcp.*"}}), "x", "mcp.", false},
		{"like a prefix", none.With(role.ToolRules{Sources: []string{"mcp.*"}}), "x", "mcpx.github", false},
		{"a star elsewhere is no pattern", none.With(role.ToolRules{Sources: []string{"mcp*"}}), "x", "mcp.github", false},
		{"denied prefix", all.Without(role.ToolRules{Sources: []string{"mcp.*"}}), "x", "mcp.github", false},
		{"our name, our source", none.With(role.ToolRules{Names: []string{"fs_read_file"}}), "fs_read_file", "builtin", true},
		{"our name, another source", none.With(role.ToolRules{Names: []string{"fs_read_file"}}), "fs_read_file", "local", false},
		{"our name denied, another source", all.Without(role.ToolRules{Names: []string{"ask_user"}}), "ask_user", "local", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.p.Matches(tt.tool, tt.source); got != tt.want {
				t.Errorf("Matches(%q, %q) = %v, want %v", tt.tool, tt.source, got, tt.want)
			}
		})
	}
}

func TestToolProfileIsImmutable(t *testing.T) {
	reader, err := role.Tools(role.Synthesis)
	if err != nil {
		t.Fatal(err)
	}
	rules := role.ToolRules{Sources: []string{"web"}, Names: []string{"x"}}
	more := reader.With(rules)
	less := more.Without(rules)
	again := less.With(role.ToolRules{Names: []string{"y"}})
	rules.Names[0], rules.Sources[0] = "changed", "changed"
	for what, tt := range map[string]struct {
		p    role.ToolProfile
		want string // tools that are held
	}{"the first": {reader, ""}, "with": {more, "web x"}, "without": {less, ""}, "with more": {again, "y"}} {
		var held []string
		for _, tool := range []struct{ name, source string }{{"web", "web"}, {"x", "local"}, {"y", "local"}, {"changed", "local"}, {"z", "changed"}} {
			if tt.p.Matches(tool.name, tool.source) {
				held = append(held, tool.name)
			}
		}
		if got := strings.Join(held, " "); got != tt.want || tt.p.Name() != role.Synthesis {
			t.Errorf("%s: %q holds %q, want %q", what, tt.p.Name(), got, tt.want)
		}
	}
}

// A program with agents of its own makes a role from one that is there: narrower.
func ExampleToolProfile() {
	subagent, err := role.Tools(role.Subagent)
	if err != nil {
		panic(err)
	}
	reader := subagent.
		Without(role.ToolRules{Sources: []string{"delegation", "mcp.*"}, Names: []string{"fs_create_file", "fs_modify_file"}})
	fmt.Println("fs_read_file:", reader.Matches("fs_read_file", "builtin"))
	fmt.Println("fs_modify_file:", reader.Matches("fs_modify_file", "builtin"))
	fmt.Println("issues of an MCP server:", reader.Matches("issues", "mcp.github"))
	// Output:
	// fs_read_file: true
	// fs_modify_file: false
	// issues of an MCP server: false
}

func TestRoles(t *testing.T) {
	// What the roles do with sources and names that are not jp's own. Those of the live registry
	// are in package cli.
	tests := []struct {
		tool, source string
		want         string // the first letters of the roles that hold it: main, scheduled, subagent, synthesis
	}{
		{"wc", "local", "main scheduled subagent"},
		{"issues", "mcp.github", "main scheduled subagent"},
		{"llm_tool_review", "delegation", "main scheduled subagent"},
		{"ask_user", "interactive", "main"},
		{"ask_other", "interactive", "main"},
		{"ask_user", "local", "main scheduled subagent"},
		{"fs_read_file", "local", "main scheduled subagent"},
		{"fs_read_file", "mcp.github", "main scheduled subagent"},
		{"fs_read_file", "new", "main"},
		{"fs_future", "builtin", "main scheduled subagent"},
		{"x", "new", "main"},
		{"x", "mcp", "main"},
		{"x", "", ""},
	}
	for _, tt := range tests {
		var got []string
		for _, name := range role.All() {
			p, err := role.Tools(name)
			if err != nil {
				t.Fatal(err)
			}
			if p.Name() != name {
				t.Errorf("Tools(%q).Name() = %q", name, p.Name())
			}
			if p.Matches(tt.tool, tt.source) {
				got = append(got, name)
			}
		}
		if got := strings.Join(got, " "); got != tt.want {
			t.Errorf("%s of source %q is held by %q, want %q", tt.tool, tt.source, got, tt.want)
		}
	}
	if p, err := role.Tools(""); err != nil || p.Name() != "main" {
		t.Errorf(`Tools("") = %q, %v, want main`, p.Name(), err)
	}
	for _, bad := range []string{"Main", "worker", "subagent ", "*"} {
		p, err := role.Tools(bad)
		if err == nil || p.Matches("fs_read_file", "builtin") {
			t.Errorf("Tools(%q) = %v, want an error and a profile that admits nothing", bad, err)
		}
	}
}
