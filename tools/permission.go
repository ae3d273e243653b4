package tools

import (
	"context"
	"errors"
)

// Permit says whether a call may run. Calls that need a person's answer are
// put to it one after another, in call order.
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
	KindRun     Kind = "run"
	KindDeliver Kind = "deliver"
)

// Question is put to a person.
type Question struct {
	Kind   Kind
	Tool   Definition
	Call   Call
	Text   string // one line, arguments quoted visibly and shortened
	Detail string // all of it, quoted visibly; may have many lines: for 'p'
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
// can answer (any more). It is never called concurrently by one [Policy].
type Prompter interface {
	Ask(ctx context.Context, q Question) (Answer, error)
}

// ErrNobody says that nobody can answer a question.
var ErrNobody = errors.New("nobody can answer")
