package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/coder/acp-go-sdk"

	"jp/convstore"
)

const acpConfig = `
[assistant]
model = "script/main.toml"
[conversation]
max_turns = 2
[conversation.compact]
window = 100000
[conversation.tools.fs_create_file]
[conversation.tools.fs_read_file]
run = "unattended"
`

const acpModel = `
[[rule]]
query = "write"
round = 1
reasoning = "A file, then."
tool_calls = [{ name = "fs_create_file", arguments = { path = "a.txt", content = "hello\n" } }]
[[rule]]
query = "twice"
round = 1
tool_calls = [
  { name = "fs_create_file", arguments = { path = "b.txt", content = "b" } },
  { name = "fs_create_file", arguments = { path = "c.txt", content = "c" } },
]
[[rule]]
query = "large"
round = 1
tool_calls = [{ name = "fs_create_file", arguments = { path = "large.txt", content = "LARGE" } }]
[[rule]]
query = "loop"
tool_calls = [{ name = "fs_read_file", arguments = { path = "main.toml", end_line = 1 } }]
[[rule]]
query = "refuse"
stop = "refusal"
text = "No."
[[rule]]
query = "fail"
error = { kind = "auth" }
[[rule]]
query = "later"
attempt = 1
error = { kind = "quota", retry_after = "50ms", message = "used up" }
[[rule]]
query = "stall"
hang = true
[[rule]]
text = "done"
`

func acpSite(t *testing.T) *site {
	return newSite(t, map[string]string{".jp/config.toml": acpConfig, "main.toml": acpModel, "notes.md": "remember\n"})
}

func wantLines(t *testing.T, what string, got, want []string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s =\n  %s\nwant\n  %s", what, strings.Join(got, "\n  "), strings.Join(want, "\n  "))
	}
}

func TestACP(t *testing.T) {
	s := acpSite(t)
	e := startEditor(s)
	id := e.open(s.dir)
	if c := s.all(); len(c) != 1 || !c[""].Hidden {
		t.Errorf("a new session = %+v, want one hidden conversation", c)
	}
	e.choose("allow")
	if got := e.prompt(id, acp.TextBlock("write it, see "), acp.ResourceLinkBlock("notes.md", "file://"+s.dir+"/notes.md"), acp.TextBlock(".")); got != "end_turn" {
		t.Fatalf("stop = %s\n%s", got, e.stderr)
	}
	wantLines(t, "the first turn", e.updates(), []string{
		"thought: A file, then.",
		"usage: 100000",
		`call call_1 edit pending fs_create_file a.txt: diff a.txt "hello\n"`,
		"update call_1 in_progress:",
		"update call_1 completed: a.txt: created, 6 B",
		"agent: done",
		"usage: 100000",
		"usage: 100000 0 USD",
		"title: write it, see notes.md.",
	})
	wantLines(t, "asked", e.asked, []string{"fs_create_file a.txt"})
	if b, err := os.ReadFile(filepath.Join(s.dir, "a.txt")); string(b) != "hello\n" {
		t.Errorf("a.txt = %q, %v", b, err)
	}
	if c := s.all()["write it, see notes.md."]; c.Hidden || !c.ExpiresAt.IsZero() || c.ID.String() != string(id) {
		t.Errorf("conversation = %+v", c)
	}
	for _, content := range []string{strings.Repeat("x", 2<<20), strings.Repeat(" ", 2<<20) + "; rm x"} { // a question would fold the spaces
		large := strings.Replace(acpModel, "LARGE", content, 1)
		if err := os.WriteFile(filepath.Join(s.dir, "main.toml"), []byte(large), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := e.say(id, "large"); got != "end_turn" {
			t.Errorf("large arguments: %s", got)
		}
		if got := e.updates(); !slices.ContainsFunc(got, func(line string) bool {
			return len(line) < 1<<20+300 && strings.HasSuffix(line, "[cut here: the first 1024 KiB of 2048; jp conversation print shows all]")
		}) {
			t.Error("large arguments are not cut")
		}
		if _, err := os.Stat(filepath.Join(s.dir, "large.txt")); err == nil {
			t.Fatal("a call ran that no question can show whole")
		}
	}
	if err := os.WriteFile(filepath.Join(s.dir, "main.toml"), []byte(acpModel), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := e.say(id, "loop"); got != "max_turn_requests" {
		t.Errorf("at max_turns: %s", got)
	}
	if got := e.say(id, "refuse"); got != "refusal" {
		t.Errorf("refused: %s", got)
	}
	if got := e.say(e.open(s.dir), "fail"); !strings.HasPrefix(got, "-32603 ") || !strings.Contains(got, "script") {
		t.Errorf("a provider that fails: %s", got)
	}
	blank := e.open(s.dir)
	list, err := e.ListSessions(t.Context(), acp.ListSessionsRequest{Cwd: &s.dir})
	if err != nil || len(list.Sessions) != 2 || list.Sessions[1].SessionId != id || list.Sessions[1].Cwd != s.dir || *list.Sessions[1].Title != "write it, see notes.md." {
		t.Errorf("list = %+v, %v", list, err)
	}
	e.endWell()
	blankID, err := convstore.ParseID(string(blank))
	if err != nil {
		t.Fatal(err)
	}
	if c, err := s.store.Get(t.Context(), blankID); err != nil || !c.Hidden || c.ExpiresAt.IsZero() {
		t.Errorf("a session that was asked nothing = %+v, %v; want it hidden, to expire", c, err)
	}

	// In another process.
	e = startEditor(s)
	if _, err := e.LoadSession(t.Context(), acp.LoadSessionRequest{SessionId: blank, Cwd: s.dir, McpServers: []acp.McpServer{}}); err != nil {
		t.Errorf("load of a session that was asked nothing: %v", err)
	}
	again := e.open(s.dir)
	for range 2 { // loaded before anything was asked it is as it was
		if _, err := e.LoadSession(t.Context(), acp.LoadSessionRequest{SessionId: again, Cwd: s.dir, McpServers: []acp.McpServer{}}); err != nil {
			t.Fatal(err)
		}
	}
	if got := e.say(again, "first"); got != "end_turn" {
		t.Fatal(got)
	}
	if c := s.all()["first"]; c.Hidden || !c.ExpiresAt.IsZero() || c.ID.String() != string(again) {
		t.Errorf("conversation = %+v", c)
	}
	e.updates()
	if got := e.say(id, "x"); !strings.HasPrefix(got, "-32002 ") {
		t.Errorf("a prompt of a session that is not open here: %s", got)
	}
	if _, err := e.LoadSession(t.Context(), acp.LoadSessionRequest{SessionId: id, Cwd: s.dir, McpServers: []acp.McpServer{}}); err != nil {
		t.Fatal(err)
	}
	got := e.updates()
	wantLines(t, "the history", got[:min(len(got), 6)], []string{
		"user: write it, see [notes.md](file://" + s.dir + "/notes.md).",
		"user: notes.md: remember",
		"thought: A file, then.",
		`call call_1 edit pending fs_create_file a.txt: diff a.txt "hello\n"`,
		"update call_1 completed: a.txt: created, 6 B",
		"agent: done",
	})
	if got := e.say(id, "and now?"); got != "end_turn" {
		t.Errorf("going on: %s", got)
	}
	// A first turn from a shell.
	if text, code := s.jp("query", "--id", string(blank), "from a shell"); code != 0 {
		t.Fatal(text)
	}
	if c := s.all()["from a shell"]; c.Hidden || !c.ExpiresAt.IsZero() || c.ID != blankID {
		t.Errorf("conversation = %+v", c)
	}
	if err := s.store.Edit(t.Context(), blankID, func(c *convstore.Conversation) error {
		c.ExpiresAt = c.CreatedAt
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.LoadSession(t.Context(), acp.LoadSessionRequest{SessionId: blank, Cwd: s.dir, McpServers: []acp.McpServer{}}); err != nil {
		t.Fatal(err)
	}
	e.updates()
	if got := e.say(blank, "in the editor"); got != "end_turn" {
		t.Errorf("a session that has expired: %s", got)
	}
	if got := e.updates(); !slices.ContainsFunc(got, func(line string) bool {
		return strings.Contains(line, "has expired: the next jp query elsewhere removes it")
	}) {
		t.Errorf("nobody was warned of the end of a conversation: %q", got)
	}
	e.endWell()
}

// TestACPWaitLimit: the flag holds in each session.
func TestACPWaitLimit(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{nil, "end_turn"},
		{[]string{"--wait-limit", "10ms"}, "script: quota (402): used up"},
	} {
		e := startEditor(acpSite(t), tt.args...)
		if got := e.say(e.open(e.s.dir), "later"); !strings.Contains(got, tt.want) {
			t.Errorf("jp acp %q: %s, want %s\n%s", tt.args, got, tt.want, e.stderr)
		}
		e.endWell()
	}
}

// TestACPCost: what an editor is told after a turn is what everything in it has cost, its title
// too.
func TestACPCost(t *testing.T) {
	s := newSite(t, map[string]string{
		".jp/config.toml": acpConfig + "[conversation.title]\nmodel = \"script/title.toml\"\n", "main.toml": acpModel,
		"title.toml": "[[rule]]\ntext = \"A title\"\nusage = { input = 100, output = 10 }\n",
	})
	config := filepath.Join(s.home, "config", "jp", "config.toml")
	if err := os.MkdirAll(filepath.Dir(config), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(config, []byte("[providers.llm.prices.\"script/title.toml\"]\ninput = 1000\noutput = 1000\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	e := startEditor(s)
	if got := e.say(e.open(s.dir), "hello"); got != "end_turn" {
		t.Fatalf("stop = %s\n%s", got, e.stderr)
	}
	wantLines(t, "the turn", e.updates(), []string{"agent: done", "usage: 100000", "usage: 100000 0.11 USD", "title: A title"})
	e.endWell()
}

// TestACPReplayed: what a recording answered in a session cost nothing.
func TestACPReplayed(t *testing.T) {
	s := newSite(t, map[string]string{".jp/config.toml": acpConfig, "main.toml": `
[[rule]]
query = "dear"
text = "done"
usage = { input = 100, output = 10, cost_nano = 500000000 }
[[rule]]
text = "done"
usage = { input = 100, output = 10, cost_nano = 250000000 }
`})
	if text, code := s.jp("query", "-q", "--new", "--record", "rec.toml", "dear"); code != 0 {
		t.Fatal(text)
	}
	text, code := s.jp("query", "-q", "--new", "--replay", "rec.toml", "-F", "json", "dear")
	if code != 0 {
		t.Fatal(text)
	}
	e := startEditor(s)
	id := acp.SessionId(convID.FindString(text))
	if _, err := e.LoadSession(t.Context(), acp.LoadSessionRequest{SessionId: id, Cwd: s.dir, McpServers: []acp.McpServer{}}); err != nil {
		t.Fatal(err)
	}
	e.updates()
	if got := e.say(id, "hello"); got != "end_turn" {
		t.Fatalf("stop = %s\n%s", got, e.stderr)
	}
	wantLines(t, "the turn", e.updates(), []string{"agent: done", "usage: 100000", "usage: 100000 0.25 USD"})
	e.endWell()
}

func TestACPLeave(t *testing.T) {
	for _, tt := range []struct {
		choice string
		asked  int
		files  []string
	}{
		{"allow", 2, []string{"b.txt", "c.txt"}}, {"allow-turn", 1, []string{"b.txt", "c.txt"}}, {"allow-always", 1, []string{"b.txt", "c.txt"}}, {"deny", 2, nil}, {"deny-turn", 1, nil}, {"nonsense", 2, nil},
	} {
		t.Run(tt.choice, func(t *testing.T) {
			s := acpSite(t)
			e := startEditor(s)
			id := e.open(s.dir)
			e.choose(tt.choice)
			if got := e.say(id, "twice"); got != "end_turn" {
				t.Errorf("stop = %s", got)
			}
			var files []string
			for _, name := range []string{"b.txt", "c.txt"} {
				if _, err := os.Stat(filepath.Join(s.dir, name)); err == nil {
					files = append(files, name)
				}
			}
			if tt.choice == "allow-always" { // and in the next turn
				if got := e.say(id, "twice"); got != "end_turn" {
					t.Errorf("stop = %s", got)
				}
				if out, _ := s.jp("c", "show", "recent"); !strings.Contains(out, "\nalways     run fs_create_file\n") {
					t.Errorf("show:\n%s", out)
				}
			}
			if len(e.asked) != tt.asked || !slices.Equal(files, tt.files) {
				t.Errorf("asked %q, made %q, want %d and %q", e.asked, files, tt.asked, tt.files)
			}
			why := map[string]string{"deny": "the user said no", "deny-turn": "the user said no", "nonsense": `the user said no: the client's answer is none: it chose "nonsense", which is no option`}[tt.choice]
			if all := strings.Join(e.updates(), "\n"); why != "" && strings.Count(all, "failed: error: "+why) != 2 && !strings.Contains(all, why) {
				t.Errorf("updates =\n%s", all)
			}
		})
	}
}

// TestACPOptions: what is chosen holds from the next prompt on, and is the conversation's.
func TestACPOptions(t *testing.T) {
	s := acpSite(t)
	if err := os.WriteFile(filepath.Join(s.dir, "other.toml"), []byte("[[rule]]\ntext = \"the other one\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	user := filepath.Join(s.home, "config", "jp", "config.toml")
	if err := os.MkdirAll(filepath.Dir(user), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(user, []byte("[providers.llm.aliases]\nother = \"script/other.toml\"\ngone = \"nobody/x\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	e := startEditor(s, "--model", "script/main.toml")
	r, err := e.NewSession(t.Context(), acp.NewSessionRequest{Cwd: s.dir, McpServers: []acp.McpServer{}})
	if err != nil {
		t.Fatal(err)
	}
	const rest = "none,low,medium,high; role="
	const roles = " of main,scheduled,synthesis"
	if got, want := options(r.ConfigOptions), "model=script/main.toml of script/main.toml,gone,other; reasoning=default of default,"+rest+"main"+roles; got != want {
		t.Errorf("options = %s\nwant      %s", got, want)
	}
	set := func(id, value string) string {
		r, err := e.SetSessionConfigOption(t.Context(), acp.SetSessionConfigOptionRequest{ValueId: &acp.SetSessionConfigOptionValueId{
			SessionId: r.SessionId, ConfigId: acp.SessionConfigId(id), Value: acp.SessionConfigValueId(value),
		}})
		return said(options(r.ConfigOptions), err)
	}
	for _, tt := range []struct{ id, value, want string }{
		{"model", "other", "model=other of other,gone,script/main.toml; reasoning=default of default," + rest + "main" + roles},
		{"reasoning", "default", "model=other of other,gone,script/main.toml; reasoning=default of default," + rest + "main" + roles},
		{"reasoning", "low", "model=other of other,gone,script/main.toml; reasoning=low of default," + rest + "main" + roles},
		{"reasoning", "default", "model=other of other,gone,script/main.toml; reasoning=default of default," + rest + "main" + roles},
		{"reasoning", "low", "model=other of other,gone,script/main.toml; reasoning=low of default," + rest + "main" + roles},
		{"role", "synthesis", "model=other of other,gone,script/main.toml; reasoning=low of default," + rest + "synthesis" + roles},
	} {
		if got := set(tt.id, tt.value); got != tt.want {
			t.Errorf("%s = %s: %s\nwant %s", tt.id, tt.value, got, tt.want)
		}
	}
	for _, tt := range []struct{ id, value, want string }{
		{"model", "x/y", `-32602 value: "x/y" is none of model`}, {"mode", "x", `-32602 configId: "mode" is no option`}, {"model", "gone", "-32603 "},
	} {
		if got := set(tt.id, tt.value); !strings.HasPrefix(got, tt.want) {
			t.Errorf("%s = %s: %s", tt.id, tt.value, got)
		}
	}
	if got := e.say(r.SessionId, "hello"); got != "end_turn" {
		t.Fatal(got)
	}
	if got := e.updates(); !slices.Contains(got, "agent: the other one") {
		t.Errorf("updates = %q", got)
	}
	if conv := s.all()["hello"]; conv.Role != "" {
		t.Errorf("the role is the session's, and the conversation has %q", conv.Role)
	}
	// From a shell in between: the editor is told.
	if out, code := s.jp("query", "--id", string(r.SessionId), "--model", "script/main.toml", "and you?"); code != 0 {
		t.Fatal(out)
	}
	e.choose("allow")
	if got := e.say(r.SessionId, "write"); got != "end_turn" {
		t.Fatal(got)
	}
	if _, err := os.Stat(filepath.Join(s.dir, "a.txt")); err == nil {
		t.Error("a file was written by an agent that may only read")
	}
	got := e.updates()
	if want := "options: model=script/main.toml of script/main.toml,gone,other; reasoning=low of " + rest + "synthesis" + roles; !slices.Contains(got, want) || !slices.Contains(got, "agent: done") {
		t.Errorf("updates = %q, want %q among them", got, want)
	}
}

// TestACPCancel: what is cancelled is stopped with everything below it, and the session goes on.
func TestACPCancel(t *testing.T) {
	s := killSite(t)
	e := startEditor(s)
	id := e.open(s.dir)
	ended := make(chan string, 1)
	go func() { ended <- e.say(id, "child") }()
	s.loose()
	s.eventually("the sub-agent to be shown", func() bool {
		e.mu.Lock()
		defer e.mu.Unlock()
		return slices.ContainsFunc(e.seen, func(line string) bool {
			return strings.HasPrefix(line, "update call_1: - agent/child ID: running escape (") && strings.HasSuffix(line, " tokens)")
		})
	})
	if got := e.say(id, "and this?"); !strings.HasPrefix(got, "-32600 ") {
		t.Errorf("a second prompt: %s", got)
	}
	if err := e.Cancel(t.Context(), acp.CancelNotification{SessionId: id}); err != nil {
		t.Fatal(err)
	}
	if got := <-ended; got != "cancelled" {
		t.Errorf("stop = %s", got)
	}
	if p := s.running("sleep 1000."); len(p) != 0 {
		t.Errorf("left when the prompt had ended: %v", p)
	}
	if c := s.all(); c["escape"].Status != "cancelled" || c["child"].Status != "cancelled" {
		t.Errorf("escape = %s, child = %s, want both cancelled", c["escape"].Status, c["child"].Status)
	}
	if got := e.say(id, "quick"); got != "end_turn" {
		t.Errorf("after that: %s", got)
	}

	// The sub-conversation is one that can be taken up, and what it is asked is a delegation of its
	// caller's.
	child := acp.SessionId(s.all()["quick one"].ID.String())
	if _, err := e.ResumeSession(t.Context(), acp.ResumeSessionRequest{SessionId: child, Cwd: s.dir}); err != nil {
		t.Fatal(err)
	}
	if got := e.say(child, "quick again"); got != "end_turn" {
		t.Errorf("the sub-conversation: %s", got)
	}
	if ds, err := s.store.Delegations(t.Context(), s.all()["child"].ID); err != nil || len(ds) != 3 || ds[2].State != "ok" {
		t.Errorf("delegations = %s, %v", dump(ds), err)
	}

	// session/close cancels, too.
	go func() { ended <- e.say(id, "root") }()
	s.loose()
	if out, code := s.jp("query", "--id", string(id), "and this?"); code != 5 {
		t.Errorf("from a shell meanwhile: %d %s", code, out)
	}
	if _, err := e.CloseSession(t.Context(), acp.CloseSessionRequest{SessionId: id}); err != nil {
		t.Error(err)
	}
	if p := s.running("sleep 1000."); len(p) != 0 {
		t.Errorf("left when the session was closed: %v", p)
	}
	if got := <-ended; got != "cancelled" {
		t.Errorf("stop = %s", got)
	}
	if got := e.say(id, "quick"); !strings.HasPrefix(got, "-32002 ") {
		t.Errorf("a closed session: %s", got)
	}
	e.endWell()
}

// TestACPCancelQuestion: a question that is not answered does not keep a turn from being cancelled.
func TestACPCancelQuestion(t *testing.T) {
	s := acpSite(t)
	e := startEditor(s)
	id := e.open(s.dir)
	e.answer = func(acp.RequestPermissionRequest) (acp.RequestPermissionResponse, error) {
		if err := e.Cancel(context.Background(), acp.CancelNotification{SessionId: id}); err != nil {
			t.Error(err)
		}
		return acp.RequestPermissionResponse{Outcome: acp.NewRequestPermissionOutcomeCancelled()}, nil
	}
	if got := e.say(id, "write"); got != "cancelled" {
		t.Errorf("stop = %s", got)
	}
	if _, err := os.Stat(filepath.Join(s.dir, "a.txt")); err == nil {
		t.Error("the file was made")
	}
	if got := s.all()["write"].Status; got != "cancelled" {
		t.Errorf("status = %s", got)
	}
	e.endWell()
}

// TestACPGone: a client that goes, or a signal, takes along what runs, in all sessions.
func TestACPGone(t *testing.T) {
	for _, tt := range []struct {
		name string
		end  func(e *editor) error
		want int
	}{
		{"stdin", func(e *editor) error { return e.stdin.Close() }, 0},
		{"SIGTERM", func(e *editor) error { return e.cmd.Process.Signal(syscall.SIGTERM) }, 143},
		{"SIGINT", func(e *editor) error { return e.cmd.Process.Signal(syscall.SIGINT) }, 130},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := killSite(t)
			e := startEditor(s)
			for _, text := range []string{"child", "root"} {
				id := e.open(s.dir)
				go func() { _ = e.say(id, text) }()
			}
			s.eventually("the tools' processes", func() bool { return len(s.running("sleep 1000.")) == 8 })
			if err := tt.end(e); err != nil {
				t.Fatal(err)
			}
			_ = e.cmd.Wait()
			if got := e.cmd.ProcessState.ExitCode(); got != tt.want {
				t.Errorf("exit = %d, want %d\n%s", got, tt.want, e.stderr)
			}
			if p := s.processes(); len(p) != 0 {
				t.Errorf("left when jp had ended: %v", p)
			}
			for title, c := range s.all() {
				if c.Status != "cancelled" {
					t.Errorf("%s = %s, want cancelled", title, c.Status)
				}
			}
		})
	}
}

// TestACPBeside: the end of one session's turn ends nothing of another's.
func TestACPBeside(t *testing.T) {
	s := killSite(t)
	e := startEditor(s)
	busy, other := e.open(s.dir), e.open(s.dir)
	ended := make(chan string, 1)
	go func() { ended <- e.say(busy, "child") }()
	s.loose()
	before := s.running("sleep 1000.")
	for range 3 {
		if got := e.say(other, "quick"); got != "end_turn" {
			t.Fatal(got)
		}
	}
	if _, err := e.CloseSession(t.Context(), acp.CloseSessionRequest{SessionId: other}); err != nil {
		t.Error(err)
	}
	if after := s.running("sleep 1000."); !slices.Equal(after, before) {
		t.Errorf("of %v still run %v", before, after)
	}
	if err := e.Cancel(t.Context(), acp.CancelNotification{SessionId: busy}); err != nil {
		t.Error(err)
	}
	if got := <-ended; got != "cancelled" {
		t.Errorf("stop = %s", got)
	}
	e.endWell()
}

// TestACPKilled: kill -9 leaves nothing running either, and the conversation goes on in another
// editor.
func TestACPKilled(t *testing.T) {
	s := killSite(t)
	e := startEditor(s)
	id := e.open(s.dir)
	ended := make(chan string, 1)
	go func() { ended <- e.say(id, "child") }()
	s.loose()
	if err := e.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = e.cmd.Wait()
	<-ended
	s.gone()
	if got := s.all()["child"].Status; got != "interrupted" {
		t.Errorf("status = %s, want interrupted", got)
	}
	e = startEditor(s)
	if _, err := e.LoadSession(t.Context(), acp.LoadSessionRequest{SessionId: id, Cwd: s.dir, McpServers: []acp.McpServer{}}); err != nil {
		t.Fatal(err)
	}
	if got := e.updates(); got[0] != "user: child" || !slices.Contains(got, "update call_1 failed:") {
		t.Errorf("the history = %q", got)
	}
	if got := e.say(id, "quick"); got != "end_turn" {
		t.Errorf("going on: %s", got)
	}
	e.endWell()
}

// TestACPDeaf: a client that closes its end of stdout is one that is gone.
func TestACPDeaf(t *testing.T) {
	s := killSite(t)
	w := startWire(s, nil)
	say := func(format string, args ...any) {
		if _, err := fmt.Fprintf(w.in, format+"\n", args...); err != nil {
			t.Fatal(err)
		}
	}
	say(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}`)
	say(`{"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":%q,"mcpServers":[]}}`, s.dir)
	var id string
	for id == "" {
		line, err := w.out.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		id = convID.FindString(line)
	}
	say(`{"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{"sessionId":%q,"prompt":[{"type":"text","text":"root"}]}}`, id)
	s.loose()
	w.stdout.Close()
	say(`{"jsonrpc":"2.0","id":4,"method":"session/list","params":{}}`)
	_ = w.cmd.Wait()
	if got := w.cmd.ProcessState.ExitCode(); got != 141 {
		t.Errorf("exit = %d, want 141", got)
	}
	if p := s.processes(); len(p) != 0 {
		t.Errorf("left when jp had ended: %v", p)
	}
}

// TestACPHostile sends what no client should, and looks at every byte that comes back.
func TestACPHostile(t *testing.T) {
	s := acpSite(t)
	other := filepath.Join(s.home, "other")
	for _, dir := range []string{other + "/.jp", other + "/sub"} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if out, code := s.jp("query", "--new", "--title", "mine", "hi"); code != 0 {
		t.Fatal(out)
	}
	mine := s.all()["mine"].ID.String()
	w := startWire(s, nil)
	initialize := `{"jsonrpc":"2.0","id":"i","method":"initialize","params":{"protocolVersion":7}}`
	session := func(method, rest string) string {
		return `{"jsonrpc":"2.0","id":1,"method":"session/` + method + `","params":{` + rest + `}}`
	}
	for _, tt := range []struct{ in, want string }{
		{`x`, `null -32700 the line is no JSON`},
		{`[]`, `null -32600 a batch of requests is not taken: send one message a line`},
		{`7`, `null -32600 a message is a JSON object`},
		{`{"id":1,"method":"session/list"}`, `1 -32600 jsonrpc: want "2.0"`},
		{`{"jsonrpc":"2.0","id":{},"method":"x"}`, `null -32600 id: want a string of at most 256 bytes or a whole number`},
		{`{"jsonrpc":"2.0","id":null,"method":"x"}`, `null -32600 id: want a string of at most 256 bytes or a whole number`},
		{`{"jsonrpc":"2.0","id":1.5,"method":"x"}`, `null -32600 id: want a string of at most 256 bytes or a whole number`},
		{`{"jsonrpc":"2.0"}`, `null -32600 neither a method nor an id`},
		{`{"jsonrpc":"2.0","id":1,"method":7}`, `null -32600 no message of JSON-RPC: method: want a string, not a number`},
		{strings.Repeat("x", 33<<20), `null -32600 a message is longer than 32 MiB`},
		{session("list", ""), `1 -32600 session/list: initialize comes first`},
		{`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{}}`, `1 -32602 protocolVersion: is missing`},
		{initialize, `"i" ok`},
		{initialize, `"i" -32600 initialize: was done`},
		{`{"jsonrpc":"2.0","id":1,"method":"authenticate","params":{"methodId":"x"}}`,
			`1 -32602 authenticate: there is no method of authentication: jp has its keys from its environment and its own config`},
		{`{"jsonrpc":"2.0","id":1,"method":"fs/read_text_file","params":{}}`, `1 -32601 method "fs/read_text_file": is not known`},
		{`{"jsonrpc":"2.0","id":1,"method":"_x"}`, `1 -32601 method "_x": is not known`},
		{`{"jsonrpc":"2.0","method":"session/nothing"}` + "\n" + session("new", ""), `1 -32602 cwd: is missing`},
		{`{"jsonrpc":"2.0","id":99,"result":{}}` + "\n" + session("new", `"cwd":"work"`), `1 -32602 cwd: "work" is not an absolute path`},
		{session("new", `"cwd":7`), `1 -32602 params: cwd: want a string, not a number`},
		{session("new", fmt.Sprintf(`"cwd":%q`, other+"/none")), `1 -32602 cwd: ` + other + `/none: no such file or directory`},
		{session("new", fmt.Sprintf(`"cwd":%q,"mcpServers":[{"name":"x","command":"x","args":[%q]}]`, s.dir, strings.Repeat("x", 1<<20))), `1 -32602 mcpServers: more than 256 KiB`},
		{session("new", `"cwd":"/"`), `1 -32603 folder /: no workspace here or above`},
		{session("new", `"cwd":"/","additionalDirectories":["/"]`), `1 -32602 additionalDirectories: a session has one folder, cwd`},
		{session("load", fmt.Sprintf(`"cwd":%q,"sessionId":%q`, other+"/sub", mine)), `1 -32002 conversation ` + mine + `: not found`},
		{session("load", fmt.Sprintf(`"cwd":%q,"sessionId":"../x"`, s.dir)), `1 -32002 conversation "../x": not found`},
		{session("prompt", `"sessionId":"`+mine+`","prompt":[]`), `1 -32002 session "` + mine + `": is not open here; session/new begins one, session/load takes one up`},
		{session("close", `"sessionId":"x"`), `1 -32002 session "x": is not open here; session/new begins one, session/load takes one up`},
		{session("resume", fmt.Sprintf(`"cwd":%q,"sessionId":%q`, s.dir, mine)), `1 ok`},
		{session("prompt", `"sessionId":"`+mine+`","prompt":[]`), `1 -32602 prompt: is empty`},
		{session("prompt", `"sessionId":"`+mine+`","prompt":[{"type":"audio","data":""}]`), `1 -32602 prompt[0]: audio is not supported`},
		{session("prompt", `"sessionId":"`+mine+`","prompt":[{"type":"text","text":"\u0000"}]`), `1 -32602 query: holds a NUL byte`},
		{session("list", `"cursor":"-1"`), `1 -32602 cursor: does not belong to this list`},
		{session("cancel", `"sessionId":"`+mine+`"`), `1 ok`},
		{session("close", `"sessionId":"`+mine+`"`), `1 ok`},
	} {
		t.Run(strings.ToValidUTF8(tt.in[:min(len(tt.in), 80)], ""), func(t *testing.T) {
			if got := w.ask(t, tt.in); got != tt.want {
				t.Errorf("answer = %s\nwant     %s", got, tt.want)
			}
		})
	}

	// Two requests under one id: the second is refused under none, the first is answered.
	if got := w.ask(t, session("resume", fmt.Sprintf(`"cwd":%q,"sessionId":%q`, s.dir, mine))); got != "1 ok" {
		t.Fatal(got)
	}
	stall := `{"jsonrpc":"2.0","id":5,"method":"session/prompt","params":{"sessionId":"` + mine + `","prompt":[{"type":"text","text":"stall"}]}}`
	if got := w.ask(t, stall+"\n"+stall); got != "null -32600 id 5: a request with this id is under way" {
		t.Errorf("answer = %s", got)
	}
	if got := w.ask(t, `{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"`+mine+`"}}`); got != "5 ok" {
		t.Errorf("answer = %s", got)
	}
	_ = w.in.Close()
	if err := w.cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// TestACPSlot: between its prompts a session holds no slot of the tree that its conversation
// belongs to.
func TestACPSlot(t *testing.T) {
	const delegates = "[conversation.tools.jp_query]\nrun = \"unattended\"\n[delegation]\nmax_parallel = 1\nmax_depth = 2\nprofiles = [\"agent/child\"]\n"
	s := newSite(t, map[string]string{
		".jp/config.toml":             "[assistant]\nmodel = \"script/main.toml\"\n" + delegates,
		".jp/config/agent/child.toml": "[loader]\nreset = \"none\"\n[assistant]\nmodel = \"script/child.toml\"\n" + delegates,
		"main.toml":                   "[[rule]]\nround = 1\ntool_calls = [{ name = \"jp_query\", arguments = { config = \"agent/child\", query = \"task\" } }]\n[[rule]]\ntext = \"done\"\n",
		"child.toml": "[[rule]]\nquery = \"further\"\nround = 1\ntool_calls = [{ name = \"jp_query\", arguments = { config = \"agent/child\", query = \"task\" } }]\n" +
			"[[rule]]\ntext = \"here\"\n",
	})
	if out, code := s.jp("query", "--new", "root"); code != 0 {
		t.Fatal(out)
	}
	root, child := s.all()["root"].ID, s.all()["task"].ID
	e := startEditor(s)
	if _, err := e.LoadSession(t.Context(), acp.LoadSessionRequest{SessionId: acp.SessionId(child.String()), Cwd: s.dir, McpServers: []acp.McpServer{}}); err != nil {
		t.Fatal(err)
	}
	below, err := s.store.Below(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"one", "further", "two"} { // the second gives its slot away and takes one again
		if got := e.say(acp.SessionId(child.String()), text); got != "end_turn" {
			t.Fatalf("%s: %s", text, got)
		}
		ctx, cancel := context.WithCancel(t.Context())
		slot, err := below.Slots(root, 1).Take(ctx, cancel)
		if err != nil {
			t.Fatalf("after %s the slot is taken", text)
		}
		_ = slot.Release()
		cancel()
	}
	e.endWell()
}
