package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestWhoOpensFiles: a workspace's bytes come from the gate. Package profiles opens files in one
// place, jp never has it read a workspace from the disk, and what else opens files is listed here
// with what these are. A new row is right for files that are none of a workspace's config, tools,
// skills, instructions or servers; else use trust.Files.
func TestWhoOpensFiles(t *testing.T) {
	want := map[string]string{
		"profiles/disk.go":            "files outside of a workspace",
		"profiles/ondisk/ondisk.go":   "files of a workspace, for other programs than jp",
		"profiles/foreign/foreign.go": "an agent file that a person names",
		"profiles/skill/skill.go":     "skills of the home folder",

		"cmd/jp/internal/attach":       "attachments",
		"cmd/jp/internal/cli":          "commands: questions, drafts, batches, conversations; a config file that is edited",
		"cmd/jp/internal/console":      "the log",
		"cmd/jp/internal/model/gate":   "the state folder",
		"cmd/jp/internal/model/script": "scripts of models, which are data",
		"cmd/jp/internal/otel":         "certificates",
		"cmd/jp/internal/record":       "recordings",
		"cmd/jp/internal/rustjp":       "conversations of the Rust program",
		"cmd/jp/internal/servers":      "records of approval",
		"cmd/jp/internal/term":         "the terminal",
		"cmd/jp/internal/trust":        "the gate",
		"cmd/jp/internal/workspace":    "names of the user's config",
	}
	// Files that open something and name a file of a workspace in a path.
	named := map[string]string{
		"cmd/jp/internal/cli/init.go":           "makes the workspace",
		"cmd/jp/internal/cli/profile_import.go": "makes profiles",
		"cmd/jp/internal/rustjp/folder.go":      "the Rust program's conversations in .jp",
	}
	const gate, cli, top = "cmd/jp/internal/trust", "cmd/jp/internal/cli", "../.."
	found, used := 0, map[string]bool{}
	for _, root := range []string{"profiles", "cmd/jp/internal"} {
		if err := filepath.WalkDir(filepath.Join(top, root), func(file string, e fs.DirEntry, err error) error {
			if err != nil || e.IsDir() || path.Ext(file) != ".go" || strings.HasSuffix(file, "_test.go") || strings.Contains(file, "/internal/test/") {
				return err
			}
			found++
			name := strings.TrimPrefix(filepath.ToSlash(file), top+"/")
			if strings.HasPrefix(name, cli+"/") {
				name = path.Join(cli, path.Base(name)) // in whatever group of commands
			}
			o, err := opensOf(file)
			if err != nil {
				return err
			}
			row := name
			if root != "profiles" {
				row = path.Dir(name)
				if slices.Contains(o.calls, "jp/profiles/ondisk.FS") {
					t.Errorf("%s: ondisk.FS goes round the gate; use trust.Files.FS", name)
				}
				if row != gate && len(o.calls) > 0 && len(o.names) > 0 && named[name] == "" {
					t.Errorf("%s: opens files (%s) and names %q; use trust.Files for a workspace's", name, o.calls, o.names)
				}
			}
			used[row] = used[row] || len(o.calls) > 0
			used[name] = used[name] || len(o.calls) > 0 && len(o.names) > 0
			if len(o.calls) > 0 && want[row] == "" {
				t.Errorf("%s: opens files (%s); if they are none of a workspace's, list %s here", name, o.calls, row)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	for _, list := range []map[string]string{want, named} {
		for row := range list {
			if !used[row] {
				t.Errorf("%s: is listed and opens nothing of the kind", row)
			}
		}
	}
	if found < 100 {
		t.Errorf("%d files of Go", found)
	}
	// The walk sees what it looks for.
	for _, file := range []string{"profiles/disk.go", "cmd/jp/internal/trust/trust_files.go", "cmd/jp/internal/rustjp/folder.go"} {
		if o, err := opensOf(filepath.Join(top, file)); err != nil || len(o.calls) == 0 || len(o.names) == 0 && !strings.HasPrefix(file, "profiles") {
			t.Errorf("%s: %+v, %v", file, o, err)
		}
	}
}

// opens is what a file of Go opens files with, and names of a workspace's files in it.
type opens struct{ calls, names []string }

var (
	openers = map[string][]string{
		"os":                    {"CopyFS", "DirFS", "Open", "OpenFile", "OpenInRoot", "OpenRoot", "ReadDir", "ReadFile"},
		"path/filepath":         {"Glob", "Walk", "WalkDir"},
		"syscall":               {"Open", "Openat"},
		"golang.org/x/sys/unix": {"Open", "Openat", "Openat2"},
		"jp/tools/files":        {"Disk", "OpenRegular", "ReadRegular"},
		"jp/profiles/ondisk":    {"FS"},
	}
	ofWorkspace = regexp.MustCompile(`^(\.jp|\.agents|\.claude)(/[^ ]*)?$|^(AGENTS\.md|CLAUDE\.md|SKILL\.md|\.mcp\.json)$`)
)

func opensOf(file string) (o opens, err error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		return o, err
	}
	imported := map[string]string{}
	for _, spec := range parsed.Imports {
		from, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return o, err
		}
		name := path.Base(from)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		imported[name] = from
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && slices.Contains(openers[imported[x.Name]], n.Sel.Name) {
				o.calls = append(o.calls, imported[x.Name]+"."+n.Sel.Name)
			}
		case *ast.BasicLit:
			if text, err := strconv.Unquote(n.Value); n.Kind == token.STRING && err == nil && ofWorkspace.MatchString(text) {
				o.names = append(o.names, text)
			}
		}
		return true
	})
	return o, nil
}
