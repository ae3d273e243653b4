package profiles

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"jp/profiles/ondisk"
)

func TestCheck(t *testing.T) {
	root := t.TempDir()
	for name, text := range map[string]string{
		".jp/config.toml":       "extends = [\"parts/*.toml\", \"none*.toml\"]\nconfig_load_paths = [\"/etc\"]\n[assistant]\nmodle = \"x\"\n[store]\npath = \"/x\"\n",
		".jp/parts/a.toml":      "assistant.name = 3\n",
		".jp/config/fine.toml":  "[loader]\nreset = \"none\"\n",
		".jp/config/out.toml":   "extends = [\"../../x.toml\"]\n",
		".jp/config/plain.toml": "assistant.name = \n",
	} {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	src := Sources{Workspace: root, Files: ondisk.FS(root), Dir: root}
	at := func(name string) string { return filepath.Join(root, name) }
	for name, want := range map[string][]string{
		".jp/config.toml": {
			at(".jp/parts/a.toml") + ":1: assistant.name: must be text, not a whole number",
			at(".jp/config.toml") + ":4: assistant.modle: unknown key",
			at(".jp/config.toml") + ":6: store.path: is a machine setting, which a workspace cannot set",
			at(".jp/config.toml") + ":2: config_load_paths: item 1 leads out of the workspace's .jp folder",
			at(".jp/config.toml") + ":1: extends: item 2 matches no file",
		},
		".jp/config/fine.toml": nil,
		".jp/config/out.toml":  {at(".jp/config/out.toml") + ":1: extends: item 1 leads out of the workspace's .jp folder"},
		".jp/config/none.toml": {at(".jp/config/none.toml") + ": not found"},
	} {
		var got []string
		for _, e := range Check(src, at(name)) {
			got = append(got, e.Error())
		}
		if !slices.Equal(got, want) {
			t.Errorf("Check(%s):\n got %q\nwant %q", name, got, want)
		}
	}
	if got := Check(src, at(".jp/config/plain.toml")); len(got) != 1 || got[0].Line != 1 {
		t.Errorf("Check of what is no TOML = %v", got)
	}
	if got := Extends(src, at(".jp/config.toml")); !slices.Equal(got, []string{at(".jp/parts/a.toml")}) {
		t.Errorf("Extends = %q", got)
	}
	if got := Extends(src, at(".jp/config/out.toml")); len(got) > 0 {
		t.Errorf("Extends of a broken file = %q", got)
	}
}
