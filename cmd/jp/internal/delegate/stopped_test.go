package delegate

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"jp/cmd/jp/internal/rule"
	"jp/cmd/jp/internal/subprocess"
	"jp/convstore"
	"jp/tools"
	"jp/tools/proc"
)

// farRunner is a Runner on another machine, by a function.
type farRunner func(context.Context, subprocess.Job) (proc.Exit, error)

func (f farRunner) Run(ctx context.Context, job subprocess.Job) (proc.Exit, error) {
	return f(ctx, job)
}

// TestStoppedInLine: what was admitted is stopped while nobody has run it yet, and keeps that end.
func TestStoppedInLine(t *testing.T) {
	st, log := running(t)
	if err := log.Append(t.Context(), convstore.Event{ID: "s", Body: convstore.TurnStart{}}); err != nil {
		t.Fatal(err)
	}
	set := specialSet(t, toolReview)
	d, err := New(Options{
		Scope: log.Below(), Limits: rule.Limits{MaxDepth: 1, MaxPerTurn: 5, MaxChildren: 5, MaxParallel: 1, Share: 1},
		Special: func(_ context.Context, tool string) (Special, error) { return Special{Profile: reader(tool)}, nil },
	}, func(Funcs) (tools.Set, error) { return set, nil })
	if err != nil {
		t.Fatal(err)
	}
	var calls []tools.Call
	for _, id := range []string{"run", "left"} {
		calls = append(calls, tools.Call{ID: id, Name: toolReview, Arguments: []byte(`{"query":"x"}`)})
	}
	d.Admit(t.Context(), calls)
	ds, err := log.Below().Delegations(t.Context(), log.ID())
	if err != nil || len(ds) != 2 {
		t.Fatalf("delegations are %v, %v", ds, err)
	}
	for _, del := range ds {
		if _, ran, err := st.Stop(t.Context(), del.Child, time.Minute); !ran || err != nil {
			t.Fatalf("Stop = %t, %v", ran, err)
		}
	}
	const why = "a person stopped it before it started"
	if r, err := d.query(t.Context(), calls[0]); err != nil || !strings.Contains(r.Text, why) {
		t.Errorf("the result is %+v, %v", r, err)
	}
	d.Release(t.Context())
	ds, err = log.Below().Delegations(t.Context(), log.ID())
	if err != nil {
		t.Fatal(err)
	}
	for _, del := range ds {
		if del.State != convstore.StateCancelled || del.Reason != why {
			t.Errorf("%s ended as %s: %s", del.Call, del.State, del.Reason)
		}
	}
}

// TestProfileHoldsNobodyUp: a call that is a reply by itself may have to wait for what it names,
// such as a server that starts. Others begin and end meanwhile.
func TestProfileHoldsNobodyUp(t *testing.T) {
	_, log := running(t)
	set := specialSet(t, toolReview)
	var d *Delegator
	resolved := 0
	d, err := New(Options{
		Scope: log.Below(), Lanes: 2,
		Special: func(context.Context, string) (Special, error) {
			if resolved++; !d.lanes.mu.TryLock() {
				t.Error("no other call can begin or end")
				return Special{}, errors.New("held up")
			}
			d.lanes.mu.Unlock()
			return Special{}, errors.New("the server does not start")
		},
	}, func(Funcs) (tools.Set, error) { return set, nil })
	if err != nil {
		t.Fatal(err)
	}
	r, err := d.query(t.Context(), tools.Call{ID: "c", Name: toolReview, Arguments: []byte(`{"query":"x"}`)})
	if err != nil || resolved != 1 || !strings.Contains(r.Text, "the server does not start") {
		t.Errorf("resolved %d times: %+v, %v", resolved, r, err)
	}
}

// TestStoppedBeforeItRuns: a sub-agent that is stopped, or whose time is over, while something on the
// way to its process still waits, has ended for that reason, and was no failure.
func TestStoppedBeforeItRuns(t *testing.T) {
	for name, test := range map[string]struct {
		cause error // nil = nobody stops it
		want  convstore.State
	}{
		"stopped":  {context.Canceled, convstore.StateCancelled},
		"deadline": {context.DeadlineExceeded, convstore.StateTimeout},
		"failed":   {nil, convstore.StateError},
	} {
		for _, late := range []bool{false, true} { // whether a machine was found
			t.Run(fmt.Sprint(name, " ", late), func(t *testing.T) {
				_, log := running(t)
				if err := log.Append(t.Context(), convstore.Event{ID: "s", Body: convstore.TurnStart{}}); err != nil {
					t.Fatal(err)
				}
				ctx, stop := context.WithCancelCause(t.Context())
				defer stop(nil)
				fails := func(ctx context.Context) error {
					if test.cause == nil {
						return errors.New("no such machine")
					}
					stop(test.cause)
					<-ctx.Done()
					return context.Cause(ctx) // as the store returns where the context ends while it waits
				}
				set := specialSet(t, toolReview)
				d, err := New(Options{
					Scope: log.Below(), Limits: rule.Limits{MaxDepth: 1, MaxPerTurn: 5, MaxChildren: 5, MaxParallel: 1, Share: 1},
					Special: func(_ context.Context, tool string) (Special, error) {
						return Special{Profile: reader(tool), Session: "s"}, nil
					},
					Environ: func(context.Context, Run) []string { return nil },
					Place: func(ctx context.Context, _ Below) (subprocess.Runner, error) {
						if !late {
							return nil, fails(ctx)
						}
						return farRunner(func(ctx context.Context, job subprocess.Job) (proc.Exit, error) {
							defer job.Wire.Close()
							return proc.Exit{Code: -1}, fails(ctx)
						}), nil
					},
				}, func(Funcs) (tools.Set, error) { return set, nil })
				if err != nil {
					t.Fatal(err)
				}
				call := tools.Call{ID: "c", Name: toolReview, Arguments: []byte(`{"query":"x"}`)}
				d.Admit(ctx, []tools.Call{call})
				_, _ = d.query(ctx, call)
				d.Release(ctx)
				ds, err := log.Below().Delegations(t.Context(), log.ID())
				if err != nil || len(ds) != 1 {
					t.Fatalf("delegations are %v, %v", ds, err)
				}
				if ds[0].State != test.want {
					t.Errorf("it ended as %s: %s, want %s", ds[0].State, ds[0].Reason, test.want)
				}
			})
		}
	}
}
