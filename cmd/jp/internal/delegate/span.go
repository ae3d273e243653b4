package delegate

import (
	"errors"

	"jp/cmd/jp/internal/otel"
	"jp/convstore"
	"jp/tools/proc"
)

// environ is the environment of the child, whose spans are below that of the call.
func (f *follower) environ(env []string) []string {
	if f.span == nil {
		return env
	}
	return proc.Environ(env, append([]string{"*"}, f.span.Environ()...)...)
}

// record says on the span of the call how a delegation has ended: of a child that was killed nothing else says so.
func (f *follower) record(del convstore.Delegation, e ending) {
	f.span.Delegated("ended", otel.Delegation{
		Conversation: del.Child.String(), Profile: del.Profile, Model: del.Model, PID: e.PID,
		State: string(e.State), Reason: e.Reason, Tokens: e.Total.Tokens(), Cost: e.Total.Cost(),
	})
}

// recordOne says on the span of a call that is one delegation how the call has ended.
func recordOne(span *otel.Span, o outcome) {
	var no *Refusal
	switch {
	case errors.As(o.denied, &no):
		span.Refused(string(no.Code), no.Text)
	case o.denied != nil || o.State == "":
	case o.handedIn():
		span.State(string(o.State), o.Reason)
	default:
		span.Fail(string(o.State), o.Reason)
		span.State(string(o.State), o.Reason)
	}
}
