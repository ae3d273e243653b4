package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"jp/tools/files"
	"jp/tools/fs"
	"jp/tools/proc"
)

// boxed is a command that reports the Confine of its call, and runs nothing.
func (c *commandTest) boxed(src string, env CommandEnv) (*proc.Confine, Result) {
	c.t.Helper()
	def, err := Decode("t", table(c.t, "source = \"local\"\nrun = \"unattended\"\n"+src), nil)
	if err != nil {
		c.t.Fatal(err)
	}
	var box *proc.Confine
	env.Dir, env.Environ = c.dir, c.env
	env.Notice = func(s string) { c.notes = append(c.notes, s) }
	env.Host = runnerFunc(func(_ context.Context, s proc.Spec) (proc.Exit, error) {
		box = s.Confine
		return proc.Exit{}, nil
	})
	tool, err := Command(def, env)
	if err != nil {
		c.t.Fatal(err)
	}
	result := runAll(c.t, Executor{Set: setOf(c.t, tool)}, c.t.Context(), Call{ID: "1", Name: "t"})["1"]
	return box, result
}

// The kernels that there are.
func wholeKernel() proc.Report { return proc.Report{LandlockABI: 7, Seccomp: true} }
func oldKernel() proc.Report   { return proc.Report{LandlockABI: 3, Seccomp: true} }
func noKernel() proc.Report    { return proc.Report{} }

const (
	noFiles   = "access to files (no Landlock here)"
	noSignals = "signals to other processes (Landlock ABI 3, 6 is needed)"
	noneOfIt  = noFiles + ", signals to other processes (Landlock ABI 0, 6 is needed), no network (no system call filter here)"
	less      = "local tools run with less of a sandbox than they ask for: this system cannot enforce "
)

// TestSandboxMode: which tool runs with which confinement on which kernel.
func TestSandboxMode(t *testing.T) {
	for _, tt := range []struct {
		name, mode string
		env        CommandEnv
		kernel     func() proc.Report
		free       bool // runs unconfined
		refused    string
		note       string
	}{
		{name: "auto, main", mode: "auto", env: CommandEnv{Main: true}, kernel: wholeKernel},
		{name: "auto, main, old", mode: "auto", env: CommandEnv{Main: true}, kernel: oldKernel, note: less + noSignals},
		{name: "auto, main, none", mode: "auto", env: CommandEnv{Main: true}, kernel: noKernel, note: less + noneOfIt},
		{name: "auto, sub-agent", mode: "auto", kernel: wholeKernel},
		{name: "auto, sub-agent, old", mode: "auto", kernel: oldKernel, note: less + noSignals},
		{name: "auto, sub-agent, none", mode: "auto", kernel: noKernel, refused: "a local tool of a sub-agent needs a sandbox: this system cannot enforce " + noneOfIt},
		{name: "off does not count for auto", mode: "auto", env: CommandEnv{AllowOff: true}, kernel: noKernel, refused: "a local tool of a sub-agent needs a sandbox: this system cannot enforce " + noneOfIt},
		{name: "require, main", mode: "require", env: CommandEnv{Main: true}, kernel: wholeKernel},
		{name: "require, main, old", mode: "require", env: CommandEnv{Main: true}, kernel: oldKernel, refused: `sandbox = "require": this system cannot enforce ` + noSignals},
		{name: "require, main, none", mode: "require", env: CommandEnv{Main: true, AllowOff: true}, kernel: noKernel, refused: `sandbox = "require": this system cannot enforce ` + noneOfIt},
		{name: "require, sub-agent", mode: "require", kernel: wholeKernel},
		{name: "off, main", mode: "off", env: CommandEnv{Main: true}, kernel: wholeKernel, free: true},
		{name: "off, sub-agent", mode: "off", kernel: wholeKernel, refused: `sandbox = "off": for a sub-agent only the user's own config can say so`},
		{name: "off, sub-agent, none", mode: "off", kernel: noKernel, refused: `sandbox = "off": for a sub-agent only the user's own config can say so`},
		{name: "off, sub-agent, said by the user", mode: "off", env: CommandEnv{AllowOff: true}, kernel: wholeKernel, free: true},
	} {
		c := newCommands(t, nil)
		tt.env.Enforceable = tt.kernel
		box, got := c.boxed("command = \"true\"\nsandbox = \""+tt.mode+"\"", tt.env)
		want := text("")
		if tt.refused != "" {
			want = refusal(tt.refused)
		}
		expect(t, tt.name, got, want)
		if ran := !got.IsError; (box == nil) != (tt.free || !ran) {
			t.Errorf("%s: confined = %+v, want none: %t", tt.name, box, tt.free)
		}
		if box != nil && (box.Require != (tt.mode == "require") || box.Network || !box.TmpDir) {
			t.Errorf("%s: confined = %+v", tt.name, box)
		}
		if note := strings.Join(c.notes, "\n"); note != tt.note {
			t.Errorf("%s: notes = %q, want %q", tt.name, note, tt.note)
		}
	}
}

// TestSandboxNetwork has network = "any" need no filter.
func TestSandboxNetwork(t *testing.T) {
	c := newCommands(t, nil)
	box, got := c.boxed("command = \"true\"\nsandbox = \"require\"\nnetwork = \"any\"", CommandEnv{
		Enforceable: func() proc.Report { return proc.Report{LandlockABI: 6} },
	})
	expect(t, "any", got, text(""))
	if box == nil || !box.Network {
		t.Errorf("confined = %+v, want the network allowed", box)
	}
}

// TestSandboxAccess has access.fs become what a tool can touch.
func TestSandboxAccess(t *testing.T) {
	outside, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	write(t, outside, map[string]string{"a/f": "x", "b/f": "x", "c/f": "x"})
	if err := os.Symlink("c", filepath.Join(outside, "to-c")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, rules string
		read, write []string // . is the workspace, / what is outside
		refused     string
	}{
		{name: "default", read: []string{"."}},
		{name: "none", rules: `[]`},
		{name: "written", rules: `[{ path = ".", mode = "rw" }]`, read: []string{"."}, write: []string{"./dir", "./file"}},
		{name: "written with a guarded file", rules: `[{ path = ".", mode = "rw" }, { path = "AGENTS.md", mode = "rw" }]`,
			read: []string{"."}, write: []string{"./dir", "./file", "./AGENTS.md"}},
		{name: "written with .git", rules: `[{ path = ".", mode = "rw" }, { path = ".git", mode = "rw" }]`, write: []string{".", "./.git"}},
		{name: "the folder around", rules: `[{ path = "..", mode = "rw" }]`, read: []string{"./.."}, write: []string{"./../beside", "./dir", "./file"}},
		{name: "part written", rules: `[{ path = ".", mode = "ro" }, { path = "dir", mode = "rw" }]`, read: []string{"."}, write: []string{"./dir"}},
		{name: "a file", rules: `[{ path = "dir/f", mode = "ro" }]`, read: []string{"./dir/f"}},
		{name: "missing", rules: `[{ path = "/missing", mode = "rw" }]`},
		{name: "outside", rules: `[{ path = "/a", mode = "ro" }]`, read: []string{"/a"}},
		{name: "outside by a link", rules: `[{ path = "/to-c", mode = "rw" }]`, write: []string{"/c"}},
		{name: "twice", rules: `[{ path = "dir", mode = "rw" }, { path = "dir", mode = "ro" }]`, read: []string{"./dir"}},
		{name: "closed in open", rules: `[{ path = ".", mode = "rw" }, { path = "dir", mode = "ro" }]`,
			refused: "access.fs: dir is read-only inside ., which is not: that cannot be enforced; name the folders that are written"},
		{name: "link that leads out", rules: `[{ path = "out", mode = "rw" }]`, refused: "access.fs: ./out: goes through the symbolic link out, which a tool or a repository may have made: write where it leads"},
		{name: "covers the store", rules: `[{ path = "/", mode = "ro" }]`, refused: "access.fs: / covers /b, which no tool reaches"},
		{name: "holds what is sealed", rules: `[{ path = "/a", mode = "ro" }, { path = "/a/f", mode = "rw" }]`, refused: "access.fs: /a/f covers /a/f, which no tool writes; name the folders that are written"},
		{name: "reads what is sealed", rules: `[{ path = "/a", mode = "ro" }]`, read: []string{"/a"}},
		{name: "is the store", rules: `[{ path = "/b", mode = "ro" }]`, refused: "access.fs: /b covers /b, which no tool reaches"},
		{name: "lies in the store", rules: `[{ path = "/b/f", mode = "ro" }]`, refused: "access.fs: /b/f covers /b, which no tool reaches"},
	} {
		c := newCommands(t, map[string]string{
			"ws/dir/f": "x", "ws/file": "x", "ws/AGENTS.md": "x", "ws/.git/config": "x", "ws/.jp/config.toml": "", "ws/.Claude/x": "",
			"beside": "x", "CLAUDE.md": "x",
		})
		above := c.dir
		c.dir = c.at("ws")
		if err := os.Symlink(outside, c.at("out")); err != nil {
			t.Fatal(err)
		}
		src := "command = \"true\"\n"
		if tt.rules != "" {
			src += "access.fs = " + strings.ReplaceAll(tt.rules, `path = "/`, `path = "`+outside+"/") + "\n"
		}
		box, got := c.boxed(src, CommandEnv{Enforceable: wholeKernel, Kept: fs.Kept{Deny: []string{filepath.Join(outside, "b")}, Sealed: []string{filepath.Join(outside, "a/f")}}})
		short := func(path string) string {
			path = strings.ReplaceAll(strings.ReplaceAll(path, outside+"/", "/"), outside, "/")
			return strings.Replace(strings.ReplaceAll(path, c.dir, "."), above, "./..", 1)
		}
		if tt.refused != "" {
			got.Text = short(got.Text)
			expect(t, tt.name, got, refusal(tt.refused))
			continue
		}
		expect(t, tt.name, got, text(""))
		if box == nil {
			t.Errorf("%s: not confined", tt.name)
			continue
		}
		system := proc.System()
		for i, list := range [][2][]string{{box.Read[len(system.Read):], tt.read}, {box.Write[len(system.Write):], tt.write}} {
			for j, path := range list[0] {
				list[0][j] = short(path)
			}
			if strings.Join(list[0], " ") != strings.Join(list[1], " ") {
				t.Errorf("%s: %s %q, want %q", tt.name, []string{"read", "write"}[i], list[0], list[1])
			}
		}
	}
}

// TestSandboxKernel has no rule open what the kernel says about processes, as TestFSKernel of the
// built-in tools.
func TestSandboxKernel(t *testing.T) {
	mounts, err := files.Mounts()
	if err != nil {
		t.Fatal(err)
	}
	folders := mounts.Kernel
	if len(folders) == 0 {
		t.Skip("there is no /proc")
	}
	for path, over := range map[string]string{
		"/proc": "/proc", "/proc/1": "/proc", "/proc/1/cmdline": "/proc", "/sys/kernel": "/sys", "/": folders[0],
	} {
		for _, mode := range []string{"ro", "rw"} {
			c := newCommands(t, map[string]string{"f": "x"})
			_, got := c.boxed("command = \"true\"\naccess.fs = [{ path = \""+path+"\", mode = \""+mode+"\" }]\n", CommandEnv{Enforceable: wholeKernel})
			expect(t, mode+" "+path, got, refusal("access.fs: "+path+" covers "+over+", which no tool reaches"))
		}
	}
}

// TestSandboxTool has real tools, of each form of command, stay inside.
func TestSandboxTool(t *testing.T) {
	if missing := proc.Enforceable().Missing; len(missing) > 0 {
		c := newCommands(t, nil)
		want := refusal(`sandbox = "require": this system cannot enforce ` + strings.Join(missing, ", "))
		expect(t, "require", c.run(t.Context(), "command = \"true\"\nsandbox = \"require\"", ``), want)
		t.Skipf("this system cannot enforce %s", strings.Join(missing, ", "))
	}
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("the secret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const escape = `cat "$1" 2>&1; echo x 2>/dev/null >sub/inside || echo read-only; cat here`
	for _, tt := range []struct{ more, want string }{
		{`sandbox = "off"`, "the secret\nthe workspace\n"},
		{`sandbox = "auto"`, "cat: SECRET: Permission denied\nread-only\nthe workspace\n"},
		{`sandbox = "require"`, "cat: SECRET: Permission denied\nread-only\nthe workspace\n"},
		{`access.fs = [{ path = ".", mode = "rw" }]`, "cat: SECRET: Permission denied\nthe workspace\n"},
		{`access.fs = [{ path = ` + strconv.Quote(secret) + `, mode = "ro" }]`, "the secret\nread-only\ncat: here: Permission denied"},
	} {
		c := newCommands(t, map[string]string{"here": "the workspace\n", "sub/f": "x"})
		want := strings.ReplaceAll(tt.want, "SECRET", secret)
		for _, command := range []string{
			"command = { program = \"/bin/sh\", args = [\"-c\", '''" + escape + " 2>&1''', \"sh\", " + strconv.Quote(secret) + "] }",
			"command = { script = '''\nset -- " + secret + "\n" + escape + " 2>&1\n''', interpreter = \"bash\" }",
			"command = { script = '''\nset -- " + secret + "\n" + escape + " 2>&1\n''', interpreter = \"sh\" }",
		} {
			_ = os.Remove(c.at("sub/inside"))
			got := c.run(t.Context(), command+"\n"+tt.more, ``)
			got.Text = strings.TrimSuffix(strings.TrimPrefix(got.Text, "error: exit status 1\nstdout:\n"), "\n")
			if got.Text != strings.TrimSuffix(want, "\n") {
				t.Errorf("%s\n%s\n= %q\nwant %q", command, tt.more, got.Text, want)
			}
		}
	}

	// A value too large for a variable is read from a file.
	c := newCommands(t, nil)
	large := strings.Repeat("x", 150_000)
	args, err := json.Marshal(map[string]string{"x": large})
	if err != nil {
		t.Fatal(err)
	}
	expect(t, "large value", c.run(t.Context(), "command = { script = 'printf %s {{tool.arguments.x}}', interpreter = \"sh\" }\n[parameters.x]\ntype = \"string\"", string(args)), text(large))

	// What interprets a program must be open too.
	write(t, filepath.Dir(secret), map[string]string{"sh": "x"})
	program, err := os.ReadFile("/bin/true")
	if err != nil {
		t.Fatal(err)
	}
	interpreter := filepath.Join(filepath.Dir(secret), "sh")
	if err := os.WriteFile(interpreter, program, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(interpreter, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(c.at("run"), []byte("#!"+interpreter+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	expect(t, "interpreter", c.run(t.Context(), `command = "./run"`, ``),
		failed(`program "./run": permission denied (it, or what interprets it, may lie outside what access.fs opens)`))
	// A program behind a link of the workspace runs where access.fs opens what the link leads to.
	if err := os.Symlink(interpreter, c.at("linked")); err != nil {
		t.Fatal(err)
	}
	expect(t, "linked", c.run(t.Context(), `command = "./linked"`, ``),
		failed(fmt.Sprintf(`program "./linked": permission denied (it goes through the symbolic link %q, which a tool or a repository may have made: open what it leads to in access.fs)`, filepath.Join(c.dir, "linked"))))
	expect(t, "linked and open", c.run(t.Context(), "command = \"./linked\"\naccess.fs = [{ path = "+strconv.Quote(interpreter)+", mode = \"ro\" }]", ``), text(""))
	expect(t, "interpreter, unconfined", c.run(t.Context(), "command = \"./run\"\nsandbox = \"off\"", ``), text(""))
}
