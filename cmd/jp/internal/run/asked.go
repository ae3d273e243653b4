package run

import (
	"context"
	"encoding/json"

	"jp/cmd/jp/internal/enabled"
	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/rule"
	"jp/cmd/jp/internal/wording"
	"jp/convstore"
	"jp/profiles"
	"jp/tools"
)

// An answer is found again under a digest of what was asked. What is in it differs with who asks:
//
//   - A delegation, by an agent or a person: the resolved profile with its tools and skills, what
//     of them was granted, the model and the request (rule.Asked).
//   - A run that a person starts: what the model is sent, and what its tools may do.
//
// Not in it is what an agent finds out: files, pages, the profiles of its own sub-agents.

// meaning returns what a resolved profile says, see rule.MeaningOf.
func (env *Env) meaning(r *profiles.Resolved, defs []tools.Definition) (string, error) {
	held := rule.Held(defs)
	for i, d := range defs {
		if d.Name == enabled.SkillTool {
			var err error
			if held[i].Description, err = rule.MeaningOf(r.Stored(), env.Skills().Texts()); err != nil {
				return "", err
			}
		}
	}
	return rule.MeaningOf(r.Stored(), held)
}

// asked returns the digest of the run's task. Of a run that was delegated, by an agent or a person,
// the rule has made it; nothing that a recording answers has one.
func (ag *Agent) asked() (convstore.Digest, error) {
	r, l := ag.run, ag.Loop
	if r.hand != nil || r.Delegated() || r.env.Tape.Replays() {
		return convstore.Digest{}, nil
	}
	var defs []tools.Definition
	for t := range l.Tools.Set.All() {
		defs = append(defs, t.Definition)
	}
	type asks struct {
		Model       string
		Temperature *float64
	}
	var models []asks // behind an empty one that of an escalation
	for _, m := range l.Models {
		models = append(models, asks{m.Model, m.Temperature})
	}
	if m := l.Escalate; m != nil {
		models = append(models, asks{}, asks{m.Model, m.Temperature})
	}
	return rule.DigestOf(struct {
		rule.Asked
		Models      []asks
		System      []model.Section
		Tools       []rule.HeldTool
		Skills      []rule.HeldTool
		Config      json.RawMessage // with the sub-agents of special tools; nil = it holds none
		MaxTokens   int
		Reasoning   string
		MaxRounds   int
		Window      int
		ContextTool string
	}{
		r.req.Task.asked(), models, l.System, rule.Held(defs), ag.Skills.Texts(), wording.Either(specialTools(l.Tools.Set), json.RawMessage(r.Resolved.Stored()), nil),
		l.MaxTokens, l.Reasoning, l.MaxRounds, l.Window, r.req.Task.Fetch.Tool,
	})
}

// Known returns the turn that has answered the task of this run before; false = none has. It looks
// in the conversation that goes on, if the run goes on with one.
func (ag *Agent) Known(ctx context.Context) (convstore.Answer, bool, error) {
	d, err := ag.asked()
	if err != nil {
		return convstore.Answer{}, false, err
	}
	of := ag.run.Conv.ID
	if ag.run.made {
		of = 0
	}
	return ag.run.Store.Answer(ctx, d, of)
}

// personal reports whether a person's word is part of how the turn went, so that it is no answer to
// the same question another time.
func (ag *Agent) personal() bool { return ag.decided.Load() || len(ag.denied.all()) > 0 }

// delivers returns what asks whether a result may reach the model.
func (ag *Agent) delivers(policy *tools.Policy) func(context.Context, tools.Tool, tools.Call, tools.Result) (tools.Decision, error) {
	return func(ctx context.Context, t tools.Tool, c tools.Call, r tools.Result) (tools.Decision, error) {
		d, err := policy.Deliver(ctx, t, c, r)
		if err != nil || !d.Allow {
			ag.decided.Store(true)
		}
		return d, err
	}
}
