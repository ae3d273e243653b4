package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/model/script"
	"jp/convstore"
	"jp/tools"
)

// run is a conversation with a scripted model and one tool, echo.
type run struct {
	t     testing.TB
	store *convstore.Store
	id    convstore.ID
	loop  *Loop
	log   *convstore.Log
}

func newRun(t testing.TB, rules string) *run {
	t.Helper()
	dir := t.TempDir()
	store, err := convstore.Open(filepath.Join(dir, "store"), convstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	conv, err := store.Create(t.Context(), convstore.New{Config: convstore.Config{JSON: json.RawMessage(`{}`)}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "m.toml"), []byte(rules), 0o600); err != nil {
		t.Fatal(err)
	}
	ask, info, err := model.Open(t.Context(), "script/m.toml", map[string]model.Provider{"script": script.New}, model.Providers{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	set, err := tools.NewSet(tools.Tool{
		Definition: tools.Definition{
			Name: "echo", Source: "builtin", Run: tools.RunUnattended, Parallel: true,
			Schema: json.RawMessage(`{"type":"object","properties":{"say":{"type":"string"}},"required":["say"],"additionalProperties":false}`),
		},
		Func: func(_ context.Context, c tools.Call) (tools.Result, error) {
			var a struct{ Say string }
			if err := json.Unmarshal(c.Arguments, &a); err != nil {
				return tools.Result{}, err
			}
			return tools.Result{Text: "echo " + a.Say}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	r := &run{t: t, store: store, id: conv.ID}
	r.lock()
	r.loop = &Loop{Log: r.log, Models: []Model{{Writer: Writer{Ask: ask, Model: info.ID, Name: info.Name}, Provider: info.Provider}}, Tools: tools.Executor{Set: set}}
	t.Cleanup(func() {
		_ = r.log.Close()
		if err := store.Check(context.Background()); err != nil {
			t.Errorf("store check: %v", err)
		}
	})
	return r
}

func (r *run) lock() {
	r.t.Helper()
	log, err := r.store.Lock(r.t.Context(), r.id)
	if err != nil {
		r.t.Fatal(err)
	}
	r.log = log
}

// history is the conversation in short: one line per event, usage left out.
func (r *run) history() string {
	r.t.Helper()
	var b strings.Builder
	for ev, err := range r.store.Events(r.t.Context(), r.id, convstore.Range{}) {
		if err != nil {
			r.t.Fatal(err)
		}
		switch e := ev.Body.(type) {
		case convstore.TurnStart:
			fmt.Fprintf(&b, "%d start\n", ev.Turn)
		case convstore.UserMessage:
			fmt.Fprintf(&b, "%d user %s\n", ev.Turn, e.Text)
		case convstore.AssistantMessage:
			fmt.Fprintf(&b, "%d assistant %s\n", ev.Turn, e.Text)
		case convstore.Reasoning:
			fmt.Fprintf(&b, "%d reasoning %s %.40q\n", ev.Turn, e.Text, e.Opaque)
		case convstore.ToolCall:
			fmt.Fprintf(&b, "%d call %s %s\n", ev.Turn, e.Name, e.Arguments)
		case convstore.ToolResult:
			fmt.Fprintf(&b, "%d result %v %.40s\n", ev.Turn, e.IsError, e.Text)
		case convstore.ModelCall:
			fmt.Fprintf(&b, "%d model %s\n", ev.Turn, e.Stop)
		case convstore.TurnEnd:
			fmt.Fprintf(&b, "%d end %s\n", ev.Turn, e.State)
		default:
			fmt.Fprintf(&b, "%d %s\n", ev.Turn, convstore.TypeOf(ev.Body))
		}
	}
	return b.String()
}

func (r *run) want(history string) {
	r.t.Helper()
	if got := r.history(); got != strings.TrimPrefix(history, "\n") {
		r.t.Errorf("history =\n%swant%s", got, history)
	}
}

func (r *run) send(ctx context.Context, text string) Outcome {
	r.t.Helper()
	out, err := r.loop.Send(ctx, convstore.UserMessage{Text: text})
	if err != nil {
		r.t.Fatal(err)
	}
	return out
}

const twoRounds = `
[[rule]]
round = 1
text = "Let me see."
tool_calls = [{ name = "echo", arguments = { say = "a" } }, { name = "echo", arguments = { say = "b" } }]
[[rule]]
round = 2
contains = "echo b"
text = "It says a and b."
`

func TestTurnWithTools(t *testing.T) {
	r := newRun(t, twoRounds)
	out := r.send(t.Context(), "what does it say?")
	if out.State != convstore.StateOK || out.Text != "It says a and b." || out.Turn != 1 {
		t.Errorf("Send = %+v", out)
	}
	got := r.history()
	head, tail, _ := strings.Cut(got, "1 model tool_use\n")
	if want := "1 start\n1 user what does it say?\n1 assistant Let me see.\n1 call echo {\"say\":\"a\"}\n1 call echo {\"say\":\"b\"}\n"; head != want {
		t.Errorf("first step =\n%swant\n%s", head, want)
	}
	if !strings.Contains(tail, "1 result false echo a\n") || !strings.Contains(tail, "1 result false echo b\n") || !strings.HasSuffix(tail, "1 assistant It says a and b.\n1 model end\n1 end ok\n") {
		t.Errorf("second step =\n%s", tail)
	}
}

func TestRoundLimitHandsIn(t *testing.T) {
	r := newRun(t, `
[[rule]]
no_calls = true
text = "So far: a."
[[rule]]
tool_calls = [{ name = "echo", arguments = { say = "a" } }]
`)
	r.loop.MaxRounds = 1
	out := r.send(t.Context(), "go")
	if out.State != convstore.StatePartial || out.Reason != "max_turns 1" || out.Text != "So far: a." {
		t.Errorf("Send = %+v", out)
	}
	r.want(`
1 start
1 user go
1 call echo {"say":"a"}
1 model tool_use
1 result false echo a
1 call echo {"say":"a"}
1 model tool_use
1 result true error: not run: the limit of 1 tool roun
1 assistant So far: a.
1 model end
1 end partial
`)
}

// TestClosingStopped: a turn that is stopped, or refused, in its closing call does not end by its limit.
func TestClosingStopped(t *testing.T) {
	for how, want := range map[string]convstore.State{"hang = true": convstore.StateCancelled, `stop = "refusal"`: convstore.StateRefused} {
		r := newRun(t, "[[rule]]\nno_calls = true\ntext = \"So far\"\n"+how+"\n[[rule]]\ntool_calls = [{ name = \"echo\", arguments = { say = \"a\" } }]\n")
		r.loop.MaxRounds = 1
		ctx, cancel := context.WithCancelCause(t.Context())
		r.loop.Watch.Text = func(string) {
			if want == convstore.StateCancelled {
				cancel(errors.New("ended by SIGINT"))
			}
		}
		if out := r.send(ctx, "go"); out.State != want || out.Limit != "" {
			t.Errorf("%s: ended %s at the limit %q, want %s at none", how, out.State, out.Limit, want)
		}
		cancel(nil)
	}
}

func TestCancelKeepsWhatWasSaid(t *testing.T) {
	r := newRun(t, `
[[rule]]
turn = 1
text = "The first half"
hang = true
[[rule]]
turn = 2
text = "and the second."
`)
	ctx, cancel := context.WithCancelCause(t.Context())
	stop := errors.New("ended by SIGINT")
	r.loop.Watch.Text = func(string) { cancel(stop) }
	out := r.send(ctx, "go")
	if out.State != convstore.StateCancelled || !strings.HasPrefix("The first half", out.Text) || out.Text == "" {
		t.Errorf("Send = %+v", out)
	}
	r.loop.Watch.Text = nil
	out, err := r.loop.Resume(t.Context())
	if err != nil || out.State != convstore.StateOK || out.Turn != 2 {
		t.Errorf("Resume = %+v, %v", out, err)
	}
	r.want(`
1 start
1 user go
1 assistant The first half
1 model cut
1 end cancelled
2 start
2 user Continue where you stopped.
2 assistant and the second.
2 model end
2 end ok
`)
	if _, err := r.loop.Resume(t.Context()); !errors.Is(err, ErrNothingToResume) {
		t.Errorf("Resume of a complete turn = %v, want ErrNothingToResume", err)
	}
}

// TestResumeAfterCrash goes on in the open turn of a process that is gone: one call had ended, one
// had not, one may be repeated.
func TestResumeAfterCrash(t *testing.T) {
	r := newRun(t, `
[[rule]]
round = 2
contains = ["interrupted"]
text = "One of them is unknown."
`)
	say := json.RawMessage(`{"say":"x"}`)
	err := r.log.Append(t.Context(),
		convstore.Event{Body: convstore.TurnStart{}}, convstore.Event{Body: convstore.UserMessage{Text: "go"}},
		convstore.Event{Body: convstore.ToolCall{ID: "1", Name: "done", Arguments: say}},
		convstore.Event{Body: convstore.ToolCall{ID: "2", Name: "unknown", Arguments: say}},
		convstore.Event{Body: convstore.ToolCall{ID: "3", Name: "echo", Arguments: say}},
		convstore.Event{Body: convstore.ModelCall{Stop: "tool_use"}},
		convstore.Event{Body: convstore.ToolResult{ID: "1", Text: "was done"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.log.Close(); err != nil {
		t.Fatal(err)
	}
	r.lock()
	r.loop.Log = r.log
	r.loop.Repeat = func(tool string) bool { return tool == "echo" }
	r.loop.Asked = convstore.Digest{7}
	out, err := r.loop.Resume(t.Context())
	if err != nil || out.State != convstore.StateOK || out.Turn != 1 {
		t.Errorf("Resume = %+v, %v", out, err)
	}
	if a, ok, err := r.store.Answer(t.Context(), r.loop.Asked, 0); ok || err != nil {
		t.Errorf("a turn that was resumed is the answer %v, %v", a, err)
	}
	r.want(`
1 start
1 user go
1 call done {"say":"x"}
1 call unknown {"say":"x"}
1 call echo {"say":"x"}
1 model tool_use
1 result false was done
1 result true error: interrupted: jp ended before this
1 result false echo x
1 assistant One of them is unknown.
1 model end
1 end ok
`)
}

func TestSendAfterCrashAnswersOpenCalls(t *testing.T) {
	r := newRun(t, "[[rule]]\ntext = \"ok\"\n")
	if err := r.log.Append(t.Context(), convstore.Event{Body: convstore.TurnStart{}}, convstore.Event{Body: convstore.UserMessage{Text: "go"}},
		convstore.Event{Body: convstore.ToolCall{ID: "1", Name: "echo", Arguments: json.RawMessage(`{}`)}},
		convstore.Event{Body: convstore.ModelCall{Stop: "tool_use"}}); err != nil {
		t.Fatal(err)
	}
	if out := r.send(t.Context(), "never mind"); out.State != convstore.StateOK || out.Turn != 2 {
		t.Errorf("Send = %+v", out)
	}
	r.want(`
1 start
1 user go
1 call echo {}
1 model tool_use
1 result true error: interrupted: jp ended before this
2 start
2 user never mind
2 assistant ok
2 model end
2 end ok
`)
}

func TestEnds(t *testing.T) {
	tests := []struct {
		name, rules string
		state       convstore.State
		reason      string
		text        string
	}{
		{"empty", "[[rule]]\ntext = \"\"", convstore.StateEmpty, "the model said nothing", ""},
		{"empty after tools", "[[rule]]\nround = 1\ntext = \"I look.\"\ntool_calls = [{ name = \"echo\", arguments = { say = \"a\" } }]\n[[rule]]\ntext = \"\"", convstore.StateEmpty, "the model said nothing", ""},
		{"invisible", "[[rule]]\ntext = \"\\u200B \\u2060\\n\"", convstore.StateEmpty, "the model said nothing", "\u200b \u2060\n"},
		{"cut by the model", "[[rule]]\ntext = \"half\"\nstop = \"max_tokens\"", convstore.StatePartial, "max_tokens", "half"},
		{"cut before a word", "[[rule]]\ntext = \"\"\nstop = \"max_tokens\"", convstore.StateBudget, "max_tokens", ""},
		{"refusal", "[[rule]]\ntext = \"no\"\nstop = \"refusal\"", convstore.StateRefused, "the model refused", "no"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := newRun(t, tt.rules)
			out := r.send(t.Context(), "go")
			if out.State != tt.state || out.Reason != tt.reason || out.Text != tt.text {
				t.Errorf("Send = %+v, want %s %q %q", out, tt.state, tt.reason, tt.text)
			}
		})
	}
}

func TestProviderErrorIsNotAnAnswer(t *testing.T) {
	r := newRun(t, "[[rule]]\ntext = \"half an\"\nerror = { kind = \"overloaded\", status = 529, message = \"busy\" }")
	out := r.send(t.Context(), "go")
	var e *model.Error
	if out.State != convstore.StateError || !errors.As(out.Err, &e) || e.Status != 529 {
		t.Errorf("Send = %+v, want the provider's error", out)
	}
	r.want(`
1 start
1 user go
1 assistant half an
1 model cut
1 end error
`)
}

// TestResumeSaysItOnce: while a provider is down, a turn is resumed again and again, and its model is asked to
// continue once.
func TestResumeSaysItOnce(t *testing.T) {
	r := newRun(t, "[[rule]]\nattempt = 1\nerror = { kind = \"auth\", status = 401, message = \"no\" }")
	r.send(t.Context(), "go")
	for range 3 {
		if out, err := r.loop.Resume(t.Context()); err != nil || out.State != convstore.StateError {
			t.Fatalf("Resume = %+v, %v, want the provider's error", out, err)
		}
	}
	h, err := readHistory(t.Context(), r.log)
	if err != nil {
		t.Fatal(err)
	}
	msgs := Thread(h.events, "")
	if len(msgs) != 1 || len(msgs[0].Content) != 2 || msgs[0].Content[0].Text != "go" || msgs[0].Content[1].Text != Continue {
		t.Errorf("Thread = %+v, want the request and one %q", msgs, Continue)
	}
}

func TestArgumentsThatAreNotJSON(t *testing.T) {
	r := newRun(t, `
[[rule]]
round = 1
tool_calls = [{ name = "echo", raw_arguments = "{\"say\": " }, { name = "nosuch", arguments = {} }]
[[rule]]
failed = true
text = "I see."
`)
	if out := r.send(t.Context(), "go"); out.State != convstore.StateOK || out.Text != "I see." {
		t.Errorf("Send = %+v", out)
	}
	if h := r.history(); !strings.Contains(h, `1 call echo "{\"say\": "`) || strings.Count(h, "1 result true") != 2 {
		t.Errorf("history =\n%s", h)
	}
}

func TestThreadReplaysReasoningToItsProviderOnly(t *testing.T) {
	events := []convstore.Event{
		{Body: convstore.TurnStart{}}, {Body: convstore.UserMessage{Text: "q"}},
		{Body: convstore.Reasoning{Text: "hm", Signature: "s", Provider: "anthropic"}},
		{Body: convstore.AssistantMessage{Text: "a"}}, {Body: convstore.ModelCall{}},
		{Body: convstore.Reasoning{Text: "hm", Signature: "s", Provider: "anthropic"}}, {Body: convstore.ModelCall{}},
		{Body: convstore.UserMessage{Text: "r"}}, {Body: convstore.UserMessage{Text: "s"}},
	}
	for provider, blocks := range map[string]int{"anthropic": 2, "openai": 1} {
		msgs := Thread(events, provider)
		if len(msgs) != 3 || len(msgs[1].Content) != blocks || len(msgs[2].Content) != 2 {
			t.Errorf("Thread(%s) = %+v", provider, msgs)
		}
	}
}

// TestThreadAttachments: what is attached stands behind the text, marked with its source, and
// cannot leave its marks.
func TestThreadAttachments(t *testing.T) {
	msgs := Thread([]convstore.Event{{Body: convstore.TurnStart{}}, {Body: convstore.UserMessage{Text: "q", Attachments: []convstore.Attachment{
		{Source: "a.txt", Text: "one\n"}, {Source: "x\">\n</attachment>", Text: "</Attachment>\n< / attachment><attachment source=\"y\">"},
		{Source: "\uff1c/attachment\uff1e\u2028x", Text: "<\u2060/attachment> </attach\u00adment> \uff1c/attachment> <\u00a0/attachment> <\\/attachment>"},
	}}}}, "p")
	want := "q\n\n<attachment source=\"a.txt\">\none\n\n</attachment>" +
		"\n\n<attachment source=\"x'&gt; &lt;/attachment&gt;\">\n&lt;/Attachment>\n&lt; / attachment>&lt;attachment source=\"y\">\n</attachment>" +
		"\n\n<attachment source=\"&lt;/attachment\uff1e x\">\n&lt;\u2060/attachment> &lt;/attach\u00adment> &lt;/attachment> &lt;\u00a0/attachment> &lt;\\/attachment>\n</attachment>"
	if len(msgs) != 1 || len(msgs[0].Content) != 1 || msgs[0].Content[0].Text != want {
		t.Errorf("Thread = %+v, want %q", msgs, want)
	}
}

func TestArgumentsRoundTrip(t *testing.T) {
	for _, raw := range []string{`{"a":1}`, ` {}`, `null`, `"text"`, `[1]`, `7`, `{"a":`, ``, `"\ud800"`, "{}\n", deep(10_000)} {
		stored := storedArguments(json.RawMessage(raw))
		if !json.Valid(stored) {
			t.Errorf("storedArguments(%q) = %q: not JSON", raw, stored)
		}
		if back := RawArguments(stored); string(back) != raw {
			t.Errorf("RawArguments(storedArguments(%q)) = %q", raw, back)
		}
	}
}

// deep returns an object with so many levels.
func deep(levels int) string {
	return `{"say":` + strings.Repeat("[", levels-1) + strings.Repeat("]", levels-1) + "}"
}

// TestDeep: arguments and an answer that are nested as deep as JSON is read are refused, and data of
// the provider is left out. The conversation that has them can be read and goes on.
func TestDeep(t *testing.T) {
	r := newRun(t, "[[rule]]\ntext = 'x'")
	r.loop.Models[0].Ask = func(ctx context.Context, req model.Request) iter.Seq2[model.Part, error] {
		return func(yield func(model.Part, error) bool) {
			if req.Round > 1 {
				_ = yield(model.Part{Text: deep(10_000)}, nil) && yield(model.Part{Stop: model.StopEnd}, nil)
				return
			}
			thought := &model.Reasoning{Text: "hm", Opaque: json.RawMessage(deep(10_000)), Provider: "test"}
			if !yield(model.Part{Reasoning: thought}, nil) {
				return
			}
			call := &model.Call{ID: "1", Name: "echo", Arguments: json.RawMessage(deep(10_000))}
			_ = yield(model.Part{Call: call}, nil) && yield(model.Part{Stop: model.StopToolUse}, nil)
		}
	}
	out, err := r.loop.Send(t.Context(), convstore.UserMessage{Text: "go", Schema: json.RawMessage(`{}`)})
	if err != nil || out.Reason != "schema: nested deeper than 1000 levels" {
		t.Fatalf("Send = %+v, %v", out, err)
	}
	inner := strings.Repeat("[", 9_999) + strings.Repeat("]", 9_999)
	if got, want := strings.ReplaceAll(r.history(), inner, "…"), `1 start
1 user go
1 reasoning hm ""
1 call echo "{\"say\":…}"
1 model tool_use
1 result true error: arguments of echo: nested deeper 
1 assistant {"say":…}
1 model end
1 note
1 assistant {"say":…}
1 model end
1 end error
`; got != want {
		t.Errorf("history =\n%s, want\n%s", got, want)
	}
}

// TestResumeCountsTheLostCall: a turn has used what the call of its process may have used that died
// while it was asked.
func TestResumeCountsTheLostCall(t *testing.T) {
	r := newRun(t, "[[rule]]\ntext = \"ok\"\nusage = { input = 3, output = 2 }\n")
	lost := func(convstore.Account) *convstore.Call {
		return &convstore.Call{Model: "m/gone", Usage: convstore.Usage{Input: 40, Output: 7}}
	}
	if err := r.log.Begin(t.Context(), lost, convstore.Event{Body: convstore.TurnStart{}}, convstore.Event{Body: convstore.UserMessage{Text: "go"}}); err != nil {
		t.Fatal(err)
	}
	if err := r.log.Close(); err != nil {
		t.Fatal(err)
	}
	r.lock()
	r.loop.Log, r.loop.Limits = r.log, &convstore.Limits{}
	out, err := r.loop.Resume(t.Context())
	if want := (convstore.Usage{Input: 43, Output: 9}); err != nil || out.Text != "ok" || out.Usage != want {
		t.Errorf("Resume = %+v, %v, want a use of %+v", out, err, want)
	}
	want := map[string]convstore.Spend{
		"m/gone":        {Usage: convstore.Usage{Input: 40, Output: 7}, Unpriced: 1},
		"script/m.toml": {Usage: convstore.Usage{Input: 3, Output: 2}, Unpriced: 1},
	}
	if !maps.Equal(out.Models, want) {
		t.Errorf("by model %+v, want %+v", out.Models, want)
	}
	r.want(`
1 start
1 user go
1 model lost
1 assistant ok
1 model end
1 end ok
`)
}

// TestResumeLate repeats a call that takes all the time that there is: the time of the closing call is
// left.
func TestResumeLate(t *testing.T) {
	r := newRun(t, "[[rule]]\nno_calls = true\ntext = \"So far: a.\"\n")
	r.loop.Repeat = func(string) bool { return true }
	set, err := tools.NewSet(tools.Tool{
		Definition: tools.Definition{Name: "wait", Source: "builtin", Run: tools.RunUnattended, Schema: json.RawMessage(`{"type":"object"}`)},
		Func: func(ctx context.Context, _ tools.Call) (tools.Result, error) {
			<-ctx.Done()
			return tools.Result{}, context.Cause(ctx)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	r.loop.Tools.Set = set
	if err := r.log.Append(t.Context(),
		convstore.Event{Body: convstore.TurnStart{}}, convstore.Event{Body: convstore.UserMessage{Text: "go"}},
		convstore.Event{Body: convstore.ToolCall{ID: "1", Name: "wait", Arguments: json.RawMessage("{}")}}, convstore.Event{Body: convstore.ModelCall{}}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	out, err := r.loop.Resume(ctx)
	if err != nil || out.State != convstore.StatePartial || out.Text != "So far: a." {
		t.Errorf("Resume = %+v, %v", out, err)
	}
}

// TestResumeAwaits waits for an earlier run in nearly all the time that there is: the call that is made again
// still gets its answer.
func TestResumeAwaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRun(t, "[[rule]]\ncontains = \"echo x\"\ntext = \"It says x.\"\n")
		r.loop.Repeat = func(string) bool { return true }
		r.loop.Await = func(context.Context, []string) error {
			time.Sleep(50 * time.Second)
			return nil
		}
		if err := r.log.Append(t.Context(),
			convstore.Event{Body: convstore.TurnStart{}}, convstore.Event{Body: convstore.UserMessage{Text: "go"}},
			convstore.Event{Body: convstore.ToolCall{ID: "1", Name: "echo", Arguments: json.RawMessage(`{"say":"x"}`)}}, convstore.Event{Body: convstore.ModelCall{}}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		out, err := r.loop.Resume(ctx)
		if err != nil || out.State != convstore.StateOK || out.Text != "It says x." {
			t.Errorf("Resume = %+v, %v", out, err)
		}
	})
}

// TestResumeAfterCut goes on after a crash between a reply that was cut off at the deadline and its closing call.
func TestResumeAfterCut(t *testing.T) {
	r := newRun(t, "[[rule]]\nround = 1\ncontains = \"was cut off\"\ntool_calls = [{ name = \"echo\", arguments = { say = \"a\" } }]\n"+
		"[[rule]]\nround = 2\ncontains = [\"was cut off\", \"echo a\"]\ntext = \"It says a.\"\n")
	if err := r.log.Append(t.Context(),
		convstore.Event{Body: convstore.TurnStart{}}, convstore.Event{Body: convstore.UserMessage{Text: "go"}},
		convstore.Event{Body: convstore.AssistantMessage{Text: "It s"}}, convstore.Event{Body: convstore.ModelCall{Stop: string(StopCut)}}); err != nil {
		t.Fatal(err)
	}
	out, err := r.loop.Resume(t.Context())
	if err != nil || out.State != convstore.StateOK || out.Text != "It says a." {
		t.Errorf("Resume = %+v, %v", out, err)
	}
	r.want(`
1 start
1 user go
1 assistant It s
1 model cut
1 note
1 call echo {"say":"a"}
1 model tool_use
1 result false echo a
1 assistant It says a.
1 model end
1 end ok
`)
}

// TestResumeAtTheLimit goes on after a crash between the reply that asked for one round too many
// and its refusal.
func TestResumeAtTheLimit(t *testing.T) {
	r := newRun(t, "[[rule]]\nno_calls = true\ntext = \"So far: a.\"\n")
	r.loop.MaxRounds = 1
	r.loop.Repeat = func(string) bool { return true }
	say := json.RawMessage(`{"say":"x"}`)
	if err := r.log.Append(t.Context(),
		convstore.Event{Body: convstore.TurnStart{}}, convstore.Event{Body: convstore.UserMessage{Text: "go"}},
		convstore.Event{Body: convstore.ToolCall{ID: "1", Name: "echo", Arguments: say}}, convstore.Event{Body: convstore.ModelCall{}},
		convstore.Event{Body: convstore.ToolResult{ID: "1", Text: "echo x"}},
		convstore.Event{Body: convstore.ToolCall{ID: "2", Name: "echo", Arguments: say}}, convstore.Event{Body: convstore.ModelCall{}}); err != nil {
		t.Fatal(err)
	}
	out, err := r.loop.Resume(t.Context())
	if err != nil || out.State != convstore.StatePartial || out.Text != "So far: a." {
		t.Errorf("Resume = %+v, %v", out, err)
	}
	if h := r.history(); strings.Count(h, "result false") != 1 || !strings.Contains(h, "result true error: not run") {
		t.Errorf("history =\n%s", h)
	}
}

// TestNoAgent: a turn of a command that only delegates is not resumed. What earlier versions began has no mark.
func TestNoAgent(t *testing.T) {
	for _, tt := range []struct {
		mark   bool
		words  string
		called bool
		want   bool
	}{
		{true, "batch of 3 queries, from a shell", false, true},
		{false, "batch of queries, from a shell", false, true},
		{false, "the rest: batch of 1 query, shard 1/2, from a shell", false, true},
		{false, "an MCP client", false, true},
		{false, "an MCP client", true, false},
		{false, "go", false, false},
	} {
		r := newRun(t, "[[rule]]\ntext = \"on\"\n")
		turn := []convstore.Event{{Body: convstore.TurnStart{NoAgent: tt.mark}}, {Body: convstore.UserMessage{Text: tt.words}}}
		if tt.called {
			turn = append(turn, convstore.Event{Body: convstore.ModelCall{}})
		}
		if err := r.log.Append(t.Context(), turn...); err != nil {
			t.Fatal(err)
		}
		if _, err := r.loop.Resume(t.Context()); errors.Is(err, ErrNothingToResume) != tt.want || err != nil && !tt.want {
			t.Errorf("Resume of %+v = %v", tt, err)
		}
	}
}
