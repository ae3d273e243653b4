package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestAlwaysInConversation: what a person allows always runs without a question in that
// conversation, until it is taken back: no other tool, no other conversation, no sub-agent, and
// nothing that config denies.
func TestAlwaysInConversation(t *testing.T) {
	s := newSite(t, map[string]string{
		".jp/config.toml": "[assistant]\nmodel = \"script/model.toml\"\n[delegation]\nprofiles = [\"agent/maker\"]\n[conversation.tools.jp_query]\nrun = \"unattended\"\n" +
			"[conversation.tools.make]\nsource = \"local\"\ndescription = \"Makes.\"\nresult = \"ask\"\nrun = \"unattended\"\ncommand = \"echo made\"\n" +
			"[conversation.tools.fs_create_file]\n[conversation.tools.fs_modify_file]\n",
		".jp/config/agent/maker.toml": "[assistant]\nmodel = \"script/model.toml\"\n[conversation.tools.fs_create_file]\n",
		"model.toml": `
[[rule]]
query = "delegate"
round = 1
tool_calls = [{ name = "jp_query", arguments = { config = "agent/maker", query = "create" } }]
[[rule]]
query = "modify"
round = 1
tool_calls = [{ name = "fs_modify_file", arguments = { path = "x", edits = [{ old = "y", new = "z" }] } }]
[[rule]]
query = "result"
round = 1
tool_calls = [{ name = "make", arguments = {} }]
[[rule]]
query = "create"
round = 1
tool_calls = [{ name = "fs_create_file", arguments = { path = "x", content = "y" } }]
[[rule]]
text = "done"
`,
	})
	file := filepath.Join(s.dir, "x")
	const mark = "? for help] "
	must := func(args ...string) string {
		t.Helper()
		out, code := s.jp(args...)
		if code != 0 {
			t.Errorf("jp %q: %d\n%s", args, code, out)
		}
		return out
	}
	made := func(what string, want bool, screen string) {
		t.Helper()
		_, err := os.Stat(file)
		if (err == nil) != want {
			t.Errorf("%s: made %v, want %v\n%s", what, err == nil, want, screen)
		}
		_ = os.Remove(file)
	}
	must("trust", "--yes")

	// Only the whole word is the answer, and the help says so.
	screen, _, status := atTerminal(t, s, []exchange{{mark, "al\n"}, {mark, "alway\n"}, {mark, "always\n"}}, "query", "--new", "create")
	screen = strings.ReplaceAll(screen, "\r", "")
	if status != 0 || strings.Count(screen, "\nr no, with a reason\nalways (the whole word) yes to all calls of this tool in this conversation, in\n  later turns too\n") != 2 ||
		!strings.Contains(unbroken(screen), "jp: fs_create_file: not asked again in this conversation; `jp conversation edit jp-c") {
		t.Errorf("status %d, screen:\n%s", status, screen)
	}
	made("always", true, screen)

	// In the next turns nobody is asked, at a terminal or not; in no other conversation and about
	// no other tool.
	screen, _, _ = atTerminal(t, s, nil, "query", "--id", "recent", "create")
	made("the next turn", true, screen)
	out, _ := s.jp("query", "--id", "recent", "create")
	made("with nobody to ask", true, out)
	if out, _ := s.jp("c", "show", "recent"); !strings.Contains(out, "\nalways     run fs_create_file\n") {
		t.Errorf("show:\n%s", out)
	}
	if err := os.WriteFile(file, []byte("y"), 0o600); err != nil {
		t.Fatal(err)
	}
	if screen, _, _ := atTerminal(t, s, []exchange{{"run fs_modify_file", "n\n"}}, "query", "--id", "recent", "modify"); !strings.Contains(screen, mark) {
		t.Errorf("another tool: not asked:\n%s", screen)
	}
	made("another tool", true, "") // it is as it was
	out, _ = s.jp("query", "--id", "recent", "-c", "conversation.tools.fs_create_file.run=deny", "create")
	made("denied", false, out)
	out, _ = s.jp("query", "--id", "recent", "-c", "conversation.tools.fs_create_file.run=ask", "create")
	made("not denied any more", true, out)
	id := strings.TrimSpace(must("c", "ls", "--hidden", "--limit", "1", "--format", "text"))
	id, _, _ = strings.Cut(id, "\t")
	out, _ = s.jp("query", "--id", id, "delegate")
	made("a sub-agent", false, out)
	child, _, _ := strings.Cut(must("c", "ls", "--hidden", "--limit", "1", "--sort", "created", "--descending", "--format", "text"), "\t")
	if print := must("c", "print", child, "--style", "full"); !strings.Contains(print, "nobody can answer, and detached.run is") {
		t.Errorf("the sub-agent:\n%s", print)
	}
	out, _ = s.jp("query", "--id", id, "--fork", "create")
	made("a fork", false, out)
	out, _ = s.jp("query", "--new", "create")
	made("another conversation", false, out)
	out, _ = s.jp("query", "--id", id, "--no-persist", "create")
	made("a copy", false, out)

	// The same for results, which are another question.
	screen, _, _ = atTerminal(t, s, []exchange{{"the result of make", "always\n"}}, "query", "--id", id, "result")
	if show := must("c", "show", id); !strings.Contains(show, "\nalways     give the model the result of make\n") {
		t.Errorf("screen:\n%s\nshow:\n%s", screen, show)
	}
	must("c", "edit", id, "--ask", "make")

	// What is exported has none of it, and what is taken back is asked again.
	archive := must("c", "export", id)
	if strings.Contains(archive, `"allowed"`) || !strings.Contains(archive, id) {
		t.Errorf("export:\n%s", archive)
	}
	if out, code := s.jp("c", "edit", id, "--ask", "fs_modify_file"); code != 2 || !strings.Contains(out, "fs_modify_file is not always allowed") {
		t.Errorf("status %d: %s", code, out)
	}
	must("c", "edit", id, "--ask", "fs_create_file")
	out, _ = s.jp("query", "--id", id, "create")
	made("taken back", false, out)
	if show := must("c", "show", id); strings.Contains(show, "always") {
		t.Errorf("show:\n%s", show)
	}

	// A tool that reaches something else is another one.
	screen, _, _ = atTerminal(t, s, []exchange{{mark, "always\n"}}, "query", "--id", id, "create")
	made("again", true, screen)
	out, _ = s.jp("query", "--id", id, "-c", `conversation.tools.fs_create_file.access.fs:=[{path="x",mode="rw"}]`, "create")
	made("a tool that reaches something else", false, out)
}
