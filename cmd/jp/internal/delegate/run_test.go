package delegate

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"jp/cmd/jp/internal/call"
	"jp/cmd/jp/internal/rule"
	"jp/cmd/jp/internal/subprocess"
	"jp/cmd/jp/internal/wire"
	"jp/tools"
	"jp/tools/proc"
)

// TestTimeLeft: a child is told how long its caller goes on, as a duration: it has the same time
// whatever the clock says by then.
func TestTimeLeft(t *testing.T) {
	if got := wire.TimeLeft(t.Context()); got != 0 {
		t.Errorf("left without a deadline = %v, want none", got)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	defer cancel()
	if got := wire.TimeLeft(ctx); got <= 0 || got > time.Hour {
		t.Errorf("left = %v, want at most an hour", got)
	}
	late, cancel := context.WithTimeout(t.Context(), -time.Hour)
	defer cancel()
	if got := wire.TimeLeft(late); got != time.Millisecond {
		t.Errorf("left after the end = %v, want next to nothing and not for ever", got)
	}
	p := &runner{}
	for _, test := range []struct {
		left time.Duration
		want string
	}{{0, ""}, {90 * time.Second, "--timeout=1m30s"}} {
		argv := p.argv(1, false, request{}, false, test.left)
		i := slices.IndexFunc(argv, func(a string) bool { return strings.HasPrefix(a, "--timeout") })
		if i < 0 && test.want != "" || i >= 0 && argv[i] != test.want {
			t.Errorf("argv with %v left = %q, want %q", test.left, argv, test.want)
		}
	}
}

// TestReadsWait calls the conversation tools while others have all places, or another call of the
// same agent has its only one: each waits for one.
func TestReadsWait(t *testing.T) {
	full := make(call.Readers, 1)
	full <- struct{}{}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("Ctrl-C")
	cancel(why)
	for _, d := range []*Delegator{
		{catalog: &catalog{}, runner: &runner{o: Options{Reads: full}}},
		{catalog: &catalog{}, runner: &runner{}, reads: full},
	} {
		for _, name := range []string{"jp_conversation_list", "jp_conversation_print", "jp_conversation_grep"} {
			read, ok := d.function(name)
			if !ok {
				t.Fatal(name)
			}
			if _, err := read(ctx, tools.Call{}); err != why {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// place is a subprocess.Runner.
type place func(context.Context, subprocess.Job) (proc.Exit, error)

func (p place) Run(ctx context.Context, job subprocess.Job) (proc.Exit, error) { return p(ctx, job) }

// TestTimeOfOnePassedOver: the time of a sub-agent that a node has passed over does not run while it
// waits for a place on another one.
func TestTimeOfOnePassedOver(t *testing.T) {
	_, log := running(t)
	var timed []bool
	runs := func(ctx context.Context, job subprocess.Job) (proc.Exit, error) {
		defer job.Wire.Close()
		look := func() {
			_, ok := ctx.Deadline()
			timed = append(timed, ok)
		}
		look()
		for _, host := range []string{"passes it over", "runs it"} {
			again := job.Idle()
			look()
			if err := errors.Join(again(ctx), job.Away(host, time.Minute)); err != nil {
				t.Error(err)
			}
			look()
		}
		return proc.Exit{Code: 1}, nil
	}
	d, err := New(Options{
		Scope: log.Below(), Limits: rule.Limits{MaxDepth: 1, MaxPerTurn: 1, MaxChildren: 1, MaxParallel: 1, Share: 1, Timeout: time.Hour},
		Special: func(_ context.Context, tool string) (Special, error) {
			return Special{Profile: reader(tool), Session: "s"}, nil
		},
		Environ: func(context.Context, Run) []string { return nil },
		Place:   func(context.Context, Below) (subprocess.Runner, error) { return place(runs), nil },
	}, func(Funcs) (tools.Set, error) { return specialSet(t, toolReview), nil })
	if err != nil {
		t.Fatal(err)
	}
	r, err := d.query(t.Context(), tools.Call{ID: "c", Name: toolReview, Arguments: []byte(`{"query":"x"}`)})
	if want := []bool{false, false, true, false, true}; err != nil || !slices.Equal(timed, want) {
		t.Errorf("its time runs: %v, want %v; %s, %v", timed, want, r.Text, err)
	}
}
