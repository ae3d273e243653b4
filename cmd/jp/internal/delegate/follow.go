package delegate

import (
	"errors"
	"sync"
	"time"

	"jp/cmd/jp/internal/rule"
	"jp/cmd/jp/internal/stream"
	"jp/convstore"
)

// Answered is the Phase of a call that is one delegation, when the call has ended.
const Answered = "answered"

// Step is a point that a delegation or its call has come to.
type Step struct {
	Phase string // stream.Queued, stream.Started, stream.Ended, or Answered
	// Delegation has PID from stream.Started on, State, Reason and Total with stream.Ended. With
	// Answered it has State and Reason alone, or nothing where there is a Refusal.
	convstore.Delegation
	Refusal *rule.Refusal // the rule has refused what was called for
}

// endStep is the end of a delegation.
func endStep(del convstore.Delegation, e ending) Step {
	del.State, del.Reason, del.PID, del.Total = e.State, e.Reason, e.PID, e.Total
	return Step{Phase: stream.Ended, Delegation: del}
}

// answeredStep is the end of a call that is one delegation. It reports false where the delegation
// was neither run nor refused.
func answeredStep(o outcome) (Step, bool) {
	s := Step{Phase: Answered, Delegation: convstore.Delegation{State: o.State, Reason: o.Reason}}
	return s, errors.As(o.denied, &s.Refusal) || o.denied == nil && o.State != ""
}

// pace bounds how often it is shown what one sub-agent does, who may say anything: 100 times, and
// ten times more in each second. The zero value is ready to use. Safe for concurrent use.
type pace struct {
	mu    sync.Mutex
	began time.Time
	shown int
}

func (p *pace) allows() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.shown == 0 {
		p.began = time.Now()
	}
	if p.shown >= 100+int(time.Since(p.began)/(time.Second/10)) {
		return false
	}
	p.shown++
	return true
}
