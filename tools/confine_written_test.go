package tools

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"jp/tools/fs"
	"jp/tools/proc"
)

// TestSandboxWorkspaceWritten opens the workspace for writing, without what later says programs
// what to do.
func TestSandboxWorkspaceWritten(t *testing.T) {
	needSandbox(t)
	const try = `
for f in file dir/f dir/new .git/hooks/pre-commit .git/config .jp/config.toml .jp/new AGENTS.md .claude/settings.json new; do
	if (echo x >"$f") 2>/dev/null; then echo "$f"; fi
done
mv .git git 2>/dev/null && echo moved .git
mv .jp jp 2>/dev/null && echo moved .jp
rm -r .claude 2>/dev/null && echo removed .claude
true
`
	const all = "file\ndir/f\ndir/new\n.git/hooks/pre-commit\n.git/config\n.jp/config.toml\n.jp/new\nAGENTS.md\n.claude/settings.json\nnew\n" +
		"moved .git\nmoved .jp\nremoved .claude\n"
	for _, tt := range []struct{ rules, want string }{
		{`[{ path = "." }]`, ""},
		{`[{ path = ".", mode = "rw" }]`, "file\ndir/f\ndir/new\n"},
		{`[{ path = "..", mode = "rw" }]`, "file\ndir/f\ndir/new\n"},
		{`[{ path = ".", mode = "rw" }, { path = "AGENTS.md", mode = "rw" }]`, "file\ndir/f\ndir/new\nAGENTS.md\n"},
		{`[{ path = "." }, { path = ".git", mode = "rw" }]`, ".git/hooks/pre-commit\n.git/config\n"},
		{`[{ path = ".", mode = "rw" }, { path = ".git", mode = "rw" }]`, all},
	} {
		c := newCommands(t, map[string]string{
			"ws/file": "x", "ws/dir/f": "x", "ws/.git/hooks/x": "x", "ws/.git/config": "x", "ws/.jp/config.toml": "", "ws/AGENTS.md": "x",
			"ws/.claude/settings.json": "x", "ws/run.sh": try,
		})
		c.dir = c.at("ws")
		expect(t, tt.rules, c.run(t.Context(), sh("access.fs = "+tt.rules), ``), text(tt.want))
	}

	// A tool that wants to make something at the top learns why it cannot.
	top := newCommands(t, map[string]string{"dir/f": "x"})
	const hint = "\nhint: the sandbox lets nothing be made, renamed or removed in the workspace's top folder itself: name the folders that are written in access.fs"
	for _, tt := range []struct{ rules, want string }{
		{`[{ path = ".", mode = "rw" }]`, hint},
		{`[{ path = ".", mode = "ro" }, { path = "dir", mode = "rw" }]`, ""},
	} {
		said := failed("exit status 1\nstderr:\ntouch: cannot touch 'new': Permission denied" + tt.want)
		expect(t, tt.rules, top.run(t.Context(), "command = \"touch new\"\naccess.fs = "+tt.rules, ``), said)
	}

	c := newCommands(t, nil)
	for i := range 4096 + 1 {
		write(t, c.dir, map[string]string{strconv.Itoa(i): ""})
	}
	got := c.run(t.Context(), "command = \"true\"\naccess.fs = [{ path = \".\", mode = \"rw\" }]", ``)
	got.Text = strings.ReplaceAll(got.Text, c.dir, ".")
	expect(t, "too many", got, refusal("access.fs: .: holds more than 4096 entries: name the folders that are written"))
}

// TestRuleLinks has rules of access.fs go through links. What a tool or a repository may have made
// leads no rule anywhere, for a local tool and for a built-in one.
func TestRuleLinks(t *testing.T) {
	needSandbox(t)
	const byAnyone = "goes through the symbolic link %s, which a tool or a repository may have made: write where it leads"
	for _, tt := range []struct {
		name, link, target string
		rule               string // $ is the folder around the workspace
		mode               fs.Mode
		file               string // file that is tried, below the rule
		refused            string // "" is none; with a link in it
	}{
		{name: "to .git", link: "ws/out", target: ".git", rule: "out", mode: fs.ReadWrite, file: "hooks/x", refused: byAnyone},
		{name: "to the hooks", link: "ws/out", target: "$/ws/.git/hooks", rule: "out", mode: fs.ReadWrite, file: "x", refused: byAnyone},
		{name: "to the workspace", link: "ws/out", target: ".", rule: "out", mode: fs.ReadOnly, file: "f", refused: byAnyone},
		{name: "to .jp", link: "ws/out", target: ".jp", rule: "out", mode: fs.ReadOnly, file: "config.toml", refused: byAnyone},
		{name: "to a folder beside", link: "ws/out", target: "src", rule: "out", mode: fs.ReadWrite, file: "f", refused: byAnyone},
		{name: "on the way", link: "ws/out", target: "src", rule: "out/sub", mode: fs.ReadWrite, file: "f", refused: byAnyone},
		{name: "by its full name", link: "ws/out", target: "src", rule: "$/ws/out", mode: fs.ReadWrite, file: "f", refused: byAnyone},
		{name: "outside, where tools write", link: "shared/out", target: "../.ssh", rule: "$/shared/out", mode: fs.ReadWrite, file: "id", refused: byAnyone},
		{name: "outside, read", link: "shared/out", target: "../.ssh", rule: "$/shared/out", mode: fs.ReadOnly, file: "id", refused: byAnyone},
		{name: "the user's own", link: "own", target: "shared", rule: "$/own", mode: fs.ReadWrite, file: "f"},
		{name: "the user's own, read", link: "own", target: "shared/.git", rule: "$/own", mode: fs.ReadOnly, file: "f"},
		{name: "the user's own, to .git", link: "own", target: "shared/.git", rule: "$/own", mode: fs.ReadWrite, file: "f",
			refused: "leads into .git, which is written only where access.fs names it"},
		{name: "the user's own, back", link: "own", target: "shared/back", rule: "$/own", mode: fs.ReadOnly, file: "f", refused: byAnyone},
	} {
		c := newCommands(t, map[string]string{
			"ws/f": "text", "ws/src/f": "text", "ws/src/sub/f": "text", "ws/.git/hooks/x": "text", "ws/.jp/config.toml": "text",
			"shared/f": "text", "shared/.git/f": "text", ".ssh/id": "text", "state/x": "",
		})
		above := c.dir
		full := func(s string) string { return strings.ReplaceAll(s, "$", above) }
		for link, target := range map[string]string{tt.link: full(tt.target), "shared/back": ".."} {
			if err := os.Symlink(target, c.at(link)); err != nil {
				t.Fatal(err)
			}
		}
		c.dir = c.at("ws")
		rule := full(tt.rule)
		refused := strings.Replace(tt.refused, "%s", strings.TrimPrefix(filepath.Join(above, tt.link), c.dir+"/"), 1)
		if strings.HasSuffix(tt.name, "back") {
			refused = strings.Replace(tt.refused, "%s", filepath.Join(above, "shared/back"), 1)
		}
		deny := []string{filepath.Join(above, "state")}

		_, got := c.boxed("command = \"true\"\naccess.fs = [{ path = "+strconv.Quote(rule)+", mode = \""+string(tt.mode)+"\" }]",
			CommandEnv{Enforceable: wholeKernel, Kept: fs.Kept{Deny: deny}})
		want := text("")
		if refused != "" {
			shown := rule
			if strings.HasPrefix(rule, c.dir) || !filepath.IsAbs(rule) {
				shown = filepath.Join(c.dir, strings.TrimPrefix(rule, c.dir))
			}
			want = refusal("access.fs: " + shown + ": " + refused)
		}
		expect(t, tt.name+", local", got, want)

		f := &fsTest{t: t, dir: c.dir, deny: deny, fs: []fs.Rule{{Path: rule, Mode: tt.mode}}}
		file := filepath.Join(rule, tt.file)
		want = text("text")
		if refused != "" {
			want = refusal(file + ": the rule for " + strings.TrimPrefix(rule, c.dir+"/") + " in access.fs cannot be used: " + refused)
		}
		expect(t, tt.name+", built-in", f.read(file), want)
	}
}

// TestSandboxHome has HOME name what a tool can read.
func TestSandboxHome(t *testing.T) {
	needSandbox(t)
	git, err := exec.LookPath("git")
	if err != nil {
		t.Skip("git is not installed")
	}
	script := `command = { script = '''
` + git + ` config user.name || echo none
cat ~/.profile 2>/dev/null || echo none
''', interpreter = "sh" }
`
	for _, tt := range []struct{ rules, want string }{
		{`[{ path = "." }]`, "none\nnone\n"}, // git works although it may not read settings
		{`[]`, "none\nnone\n"},
		{`[{ path = "../.gitconfig" }]`, "me\nnone\n"},
		{`[{ path = ".." }]`, "me\nset\n"},
	} {
		c := newCommands(t, map[string]string{"home/.gitconfig": "[user]\nname = me\n", "home/.profile": "set\n", "home/ws/f": "x"})
		c.env = append(c.env, "HOME="+c.at("home"))
		c.dir = c.at("home/ws")
		expect(t, tt.rules, c.run(t.Context(), script+"access.fs = "+tt.rules, ``), text(tt.want))
	}
	c := newCommands(t, map[string]string{"f": "x"})
	c.env = append(c.env, "HOME=/nowhere")
	expect(t, "TMPDIR", c.run(t.Context(), "command = { script = 'test \"$HOME\" = \"$TMPDIR\" && cd && echo >f && echo same', interpreter = \"sh\" }", ``), text("same\n"))
	expect(t, "off", c.run(t.Context(), "sandbox = \"off\"\ncommand = { script = 'echo \"$HOME\"', interpreter = \"sh\" }", ``), text("/nowhere\n"))
}

// needSandbox skips a test on a system that cannot confine; TestSandboxTool says what happens
// there.
func needSandbox(t *testing.T) {
	t.Helper()
	if missing := proc.Enforceable().Missing; len(missing) > 0 {
		t.Skipf("this system cannot enforce %s", strings.Join(missing, ", "))
	}
}
