package role_test

import (
	"fmt"
	"reflect"
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
	all, err := role.Tools(role.Main)
	if err != nil {
		t.Fatal(err)
	}
	rules := role.ToolRules{Sources: []string{"web"}, Names: []string{"x"}}
	less := all.Without(rules)
	more := less.With(role.ToolRules{Names: []string{"y"}})
	renamed := more.Rename("other")
	rules.Names[0] = "changed"
	more.Denied().Names[0] = "changed"
	if d := all.Denied(); len(d.Sources)+len(d.Names) != 0 {
		t.Errorf("main denies %v, want nothing", d)
	}
	if got, want := less.Denied(), (role.ToolRules{Sources: []string{"web"}, Names: []string{"x"}}); !reflect.DeepEqual(got, want) {
		t.Errorf("copy denies %v, want %v", got, want)
	}
	if len(less.Allowed().Names) != 0 || len(more.Allowed().Names) != 1 {
		t.Errorf("allowed names: %v and %v, want none and y", less.Allowed().Names, more.Allowed().Names)
	}
	if renamed.Name() != "other" || more.Name() != "main" || !reflect.DeepEqual(renamed.Rename("main"), more) {
		t.Errorf("renamed %q from %q: want the same rules", renamed.Name(), more.Name())
	}
}

// A program with agents of its own makes a role from one that is there: narrower, under a name of
// its own.
func ExampleToolProfile() {
	subagent, err := role.Tools(role.Subagent)
	if err != nil {
		panic(err)
	}
	reader := subagent.
		Without(role.ToolRules{Sources: []string{"delegation", "mcp.*"}, Names: []string{"fs_create_file", "fs_modify_file"}}).
		Rename("reader")
	fmt.Println(reader.Name(), "may hold sources", reader.Allowed().Sources)
	fmt.Println("and never the names", reader.Denied().Names)
	fmt.Println("fs_read_file:", reader.Matches("fs_read_file", "builtin"))
	fmt.Println("fs_modify_file:", reader.Matches("fs_modify_file", "builtin"))
	fmt.Println("issues of an MCP server:", reader.Matches("issues", "mcp.github"))
	// Output:
	// reader may hold sources [builtin conversation delegation local mcp.*]
	// and never the names [ask_user fs_create_file fs_modify_file]
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
