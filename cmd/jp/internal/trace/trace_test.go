package trace

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"jp/cmd/jp/internal/term"
	"jp/convstore"
)

var update = flag.Bool("update", false, "write the golden files anew")

// tree is a root that delegates two runs at once, one of them to a child that was removed, then
// fails.
type tree struct {
	Source
	events map[convstore.ID][]convstore.Event
}

const rootID, childID, goneID = convstore.ID(101), convstore.ID(102), convstore.ID(103)

var zero = time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)

func at(ms int) time.Time { return zero.Add(time.Duration(ms) * time.Millisecond) }

func (tr *tree) add(id convstore.ID, turn, ms int, b convstore.Body) {
	list := tr.events[id]
	tr.events[id] = append(list, convstore.Event{ID: fmt.Sprint(id, len(list)), Seq: uint64(len(list) + 1), Turn: turn, Time: at(ms), Body: b})
}

// hostile is what a model or a tool may say.
const hostile = "</script><script>document.title='owned'</script><img src=http://evil.example/x onerror=alert(1)>\x1b[31m\u202e -->\r"

func newTree(text string) *tree {
	cost, limit := int64(2_500_000), int64(8000)
	root := convstore.Conversation{ID: rootID, Root: rootID, Title: "Find " + text, Turns: 2, Status: "error", Reason: "no answer", CreatedAt: zero}
	child := convstore.Conversation{ID: childID, Parent: rootID, Root: rootID, Link: convstore.DelegationLink, Depth: 1, Title: "part one", Turns: 1, Status: "ok"}
	tr := &tree{events: map[convstore.ID][]convstore.Event{}}
	tr.Conversation, tr.Below, tr.Now = root, []convstore.Conversation{child}, at(9000)
	call := func(model string, in, out int64, nano *int64, ms int) convstore.ModelCall {
		return convstore.ModelCall{Model: model, Usage: convstore.Usage{Input: in, Output: out}, CostNano: nano, Stop: "tool_use", Duration: time.Duration(ms) * time.Millisecond}
	}
	tr.add(rootID, 1, 0, convstore.TurnStart{})
	tr.add(rootID, 1, 0, convstore.UserMessage{Text: "find it " + text})
	tr.add(rootID, 1, 1000, convstore.ToolCall{ID: "c1", Name: "jp_query", Source: "delegation", Arguments: []byte(`{"query":"one"}`)})
	tr.add(rootID, 1, 1000, convstore.ToolCall{ID: "c2", Name: "jp_query", Source: "delegation", Arguments: []byte(`{"query":"two"}`)})
	tr.add(rootID, 1, 1000, call("p/main", 1000, 100, &cost, 900))
	tr.add(childID, 1, 1300, convstore.TurnStart{})
	tr.add(childID, 1, 1300, convstore.UserMessage{Text: "one " + text})
	tr.add(childID, 1, 2300, convstore.ToolCall{ID: "t", Name: "fs_read_file", Source: "builtin", Arguments: []byte(`{"path":"a.txt"}`)})
	tr.add(childID, 1, 2300, call("p/small", 200, 20, &cost, 1000))
	tr.add(childID, 1, 2800, convstore.ToolResult{ID: "t", Text: "no such file " + text, IsError: true})
	tr.add(childID, 1, 3800, convstore.AssistantMessage{Text: "nothing there"})
	tr.add(childID, 1, 3800, call("p/small", 300, 30, nil, 900))
	tr.add(childID, 1, 3800, convstore.TurnEnd{State: convstore.StateOK})
	tr.add(rootID, 1, 4000, convstore.ToolResult{ID: "c1", Text: "<response>nothing there</response>"})
	tr.add(rootID, 1, 5000, convstore.ToolResult{ID: "c2", Text: "<response>gone</response>", IsError: true})
	tr.add(rootID, 1, 6000, convstore.AssistantMessage{Text: "it is not there"})
	tr.add(rootID, 1, 6000, call("p/main", 1200, 50, &cost, 1000))
	tr.add(rootID, 1, 6000, convstore.TurnEnd{State: convstore.StateOK})
	tr.add(rootID, 2, 7000, convstore.TurnStart{})
	tr.add(rootID, 2, 7000, convstore.UserMessage{Text: "again"})
	tr.add(rootID, 2, 8000, convstore.TurnEnd{State: convstore.StateError, Reason: "no answer " + text})
	delegation := func(n int, id convstore.ID, call string, begun, ended int, state convstore.State) convstore.Delegation {
		return convstore.Delegation{
			ID: fmt.Sprintf("jp-d%d", n), Root: rootID, Caller: rootID, Child: id, Call: call, Kind: "sub_complete", Profile: "agent/r", ProfileHash: strings.Repeat("ab", 32),
			Model: "p/small", Depth: 1, Turn: 1, ChildTurn: 1, Fresh: true, Session: 1, Reserved: at(1100), Started: at(begun), Ended: at(ended), State: state,
			Grant: convstore.Grant{Budget: convstore.Budget{Tokens: &limit}},
			Own:   convstore.Spend{Usage: convstore.Usage{Input: 500, Output: 50}, CostNano: cost}, ToolsAllowed: 1, ToolsTotal: 2, ToolsDenied: 1,
		}
	}
	tr.Delegations = []convstore.Delegation{
		delegation(1, childID, "c1", 1200, 3900, convstore.StateOK),
		delegation(2, goneID, "c2", 1200, 4900, convstore.StateTimeout),
		{ID: "jp-d3", Caller: 999, Child: 998, State: convstore.StateOK}, // of another branch of the ledger
	}
	tr.Delegations[1].Reason = "the deadline passed"
	tr.Events = func(ids []convstore.ID) iter.Seq2[convstore.EventIn, error] {
		return func(yield func(convstore.EventIn, error) bool) {
			for _, id := range ids {
				for _, ev := range tr.events[id] {
					if !yield(convstore.EventIn{Conversation: id, Event: ev}, nil) {
						return
					}
				}
			}
		}
	}
	return tr
}

func build(t testing.TB, tr *tree) *Trace {
	t.Helper()
	got, err := Build(tr.Source)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// golden compares with a file of testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s:\n%s\nwant\n%s", name, got, want)
	}
}

func textOf(t testing.TB, tr *Trace, width int, utf8 bool) string {
	t.Helper()
	var b strings.Builder
	w := bufio.NewWriter(&b)
	tr.Text(w, &term.IO{Width: width, UTF8: utf8})
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestText(t *testing.T) {
	tr := build(t, newTree("x"))
	for _, c := range []struct {
		name  string
		width int
		utf8  bool
	}{{"unlimited", 0, true}, {"100", 100, true}, {"60", 60, false}, {"30", 30, true}} {
		golden(t, "text-"+c.name+".txt", []byte(textOf(t, tr, c.width, c.utf8)))
	}
	long := textOf(t, build(t, newTree(strings.Repeat("long ", 40))), 0, false)
	if i := strings.IndexFunc(long, func(r rune) bool { return r > 0x7e }); i >= 0 {
		t.Errorf("a text for a locale without UTF-8 holds %q", long[i:min(len(long), i+10)])
	}
	evil := newTree("宽字符 " + hostile)
	evil.Conversation.Status = "ok" + hostile // as earlier versions imported it
	for width := 1; width < 130; width++ {
		for line := range strings.Lines(textOf(t, build(t, evil), width, true)) {
			if got := term.Width(strings.TrimSuffix(line, "\n")); got > width {
				t.Fatalf("width %d: a line of %d columns: %q", width, got, line)
			}
			if strings.ContainsAny(line, "\x1b\r\u202e") {
				t.Fatalf("width %d: %q reaches the terminal", width, line)
			}
		}
	}
}

// TestTextOfChain: spans that are one in the other are not indented without an end.
func TestTextOfChain(t *testing.T) {
	tr := &Trace{}
	var up *Span
	for depth := range maxIndent + 3 {
		up = &Span{Kind: ModelCall, Name: fmt.Sprint("m", depth), State: "ok", depth: depth, parent: up}
		tr.Spans = append(tr.Spans, up)
	}
	indent := strings.Repeat("   ", maxIndent)
	want := []string{indent[3:] + "`- m30", indent + "`- [31] m31", indent + "`- [32] m32"}
	lines := strings.Split(strings.TrimSpace(textOf(t, tr, 0, false)), "\n")
	for i, line := range lines[len(lines)-len(want):] {
		if label, _, _ := strings.Cut(line, "  ok"); strings.TrimRight(label, " ") != want[i] {
			t.Errorf("%q, want %q", label, want[i])
		}
	}
	var b strings.Builder
	w := bufio.NewWriter(&b)
	tr.Lines(w, &term.IO{}, tr.Spans[maxIndent:])
	_ = w.Flush()
	for i, line := range strings.Split(strings.TrimSuffix(b.String(), "\n"), "\n") {
		name := fmt.Sprint("  m", maxIndent+i)
		if at, want := strings.Index(line, name), strings.Index(b.String(), "  m"); at != want {
			t.Errorf("%q: the name is at %d, want %d", line, at, want)
		}
	}
}

func TestJSON(t *testing.T) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetIndent("", " ")
	if err := enc.Encode(build(t, newTree("x"))); err != nil {
		t.Fatal(err)
	}
	golden(t, "trace.json", b.Bytes())
}

// What runs has no end, and is drawn to now.
func TestBuildRunning(t *testing.T) {
	tr := newTree("x")
	tr.Conversation.Status, tr.Conversation.Turns = convstore.StatusRunning, 1
	tr.Below[0].Status = convstore.StatusRunning
	tr.events[rootID] = tr.events[rootID][:5]
	tr.events[childID] = tr.events[childID][:4]
	tr.Delegations = tr.Delegations[:1]
	tr.Delegations[0].State, tr.Delegations[0].Ended = "", time.Time{}
	got := build(t, tr)
	var lines []string
	for _, s := range got.Spans {
		lines = append(lines, fmt.Sprintf("%s %s %s ended=%v %.0f", s.Kind, s.Name, s.State, s.End != nil, s.DurationMS))
	}
	want := []string{
		"turn turn 1 running ended=false 9000",
		"model_call p/main ok ended=true 900",
		"delegation agent/r running ended=false 7900",
		"model_call p/small ok ended=true 1000",
		"tool_call fs_read_file running ended=false 6700",
		"tool_call jp_query running ended=false 8000",
	}
	if !slices.Equal(lines, want) || got.End != nil {
		t.Errorf("spans\n%s\nwant\n%s\nend %v", strings.Join(lines, "\n"), strings.Join(want, "\n"), got.End)
	}
}

// Nothing that events say makes a span end before it starts, or the tree lose one.
func TestBuildHostileTimes(t *testing.T) {
	tr := newTree("x")
	for id := range tr.events {
		for i := range tr.events[id] {
			ev := &tr.events[id][i]
			ev.Time = at(5000 - 700*i)
			if m, ok := ev.Body.(convstore.ModelCall); ok {
				m.Duration = -1 << 60
				ev.Body = m
			}
		}
	}
	tr.Delegations[0].Ended = at(-99999)
	got := build(t, tr)
	if n := len(build(t, newTree("x")).Spans); len(got.Spans) != n {
		t.Errorf("%d spans, want %d", len(got.Spans), n)
	}
	for _, s := range got.Spans {
		if s.DurationMS < 0 || s.End != nil && s.End.Before(s.Start) || s.Start.Before(got.Start) {
			t.Errorf("span %s: from %v to %v, %v ms", s.ID, s.Start, s.End, s.DurationMS)
		}
	}
}

// TestCallOrder: calls are in their order, although one that is refused has no delegation, and
// others have one that was reserved later.
func TestCallOrder(t *testing.T) {
	tr := newTree("x")
	events := tr.events[rootID]
	refused := func(id string) convstore.Event {
		return convstore.Event{ID: id, Turn: 1, Time: at(1000), Body: convstore.ToolCall{ID: id, Name: "jp_query", Arguments: []byte("{}")}}
	}
	i := slices.IndexFunc(events, func(e convstore.Event) bool { b, ok := e.Body.(convstore.ToolCall); return ok && b.ID == "c2" })
	events = slices.Insert(events, i, refused("no"))
	events = slices.Insert(events, i+3, convstore.Event{ID: "end", Turn: 1, Time: at(1050), Body: convstore.ToolResult{ID: "no", Text: "error: refused: too many\nmore", IsError: true}})
	for n := range events {
		events[n].Seq = uint64(n + 1)
	}
	tr.events[rootID] = events
	built, err := Build(tr.Source)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range built.Spans {
		if s.depth == 1 && s.TurnNumber == 1 {
			got = append(got, s.Kind+" "+s.Reason)
		}
	}
	want := []string{"model_call ", "delegation ", "tool_call refused: too many", "delegation ", "model_call "}
	if !slices.Equal(got[:2], want[:2]) || got[2] != want[2] || len(got) < 4 {
		t.Errorf("calls in the order %q, want %q", got, want)
	}
}

func TestBuildFailsWithTheEvents(t *testing.T) {
	tr := newTree("x")
	broken := errors.New("broken")
	tr.Events = func([]convstore.ID) iter.Seq2[convstore.EventIn, error] {
		return func(yield func(convstore.EventIn, error) bool) { yield(convstore.EventIn{}, broken) }
	}
	if _, err := Build(tr.Source); err != broken {
		t.Errorf("Build = %v, want %v", err, broken)
	}
}

func TestModelState(t *testing.T) {
	for stop, want := range map[string]string{"": "ok", "end_turn": "ok", "tool_use": "ok", "lost": "lost", "cut": "error", "broken": "error"} {
		if got, why := modelState(stop); got != want || (why == "") != (got == "ok") {
			t.Errorf("modelState(%q) = %s, %q, want %s and a reason unless it is ok", stop, got, why, want)
		}
	}
}

// TestBroken: what a broken reply says names who answered instead, and nobody where nobody did.
func TestBroken(t *testing.T) {
	spans := []*Span{{Name: "a", Stop: "broken"}, {Name: "a", Stop: "broken"}, {Name: "b", Stop: "end_turn"}, {Name: "b", Stop: "broken"}}
	at := reading{}
	for _, s := range spans {
		_, s.Reason = modelState(s.Stop)
		at.next(s)
	}
	for i, want := range []string{"the reply broke off, and was asked for again", "the reply broke off; b took over", "", "the reply broke off"} {
		if got := spans[i].Reason; got != want {
			t.Errorf("call %d: %q, want %q", i, got, want)
		}
	}
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		text  string
		start int
	}{{"short", 5}, {strings.Repeat("x", MaxText), MaxText}, {strings.Repeat("x", MaxText+1), MaxText},
		{strings.Repeat("x", MaxText-1) + "é", MaxText - 1}, {strings.Repeat("x", MaxText-2) + "é+", MaxText}, {strings.Repeat("x", MaxText-3) + "😀", MaxText - 3}} {
		start, n := cut(c.text)
		if len(start) != c.start || n != len(c.text) {
			t.Errorf("cut(%d bytes) = %d, %d, want %d", len(c.text), len(start), n, c.start)
		}
	}
}
