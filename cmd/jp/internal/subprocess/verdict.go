package subprocess

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/stream"
	"jp/cmd/jp/internal/wire"
	"jp/convstore"
	"jp/tools/proc"
)

// Verdict decides the one terminal state of a sub-agent from three witnesses: the operating system
// (end, runErr), the store (the end of its turn; nil = it has none) and its own last line (result;
// bad where that could not be read). Where they disagree the worst state counts. Where no witness
// says anything the sub-agent is lost.
func Verdict(end proc.Exit, runErr error, stored *convstore.TurnEnd, result *stream.Result, bad *stream.LineError) (convstore.State, string) {
	if bad := (*wire.FrameError)(nil); errors.As(runErr, &bad) { // whatever else it says, and however we ended it
		return convstore.StateError, "it broke the protocol: " + bad.Reason
	}
	far := (*EndError)(nil)
	if errors.As(runErr, &far) && (far.State != convstore.StateLost || stored == nil || result == nil) {
		return far.State, far.Reason
	}
	os, osReason := fromExit(end)
	if stored == nil && result == nil {
		state, reason := os, osReason
		switch {
		case runErr != nil && end.Code < 0 && end.Signal == 0 && end.Cause == nil:
			state, reason = convstore.StateError, "it could not be run"
		case os == convstore.StateOK, os == convstore.StatePartial, os == convstore.StateError && exit.Status(end.Code) != exit.Provider:
			state, reason = convstore.StateLost, fmt.Sprintf("the process ended (exit %d) without a word", end.Code)
		}
		if runErr != nil && end.Cause == nil { // for example because something of it is still running
			reason += ": " + runErr.Error()
		}
		return state, reason
	}

	state, reason := convstore.StateOK, ""
	worse := func(s convstore.State, why string) {
		if state.Worse(s) != state {
			state, reason = s, why
		} else if s == state && reason == "" {
			reason = why
		}
	}
	switch {
	case stored == nil && result.Turn == 0 && result.Status == string(convstore.StateCancelled): // before its turn
	case stored == nil:
		worse(convstore.StateLost, "it reported an end that the store does not hold")
	default:
		worse(stored.State, stored.Reason)
	}
	switch {
	case result == nil && bad != nil:
		worse(convstore.StateLost, "its last line could not be read: "+bad.Error())
	case result == nil && end.Cause == nil:
		worse(convstore.StateLost, "it ended without its result line")
	case result == nil: // we stopped it before it could write one
	case !convstore.State(result.Status).Terminal():
		worse(convstore.StateLost, "it reported an end that this version does not know")
	default:
		worse(convstore.State(result.Status), result.Reason)
	}
	if far == nil && !agrees(end, state) { // of a lost one nobody knows how it ended, but it has said all that it was to say
		worse(os, osReason)
	}
	if errors.Is(end.Cause, context.DeadlineExceeded) && state == convstore.StateCancelled {
		state, reason = convstore.StateTimeout, "the deadline passed"
	}
	if errors.Is(end.Cause, convstore.ErrStopped) && state == convstore.StateCancelled {
		reason = ByPerson
	}
	if runErr != nil && far == nil && end.Cause == nil {
		// for example because something of it is still running
		worse(convstore.StateError, runErr.Error())
	}
	return state, reason
}

// ByPerson is the reason of a sub-agent that was stopped by itself, while its caller goes on.
const ByPerson = "a person stopped it"

// fromExit returns the state that a wait status means by itself.
func fromExit(end proc.Exit) (convstore.State, string) {
	deadline := errors.Is(end.Cause, context.DeadlineExceeded)
	var node *NodeError
	switch {
	case errors.As(end.Cause, &node) && (end.Signal != 0 || end.Code != 0):
		return convstore.StateCancelled, node.Reason
	case deadline && (end.Signal != 0 || end.Code != 0):
		return convstore.StateTimeout, "the deadline passed"
	case errors.Is(end.Cause, convstore.ErrStopped) && (end.Signal != 0 || end.Code != 0):
		return convstore.StateCancelled, ByPerson
	case end.Cause != nil && (end.Signal != 0 || end.Code != 0):
		return convstore.StateCancelled, "stopped by its caller"
	case end.Signal != 0:
		return convstore.StateKilled, "by " + cmp.Or(unix.SignalName(end.Signal), fmt.Sprintf("signal %d", int(end.Signal)))
	}
	switch exit.Status(end.Code) {
	case exit.OK:
		return convstore.StateOK, ""
	case exit.Refused:
		return convstore.StateRefused, "refused by policy"
	case exit.Provider:
		return convstore.StateError, "the model provider failed"
	case exit.Limit:
		return convstore.StatePartial, "stopped at a limit"
	case exit.Deadline:
		return convstore.StateTimeout, "the deadline passed"
	case exit.Hangup, exit.Interrupted, exit.Quit, exit.Terminated:
		return convstore.StateCancelled, fmt.Sprintf("ended by a signal (exit %d)", end.Code)
	}
	return convstore.StateError, fmt.Sprintf("exit %d", end.Code)
}

// exitsOf lists the exit statuses that agree with a state that a child reports. The first is that
// of ExitOf.
var exitsOf = map[convstore.State][]exit.Status{
	convstore.StateOK:        {exit.OK},
	convstore.StateEmpty:     {exit.Failed},
	convstore.StateLost:      {exit.Failed},
	convstore.StateError:     {exit.Failed, exit.Provider},
	convstore.StateRefused:   {exit.Refused},
	convstore.StatePartial:   {exit.Limit},
	convstore.StateBudget:    {exit.Limit},
	convstore.StateTimeout:   {exit.Deadline},
	convstore.StateCancelled: {exit.Interrupted, exit.Hangup, exit.Quit, exit.Terminated},
}

// ExitOf returns the exit status for a turn that ended in this state, as far as the state says it.
func ExitOf(s convstore.State) exit.Status {
	if statuses := exitsOf[s]; len(statuses) > 0 {
		return statuses[0]
	}
	return exit.Failed
}

func agrees(end proc.Exit, s convstore.State) bool {
	if end.Signal != 0 {
		return false
	}
	for _, c := range exitsOf[s] {
		if c == exit.Status(end.Code) {
			return true
		}
	}
	return false
}
