package delegate

import (
	"context"
	"errors"
	"strings"
	"time"

	"jp/cmd/jp/internal/subprocess"
	"jp/convstore"
)

// Await waits until every delegation that an earlier run of the scope's caller has left open is
// settled, of those that left selects by their call. That run must have ended: its children end by
// themselves then, but an answer may be stored while tools of its child still end. waiting is
// called before it waits for a child, once for each.
//
// It fails with a *convstore.BusyError where a child runs longer than its grant allows, and with
// the cause of ctx.
func Await(ctx context.Context, scope convstore.Scope, left func(call string) bool, waiting func(convstore.Delegation)) error {
	open, err := scope.Open(ctx)
	if err != nil {
		return err
	}
	for _, del := range open {
		if !left(del.Call) {
			continue
		}
		if err := await(ctx, scope, del, waiting); err != nil {
			return err
		}
	}
	return nil
}

// lookAgain is how often a wait looks whether a child has ended, which nobody tells who is not its
// parent.
const lookAgain = 50 * time.Millisecond

func await(ctx context.Context, scope convstore.Scope, del convstore.Delegation, waiting func(convstore.Delegation)) error {
	var over <-chan time.Time
	if t := del.Grant.Timeout; t > 0 {
		over = time.After(t + subprocess.Lag + subprocess.Grace)
	}
	look := time.NewTicker(lookAgain)
	defer look.Stop()
	for first := true; ; first = false {
		_, err := scope.SettleLeft(ctx, del)
		var busy *convstore.BusyError
		if !errors.As(err, &busy) || busy.ID != del.Child {
			return err
		}
		if first {
			waiting(del)
		}
		select {
		case <-look.C:
		case <-over:
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Await waits, before calls of an open turn are repeated, until the children that an earlier run
// started for them have ended. The caller's run lock is held, so that run has ended.
func (d *Delegator) Await(ctx context.Context, calls []string) error {
	return Await(ctx, d.scope, func(call string) bool {
		for _, c := range calls {
			if rest, ok := strings.CutPrefix(call, c); ok && (rest == "" || rest[0] == '#') { // an item of a batch is numbered
				return true
			}
		}
		return false
	}, func(del convstore.Delegation) {
		d.ledger.warn("%s", Left(del))
	})
}

// Left says what is waited for.
func Left(del convstore.Delegation) string {
	return "waiting for " + del.Child.String() + ", which an earlier run started and which has not ended yet"
}
