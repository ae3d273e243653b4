package cli

import (
	"context"
	"errors"
	"time"

	"jp/cmd/jp/internal/agent"
	"jp/cmd/jp/internal/delegate"
	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/otel"
	"jp/cmd/jp/internal/run"
	"jp/cmd/jp/internal/term"
	"jp/profiles"
)

// titlePatience is how long a run waits at its end for a title.
const titlePatience = 20 * time.Second

var errTitleLate = errors.New("it took too long")

// name has a model find a title for a conversation whose first turn is done, where the config says which. The answer is out by
// then: whatever goes wrong is a line in the log, the title stays what it was, and Ctrl-C does without. A sub-agent's conversation
// is called by its task.
func (q *query) name(ctx context.Context, loop *agent.Loop, out agent.Outcome) {
	cfg := q.resolved.Config
	id := cfg.Conversation.TitleModel
	if id == "" || !out.First || q.app.con.Globals.NoPersist || q.o.title.Set || q.conv.Grant != nil || ctx.Err() != nil {
		return
	}
	if _, err := cfg.ResolveModel(id); err != nil {
		q.app.con.Warn("%v", inKey(err, run.TitleKey))
		return
	}
	if q.tree != nil {
		q.app.con.IO, q.app.con.Progress = q.app.con.IO.Progress("finding a title, Ctrl-C does without", term.ProgressOptions{})
		defer q.app.con.Progress.End()
	}
	ctx, cancel := context.WithTimeoutCause(otel.With(ctx, q.span), titlePatience, errTitleLate)
	defer cancel()
	title, err := loop.Title(ctx, agent.Naming{
		Line: delegate.Title, Free: q.free,
		Writer: func(ctx context.Context) (agent.Writer, error) {
			return q.scribe(ctx, cfg, run.TitleKey, id, run.Waits{})
		},
	})
	switch {
	case err != nil && ctx.Err() != nil:
		q.app.con.Logger().Info("title", "conversation", q.conv.ID, "model", id, "skipped", context.Cause(ctx).Error())
		q.app.con.Verbosef("no title: %v", context.Cause(ctx))
	case err != nil:
		q.app.con.Logger().Warn("title", "conversation", q.conv.ID, "model", id, "error", err.Error())
		q.app.con.Verbosef("%v", err)
	case title != "":
		q.app.con.Verbosef("title: %s", title)
	}
}

// scribe opens the model that key names, to write something beside the turns of this conversation.
func (q *query) scribe(ctx context.Context, cfg profiles.Config, key, id string, w run.Waits) (agent.Writer, error) {
	id, err := cfg.ResolveModel(id)
	if err != nil {
		return agent.Writer{}, inKey(err, key)
	}
	stream, info, err := q.app.env.Model(ctx, cfg, id, w)
	if err == nil {
		err = q.boundable(info)
	}
	return writer(stream, info, info.Window), err
}

// inKey has an error about the name of a model say where that name stands.
func inKey(err error, key string) error {
	var bad *profiles.Error
	if !errors.As(err, &bad) {
		return err
	}
	there := *bad
	there.Key = key
	return &there
}

func writer(stream model.Stream, info model.Info, window int) agent.Writer {
	return agent.Writer{Ask: stream, Model: info.ID, Name: info.Name, Price: info.Price, Output: info.Output, Window: window}
}
