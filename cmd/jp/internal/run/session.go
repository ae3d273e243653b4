package run

import (
	"context"
	"errors"
	"time"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/delegate"
	"jp/cmd/jp/internal/enabled"
	"jp/cmd/jp/internal/review"
	"jp/convstore"
	"jp/profiles"
	"jp/tools"
	"jp/tools/proc"
)

// Session is the turn of a command that starts sub-agents but has no agent of its own, such as jp
// batch.
type Session struct {
	site
	Resolved *profiles.Resolved     // config of the implicit layers
	Conv     convstore.Conversation // conversation that Begin made or Reopen took; zero before that
	Log      *convstore.Log         // nil before that
	Unused   bool                   // whether the conversation goes at the end if nobody else has used it

	defs []tools.Definition // tools of Resolved
	turn bool               // whether its turn is open
	stop func(cause error)  // ends the command
	off  func()             // see onStop; nil before Begin
	end  func() error       // ends a stand, see Stand; nil without one
}

// Delegating runs f with a session whose config is that of the implicit layers. Signals end ctx.
// When it returns, no process is left running.
func (env *Env) Delegating(ctx context.Context, f func(context.Context, *Session) error) (err error) {
	host := proc.NewHost(proc.Options{})
	defer func() { err = errors.Join(err, host.Close()) }()
	ctx, stop := env.Con.WithSignals(ctx, host.Kill)
	defer stop()
	at, err := env.site(ctx, host)
	if err != nil {
		return err
	}
	if _, err := env.WS.Gate.Pass(ctx); err != nil {
		return err
	}
	ctx, abandon := context.WithCancelCause(ctx)
	defer abandon(nil)
	defer env.Con.IO.Bound(ctx)() // jp stop ends ctx
	s := &Session{site: at, stop: abandon}
	defer s.far.close()
	defer func() {
		if s.end != nil {
			err = errors.Join(err, s.end())
		}
		if s.Log != nil {
			_ = s.Log.Close()
		}
		if s.off != nil {
			s.off()
		}
		if s.Unused {
			s.unmake(ctx, s.Conv.ID, 1)
		}
	}()
	if s.Resolved, err = env.Implicit(ctx); err != nil {
		return err
	}
	if s.defs, err = env.Definitions(ctx, s.Resolved); err != nil { // its limits and models count below every conversation
		return err
	}
	return f(ctx, s)
}

// Choose starts all sub-agents by the launcher of a flag, if that is given.
func (s *Session) Choose(flag command.Maybe[string]) error { return s.choose(s.Resolved.Config, flag) }

// Delegation returns the options of a Delegator for the conversation of scope.
func (s *Session) Delegation(scope convstore.Scope) delegate.Options {
	return s.delegation(s.Resolved.Config, scope, nil, func(ctx context.Context, tool string) (delegate.Special, error) {
		return s.special(ctx, s.Resolved, false, tool)
	})
}

// Stand says that the command works on behalf of a conversation until the session ends, so that
// `jp stop` of it ends the command. A command calls it before it waits for anything of the
// conversation, and else StandFor does. A session stands for one conversation.
func (s *Session) Stand(ctx context.Context, id convstore.ID) error {
	if s.end != nil {
		return nil
	}
	scope, err := s.Store.Below(ctx, id)
	if err == nil {
		s.end, err = scope.Stand(func() { s.stop(convstore.ErrStopped) })
	}
	return err
}

// StandFor returns what a person can use who delegates on behalf of a conversation, for which the
// session then stands.
func (s *Session) StandFor(ctx context.Context, id convstore.ID) (Stand, error) {
	st, err := s.env.standFor(ctx, id, nil, convstore.Change{})
	if err == nil {
		err = s.Stand(ctx, id)
	}
	return st, err
}

// Begin makes the conversation n, with the session's config, for the sub-agents to run below, begins
// its turn, and sets the limits of its session.
func (s *Session) Begin(ctx context.Context, n convstore.New, about string, session convstore.Limits) error {
	r := s.Resolved
	has, err := review.Has(ctx, s.env.WS, r, s.defs)
	if err != nil {
		return err
	}
	n.Profile, n.ProfileArg, n.ProfileHash, n.Model = r.Profile, r.ProfileArg, r.ProfileHash, r.Config.Assistant.Model
	n.Config = convstore.Config{JSON: r.Stored(), Tools: enabled.Names(s.defs)}
	return s.begin(ctx, has, n, At(convstore.TurnStart{Limits: &session, NoAgent: true}), At(convstore.UserMessage{Text: about}))
}

// Reopen takes the conversation of an earlier session, which nobody may run.
func (s *Session) Reopen(ctx context.Context, id convstore.ID) (err error) {
	if s.Log, err = s.Store.Lock(ctx, id); err != nil {
		return err
	}
	s.off = onStop(s.env, s.Log, s.stop)
	s.Conv, err = s.Log.Get(ctx)
	return err
}

// Settle settles what the earlier session has left open. Its sub-agents must have ended.
func (s *Session) Settle(ctx context.Context) error {
	_, err := s.Log.Below().Reserve(ctx, func(convstore.Standing) ([]convstore.Child, error) { return nil, nil })
	return err
}

// open reports whether the conversation that Reopen took has an open turn, and what that is about.
func (s *Session) open(ctx context.Context) (open bool, about string, err error) {
	for ev, err := range s.Log.Events(ctx, convstore.LastTurns(1)) {
		if err != nil {
			return false, "", err
		}
		switch b := ev.Body.(type) {
		case convstore.TurnStart:
			open = true
		case convstore.UserMessage:
			about = b.Text
		case convstore.TurnEnd:
			open = false
		}
	}
	return open, about, nil
}

// TakeUp takes the open turn of the earlier session, if it has left one that is about what ours
// says, so that Conclude ends it.
func (s *Session) TakeUp(ctx context.Context, ours func(about string) bool) error {
	open, about, err := s.open(ctx)
	s.turn = open && s.Conv.NoAgent && ours(about)
	return err
}

// Again begins another turn in the conversation that Reopen took, within the limits of session. An
// open turn ends so before.
func (s *Session) Again(ctx context.Context, about string, session convstore.Limits, so convstore.TurnEnd) error {
	open, _, err := s.open(ctx)
	if open {
		err = s.Log.Append(ctx, At(so))
	}
	if err != nil {
		return err
	}
	err = s.Log.Append(ctx, At(convstore.TurnStart{Limits: &session, NoAgent: true}), At(convstore.UserMessage{Text: about}))
	s.turn = err == nil
	return err
}

// begin makes a conversation with what it has, see review.Has, and these events. If it fails, there is none.
func (s *Session) begin(ctx context.Context, has []convstore.Allowance, n convstore.New, events ...convstore.Event) (err error) {
	if s.Conv, err = s.Store.Create(ctx, n); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			if s.Log != nil {
				_ = s.Log.Close()
			}
			s.unmake(ctx, s.Conv.ID, 0)
			s.Conv, s.Log = convstore.Conversation{}, nil
		}
	}()
	if s.Log, err = s.Store.Lock(ctx, s.Conv.ID); err != nil {
		return err
	}
	if err = review.Keep(ctx, s.Log, &s.Conv, has); err != nil {
		return err
	}
	s.off = onStop(s.env, s.Log, s.stop)
	err = s.Log.Append(ctx, events...)
	s.turn = err == nil
	return err
}

// EndOf returns how that turn ended: end, unless it was stopped or failed.
func EndOf(ctx context.Context, failed error, end convstore.TurnEnd) convstore.TurnEnd {
	switch {
	case ctx.Err() != nil:
		return convstore.TurnEnd{State: convstore.StateCancelled, Reason: context.Cause(ctx).Error()}
	case failed != nil:
		return convstore.TurnEnd{State: convstore.StateError, Reason: failed.Error()}
	}
	return end
}

// Conclude ends the turn that Begin or Again began. Without one it does nothing.
func (s *Session) Conclude(ctx context.Context, text string, end convstore.TurnEnd) error {
	if !s.turn {
		return nil
	}
	s.turn = false
	return s.Log.Append(ctx, At(convstore.AssistantMessage{Text: text}), At(end))
}

// At returns an event with the present time.
func At(body convstore.Body) convstore.Event {
	return convstore.Event{ID: convstore.NewEventID(), Time: time.Now(), Body: body}
}
