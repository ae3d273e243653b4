package cli

import (
	"context"
	"sync"

	"jp/cmd/jp/internal/acp"
)

// The options of a session, by the flags that they stand for.
const (
	acpModel     = "model"
	acpReasoning = "reasoning"
)

// acpChoice is what --model and --reasoning say.
type acpChoice struct {
	model     string
	reasoning string
}

// acpOptionsOf are the options of one session: as they are, and what was chosen and not recorded in the conversation yet. Safe
// for concurrent use.
type acpOptionsOf struct {
	mu     sync.Mutex
	now    acpChoice
	chosen acpChoice // "" = nothing
	models []candidate
}

// learn reads what the options are from the config of a run, and reports whether that is new to the editor.
func (o *acpOptionsOf) learn(ctx context.Context, q *query) bool {
	a := q.resolved.Config.Assistant
	models := q.knownModels(ctx)
	o.mu.Lock()
	defer o.mu.Unlock()
	now := acpChoice{or(o.chosen.model, a.Model), or(o.chosen.reasoning, a.Parameters.Reasoning)}
	changed := now != o.now
	o.now, o.models = now, models
	return changed
}

// apply has a run use what was chosen.
func (o *acpOptionsOf) apply(to *queryOptions) acpChoice {
	o.mu.Lock()
	defer o.mu.Unlock()
	to.model, to.reasoning = maybe[string]{o.chosen.model != "", o.chosen.model}, o.chosen.reasoning
	return o.chosen
}

// applied is told that the conversation has recorded a choice.
func (o *acpOptionsOf) applied(c acpChoice) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.chosen == c {
		o.chosen = acpChoice{}
	}
}

// Options are the model and how much it reasons.
func (s *acpSession) Options() []acp.ConfigOption {
	o := &s.options
	o.mu.Lock()
	defer o.mu.Unlock()
	models := []acp.ConfigValue{{Value: o.now.model, Name: o.now.model}}
	for _, m := range o.models {
		if m.word != o.now.model {
			models = append(models, acp.ConfigValue{Value: m.word, Name: m.word, Description: m.text})
		}
	}
	var efforts []acp.ConfigValue
	if o.now.reasoning == "" {
		efforts = append(efforts, acp.ConfigValue{Value: "", Name: "as the model does"})
	}
	for _, e := range reasoningEfforts() {
		efforts = append(efforts, acp.ConfigValue{Value: e, Name: e})
	}
	return []acp.ConfigOption{
		{ID: acpModel, Name: "Model", Category: "model", Type: "select", Current: o.now.model, Values: models},
		{ID: acpReasoning, Name: "Reasoning", Category: "thought_level", Type: "select", Current: o.now.reasoning, Values: efforts},
	}
}

// Set chooses a model or how much it reasons, once it was found that the conversation can go on with it.
func (s *acpSession) Set(ctx context.Context, id, value string) error {
	c := acpChoice{}
	if id == acpModel {
		c.model = value
	} else {
		c.reasoning = value
	}
	return acpError(s.choose(ctx, c))
}

func (s *acpSession) choose(ctx context.Context, c acpChoice) error {
	q, err := s.open(ctx)
	if err != nil {
		return err
	}
	if q.conv, err = q.store.Get(ctx, s.id); err != nil {
		return err
	}
	q.o.model, q.o.reasoning = maybe[string]{c.model != "", c.model}, c.reasoning
	if err := q.asStored(ctx); err != nil {
		return err
	}
	if _, _, err := q.accept(ctx); err != nil {
		return err
	}
	o := &s.options
	o.mu.Lock()
	defer o.mu.Unlock()
	o.chosen = acpChoice{or(c.model, o.chosen.model), or(c.reasoning, o.chosen.reasoning)}
	o.now = acpChoice{or(c.model, o.now.model), or(c.reasoning, o.now.reasoning)}
	return nil
}

// asStored resolves the config that the conversation of q has.
func (q *query) asStored(ctx context.Context) error {
	stored, err := q.store.Config(ctx, q.conv.ID)
	if err != nil {
		return err
	}
	return q.resolve(ctx, stored.JSON, nil)
}
