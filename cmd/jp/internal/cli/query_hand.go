package cli

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"

	"jp/cmd/jp/internal/delegate"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/run"
	"jp/cmd/jp/internal/wording"
	"jp/convstore"
)

// delegateByHand makes a child of --root-id by the one rule, as a person. The run is settled by run.
func (q *query) delegateByHand(ctx context.Context) error {
	parent, err := q.app.ws.Target(ctx, q.o.rootID.Value)
	if err != nil {
		return err
	}
	check := func(config []byte) error {
		if err := q.resolve(ctx, config, nil); err != nil {
			return err
		}
		_, _, err := q.accept(ctx)
		return err
	}
	hand, err := q.app.env.HandOver(ctx, run.Order{
		Parent: parent, Directives: q.o.directives, Session: q.o.sessionFlags(), Model: q.o.model.Value,
		Title: q.o.title.Value, Hidden: q.o.hidden, Want: q.o.bounds(), Check: check,
	})
	if err != nil {
		return err
	}
	if err := q.take(ctx, hand.Scope, hand.Res); err != nil {
		return err
	}
	return q.resolve(ctx, hand.Config, nil)
}

// duplicate returns another descriptor of an open file.
func duplicate(f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, fmt.Errorf("run lock: %w", err)
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// goOn continues a sub-conversation for a person. Its config is resolved and found good first, so that a mistake costs nothing.
func (q *query) goOn(ctx context.Context, text string) error {
	if text == "" && !resumable(q.conv.Status) {
		return errNothing()
	}
	stored, err := q.store.Config(ctx, q.conv.ID)
	if err != nil {
		return err
	}
	if err := q.resolve(ctx, stored.JSON, q.o.directives); err != nil {
		return err
	}
	model, _, err := q.accept(ctx)
	if err != nil {
		return err
	}
	if err := q.reserve(ctx, model); err != nil {
		return err
	}
	if taken := q.log.Taken(); !bytes.Equal(taken.JSON, stored.JSON) {
		return exit.Refusedf("conversation %s: its config was changed meanwhile", q.conv.ID).WithHint("try it again")
	}
	return q.record(ctx, stored.JSON)
}

// reserve reserves a run of a sub-conversation that a person continues, by the same rule and at the expense of the conversation
// that delegated it. model is the one that will be asked. run settles it.
func (q *query) reserve(ctx context.Context, model string) error {
	child := q.conv
	st, err := q.app.env.StandFor(ctx, child.Parent, q.o.directives, q.o.sessionFlags())
	if err != nil {
		return err
	}
	ask := delegate.Ask{Call: "hand-" + convstore.NewEventID(), Tool: st.Tool, ID: child.ID, Profile: delegate.Profile{Name: child.Profile}, Model: model, Want: q.o.bounds()}
	if strings.HasPrefix(child.Profile, "llm_") { // made by a tool with one sub-agent: the tool stands for the profile
		ask.Tool, ask.Fixed = child.Profile, true
	}
	res, err := st.Scope.Reserve(ctx, func(s convstore.Standing) ([]convstore.Child, error) {
		v := delegate.Decide(s, st.Caller, []delegate.Ask{ask})[0]
		v.Child.Replayed = q.app.env.Tape.Replays()
		return []convstore.Child{v.Child}, v.Err
	})
	if err != nil {
		return err
	}
	return q.take(ctx, st.Scope, res[0])
}

// take makes a reservation the run of this process, in the conversation as it was reserved: with the grant of this run. What can be
// resumed is its last one. The log and the reservation hold the lock each by a descriptor of its own: whichever goes first, the
// other keeps it.
func (q *query) take(ctx context.Context, scope convstore.Scope, res *convstore.Reservation) error {
	was := q.conv
	q.scope, q.hand, q.conv = scope, res, res.Child
	if was.ID == q.conv.ID {
		q.conv.Status, q.conv.Reason = was.Status, was.Reason
	}
	lock, err := duplicate(res.LockFile())
	if err != nil {
		return err
	}
	if q.log, err = q.store.Adopt(ctx, res.Child.ID, lock); err != nil {
		return err
	}
	most := res.Delegation.Grant.MaxParallel
	q.slot, err = scope.Slots(res.Delegation.Root, most).Take(ctx, func() {
		q.app.con.Note("waiting for a slot: %s of this tree are at work", wording.Plural(most, "sub-agent"))
	})
	return err
}
