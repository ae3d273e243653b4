package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"jp/tools/fs"
)

// fsTest is a workspace and the built-in tools on it.
type fsTest struct {
	t    testing.TB
	dir  string
	deny []string
	seal []string
	fs   []fs.Rule // access.fs; nil = what the tools have by themselves
}

func newFS(t testing.TB, files map[string]string) *fsTest {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	write(t, dir, files)
	return &fsTest{t: t, dir: dir}
}

// call runs a tool as an Executor does.
func (f *fsTest) call(name string, args map[string]any) Result {
	f.t.Helper()
	def, ok := Embedded(name)
	if !ok {
		f.t.Fatalf("no tool %s", name)
	}
	def.Run = RunUnattended
	def.Access.FS = f.fs
	tools, err := Builtin(fs.Env{Workspace: f.dir, Kept: fs.Kept{Deny: f.deny, Sealed: f.seal}}, def)
	if err != nil {
		f.t.Fatal(err)
	}
	raw, err := json.Marshal(args)
	if err != nil {
		f.t.Fatal(err)
	}
	return runAll(f.t, Executor{Set: setOf(f.t, tools...)}, f.t.Context(), Call{ID: "1", Name: name, Arguments: raw})["1"]
}

func (f *fsTest) read(path string) Result {
	f.t.Helper()
	return f.call("fs_read_file", map[string]any{"path": path})
}

func (f *fsTest) list(path string) Result {
	f.t.Helper()
	return f.call("fs_list_files", map[string]any{"path": path})
}

func (f *fsTest) grep(pattern, path string) Result {
	f.t.Helper()
	return f.call("fs_grep_files", map[string]any{"pattern": pattern, "path": path})
}

func (f *fsTest) create(path, content string) Result {
	f.t.Helper()
	return f.call("fs_create_file", map[string]any{"path": path, "content": content, "overwrite": true})
}

func (f *fsTest) modify(path, old, new string) Result {
	f.t.Helper()
	return f.call("fs_modify_file", map[string]any{"path": path, "edits": []any{map[string]any{"old": old, "new": new}}})
}

// content is what a file holds, without any tool.
func (f *fsTest) content(path string) string {
	f.t.Helper()
	b, err := os.ReadFile(f.at(path))
	if err != nil {
		f.t.Fatal(err)
	}
	return string(b)
}

func (f *fsTest) at(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(f.dir, path)
}

func (f *fsTest) link(target, path string) {
	f.t.Helper()
	if err := os.Symlink(target, f.at(path)); err != nil {
		f.t.Fatal(err)
	}
}

func text(s string) Result    { return Result{Text: s} }
func failed(s string) Result  { return Result{Text: "error: " + s, IsError: true} }
func refusal(s string) Result { return Result{Text: "error: " + s, IsError: true, Refused: true} }

func expect(t testing.TB, what string, got, want Result) {
	t.Helper()
	if got != want {
		t.Errorf("%s = %+v\nwant %+v", what, got, want)
	}
}

// No path leads out of the workspace or into .jp, whatever the tool, and nothing outside is
// changed.
func TestFSConfinement(t *testing.T) {
	f := newFS(t, map[string]string{"a.txt": "inside\n", "sub/b.txt": "inside\n", ".jp/config.toml": "secret\n", "sub/.jp/x": "secret\n"})
	out := newFS(t, map[string]string{"secret.txt": "secret\n", "d/e.txt": "secret\n"})
	f.link(out.at("secret.txt"), "file-out")
	f.link(out.dir, "dir-out")
	f.link("../"+filepath.Base(out.dir)+"/secret.txt", "relative-out")
	f.link("a.txt", "in")
	f.link("sub", "dir-in")
	f.link("loop", "loop")
	f.link("dir-in/../../"+filepath.Base(out.dir), "through")
	f.link(".jp", "to-jp")
	f.link(f.at(".jp/config.toml"), "to-jp-file")
	f.link("/proc/self/root"+out.dir, "proc")

	const outside = ": is outside of what this tool may reach: the workspace"
	for _, tt := range []struct{ path, why string }{
		{"..", outside},
		{"../", outside},
		{"sub/../..", outside},
		{"../" + filepath.Base(out.dir) + "/secret.txt", outside},
		{"/", outside},
		{"/etc/passwd", outside},
		{out.at("secret.txt"), outside},
		{f.dir + "x", outside},
		{"file-out", outside},
		{"relative-out", outside},
		{"dir-out", outside},
		{"dir-out/secret.txt", outside},
		{"dir-out/new/file.txt", outside},
		{"through/secret.txt", outside},
		{"proc/secret.txt", outside},
		{"loop", ": goes through too many symbolic links"},
		{"loop/x", ": goes through too many symbolic links"},
		{".jp", ": .jp is not for tools"},
		{".jp/config.toml", ": .jp is not for tools"},
		{".JP/config.toml", ": .jp is not for tools"},
		{"sub/../.jp/config.toml", ": .jp is not for tools"},
		{"sub/.jp/x", ": .jp is not for tools"},
		{f.at(".jp/config.toml"), ": .jp is not for tools"},
		{"to-jp/config.toml", ": .jp is not for tools"},
		{"to-jp-file", ": .jp is not for tools"},
		{strings.Repeat("a/", 3000) + "a", ""},
	} {
		want := refusal(tt.path + tt.why)
		if tt.why == "" {
			want = refusal(strings.Repeat("a/", 30) + "...: is too long for a path")
		}
		expect(t, "read "+tt.path, f.read(tt.path), want)
		expect(t, "list "+tt.path, f.list(tt.path), want)
		expect(t, "grep "+tt.path, f.grep("secret", tt.path), want)
		expect(t, "modify "+tt.path, f.modify(tt.path, "secret", "gone"), want)
		if strings.HasSuffix(tt.path, "/") {
			want = failed(tt.path + ": names a folder, not a file")
		}
		expect(t, "create "+tt.path, f.create(tt.path, "gone"), want)
	}
	expect(t, "read NUL", f.read("a\x00b"), refusal(`"a\x00b": holds a NUL byte`))
	if got := out.list(".").Text; got != "d/e.txt\nsecret.txt\n" {
		t.Errorf("outside there is %q", got)
	}
	if got := out.content("secret.txt") + out.content("d/e.txt") + f.content(".jp/config.toml"); got != "secret\nsecret\nsecret\n" {
		t.Errorf("outside or in .jp something was written: %q", got)
	}

	// What stays inside works, links too. But nothing is written through one: who is asked sees its path alone.
	expect(t, "read in", f.read("in"), text("inside\n"))
	expect(t, "read dir-in/b.txt", f.read("dir-in/b.txt"), text("inside\n"))
	expect(t, "read absolute", f.read(f.at("sub/../a.txt")), text("inside\n"))
	f.link("new.txt", "to-new")
	f.link("in", "twice")
	for path, target := range map[string]string{"in": "a.txt", "twice": "a.txt", "dir-in/b.txt": "sub/b.txt", "dir-in/new/c.txt": "sub/new/c.txt", "to-new": "new.txt"} {
		through := refusal(path + ": leads through a symbolic link: write " + target)
		expect(t, "modify "+path, f.modify(path, "inside", "changed"), through)
		expect(t, "create "+path, f.create(path, "changed"), through)
	}
	expect(t, "modify a.txt", f.modify("a.txt", "inside", "changed"), text("a.txt: 1 edit made: line 1"))
	if got := f.content("a.txt") + f.content("sub/b.txt"); got != "changed\ninside\n" {
		t.Errorf("the files are %q", got)
	}
	expect(t, "list", f.list("sub"), text("sub/b.txt\n"))
	expect(t, "read to-new", f.read("to-new"), failed("to-new: no such file or directory"))
	if info, err := os.Lstat(f.at("in")); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link is %v, %v", info, err)
	}
	// No walk goes into .jp or through a link.
	expect(t, "grep", f.grep("secret|inside", "."), text("sub/b.txt:1:inside\n"))
}

// The store and the like stay closed, under whatever name they are reached.
func TestFSDeny(t *testing.T) {
	f := newFS(t, map[string]string{"store/data": "secret\n", "a": "x\n"})
	f.deny = []string{f.at("store")}
	f.link("store", "alias")
	for _, path := range []string{"store", "alias", "store/data", "alias/data"} {
		want := refusal(path + ": is not for tools")
		expect(t, "read "+path, f.read(path), want)
		expect(t, "create "+path, f.create(path, ""), want)
		expect(t, "grep "+path, f.grep("secret", path), want)
	}
	expect(t, "list", f.list("."), text("a\nalias -> store\nstore/ [not listed: is not for tools]\n"))
	expect(t, "grep", f.grep("secret", "."), text("[no match]\n[not searched: store (is not for tools)]\n"))
}

// A folder that stays closed need not be there: nobody makes it, nor through a link.
func TestFSDenyMissing(t *testing.T) {
	f := newFS(t, map[string]string{"real/a": "x\n"})
	f.link("real", "alias")
	f.deny = []string{f.at("alias/user/jp")}
	for _, path := range []string{"real/user/jp/config.toml", "alias/user/jp/config.toml", "alias/user/jp"} {
		expect(t, path, f.create(path, "x"), refusal(path+": is not for tools"))
	}
	expect(t, "beside", f.create("real/user/jpeg", "x"), text("real/user/jpeg: created, 1 B"))
}

// What is sealed is read and not written, by no name that leads there.
func TestFSSealed(t *testing.T) {
	f := newFS(t, map[string]string{"real/a": "x\n", "real/dir/b": "x\n"})
	f.link("real", "alias")
	f.link("real/a", "direct")
	if err := os.Link(f.at("real/a"), f.at("A~1")); err != nil { // as a file system may know it too
		t.Fatal(err)
	}
	f.seal = []string{f.at("alias/a"), f.at("real/dir"), f.at("real/none")}
	for _, path := range []string{"real/a", "alias/a", "direct", "real/dir/b", "alias/dir/new", "real/none", "alias/none/x", "A~1", "real/NONE"} {
		expect(t, "create "+path, f.create(path, "y"), refusal(path+": is written by no tool"))
		expect(t, "modify "+path, f.modify(path, "x", "y"), refusal(path+": is written by no tool"))
	}
	expect(t, "read", f.read("direct"), f.read("real/a"))
	expect(t, "beside", f.create("real/ab", "x"), text("real/ab: created, 1 B"))
}

// What a rule opens only for reading is not written under another name that a wider rule covers.
func TestFSReadOnlyInside(t *testing.T) {
	f := newFS(t, map[string]string{"docs/spec.md": "x\n", "docs/gen/a": "x\n"})
	if err := os.Link(f.at("docs/spec.md"), f.at("SPEC~1.MD")); err != nil { // as a file system may know it too
		t.Fatal(err)
	}
	f.fs = []fs.Rule{{Path: ".", Mode: fs.ReadWrite}, {Path: "docs", Mode: fs.ReadOnly}, {Path: "docs/gen", Mode: fs.ReadWrite}, {Path: "docs/spec.md", Mode: fs.ReadOnly}}
	for _, path := range []string{"docs/spec.md", "docs/new", "SPEC~1.MD"} {
		expect(t, "create "+path, f.create(path, "y"), refusal(path+": is read-only for this tool"))
		expect(t, "modify "+path, f.modify(path, "x", "y"), refusal(path+": is read-only for this tool"))
	}
	expect(t, "named", f.modify("docs/gen/a", "x", "y"), text("docs/gen/a: 1 edit made: line 1"))
	expect(t, "read", f.read("SPEC~1.MD"), text("x\n"))
}

// What a pattern means stays protected where case counts too.
func TestFSGrowing(t *testing.T) {
	for _, tt := range []struct {
		match, path string
		want        bool
	}{
		{"*.toml", "a.TOML", true}, {"[A-z]*.toml", "_a.toml", true}, {"?.toml", "\u0130.toml", true}, {"*.toml", "a/b.toml", false},
	} {
		dir := newFS(t, nil)
		tool, err := fs.Open(fs.Env{Workspace: dir.dir, Kept: fs.Kept{Growing: []fs.Growing{{Dir: dir.dir, Match: tt.match}}}}, []fs.Rule{{Path: ".", Mode: fs.ReadWrite}})
		if err != nil {
			t.Fatal(err)
		}
		if got := tool.Check(fs.ReadWrite, json.RawMessage(fmt.Sprintf(`{"path":%q}`, tt.path))); (got != nil) != tt.want {
			t.Errorf("%s for %q: %v, want refused = %t", tt.path, tt.match, got, tt.want)
		}
	}
}

// FIFOs, sockets and devices are named, not opened: a FIFO without a writer would block for ever,
// and the test with it.
func TestFSSpecialFiles(t *testing.T) {
	f := newFS(t, map[string]string{"a.txt": "x\n", ".gitignore": "*.log\n"})
	if err := syscall.Mkfifo(f.at("fifo"), 0o666); err != nil {
		t.Fatal(err)
	}
	write(t, f.dir, map[string]string{"sub/a.txt": "x\n"})
	if err := syscall.Mkfifo(f.at("sub/.gitignore"), 0o666); err != nil {
		t.Fatal(err)
	}
	f.link("/dev/zero", "zero")
	expect(t, "read", f.read("fifo"), failed("fifo: is a FIFO, not a file"))
	expect(t, "modify", f.modify("fifo", "a", "b"), failed("fifo: is a FIFO, not a file"))
	expect(t, "create", f.create("fifo", "b"), failed("fifo: is a FIFO already"))
	expect(t, "create below", f.create("fifo/x", "b"), failed("fifo/x: fifo is a FIFO, not a folder"))
	expect(t, "list it", f.list("fifo"), failed("fifo: is a FIFO, not a folder"))
	expect(t, "grep it", f.grep("x", "fifo"), text("[no match]\n[not searched: fifo (is a FIFO, not a file)]\n"))
	expect(t, "list", f.list("."), text(".gitignore\na.txt\nfifo [a FIFO]\nsub/.gitignore [a FIFO]\nsub/a.txt\nzero -> /dev/zero\n"))
	expect(t, "grep", f.grep("x", "."), text("a.txt:1:x\nsub/a.txt:1:x\n"))

	f.fs = []fs.Rule{{Path: "/dev", Mode: fs.ReadWrite}}
	expect(t, "read a device", f.read("/dev/zero"), failed("/dev/zero: is a device, not a file"))
	expect(t, "grep a device", f.grep("x", "/dev/zero"), text("[no match]\n[not searched: /dev/zero (is a device, not a file)]\n"))
	expect(t, "write a device", f.create("/dev/null", "x"), failed("/dev/null: is a device already"))
}

// Files that say what programs and agents shall do are written only where access.fs names it,
// though it may be read.
func TestFSGuarded(t *testing.T) {
	files := map[string]string{
		".git/config": "x\n", "sub/.git/hooks/h": "x\n", ".mcp.json": "x\n", "AGENTS.md": "x\n", "sub/CLAUDE.md": "x\n",
		".claude/skills/s/SKILL.md": "x\n", ".agents/x": "x\n", "skills/SKILL.md": "x\n", "agents.MD": "x\n",
	}
	f := newFS(t, files)
	f.link("AGENTS.md", "notes.md")
	f.link(".git", "plain")
	files["notes.md"], files["plain/config"] = "x\n", "x\n"
	names := map[string]string{
		".git/config": ".git", "sub/.git/hooks/h": ".git", "notes.md": "AGENTS.md", "plain/config": ".git",
		"sub/CLAUDE.md": "CLAUDE.md", ".claude/skills/s/SKILL.md": ".claude", ".agents/x": ".agents", "skills/SKILL.md": "SKILL.md",
	}
	for path := range files {
		name := names[path]
		if name == "" {
			name = path
		}
		want := refusal(fmt.Sprintf("%s: %s is written only where access.fs names it", path, name))
		expect(t, "modify", f.modify(path, "x", "y"), want)
		expect(t, "create", f.create(path, "y"), want)
		expect(t, "read", f.read(path), text("x\n"))
	}
	expect(t, "create new", f.create("new/.git/config", "y"), refusal("new/.git/config: .git is written only where access.fs names it"))

	f.fs = []fs.Rule{{Path: ".", Mode: fs.ReadWrite}, {Path: "AGENTS.md", Mode: fs.ReadWrite}, {Path: "sub/.git", Mode: fs.ReadWrite}}
	expect(t, "named", f.modify("AGENTS.md", "x", "y"), text("AGENTS.md: 1 edit made: line 1"))
	expect(t, "below named", f.create("sub/.git/new", "y"), text("sub/.git/new: created, 1 B"))
	expect(t, "another", f.modify(".git/config", "x", "y"), refusal(".git/config: .git is written only where access.fs names it"))

	// Some file systems have several names for a file: short ones as "GIT~1", or with other ends.
	for name, guarded := range map[string]string{"AGENTS~1.MD": "AGENTS.md", "sub/CLAUDE~1.MD": "CLAUDE.md"} {
		if err := os.Link(f.at(filepath.Dir(name)+"/"+guarded), f.at(name)); err != nil {
			t.Fatal(err)
		}
		said := guarded + " is written only where access.fs names it"
		f.fs = []fs.Rule{{Path: ".", Mode: fs.ReadWrite}}
		expect(t, "short name", f.create(name, "z"), refusal(name+": "+said))
		f.fs = []fs.Rule{{Path: name, Mode: fs.ReadWrite}}
		expect(t, "rule for a short name", f.create(name, "z"),
			refusal(fmt.Sprintf("%[1]s: the rule for %[1]s in access.fs cannot be used: leads into %[2]s, which is written only where access.fs names it", name, guarded)))
	}
	f.fs = []fs.Rule{{Path: ".", Mode: fs.ReadWrite}, {Path: "sub/CLAUDE.md", Mode: fs.ReadWrite}}
	expect(t, "named, with two names", f.create("sub/CLAUDE.md", "z"), text("sub/CLAUDE.md: replaced, 1 B"))
	for _, name := range []string{"new/CLAUDE.md.", "new/CLAUDE.md ", "new/.git::$INDEX_ALLOCATION/config", "new/.gi\u200bt/config", "new/.jp./config.toml"} {
		if r := f.create(name, "z"); !r.Refused {
			t.Errorf("create %q: %+v, want a refusal", name, r)
		}
	}

	// The same of .jp, which nobody reads either. A file stands for the folder, which has no second name here.
	write(t, f.dir, map[string]string{"sub/.jp": "x\n"})
	if err := os.Link(f.at("sub/.jp"), f.at("sub/JP~1")); err != nil {
		t.Fatal(err)
	}
	f.fs = []fs.Rule{{Path: ".", Mode: fs.ReadWrite}}
	expect(t, "create .jp", f.create("sub/JP~1", "z"), refusal("sub/JP~1: .jp is not for tools"))
	expect(t, "read .jp", f.read("sub/JP~1"), refusal("sub/JP~1: .jp is not for tools"))
	f.fs = []fs.Rule{{Path: "sub/JP~1", Mode: fs.ReadOnly}}
	expect(t, "rule for .jp", f.read("sub/JP~1"), refusal("sub/JP~1: the rule for sub/JP~1 in access.fs cannot be used: leads into .jp"))

	// That the workspace itself lies in such a folder names nothing.
	outer := newFS(t, map[string]string{".claude/tree/.claude/settings.json": "x\n", ".claude/tree/a.txt": "x\n"})
	outer.dir = outer.at(".claude/tree")
	outer.fs = []fs.Rule{{Path: ".", Mode: fs.ReadWrite}}
	expect(t, "in .claude", outer.modify(".claude/settings.json", "x", "y"), refusal(".claude/settings.json: .claude is written only where access.fs names it"))
	expect(t, "beside", outer.modify("a.txt", "x", "y"), text("a.txt: 1 edit made: line 1"))
}

// What the kernel says about processes is not read as files, whatever a rule says.
func TestFSKernel(t *testing.T) {
	if _, err := os.Stat("/proc/self/environ"); err != nil {
		t.Skip("there is no /proc")
	}
	f := newFS(t, map[string]string{"a.txt": "x"})
	const no = ": is made up by the kernel, and no tool reads that"
	for _, tt := range []struct{ rule, path string }{
		{"/", "/proc/thread-self/environ"}, {"/", "/proc/1"}, {"/proc", "/proc/1/environ"}, {"/proc", "/proc"},
		{"/proc/1/environ", "/proc/1/environ"}, {"/proc/1", "/proc/1/environ"}, {"/sys", "/sys/kernel"},
	} {
		f.fs = []fs.Rule{{Path: tt.rule, Mode: fs.ReadOnly}}
		expect(t, tt.rule+" read", f.read(tt.path), refusal(tt.path+no))
		expect(t, tt.rule+" grep", f.grep("=", tt.path), refusal(tt.path+no))
	}
	f.fs = []fs.Rule{{Path: "/", Mode: fs.ReadOnly}}
	expect(t, "a file", f.read(f.at("a.txt")), text("x"))
}

// The rule with the longest path decides.
func TestFSRules(t *testing.T) {
	out := newFS(t, map[string]string{"lib/a.txt": "lib\n", "other.txt": "other\n", ".jp/x": "secret\n"})
	f := newFS(t, map[string]string{"src/a.txt": "a\n", "src/gen/b.txt": "b\n", "doc/c.txt": "c\n", "one.txt": "1\n", "two.txt": "2\n"})
	f.link(out.dir, "escape")
	f.link(out.at("lib"), "lib")
	f.fs = []fs.Rule{
		{Path: "src", Mode: fs.ReadWrite}, {Path: "src/gen", Mode: fs.ReadOnly}, {Path: "one.txt", Mode: fs.ReadWrite},
		{Path: out.at("lib"), Mode: fs.ReadOnly}, {Path: "escape", Mode: fs.ReadWrite}, {Path: "missing", Mode: fs.ReadWrite},
	}
	reach := fmt.Sprintf("src, src/gen, one.txt, %s, escape, missing", out.at("lib"))
	outside := func(path string) Result { return refusal(path + ": is outside of what this tool may reach: " + reach) }
	expect(t, "src", f.modify("src/a.txt", "a", "b"), text("src/a.txt: 1 edit made: line 1"))
	expect(t, "src/gen", f.modify("src/gen/b.txt", "b", "c"), refusal("src/gen/b.txt: is read-only for this tool"))
	expect(t, "src/gen, read", f.read("src/gen/b.txt"), text("b\n"))
	expect(t, "doc", f.read("doc/c.txt"), outside("doc/c.txt"))
	expect(t, "one file", f.read("one.txt"), text("1\n"))
	expect(t, "beside it", f.read("two.txt"), outside("two.txt"))
	expect(t, "the workspace", f.list("."), outside("."))
	expect(t, "outside", f.read(out.at("lib/a.txt")), text("lib\n"))
	expect(t, "outside, by a link", f.read("lib/a.txt"), outside("lib/a.txt"))
	expect(t, "beside outside", f.read(out.at("other.txt")), outside(out.at("other.txt")))
	expect(t, "out of the rule", f.read(out.at("lib/../other.txt")), outside(out.at("lib/../other.txt")))
	expect(t, "a rule that is a link out", f.read("escape/other.txt"),
		refusal("escape/other.txt: the rule for escape in access.fs cannot be used: goes through the symbolic link escape, which a tool or a repository may have made: write where it leads"))
	expect(t, "a rule for what is not there", f.create("missing/x", "1"), text("missing/x: created, 1 B"))

	f.fs = []fs.Rule{{Path: out.at(".jp"), Mode: fs.ReadOnly}}
	expect(t, "a rule into .jp", f.read(out.at(".jp/x")),
		refusal(fmt.Sprintf("%s: the rule for %s in access.fs cannot be used: leads into .jp", out.at(".jp/x"), out.at(".jp"))))
	f.fs = []fs.Rule{}
	expect(t, "no rules", f.read("one.txt"), refusal("one.txt: is outside of what this tool may reach: nothing"))
}

// While a folder is swapped for a link out again and again, nobody ever reads or writes outside.
func TestFSSwapRace(t *testing.T) {
	f := newFS(t, map[string]string{"d/a.txt": "inside\n"})
	out := newFS(t, map[string]string{"a.txt": "secret\n"})
	f.link(out.dir, "link")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			_ = os.Rename(f.at("d"), f.at("aside"))
			_ = os.Rename(f.at("link"), f.at("d"))
			_ = os.Rename(f.at("d"), f.at("link"))
			_ = os.Rename(f.at("aside"), f.at("d"))
		}
	}()
	for i := range 150 {
		for what, r := range map[string]Result{
			"read": f.read("d/a.txt"), "grep": f.grep("secret", "."), "grep d": f.grep("secret", "d"), "list": f.list("d"),
			"create": f.create("d/new.txt", fmt.Sprint(i)), "modify": f.modify("d/a.txt", "secret", "gone"),
		} {
			if strings.Contains(r.Text, "secret\n") || what == "modify" && !r.IsError {
				t.Errorf("%s = %+v", what, r)
			}
		}
	}
	cancel()
	<-done
	if got := out.list(".").Text + out.content("a.txt"); got != "a.txt\nsecret\n" {
		t.Errorf("outside there is %q", got)
	}
}

// A rule's own folder may be swapped for a link between the look at the rule and the walk.
func TestFSRuleSwapped(t *testing.T) {
	f := newFS(t, map[string]string{"ws/x": "", "shared/out/a.txt": "open\n", "secret/a.txt": "secret\n", "state/x": ""})
	out, link := f.at("shared/out"), f.at("shared/link")
	if err := os.Symlink(f.at("secret"), link); err != nil {
		t.Fatal(err)
	}
	f.deny = []string{f.at("state")}
	f.dir = f.at("ws")
	f.fs = []fs.Rule{{Path: out, Mode: fs.ReadOnly}}
	var swapping sync.WaitGroup
	var stop atomic.Bool
	defer swapping.Wait()
	defer stop.Store(true)
	swapping.Go(func() {
		for !stop.Load() {
			if swap(out, link) != nil {
				return // this system cannot
			}
		}
	})
	opened := 0
	for range 1000 {
		switch got := f.read(filepath.Join(out, "a.txt")); got.Text {
		case "secret\n":
			t.Fatal("read the secret")
		case "open\n":
			opened++
		}
	}
	if opened == 0 {
		t.Error("never read what the rule opens")
	}
}
