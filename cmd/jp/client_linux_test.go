package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// clientRun is jp query with a client that keeps stdin open, as the SDKs of other agents do.
type clientRun struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	said  bytes.Buffer // its stderr, to be read after end
	out   *os.File     // its stdout
	lines *bufio.Scanner
}

func (s *site) clientRun(args ...string) *clientRun {
	s.t.Helper()
	argv := append([]string{"jp", "query", "--output-format", "stream-json", "--verbose", "--input-format", "stream-json"}, args...)
	c := &clientRun{t: s.t, cmd: &exec.Cmd{Path: "/proc/self/exe", Args: argv, Dir: s.dir, Env: s.environ()}}
	var err error
	if c.in, err = c.cmd.StdinPipe(); err != nil {
		s.t.Fatal(err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	c.out = out.(*os.File)
	c.lines = bufio.NewScanner(out)
	c.lines.Buffer(nil, 1<<20)
	c.cmd.Stderr = &c.said
	if err := c.cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = c.cmd.Process.Kill() })
	return c
}

func (c *clientRun) send(lines ...string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, strings.Join(lines, "\n")+"\n"); err != nil {
		c.t.Fatal(err)
	}
}

// say sends a message.
func (c *clientRun) say(text string) {
	c.t.Helper()
	c.send(`{"type":"user","uuid":"` + text + `","message":{"role":"user","content":"` + text + `"},"parent_tool_use_id":null}`)
}

// until reads lines up to one of one of the types and returns it.
func (c *clientRun) until(kinds ...string) object {
	c.t.Helper()
	for c.lines.Scan() {
		var o object
		if err := json.Unmarshal(c.lines.Bytes(), &o); err != nil {
			c.t.Fatalf("%s: %v", c.lines.Bytes(), err)
		}
		if kind, _ := o["type"].(string); slices.Contains(kinds, kind) {
			return o
		}
	}
	c.t.Fatalf("no line of type %s came: %v", kinds, c.lines.Err())
	return nil
}

// answer reads up to the answer to a control request: its response, and the error that stands there
// for one.
func (c *clientRun) answer(id string) (response object, failed string) {
	c.t.Helper()
	r := object(need[map[string]any](c.until("control_response"), "response"))
	if need[string](r, "request_id") != id {
		c.t.Fatalf("an answer to %v came, want one to %s", r["request_id"], id)
	}
	if need[string](r, "subtype") == "error" {
		return nil, need[string](r, "error")
	}
	return need[map[string]any](r, "response"), ""
}

// end closes stdin, reads what is left and returns the exit status.
func (c *clientRun) end() int {
	c.t.Helper()
	_ = c.in.Close()
	for c.lines.Scan() {
		c.t.Errorf("behind the last result came %s", c.lines.Text())
	}
	_ = c.cmd.Wait()
	return c.cmd.ProcessState.ExitCode()
}

func clientSite(t *testing.T) *site {
	return newSite(t, map[string]string{
		".jp/config.toml": `
[assistant]
model = "script/root.toml"
[conversation.tools.fs_create_file]
[conversation.tools.wait]
source = "local"
description = "Waits."
command = "cat gate/fifo"
run = "unattended"
access.fs = [{ path = "gate", mode = "rw" }]
`,
		"gate/note": "",
		"root.toml": `
[[rule]]
query = "fail"
turn = 1
error = { kind = "auth", status = 401, message = "no key" }
[[rule]]
query = "wait"
round = 1
tool_calls = [{ name = "wait", arguments = {} }]
[[rule]]
query = "stall"
hang = true
[[rule]]
query = "make"
round = 1
tool_calls = [{ name = "fs_create_file", arguments = { path = "x", content = "y" } }]
[[rule]]
query = "dear"
text = "Dear."
usage = { input = 1000, output = 50 }
[[rule]]
turn = 1
text = "First."
[[rule]]
text = "Later."
`,
	})
}

// gate makes the FIFO that the tool wait reads.
func (s *site) gate() string {
	s.t.Helper()
	path := filepath.Join(s.dir, "gate/fifo")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		s.t.Fatal(err)
	}
	return path
}

const initialize = `{"type":"control_request","request_id":"i","request":{"subtype":"initialize","systemPrompt":[""]}}`

// A client that keeps stdin open is answered: its requests at once, its messages one after the
// other, in one conversation.
func TestClient(t *testing.T) {
	s := clientSite(t)
	s.gate()
	c := s.clientRun()
	c.send(initialize)
	if r, failed := c.answer("i"); failed != "" || len(need[[]any](r, "models")) != 0 || need[string](r, "output_style") != "default" {
		t.Errorf("initialize = %v, %q", r, failed)
	}
	c.send(`{"type":"keep_alive"}`)
	c.say("wait")
	first := c.until("system")
	c.until("tool_call")
	c.say("and")
	c.say("dropped")
	for _, test := range []struct{ request, want string }{
		{`"subtype":"set_model","model":"x"`, "set_model: is not supported here; --model sets the model of the next run, with --resume"},
		{`"subtype":"rewind_files"`, "rewind_files: is not supported here"},
		{`"subtype":"set_permission_mode","mode":"default"`, ""},
		{`"subtype":"set_permission_mode","mode":"bypassPermissions"`,
			`permission mode "bypassPermissions": jp has only default and dontAsk; the definition of a tool says what it may do without a question`},
	} {
		c.send(`{"type":"control_request","request_id":"r","request":{` + test.request + `}}`)
		if _, failed := c.answer("r"); failed != test.want {
			t.Errorf("%s: error %q, want %q", test.request, failed, test.want)
		}
	}
	c.send(`{"type":"control_request","request_id":"stop","request":{"subtype":"interrupt"}}`)
	// The answer may come at any time from here on.
	var answered object
	next := func(kind string) object {
		for {
			o := c.until(kind, "control_response")
			if o["type"] == kind {
				return o
			}
			answered = need[map[string]any](need[map[string]any](o, "response"), "response")
		}
	}
	stopped := next("result")
	if stopped["status"] != "cancelled" || stopped["is_error"] != true || need[[]any](stopped, "errors")[0] != "interrupted by the client" {
		t.Errorf("interrupted: %v", stopped)
	}
	for _, turn := range []float64{2, 3} {
		if again := next("system"); again["session_id"] != first["session_id"] || again["turn"] != turn {
			t.Errorf("a further message: %v, want turn %v of %v", again, turn, first["session_id"])
		}
		if r := next("result"); r["result"] != "Later." {
			t.Errorf("turn %v: %v", turn, r)
		}
	}
	if answered == nil || len(need[[]any](answered, "still_queued")) != 2 {
		t.Errorf("interrupt = %v, want two messages that wait", answered)
	}
	// Nothing runs: there is nothing to interrupt.
	c.send(`{"type":"control_request","request_id":"none","request":{"subtype":"interrupt","cancel_queued":true}}`)
	if r, failed := c.answer("none"); failed != "" || len(need[[]any](r, "still_queued")) != 0 {
		t.Errorf("interrupt of nothing = %v, %q", r, failed)
	}
	if status := c.end(); status != 0 {
		t.Errorf("status %d, want that of the last message, 0", status)
	}
}

// An interrupt that comes with a message, or while its run opens, stops that message alone: what
// waits is answered.
func TestClientInterruptEarly(t *testing.T) {
	message := func(text string) string {
		return `{"type":"user","uuid":"` + text + `","message":{"role":"user","content":"` + text + `"},"parent_tool_use_id":null}`
	}
	const interrupt = `{"type":"control_request","request_id":"stop","request":{"subtype":"interrupt"}}`
	s := clientSite(t)
	s.gate()
	for n := range 20 {
		c := s.clientRun()
		if n%2 == 0 {
			c.send(message("wait"), interrupt, message("and"))
		} else {
			c.send(message("wait"), message("and"))
			c.send(interrupt)
		}
		var states []any
		for range 3 { // the answer to the request and the first result come in any order
			if o := c.until("result", "control_response"); o["type"] == "result" {
				states = append(states, o["status"])
			}
		}
		if want := []any{"cancelled", "ok"}; !slices.Equal(states, want) {
			t.Errorf("%d: results %v, want %v", n, states, want)
		}
		c.send(message("stall"), interrupt)
		for range 2 { // they, too
			if o := c.until("result", "control_response"); o["type"] == "result" && o["status"] != "cancelled" {
				t.Errorf("%d: a message that came when nothing ran: %v, want that it is cancelled", n, o)
			}
		}
		if status := c.end(); status != 130 {
			t.Errorf("%d: status %d, want 130", n, status)
		}
	}
}

// A request that cannot be granted ends the input, not what runs. What is left of a budget is
// all that the next one has.
func TestClientQueue(t *testing.T) {
	s := clientSite(t)
	s.gate()
	c := s.clientRun()
	c.say("wait")
	c.until("tool_call")
	c.say("dropped")
	c.send(initialize, `{"type":"control_request","request_id":"stop","request":{"subtype":"interrupt","cancel_queued":true}}`)
	if _, failed := c.answer("i"); failed != "initialize: comes after a message" {
		t.Errorf("initialize: error %q", failed)
	}
	// It ended the input: what was asked behind it is not read, what ran goes on.
	if err := os.WriteFile(filepath.Join(s.dir, "gate/fifo"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if r := c.until("result"); r["is_error"] != false {
			t.Errorf("result = %v", r)
		}
	}
	if status := c.end(); status != 1 {
		t.Errorf("status %d, want 1", status)
	}

	c = s.clientRun("--max-tokens", "3000")
	for n, want := range []string{"ok", "ok", "partial"} {
		c.say("dear")
		if r := c.until("result"); r["status"] != want {
			t.Errorf("message %d of 1050 tokens, 3000 in all: %v, want %s", n+1, r, want)
		}
	}
	if status := c.end(); status != 7 {
		t.Errorf("status %d, want 7", status)
	}
}

// A message that waits when the client's time is up, or a signal or `jp stop` ends jp, has a result too.
func TestClientWaitingAtTheEnd(t *testing.T) {
	s := clientSite(t)
	for _, test := range []struct {
		args        []string
		end         func(c *clientRun, id string)
		state, want string
		code        int
	}{
		{[]string{"--timeout", "3s"}, func(*clientRun, string) {}, "timeout", "not begun: --timeout: the time is up", 124},
		{nil, func(c *clientRun, _ string) { _ = c.cmd.Process.Signal(syscall.SIGTERM) }, "cancelled", "not begun: ended by SIGTERM", 143},
		{nil, func(_ *clientRun, id string) { s.jp("stop", id) }, "cancelled", "not begun: stopped by `jp stop`", 130},
	} {
		c := s.clientRun(test.args...)
		c.say("stall")
		id := need[string](c.until("system"), "session_id")
		c.say("and")
		c.say("more")
		c.send(`{"type":"control_request","request_id":"r","request":{"subtype":"set_permission_mode","mode":"default"}}`)
		c.answer("r") // so they were read
		test.end(c, id)
		for n := range 3 {
			if r := c.until("result"); r["status"] != test.state || n > 0 && need[[]any](r, "errors")[0] != test.want {
				t.Errorf("%q: %v, want %s: %s", test.args, r, test.state, test.want)
			}
		}
		if status := c.end(); status != test.code {
			t.Errorf("%q: status %d, want %d", test.args, status, test.code)
		}
	}
	c := s.clientRun("--no-persist")
	for _, text := range []string{"dear", "and", "more"} {
		c.say(text)
	}
	for _, want := range []string{"ok", "error", "error"} {
		if r := c.until("result"); r["status"] != want {
			t.Errorf("--no-persist: %v, want %s", r, want)
		}
	}
	if status := c.end(); status != 1 {
		t.Errorf("--no-persist: status %d, want 1", status)
	}
}

// Where nothing runs, a signal ends jp at once and in order: one that comes while a run ends is not
// lost. SIGQUIT shows no stacks, as Go would print them.
func TestSignalWhileNothingRuns(t *testing.T) {
	for signal, want := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGQUIT: 131, syscall.SIGTERM: 143} {
		c := clientSite(t).clientRun()
		c.send(initialize)
		c.answer("i")
		if err := c.cmd.Process.Signal(signal); err != nil {
			t.Fatal(err)
		}
		for c.lines.Scan() {
			t.Errorf("behind the signal came %s", c.lines.Text())
		}
		said := fmt.Sprintf(`{"error":{"code":"signal","message":"ended by %s","hint":""},"exit":%d}`+"\n", unix.SignalName(signal), want)
		if status := c.end(); status != want || c.said.String() != said {
			t.Errorf("status %d, want %d; stderr = %s, want %s", status, want, &c.said, said)
		}
	}
}

// An answer to a control request that cannot be written is no fault of stdin.
func TestClientAnswerUnwritten(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	var said bytes.Buffer
	s := clientSite(t)
	cmd := &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{"jp", "query", "--output-format", "stream-json", "--input-format", "stream-json"}, Dir: s.dir, Env: s.environ(),
		Stdin: strings.NewReader(initialize + "\n"), Stdout: full, Stderr: &said,
	}
	if _ = cmd.Run(); cmd.ProcessState.ExitCode() != 1 || !strings.HasPrefix(said.String(), `{"error":{"code":"disk_full","message":"stdout: no space left on device",`) {
		t.Errorf("status %d, stderr = %s", cmd.ProcessState.ExitCode(), &said)
	}
}

// A message that cannot be asked has its own result, and the next one is answered.
func TestClientBadMessage(t *testing.T) {
	s := clientSite(t)
	c := s.clientRun("--max-tokens", "3000")
	c.say("dear")
	for _, content := range []string{`"a\u0000b"`, `[{"type":"image"}]`, `" "`} {
		c.send(`{"type":"user","message":{"role":"user","content":` + content + `}}`)
	}
	c.say("dear")
	for n, want := range []string{"", "stdin: line 2: query: holds a NUL byte",
		`stdin: line 3: message: content: a block of type "image" is not read here; only text is`, "stdin: line 4: message: content is empty", ""} {
		r := c.until("result")
		if errs, _ := r["errors"].([]any); (want == "") != (r["status"] == "ok") || want != "" && errs[0] != want {
			t.Errorf("message %d: %v, want %q", n+1, r, want)
		}
	}
	if status := c.end(); status != 0 {
		t.Errorf("status %d, want that of the last message, 0", status)
	}

	c = s.clientRun()
	c.send(`{"type":"user","message":{"role":"user","content":"\u0000"}}`)
	c.until("result")
	c.say("dear")
	if r := c.until("result"); r["status"] != "ok" {
		t.Errorf("behind a bad first message: %v", r)
	}
	c.send(`{"type":"user","message":{"role":"user","content":"` + strings.Repeat("x", 16<<20) + `"}}`)
	if r := c.until("result"); need[[]any](r, "errors")[0] != "stdin: a line has more than 16 MiB" {
		t.Errorf("a line that is too long: %v", r)
	}
	if status := c.end(); status != 1 {
		t.Errorf("status %d, want 1", status)
	}
}

// Whatever goes wrong, each message is answered by one result with errors.
func TestClientErrors(t *testing.T) {
	s := clientSite(t)
	for _, test := range []struct {
		args []string
		say  string
		want string
		code int
	}{
		{nil, "fail", "no key", 8},
		{[]string{"--resume", "jp-c17"}, "x", "conversation jp-c17: not found", 3},
		{[]string{"--model", "script/gone.toml"}, "x", "gone.toml", 8},
		{[]string{"--allowedTools", "Read"}, "x", `no tool "Read" is configured here`, 3},
		{[]string{"--schema", "{"}, "x", "--schema: ", 2},
	} {
		c := s.clientRun(test.args...)
		c.send(initialize)
		c.answer("i")
		c.say(test.say)
		r := c.until("result")
		if e, ok := need[[]any](r, "errors")[0].(string); !ok || !strings.Contains(e, test.want) || r["subtype"] != "error_during_execution" {
			t.Errorf("%q: %v, want %q", test.args, r, test.want)
		}
		if status := c.end(); status != test.code {
			t.Errorf("%q: status %d, want %d", test.args, status, test.code)
		}
	}
	// A client that asks for what is not there is told so, and no message of it runs.
	c := s.clientRun()
	c.send(strings.Replace(initialize, `[""]`, `["You are x."]`, 1))
	if _, failed := c.answer("i"); failed != "initialize: systemPrompt: a profile holds it: --cfg NAME; appendSystemPrompt adds to it" {
		t.Errorf("initialize: error %q", failed)
	}
	if status := c.end(); status != 2 {
		t.Errorf("status %d, want 2", status)
	}
	c = s.clientRun()
	c.say("make")
	denied := need[[]any](c.until("result"), "permission_denials")
	if len(denied) != 1 || denied[0].(map[string]any)["tool_name"] != "fs_create_file" {
		t.Errorf("permission_denials = %v", denied)
	}
	c.end()
}

// A client that says so is asked about tools that ask. Only its yes to the very arguments lets a
// call run.
func TestClientPermission(t *testing.T) {
	s := clientSite(t)
	file := filepath.Join(s.dir, "x")
	c := s.clientRun("--permission-prompt-tool", "stdio")
	c.send(initialize)
	c.answer("i")
	const success = `"subtype":"success","request_id":"ID","response":`
	for _, test := range []struct {
		reply string // "" = the run is interrupted instead
		made  bool
		want  string // of the call, a part
	}{
		{success + `{"behavior":"allow","updatedInput":{"overwrite":false,"content":"y","path":"x"},"toolUseID":"z"}`, true, "created"},
		{success + `{"behavior":"allow"}`, true, "created"},
		{success + `{"behavior":"allow","updatedInput":null}`, true, "created"},
		{success + `{"behavior":"allow","updatedPermissions":[{"type":"addRules","rules":[{"toolName":"fs_create_file"}],"behavior":"allow","destination":"localSettings"}]}`, true, "created"},
		{success + `{"behavior":"allow","updatedPermissions":[{"type":"addRules","rules":[{"toolName":"fs_create_file","ruleContent":"x"},{"toolName":"fs_read_file"}],"behavior":"allow","destination":"session"}]}`, true, "created"},
		{success + `{"behavior":"allow","updatedPermissions":[{"type":"addRules","rules":"all","destination":"session"},7]}`, true, "created"},
		{success + `{"behavior":"deny","message":"not\u200b today"}`, false, "the user said no: not today"},
		{success + `{"behavior":"allow","updatedInput":{"overwrite":true,"content":"y","path":"x"}}`, false, "the user said no: the client changed the arguments; a call runs unchanged or not at all"},
		{success + `{"behavior":"allow","updatedInput":{}}`, false, "the user said no: the client changed the arguments"},
		{success + `{"behavior":"yes"}`, false, `the user said no: the client's answer is none: its behavior is "yes"`},
		{success + `null`, false, `the client's answer is none`},
		{success + `[]`, false, `the client's answer is none`},
		{`"subtype":"error","request_id":"ID","error":"canUseTool callback is not provided."`, false, "the user said no: the client failed to answer: canUseTool callback is not provided."},
		{success + `{"behavior":"deny","message":"stop","interrupt":true}`, false, ""},
		{"", false, ""},
	} {
		_ = os.Remove(file)
		c.say("make")
		if mode := c.until("system")["permissionMode"]; mode != "default" {
			t.Errorf("permissionMode %v", mode)
		}
		ask := c.until("control_request")
		r := object(need[map[string]any](ask, "request"))
		if in := need[map[string]any](r, "input"); r["subtype"] != "can_use_tool" || r["tool_name"] != "fs_create_file" || r["tool_use_id"] == "" ||
			r["title"] != "fs_create_file x" || len(in) != 3 || in["overwrite"] != false || in["path"] != "x" || in["content"] != "y" {
			t.Fatalf("request = %v", ask)
		}
		if got := fmt.Sprint(r["permission_suggestions"]); got != "[map[behavior:allow destination:session rules:[map[toolName:fs_create_file]] type:addRules]]" {
			t.Errorf("suggestions %s", got)
		}
		id := need[string](ask, "request_id")
		if test.reply == "" {
			c.send(`{"type":"control_request","request_id":"stop","request":{"subtype":"interrupt"}}`)
			came := map[any]object{} // in any order
			for range 3 {
				o := c.until("control_cancel_request", "control_response", "result")
				came[o["type"]] = o
			}
			if gone, end := came["control_cancel_request"], came["result"]; gone["request_id"] != id || end["status"] != "cancelled" || len(came) != 3 {
				t.Errorf("interrupted: %v, want %s withdrawn", came, id)
			}
		} else {
			c.send(`{"type":"control_response","response":{"subtype":"success","request_id":"x"}}`, // nobody waits for this one
				`{"type":"control_response","response":{`+strings.Replace(test.reply, "ID", id, 1)+`}}`)
		}
		if test.reply == "" {
		} else if test.want == "" {
			if end := c.until("result"); end["status"] != "cancelled" {
				t.Errorf("%s: %v, want it cancelled", test.reply, end)
			}
		} else if got := need[string](c.until("tool_result"), "text"); !strings.Contains(got, test.want) {
			t.Errorf("%s: %q, want %q", test.reply, got, test.want)
		} else if n := len(need[[]any](c.until("result"), "permission_denials")); test.made != (n == 0) {
			t.Errorf("%s: %d denials", test.reply, n)
		}
		if _, err := os.Stat(file); (err == nil) != test.made {
			t.Errorf("%s: %v", test.reply, err)
		}
	}
	_ = os.Remove(file)
	c.send(`{"type":"control_request","request_id":"mode","request":{"subtype":"set_permission_mode","mode":"dontAsk"}}`)
	c.answer("mode")
	c.say("make")
	if got := need[string](c.until("tool_result"), "text"); !strings.Contains(got, "nobody can answer") {
		t.Errorf("dontAsk: %q", got)
	}
	c.until("result")
	if status := c.end(); status != 0 {
		t.Errorf("status %d", status)
	}

	// A rule for the session, as jp has suggested it, is kept with the conversation.
	c = s.clientRun("--permission-prompt-tool", "stdio")
	c.say("make")
	ask := c.until("control_request")
	rules, err := json.Marshal(need[[]any](object(need[map[string]any](ask, "request")), "permission_suggestions"))
	if err != nil {
		t.Fatal(err)
	}
	c.send(`{"type":"control_response","response":{` + strings.Replace(success, "ID", need[string](ask, "request_id"), 1) + `{"behavior":"allow","updatedPermissions":` + string(rules) + `}}}`)
	for range 2 {
		if got := need[string](c.until("tool_result"), "text"); !strings.Contains(got, "created") {
			t.Errorf("a rule for the session: %q", got)
		}
		c.until("result")
		_ = os.Remove(file)
		c.say("make")
	}
	c.until("result")
	c.end()
	_ = os.Remove(file)

	// Who closes stdin instead of answering has said no.
	c = s.clientRun("--permission-prompt-tool", "stdio")
	c.say("make")
	c.until("control_request")
	_ = c.in.Close()
	if got := need[string](c.until("tool_result"), "text"); !strings.Contains(got, "the user said no: the client has closed stdin") {
		t.Errorf("closed: %q", got)
	}
	c.until("result")
	c.end()
}

// A run that has begun ends in one result object, also where the store fails meanwhile.
func TestResultOfBrokenStore(t *testing.T) {
	s := clientSite(t)
	for _, format := range []string{"json", "stream-json"} {
		fifo := s.gate()
		store, aside := s.store.Path(), s.store.Path()+".aside"
		cmd := &exec.Cmd{Path: "/proc/self/exe", Args: []string{"jp", "query", "-p", "--output-format", format, "wait"}, Dir: s.dir, Env: s.environ()}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		gate, err := os.OpenFile(fifo, os.O_WRONLY, 0) // waits for the tool
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(store, aside); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(store, []byte(strings.Repeat("no store", 4096)), 0o600); err != nil {
			t.Fatal(err)
		}
		_ = gate.Close()
		text, _ := io.ReadAll(out)
		_ = cmd.Wait()
		lines := strings.Split(strings.TrimSpace(string(text)), "\n")
		var r object
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &r); err != nil {
			t.Fatalf("%s: %q: %v", format, text, err)
		}
		if r["type"] != "result" || r["status"] != "error" || r["is_error"] != true || len(need[[]any](r, "errors")) != 1 || r["turn"] != 1.0 {
			t.Errorf("%s: %v", format, r)
		}
		if status := cmd.ProcessState.ExitCode(); status != 1 {
			t.Errorf("%s: status %d, want 1", format, status)
		}
		for _, err := range []error{os.Rename(aside, store), os.Remove(fifo)} {
			if err != nil {
				t.Fatal(err)
			}
		}
	}
}
