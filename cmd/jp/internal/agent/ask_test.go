package agent

import (
	"context"
	"iter"
	"testing"
	"time"

	"jp/cmd/jp/internal/model"
	"jp/convstore"
)

// heldBack is a gate that holds the first request back.
type heldBack struct{ entered int }

func (g *heldBack) Enter(_ context.Context, waits func(time.Duration)) (model.Pass, error) {
	if g.entered++; g.entered == 1 {
		waits(time.Minute)
	}
	return model.Pass{}, nil
}
func (*heldBack) Heard(model.Pass)                       {}
func (*heldBack) Limited(model.Pass, time.Duration) bool { return false }

// A call stands in the account, as what a killed process is charged, while it is on its way and not
// while it waits.
func TestNothingIsBegunWhileACallWaits(t *testing.T) {
	busy := &model.Error{Kind: model.KindRateLimit, Status: 429}
	for name, tt := range map[string]struct {
		first []model.Part // of the attempt that fails
		gate  model.Gate
		waits int
		calls int // stored calls
	}{
		"refused":                {waits: 1, calls: 1},
		"failed, having used":    {first: []model.Part{{Usage: &convstore.Usage{Input: 7, Output: 1}}}, waits: 1, calls: 2},
		"held back and refused":  {gate: &heldBack{}, waits: 2, calls: 1},
		"held back, having used": {gate: &heldBack{}, first: []model.Part{{Usage: &convstore.Usage{Input: 7}}}, waits: 2, calls: 2},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRun(t, "[[rule]]\ntext = \"fine\"\n")
			begun := func() int64 {
				a, err := r.store.Account(t.Context(), r.id)
				if err != nil {
					t.Fatal(err)
				}
				return a.Call.Tokens()
			}
			ask, n, waits := r.loop.Models[0].Ask, 0, 0
			flaky := func(ctx context.Context, req model.Request) iter.Seq2[model.Part, error] {
				return func(yield func(model.Part, error) bool) {
					if begun() == 0 {
						t.Error("an attempt was sent, and is not begun")
					}
					if n++; n > 1 {
						ask(ctx, req)(yield)
						return
					}
					for _, p := range tt.first {
						if !yield(p, nil) {
							return
						}
					}
					yield(model.Part{}, busy)
				}
			}
			r.loop.Models[0].Ask = model.Retry(flaky, model.RetryOptions{
				Gate: tt.gate,
				Notice: func(context.Context, model.Retrying) {
					waits++
					if n := begun(); n != 0 {
						t.Errorf("a call waits, and %d tokens stand for it", n)
					}
				},
				Sleep: func(context.Context, time.Duration) error { return nil },
			})
			r.send(t.Context(), "go")
			calls := 0
			for ev, err := range r.store.Events(t.Context(), r.id, convstore.Range{}) {
				if err != nil {
					t.Fatal(err)
				}
				if _, ok := ev.Body.(convstore.ModelCall); ok {
					calls++
				}
			}
			if n != 2 || waits != tt.waits || calls != tt.calls {
				t.Errorf("%d attempts, %d waits, %d calls stored; want 2, %d, %d", n, waits, calls, tt.waits, tt.calls)
			}
		})
	}
}
