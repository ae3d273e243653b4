package run

import (
	"context"
	"errors"
	"iter"
	"os"
	"time"

	"jp/cmd/jp/internal/agent"
	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/models"
	"jp/convstore"
	"jp/profiles"
	"jp/tools/proc"
)

// Shortening says how to open a conversation that is to be compacted.
type Shortening struct {
	Writer  string // model that writes the summary; "" = as the config says
	Unasked bool   // no model is asked
}

// OpenToShorten opens a conversation to compact it. A summary costs money: in a delegated
// conversation its grant pays, as for every run. The caller closes the run and host.
func (env *Env) OpenToShorten(ctx context.Context, host *proc.Host, id convstore.ID, s Shortening) (_ *Run, err error) {
	at, err := env.site(ctx, host)
	if err != nil {
		return nil, err
	}
	o := &opening{site: at, Began: time.Now(), writer: s.Writer, unasked: s.Unasked}
	defer func() {
		if err != nil {
			(*Run)(o).Close(ctx)
		}
	}()
	if o.Conv, err = o.Store.Get(ctx, id); err != nil {
		return nil, err
	}
	if o.Conv.Link == convstore.DelegationLink && o.Conv.Grant != nil && !s.Unasked {
		err = o.reserveSummary(ctx)
	} else {
		err = o.lock(ctx, id)
	}
	if err == nil {
		err = o.resolve(ctx, o.locked().Taken().JSON, nil)
	}
	return (*Run)(o), err
}

// Shortened settles a run that compacted, if a person's delegation pays for it.
func (r *Run) Shortened(ctx context.Context) {
	if r.hand != nil {
		r.settle(ctx, convstore.Outcome{State: convstore.StateOK, PID: os.Getpid(), Started: r.Began, Ended: time.Now()})
	}
}

// reserveSummary reserves a run that asks only the model that writes a summary.
func (o *opening) reserveSummary(ctx context.Context) error {
	if _, err := o.resolveStored(ctx, nil); err != nil {
		return err
	}
	id, _, err := o.accept(ctx)
	if err == nil && o.writer != "" {
		if id, err = o.Resolved.Config.ResolveModel(o.writer); err == nil {
			_, _, err = o.env.Model(ctx, o.Resolved.Config, id, models.Waits{})
		}
		err = inKey(err, "--model")
	}
	if err != nil {
		return err
	}
	return o.reserve(ctx, id)
}

// noModel is the model of a run that asks no model.
func noModel(context.Context, model.Request) iter.Seq2[model.Part, error] {
	return func(yield func(model.Part, error) bool) { yield(model.Part{}, errors.New("this run asks no model")) }
}

// modelOf opens the model of this run. If the run asks no model, it only looks up the facts about
// it, which needs no key.
func (ag *Agent) modelOf(ctx context.Context, cfg profiles.Config, id string) (model.Stream, model.Info, error) {
	if !ag.run.unasked {
		return ag.run.env.Model(ctx, cfg, id, ag.run.req.Waits)
	}
	info, err := model.Lookup(id, ag.run.env.Providers(cfg))
	return noModel, info, err
}

// compaction returns when this run compacts its conversation, and which model writes the summary.
// In a sub-agent that is its own model: its owner asks no other for it, and its grant is for this
// one.
func (ag *Agent) compaction(cfg profiles.Config) agent.Compact {
	set := cfg.Conversation.Compact
	c := agent.Compact{Off: set.Mode == "off"}
	key, id := "--model", ag.run.writer
	if id == "" && !ag.run.Delegated() && ag.run.hand == nil {
		key, id = "conversation.compact.model", set.Model
	}
	if id != "" {
		c.Writer = func(ctx context.Context) (agent.Writer, error) { return ag.scribe(ctx, cfg, key, id, ag.run.req.Waits) }
	}
	return c
}
