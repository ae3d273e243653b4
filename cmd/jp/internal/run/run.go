package run

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"jp/cmd/jp/internal/agent"
	"jp/cmd/jp/internal/delegate"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/term"
	"jp/convstore"
	"jp/profiles"
	"jp/tools/proc"
)

// site is where a run works.
type site struct {
	env   *Env
	Root  string           // folder of the workspace
	Store *convstore.Store // the one store that the run may use; with --no-persist one of its own
	Host  *proc.Host       // of its processes
}

// Run is a conversation that is open for one turn: its lock is held, its config resolved, and a person's delegation reserved.
type Run struct {
	site
	Log       *convstore.Log
	Conv      convstore.Conversation // as it was opened
	Resolved  *profiles.Resolved
	Delegated bool // another jp runs this one, and settles it
	Began     time.Time

	req     Request
	made    bool                   // by this run
	scope   convstore.Scope        // of a delegation by hand
	hand    *convstore.Reservation // delegation by a person, settled by Finish; nil = none
	slot    *convstore.Slot        // of a delegated run; nil = none
	sub     *delegate.Delegator    // holder of the slot; nil before there is an Agent
	tty     *term.TTY              // nil = nobody is asked there
	remove  func()                 // removes a store of its own; nil = the workspace's
	unasked bool                   // no model is asked
	writer  string                 // model that writes a summary; "" = as the config says
}

// aside runs f while nothing else moves on the terminal.
func (r *Run) aside(f func()) {
	if r.req.Aside == nil {
		f()
		return
	}
	r.req.Aside(f)
}

// ByHand reports whether a person delegated this run, which Finish settles.
func (r *Run) ByHand() bool { return r.hand != nil }

// Providers is what is known of the models that the config names.
func (r *Run) Providers() model.Providers { return r.env.Providers(r.Resolved.Config) }

// Resumes reports whether the run is asked nothing and goes on with the open turn.
func (r *Run) Resumes() bool { return r.req.Task.Text == "" }

// Activate makes the conversation the session's active one.
func (r *Run) Activate(ctx context.Context) error {
	session := r.env.WS.Session()
	if session == "" || r.env.Con.Globals.NoPersist {
		return nil
	}
	return r.Store.Activate(ctx, session, r.Conv.ID)
}

// Unarchive takes a conversation that goes on out of the archive, where nobody would find what is said in it. What another jp
// delegates stays where it is.
func (r *Run) Unarchive(ctx context.Context) error {
	if !r.Conv.Archived() || r.Delegated || r.env.Con.Globals.NoPersist {
		return nil
	}
	err := r.Store.Edit(ctx, r.Conv.ID, func(c *convstore.Conversation) error {
		c.ArchivedAt = time.Time{}
		return nil
	})
	if err == nil {
		r.env.Con.Note("conversation %s was in the archive and was taken out of it", r.Conv.ID)
	}
	return err
}

// Close gives up the conversation and the slot; a delegation by hand that did not come to its end is settled as that, or taken
// back where nothing came of it.
func (r *Run) Close(ctx context.Context) {
	if r.hand != nil {
		o := convstore.Outcome{State: convstore.StateError, Reason: "the run did not come to its end", Ended: time.Now()}
		if err := r.scope.Withdraw(context.WithoutCancel(ctx), r.hand, o); err != nil {
			r.env.Con.Warn("%s: settle: %v", r.Conv.ID, err)
		}
		r.hand = nil
	}
	if !r.Delegated { // else it is free when all of this run has ended
		r.leaveSlot()
	}
	if r.tty != nil {
		_ = r.tty.Close()
	}
	if r.Log != nil {
		_ = r.Log.Close()
	}
	if r.remove != nil {
		r.remove()
	}
}

// leaveSlot gives back the slot that this run works in by now.
func (r *Run) leaveSlot() {
	slot := r.slot
	if r.sub != nil {
		slot = r.sub.Leave()
	}
	r.slot = nil
	if slot == nil {
		return
	}
	if err := slot.Release(); err != nil {
		r.env.Con.Warn("slot: %v", err)
	}
}

// settle ends a delegation by hand.
func (r *Run) settle(ctx context.Context, o convstore.Outcome) {
	if settled, err := r.scope.Settle(ctx, r.hand, o); err != nil {
		r.env.Con.Warn("%s: settle: %v", r.Conv.ID, err)
	} else {
		delegate.LogEnd(r.env.Con.Logger(), settled)
	}
	r.hand = nil
}

// Unmake removes the conversation that this run has made, and in which nothing was done.
func (r *Run) Unmake(ctx context.Context) {
	if !r.made {
		return
	}
	if err := r.Log.Close(); err != nil {
		r.env.Con.Warn("%s: %v", r.Conv.ID, err)
	}
	if _, err := r.Store.Remove(context.WithoutCancel(ctx), r.Conv.ID, convstore.RemoveOptions{}); err != nil {
		r.env.Con.Warn("%s: it is empty and could not be removed: %v", r.Conv.ID, err)
	}
	r.Log, r.made = nil, false
}

// Expire settles what runs that died have left, and removes what has expired. It is never silent with -v, and never the reason for a
// failure.
func (s site) Expire(ctx context.Context) {
	if err := s.Store.Reconcile(context.WithoutCancel(ctx)); err != nil {
		s.env.Con.Warn("settling runs that died: %v", err)
	}
	gone, err := s.Store.Expire(context.WithoutCancel(ctx))
	if err != nil {
		s.env.Con.Warn("removing expired conversations: %v", err)
	}
	if len(gone) > 0 {
		names := make([]string, len(gone))
		for i, id := range gone {
			names[i] = id.String()
		}
		s.env.Con.Verbosef("removed, expired: %s", strings.Join(names, " "))
	}
}

// Again is the command line that goes on with the conversation, within the limits of this run.
func (r *Run) Again() string {
	if r.Delegated { // its limits are its caller's
		return "jp query --id " + r.Conv.ID.String()
	}
	line := "jp query --id " + r.Conv.ID.String() + r.req.Limits
	if role := r.req.Role; role != "" && role != r.Conv.Role { // it was for this run alone
		line += " --role " + role
	}
	if r.env.Con.Globals.Workspace.Set { // the person may be elsewhere
		line += " -w '" + strings.ReplaceAll(r.Root, "'", `'\''`) + "'"
	}
	return line
}

// WithDeadline bounds a delegated run by its time, which runs from here. What is left of its caller's comes as --timeout.
//
// bounded reports whether it has one.
func (r *Run) WithDeadline(ctx context.Context) (_ context.Context, cancel context.CancelFunc, bounded bool) {
	g := r.Conv.Grant
	if g == nil || g.Timeout <= 0 || !r.Delegated && r.hand == nil {
		return ctx, func() {}, false
	}
	ctx, cancel = context.WithTimeoutCause(ctx, g.Timeout, fmt.Errorf("deadline of the delegation: %w", context.DeadlineExceeded))
	return ctx, cancel, true
}

// Finish ends what a turn has left running, and settles it where a person delegated it. What could not be ended is told, and no
// reason to keep the answer back.
func (r *Run) Finish(ctx context.Context, out agent.Outcome) (left error) {
	r.env.Servers.Close()
	left = r.Host.Close()
	if r.hand != nil {
		r.settle(ctx, convstore.Outcome{State: out.State, Reason: out.Reason, PID: os.Getpid(), Started: r.Began, Ended: time.Now()})
	}
	return left
}

// ErrNothing is the end of a run that is asked nothing and has no open turn.
func ErrNothing() error {
	return exit.Usagef("query: nothing to ask and nothing to resume").WithHint("give the question as words or on stdin")
}

// Resumable reports whether a conversation whose last run ended so can go on without a word.
func Resumable(s convstore.Status) bool {
	return s != convstore.StatusNew && s != convstore.Status(convstore.StateOK)
}
