package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/coder/acp-go-sdk"
)

// editor is a client of the protocol's SDK with a `jp acp` of its own.
type editor struct {
	*acp.ClientSideConnection
	s      *site
	cmd    *exec.Cmd
	stdin  io.Closer
	stderr *bytes.Buffer

	mu     sync.Mutex
	seen   []string // updates, one line each
	asked  []string // for leave
	answer func(acp.RequestPermissionRequest) (acp.RequestPermissionResponse, error)
}

func startEditor(s *site, args ...string) *editor {
	s.t.Helper()
	e := &editor{s: s, stderr: &bytes.Buffer{}}
	e.cmd = &exec.Cmd{Path: "/proc/self/exe", Args: append([]string{"jp", "acp"}, args...), Dir: s.home, Env: s.environ(), Stderr: e.stderr}
	in, err := e.cmd.StdinPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	out, err := e.cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := e.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	e.stdin = in
	e.ClientSideConnection = acp.NewClientSideConnection(e, in, out)
	e.SetLogger(slog.New(slog.DiscardHandler))
	s.t.Cleanup(func() {
		if e.cmd.ProcessState == nil {
			_ = e.cmd.Process.Kill()
			_ = e.cmd.Wait()
		}
	})
	r, err := e.Initialize(s.t.Context(), acp.InitializeRequest{ProtocolVersion: 1})
	if err != nil || r.ProtocolVersion != 1 || !r.AgentCapabilities.LoadSession {
		s.t.Fatalf("initialize = %+v, %v", r, err)
	}
	return e
}

// end closes the client's side, and returns jp's exit status.
func (e *editor) end() int {
	_ = e.stdin.Close()
	_ = e.cmd.Wait()
	return e.cmd.ProcessState.ExitCode()
}

func (e *editor) open(dir string, servers ...acp.McpServer) acp.SessionId {
	e.s.t.Helper()
	r, err := e.NewSession(e.s.t.Context(), acp.NewSessionRequest{Cwd: dir, McpServers: append([]acp.McpServer{}, servers...)})
	if err != nil {
		e.s.t.Fatal(err)
	}
	return r.SessionId
}

// prompt asks and returns the stop reason, or the error's message.
func (e *editor) prompt(id acp.SessionId, blocks ...acp.ContentBlock) string {
	r, err := e.Prompt(e.s.t.Context(), acp.PromptRequest{SessionId: id, Prompt: blocks})
	return said(string(r.StopReason), err)
}

func (e *editor) say(id acp.SessionId, text string) string { return e.prompt(id, acp.TextBlock(text)) }

// said is text, or what an error says.
func said(text string, err error) string {
	var r *acp.RequestError
	switch {
	case err == nil:
		return text
	case errors.As(err, &r):
		return fmt.Sprintf("%d %s", r.Code, r.Message)
	}
	return err.Error()
}

// updates returns what came in since the last time.
func (e *editor) updates() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	list := e.seen
	e.seen = nil
	return list
}

var convID = regexp.MustCompile(`jp-c\d+`)

// SessionUpdate keeps an update as a line.
func (e *editor) SessionUpdate(_ context.Context, n acp.SessionNotification) error {
	u := n.Update
	block := func(b acp.ContentBlock) string {
		switch {
		case b.Text != nil:
			return b.Text.Text
		case b.Image != nil:
			return "image " + b.Image.MimeType
		case b.Resource != nil && b.Resource.Resource.TextResourceContents != nil:
			r := b.Resource.Resource.TextResourceContents
			return filepath.Base(r.Uri) + ": " + r.Text
		}
		return "?"
	}
	content := func(list []acp.ToolCallContent) string {
		var parts []string
		for _, c := range list {
			if c.Diff != nil {
				parts = append(parts, fmt.Sprintf("diff %s %q", filepath.Base(c.Diff.Path), c.Diff.NewText))
			} else {
				parts = append(parts, block(c.Content.Content))
			}
		}
		return strings.Join(parts, "|")
	}
	var line string
	switch {
	case u.UserMessageChunk != nil:
		line = "user: " + block(u.UserMessageChunk.Content)
	case u.AgentMessageChunk != nil:
		line = "agent: " + block(u.AgentMessageChunk.Content)
	case u.AgentThoughtChunk != nil:
		line = "thought: " + block(u.AgentThoughtChunk.Content)
	case u.ToolCall != nil:
		line = fmt.Sprintf("call %s %s %s %s: %s", u.ToolCall.ToolCallId, u.ToolCall.Kind, u.ToolCall.Status, u.ToolCall.Title, content(u.ToolCall.Content))
	case u.ToolCallUpdate != nil:
		status := ""
		if s := u.ToolCallUpdate.Status; s != nil {
			status = " " + string(*s)
		}
		line = fmt.Sprintf("update %s%s: %s", u.ToolCallUpdate.ToolCallId, status, content(u.ToolCallUpdate.Content))
	case u.SessionInfoUpdate != nil:
		line = "title: " + *u.SessionInfoUpdate.Title
	default:
		line = "?"
	}
	line = strings.TrimSpace(convID.ReplaceAllString(line, "ID"))
	e.mu.Lock()
	e.seen = append(e.seen, line)
	e.mu.Unlock()
	return nil
}

// RequestPermission answers as the test says.
func (e *editor) RequestPermission(_ context.Context, r acp.RequestPermissionRequest) (acp.RequestPermissionResponse, error) {
	e.mu.Lock()
	e.asked = append(e.asked, *r.ToolCall.Title)
	answer := e.answer
	e.mu.Unlock()
	return answer(r)
}

// choose answers every question with an option of this id.
func (e *editor) choose(id string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.answer = func(acp.RequestPermissionRequest) (acp.RequestPermissionResponse, error) {
		return acp.RequestPermissionResponse{Outcome: acp.NewRequestPermissionOutcomeSelected(acp.PermissionOptionId(id))}, nil
	}
}

// What the client could do and is not asked to.

func (e *editor) ReadTextFile(context.Context, acp.ReadTextFileRequest) (r acp.ReadTextFileResponse, err error) {
	return r, errors.New("not asked for")
}
func (e *editor) WriteTextFile(context.Context, acp.WriteTextFileRequest) (r acp.WriteTextFileResponse, err error) {
	return r, errors.New("not asked for")
}
func (e *editor) CreateTerminal(context.Context, acp.CreateTerminalRequest) (r acp.CreateTerminalResponse, err error) {
	return r, errors.New("not asked for")
}
func (e *editor) KillTerminal(context.Context, acp.KillTerminalRequest) (r acp.KillTerminalResponse, err error) {
	return r, errors.New("not asked for")
}
func (e *editor) TerminalOutput(context.Context, acp.TerminalOutputRequest) (r acp.TerminalOutputResponse, err error) {
	return r, errors.New("not asked for")
}
func (e *editor) ReleaseTerminal(context.Context, acp.ReleaseTerminalRequest) (r acp.ReleaseTerminalResponse, err error) {
	return r, errors.New("not asked for")
}
func (e *editor) WaitForTerminalExit(context.Context, acp.WaitForTerminalExitRequest) (r acp.WaitForTerminalExitResponse, err error) {
	return r, errors.New("not asked for")
}

const acpConfig = `
[assistant]
model = "script/main.toml"
[conversation]
max_turns = 2
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
		`call call_1 edit pending fs_create_file a.txt: diff a.txt "hello\n"`,
		"update call_1 in_progress:",
		"update call_1 completed: a.txt: created, 6 B",
		"agent: done",
		"title: write it, see notes.md.",
	})
	wantLines(t, "asked", e.asked, []string{"fs_create_file a.txt"})
	if b, err := os.ReadFile(filepath.Join(s.dir, "a.txt")); string(b) != "hello\n" {
		t.Errorf("a.txt = %q, %v", b, err)
	}
	if c := s.all()["write it, see notes.md."]; c.Hidden || !c.ExpiresAt.IsZero() || c.ID.String() != string(id) {
		t.Errorf("conversation = %+v", c)
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
	if got := e.end(); got != 0 {
		t.Errorf("exit = %d\n%s", got, e.stderr)
	}
	for _, c := range s.all() {
		if c.ID.String() == string(blank) {
			t.Errorf("a session that was asked nothing is left: %+v", c)
		}
	}

	// In another process.
	e = startEditor(s)
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
	if got := e.end(); got != 0 {
		t.Errorf("exit = %d\n%s", got, e.stderr)
	}
}

func TestACPLeave(t *testing.T) {
	for _, tt := range []struct {
		choice string
		asked  int
		files  []string
	}{
		{"allow", 2, []string{"b.txt", "c.txt"}}, {"allow-turn", 1, []string{"b.txt", "c.txt"}}, {"deny", 2, nil}, {"deny-turn", 1, nil}, {"nonsense", 2, nil},
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
			if len(e.asked) != tt.asked || !slices.Equal(files, tt.files) {
				t.Errorf("asked %q, made %q, want %d and %q", e.asked, files, tt.asked, tt.files)
			}
			why := map[string]string{"deny": "the user said no", "deny-turn": "the user said no", "nonsense": `nobody can answer, and detached.run is "deny"`}[tt.choice]
			if all := strings.Join(e.updates(), "\n"); why != "" && strings.Count(all, "failed: error: "+why) != 2 && !strings.Contains(all, why) {
				t.Errorf("updates =\n%s", all)
			}
		})
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
		return slices.Contains(e.seen, "update call_1: - agent/child ID: running escape")
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
	if got := e.end(); got != 0 {
		t.Errorf("exit = %d\n%s", got, e.stderr)
	}
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

// TestACPDeaf: a client that closes its end of stdout is one that is gone.
func TestACPDeaf(t *testing.T) {
	s := killSite(t)
	cmd := &exec.Cmd{Path: "/proc/self/exe", Args: []string{"jp", "acp"}, Dir: s.home, Env: s.environ()}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	say := func(format string, args ...any) {
		if _, err := fmt.Fprintf(in, format+"\n", args...); err != nil {
			t.Fatal(err)
		}
	}
	say(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}`)
	say(`{"jsonrpc":"2.0","id":2,"method":"session/new","params":{"cwd":%q,"mcpServers":[]}}`, s.dir)
	lines := bufio.NewReader(out)
	var id string
	for id == "" {
		line, err := lines.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		id = convID.FindString(line)
	}
	say(`{"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{"sessionId":%q,"prompt":[{"type":"text","text":"root"}]}}`, id)
	s.loose()
	out.Close()
	say(`{"jsonrpc":"2.0","id":4,"method":"session/list","params":{}}`)
	_ = cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != 141 {
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
	w := newWire(s)
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
		{`{"jsonrpc":"2.0","id":1,"method":7}`, `null -32600 no message of JSON-RPC: json: cannot unmarshal number into Go struct field message.method of type string`},
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
		{session("new", `"cwd":7`), `1 -32602 params: cannot unmarshal number into Go struct field Setup.cwd of type string`},
		{session("new", `"cwd":"/nonexistent"`), `1 -32602 cwd: /nonexistent: no such file or directory`},
		{session("new", `"cwd":"/"`), `1 -32603 folder /: no workspace here or above`},
		{session("new", `"cwd":"/","additionalDirectories":["/"]`), `1 -32602 additionalDirectories: a session has one folder, cwd`},
		{session("load", fmt.Sprintf(`"cwd":%q,"sessionId":%q`, other+"/sub", mine)), `1 -32002 conversation ` + mine + `: not found`},
		{session("load", fmt.Sprintf(`"cwd":%q,"sessionId":"../x"`, s.dir)), `1 -32002 conversation "../x": not found`},
		{session("prompt", `"sessionId":"`+mine+`","prompt":[]`), `1 -32002 session "` + mine + `": is not open here; session/new begins one, session/load takes one up`},
		{session("close", `"sessionId":"x"`), `1 -32002 session "x": is not open here; session/new begins one, session/load takes one up`},
		{session("resume", fmt.Sprintf(`"cwd":%q,"sessionId":%q`, s.dir, mine)), `1 ok`},
		{session("prompt", `"sessionId":"`+mine+`","prompt":[]`), `1 -32602 prompt: is empty`},
		{session("prompt", `"sessionId":"`+mine+`","prompt":[{"type":"audio","data":""}]`), `1 -32602 prompt[0]: audio is not taken`},
		{session("prompt", `"sessionId":"`+mine+`","prompt":[{"type":"text","text":"\u0000"}]`), `1 -32602 query: holds a NUL byte`},
		{session("list", `"cursor":"-1"`), `1 -32602 cursor: is not one of this list`},
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
	s2 := fmt.Sprintf(`{"jsonrpc":"2.0","id":5,"method":"session/new","params":{"cwd":%q}}`, s.dir)
	if got := []string{w.ask(t, s2+"\n"+s2), w.read(t)}; !slices.Contains(got, "null -32600 id 5: a request with this id is under way") || !slices.Contains(got, "5 ok") {
		t.Errorf("answers = %q", got)
	}
	_ = w.in.Close()
	if err := w.cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// wire is a `jp acp` whose lines the test writes and reads itself.
type wire struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func newWire(s *site) *wire {
	s.t.Helper()
	w := &wire{cmd: &exec.Cmd{Path: "/proc/self/exe", Args: []string{"jp", "acp"}, Dir: s.home, Env: s.environ()}}
	in, err := w.cmd.StdinPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := w.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if w.cmd.ProcessState == nil {
			_ = w.cmd.Process.Kill()
			_ = w.cmd.Wait()
		}
	})
	w.in, w.out = in, bufio.NewReader(out)
	return w
}

// ask writes a line and returns the answer: its id, then ok, or code and the first line of the message.
func (w *wire) ask(t *testing.T, line string) string {
	t.Helper()
	if _, err := io.WriteString(w.in, line+"\n"); err != nil {
		t.Fatal(err)
	}
	return w.read(t)
}

func (w *wire) read(t *testing.T) string {
	t.Helper()
	line, err := w.out.ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	var m struct {
		Version string          `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Result  json.RawMessage `json:"result"`
		Error   *struct {
			Code    int    `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	if err := json.Unmarshal(line, &m); err != nil || m.Version != "2.0" || (m.Result == nil) == (m.Error == nil) {
		t.Fatalf("%v: %s", err, line)
	}
	if m.Error == nil {
		return string(m.ID) + " ok"
	}
	text, _, _ := strings.Cut(m.Error.Message, "\n")
	return fmt.Sprintf("%s %d %s", m.ID, m.Error.Code, text)
}
