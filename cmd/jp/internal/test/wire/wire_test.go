package wire

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"jp/cmd/jp/internal/model/script"
)

// TestMain makes the test binary a wire command, as testscript does.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == "wire" {
		Main()
	}
	os.Exit(m.Run())
}

// wire returns the command as its own process.
func wire(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Args = append([]string{"wire"}, args...)
	return cmd
}

func scriptFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "script.toml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func post(t *testing.T, url, body string) (int, http.Header, string) {
	t.Helper()
	resp, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(b)
}

const (
	askAnthropic = `{"model":"x#v","max_tokens":10,"stream":true,"messages":[{"role":"user","content":"q"}]}`
	askOpenAI    = `{"model":"x#v","stream":true,"stream_options":{"include_usage":true},"messages":[{"role":"user","content":"q"}]}`
)

func TestWireFormats(t *testing.T) {
	s, err := script.Parse("s.toml", []byte("[[rule]]\nvariant = 'v'\nreasoning = 'hm'\ntext = 'hi'\ntool_calls = [{ name = 't' }]\nusage = { input = 1, output = 2, cache_read = 3, cache_write = 4 }"))
	if err != nil {
		t.Fatal(err)
	}
	server, err := Start(Variants(s), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	for path, tt := range map[string]struct{ ask, want string }{
		"/v1/messages": {askAnthropic, `event: message_start
data: {"message":{"content":[],"id":"msg_wire","model":"x#v","role":"assistant","stop_reason":null,"stop_sequence":null,"type":"message","usage":{"input_tokens":6,"output_tokens":1}},"type":"message_start"}

event: ping
data: {"type":"ping"}

event: content_block_start
data: {"content_block":{"signature":"","thinking":"","type":"thinking"},"index":0,"type":"content_block_start"}

event: content_block_delta
data: {"delta":{"thinking":"hm","type":"thinking_delta"},"index":0,"type":"content_block_delta"}

event: content_block_delta
data: {"delta":{"signature":"signed","type":"signature_delta"},"index":0,"type":"content_block_delta"}

event: content_block_stop
data: {"index":0,"type":"content_block_stop"}

event: content_block_start
data: {"content_block":{"text":"","type":"text"},"index":1,"type":"content_block_start"}

event: content_block_delta
data: {"delta":{"text":"hi","type":"text_delta"},"index":1,"type":"content_block_delta"}

event: content_block_stop
data: {"index":1,"type":"content_block_stop"}

event: content_block_start
data: {"content_block":{"id":"call_1","input":{},"name":"t","type":"tool_use"},"index":2,"type":"content_block_start"}

event: content_block_delta
data: {"delta":{"partial_json":"{","type":"input_json_delta"},"index":2,"type":"content_block_delta"}

event: content_block_delta
data: {"delta":{"partial_json":"}","type":"input_json_delta"},"index":2,"type":"content_block_delta"}

event: content_block_stop
data: {"index":2,"type":"content_block_stop"}

event: message_delta
data: {"delta":{"stop_reason":"tool_use","stop_sequence":null},"type":"message_delta","usage":{"cache_creation_input_tokens":4,"cache_read_input_tokens":3,"input_tokens":1,"output_tokens":2}}

event: message_stop
data: {"type":"message_stop"}

`},
		"/v1/chat/completions": {askOpenAI, strings.ReplaceAll(`data: {"choices":[{"delta":{"content":"","role":"assistant"},"finish_reason":null,"index":0}],ID}

data: {"choices":[{"delta":{"reasoning_content":"hm"},"finish_reason":null,"index":0}],ID}

data: {"choices":[{"delta":{"content":"hi"},"finish_reason":null,"index":0}],ID}

data: {"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"","name":"t"},"id":"call_1","index":0,"type":"function"}]},"finish_reason":null,"index":0}],ID}

data: {"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"{"},"index":0}]},"finish_reason":null,"index":0}],ID}

data: {"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"}"},"index":0}]},"finish_reason":null,"index":0}],ID}

data: {"choices":[{"delta":{},"finish_reason":"tool_calls","index":0}],ID}

data: {"choices":[],ID,"usage":{"completion_tokens":2,"prompt_tokens":8,"prompt_tokens_details":{"cache_write_tokens":4,"cached_tokens":3},"total_tokens":10}}

data: [DONE]

`, "ID", `"created":1,"id":"chatcmpl-wire","model":"x#v","object":"chat.completion.chunk"`)},
	} {
		status, header, body := post(t, server.URL+path, tt.ask)
		if status != 200 || header.Get("Content-Type") != "text/event-stream; charset=utf-8" || body != tt.want {
			t.Errorf("%s = %d %s\n%s\nwant:\n%s", path, status, header.Get("Content-Type"), body, tt.want)
		}
	}
}

// TestRefusals: what the real ones refuse, this one does.
func TestRefusals(t *testing.T) {
	s, err := script.Parse("s.toml", []byte("[[rule]]\ntext = 'hi'"))
	if err != nil {
		t.Fatal(err)
	}
	server, err := Start(Variants(s), Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	anthropic := func(messages string) string {
		return `{"model":"x","max_tokens":1,"stream":true,"messages":[` + messages + `]}`
	}
	for _, tt := range []struct{ path, body, want string }{
		{"/v1/messages", `{`, "unexpected EOF"},
		{"/v1/messages", `{"modell":"x"}`, `json: unknown field "modell"`},
		{"/v1/messages", `{"model":"x","stream":true}`, "model, max_tokens and stream are required"},
		{"/v1/messages", anthropic(``), "bad_request: no messages"},
		{"/v1/messages", anthropic(`{"role":"user","content":"a"},{"role":"user","content":"b"}`), "messages.1: roles must alternate between user and assistant"},
		{"/v1/messages", anthropic(`{"role":"user","content":[{"type":"text","text":" "}]}`), "messages.0: text content blocks must contain non-whitespace text"},
		{"/v1/messages", anthropic(`{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"a b","name":"t","input":{}}]}`), "messages.1: tool_use.id and name should match pattern '^[a-zA-Z0-9_-]+$'"},
		{"/v1/messages", anthropic(`{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"t","input":"x"}]}`), "messages.1: tool_use.input: Input should be a valid dictionary"},
		{"/v1/messages", anthropic(`{"role":"user","content":"a"},{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"t","input":{}}]},{"role":"user","content":[{"type":"text","text":"x"},{"type":"tool_result","tool_use_id":"a","content":"x"}]}`), "messages.2: tool_result blocks must come first"},
		{"/v1/messages", anthropic(`{"role":"user","content":[` + strings.TrimSuffix(strings.Repeat(`{"type":"text","text":"a","cache_control":{"type":"ephemeral"}},`, 5), ",") + `]}`), "a maximum of 4 blocks with cache_control may be provided, found 5"},
		{"/v1/chat/completions", `{"model":"x"}`, "model and stream are required"},
		{"/v1/chat/completions", `{"model":"x","stream":true,"messages":[{"role":"bot"}]}`, `messages.0: role "bot"`},
		{"/v1/chat/completions", `{"model":"x","stream":true,"messages":[{"role":"tool","tool_call_id":"a","content":"x"}]}`, `bad_request: message 1: result for "a", which is no open call`},
	} {
		status, _, body := post(t, server.URL+tt.path, tt.body)
		var got struct{ Error struct{ Message string } }
		if err := json.Unmarshal([]byte(body), &got); err != nil || status != 400 || got.Error.Message != tt.want {
			t.Errorf("%s: %s = %d %s, want %s", tt.path, tt.body, status, body, tt.want)
		}
	}
	for path, want := range map[string]int{"/": 404, "/v1/models": 404} {
		if status, _, _ := post(t, server.URL+path, "{}"); status != want {
			t.Errorf("POST %s = %d, want %d", path, status, want)
		}
	}
}

// TestCommand runs a program against the server: it finds the addresses and keys in its
// environment, its status comes through, and the log has its requests.
func TestCommand(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	file := scriptFile(t, "[[rule]]\ntext = 'hi'")
	var out, errs bytes.Buffer
	cmd := wire(t, "-log", log, file, "--", "sh", "-c", `printf '%s\n' "$ANTHROPIC_BASE_URL" "$OPENAI_BASE_URL" "$OLLAMA_HOST" "$ANTHROPIC_API_KEY" "$OPENAI_API_KEY"; cat; exit 7`)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader("from stdin"), &out, &errs
	if err := cmd.Run(); cmd.ProcessState.ExitCode() != 7 {
		t.Fatalf("status = %v, %s", err, errs.String())
	}
	lines := strings.Split(out.String(), "\n")
	base := lines[0]
	want := []string{base, base + "/v1", base, "wire-anthropic-key", "wire-openai-key", "from stdin"}
	if !strings.HasPrefix(base, "http://127.0.0.1:") || fmt.Sprint(lines) != fmt.Sprint(want) {
		t.Errorf("output = %q, want %q", lines, want)
	}
	cmd = wire(t, file, "--", "sh", "-c", "kill -TERM $$")
	if err := cmd.Run(); cmd.ProcessState.ExitCode() != 143 {
		t.Errorf("status of a killed command = %v, want 143", err)
	}
	if err := wire(t, file, "--", "/no/such/program").Run(); fmt.Sprint(err) != "exit status 127" {
		t.Errorf("status of no command = %v, want 127", err)
	}
}

// TestServeUntilSignal: the URL is told when it is served, and SIGTERM and the end of stdin end it.
func TestServeUntilSignal(t *testing.T) {
	file := scriptFile(t, "[[rule]]\ntext = 'hi'")
	for name, args := range map[string][]string{"signal": nil, "stdin": {"-stdin"}} {
		dir := t.TempDir()
		cmd := wire(t, append(args, "-log", dir+"/log", "-url", dir+"/url", file)...)
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		stdout, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var url string
		if _, err := fmt.Fscanln(stdout, &url); err != nil {
			t.Fatal(err)
		}
		if told, err := os.ReadFile(dir + "/url"); err != nil || string(told) != url+"\n" {
			t.Errorf("%s: file = %q, %v, want %q", name, told, err, url)
		}
		if status, _, body := post(t, url+"/v1/messages", askAnthropic); status != 200 || !strings.Contains(body, `"text":"hi"`) {
			t.Errorf("%s: answer = %d %s", name, status, body)
		}
		if name == "signal" {
			err = cmd.Process.Signal(syscall.SIGTERM)
		} else {
			err = stdin.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("%s: ended with %v", name, err)
		}
		log, err := os.ReadFile(dir + "/log")
		if err != nil {
			t.Fatal(err)
		}
		var e Entry
		if err := json.Unmarshal(log, &e); err != nil || e.Path != "/v1/messages" || e.Method != "POST" || string(e.Body) != askAnthropic {
			t.Errorf("%s: log = %s, %v", name, log, err)
		}
	}
}

func TestUsage(t *testing.T) {
	file := scriptFile(t, "[[rule]]\n")
	for _, tt := range []struct {
		args   []string
		status int
		want   string
	}{
		{nil, 2, "usage: wire [flags] SCRIPT"},
		{[]string{"-nope"}, 2, "flag provided but not defined: -nope"},
		{[]string{"a", "b"}, 2, "usage: wire [flags] SCRIPT"},
		{[]string{"a", "--"}, 2, "usage: wire [flags] SCRIPT"},
		{[]string{"/no/such/file"}, 1, "wire: open /no/such/file: no such file or directory"},
		{[]string{file}, 1, "wire: " + file + ":1: rule 1: says nothing"},
		{[]string{"-addr", "nonsense", scriptFile(t, "[[rule]]\ntext = ''")}, 1, "wire: model server: listen tcp: address nonsense: missing port in address"},
	} {
		var stderr bytes.Buffer
		if got := run(context.Background(), tt.args, nil, io.Discard, &stderr); got != tt.status || !strings.HasPrefix(stderr.String(), tt.want) {
			t.Errorf("wire %q = %d, %s, want %d, %s", tt.args, got, stderr.String(), tt.status, tt.want)
		}
	}
}
