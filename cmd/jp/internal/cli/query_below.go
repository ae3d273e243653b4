package cli

import (
	"context"
	"errors"
	"time"

	"jp/cmd/jp/internal/run"
	"jp/convstore"
	"jp/tools/proc"
)

// place is a run in this workspace: its store is at hand and what the workspace says has passed the gate. The caller closes host.
func (a *app) place(ctx context.Context, host *proc.Host) (*query, error) {
	ws, err := a.ws.Root()
	if err != nil {
		return nil, err
	}
	store, err := a.ws.Store(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := a.ws.Gate.Pass(ctx); err != nil {
		return nil, err
	}
	return &query{app: a, workspace: ws, store: store, host: host}, nil
}

// delegating is the life of a command that has sub-agents work without an agent of its own: f gets a run with the config of the
// implicit layers. Signals end ctx; nothing is left running.
func (a *app) delegating(ctx context.Context, f func(context.Context, *query) error) (err error) {
	host := proc.NewHost(proc.Options{})
	defer func() { err = errors.Join(err, host.Close()) }()
	ctx, stop := a.con.WithSignals(ctx, host.Kill)
	defer stop()
	q, err := a.place(ctx, host)
	if err != nil {
		return err
	}
	defer q.close(ctx)
	if q.resolved, err = a.env.Implicit(ctx); err != nil {
		return err
	}
	return f(ctx, q)
}

// begin makes a conversation that sub-agents run below without an agent, and begins its turn, with what its session may use.
func (q *query) begin(ctx context.Context, title, about string, labels map[string]string, session convstore.Limits) error {
	defs, err := q.app.env.Definitions(ctx, q.resolved)
	if err != nil {
		return err
	}
	r := q.resolved
	if q.conv, err = q.store.Create(ctx, convstore.New{
		Title: title, Labels: labels, Profile: r.Profile, ProfileArg: r.ProfileArg, ProfileHash: r.ProfileHash, Model: r.Config.Assistant.Model,
		Config: convstore.Config{JSON: r.Stored(), Tools: run.Names(defs)},
	}); err != nil {
		return err
	}
	if q.log, err = q.store.Lock(ctx, q.conv.ID); err != nil {
		return err
	}
	return q.log.Append(ctx, at(convstore.TurnStart{Limits: &session}), at(convstore.UserMessage{Text: about}))
}

// endOf is how that turn ends: as end has it, unless it was stopped or failed.
func endOf(ctx context.Context, failed error, end convstore.TurnEnd) convstore.TurnEnd {
	switch {
	case ctx.Err() != nil:
		return convstore.TurnEnd{State: convstore.StateCancelled, Reason: context.Cause(ctx).Error()}
	case failed != nil:
		return convstore.TurnEnd{State: convstore.StateError, Reason: failed.Error()}
	}
	return end
}

// conclude ends that turn, saying what there was. Without a turn it does nothing.
func (q *query) conclude(ctx context.Context, text string, end convstore.TurnEnd) error {
	if q.log == nil {
		return nil
	}
	return q.log.Append(ctx, at(convstore.AssistantMessage{Text: text}), at(end))
}

func at(body convstore.Body) convstore.Event {
	return convstore.Event{ID: convstore.NewEventID(), Time: time.Now(), Body: body}
}
