package model

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

func says(role Role, content ...Content) Message { return Message{Role: role, Content: content} }
func words(s string) Content                     { return Content{Text: s} }
func calls(id string) Content {
	return Content{Call: &Call{ID: id, Name: "t", Arguments: []byte("{}")}}
}
func answers(id string) Content { return Content{Result: &CallResult{ID: id, Name: "t"}} }

func TestCheck(t *testing.T) {
	object := json.RawMessage(`{}`)
	question := []Message{says(User, words("q"))}
	tests := []struct {
		name string
		r    Request
		want string
	}{
		{"plain", Request{Messages: question}, ""},
		{"full", Request{Messages: []Message{says(User, words("q")), says(Assistant, words("a"), calls("1"), calls("2")), says(ToolRole, answers("2"), answers("1")), says(Assistant, words("b")), says(User, words("r"))}}, ""},
		{"results in two messages", Request{Messages: []Message{says(User, words("q")), says(Assistant, calls("1"), calls("2")), says(ToolRole, answers("1")), says(ToolRole, answers("2"))}}, ""},
		{"nothing", Request{}, "no messages"},
		{"empty message", Request{Messages: []Message{says(User)}}, "message 1 has no content"},
		{"empty content", Request{Messages: []Message{says(User, Content{})}}, `message 1: content does not fit the role "user"`},
		{"two in one", Request{Messages: []Message{says(Assistant, Content{Text: "x", Call: &Call{ID: "1"}})}}, `message 1: content does not fit the role "assistant"`},
		{"user calls", Request{Messages: []Message{says(User, calls("1"))}}, `message 1: content does not fit the role "user"`},
		{"odd role", Request{Messages: []Message{says("system", words("x"))}}, `message 1: content does not fit the role "system"`},
		{"no result", Request{Messages: []Message{says(User, words("q")), says(Assistant, calls("1")), says(User, words("r"))}}, "message 3: results are missing for 1 calls before it"},
		{"no result at the end", Request{Messages: []Message{says(User, words("q")), says(Assistant, calls("1"), calls("2")), says(ToolRole, answers("1"))}}, "results are missing for 1 calls"},
		{"result of nothing", Request{Messages: []Message{says(User, words("q")), says(ToolRole, answers("1"))}}, `message 2: result for "1", which is no open call`},
		{"two results", Request{Messages: []Message{says(User, words("q")), says(Assistant, calls("1")), says(ToolRole, answers("1"), answers("1"))}}, `message 3: result for "1", which is no open call`},
		{"id twice", Request{Messages: []Message{says(User, words("q")), says(Assistant, calls("1")), says(ToolRole, answers("1")), says(Assistant, calls("1")), says(ToolRole, answers("1"))}}, `message 4: tool call id "1" is not unique`},
		{"no id", Request{Messages: []Message{says(User, words("q")), says(Assistant, calls("")), says(ToolRole, answers(""))}}, `message 2: tool call id "" is not unique`},
		{"assistant last", Request{Messages: []Message{says(User, words("q")), says(Assistant, words("a"))}}, "the thread ends with the assistant"},
		{"tool twice", Request{Messages: question, Tools: []Tool{{Name: "t", Schema: object}, {Name: "t", Schema: object}}}, `tool "t" is offered twice`},
		{"tool without a name", Request{Messages: question, Tools: []Tool{{Schema: object}}}, "a tool without a name is offered"},
		{"tool schema", Request{Messages: question, Tools: []Tool{{Name: "t", Schema: json.RawMessage(`null`)}}}, `tool "t": its schema is not a JSON object`},
		{"answer schema", Request{Messages: question, Schema: json.RawMessage(`{`)}, "the answer's schema is not JSON"},
		{"reasoning", Request{Messages: question, Reasoning: "max"}, `reasoning "max": must be none, low, medium or high`},
		{"tool choice", Request{Messages: question, ToolChoice: "any"}, `tool choice "any": must be none or nothing`},
		{"tokens", Request{Messages: question, MaxTokens: -1}, "-1 output tokens"},
	}
	for _, tt := range tests {
		err := tt.r.Check()
		var e *Error
		if tt.want == "" {
			if err != nil {
				t.Errorf("%s: %v", tt.name, err)
			}
		} else if !errors.As(err, &e) || e.Message != tt.want || e.Kind != KindBadRequest || e.Temporary() {
			t.Errorf("%s: error = %v, want %s", tt.name, err, tt.want)
		}
	}
}

func TestCalls(t *testing.T) {
	thread := Request{Messages: []Message{says(User, words("q")), says(Assistant, calls("old")), says(ToolRole, answers("old"))}}
	c := NewCalls(thread)
	seen := map[string]bool{"old": true} // ids that no further call has
	for _, id := range []string{"a#1", "a/1", "batch-a", "hand-a", "jp-context-a", "jp-mcp-a", strings.Repeat("a", 513)} {
		seen[id] = true
	}
	for i, id := range slices.Concat([]string{"a", "a", ""}, slices.Sorted(maps.Keys(seen))) {
		c.Add(id, fmt.Sprint("t", i), nil)
	}
	got, stop := c.Finish(StopEnd)
	if stop != StopToolUse || len(got) != 11 || got[0].ID != "a" || string(got[0].Arguments) != "{}" {
		t.Fatalf("Finish = %v, %s", got, stop)
	}
	for _, call := range got {
		if call.ID == "" || seen[call.ID] {
			t.Errorf("id %q is not unique", call.ID)
		}
		seen[call.ID] = true
	}
}

func TestCallsCutOff(t *testing.T) {
	tests := []struct {
		arguments []string
		stop      Stop
		want      int
		wantStop  Stop
	}{
		{[]string{`{}`, `{"a": `}, StopMaxTokens, 1, StopMaxTokens},
		{[]string{`{"a": `, `{}`}, StopMaxTokens, 2, StopMaxTokens},
		{[]string{`{}`, `{"a": `}, StopToolUse, 2, StopToolUse},
		{nil, StopToolUse, 0, StopEnd},
		{nil, StopRefusal, 0, StopRefusal},
	}
	for _, tt := range tests {
		c := NewCalls(Request{})
		for _, a := range tt.arguments {
			c.Add("", "t", []byte(a))
		}
		if got, stop := c.Finish(tt.stop); len(got) != tt.want || stop != tt.wantStop {
			t.Errorf("%q with %s: %d calls, %s, want %d, %s", tt.arguments, tt.stop, len(got), stop, tt.want, tt.wantStop)
		}
	}
}

func TestObject(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":1}`:        `{"a":1}`,
		`{}`:             `{}`,
		`{"a":"\ud83d"}`: `{"a":"\ufffd"}`,
		`null`:           `{"invalid_arguments":"null"}`,
		`[1]`:            `{"invalid_arguments":"[1]"}`,
		`{"a": `:         `{"invalid_arguments":"{\"a\": "}`,
		"\xff":           `{"invalid_arguments":"�"}`,
		"<a&b>":          `{"invalid_arguments":"<a&b>"}`,
		`{"a":1}{}`:      `{"invalid_arguments":"{\"a\":1}{}"}`,
		`{"a":1,,} `:     `{"invalid_arguments":"{\"a\":1,,} "}`,
	} {
		if got := string(Call{Arguments: []byte(in)}.Object()); got != want {
			t.Errorf("Object(%q) = %s, want %s", in, got, want)
		}
	}
}

func TestFit(t *testing.T) {
	for _, tt := range []struct{ in, id, name string }{
		{"call_1", "call_1", "call_1"},
		{"functions.read:0", "", "functions_read_0"},
		{"", "call_e3b0c44298fc1c149afbf4c8", "_"},
		{"ü", "", "_"},
		{strings.Repeat("x", 41), "", strings.Repeat("x", 40)},
	} {
		if got := FitName(tt.in, 40); got != tt.name {
			t.Errorf("FitName(%q) = %q, want %q", tt.in, got, tt.name)
		}
		got := FitID(tt.in, 40)
		if FitName(got, 40) != got || got != FitID(tt.in, 40) {
			t.Errorf("FitID(%q) = %q, which does not fit", tt.in, got)
		}
		if tt.id != "" && got != tt.id {
			t.Errorf("FitID(%q) = %q, want %q", tt.in, got, tt.id)
		}
	}
}

// TestCheckNeverPanics builds threads at random.
func TestCheckNeverPanics(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	ok := 0
	for range 20_000 {
		var m []Message
		for range r.IntN(5) {
			var c []Content
			for range r.IntN(3) {
				id := fmt.Sprint(r.IntN(3))
				c = append(c, []Content{words("x"), calls(id), answers(id), {}, {Reasoning: &Reasoning{}}}[r.IntN(5)])
			}
			m = append(m, says([]Role{User, Assistant, ToolRole, ""}[r.IntN(4)], c...))
		}
		request := Request{Messages: m}
		if request.Check() == nil {
			ok++
		}
		if request.Estimate() < 1 {
			t.Fatal("an estimate below one token")
		}
	}
	if ok == 0 {
		t.Errorf("seed %d: no thread was accepted", seed)
	}
}

func TestEstimate(t *testing.T) {
	r := Request{System: []Section{{Text: strings.Repeat("x", 300)}}, Messages: []Message{says(User, words(strings.Repeat("y", 3000)))}}
	if got := r.Estimate(); got < 1100 || got > 1200 {
		t.Errorf("Estimate = %d, want a third of 3300 and a little", got)
	}
}

// TestSize: messages take memory also where they say nothing.
func TestSize(t *testing.T) {
	const n = 1000
	empty := make([]Content, n)
	for name, r := range map[string]Request{
		"messages": {Messages: make([]Message, n)},
		"contents": {Messages: []Message{{Content: empty}}},
	} {
		if size := r.Size(); size < 40*n {
			t.Errorf("%d %s have a size of %d", n, name, size)
		}
	}
}
