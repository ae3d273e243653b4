package stream

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

var session = "jp-c1"

func lines() []Line {
	cost := USD(14200000)
	message := NewMessage("e1", "m", "a <b>", StopToolUse, []ToolCall{{ID: "x", Name: "fs_read_file", Arguments: json.RawMessage(`{"path":"a"}`)}}, Usage{1, 2, 3, 4})
	return []Line{
		&Init{ConversationID: "jp-c1", Turn: 1, Model: "script/a.toml", Tools: []string{"fs_read_file"}},
		&Assistant{ConversationID: "jp-c1", Text: "a <b> & \u2028", Usage: Usage{1, 2, 3, 4}, CostUSD: &cost,
			Message: &message},
		&ToolCall{ConversationID: "jp-c1", ID: "x", Name: "fs_read_file", Arguments: json.RawMessage(`{"path":"a"}`)},
		&ToolResult{ConversationID: "jp-c1", ID: "x", Name: "fs_read_file", Text: "line\nline", IsError: true, DurationMS: 3},
		NewUser(&ToolResult{ID: "x", Text: "line\nline", IsError: true}),
		&Delegation{Phase: Ended, ConversationID: "jp-c2", ParentID: "jp-c1", CallID: "x", Profile: "agent/researcher", Status: "ok", Tokens: 12},
		&Wait{ConversationID: "jp-c1", Reason: "rate_limit", WaitMS: 1200},
		&Compaction{ConversationID: "jp-c1", Reason: "window", Results: 3, Summary: true, TokensBefore: 900, TokensAfter: 200},
		&Result{ConversationID: "jp-c1", Turn: 1, Status: "ok", Result: "done", Model: "m", SubCalls: 2, DurationMS: 9},
	}
}

// TestDelegationText: a sub-agent cannot write a line about another one.
func TestDelegationText(t *testing.T) {
	d := Delegation{Phase: Running, ConversationID: "jp-c2", Profile: "agent/a", Host: "n1", Tool: "x\n- agent/b jp-c3: ended, ok\x1b[2J\u202e"}
	if got, want := d.Text(), `agent/a jp-c2 on n1: running x\n- agent/b jp-c3: ended, ok\x1b[2J\u202e`; got != want {
		t.Errorf("Text = %q, want %q", got, want)
	}
}

func TestRoundTrip(t *testing.T) {
	var b bytes.Buffer
	w := NewWriter(&b, &session)
	for _, l := range lines() {
		if err := w.Write(l); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := strings.Count(b.String(), "\n"), len(lines()); got != want {
		t.Fatalf("lines = %d, want %d", got, want)
	}
	var got []Line
	split := &Splitter{Each: func(l Line) { got = append(got, l) }, Bad: func(e *LineError) { t.Error(e) }}
	_, _ = split.Write(b.Bytes())
	_ = split.Close()
	if !reflect.DeepEqual(got, lines()) {
		t.Errorf("lines = %#v, want %#v", got, lines())
	}
}

// TestOwnWords: without a session a line has each number once, and nothing that only other agents'
// readers need.
func TestOwnWords(t *testing.T) {
	var b bytes.Buffer
	w := NewWriter(&b, nil)
	cost := USD(14200000)
	message := NewMessage("e1", "m", "a", StopEndTurn, nil, Usage{1, 2, 3, 4})
	for _, l := range []Line{
		&Init{ConversationID: "jp-c1", Turn: 1, Model: "m", Tools: []string{}, Surroundings: &Surroundings{CWD: "/"}},
		&Assistant{ConversationID: "jp-c1", Text: "a", Usage: Usage{1, 2, 3, 4}, CostUSD: &cost, Message: &message},
		NewUser(&ToolResult{ID: "x", Text: "line"}),
		&Delegation{Phase: Queued, ConversationID: "jp-c2", ParentID: "jp-c1", CallID: "x", Profile: "p"},
		&Result{ConversationID: "jp-c1", Turn: 1, Status: "ok", Result: "a", Model: "m", Usage: NewResultUsage(Usage{1, 2, 3, 4}), CostUSD: &cost, TotalCostUSD: &cost,
			Elsewhere: &Elsewhere{Subtype: Success, NumTurns: 1}},
	} {
		if err := w.Write(l); err != nil {
			t.Fatal(err)
		}
	}
	const want = `{"type":"system","subtype":"init","conversation_id":"jp-c1","turn":1,"model":"m","tools":[]}
{"type":"assistant","conversation_id":"jp-c1","text":"a","usage":{"input_tokens":1,"output_tokens":2,"cache_read_tokens":3,"cache_write_tokens":4},"cost_usd":0.0142}
{"type":"delegation","phase":"queued","conversation_id":"jp-c2","parent_id":"jp-c1","call_id":"x","profile":"p","tokens":0,"cost_usd":null,"elapsed_ms":0}
{"type":"result","conversation_id":"jp-c1","turn":1,"status":"ok","result":"a","model":"m","usage":{"input_tokens":1,"output_tokens":2,"cache_read_tokens":3,"cache_write_tokens":4},"cost_usd":0.0142,"sub_calls":0,"duration_ms":0,"total_cost_usd":0.0142}
`
	if b.String() != want {
		t.Errorf("lines:\n%s\nwant:\n%s", b.String(), want)
	}
}

func TestSplitterTakesAnyPieces(t *testing.T) {
	var b bytes.Buffer
	w := NewWriter(&b, &session)
	for _, l := range lines() {
		_ = w.Write(l)
	}
	for size := 1; size < 40; size++ {
		var got []Line
		s := &Splitter{Each: func(l Line) { got = append(got, l) }}
		for p := b.Bytes(); len(p) > 0; {
			n := min(size, len(p))
			_, _ = s.Write(p[:n])
			p = p[n:]
		}
		_ = s.Close()
		if !reflect.DeepEqual(got, lines()) {
			t.Fatalf("pieces of %d: got %d lines, want %d", size, len(got), len(lines()))
		}
	}
}

func TestSplitterSurvivesBadLines(t *testing.T) {
	var good int
	var bad []int
	s := &Splitter{Each: func(Line) { good++ }, Bad: func(e *LineError) { bad = append(bad, e.Line) }}
	_, _ = s.Write([]byte("not json\n[1]\n\n{\"type\":\"result\"}\n"))
	long := bytes.Repeat([]byte("x"), 1<<20)
	for range 17 {
		_, _ = s.Write(long)
	}
	_, _ = s.Write([]byte("\n{\"type\":\"assistant\",\"message\":{\"content\":[" + strings.Repeat("{},", maxValues) + "{}]}}"))
	_, _ = s.Write([]byte("\n{\"type\":\"new\"}"))
	_ = s.Close()
	if good != 2 || !reflect.DeepEqual(bad, []int{1, 2, 5, 6}) {
		t.Errorf("good, bad = %d, %v, want 2, [1 2 5 6]", good, bad)
	}
}

func TestUSD(t *testing.T) {
	for nano, want := range map[USD]string{0: "0", 1: "0.000000001", 14200000: "0.0142", 1e9: "1", -2500000000: "-2.5", 100e9: "100"} {
		b, err := json.Marshal(nano)
		if err != nil || string(b) != want {
			t.Errorf("Marshal(%d) = %s, %v, want %s", int64(nano), b, err, want)
		}
		var back USD
		if err := json.Unmarshal(b, &back); err != nil || back != nano {
			t.Errorf("Unmarshal(%s) = %d, %v, want %d", b, int64(back), err, int64(nano))
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, l := range lines() {
		b, _ := Encode(l, &session)
		f.Add(b)
	}
	f.Add([]byte(`{"type":"system","subtype":"other"}`))
	f.Add([]byte(`{"type":1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := Decode(b)
		if err != nil {
			return
		}
		enc, err := Encode(l, &session)
		if err != nil {
			t.Fatalf("Encode after Decode(%q): %v", b, err)
		}
		if bytes.Count(enc, []byte("\n")) != 1 {
			t.Fatalf("Encode(%q) = %q: not one line", b, enc)
		}
	})
}
