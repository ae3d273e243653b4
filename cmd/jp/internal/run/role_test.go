package run

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"

	"jp/profiles/role"
	"jp/tools"
)

// TestRolesPlaceEveryTool is the place where someone decides which roles hold a new tool. It reads
// the registry, so that a tool or a source cannot appear without an entry here.
func TestRolesPlaceEveryTool(t *testing.T) {
	const (
		all     = "main scheduled subagent synthesis"
		workers = "main scheduled subagent"
	)
	want := map[string]string{
		"ask_user":              "main",
		"fs_create_file":        workers,
		"fs_grep_files":         all,
		"fs_list_files":         all,
		"fs_modify_file":        workers,
		"fs_read_file":          all,
		"jp_batch_query":        workers,
		"jp_conversation_grep":  all,
		"jp_conversation_list":  all,
		"jp_conversation_print": all,
		"jp_query":              workers,
		"llm_query":             workers,
		"skill":                 workers,
	}
	var got []string
	for _, name := range tools.EmbeddedNames() {
		def, ok := tools.Embedded(name)
		if !ok {
			t.Fatalf("tool %s: cannot be read", name)
		}
		got = append(got, name)
		if roles := holders(t, name, def.Source); roles != want[name] {
			t.Errorf("tool %s of source %s is held by %q, want %q: place it in role.Tools and here", name, def.Source, roles, want[name])
		}
		// Under a source that nobody has decided about the name gains nothing, and main holds it as
		// it holds everything.
		if roles := holders(t, name, "unplaced"); roles != "main" {
			t.Errorf("tool %s of another source is held by %q, want main alone", name, roles)
		}
	}
	for name := range want {
		if !slices.Contains(got, name) {
			t.Errorf("tool %s is placed and does not exist", name)
		}
	}
}

func TestRolesPlaceEverySource(t *testing.T) {
	want := map[string]string{
		"builtin":      "main scheduled subagent",
		"conversation": "main scheduled subagent synthesis",
		"delegation":   "main scheduled subagent",
		"interactive":  "main",
		"local":        "main scheduled subagent",
	}
	file, err := parser.ParseFile(token.NewFileSet(), "../../../../tools/definition.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		for i, id := range spec.Names {
			if !strings.HasPrefix(id.Name, "Source") || len(spec.Values) <= i {
				continue
			}
			lit, ok := spec.Values[i].(*ast.BasicLit)
			if !ok {
				t.Fatalf("%s: not a literal", id.Name)
			}
			source, err := strconv.Unquote(lit.Value)
			if err != nil {
				t.Fatal(err)
			}
			found[source] = true
			if roles := holders(t, "some_tool", source); roles != want[source] {
				t.Errorf("source %s is held by %q, want %q: place it in role.Tools and here", source, roles, want[source])
			}
		}
		return true
	})
	for source := range want {
		if !found[source] {
			t.Errorf("source %s is placed and does not exist", source)
		}
	}
}

// holders are the roles that hold a tool, sorted.
func holders(t *testing.T, name, source string) string {
	t.Helper()
	var roles []string
	for _, of := range role.All() {
		p, err := role.Tools(of)
		if err != nil {
			t.Fatal(err)
		}
		if p.Matches(name, source) {
			roles = append(roles, of)
		}
	}
	return strings.Join(roles, " ")
}
