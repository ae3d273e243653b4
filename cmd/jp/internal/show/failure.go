package show

import (
	"context"
	"errors"
	"fmt"

	"jp/cmd/jp/internal/agent"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/wording"
	"jp/convstore"
)

// Failure returns the error with which the command ends, from the end of a turn. The answer has
// been printed by then. again is a hint that ends in the command that resumes the turn, "" if its
// conversation is gone. workspace is the flag that other commands need too, see run.Run.WorkspaceFlag.
func Failure(ctx context.Context, id convstore.ID, workspace, again string, out agent.Outcome) error {
	fail := func(code string, s exit.Status, format string, args ...any) *exit.Error {
		return &exit.Error{Code: code, Status: s, Msg: fmt.Sprintf("conversation %s: ", id) + fmt.Sprintf(format, args...), Err: out.Err}
	}
	hinted := func(e *exit.Error, format string, args ...any) error {
		if again == "" {
			return e
		}
		return e.WithHint(format, args...)
	}
	switch out.State {
	case convstore.StateOK:
		return nil
	case convstore.StatePartial:
		return fail("partial", exit.Limit, "partial: stopped at a limit: %s", out.Reason)
	case convstore.StateBudget:
		return fail("budget", exit.Limit, "stopped at a limit with nothing to hand in: %s", out.Reason)
	case convstore.StateEmpty:
		return fail("empty", exit.Failed, "the model gave an empty answer")
	case convstore.StateRefused:
		return fail("refused", exit.Refused, "%s", wording.Either(out.Reason == agent.ModelRefused, "the model refused to answer", out.Reason))
	case convstore.StateTimeout:
		return hinted(fail("deadline", exit.Deadline, "the deadline passed"), "%s", again)
	case convstore.StateCancelled:
		if cause := context.Cause(ctx); cause != nil {
			return cause
		}
	}
	if _, ok := out.Err.(*agent.SchemaError); ok {
		return hinted(fail("schema", exit.Failed, "%v", out.Err), "the answer is in the conversation: jp conversation print %s%s --last", id, workspace)
	}
	if e := (*model.Error)(nil); errors.As(out.Err, &e) {
		if in := e.In(id.String()+workspace, again); in != e {
			return fmt.Errorf("conversation %s: %w", id, in)
		}
	}
	return fmt.Errorf("conversation %s: %w", id, out.Err)
}
