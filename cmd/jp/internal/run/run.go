package run

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"jp/cmd/jp/internal/agent"
	"jp/cmd/jp/internal/blank"
	"jp/cmd/jp/internal/delegate"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/term"
	"jp/cmd/jp/internal/wire"
	"jp/cmd/jp/internal/wording"
	"jp/convstore"
	"jp/profiles"
	"jp/profiles/delta"
	"jp/tools/proc"
)

// site is the place of a run: workspace, store and processes.
type site struct {
	env   *Env
	Root  string           // folder of the workspace
	Store *convstore.Store // the one store that the run may use; with --no-persist one of its own; nil in a delegated run
	Host  *proc.Host       // host of the processes of the run

	tree *tree // what all sub-agents share; nil = there are none
	far  *far  // launchers; nil in a delegated run
}

// Run is a conversation that is open for one turn. Its lock is held and its config is resolved. If
// a person delegates it, the delegation is reserved.
type Run struct {
	site
	held
	Conv     convstore.Conversation // conversation as it was when it was opened
	Resolved *profiles.Resolved
	Began    time.Time

	req     Request
	change  *convstore.ConfigDelta // change of the stored config; nil = none
	back    *convstore.ConfigDelta // takes back the model of change; nil = that has none
	made    bool                   // mark of a conversation that this run made
	scope   convstore.Scope        // scope of a delegation by a person
	hand    *convstore.Reservation // delegation by a person, settled by Finish; nil = none
	settled *convstore.Spend       // what it used, with all below it; nil = it is not settled
	slot    *convstore.Slot        // slot of a delegation by a person; nil = none
	own     *delegate.Delegator    // holder of the slot; nil before there is an Agent, and in a delegated run
	tty     *term.TTY              // terminal for questions; nil = none
	remove  func()                 // removes the temporary store; nil = the store is that of the workspace
	unasked bool                   // mark of a run that asks no model
	writer  string                 // model that writes a summary; "" = as the config says
}

// held is the conversation that a run holds: its locked log, where this process has the store, else
// the wire to the process that has it.
type held struct {
	Log agent.Log // nil in a run that is only tried, see Startable
}

// locked returns the log; nil = this process has no store.
func (h held) locked() *convstore.Log {
	log, _ := h.Log.(*convstore.Log)
	return log
}

// conn returns the wire of a delegated run; nil = it is none.
func (h held) conn() *wire.Conn {
	conn, _ := h.Log.(*wire.Conn)
	return conn
}

// Delegated reports whether another jp started this run and settles it.
func (h held) Delegated() bool { return h.conn() != nil }

// aside runs f while nothing else moves on the terminal.
func (r *Run) aside(f func()) {
	if r.req.Aside == nil {
		f()
		return
	}
	r.req.Aside(f)
}

// Providers returns the providers and prices of the models that the config names.
func (r *Run) Providers() model.Providers { return r.env.Providers(r.Resolved.Config) }

// Resumes reports whether the run asks nothing new and resumes the open turn.
func (r *Run) Resumes() bool { return r.req.Task.Text == "" }

// OnStop calls stop with the cause if a person stops this run with `jp stop`, until off is called,
// after Close. A sub-agent is stopped by the process that started it.
func (r *Run) OnStop(stop func(cause error)) (off func()) {
	log := r.locked()
	if log == nil || r.remove != nil {
		return func() {}
	}
	return onStop(r.env, log, stop)
}

func onStop(env *Env, log *convstore.Log, stop func(cause error)) (off func()) {
	off, err := log.OnStop(func() { stop(convstore.ErrStopped) })
	if err != nil {
		env.Con.Warn("`jp stop` cannot stop this run: %v", err)
		return func() {}
	}
	return off
}

// Surface makes a conversation that is continued one that listings and searches find: it is taken out
// of the archive, and a session of an editor stays from its first turn on. A person is warned of
// one that the next query removes. A conversation that another jp delegates remains as it is.
func (r *Run) Surface(ctx context.Context) error {
	c := r.Conv
	if r.Delegated() || r.env.Con.Globals.NoPersist {
		return nil
	}
	begins := !r.made && blank.Is(c)
	if !begins && !c.Pinned && !c.ExpiresAt.IsZero() && !c.ExpiresAt.After(time.Now()) {
		r.env.Con.Warn("conversation %s has expired: the next jp query elsewhere removes it; `jp conversation edit %s --no-tmp` keeps it", c.ID, c.ID)
	}
	if !begins && !c.Archived() {
		return nil
	}
	err := r.Store.Edit(ctx, c.ID, func(c *convstore.Conversation) error {
		if c.ArchivedAt = (time.Time{}); begins {
			blank.End(c)
		}
		return nil
	})
	if err == nil && c.Archived() {
		r.env.Con.Note("conversation %s was in the archive and was taken out of it", c.ID)
	}
	return err
}

// NoteChange says to a person what flags of this run change in a conversation for good.
func (r *Run) NoteChange() {
	if r.change == nil || r.Delegated() || r.env.Con.Globals.NoPersist {
		return
	}
	list, most := slices.DeleteFunc(delta.Settings(r.change.Delta), func(s string) bool { return strings.HasPrefix(s, "style.") }), 3 // what is shown is seen
	if n := r.change.Named; n != nil {
		list = append([]string{"profile " + n.Profile}, list...)
	}
	if len(list) > most {
		list = append(list[:most], fmt.Sprintf("%d more", len(list)-most))
	}
	if len(list) > 0 {
		r.env.Con.Note("%s keeps from now on: %s", r.Conv.ID, strings.Join(list, ", "))
	}
}

// Close releases the conversation and the slot. If a person's delegation has not ended, Close
// settles it as failed, or withdraws it if the run did nothing. A conversation that this run has
// made and in which no turn has begun is removed, unless it is kept.
func (r *Run) Close(ctx context.Context) {
	if r.hand != nil {
		o := convstore.Outcome{State: convstore.StateError, Reason: "the run did not come to its end", Ended: time.Now()}
		ctx, stop := convstore.Briefly(ctx)
		if err := r.scope.Withdraw(ctx, r.hand, o); err != nil {
			r.env.Con.Warn("%s: settle: %v", r.Conv.ID, err)
			_ = r.hand.Release() // the next process that writes to this ledger settles it
		}
		stop()
		r.hand = nil
	}
	r.releaseSlot()
	r.far.close()
	if r.tty != nil {
		_ = r.tty.Close()
	}
	if open, ok := r.Log.(io.Closer); ok {
		_ = open.Close()
	}
	if r.made && r.remove == nil { // a temporary store is removed whole
		r.unmake(ctx, r.Conv.ID, 0)
	}
	if r.remove != nil {
		r.remove()
	}
}

// releaseSlot releases the slot that this run holds.
func (r *Run) releaseSlot() {
	slot := r.slot
	if r.own != nil {
		slot = r.own.TakeSlot()
	}
	r.slot = nil
	if slot == nil {
		return
	}
	if err := slot.Release(); err != nil {
		r.env.Con.Warn("slot: %v", err)
	}
}

// settle settles a delegation by a person.
func (r *Run) settle(ctx context.Context, o convstore.Outcome) {
	if settled, err := r.scope.Settle(ctx, r.hand, o); err != nil {
		r.env.Con.Warn("%s: settle: %v", r.Conv.ID, err)
		_ = r.hand.Release() // as in Close
	} else {
		r.settled = &settled.Total
		delegate.LogEnd(r.env.Con.Logger(), settled)
	}
	r.hand = nil
}

// Keep keeps the conversation that this run has made, although no turn begins in it.
func (r *Run) Keep() { r.made = false }

// unmake removes a conversation that this process has made, if it has so many turns and nobody has
// used it otherwise. Its lock is free by then.
func (s site) unmake(ctx context.Context, id convstore.ID, turns int) {
	ctx, stop := convstore.Briefly(ctx)
	defer stop()
	conv, err := s.Store.Get(ctx, id)
	if err == nil && conv.Turns == turns && conv.Children == 0 && !conv.Pinned {
		_, err = s.Store.Remove(ctx, id, convstore.RemoveOptions{})
	}
	if err != nil {
		s.env.Con.Warn("%s: it stays, even if it is empty: %v", id, err)
	}
}

// Expire settles runs that died and removes expired conversations. Its errors are warnings. With -v
// it prints what it removed. A run that was stopped leaves that to the next one, if it has to wait.
func (s site) Expire(ctx context.Context) {
	ctx, stop := convstore.Briefly(ctx)
	defer stop()
	if err := s.Store.Reconcile(ctx); ctx.Err() != nil {
		return
	} else if err != nil {
		s.env.Con.Warn("settling runs that died: %v", err)
	}
	gone, err := s.Store.Expire(ctx)
	if ctx.Err() != nil {
		return
	} else if err != nil {
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

// Again returns a hint that ends in the command line that resumes the conversation, with what was only
// for this run but long sections of the system prompt; "" if the conversation does not stay.
func (r *Run) Again() string {
	switch {
	case r.env.Con.Globals.NoPersist:
		return ""
	case r.Delegated(): // its caller sets the limits
		return "resume with: jp query --id " + r.Conv.ID.String()
	}
	line := "jp query --id " + r.Conv.ID.String() + r.req.Limits
	if role := r.req.Role; role != "" && role != r.Conv.Role {
		line += " --role " + role
	}
	if to := r.req.Launcher; to.Set {
		line += " --launcher " + wording.ShellWord(to.Value)
	}
	prompts, fits := wording.Repeated(" --append-system-prompt ", r.req.Prompts)
	return wording.Either(fits, "resume with: ", "resume, and give --append-system-prompt again, with: ") + line + prompts + r.WorkspaceFlag()
}

// WorkspaceFlag returns the flag of the workspace for a command line, "" where none is needed.
func (r *Run) WorkspaceFlag() string {
	return wording.Either(r.env.Con.Globals.Workspace.Set && !r.Delegated(), " -w "+wording.ShellWord(r.Root), "")
}

// WithDeadline limits a delegated run to the time of its grant, which starts now. The remaining
// time of its caller comes as --timeout.
//
// bounded reports whether the run has a deadline.
func (r *Run) WithDeadline(ctx context.Context) (_ context.Context, cancel context.CancelFunc, bounded bool) {
	g := r.Conv.Grant
	if g == nil || g.Timeout <= 0 || !r.Delegated() && r.hand == nil {
		return ctx, func() {}, false
	}
	ctx, cancel = context.WithTimeoutCause(ctx, g.Timeout, fmt.Errorf("deadline of the delegation: %w", context.DeadlineExceeded))
	return ctx, cancel, true
}

// Finish stops the processes that a turn left running, and settles a delegation by a person. It
// returns an error for processes that it could not stop; the answer is valid even then.
func (r *Run) Finish(ctx context.Context, out agent.Outcome) (left error) {
	var all sync.WaitGroup
	all.Go(r.env.Servers.Close)
	all.Go(r.far.close)
	all.Wait()
	left = r.Host.Close()
	if r.hand != nil {
		r.settle(ctx, convstore.Outcome{State: out.State, Reason: out.Reason, PID: os.Getpid(), Started: r.Began, Ended: time.Now()})
	}
	return left
}

// ErrNothing returns the error of a run that is asked nothing and has nothing to resume.
func ErrNothing() error {
	return exit.Usagef("query: nothing to ask and nothing to resume").WithHint("give the question as words or on stdin; `jp query --id ID` resumes another conversation; on a terminal $EDITOR opens if it is set")
}

// BatchAgain is the hint about a batch that was imported. What it ran is not in this store's ledger.
const BatchAgain = "give the queries to jp batch again, with --resume FILE if you have its rows"

// Resumable reports whether a conversation can be resumed without a request.
func Resumable(c convstore.Conversation) bool {
	return !c.NoAgent && c.Status != convstore.StatusNew && c.Status != convstore.Status(convstore.StateOK)
}
