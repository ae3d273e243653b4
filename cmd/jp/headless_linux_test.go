package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"reflect"
	"strings"
	"testing"
)

// foreign is what a program written for another agent knows of stream-json, and nothing of ours. It
// insists on the keys that it reads and leaves all types that it does not know alone.
type foreign struct {
	session string
	tools   []string
	said    []string          // texts of the agent itself
	calls   map[string]string // name by id
	results map[string]string // of tools, by the id of the call
	tokens  int64
	result  map[string]any
}

// object is a JSON object whose keys must be there.
type object map[string]any

func need[T any](o object, key string) T {
	v, ok := o[key]
	if !ok {
		panic(fmt.Sprintf("%s is missing in %v", key, o))
	}
	t, ok := v.(T)
	if !ok {
		panic(fmt.Sprintf("%s is %T in %v", key, v, o))
	}
	return t
}

// read takes a whole stream.
func (f *foreign) read(out string) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	f.calls, f.results = map[string]string{}, map[string]string{}
	for n, line := range strings.Split(strings.TrimSuffix(out, "\n"), "\n") {
		if f.result != nil {
			return fmt.Errorf("line %d stands behind the result", n+1)
		}
		var o object
		if err := json.Unmarshal([]byte(line), &o); err != nil {
			return fmt.Errorf("line %d: %w", n+1, err)
		}
		if s := need[string](o, "session_id"); f.session == "" {
			f.session = s
		} else if s != f.session {
			return fmt.Errorf("line %d: session %s in the stream of %s", n+1, s, f.session)
		}
		parent, ok := o["parent_tool_use_id"]
		if !ok {
			return fmt.Errorf("line %d: no parent_tool_use_id", n+1)
		}
		if id, _ := parent.(string); id != "" {
			if _, ok := f.calls[id]; !ok {
				return fmt.Errorf("line %d: its parent %s was not called", n+1, id)
			}
			continue // a sub-agent's
		}
		switch kind := need[string](o, "type"); kind {
		case "system":
			if n > 0 || need[string](o, "subtype") != "init" {
				return fmt.Errorf("line %d: %s", n+1, line)
			}
			need[string](o, "model")
			for _, name := range need[[]any](o, "tools") {
				f.tools = append(f.tools, name.(string))
			}
		case "assistant":
			f.reply(need[map[string]any](o, "message"))
		case "user":
			for _, b := range need[[]any](need[map[string]any](o, "message"), "content") {
				b := object(b.(map[string]any))
				if need[string](b, "type") == "tool_result" {
					f.results[need[string](b, "tool_use_id")] = need[string](b, "content")
				}
			}
		case "result":
			need[string](o, "subtype")
			need[bool](o, "is_error")
			for _, key := range []string{"num_turns", "duration_ms", "duration_api_ms"} {
				need[float64](o, key)
			}
			u := object(need[map[string]any](o, "usage"))
			for _, key := range []string{"input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"} {
				need[float64](u, key)
			}
			need[any](o, "total_cost_usd")
			f.result = o
		}
	}
	if f.result == nil {
		return fmt.Errorf("no result in %s", out)
	}
	return nil
}

func (f *foreign) reply(m object) {
	need[string](m, "id")
	need[string](m, "model")
	if need[string](m, "role") != "assistant" || need[string](m, "type") != "message" {
		panic(fmt.Sprintf("no message of an assistant: %v", m))
	}
	need[any](m, "stop_reason")
	u := object(need[map[string]any](m, "usage"))
	for _, key := range []string{"input_tokens", "output_tokens", "cache_read_input_tokens", "cache_creation_input_tokens"} {
		f.tokens += int64(need[float64](u, key))
	}
	for _, b := range need[[]any](m, "content") {
		switch b := object(b.(map[string]any)); need[string](b, "type") {
		case "text":
			f.said = append(f.said, need[string](b, "text"))
		case "tool_use":
			need[map[string]any](b, "input")
			f.calls[need[string](b, "id")] = need[string](b, "name")
		}
	}
}

// answers are the results by the names of the tools.
func (f *foreign) answers() map[string]string {
	out := map[string]string{}
	for id, name := range f.calls {
		out[name] = f.results[id]
	}
	return out
}

// headlessRun runs jp query as other agents are run, in stream-json, and reads it as their readers
// do.
func (s *site) headlessRun(stdin string, args ...string) (f foreign, status int) {
	s.t.Helper()
	var out bytes.Buffer
	argv := append([]string{"jp", "query", "-p", "--output-format", "stream-json", "--verbose"}, args...)
	cmd := &exec.Cmd{Path: "/proc/self/exe", Args: argv, Dir: s.dir, Env: s.environ(), Stdout: &out, Stderr: io.Discard}
	cmd.Stdin = strings.NewReader(stdin)
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !asExit(err, &exit) {
		s.t.Fatal(err)
	}
	if err := f.read(out.String()); err != nil {
		s.t.Fatalf("%s: %v", strings.Join(args, " "), err)
	}
	return f, cmd.ProcessState.ExitCode()
}

// A reader of another agent's stream understands ours, from the first run over a sub-agent and
// limits to a fork.
func TestHeadlessReader(t *testing.T) {
	s := newSite(t, map[string]string{
		".jp/config.toml": `
[assistant]
model = "script/root.toml"
[conversation.tools.fs_read_file]
source = "builtin"
run = "unattended"
[conversation.tools.jp_query]
source = "delegation"
run = "unattended"
[delegation]
profiles = ["agent/leaf"]
`,
		".jp/config/agent/leaf.toml": "[loader]\nreset = \"none\"\n[assistant]\nmodel = \"script/leaf.toml\"\n",
		"note.txt":                   "a note\n",
		"leaf.toml":                  "[[rule]]\ntext = \"leaf\"\n",
		"root.toml": `
[[rule]]
query = "fail"
error = { kind = "auth", status = 401, message = "no key" }
[[rule]]
query = "loop"
text = "I look again."
tool_calls = [{ name = "fs_read_file", arguments = { path = "note.txt" } }]
[[rule]]
query = "look"
round = 1
text = "I look."
tool_calls = [
  { name = "fs_read_file", arguments = { path = "note.txt" } },
  { name = "jp_query", arguments = { config = "agent/leaf", query = "leaf" } },
]
usage = { input = 10, output = 5, cache_read = 2, cache_write = 1 }
[[rule]]
query = "look"
text = "Done."
usage = { input = 20, output = 5 }
[[rule]]
system = "shout"
text = "LOUD"
[[rule]]
turn = 1
text = "First."
[[rule]]
text = "Later."
`,
	})

	first, status := s.headlessRun("", "--new", "look")
	if status != 0 || first.result["subtype"] != "success" || first.result["is_error"] != false || first.result["result"] != "Done." ||
		first.result["num_turns"] != 2.0 || first.tokens != 43 {
		t.Errorf("result = %v (status %d, %d tokens)", first.result, status, first.tokens)
	}
	if want := []string{"I look.", "Done."}; !reflect.DeepEqual(first.said, want) {
		t.Errorf("said = %q, want %q", first.said, want)
	}
	if want := []string{"fs_read_file", "jp_query"}; !reflect.DeepEqual(first.tools, want) {
		t.Errorf("tools = %q, want %q", first.tools, want)
	}
	answers := first.answers()
	if answers["fs_read_file"] != "a note\n" || !strings.Contains(answers["jp_query"], "leaf") || len(answers) != 2 {
		t.Errorf("results = %q", answers)
	}

	message := `{"type":"user","message":{"role":"user","content":[{"type":"text","text":"and?"}]},"parent_tool_use_id":null}` + "\n"
	if next, _ := s.headlessRun(message, "--input-format", "stream-json", "--resume", first.session); next.session != first.session || next.result["result"] != "Later." {
		t.Errorf("resumed: session %s, %v, want %s", next.session, next.result, first.session)
	}
	fork, _ := s.headlessRun("", "--continue", "--fork-session", "and?")
	if fork.session == first.session || fork.result["result"] != "Later." || fork.result["session_id"] != fork.session {
		t.Errorf("forked: session %s, %v", fork.session, fork.result)
	}
	loud, _ := s.headlessRun("", "--new", "--append-system-prompt", "shout", "hello")
	if again, _ := s.headlessRun("", "-r", loud.session, "hello"); loud.result["result"] != "LOUD" || again.result["result"] != "Later." {
		t.Errorf("with a prompt: %v, then without: %v", loud.result["result"], again.result["result"])
	}

	for _, test := range []struct {
		args    []string
		subtype string
		status  int
	}{
		{[]string{"--new", "--max-turns", "1", "look"}, "success", 0},
		{[]string{"--new", "--max-turns", "2", "loop"}, "error_max_turns", 7},
		{[]string{"--new", "--max-tokens", "10", "look"}, "error_during_execution", 7},
		{[]string{"--new", "fail"}, "error_during_execution", 8},
	} {
		f, status := s.headlessRun("", test.args...)
		if f.result["subtype"] != test.subtype || f.result["is_error"] != (status != 0) || status != test.status {
			t.Errorf("%q: %v, status %d, want %s, %d", test.args, f.result, status, test.subtype, test.status)
		}
	}
}
