package trust

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"jp/tools/fs"
)

// TestLay lays a workspace on another machine, and lets the gate of a sub-agent there judge it.
func TestLay(t *testing.T) {
	root := t.TempDir()
	write := func(path, text string) {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(".jp/tools/hello.toml", "name = \"hello\"\nsource = \"local\"\ndescription = \"x\"\ncommand = \"echo\"\n")
	write("AGENTS.md", "be kind")
	passed, err := look(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name string
		sent Sent
		then func()
		want string // part of the error; "" = it can be used
	}{
		{"same", Sent{Root: root, Stamps: passed.Stamps}, nil, ""},
		{"copied", Sent{Root: "/nowhere", Files: passed.Data, Copied: true}, nil, ""},
		{"withheld", Sent{Root: root, Withheld: true, Kept: fs.Kept{Deny: []string{"/srv/jp"}}}, nil, ""},
		{"not there", Sent{Root: filepath.Join(root, "no")}, nil, "not there"},
		{"relative", Sent{Root: "."}, nil, "not an absolute path"},
		{"out of it", Sent{Root: "/", Files: map[string][]byte{"../x": nil}, Copied: true}, nil, `"../x": no file of a workspace`},
		{"absolute", Sent{Root: "/", Files: map[string][]byte{"/etc/x": nil}, Copied: true}, nil, `"/etc/x": no file of a workspace`},
		{"changed", Sent{Root: root, Stamps: passed.Stamps}, func() { write("AGENTS.md", "be rude") }, "is another one here: AGENTS.md (changed)"},
	} {
		if tt.then != nil {
			tt.then()
		}
		at, environ, err := tt.sent.Lay(t.TempDir())
		if tt.want != "" {
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%s: Lay: %v, want %s", tt.name, err, tt.want)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s: Lay: %v", tt.name, err)
			continue
		}
		state, _ := strings.CutPrefix(environ[0], "JP_STORE=")
		g := &Gate{Records: func(context.Context, string) (string, error) { return state, nil }}
		file, canonical, err := g.RecordPath(t.Context(), at)
		if err != nil {
			t.Fatal(err)
		}
		r, complaint := readRecord(file, canonical)
		if tt.sent.Withheld {
			kept, _ := strings.CutPrefix(environ[1], "JP_KEPT=")
			data, _ := os.ReadFile(kept)
			if r != nil || filepath.Dir(kept) != state || !slices.Equal(environ[2:], []string{"JP_TRUST_WORKSPACE=none"}) || string(data) != `{"deny":["/srv/jp"]}` {
				t.Errorf("%s: record %v, environ %q, kept %s", tt.name, r, environ, data)
			}
			continue
		}
		there, err := look(at)
		if err != nil || r == nil || complaint != "" || len(Changes(r.trusted(there.Stamps), there.Stamps)) > 0 {
			t.Errorf("%s: record %+v, %s, files %v, %v", tt.name, r, complaint, there.Stamps, err)
		}
	}
}
