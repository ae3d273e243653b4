package console

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"syscall"
	"testing"
	"time"

	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/rule"
	"jp/cmd/jp/internal/term"
	"jp/convstore"
	"jp/convstore/search"
	"jp/profiles"
	"jp/tools"
)

// TestExplainNext: what was begun within something else says how it goes on too.
func TestExplainNext(t *testing.T) {
	err := &exit.Next{Err: fmt.Errorf("around: %w", &exit.Next{Err: exit.Usagef("x"), Hint: "resume"})}
	if r := Explain(err); r.Hint != "resume" || r.Status != exit.Failed {
		t.Errorf("hint %q, status %d", r.Hint, r.Status)
	}
}

func TestExplain(t *testing.T) {
	for _, c := range []struct {
		err  error
		code string
		want exit.Status
	}{
		{errors.New("x"), "failed", exit.Failed},
		{exit.Usagef("x"), "usage", exit.Usage},
		{exit.NotFoundf("x"), "not_found", exit.NotFound},
		{exit.Refusedf("x"), "refused", exit.Refused},
		{&exit.Next{Err: exit.Usagef("x")}, "usage", exit.Failed},
		{errors.Join(&exit.Next{Err: exit.Refusedf("x")}), "refused", exit.Refused},
		{exit.Quiet(exit.Failed), "none", exit.Failed},
		{&convstore.NotFoundError{ID: 1}, "not_found", exit.NotFound},
		{&convstore.ScopeError{ID: 1, Root: 2}, "scope", exit.Scope},
		{&convstore.BusyError{ID: 1}, "busy", exit.Busy},
		{&convstore.BusyError{}, "busy", exit.Busy},
		{&convstore.ChildrenError{ID: 1, Children: 2}, "children", exit.Usage},
		{&search.PatternError{Pattern: "(", Err: errors.New("x")}, "pattern", exit.Usage},
		{&convstore.RangeError{ID: 1}, "usage", exit.Usage},
		{&convstore.PlaceError{Path: "/x", Reason: "y"}, "store_place", exit.Usage},
		{&convstore.TakenError{Workspace: "/x", Dir: "/y", By: "/z"}, "store_taken", exit.Failed},
		{&convstore.SchemaError{Path: "/x", Have: 9, Want: 1}, "store_schema", exit.Failed},
		{&convstore.DamagedError{Path: "/x", Err: errors.New("y")}, "store_damaged", exit.Failed},
		{convstore.ErrReadOnly, "read_only", exit.Usage},
		{&profiles.Error{Msg: "x"}, "config", exit.Usage},
		{&profiles.Error{Msg: "x", Err: profiles.ErrModel}, "config", exit.Usage},
		{&profiles.Error{Msg: "x", Err: profiles.ErrNotFound}, "not_found", exit.NotFound},
		{fmt.Errorf("folder /x: %w", profiles.ErrNoWorkspace), "no_workspace", exit.NotFound},
		{&tools.DefinitionError{Tool: "x", Msg: "y"}, "tool_definition", exit.Usage},
		{&rule.Refusal{Code: rule.CodeDepth, Text: "x"}, "refused_depth", exit.Refused},
		{&model.Error{Kind: model.KindAuth}, "provider_auth", exit.Provider},
		{tools.ErrNobody, "refused", exit.Refused},
		{term.ErrNobody, "refused", exit.Refused},
		{context.DeadlineExceeded, "deadline", exit.Deadline},
		{context.Canceled, "signal", exit.Interrupted},
		{&SignalError{syscall.SIGINT}, "signal", exit.Interrupted},
		{&SignalError{syscall.SIGTERM}, "signal", exit.Terminated},
		{&SignalError{syscall.SIGHUP}, "signal", exit.Hangup},
		{term.ErrClosed, "stdout_closed", exit.Closed},
		{&fs.PathError{Op: "open", Path: "/x", Err: syscall.EMFILE}, "too_many_files", exit.Failed},
		{&fs.PathError{Op: "write", Path: "/x", Err: syscall.ENOSPC}, "disk_full", exit.Failed},
	} {
		for _, err := range []error{c.err, fmt.Errorf("around: %w", c.err)} {
			r := Explain(err)
			if r.Code != c.code || r.Status != c.want {
				t.Errorf("explain(%#v) = %s, %d; want %s, %d", err, r.Code, r.Status, c.code, c.want)
			}
			if !slices.ContainsFunc(exit.Table(), func(m exit.Meaning) bool { return m.Status == r.Status }) {
				t.Errorf("explain(%#v): status %d is not in the table", err, r.Status)
			}
		}
	}
	// A signal explains what it cut off.
	err := errors.Join(&model.Error{Kind: model.KindNetwork}, &SignalError{syscall.SIGINT})
	if r := Explain(err); r.Status != exit.Interrupted {
		t.Errorf("explain(%v) = %d, want %d", err, r.Status, exit.Interrupted)
	}
}

// TestExplainStopped: `jp stop A B` says of each that it has not ended, and that nothing asks a suspended one any more.
func TestExplainStopped(t *testing.T) {
	r := Explain(errors.Join(&convstore.BusyError{ID: 1, Waited: time.Second}, &convstore.BusyError{ID: 2, Waited: time.Second}))
	if want := "conversation jp-c1: running after waiting 1s; conversation jp-c2: running after waiting 1s"; r.Message != want {
		t.Errorf("message %q, want %q", r.Message, want)
	}
	if want := "its process may be suspended: once it goes on, `jp stop jp-c1` again"; r.Hint != want {
		t.Errorf("hint %q, want %q", r.Hint, want)
	}
}

func TestSignals(t *testing.T) {
	again := make(chan struct{}, 1)
	ctx, stop := New(Env{}).WithSignals(context.Background(), func() { again <- struct{}{} })
	defer stop()
	self, err := os.FindProcess(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if err := self.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
	if got := Explain(context.Cause(ctx)).Status; got != exit.Terminated {
		t.Errorf("after SIGTERM: status %d, want %d", got, exit.Terminated)
	}
	if err := self.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	<-again
}
