package turns

import (
	"bufio"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"jp/cmd/jp/internal/subtree"
	"jp/cmd/jp/internal/term"
	"jp/convstore"
)

func TestParseTurns(t *testing.T) {
	for s, want := range map[string]convstore.Range{
		"3": convstore.Turn(3), "2..4": {First: 2, Last: 4}, "2..": {First: 2}, "..4": {Last: 4}, "2..2": {First: 2, Last: 2}, "..": {},
	} {
		if got, err := parseTurns(s); err != nil || got != want {
			t.Errorf("parseTurns(%q) = %v, %v; want %v", s, got, err, want)
		}
	}
	for _, s := range []string{"", "0", "-1", "+1", "4..2", "1..2..3", "a", "1...2", "1-2", "0..2", "99999999999999999999"} {
		if got, err := parseTurns(s); err == nil {
			t.Errorf("parseTurns(%q) = %v, want an error", s, got)
		}
	}
}

// TestFailed: the end of a sub-agent is said in words, whatever else failed as it says itself.
func TestFailed(t *testing.T) {
	for text, want := range map[string]string{
		"<response conversation_id=\"jp-c7\" status=\"lost\" reason=\"a &lt;b&gt; c\" tokens=\"1\" calls=\"1\">\n</response>": "jp-c7: lost, a <b> c",
		"<response conversation_id=\"jp-c7\" status=\"empty\" tokens=\"1\" calls=\"1\">\n</response>":                         "jp-c7: empty",
		"error: no such file\nmore": "error: no such file",
		"<response>":                "<response>",
	} {
		if got := Failed(text); got != want {
			t.Errorf("Failed(%q) = %q, want %q", text, got, want)
		}
	}
}

// TestBodies prints a body of each kind for people, and as a model reads it. A new kind is in no line
// of this table.
func TestBodies(t *testing.T) {
	tests := []struct {
		body          convstore.Body
		people, model string
	}{
		{convstore.TurnStart{}, "", ""},
		{convstore.UserMessage{Text: "x"}, "### user\n\nx", "user\n| x"},
		{convstore.AssistantMessage{Text: "x"}, "### assistant\n\nx", "assistant\n| x"},
		{convstore.Structured{Data: json.RawMessage(`["x"]`)}, "### assistant\n\n[\"x\"]", "assistant\n| [\"x\"]"},
		{convstore.Reasoning{Text: "x"}, "", ""},
		{convstore.ToolCall{ID: "1", Name: "tool", Arguments: json.RawMessage(`{"a":"x"}`)}, "- tool {\"a\":\"x\"}: no result", "call\n| tool {\"a\":\"x\"}"},
		{convstore.ToolResult{ID: "2", Text: "x"}, "- ? : 1 bytes", "result\n| x"},
		{convstore.ToolResult{ID: "2", Text: "x", IsError: true}, "- ? : error: x", "error\n| x"},
		{convstore.ModelCall{}, "", ""},
		{convstore.TurnEnd{State: convstore.StateOK}, "", ""},
		{convstore.TurnEnd{State: convstore.StateError, Reason: "x"}, "- ended: error: x", "ended error\n| x"},
		{convstore.ConfigDelta{}, "", ""},
		{convstore.Inquiry{Tool: "tool", Text: "x", Kind: "text"}, "- tool asked: x", ""},
		{convstore.InquiryAnswer{Answer: json.RawMessage(`"x"`)}, "- answered: \"x\"", ""},
		{convstore.Note{Kind: "resumed", Text: "x"}, "- note: x", ""},
		{convstore.Compaction{Summary: "x", Covered: 1}, "- compacted: about 0 tokens instead of 0: a summary for what was said before; print still shows everything", ""},
		{convstore.Opaque{Name: "new", Raw: json.RawMessage(`{"type":"new"}`)}, "", ""},
	}
	var there []string
	for _, tt := range tests {
		there = append(there, reflect.TypeOf(tt.body).Name())
		events := []convstore.Event{{Turn: 1, Body: convstore.TurnStart{}}, {Turn: 1, Body: tt.body}}
		if got := printed(t, events); got != tt.people {
			t.Errorf("printed %#v as %q, want %q", tt.body, got, tt.people)
		}
		if tt.model != "" {
			tt.model = "## turn 1: " + tt.model
		}
		if got := transcribed(t, events); got != tt.model {
			t.Errorf("transcript of %#v = %q, want %q", tt.body, got, tt.model)
		}
	}
	src, err := os.ReadFile("../../../../convstore/body.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range regexp.MustCompile(`(?m)^func \((\w+)\) kind\(\)`).FindAllSubmatch(src, -1) {
		if !slices.Contains(there, string(m[1])) {
			t.Errorf("%s: how is it shown?", m[1])
		}
	}
}

// printed returns what a Printer makes of events of one turn, but for its heading.
func printed(t *testing.T, events []convstore.Event) string {
	var b strings.Builder
	p := Printer{W: bufio.NewWriter(&b), IO: term.New(term.Options{}), Style: Brief, Calls: map[string]convstore.ToolCall{}}
	for _, ev := range events {
		if err := p.Event(ev); err != nil {
			t.Fatal(err)
		}
	}
	p.Pending()
	p.W.Flush()
	_, said, _ := strings.Cut(strings.TrimSpace(b.String()), "\n")
	return strings.TrimSpace(said)
}

// transcribed returns what the tools of package subtree make of events.
func transcribed(t *testing.T, events []convstore.Event) string {
	st, err := convstore.Open(filepath.Join(t.TempDir(), "store"), convstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	conv, err := st.Create(t.Context(), convstore.New{Config: convstore.Config{JSON: []byte("{}")}})
	if err != nil {
		t.Fatal(err)
	}
	log, err := st.Lock(t.Context(), conv.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if err := log.Append(t.Context(), events...); err != nil {
		t.Fatal(err)
	}
	text, _, err := subtree.Reader{Scope: convstore.Scope{View: st.View}}.Transcript(t.Context(), conv.ID, 0, 0, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	return text
}
