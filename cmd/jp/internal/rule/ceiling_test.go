package rule

import (
	"slices"
	"testing"

	"jp/convstore"
	"jp/tools"
)

// TestCeiling: the roles and the grant must all let a tool through; without its authority, name and
// source decide.
func TestCeiling(t *testing.T) {
	read := tools.Definition{Name: "fs_read_file", Source: tools.SourceBuiltin}
	ask := tools.Definition{Name: "ask_user", Source: tools.SourceInteractive}
	remote := tools.Definition{Name: "issues", Source: "mcp.github", Remote: "issues"}
	other := tools.Definition{Name: "fs_read_file", Source: tools.SourceLocal}
	all := []tools.Definition{read, ask, remote, other}
	pinned := remote
	pinned.Pin = "p"
	grant := &convstore.Grant{
		Tools:     []string{"fs_read_file", "ask_user", "issues"},
		Authority: map[string]string{"fs_read_file": read.Authority(), "ask_user": ask.Authority(), "issues": pinned.Authority()},
	}
	tests := []struct {
		grant  *convstore.Grant
		roles  []string
		holds  []bool // of all
		may    []bool
		pinned bool
		role   string
	}{
		{nil, nil, []bool{false, false, false, false}, []bool{false, false, false, false}, false, ""},
		{nil, []string{""}, []bool{true, true, true, true}, []bool{true, true, true, true}, true, "main"},
		{nil, []string{"subagent"}, []bool{true, false, true, true}, []bool{true, false, true, true}, true, "subagent"},
		{nil, []string{"main", "synthesis"}, []bool{true, false, false, false}, []bool{true, false, false, false}, false, "main as synthesis"},
		{nil, []string{"synthesis", "main"}, []bool{true, false, false, false}, []bool{true, false, false, false}, false, "synthesis"},
		{grant, []string{"subagent", ""}, []bool{true, false, false, false}, []bool{true, false, true, true}, true, "subagent"},
		{grant, []string{"main"}, []bool{true, true, false, false}, []bool{true, true, true, true}, true, "main"},
		{&convstore.Grant{}, []string{"main"}, []bool{false, false, false, false}, []bool{false, false, false, false}, false, "main"},
	}
	for _, tt := range tests {
		c, err := CeilingOf(tt.grant, tt.roles...)
		if err != nil {
			t.Fatal(err)
		}
		var holds, may []bool
		var names []string
		for i, d := range all {
			holds, may = append(holds, c.Holds(d)), append(may, c.MayHold(d))
			if tt.holds[i] {
				names = append(names, d.Name)
			}
		}
		if !slices.Equal(holds, tt.holds) || !slices.Equal(may, tt.may) || !slices.Equal(c.Names(all), names) {
			t.Errorf("roles %q, grant %v: holds %v, may hold %v, names %q, want %v, %v, %q", tt.roles, tt.grant, holds, may, c.Names(all), tt.holds, tt.may, names)
		}
		if got := c.Holds(pinned); got != tt.pinned {
			t.Errorf("roles %q, grant %v: holds the pinned tool: %v, want %v", tt.roles, tt.grant, got, tt.pinned)
		}
		if got := c.Role(); got != tt.role {
			t.Errorf("Role() = %q, want %q", got, tt.role)
		}
	}
	if c, err := CeilingOf(nil, "main", "unheard"); err == nil || c.Holds(read) {
		t.Errorf("an unknown role: %v, holds a tool: %v, want an error and nothing", err, c.Holds(read))
	}
}
