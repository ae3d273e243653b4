package tools

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"jp/tools/fs"
)

// TestSandboxSystemFolders has no folder of the system open a home, or what no tool reaches, that
// lies in it.
func TestSandboxSystemFolders(t *testing.T) {
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	write(t, root, map[string]string{
		"usr/lib/x": "", "opt/tool/x": "", "opt/run": "", "opt/app/.ssh/id": "", "opt/app/bin/x": "", "opt/var/store/db": "", "opt/var/log": "",
	})
	for link, to := range map[string]string{"opt/secrets": "app/.ssh", "lib": "usr/lib", "home": "opt/app"} {
		if err := os.Symlink(to, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	at := func(names string) (out []string) {
		for _, name := range strings.Fields(names) {
			out = append(out, filepath.Join(root, name))
		}
		return out
	}
	for _, tt := range []struct{ name, dirs, home, deny, want string }{
		{"nothing of the user's", "usr lib opt", "", "", "usr lib opt"},
		{"no home there", "usr lib opt", "missing", "missing/state", "usr lib opt"},
		{"the home", "usr lib opt", "opt/app", "", "usr lib opt/run opt/tool opt/var"},
		{"the home by a link", "usr opt", "home", "", "usr opt/run opt/tool opt/var"},
		{"home and store", "opt", "opt/app", "opt/var/store", "opt/run opt/tool opt/var/log"},
		{"a store that is not there yet", "opt", "", "opt/new/store", "opt/app opt/run opt/tool opt/var"},
		{"the folder itself", "usr opt", "opt", "", "usr"},
		{"a folder behind a link", "lib", "", "usr/lib/none", "usr/lib/x"},
	} {
		env := CommandEnv{Kept: fs.Kept{Deny: at(tt.deny)}}
		if tt.home != "" {
			env.Environ = []string{"HOME=" + filepath.Join(root, tt.home)}
		}
		got, err := env.systemOnly(at(tt.dirs))
		if err != nil || !slices.Equal(got, at(tt.want)) {
			t.Errorf("%s: systemOnly(%s) = %q, %v, want %s", tt.name, tt.dirs, got, err, tt.want)
		}
	}

	for i := range 4096 {
		write(t, root, map[string]string{"opt/f" + strconv.Itoa(i): ""})
	}
	if got, err := (CommandEnv{Kept: fs.Kept{Deny: at("opt/app")}}).systemOnly(at("opt")); err == nil {
		t.Errorf("systemOnly of a folder with too many entries = %d folders, want an error", len(got))
	}
	if _, err := (CommandEnv{}).systemOnly(at("opt")); err != nil {
		t.Errorf("systemOnly of such a folder without anything of the user's: %v", err)
	}
}
