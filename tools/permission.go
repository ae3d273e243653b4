package tools

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Permit says whether a call may run. An [Executor] asks for one call after another, in call order,
// and once more, perhaps concurrently, when a call runs whose permission is Standing.
type Permit func(ctx context.Context, t Tool, c Call) (Decision, error)

// Decision is an answer of a Permit. Reason is shown to the model on refusal. Standing marks a
// permission that was given before and can be taken back.
type Decision struct {
	Allow    bool
	Reason   string
	Standing bool
}

// Kind is the kind of a question.
type Kind string

// The kinds of questions.
const (
	KindRun     Kind = "run"     // may it run?
	KindDeliver Kind = "deliver" // may the model see the result?
)

// Choice is what a person chose.
type Choice uint8

// The choices and their keys. Two more keys are the business of the prompter: 'p' prints all of the
// question and asks again; 'r' asks for a reason and is DenyOnce with it.
const (
	DenyOnce    Choice = iota // n
	DenyTurn                  // d
	AllowOnce                 // y
	AllowTurn                 // a
	AllowAlways               // the word always; only where Question.Always
)

// Answer is a person's answer. Reason is passed on to the model on a denial.
type Answer struct {
	Choice Choice
	Reason string
}

// Prompter asks a person. Ask returns an error that is ErrNobody when nobody can answer, or nobody
// can any more. One [Policy] never calls it concurrently.
type Prompter interface {
	Ask(ctx context.Context, q Question) (Answer, error)
}

// Memory remembers answers for longer than a turn: for the conversation that the questions belong
// to.
type Memory interface {
	// Allowed reports whether somebody has answered such a question with AllowAlways. A question is
	// such a one if it is of the same kind, and of a tool of the same name with the same authority.
	Allowed(ctx context.Context, q Question) (bool, error)
	Allow(ctx context.Context, q Question) error
}

// ErrNobody says that nobody can answer a question.
var ErrNobody = errors.New("nobody can answer")

// Policy decides by the run, result and detached keys of the definitions, and asks where they say
// so. An answer for the turn holds for as long as the Policy: make one for each turn. What config
// denies is not asked, whatever Memory has. It is safe
// for concurrent use.
type Policy struct {
	Memory Memory // nil = AllowAlways is no answer; set before the policy is used

	prompter Prompter
	asking   chan struct{} // one question at a time
	mu       sync.Mutex    // of turn
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
	return p.ask(ctx, NewQuestion(KindRun, t.Definition, c, ""), t.Detached.Run)
}

// Deliver is the [Executor.Deliver] of the policy.
func (p *Policy) Deliver(ctx context.Context, t Tool, c Call, r Result) (Decision, error) {
	if t.Result != ResultAsk {
		return Decision{Allow: true}, nil
	}
	return p.ask(ctx, NewQuestion(KindDeliver, t.Definition, c, r.Text), t.Detached.Deliver)
}

// ask asks the person q, or decides by the detached mode.
func (p *Policy) ask(ctx context.Context, q Question, detached DetachedMode) (Decision, error) {
	key := rememberKey{q.Kind, q.Tool.Name}
	// A tool that starts agents can do what these can, which its authority does not say.
	q.Always = p.Memory != nil && q.Tool.Source != SourceDelegation && q.Tool.Authority() != ""
	if d, ok, err := p.known(ctx, key, q); ok || err != nil { // without waiting for the answer to another question
		return d, err
	}
	select {
	case p.asking <- struct{}{}:
		defer func() { <-p.asking }()
	case <-ctx.Done():
		return Decision{}, context.Cause(ctx)
	}
	if d, ok, err := p.known(ctx, key, q); ok || err != nil { // by the answer to another question
		return d, err
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
	switch {
	case a.Choice == AllowTurn || a.Choice == DenyTurn:
		p.mu.Lock()
		p.turn[key] = a
		p.mu.Unlock()
	case a.Choice == AllowAlways && q.Always:
		if err := p.Memory.Allow(ctx, q); err != nil {
			return Decision{}, err
		}
		return Decision{Allow: true}, nil
	}
	return a.decision(), nil
}

// known returns the decision of an answer for the turn, or for always.
func (p *Policy) known(ctx context.Context, key rememberKey, q Question) (d Decision, ok bool, err error) {
	p.mu.Lock()
	a, ok := p.turn[key]
	p.mu.Unlock()
	if ok || !q.Always {
		return a.decision(), ok, nil
	}
	allowed, err := p.Memory.Allowed(ctx, q)
	return Decision{Allow: allowed, Standing: allowed}, allowed, err
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

// settingKey is the config key that sets k for a tool.
func settingKey(t Tool, k string) string { return "conversation.tools." + t.Name + "." + k }
