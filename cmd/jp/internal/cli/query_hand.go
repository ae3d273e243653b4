package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"jp/cmd/jp/internal/delegate"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/wording"
	"jp/convstore"
	"jp/profiles"
	"jp/tools"
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
	hand, err := q.app.handOver(ctx, parent, q.o.directives, q.o.title.Value, q.o.hidden, q.o.model.Value, &q.o, check)
	if err != nil {
		return err
	}
	if err := q.take(ctx, hand.scope, hand.res); err != nil {
		return err
	}
	return q.resolve(ctx, hand.config, nil)
}

// duplicate returns another descriptor of an open file.
func duplicate(f *os.File) (*os.File, error) {
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, fmt.Errorf("run lock: %w", err)
	}
	return os.NewFile(uintptr(fd), f.Name()), nil
}

// errTried rolls back a reservation that was only tried.
var errTried = errors.New("tried")

// handed is a delegation made by a person.
type handed struct {
	scope  convstore.Scope
	res    *convstore.Reservation
	config []byte
}

// stand is what a person has who delegates on behalf of a conversation.
type stand struct {
	scope  convstore.Scope
	caller delegate.Caller
	tool   string // that the person takes the place of
}

// standFor looks at a conversation's scope, and at what its stored config lets it call, and to whom, and how often. Flags change
// that config for now. The limits of the session are written anew where nobody runs the root.
func (a *app) standFor(ctx context.Context, id convstore.ID, ds, flags []profiles.Directive) (st stand, err error) {
	store, err := a.ws.Store(ctx)
	if err != nil {
		return st, err
	}
	conv, err := store.Get(ctx, id)
	if err != nil {
		return st, err
	}
	stored, err := store.Config(ctx, id)
	if err != nil {
		return st, err
	}
	src, err := a.ws.Sources(ctx, ds)
	if err != nil {
		return st, err
	}
	src.Stored = stored.JSON
	r, err := a.ws.Resolve(src, nil, flags)
	if err != nil {
		return st, err
	}
	defs, err := a.definitions(ctx, r)
	if err != nil {
		return st, err
	}
	if !r.Config.Delegation.Enabled {
		defs = nil // nothing of it can be called
	}
	defs = slices.DeleteFunc(defs, func(d tools.Definition) bool { return d.Run == tools.RunDeny })
	st.caller.Limits, st.caller.Priced = limits(r.Config), a.priced(r.Config)
	ceiling, err := delegate.CeilingOf(conv.Grant, conv.Role)
	if err != nil {
		return st, err
	}
	st.caller.Tools = ceiling.Names(defs)
	st.tool = delegates(defs, st.caller.Tools)
	if st.scope, err = store.Below(ctx, id); err != nil {
		return st, err
	}
	return st, st.scope.Limit(ctx, sessionLimits(r.Config))
}

// delegates names a tool, of those that are held, that sub-agents under profiles are asked with: jp_query where it is held, or where
// none is, which the rule then says.
func delegates(defs []tools.Definition, held []string) string {
	for _, name := range []string{"jp_query", "jp_batch_query"} {
		if slices.Contains(held, name) {
			return name
		}
	}
	for _, d := range defs {
		if slices.Contains(held, d.Name) && slices.Contains(d.Access.JP, tools.VerbQuery) {
			return d.Name
		}
	}
	return "jp_query"
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
	st, err := q.app.standFor(ctx, child.Parent, q.o.directives, q.o.sessionFlags())
	if err != nil {
		return err
	}
	ask := delegate.Ask{Call: "hand-" + convstore.NewEventID(), Tool: st.tool, ID: child.ID, Profile: delegate.Profile{Name: child.Profile}, Model: model, Want: q.o.bounds()}
	if strings.HasPrefix(child.Profile, "llm_") { // made by a tool with one sub-agent: the tool stands for the profile
		ask.Tool, ask.Fixed = child.Profile, true
	}
	res, err := st.scope.Reserve(ctx, func(s convstore.Standing) ([]convstore.Child, error) {
		v := delegate.Decide(s, st.caller, []delegate.Ask{ask})[0]
		v.Child.Replayed = q.app.tape.Replays()
		return []convstore.Child{v.Child}, v.Err
	})
	if err != nil {
		return err
	}
	return q.take(ctx, st.scope, res[0])
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

// handOver applies the one rule for a person who delegates on behalf of parent: parent's stored config says to whom it may
// delegate and with which limits, the profile is the one that --cfg names.
// check, if any, may refuse the profile's config before anything is made.
func (a *app) handOver(ctx context.Context, parent convstore.ID, ds []profiles.Directive, title string, hidden bool, modelID string, o *queryOptions, check func(config []byte) error) (*handed, error) {
	st, err := a.standFor(ctx, parent, ds, o.sessionFlags())
	if err != nil {
		return nil, err
	}
	name := ""
	for _, d := range ds {
		if d.Text != "NONE" {
			if name != "" {
				return nil, exit.Usagef("--cfg %s: a delegation takes one profile", d.Text)
			}
			name = d.Text
		}
	}
	if name == "" {
		return nil, exit.Usagef("--root-id: name the agent profile with --cfg").WithHint("for example --cfg agent/researcher")
	}
	profile, err := a.profile(ctx, name, modelID)
	if err != nil {
		return nil, err
	}
	ask := delegate.Ask{Call: "hand-" + convstore.NewEventID(), Tool: st.tool, Title: title, Profile: profile, Want: o.bounds()}
	reserve := func(commit bool) ([]*convstore.Reservation, error) {
		return st.scope.Reserve(ctx, func(s convstore.Standing) ([]convstore.Child, error) {
			v := delegate.Decide(s, st.caller, []delegate.Ask{ask})[0]
			if v.Err == nil && !commit {
				v.Err = errTried
			}
			v.Child.Hidden = hidden
			v.Child.Replayed = a.tape.Replays()
			return []convstore.Child{v.Child}, v.Err
		})
	}
	if check != nil { // what the rule refuses comes before what is wrong with the config
		if _, err := reserve(false); err != errTried {
			return nil, err
		}
		if err := check(profile.Config.JSON); err != nil {
			return nil, err
		}
	}
	res, err := reserve(true)
	if err != nil {
		return nil, err
	}
	return &handed{scope: st.scope, res: res[0], config: profile.Config.JSON}, nil
}
