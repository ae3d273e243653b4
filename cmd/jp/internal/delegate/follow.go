package delegate

import (
	"context"
	"errors"

	"jp/cmd/jp/internal/stream"
	"jp/convstore"
)

// Answered is the Phase of a call that is one delegation, when it has come to its end.
const Answered = "answered"

// Step is a point that a delegation or its call has come to.
type Step struct {
	Phase string // stream.Queued, stream.Started, stream.Ended, or Answered
	// Delegation has PID from stream.Started on, State, Reason and Total with stream.Ended. With Answered it has State and Reason
	// alone, or nothing where there is a Refusal.
	convstore.Delegation
	Refusal *Refusal // the rule has refused what was called for
}

func (d *Delegator) follow(ctx context.Context, s Step) {
	if d.Follow != nil {
		d.Follow(ctx, s)
	}
}

// followEnd tells how a delegation has ended.
func (d *Delegator) followEnd(ctx context.Context, del convstore.Delegation, e ending) {
	del.State, del.Reason, del.PID, del.Total = e.State, e.Reason, e.PID, e.Total
	d.follow(ctx, Step{Phase: stream.Ended, Delegation: del})
}

// followAnswer tells how a call that is one delegation has ended.
func (d *Delegator) followAnswer(ctx context.Context, o outcome) {
	s := Step{Phase: Answered, Delegation: convstore.Delegation{State: o.State, Reason: o.Reason}}
	if errors.As(o.denied, &s.Refusal) || o.denied == nil && o.State != "" {
		d.follow(ctx, s)
	}
}
