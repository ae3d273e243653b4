package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coder/acp-go-sdk"
)

// TestACPServers: an MCP server of the editor runs when a tool of it is held and its user said yes,
// once, and again when a tool has changed.
func TestACPServers(t *testing.T) {
	s := newSite(t, map[string]string{
		".jp/config.toml": "[assistant]\nmodel = \"script/main.toml\"\n[conversation.tools.say]\nsource = \"mcp.notes.echo\"\nrun = \"unattended\"\n" +
			"[conversation.tools.jp_query]\nrun = \"unattended\"\n[delegation]\nprofiles = [\"agent/child\"]\n",
		".jp/config/agent/child.toml": "[loader]\nreset = \"none\"\n[assistant]\nmodel = \"script/main.toml\"\n[conversation.tools.say]\nsource = \"mcp.notes.echo\"\n",
		"about":                       "Says it again.",
		"main.toml": `
[[rule]]
query = "delegate"
round = 1
tool_calls = [{ name = "jp_query", arguments = { config = "agent/child", query = "say" } }]
[[rule]]
query = "say"
round = 1
tool_calls = [{ name = "say", arguments = { text = "it is so" } }]
[[rule]]
text = "done"
`,
	})
	s.untrusted = true // JP_TRUST_WORKSPACE would approve the server too
	if out, code := s.jp("trust", "--yes"); code != 0 {
		t.Fatal(out)
	}
	notes := acp.McpServer{Stdio: &acp.McpServerStdio{Name: "notes", Command: "mcp-server", Args: []string{"about"}, Env: []acp.EnvVariable{}}}
	stdio := func(name, arg string) acp.McpServer {
		return acp.McpServer{Stdio: &acp.McpServerStdio{Name: name, Command: "x", Args: []string{arg}, Env: []acp.EnvVariable{}}}
	}
	sse := acp.McpServer{Sse: &acp.McpServerSseInline{Type: "sse", Name: "old", Url: "https://example.com/", Headers: []acp.HttpHeader{}}}
	e := startEditor(s)
	id := e.open(s.dir, notes, stdio("notes", "twice"), stdio("more", ""), stdio("env", "${HOME}"), stdio("a b", ""), sse)
	e.choose("deny")
	if got := e.say(id, "say"); got != "-32603 tool say: MCP server notes of the editor: not approved" {
		t.Errorf("no: %s", got)
	}
	wantLines(t, "asked", e.asked, []string{"start MCP server notes: mcp-server about"})
	got := strings.Split(strings.Join(e.updates(), "\n"), "\n")
	for _, want := range []string{
		`jp: warning: MCP server "notes" of the editor: left out: two servers have this name`,
		`jp: warning: MCP server "env" of the editor: left out: holds ${, which jp would read as the name of a variable`,
		`jp: warning: MCP server "a b" of the editor: left out: the name of a server has at most 64 letters, digits, _ and, not first, -`,
		`jp: warning: MCP server "old" of the editor: left out: type "sse" is not supported`,
	} {
		if !slices.ContainsFunc(got, func(line string) bool { return strings.TrimPrefix(line, "thought: ") == want }) {
			t.Errorf("no notice %q among\n%s", want, strings.Join(got, "\n"))
		}
	}
	if p := s.running("mcp-server"); len(p) != 0 {
		t.Errorf("started: %v", p)
	}
	e.choose("allow")
	for range 2 { // asked once
		if got := e.say(id, "say"); got != "end_turn" {
			t.Fatalf("yes: %s\n%s", got, e.stderr)
		}
		if got := e.updates(); !slices.ContainsFunc(got, func(line string) bool { return strings.HasSuffix(line, "completed: it is so") }) {
			t.Errorf("updates = %q", got)
		}
	}
	wantLines(t, "asked", e.asked, []string{
		"start MCP server notes: mcp-server about", "start MCP server notes: mcp-server about", "let agents use the tools of MCP server notes",
	})
	if err := os.WriteFile(filepath.Join(s.dir, "about"), []byte("Sends it away."), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := e.say(id, "say"); got != "end_turn" {
		t.Fatalf("changed: %s", got)
	}
	if got := strings.Join(e.updates(), "\n"); !strings.Contains(got, "MCP server notes of the editor: its tools are not as they were approved; jp asks about them before the next prompt") {
		t.Errorf("changed: %s", got)
	}
	if got := e.say(id, "say"); got != "end_turn" {
		t.Fatalf("asked again: %s", got)
	}
	if got := strings.Join(e.updates(), "\n"); !strings.Contains(got, "Sends it away.") || !strings.HasSuffix(got, "completed: it is so\nagent: done") {
		t.Errorf("asked again: %s", got)
	}
	if got := e.say(id, "delegate"); got != "end_turn" {
		t.Fatal(got)
	}
	if got := strings.Join(e.updates(), "\n"); !strings.Contains(got, "MCP server notes belongs to the editor, and sub-agents cannot use it") {
		t.Errorf("a sub-agent: %s", got)
	}
	e.endWell()
}

// TestACPServersFail: the question about a server of the editor that then does not start has failed, and so has a call of
// one that does not start any more.
func TestACPServersFail(t *testing.T) {
	s := newSite(t, map[string]string{
		".jp/config.toml": "[assistant]\nmodel = \"script/main.toml\"\n[conversation.tools.say]\nsource = \"mcp.notes.echo\"\nrun = \"unattended\"\n",
		"main.toml":       "[[rule]]\nround = 1\ntool_calls = [{ name = \"say\", arguments = { text = \"it is so\" } }]\n[[rule]]\ntext = \"done\"\n",
		"about":           "Says it again.",
		"broken":          "",
	})
	s.untrusted = true
	if out, code := s.jp("trust", "--yes"); code != 0 {
		t.Fatal(out)
	}
	notes := acp.McpServer{Stdio: &acp.McpServerStdio{
		Name: "notes", Command: "sh", Args: []string{"-c", "test -e broken && exit 3; exec mcp-server about"}, Env: []acp.EnvVariable{},
	}}
	e := startEditor(s)
	id := e.open(s.dir, notes)
	e.choose("allow")
	ended := func() (list []string) {
		for _, line := range e.updates() {
			if words := strings.Fields(line); words[0] == "update" {
				list = append(list, strings.TrimSuffix(words[1]+" "+words[2], ":"))
			}
		}
		return list
	}
	if got := e.say(id, "say"); !strings.HasPrefix(got, "-32603 tool say: MCP server notes: ") {
		t.Errorf("broken: %s", got)
	}
	wantLines(t, "broken", ended(), []string{"jp-mcp-notes in_progress", "jp-mcp-notes failed"})
	broken := filepath.Join(s.dir, "broken")
	if err := os.Remove(broken); err != nil {
		t.Fatal(err)
	}
	if got := e.say(id, "say"); got != "end_turn" {
		t.Errorf("mended: %s", got)
	}
	wantLines(t, "mended", ended(), []string{
		"jp-mcp-notes in_progress", "jp-mcp-notes completed", "jp-mcp-notes-tools completed", "call_1 in_progress", "call_1 completed",
	})
	if err := os.WriteFile(broken, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	e.endWell()

	e = startEditor(s)
	id = e.open(s.dir, notes)
	if got := e.say(id, "say"); got != "end_turn" {
		t.Errorf("broken again: %s", got)
	}
	wantLines(t, "broken again", ended(), []string{"call_1 in_progress", "call_1 failed"})
	e.endWell()
}

// TestACPServersKnown: a server of the editor that jp knows is that one; the user's own config may
// confine one, and has the last word about a name.
func TestACPServersKnown(t *testing.T) {
	s := newSite(t, map[string]string{
		".jp/config.toml": "[assistant]\nmodel = \"script/main.toml\"\n[conversation.tools.say]\nsource = \"mcp.notes.echo\"\nrun = \"unattended\"\n",
		"main.toml":       "[[rule]]\ntext = \"done\"\n",
		".mcp.json":       `{"mcpServers":{"tracker":{"command":"mcp-server","args":["plain"]}}}`,
	})
	s.untrusted = true
	user := filepath.Join(s.home, "config", "jp", "config.toml")
	if err := os.MkdirAll(filepath.Dir(user), 0o700); err != nil {
		t.Fatal(err)
	}
	const own = "[providers.mcp.notes]\nnetwork = \"none\"\n[providers.mcp.mine]\ncommand = \"mcp-server\"\nargs = [\"about\"]\n"
	if err := os.WriteFile(user, []byte(own), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, code := s.jp("trust", "--yes"); code != 0 {
		t.Fatal(out)
	}
	stdio := func(name, arg string) acp.McpServer {
		return acp.McpServer{Stdio: &acp.McpServerStdio{Name: name, Command: "mcp-server", Args: []string{arg}, Env: []acp.EnvVariable{}}}
	}
	e := startEditor(s)
	id := e.open(s.dir, stdio("notes", "plain"), stdio("tracker", "plain"), stdio("mine", "plain"))
	e.choose("deny")
	if got := e.say(id, "say"); got != "-32603 tool say: MCP server notes of the editor: not approved" {
		t.Errorf("no: %s", got)
	}
	got := strings.Join(e.updates(), "\n")
	if strings.Contains(got, "UNCONFINED") || !strings.Contains(got, "sandbox") {
		t.Errorf("the question does not say that it is confined:\n%s", got)
	}
	if strings.Contains(got, "tracker") || !strings.Contains(got, `MCP server "mine" of the editor: left out: config.toml has another server of this name`) {
		t.Errorf("notices:\n%s", got)
	}
	e.endWell()
}

// TestACPServersTakenBack: a yes to a question about a server of the editor counts only while the
// workspace is trusted.
func TestACPServersTakenBack(t *testing.T) {
	s := newSite(t, map[string]string{
		".jp/config.toml": "[assistant]\nmodel = \"script/main.toml\"\n[conversation.tools.say]\nsource = \"mcp.notes.echo\"\nrun = \"unattended\"\n",
		"main.toml":       "[[rule]]\ntext = \"done\"\n", "about": "Says it again.",
	})
	s.untrusted = true
	trusted := func(flag string) {
		t.Helper()
		if out, code := s.jp("trust", flag); code != 0 {
			t.Fatal(out)
		}
	}
	trusted("--yes")
	e := startEditor(s)
	id := e.open(s.dir, acp.McpServer{Stdio: &acp.McpServerStdio{
		Name: "notes", Command: "sh", Args: []string{"-c", "touch ran; until test -e revoked; do sleep 0.05; done; exec mcp-server about"}, Env: []acp.EnvVariable{},
	}})
	e.choose("allow")
	said := make(chan string, 1)
	go func() { said <- e.say(id, "say") }()
	for ran := filepath.Join(s.dir, "ran"); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(ran); err == nil {
			break
		}
	}
	trusted("--revoke")
	if err := os.WriteFile(filepath.Join(s.dir, "revoked"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if got := <-said; !strings.Contains(got, "not trusted any more") {
		t.Errorf("yes after --revoke: %s", got)
	}
	trusted("--yes")
	e.choose("deny")
	if got := e.say(id, "say"); !strings.Contains(got, "not approved") {
		t.Errorf("trusted again: %s, want a question", got)
	}
	e.endWell()
}

// TestACPQuestion: ask_user is a form where the editor has forms.
func TestACPQuestion(t *testing.T) {
	s := newSite(t, map[string]string{
		".jp/config.toml": "[assistant]\nmodel = \"script/main.toml\"\n[conversation.tools.ask_user]\n",
		"main.toml": `
[[rule]]
query = "choose"
round = 1
tool_calls = [{ name = "ask_user", arguments = { question = "Which one?", options = ["red", "blue"] } }]
[[rule]]
query = "hidden"
round = 1
tool_calls = [{ name = "ask_user", arguments = { question = "Which one?", options = ["red\u202e", "blue\n"] } }]
[[rule]]
query = "same"
round = 1
tool_calls = [{ name = "ask_user", arguments = { question = "Which one?", options = ["red", "re\u200bd"] } }]
[[rule]]
query = "ask"
round = 1
tool_calls = [{ name = "ask_user", arguments = { question = "Which one?" } }]
[[rule]]
text = "done"
`,
	})
	forms := acp.ClientCapabilities{Elicitation: &acp.ElicitationCapabilities{Form: &acp.ElicitationFormCapabilities{}}}
	accept := func(key, value string) acp.UnstableCreateElicitationResponse {
		return acp.UnstableCreateElicitationResponse{Accept: &acp.UnstableCreateElicitationAccept{Action: "accept", Content: map[string]any{key: value}}}
	}
	for _, tt := range []struct {
		name   string
		can    acp.ClientCapabilities
		query  string
		answer acp.UnstableCreateElicitationResponse
		asked  string
		want   string
	}{
		{"choice", forms, "choose", accept("choice", "blue"), "Which one? [answer choice] [] [\"red\" \"blue\"]", "completed: blue"},
		{"choice of what is shown", forms, "hidden", accept("choice", "blue"), "Which one? [answer choice] [] [\"red\" \"blue\"]", "completed: blue\n"},
		{"choice of the same", forms, "same", accept("choice", "2) red"), "Which one? [answer choice] [] [\"1) red\" \"2) red\"]", "completed: re\u200bd"},
		{"own words", forms, "choose", accept("answer", "green"), "Which one? [answer choice] [] [\"red\" \"blue\"]", "completed: green"},
		{"open", forms, "ask", accept("answer", "green"), "Which one? [answer] [answer]", "completed: green"},
		{"declined", forms, "ask", acp.UnstableCreateElicitationResponse{Decline: &acp.UnstableCreateElicitationDecline{Action: "decline"}},
			"Which one? [answer] [answer]", "failed: error: the user gave no answer"},
		{"no forms", acp.ClientCapabilities{}, "ask", acp.UnstableCreateElicitationResponse{}, "", "failed: error: nobody can answer, and conversation.tools.ask_user.detached.tool is "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			e := startEditorThat(s, tt.can)
			asked := ""
			e.form = func(f acp.UnstableCreateElicitationForm) acp.UnstableCreateElicitationResponse {
				var keys []string
				for k := range f.RequestedSchema.Properties {
					keys = append(keys, k)
				}
				slices.Sort(keys)
				asked = fmt.Sprintf("%s %v %v", f.Message, keys, f.RequestedSchema.Required)
				if choice, ok := f.RequestedSchema.Properties["choice"].(map[string]any); ok {
					asked += fmt.Sprintf(" %q", choice["enum"])
				}
				return tt.answer
			}
			if got := e.say(e.open(s.dir), tt.query); got != "end_turn" {
				t.Fatal(got)
			}
			got := strings.Join(e.updates(), "\n")
			if asked != tt.asked || !strings.Contains(got, tt.want) {
				t.Errorf("asked %q, updates =\n%s\nwant %q and %q", asked, got, tt.asked, tt.want)
			}
			e.endWell()
		})
	}
}

// TestACPResult: a result that a person must let through is shown to them first.
func TestACPResult(t *testing.T) {
	for choice, want := range map[string]string{"allow": "completed: remember", "deny": "failed: error: the tool ran; its result is withheld: the user said no"} {
		t.Run(choice, func(t *testing.T) {
			s := newSite(t, map[string]string{
				".jp/config.toml": "[assistant]\nmodel = \"script/main.toml\"\n[conversation.tools.fs_read_file]\nrun = \"unattended\"\nresult = \"ask\"\n",
				"main.toml":       "[[rule]]\nround = 1\ntool_calls = [{ name = \"fs_read_file\", arguments = { path = \"notes.md\" } }]\n[[rule]]\ntext = \"done\"\n",
				"notes.md":        "remember\n",
			})
			e := startEditor(s)
			e.choose(choice)
			if got := e.say(e.open(s.dir), "read"); got != "end_turn" {
				t.Fatal(got)
			}
			if got := strings.Join(e.updates(), "\n"); !strings.Contains(got, want) {
				t.Errorf("updates =\n%s\nwant %q", got, want)
			}
			wantLines(t, "asked", e.asked, []string{`give the model the result of fs_read_file(path="notes.md")`})
			wantLines(t, "options", e.names, []string{
				"Show the model the result", "Show the model what fs_read_file returns for the rest of this turn",
				"Show the model what fs_read_file returns always in this conversation",
				"Keep back the result", "Keep back what fs_read_file returns for the rest of this turn",
			})
		})
	}
}

// TestACPPlaces: a workspace is served once it is trusted, and with --workspace no other is.
func TestACPPlaces(t *testing.T) {
	s := acpSite(t)
	other := filepath.Join(s.home, "other")
	if err := os.MkdirAll(filepath.Join(other, ".jp"), 0o700); err != nil {
		t.Fatal(err)
	}
	sub := filepath.Join(s.dir, "sub")
	if err := os.Mkdir(sub, 0o700); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(sub, "out")
	if err := os.Symlink(other, link); err != nil {
		t.Fatal(err)
	}
	e := startEditor(s, "-w", s.dir)
	try := func(dir string) string {
		r, err := e.NewSession(t.Context(), acp.NewSessionRequest{Cwd: dir, McpServers: []acp.McpServer{}})
		if err == nil {
			return "ok"
		}
		text, _, _ := strings.Cut(said(string(r.SessionId), err), "\n")
		return text
	}
	for dir, want := range map[string]string{
		s.dir: "ok", sub: "ok",
		other:                    fmt.Sprintf("-32602 cwd: %s is not in %s, which --workspace names", other, s.dir),
		link:                     fmt.Sprintf("-32602 cwd: %s is not in %s, which --workspace names", link, s.dir),
		filepath.Dir(s.dir):      fmt.Sprintf("-32602 cwd: %s is not in %s, which --workspace names", filepath.Dir(s.dir), s.dir),
		s.dir + "/../home/other": fmt.Sprintf("-32602 cwd: %s is not in %s, which --workspace names", s.dir+"/../home/other", s.dir),
	} {
		if got := try(dir); got != want {
			t.Errorf("%s: %s\nwant %s", dir, got, want)
		}
	}
	e.endWell()
	e = startEditor(s, "--cfg", "agent/nobody")
	if got := try(s.dir); !strings.HasPrefix(got, "-32002 ") || !strings.Contains(got, "agent/nobody") {
		t.Errorf("a profile that is none: %s", got)
	}
	e.endWell()

	s.untrusted = true
	e = startEditor(s)
	if got := try(s.dir); got != fmt.Sprintf("-32603 workspace %s: not trusted", s.dir) {
		t.Errorf("untrusted: %s", got)
	}
	if out, code := s.jp("trust", "--yes"); code != 0 {
		t.Fatal(out)
	}
	if got := try(s.dir); got != "ok" {
		t.Errorf("trusted: %s", got)
	}
	id := e.open(s.dir)
	if err := os.WriteFile(filepath.Join(s.dir, ".jp/config.toml"), []byte(acpConfig+"\n# changed\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := e.say(id, "hello"); !strings.HasPrefix(got, fmt.Sprintf("-32603 workspace %s: not as it was trusted: .jp/config.toml (changed)", s.dir)) {
		t.Errorf("changed: %s", got)
	}
}
