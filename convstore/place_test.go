package convstore

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"jp/convstore/internal/file"
)

// places is a home folder with workspaces in it, as Locate sees it.
type places struct {
	t    *testing.T
	home string
	told []string
}

func newPlaces(t *testing.T) *places {
	t.Helper()
	home, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return &places{t: t, home: home}
}

func (p *places) path(name string) string { return filepath.Join(p.home, name) }

func (p *places) env(vars ...string) Env {
	return Env{
		Get: func(name string) string {
			for i := 0; i < len(vars); i += 2 {
				if vars[i] == name {
					return vars[i+1]
				}
			}
			return ""
		},
		Notice: func(s string) { p.told = append(p.told, s) },
	}
}

// locate returns where the store of a workspace is.
func (p *places) locate(workspace string) string {
	p.t.Helper()
	dir, err := Locate(p.env("XDG_STATE_HOME", p.path("state")), p.path(workspace))
	if err != nil {
		p.t.Fatal(err)
	}
	return dir
}

// use writes to the store of a workspace, as a command does.
func (p *places) use(workspace string) string {
	p.t.Helper()
	dir := p.locate(workspace)
	s := openStoreIn(p.t, dir, Options{Workspace: p.path(workspace)})
	mustCreate(p.t, s, New{Title: workspace})
	return dir
}

func (p *places) rename(from, to string) {
	p.t.Helper()
	if err := os.Rename(p.path(from), p.path(to)); err != nil {
		p.t.Fatal(err)
	}
}

// wantTold fails the test unless exactly this was told since the last time.
func (p *places) wantTold(want ...string) {
	p.t.Helper()
	if !slices.Equal(p.told, want) {
		p.t.Errorf("told %q, want %q", p.told, want)
	}
	p.told = nil
}

func TestLocate(t *testing.T) {
	p := newPlaces(t)
	ws := makeWorkspace(t, p.path("my ws"))
	hash := filepath.Base(p.locate("my ws"))
	if want := "my_ws-"; !strings.HasPrefix(hash, want) || len(hash) != len(want)+12 {
		t.Fatalf("Locate names the folder %q", hash)
	}
	override := p.env("XDG_STATE_HOME", "/state")
	override.Override = "/over/ride"
	overridden := p.env("JP_STORE", "/else/where", "XDG_STATE_HOME", "/state")
	overridden.Override = "/over/ride"
	for _, test := range []struct {
		name string
		env  Env
		want string
	}{
		{"state home", p.env("XDG_STATE_HOME", "/state", "HOME", "/home"), "/state/jp/" + hash},
		{"home", p.env("HOME", "/home"), "/home/.local/state/jp/" + hash},
		{"a relative state home", p.env("XDG_STATE_HOME", "state", "HOME", "/home"), "/home/.local/state/jp/" + hash},
		{"override", override, "/over/ride"},
		{"variable", overridden, "/else/where"},
	} {
		if got, err := Locate(test.env, ws); got != test.want || err != nil {
			t.Errorf("%s: Locate = %s, %v, want %s", test.name, got, err, test.want)
		}
	}
	var place *PlaceError
	if _, err := Locate(Env{}, ws); !errors.As(err, &place) {
		t.Errorf("Locate without an environment: %v, want a *PlaceError", err)
	}
	if _, err := Locate(p.env("HOME", "/home"), p.path("gone")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Locate without a workspace: %v, want that it does not exist", err)
	}
	if err := os.Symlink(ws, p.path("link")); err != nil {
		t.Fatal(err)
	}
	if a, b := p.locate("link"), p.locate("my ws"); a != b {
		t.Errorf("by a symbolic link: %s, else %s", a, b)
	}
	if _, err := os.Stat(p.path("state")); !errors.Is(err, fs.ErrNotExist) {
		t.Error("Locate made the folder")
	}
}

func TestLocateRenamed(t *testing.T) {
	p := newPlaces(t)
	makeWorkspace(t, p.path("old"))
	dir := p.use("old")
	p.use("old")
	p.wantTold()
	p.rename("old", "new")
	if got := p.use("new"); got != dir {
		t.Errorf("after a rename: %s, want %s", got, dir)
	}
	p.wantTold("workspace " + p.path("new") + " was " + p.path("old") + " before: its conversations are still in " + dir)
	if got := p.use("new"); got != dir {
		t.Errorf("another time: %s, want %s", got, dir)
	}
	p.wantTold() // once is enough
	// Another workspace comes to where the first one was.
	makeWorkspace(t, p.path("old"))
	other := p.use("old")
	if other == dir {
		t.Errorf("the new one at the old place has the store of the one that moved")
	}
	if again := p.use("old"); again != other {
		t.Errorf("the new one another time: %s, want %s", again, other)
	}
	p.wantTold()
	// And the first one goes back, once the place is free.
	p.rename("old", "elsewhere")
	p.rename("new", "old")
	if got := p.use("old"); got != dir {
		t.Errorf("back again: %s, want %s", got, dir)
	}
	if got := p.use("elsewhere"); got != other {
		t.Errorf("the other one, moved: %s, want %s", got, other)
	}
}

// TestLocateRestored puts a backup where a machine that never had the store looks for it. The
// workspace can be renamed then like any other.
func TestLocateRestored(t *testing.T) {
	p := newPlaces(t)
	makeWorkspace(t, p.path("a"))
	backup := p.path("backup")
	mustNot(t, openStoreIn(t, p.use("a"), Options{}).Backup(t.Context(), backup))
	mustNot(t, os.RemoveAll(p.path("state")))
	dir := p.locate("a")
	mustNot(t, os.MkdirAll(dir, 0o700))
	mustNot(t, os.Rename(backup, filepath.Join(dir, file.StoreName)))
	p.use("a")
	p.wantTold()
	p.rename("a", "b")
	if got := p.locate("b"); got != dir {
		t.Errorf("renamed: Locate = %s, want %s", got, dir)
	}
}

// TestLocateSwapped moves a workspace to where another one was, which has moved away.
func TestLocateSwapped(t *testing.T) {
	for name, order := range map[string][]string{"the one that came first": {"a", "b"}, "the one that went first": {"b", "a"}} {
		t.Run(name, func(t *testing.T) {
			p := newPlaces(t)
			makeWorkspace(t, p.path("a"))
			makeWorkspace(t, p.path("c"))
			want := map[string]string{"b": p.use("a"), "a": p.use("c")}
			p.rename("a", "b")
			p.rename("c", "a")
			for range 2 {
				for _, ws := range order {
					if got := p.use(ws); got != want[ws] {
						t.Errorf("%s: %s, want %s", ws, got, want[ws])
					}
				}
			}
			// Made anew, each is known by its path.
			for _, ws := range order {
				if err := os.RemoveAll(p.path(ws)); err != nil {
					t.Fatal(err)
				}
				makeWorkspace(t, p.path(ws))
				if got := p.use(ws); got != want[ws] {
					t.Errorf("%s made again: %s, want %s", ws, got, want[ws])
				}
			}
			// And back.
			p.rename("a", "c")
			p.rename("b", "a")
			if got := p.use("a"); got != want["b"] {
				t.Errorf("a, back: %s, want %s", got, want["b"])
			}
			if got := p.use("c"); got != want["a"] {
				t.Errorf("c, back: %s, want %s", got, want["a"])
			}
		})
	}
}

// TestLocateReplaced moves a workspace to where another one was, and makes its .jp anew: the store
// of the other one is not its own.
func TestLocateReplaced(t *testing.T) {
	p := newPlaces(t)
	makeWorkspace(t, p.path("a"))
	makeWorkspace(t, p.path("c"))
	dir := p.use("c")
	p.use("a")
	p.rename("a", "b")
	p.rename("c", "a")
	p.use("a")
	if err := os.RemoveAll(p.path("a")); err != nil {
		t.Fatal(err)
	}
	makeWorkspace(t, p.path("a"))
	if got := p.use("a"); got != dir {
		t.Errorf("%s, want %s", got, dir)
	}
}

// TestLocateMadeBeside renames a workspace, or a folder that it is in, and makes another one at its
// path, which is used first: the store goes with the one that it belongs to.
func TestLocateMadeBeside(t *testing.T) {
	for _, top := range []string{"a", "in/a"} {
		p := newPlaces(t)
		makeWorkspace(t, p.path(top))
		dir := p.use(top)
		moved, _, _ := strings.Cut(top, "/")
		p.rename(moved, moved+".old")
		makeWorkspace(t, p.path(top))
		other := p.use(top)
		if other == dir {
			t.Errorf("%s: one made again has the store of one that was renamed", top)
		}
		old := strings.Replace(top, moved, moved+".old", 1)
		for range 2 {
			if got := p.use(old); got != dir {
				t.Errorf("%s: %s, want %s", old, got, dir)
			}
			if got := p.use(top); got != other {
				t.Errorf("%s: %s, want %s", top, got, other)
			}
		}
	}
}

// TestLocateMovedFar moves a workspace to where nobody looks for it, and makes another one at its
// path, which is used first and so has its store: the one that was moved says so, and gets it back.
func TestLocateMovedFar(t *testing.T) {
	moved := func(t *testing.T) (p *places, env Env, dir string) {
		p = newPlaces(t)
		env = p.env("XDG_STATE_HOME", p.path("state"))
		makeWorkspace(t, p.path("a"))
		dir = p.use("a")
		if err := os.MkdirAll(p.path("far/away/from"), 0o700); err != nil {
			t.Fatal(err)
		}
		p.rename("a", "far/away/from/here")
		makeWorkspace(t, p.path("a"))
		if got := p.use("a"); got != dir {
			t.Fatalf("made again: %s, want %s", got, dir)
		}
		p.wantTold("workspace " + p.path("a") + ": its .jp was made again, and its conversations are still in " + dir +
			". If the workspace that was here was moved, run `jp store adopt` there, with the path of this one")
		return p, env, dir
	}
	taken := func(p *places, env Env, workspace, by, dir string) {
		p.t.Helper()
		var e *TakenError
		got, err := Locate(env, p.path(workspace))
		if want := (TakenError{Workspace: p.path(workspace), Dir: dir, By: p.path(by)}); !errors.As(err, &e) || *e != want {
			p.t.Fatalf("%s: %s, %v, want %v", workspace, got, err, &want)
		}
	}
	const far = "far/away/from/here"
	t.Run("back", func(t *testing.T) {
		p, env, dir := moved(t)
		taken(p, env, far, "a", dir)
		if got, err := Adopt(t.Context(), env, p.path(far), p.path("a")); got != dir || err != nil {
			t.Fatalf("Adopt = %s, %v, want %s", got, err, dir)
		}
		if got := p.use(far); got != dir {
			t.Errorf("%s: %s, want %s", far, got, dir)
		}
		taken(p, env, "a", far, dir) // it had the store too
		if got, err := Leave(env, p.path("a"), dir); got == dir || err != nil {
			t.Fatalf("Leave = %s, %v", got, err)
		}
		if got := p.use("a"); got == dir {
			t.Errorf("the new one has the store of the other one again")
		}
		if got := p.use(far); got != dir {
			t.Errorf("%s: %s, want %s", far, got, dir)
		}
	})
	t.Run("left", func(t *testing.T) {
		p, env, dir := moved(t)
		var place *PlaceError
		makeWorkspace(t, p.path("b"))
		if got, err := Leave(env, p.path("b"), dir); !errors.As(err, &place) {
			t.Errorf("Leave of what was never its own = %s, %v", got, err)
		}
		if got, err := Leave(env, p.path(far), p.path("a")); got == dir || err != nil {
			t.Fatalf("Leave = %s, %v", got, err)
		}
		other := p.use(far)
		if other == dir || p.use("a") != dir || p.use(far) != other {
			t.Errorf("%s has %s, and a has %s", far, other, p.use("a"))
		}
		if _, err := Adopt(t.Context(), env, p.path(far), p.path("a")); !errors.As(err, &place) {
			t.Errorf("Adopt after Leave: %v", err)
		}
	})
	t.Run("the other one is removed", func(t *testing.T) {
		p, _, dir := moved(t)
		if err := os.RemoveAll(p.path("a")); err != nil {
			t.Fatal(err)
		}
		if got := p.use(far); got != dir {
			t.Errorf("%s: %s, want %s", far, got, dir)
		}
	})
	t.Run("the other one is renamed", func(t *testing.T) {
		p, env, dir := moved(t)
		p.rename("a", "b")
		taken(p, env, far, "a", dir)
		if got := p.use("b"); got != dir {
			t.Errorf("b: %s, want %s", got, dir)
		}
		taken(p, env, far, "b", dir)
	})
}

// TestLocateOther makes a folder that might be taken for another one: made again at the same place,
// or copied.
func TestLocateOther(t *testing.T) {
	p := newPlaces(t)
	makeWorkspace(t, p.path("a"))
	dir := p.use("a")
	if err := os.RemoveAll(p.path("a")); err != nil {
		t.Fatal(err)
	}
	makeWorkspace(t, p.path("a"))
	if got := p.use("a"); got != dir {
		t.Errorf("made again: %s, want %s", got, dir)
	}
	if len(p.told) != 1 || !strings.Contains(p.told[0], "was made again") {
		t.Errorf("told %q, want once that it was made again", p.told)
	}
	p.told = nil
	makeWorkspace(t, p.path("b"))
	if got := p.use("b"); got == dir {
		t.Errorf("another workspace has the same store")
	}
	p.wantTold()
	// A record that is none is passed over.
	if err := os.WriteFile(filepath.Join(dir, file.WorkspaceName), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := p.use("a"); got != dir {
		t.Errorf("with a broken record: %s, want %s", got, dir)
	}
}

func TestOpenRefusesPlaces(t *testing.T) {
	p := newPlaces(t)
	ws := makeWorkspace(t, p.path("ws"))
	mkdir := func(name string, mode fs.FileMode) string {
		dir := p.path(name)
		if err := errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, mode)); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	link := p.path("link")
	dangling := p.path("dangling")
	file := p.path("file")
	if err := errors.Join(os.Symlink(ws, link), os.Symlink(p.path("nowhere"), dangling), os.WriteFile(file, nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct{ dir, want string }{
		{ws, "is inside the workspace " + ws + ", where tools can reach it"},
		{filepath.Join(ws, ".jp", "store"), "is inside the workspace " + ws + ", where tools can reach it"},
		{filepath.Join(ws, "a", "b"), "is inside the workspace " + ws + ", where tools can reach it"},
		{filepath.Join(link, "a"), "is inside the workspace " + ws + ", where tools can reach it"},
		{mkdir("open", 0o777), "others may write to " + p.path("open") + " (mode 0777)"},
		{mkdir("group", 0o770), "others may write to " + p.path("group") + " (mode 0770)"},
		{filepath.Join(p.path("open"), "below"), "others may write to " + p.path("open") + " (mode 0777)"},
		{mkdir("sticky", 0o777|fs.ModeSticky), "others may write to " + p.path("sticky") + " (mode 0777)"},
		{dangling, "no such file or directory"},
		{file, file + " is no folder"},
		{filepath.Join(file, "x"), "not a directory"},
	} {
		_, err := Open(test.dir, Options{})
		want := &PlaceError{Path: test.dir, Reason: test.want}
		if strings.HasPrefix(test.want, "is inside") {
			want.Workspace = ws
		}
		checkError(t, test.dir, err, want)
	}
	for _, dir := range []string{
		filepath.Join(p.path("sticky"), "mine"), mkdir("private", 0o700), mkdir("readable", 0o755), p.path("a/b/c"),
	} {
		openStoreIn(t, dir, Options{})
	}
}

func TestOwnerIsChecked(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	p := newPlaces(t)
	dir := p.path("theirs")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, 12345, -1)); err != nil {
		t.Fatal(err)
	}
	for _, at := range []string{dir, filepath.Join(dir, "below")} {
		_, err := Open(at, Options{})
		checkError(t, at, err, &PlaceError{Path: at, Reason: dir + " belongs to someone else (user 12345)"})
	}
	s := openStore(t)
	mustCreate(t, s, New{})
	if err := os.Chown(s.Path(), 12345, -1); err != nil {
		t.Fatal(err)
	}
	_, err := s.List(t.Context(), Filter{})
	checkError(t, "List", err, &PlaceError{Path: s.Path(), Reason: "belongs to someone else"})
	_ = os.Chown(s.Path(), 0, -1)
}
