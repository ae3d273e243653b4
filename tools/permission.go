package tools

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Permit says whether a call may run. An [Executor] asks for one call after
// another, in call order.
type Permit func(ctx context.Context, t Tool, c Call) (Decision, error)

// Decision is an answer of a Permit. Reason is shown to the model on refusal.
type Decision struct {
	Allow  bool
	Reason string
}

// Kind is the kind of a question.
type Kind string

// The kinds of questions.
const (
	KindRun     Kind = "run"     // may it run?
	KindDeliver Kind = "deliver" // may the model see the result?
)

// Question is put to a person. Text and Detail hold what a model wrote, quoted
// so that every character shows: no control, bidi or other invisible ones.
type Question struct {
	Kind   Kind
	Tool   Definition
	Call   Call
	Text   string // one line, shortened
	Detail string // all of it, in lines; for 'p'
}

// Choice is what a person chose.
type Choice uint8

// The choices and their keys. 'p' prints Detail and asks again; 'r' asks for a
// reason and is DenyOnce with it: both are the prompter's own business.
const (
	DenyOnce  Choice = iota // n
	DenyTurn                // N
	AllowOnce               // y
	AllowTurn               // Y
)

// Answer is a person's answer. Reason is passed on to the model on a denial.
type Answer struct {
	Choice Choice
	Reason string
}

// Prompter asks a person. Ask returns an error that is ErrNobody when nobody
// can answer (any more). One [Policy] never calls it concurrently.
type Prompter interface {
	Ask(ctx context.Context, q Question) (Answer, error)
}

// ErrNobody says that nobody can answer a question.
var ErrNobody = errors.New("nobody can answer")

// Policy decides by the run, result and detached keys of the definitions, and
// asks where they say so. What a person answers for the turn holds for as long
// as the Policy: make one for each turn. It is safe for concurrent use.
type Policy struct {
	prompter Prompter
	asking   chan struct{} // one question at a time; guards turn
	turn     map[rememberKey]Answer
}

type rememberKey struct {
	kind Kind
	tool string
}

// NewPolicy makes a policy. A nil Prompter means that nobody can answer.
func NewPolicy(p Prompter) *Policy {
	return &Policy{prompter: p, asking: make(chan struct{}, 1), turn: map[rememberKey]Answer{}}
}

// Permit is the [Permit] of the policy.
func (p *Policy) Permit(ctx context.Context, t Tool, c Call) (Decision, error) {
	switch t.Run {
	case RunUnattended:
		return Decision{Allow: true}, nil
	case RunDeny:
		return Decision{Reason: fmt.Sprintf("%s says %q", settingKey(t, "run"), RunDeny)}, nil
	}
	text, detail := visibleCall(c)
	return p.ask(ctx, Question{Kind: KindRun, Tool: t.Definition, Call: c, Text: text, Detail: detail}, t.Detached.Run)
}

// Deliver is the [Executor.Deliver] of the policy.
func (p *Policy) Deliver(ctx context.Context, t Tool, c Call, r Result) (Decision, error) {
	if t.Result != ResultAsk {
		return Decision{Allow: true}, nil
	}
	text, _ := visibleCall(c)
	detail := strings.Join(visibleLines(r.Text), "\n")
	return p.ask(ctx, Question{Kind: KindDeliver, Tool: t.Definition, Call: c, Text: text, Detail: detail}, t.Detached.Deliver)
}

// ask puts q to the person, or decides by the detached mode.
func (p *Policy) ask(ctx context.Context, q Question, detached DetachedMode) (Decision, error) {
	select {
	case p.asking <- struct{}{}:
		defer func() { <-p.asking }()
	case <-ctx.Done():
		return Decision{}, context.Cause(ctx)
	}
	key := rememberKey{q.Kind, q.Tool.Name}
	if a, ok := p.turn[key]; ok {
		return a.decision(), nil
	}
	if p.prompter == nil {
		return unanswered(q, detached), nil
	}
	a, err := p.prompter.Ask(ctx, q)
	switch {
	case errors.Is(err, ErrNobody):
		return unanswered(q, detached), nil
	case err != nil:
		return Decision{}, err
	}
	if a.Choice == AllowTurn || a.Choice == DenyTurn {
		p.turn[key] = a
	}
	return a.decision(), nil
}

func (a Answer) decision() Decision {
	if a.Choice == AllowOnce || a.Choice == AllowTurn {
		return Decision{Allow: true}
	}
	if a.Reason != "" {
		return Decision{Reason: "the user said no: " + a.Reason}
	}
	return Decision{Reason: "the user said no"}
}

// unanswered decides a question that nobody can answer.
func unanswered(q Question, mode DetachedMode) Decision {
	if mode == DetachedAuto {
		return Decision{Allow: true}
	}
	asks := "run"
	if q.Kind == KindDeliver {
		asks = "result"
	}
	kind := "detached." + string(q.Kind)
	why := fmt.Sprintf("%s is %q", kind, orText(string(mode), string(DetachedDeny)))
	if mode == DetachedDefaults {
		why += ", and this question has no default"
	}
	return Decision{Reason: fmt.Sprintf("nobody can answer, and %s: set %s = %q or %s = %q",
		why, settingKey(Tool{Definition: q.Tool}, asks), RunUnattended, settingKey(Tool{Definition: q.Tool}, kind), DetachedAuto)}
}

// settingKey is the config key that says k about a tool.
func settingKey(t Tool, k string) string { return "conversation.tools." + t.Name + "." + k }

// visibleCall shows a call: in one line, and in all detail.
func visibleCall(c Call) (text, detail string) {
	const most, each = 400, 120
	v, err := decodeJSON(c.Arguments)
	args, ok := v.(map[string]any)
	if err != nil || !ok {
		s := quoted(validText(string(c.Arguments)))
		return c.Name + "(" + shorten(s, most) + ")", s
	}
	var short, lines []string
	for _, name := range slices.Sorted(maps.Keys(args)) {
		s, isText := args[name].(string)
		if isText {
			short = append(short, visible(name)+"="+quoted(shorten(s, each)))
			if in := visibleLines(s); len(in) > 1 {
				lines = append(lines, visible(name)+" =")
				for _, line := range in {
					lines = append(lines, "  "+line)
				}
				continue
			}
			lines = append(lines, visible(name)+" = "+quoted(s))
			continue
		}
		j, err := encodeJSON(args[name])
		if err != nil {
			j = []byte("?")
		}
		s = visible(string(j))
		short = append(short, visible(name)+"="+shorten(s, each))
		lines = append(lines, visible(name)+" = "+s)
	}
	return c.Name + "(" + shorten(strings.Join(short, ", "), most) + ")", strings.Join(lines, "\n")
}

// visibleLines quotes each line of s.
func visibleLines(s string) []string {
	var out []string
	for line := range strings.Lines(s) {
		out = append(out, quoted(line))
	}
	return out
}

// quoted is a Go string literal of s in which all of it shows.
func quoted(s string) string { return visible(strconv.Quote(s)) }

// visible escapes what does not show in s.
func visible(s string) string {
	var b strings.Builder
	for _, r := range s {
		if shows(r) {
			b.WriteRune(r)
			continue
		}
		q := strconv.QuoteRuneToASCII(r)
		b.WriteString(q[1 : len(q)-1])
	}
	return b.String()
}

// shows reports whether a person sees a rune for what it is. Some count as printable, as letters even, and are blank or nothing on
// a screen: fillers of Hangul, variation selectors, the empty pattern of Braille.
func shows(r rune) bool {
	return unicode.IsPrint(r) && r != 0x2800 && !unicode.In(r, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector)
}
