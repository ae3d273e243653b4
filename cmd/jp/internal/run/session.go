package run

import (
	"context"
	"errors"
	"time"

	"jp/cmd/jp/internal/delegate"
	"jp/convstore"
	"jp/profiles"
	"jp/tools/proc"
)

// Session is the turn of a command that has sub-agents work without an agent of its own.
type Session struct {
	site
	Resolved *profiles.Resolved     // of the implicit layers
	Conv     convstore.Conversation // that Begin made; zero before
	Log      *convstore.Log         // nil before Begin
}

// Delegating is the life of such a command: f gets a session whose config is that of the implicit layers. Signals end ctx;
// nothing is left running.
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
	s := &Session{site: at}
	defer func() {
		if s.Log != nil {
			_ = s.Log.Close()
		}
	}()
	if s.Resolved, err = env.Implicit(ctx); err != nil {
		return err
	}
	return f(ctx, s)
}

// Delegator delegates for the conversation of scope; its tools are filled in by the caller.
func (s *Session) Delegator(scope convstore.Scope) *delegate.Delegator {
	return s.delegator(s.Resolved.Config, scope, nil, func(ctx context.Context, tool string) (delegate.Special, error) {
		return s.special(ctx, s.Resolved, false, tool)
	})
}

// Begin makes a conversation that sub-agents run below without an agent, and begins its turn, with what its session may use.
func (s *Session) Begin(ctx context.Context, title, about string, labels map[string]string, session convstore.Limits) error {
	defs, err := s.env.Definitions(ctx, s.Resolved)
	if err != nil {
		return err
	}
	r := s.Resolved
	if s.Conv, err = s.Store.Create(ctx, convstore.New{
		Title: title, Labels: labels, Profile: r.Profile, ProfileArg: r.ProfileArg, ProfileHash: r.ProfileHash, Model: r.Config.Assistant.Model,
		Config: convstore.Config{JSON: r.Stored(), Tools: Names(defs)},
	}); err != nil {
		return err
	}
	if s.Log, err = s.Store.Lock(ctx, s.Conv.ID); err != nil {
		return err
	}
	return s.Log.Append(ctx, At(convstore.TurnStart{Limits: &session}), At(convstore.UserMessage{Text: about}))
}

// EndOf is how that turn ends: as end has it, unless it was stopped or failed.
func EndOf(ctx context.Context, failed error, end convstore.TurnEnd) convstore.TurnEnd {
	switch {
	case ctx.Err() != nil:
		return convstore.TurnEnd{State: convstore.StateCancelled, Reason: context.Cause(ctx).Error()}
	case failed != nil:
		return convstore.TurnEnd{State: convstore.StateError, Reason: failed.Error()}
	}
	return end
}

// Conclude ends that turn, saying what there was. Without a turn it does nothing.
func (s *Session) Conclude(ctx context.Context, text string, end convstore.TurnEnd) error {
	if s.Log == nil {
		return nil
	}
	return s.Log.Append(ctx, At(convstore.AssistantMessage{Text: text}), At(end))
}

// At is an event that happens now.
func At(body convstore.Body) convstore.Event {
	return convstore.Event{ID: convstore.NewEventID(), Time: time.Now(), Body: body}
}
