package agent

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"

	"jp/cmd/jp/internal/model"
	"jp/convstore"
	"jp/tools"
)

// reader reads three times in a turn, and answers by what it is sent then. What is read has 2000
// bytes.
const reader = `
[[rule]]
system = "You condense"
contains = "refuse"
stop = "refusal"
[[rule]]
system = "You condense"
text = "read so far"
[[rule]]
round = [1, 2, 3]
query = "work"
text = "reading {{n}}"
captures = { n = '(?:work|echo) (\w)' }
tool_calls = [{ name = "echo", arguments = { say = "{{n}}" } }]
[[rule]]
text = "done"
`

// compacting is a run whose requests are kept, with a tool that says 2000 bytes.
func compacting(t *testing.T, rules string, limit int64) (r *run, sent *[]model.Request, made *[]convstore.Compaction) {
	r = newRun(t, rules)
	echo, _ := r.loop.Tools.Set.Get("echo")
	echo.Func = func(context.Context, tools.Call) (tools.Result, error) {
		return tools.Result{Text: "echo x " + strings.Repeat("x", 2000)}, nil
	}
	set, err := tools.NewSet(echo)
	if err != nil {
		t.Fatal(err)
	}
	r.loop.Tools.Set = set
	sent, made = new([]model.Request), new([]convstore.Compaction)
	ask := r.loop.Models[0].Ask
	r.loop.Models[0].Ask = func(ctx context.Context, req model.Request) iter.Seq2[model.Part, error] {
		if err := req.Check(); err != nil {
			t.Errorf("request %d: %v", len(*sent)+1, err)
		}
		if short := req.Round == 0 || req.ToolChoice == "none"; req.Brief != short { // summaries and closing calls
			t.Errorf("request %d: brief %t", len(*sent)+1, req.Brief)
		}
		*sent = append(*sent, req)
		return ask(ctx, req)
	}
	r.loop.Models[0].Limit = limit
	r.loop.Watch.Compacted = func(c convstore.Compaction) { *made = append(*made, c) }
	return r, sent, made
}

// outline tells of a request what was sent of each message.
func outline(req model.Request) string {
	var parts []string
	for _, m := range req.Messages {
		for _, c := range m.Content {
			switch {
			case c.Call != nil:
				parts = append(parts, "call")
			case c.Result != nil && strings.HasPrefix(c.Result.Text, "[the result of"):
				parts = append(parts, "stub")
			case c.Result != nil:
				parts = append(parts, "result")
			case strings.Contains(c.Text, "<summary>"):
				parts = append(parts, "summary")
			case strings.HasPrefix(c.Text, "<record>"):
				parts = append(parts, "record")
			default:
				parts = append(parts, c.Text)
			}
		}
	}
	return strings.Join(parts, ", ")
}

func outlines(reqs []model.Request) string {
	var lines []string
	for _, r := range reqs {
		lines = append(lines, outline(r))
	}
	return strings.Join(lines, "\n")
}

func TestCompactsResultsFirst(t *testing.T) {
	r, sent, made := compacting(t, reader, 1500)
	if out := r.send(t.Context(), "work a"); out.State != convstore.StateOK {
		t.Fatalf("%+v", out)
	}
	want := `work a
work a, reading a, call, result
work a, reading a, call, result, reading a, call, result
work a, reading a, call, stub, reading a, call, stub, reading a, call, result`
	if got := outlines(*sent); got != want {
		t.Errorf("sent\n%s\nwant\n%s", got, want)
	}
	if len(*made) != 1 || len((*made)[0].Results) != 2 || (*made)[0].Summary != "" || (*made)[0].Before <= 1500 || (*made)[0].After > 1125 {
		t.Errorf("compactions: %+v", *made)
	}
}

// TestCompactsInsideATurn: with no result long enough to be left out, the turn itself is
// summarized: its request stays as it was made, and so does its last round.
func TestCompactsInsideATurn(t *testing.T) {
	r, sent, made := compacting(t, strings.ReplaceAll(reader, `text = "reading {{n}}"`, `text = "reading {{n}} `+strings.Repeat("y", 6000)+`"`), 6000)
	// every call fails, in few words
	r.loop.Tools.Set = r.loop.Tools.Set.Narrow(func(string, string) bool { return false })
	out := r.send(t.Context(), "work a")
	if out.State != convstore.StateOK || out.Text != "done" {
		t.Fatalf("%+v\n%s", out, outlines(*sent))
	}
	if len(*made) != 1 || (*made)[0].Summary != "read so far" || (*made)[0].Model != r.loop.Models[0].Model {
		t.Fatalf("compactions: %+v", *made)
	}
	final := outline((*sent)[len(*sent)-1])
	if !strings.HasPrefix(final, "summary, The request that is being worked on:, work a, ") || strings.Count(final, "call") != 1 {
		t.Errorf("sent %.300s", final)
	}
	var sum convstore.Usage
	calls := 0
	for ev, err := range r.store.Events(t.Context(), r.id, convstore.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		if c, ok := ev.Body.(convstore.ModelCall); ok {
			calls++
			sum = sum.Add(c.Usage)
		}
	}
	if conv, err := r.store.Get(t.Context(), r.id); err != nil || conv.Usage != sum || out.Usage != sum || calls != 5 {
		t.Errorf("used %+v (%d calls), the conversation says %+v, the outcome %+v, %v", sum, calls, conv.Usage, out.Usage, err)
	}
}

// TestCompactFails: where no summary can be had the turn goes on, and a note says why; it is not
// tried again in that turn.
func TestCompactFails(t *testing.T) {
	long := strings.Repeat("z", 9000)
	for name, test := range map[string]struct {
		query string
		set   func(*Loop)
		want  string
	}{
		"refused": {"refuse " + long, func(*Loop) {}, "no summary: the model refused"},
		"no model": {long, func(l *Loop) {
			l.Compact.Writer = func(context.Context) (Writer, error) { return Writer{}, errors.New("no key") }
		}, "no summary: no key"},
	} {
		t.Run(name, func(t *testing.T) {
			r, _, made := compacting(t, reader, 0)
			r.send(t.Context(), test.query)
			r.loop.Models[0].Limit = 2000
			test.set(r.loop)
			var notes []string
			r.loop.Watch.Note = func(n convstore.Note) { notes = append(notes, n.Text) }
			if out := r.send(t.Context(), "work b"); out.Text != "done" {
				t.Errorf("%+v", out)
			}
			if len(notes) != 1 || !strings.HasSuffix(notes[0], test.want) || len(*made) != 0 {
				t.Errorf("notes %q, compactions %+v, want one note that ends with %q", notes, *made, test.want)
			}
		})
	}
}

// TestCompactBudget: a summary is a call like others, and none is made for which too little is
// left.
func TestCompactBudget(t *testing.T) {
	r, sent, _ := compacting(t, reader, 0)
	r.send(t.Context(), strings.Repeat("z", 9000))
	r.loop.Models[0].Limit = 2000
	n := int64(2500)
	r.loop.Limits = &convstore.Limits{Run: convstore.Budget{Tokens: &n}}
	var notes []string
	r.loop.Watch.Note = func(n convstore.Note) { notes = append(notes, n.Text) }
	*sent = nil
	r.send(t.Context(), "work b")
	if len(notes) != 1 || !strings.HasSuffix(notes[0], "no summary: the token budget is used up") || strings.Contains(outlines(*sent), "record") {
		t.Errorf("notes %q, sent\n%.500s", notes, outlines(*sent))
	}
}

// TestCompactsAfterRefusal: a request that the provider finds too long is made shorter and asked
// again, once.
func TestCompactsAfterRefusal(t *testing.T) {
	for _, most := range []int64{3500, 100} {
		t.Run(fmt.Sprint(most), func(t *testing.T) {
			r, _, made := compacting(t, reader, 0)
			r.send(t.Context(), strings.Repeat("z", 15000))
			ask, refused := r.loop.Models[0].Ask, 0
			r.loop.Models[0].Ask = func(ctx context.Context, req model.Request) iter.Seq2[model.Part, error] {
				if req.Estimate() > most && !strings.HasPrefix(outline(req), "record") {
					refused++
					return func(yield func(model.Part, error) bool) {
						yield(model.Part{}, &model.Error{Kind: model.KindContext, Status: 400, Message: "too long"})
					}
				}
				return ask(ctx, req)
			}
			out := r.send(t.Context(), "hello")
			if most == 100 {
				if out.State != convstore.StateError || refused != 2 || len(*made) != 1 {
					t.Errorf("%+v, %d refused, %+v", out, refused, *made)
				}
				return
			}
			if out.Text != "done" || refused != 1 || len(*made) != 1 || (*made)[0].Reason != compactProvider {
				t.Errorf("%+v, %d refused, %+v", out, refused, *made)
			}
			r.loop.Compact.Off = true
			if out := r.send(t.Context(), strings.Repeat("z", 15000)); out.State != convstore.StateError {
				t.Errorf("off: %+v", out)
			}
		})
	}
}

func TestShorten(t *testing.T) {
	r, sent, _ := compacting(t, reader, 0)
	if _, _, err := r.loop.Shorten(t.Context(), CompactOptions{}); !errors.Is(err, ErrNothingToCompact) {
		t.Errorf("of nothing: %v", err)
	}
	for i := range 3 {
		r.send(t.Context(), fmt.Sprintf("work %d", i))
	}
	before := r.history()
	dry, _, err := r.loop.Shorten(t.Context(), CompactOptions{Keep: 1, DryRun: true})
	if err != nil || len(dry.Results) != 6 || dry.Covered == 0 || dry.After >= dry.Before || r.history() != before {
		t.Errorf("dry run: %+v, %v", dry, err)
	}
	*sent = nil
	c, _, err := r.loop.Shorten(t.Context(), CompactOptions{Keep: 1, ToolsOnly: true})
	if err != nil || len(c.Results) != 6 || c.Summary != "" || len(*sent) != 0 {
		t.Errorf("tools only: %+v, %v", c, err)
	}
	if _, _, err = r.loop.Shorten(t.Context(), CompactOptions{Keep: 1, ToolsOnly: true}); !errors.Is(err, ErrNothingToCompact) {
		t.Errorf("again: %v", err)
	}
	c, call, err := r.loop.Shorten(t.Context(), CompactOptions{Keep: 1})
	if err != nil || c.Summary != "read so far" || call.Usage.Output == 0 || c.After >= c.Before {
		t.Errorf("with a summary: %+v, %+v, %v", c, call, err)
	}
	if c, _, err = r.loop.Shorten(t.Context(), CompactOptions{Keep: 0}); err != nil || c.Kept != 0 || c.Covered == 0 {
		t.Errorf("of all: %+v, %v", c, err)
	}
	*sent = nil
	r.send(t.Context(), "hello")
	if got, want := outlines(*sent), "summary, hello"; got != want {
		t.Errorf("sent %q, want %q", got, want)
	}
	if got := r.history(); !strings.HasPrefix(got, before) {
		t.Errorf("history =\n%s\nwant it to begin with\n%s", got, before)
	}
}

// TestShortenWithStubs: a summary that makes the conversation longer than stubs alone do is not
// stored.
func TestShortenWithStubs(t *testing.T) {
	long := strings.NewReplacer("[1, 2, 3]", "1", "read so far", strings.Repeat("read so far ", 40))
	r, _, _ := compacting(t, long.Replace(reader), 0)
	r.send(t.Context(), "work a"+strings.Repeat("b", 300))
	stubs, _, err := r.loop.Shorten(t.Context(), CompactOptions{DryRun: true, ToolsOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	c, _, err := r.loop.Shorten(t.Context(), CompactOptions{})
	if err != nil || len(c.Results) != 1 || c.Summary != "" || c.After != stubs.After {
		t.Errorf("%+v, %v, want %+v", c, err, stubs)
	}
}

// BenchmarkSummaryEnd finds where a summary ends in conversations of a few bytes an event.
func BenchmarkSummaryEnd(b *testing.B) {
	for _, n := range []int{1_000, 10_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			r := newRun(b, "[[rule]]\ntext = \"x\"\n")
			k := r.loop.newTurn(&history{log: r.loop.Log, turn: n}, nil).compactor
			for i := range n {
				k.history.events = append(k.history.events, k.history.made(convstore.TurnStart{}, convstore.UserMessage{Text: fmt.Sprint("question ", i)}, convstore.AssistantMessage{Text: "answer"})...)
			}
			c := convstore.Compaction{Before: k.sized()}
			for b.Loop() {
				if k.summaryEnd(c, c.Before/2, len(k.history.events)-3) == 0 {
					b.Fatal("no place")
				}
			}
		})
	}
}
