package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
	"unicode"
)

// answers is a Prompter that gives one answer after another.
type answers struct {
	t       testing.TB
	list    []Answer
	err     error // after the last
	asked   []Question
	present atomic.Int32
}

func (a *answers) Ask(_ context.Context, q Question) (Answer, error) {
	if a.present.Add(1) != 1 {
		a.t.Error("two questions at the same time")
	}
	defer a.present.Add(-1)
	a.asked = append(a.asked, q)
	if len(a.list) == 0 {
		return Answer{}, a.err
	}
	first := a.list[0]
	a.list = a.list[1:]
	return first, nil
}

// Every run mode with every way that someone or nobody answers.
func TestPolicyPermit(t *testing.T) {
	yes, no := Answer{Choice: AllowOnce}, Answer{Choice: DenyOnce}
	nobody := func(detached string, more string) string {
		return fmt.Sprintf(`nobody can answer, and detached.run is %q%s: set conversation.tools.t.run = "unattended" or conversation.tools.t.detached.run = "auto"`, detached, more)
	}
	for _, tt := range []struct {
		run      RunMode
		detached DetachedMode
		prompter *answers // nil = none
		want     Decision
		asked    int
	}{
		{RunUnattended, DetachedDeny, nil, Decision{Allow: true}, 0},
		{RunUnattended, DetachedDeny, &answers{list: []Answer{no}}, Decision{Allow: true}, 0},
		{RunDeny, DetachedAuto, nil, Decision{Reason: `conversation.tools.t.run says "deny"`}, 0},
		{RunDeny, DetachedAuto, &answers{list: []Answer{yes}}, Decision{Reason: `conversation.tools.t.run says "deny"`}, 0},
		{RunAsk, DetachedDeny, &answers{list: []Answer{yes}}, Decision{Allow: true}, 1},
		{"", DetachedDeny, &answers{list: []Answer{yes}}, Decision{Allow: true}, 1},
		{RunAsk, DetachedAuto, &answers{list: []Answer{no}}, Decision{Reason: "the user said no"}, 1},
		{RunAsk, DetachedAuto, &answers{list: []Answer{{Choice: DenyOnce, Reason: "too slow"}}}, Decision{Reason: "the user said no: too slow"}, 1},
		{RunAsk, DetachedDeny, nil, Decision{Reason: nobody("deny", "")}, 0},
		{RunAsk, "", nil, Decision{Reason: nobody("deny", "")}, 0},
		{"", "", nil, Decision{Reason: nobody("deny", "")}, 0},
		{RunAsk, DetachedDefaults, nil, Decision{Reason: nobody("defaults", ", and this question has no default")}, 0},
		{RunAsk, DetachedAuto, nil, Decision{Allow: true}, 0},
		// Somebody was there and has gone.
		{RunAsk, DetachedDeny, &answers{err: fmt.Errorf("the terminal: %w", ErrNobody)}, Decision{Reason: nobody("deny", "")}, 1},
		{RunAsk, DetachedAuto, &answers{err: ErrNobody}, Decision{Allow: true}, 1},
		// An answer that cannot be: never a yes.
		{RunAsk, DetachedAuto, &answers{list: []Answer{{Choice: 99}}}, Decision{Reason: "the user said no"}, 1},
		{RunAsk, DetachedAuto, &answers{list: []Answer{{}}}, Decision{Reason: "the user said no"}, 1},
		{"sometimes", DetachedDeny, nil, Decision{Reason: nobody("deny", "")}, 0},
	} {
		p := NewPolicy(nil)
		if tt.prompter != nil {
			tt.prompter.t = t
			p = NewPolicy(tt.prompter)
		}
		tool := tool("t", say(""), func(d *Definition) {
			d.Run, d.Detached = tt.run, Detached{Run: tt.detached, Deliver: DetachedAuto, Tool: DetachedAuto}
		})
		got, err := p.Permit(t.Context(), tool, Call{ID: "1", Name: "t", Arguments: json.RawMessage(`{}`)})
		if err != nil || got != tt.want {
			t.Errorf("run %q, detached %q, %v = %+v, %v, want %+v", tt.run, tt.detached, tt.prompter, got, err, tt.want)
		}
		if tt.prompter != nil && len(tt.prompter.asked) != tt.asked {
			t.Errorf("run %q, detached %q: asked %d times, want %d", tt.run, tt.detached, len(tt.prompter.asked), tt.asked)
		}
	}
}

func TestPolicyDeliver(t *testing.T) {
	for _, tt := range []struct {
		result   ResultMode
		detached DetachedMode
		answer   Answer
		person   bool
		want     Decision
	}{
		{"", DetachedDeny, Answer{}, true, Decision{Allow: true}},
		{ResultUnattended, DetachedDeny, Answer{}, false, Decision{Allow: true}},
		{ResultAsk, DetachedDeny, Answer{Choice: AllowOnce}, true, Decision{Allow: true}},
		{ResultAsk, DetachedAuto, Answer{Choice: DenyOnce, Reason: "private"}, true, Decision{Reason: "the user said no: private"}},
		{ResultAsk, DetachedAuto, Answer{}, false, Decision{Allow: true}},
		{ResultAsk, DetachedDeny, Answer{}, false, Decision{Reason: `nobody can answer, and detached.deliver is "deny": set conversation.tools.t.result = "unattended" or conversation.tools.t.detached.deliver = "auto"`}},
	} {
		p := NewPolicy(nil)
		person := &answers{t: t, list: []Answer{tt.answer}}
		if tt.person {
			p = NewPolicy(person)
		}
		tool := tool("t", say(""), func(d *Definition) {
			d.Result, d.Detached = tt.result, Detached{Run: DetachedAuto, Deliver: tt.detached, Tool: DetachedAuto}
		})
		got, err := p.Deliver(t.Context(), tool, Call{Name: "t"}, Result{Text: "a\n\x1b[2J"})
		if err != nil || got != tt.want {
			t.Errorf("result %q, detached %q, %+v = %+v, %v, want %+v", tt.result, tt.detached, tt.answer, got, err, tt.want)
		}
		for _, q := range person.asked {
			if want := "\"a\\n\"\n\"\\x1b[2J\""; q.Kind != KindDeliver || q.Detail != want {
				t.Errorf("asked %s with %q, want %q", q.Kind, q.Detail, want)
			}
		}
	}
}

// memory is a Memory.
type memory struct {
	list []string
	err  error
}

func (m *memory) key(q Question) string {
	return string(q.Kind) + " " + q.Tool.Name + " " + q.Tool.Authority()
}

func (m *memory) Allowed(_ context.Context, q Question) (bool, error) {
	return slices.Contains(m.list, m.key(q)), m.err
}

func (m *memory) Allow(_ context.Context, q Question) error {
	m.list = append(m.list, m.key(q))
	return m.err
}

// TestPolicyAlways: an answer for always is one only where a memory can keep it.
func TestPolicyAlways(t *testing.T) {
	broken := errors.New("no store")
	yes, no := Decision{Allow: true}, Decision{Reason: "the user said no"}
	starts := func(d *Definition) { d.Source = SourceDelegation }
	endless := func(d *Definition) { d.Options = map[string]any{"x": math.Inf(1)} }
	for _, tt := range []struct {
		what   string
		memory *memory // nil = none
		change func(*Definition)
		always bool // whether it was an answer
		want   Decision
		err    error
		asked  int // in two calls
	}{
		{"kept", &memory{}, nil, true, yes, nil, 1},
		{"no memory", nil, nil, false, no, nil, 2},
		{"a tool that starts agents", &memory{}, starts, false, no, nil, 2},
		{"of unknown authority", &memory{}, endless, false, no, nil, 2},
		{"not kept", &memory{err: broken}, nil, false, Decision{}, broken, 0},
	} {
		person := &answers{t: t, list: []Answer{{Choice: AllowAlways}, {Choice: AllowAlways}}}
		p := NewPolicy(person)
		if tt.memory != nil {
			p.Memory = tt.memory
		}
		tool := tool("t", say(""), func(d *Definition) {
			if d.Run = RunAsk; tt.change != nil {
				tt.change(d)
			}
		})
		for i := range 2 {
			want := tt.want
			want.Standing = i > 0 && want.Allow
			if got, err := p.Permit(t.Context(), tool, Call{ID: "1", Name: "t", Arguments: json.RawMessage(`{}`)}); got != want || !errors.Is(err, tt.err) {
				t.Errorf("%s = %+v, %v, want %+v, %v", tt.what, got, err, want, tt.err)
			}
		}
		if len(person.asked) != tt.asked || tt.asked > 0 && person.asked[0].Always != tt.always {
			t.Errorf("%s: asked %d times, want %d, always %v", tt.what, len(person.asked), tt.asked, tt.always)
		}
		if tool.Run = RunDeny; tt.what == "kept" {
			if got, err := p.Permit(t.Context(), tool, Call{ID: "1", Name: "t"}); got.Allow || err != nil {
				t.Errorf("denied by config = %+v, %v", got, err)
			}
		}
	}
}

// retracted is a Memory of one permission, which is taken back.
type retracted struct {
	memory
	looked atomic.Int32
	first  chan bool // closed when it was looked at once
	taken  atomic.Bool
}

func (r *retracted) Allowed(context.Context, Question) (bool, error) {
	taken := r.taken.Load()
	if r.looked.Add(1) == 1 {
		close(r.first)
	}
	return !taken, nil
}

// TestPolicyTakenBack: what was always allowed and is taken back while a call waits for its turn does
// not run, neither alone behind a sub-agent nor beside others behind one that has the only place.
func TestPolicyTakenBack(t *testing.T) {
	for _, tt := range []struct {
		before   string // source of the tool before it
		parallel bool
	}{
		{SourceDelegation, false},
		{SourceLocal, true},
	} {
		m := &retracted{first: make(chan bool)}
		before := tool("before", func(context.Context, Call) (Result, error) {
			<-m.first
			m.taken.Store(true)
			return Result{}, nil
		}, func(d *Definition) { d.Source = tt.before })
		write := tool("write", say("written"), func(d *Definition) { d.Run, d.Parallel = RunAsk, tt.parallel })
		p := NewPolicy(nil)
		p.Memory = m
		e := Executor{Set: setOf(t, before, write), Permit: p.Permit, Parallel: 1}
		got := runAll(t, e, t.Context(), Call{ID: "before", Name: "before"}, Call{ID: "write", Name: "write"})["write"]
		if n := m.looked.Load(); !got.Refused || n != 3 {
			t.Errorf("behind %s: a call whose permission was taken back = %+v, looked at %d times, want 3", tt.before, got, n)
		}
	}
}

// besides has one tool always allowed.
type besides string

func (besides) Allow(context.Context, Question) error { return nil }

func (name besides) Allowed(_ context.Context, q Question) (bool, error) {
	return q.Tool.Name == string(name), nil
}

// TestPolicyBesideQuestion: what is allowed runs while a person thinks about another call.
func TestPolicyBesideQuestion(t *testing.T) {
	ran := make(chan struct{})
	ask := func(d *Definition) { d.Run, d.Parallel = RunAsk, true }
	always := tool("always", func(context.Context, Call) (Result, error) {
		close(ran)
		return Result{}, nil
	}, ask)
	p := NewPolicy(prompterFunc(func(ctx context.Context, _ Question) (Answer, error) {
		select {
		case <-ran:
		case <-time.After(time.Minute):
			t.Error("an allowed call waits for the answer about another one")
		}
		return Answer{Choice: AllowOnce}, nil
	}))
	p.Memory = besides("always")
	runAll(t, Executor{Set: setOf(t, always, tool("asked", say(""), ask)), Permit: p.Permit}, t.Context(),
		Call{ID: "always", Name: "always"}, Call{ID: "asked", Name: "asked"})
}

// Y and N hold for the turn, that is for the Policy: for one tool and one kind of question.
func TestPolicyTurn(t *testing.T) {
	person := &answers{t: t, err: errors.New("asked too often"), list: []Answer{
		{Choice: AllowTurn}, {Choice: DenyTurn, Reason: "not today"}, {Choice: AllowOnce}, {Choice: DenyOnce}, {Choice: AllowTurn},
	}}
	p := NewPolicy(person)
	ask := func(d *Definition) { d.Run, d.Result = RunAsk, ResultAsk }
	a, b, c := tool("a", say(""), ask), tool("b", say(""), ask), tool("c", say(""), ask)
	for i, tt := range []struct {
		tool    Tool
		deliver bool
		want    Decision
	}{
		{a, false, Decision{Allow: true}}, // asks
		{a, false, Decision{Allow: true}},
		{b, false, Decision{Reason: "the user said no: not today"}}, // asks
		{a, false, Decision{Allow: true}},
		{b, false, Decision{Reason: "the user said no: not today"}},
		{c, false, Decision{Allow: true}},                // asks
		{c, false, Decision{Reason: "the user said no"}}, // asks
		{a, true, Decision{Allow: true}},                 // asks: another kind
		{a, true, Decision{Allow: true}},
	} {
		var got Decision
		var err error
		if tt.deliver {
			got, err = p.Deliver(t.Context(), tt.tool, Call{Name: tt.tool.Name}, Result{})
		} else {
			got, err = p.Permit(t.Context(), tt.tool, Call{Name: tt.tool.Name})
		}
		if err != nil || got != tt.want {
			t.Errorf("%d: %s = %+v, %v, want %+v", i, tt.tool.Name, got, err, tt.want)
		}
	}
	if len(person.asked) != 5 {
		t.Errorf("asked %d times, want 5", len(person.asked))
	}
	// The next turn knows nothing of it.
	if _, err := NewPolicy(person).Permit(t.Context(), a, Call{Name: "a"}); err == nil || err.Error() != "asked too often" {
		t.Errorf("in the next turn: %v", err)
	}
}

// A person is asked one thing at a time, however many calls wait; ending the turn ends the waiting.
func TestPolicyOneAtATime(t *testing.T) {
	var list []Call
	for i := range 30 {
		list = append(list, Call{ID: fmt.Sprint(i), Name: "t"})
	}
	person := &answers{t: t, list: slices.Repeat([]Answer{{Choice: AllowOnce}}, 60)}
	p := NewPolicy(person)
	e := Executor{Permit: p.Permit, Deliver: p.Deliver, Set: setOf(t, tool("t", say("ran"), func(d *Definition) { d.Run, d.Result = RunAsk, ResultAsk }))}
	for id, r := range runAll(t, e, t.Context(), list...) {
		expect(t, id, r, Result{Text: "ran"})
	}
	if len(person.asked) != 60 {
		t.Errorf("asked %d times, want 60", len(person.asked))
	}

	ctx, cancel := context.WithCancelCause(t.Context())
	inside := make(chan struct{})
	p = NewPolicy(prompterFunc(func(ctx context.Context, _ Question) (Answer, error) {
		close(inside)
		<-ctx.Done()
		return Answer{}, context.Cause(ctx)
	}))
	go func() { <-inside; cancel(errors.New("enough")) }()
	e.Permit = p.Permit
	for id, r := range runAll(t, e, ctx, list...) {
		expect(t, id, r, refusal("cancelled before it ran: enough"))
	}
}

type prompterFunc func(context.Context, Question) (Answer, error)

func (f prompterFunc) Ask(ctx context.Context, q Question) (Answer, error) { return f(ctx, q) }

// What a model wrote is shown so that nothing in it can pretend to be anything else.
func TestVisibleCall(t *testing.T) {
	for _, tt := range []struct{ args, text, detail string }{
		{`{}`, `t()`, ``},
		{`{"b":"x","a":1,"c":[true,null],"d":{"k":"v"}}`, `t(a=1, b="x", c=[true,null], d={"k":"v"})`, "a = 1\nb = \"x\"\nc = [true,null]\nd = {\"k\":\"v\"}"},
		{`{"a":"x\", b=\"y"}`, `t(a="x\", b=\"y")`, `a = "x\", b=\"y"`},
		{`{"a":"\u001b[2J\u202e\u200b\u00a0"}`, `t(a="\x1b[2J\u202e\u200b\u00a0")`, `a = "\x1b[2J\u202e\u200b\u00a0"`},
		{`{"a":"x\u3164\u2800\ufe0f\u034f"}`, `t(a="x\u3164\u2800\ufe0f\u034f")`, `a = "x\u3164\u2800\ufe0f\u034f"`},
		{`{"a\u001b\n":1}`, `t("a\x1b\n"=1)`, `"a\x1b\n" = 1`},
		{`{"a":["\u009b","\u202e"]}`, `t(a=["\u009b","\u202e"])`, `a = ["\u009b","\u202e"]`},
		{`{"a":"one\ntwo\r\n"}`, `t(a="one\ntwo\r\n")`, "a =\n  \"one\\n\"\n  \"two\\r\\n\""},
		{"not\x1b json", `t("not\x1b json")`, `"not\x1b json"`},
		{`[1]`, `t("[1]")`, `"[1]"`},
		{`{"a":"` + strings.Repeat("x", 200) + `"}`, `t(a="` + strings.Repeat("x", 120) + `...")`, `a = "` + strings.Repeat("x", 200) + `"`},
	} {
		q := NewQuestion(KindRun, Definition{}, Call{Name: "t", Arguments: json.RawMessage(tt.args)}, "")
		text, detail := q.Text, q.Detail
		if text != tt.text || detail != tt.detail {
			t.Errorf("callText(%q) = %q, %q\nwant %q, %q", tt.args, text, detail, tt.text, tt.detail)
		}
	}
}

// FuzzVisibleCall checks that a question is short, and holds nothing that does not print, whatever
// the arguments are.
func FuzzVisibleCall(f *testing.F) {
	for _, s := range []string{`{}`, `{"a":"\u001b[2J"}`, "\xff", `{"a":"\ud800"}`, `{"\u202e":["\u009b",{"\u200b":1}]}`, `{"a":"1\n2"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, args []byte) {
		q := NewQuestion(KindRun, Definition{Source: SourceBuiltin, Name: "fs_modify_file"}, Call{Name: "t", Arguments: args}, "")
		text, detail := q.Text, q.Detail
		bad := func(r rune) bool { return !unicode.IsPrint(r) }
		if i := strings.IndexFunc(text, bad); i >= 0 || len(text) > 500 {
			t.Errorf("callText(%q) = %q", args, text)
		}
		for line := range strings.SplitSeq(detail, "\n") {
			if strings.IndexFunc(line, bad) >= 0 {
				t.Errorf("callText(%q) has the line %q in detail", args, line)
			}
		}
	})
}

// TestDeliverBound: a person is asked about what the model would get, and not about what is cut.
func TestDeliverBound(t *testing.T) {
	var asked string
	e := Executor{
		Set: setOf(t, tool("t", say(strings.Repeat("x", 300)), func(d *Definition) { d.SizeThreshold = 200 })),
		Deliver: func(_ context.Context, _ Tool, _ Call, r Result) (Decision, error) {
			asked = r.Text
			return Decision{Allow: true}, nil
		},
	}
	for _, r := range runAll(t, e, t.Context(), Call{ID: "1", Name: "t"}) {
		if r.Text != asked || len(asked) > 200 {
			t.Errorf("asked about %d bytes, and the model gets %d", len(asked), len(r.Text))
		}
	}
}
