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
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
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
	names  []string // of the options
	answer func(acp.RequestPermissionRequest) (acp.RequestPermissionResponse, error)
	form   func(acp.UnstableCreateElicitationForm) acp.UnstableCreateElicitationResponse
}

func startEditor(s *site, args ...string) *editor {
	s.t.Helper()
	return startEditorThat(s, acp.ClientCapabilities{}, args...)
}

// startEditorThat starts an editor that says what it can do.
func startEditorThat(s *site, can acp.ClientCapabilities, args ...string) *editor {
	s.t.Helper()
	e := &editor{s: s, stderr: &bytes.Buffer{}}
	w := startWire(s, e.stderr, args...)
	e.cmd, e.stdin = w.cmd, w.in
	e.ClientSideConnection = acp.NewClientSideConnection(e, w.in, w.out)
	e.SetLogger(slog.New(slog.DiscardHandler))
	r, err := e.Initialize(s.t.Context(), acp.InitializeRequest{ProtocolVersion: 1, ClientCapabilities: can})
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

// endWell does that, and jp must have gone on until then.
func (e *editor) endWell() {
	e.s.t.Helper()
	if got := e.end(); got != 0 {
		e.s.t.Errorf("exit = %d\n%s", got, e.stderr)
	}
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

// unfenced returns what is in a code block of Markdown, and says of another text that it is in none.
func unfenced(text string) string {
	fence := text[:len(text)-len(strings.TrimLeft(text, "`"))]
	inner, opened := strings.CutPrefix(text, fence+"\n")
	inner, closed := strings.CutSuffix(inner, "\n"+fence)
	if len(fence) < 3 || !opened || !closed || strings.Contains(inner, fence) {
		return "no code block: " + text
	}
	return inner
}

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
				parts = append(parts, unfenced(block(c.Content.Content)))
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
	case u.UsageUpdate != nil:
		line = fmt.Sprintf("usage: %d", u.UsageUpdate.Size)
		if c := u.UsageUpdate.Cost; c != nil {
			line += fmt.Sprintf(" %v %s", c.Amount, c.Currency)
		}
	case u.ConfigOptionUpdate != nil:
		line = "options: " + options(u.ConfigOptionUpdate.ConfigOptions)
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
	for _, o := range r.Options {
		e.names = append(e.names, o.Name)
	}
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

// UnstableCreateElicitation fills a form in as the test says. It is stable by now.
func (e *editor) UnstableCreateElicitation(_ context.Context, r acp.UnstableCreateElicitationRequest) (acp.UnstableCreateElicitationResponse, error) {
	return e.form(*r.Form), nil
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

// options are what can be chosen, in a line.
func options(list []acp.SessionConfigOption) string {
	var parts []string
	for _, o := range list {
		var values []string
		for _, v := range *o.Select.Options.Ungrouped {
			values = append(values, string(v.Value))
		}
		parts = append(parts, fmt.Sprintf("%s=%s of %s", o.Select.Id, o.Select.CurrentValue, strings.Join(values, ",")))
	}
	return strings.Join(parts, "; ")
}

// acpLines is a `jp acp` whose lines the test writes and reads itself.
type acpLines struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stdout io.Closer // what out reads
}

// startWire starts one; stderr may be nil.
func startWire(s *site, stderr io.Writer, args ...string) *acpLines {
	s.t.Helper()
	cmd := &exec.Cmd{Path: "/proc/self/exe", Args: append([]string{"jp", "acp"}, args...), Dir: s.home, Env: s.environ(), Stderr: stderr}
	in, err := cmd.StdinPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	return &acpLines{cmd, in, bufio.NewReader(out), out}
}

// ask writes a line and returns the answer: its id, then ok, or code and the first line of the
// message.
func (w *acpLines) ask(t *testing.T, line string) string {
	t.Helper()
	if _, err := io.WriteString(w.in, line+"\n"); err != nil {
		t.Fatal(err)
	}
	return w.read(t)
}

func (w *acpLines) read(t *testing.T) string {
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
