package tools

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"jp/tools/proc"
)

// TestSandboxWorkspaceWritten has the workspace be open to be written, without what later tells programs what to do.
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

	c := newCommands(t, nil)
	for i := range maxInside + 1 {
		write(t, c.dir, map[string]string{strconv.Itoa(i): ""})
	}
	got := c.run(t.Context(), "command = \"true\"\naccess.fs = [{ path = \".\", mode = \"rw\" }]", ``)
	got.Text = strings.ReplaceAll(got.Text, c.dir, ".")
	expect(t, "too many", got, refusal("access.fs: .: holds more than 4096 entries: name the folders that are written"))
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
		{`[{ path = "." }]`, "none\nnone\n"}, // git is not kept from its work by settings that it may not read
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

// needSandbox skips a test on a system that cannot confine; TestSandboxTool says what happens there.
func needSandbox(t *testing.T) {
	t.Helper()
	if missing := proc.Enforceable().Missing; len(missing) > 0 {
		t.Skipf("this system cannot enforce %s", strings.Join(missing, ", "))
	}
}
