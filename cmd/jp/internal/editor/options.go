package editor

import (
	"cmp"
	"context"
	"sync"

	"jp/cmd/jp/internal/acp"
	"jp/cmd/jp/internal/choices"
	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/run"
	"jp/convstore"
	"jp/profiles"
	"jp/profiles/effort"
)

// The options of a session, by the flags that they stand for.
const (
	optionModel     = "model"
	optionReasoning = "reasoning"
	optionRole      = "role"
)

// asIs is the value of reasoning where the config says nothing of it.
const asIs = "default"

// choice is what --model, --reasoning and --role say.
type choice struct {
	model     string
	reasoning string
	role      string
}

// over is the choice with what is not given taken from another.
func (c choice) over(other choice) choice {
	return choice{cmp.Or(c.model, other.model), cmp.Or(c.reasoning, other.reasoning), cmp.Or(c.role, other.role)}
}

// sessionOptions are the options of one session: as the conversation has them, and as they were
// chosen. The conversation records model and reasoning with its next prompt; the role is that of
// the session. Safe for concurrent use.
type sessionOptions struct {
	mu     sync.Mutex
	stored choice
	chosen choice // "" = nothing
	shown  choice // to the editor
	models []command.Candidate
}

// learn reads what the conversation of a run has, and reports whether the options are not what the
// editor was told.
func (o *sessionOptions) learn(ctx context.Context, own *run.Env, conv convstore.Conversation, r *profiles.Resolved) bool {
	a := r.Config.Assistant
	known := choices.New(own.Con, own.WS, own.Servers)
	models := known.Models(ctx, known.HasKey)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stored, o.models = choice{a.Model, cmp.Or(a.Parameters.Reasoning, asIs), cmp.Or(conv.Role, profiles.RoleMain)}, models
	return o.chosen.over(o.stored) != o.shown
}

// apply has a run use what was chosen.
func (o *sessionOptions) apply(to *run.Request) choice {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.chosen.use(to, o.stored)
	return o.chosen
}

// use sets the flags of a run of a conversation that has stored.
func (c choice) use(to *run.Request, stored choice) {
	to.UseModel(c.model)
	if c.reasoning != asIs {
		to.UseReasoning(c.reasoning)
	}
	if c.role != stored.role {
		to.Role = c.role
	}
}

// applied is told that the conversation has recorded a choice.
func (o *sessionOptions) applied(c choice) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.chosen == c {
		o.chosen = choice{role: c.role}
	}
}

// Options are the model, how much it reasons, and what the agent may hold at most.
func (s *session) Options() []acp.ConfigOption {
	o := &s.options
	o.mu.Lock()
	defer o.mu.Unlock()
	now := o.chosen.over(o.stored)
	o.shown = now
	option := func(id, name, category, current string, values ...acp.ConfigValue) acp.ConfigOption {
		return acp.ConfigOption{ID: id, Name: name, Category: category, Type: "select", Current: current, Values: values}
	}
	models := []acp.ConfigValue{{Value: now.model, Name: now.model}}
	for _, m := range o.models {
		if m.Word != now.model {
			models = append(models, acp.ConfigValue{Value: m.Word, Name: m.Word, Description: m.Text})
		}
	}
	var efforts []acp.ConfigValue
	if now.reasoning == asIs {
		efforts = append(efforts, acp.ConfigValue{Value: asIs, Name: asIs, Description: "as the model does by itself"})
	}
	for _, e := range effort.Levels() {
		efforts = append(efforts, acp.ConfigValue{Value: e, Name: e})
	}
	var roles []acp.ConfigValue
	for _, r := range narrower(o.stored.role) {
		name := map[string]string{
			profiles.RoleMain: "Everything", profiles.RoleScheduled: "What runs with nobody there", profiles.RoleSynthesis: "Only reading",
		}[r]
		roles = append(roles, acp.ConfigValue{Value: r, Name: cmp.Or(name, r), Description: "tools that the role " + r + " may hold, of those that the config enables"})
	}
	return []acp.ConfigOption{
		option(optionModel, "Model", "model", now.model, models...),
		option(optionReasoning, "Reasoning", "thought_level", now.reasoning, efforts...),
		option(optionRole, "Tools", "mode", now.role, roles...),
	}
}

// narrower are the roles that an agent of a role can be held to, itself first: each holds no more
// than those before it.
func narrower(role string) []string {
	switch role {
	case profiles.RoleMain:
		return []string{role, profiles.RoleScheduled, profiles.RoleSynthesis}
	case profiles.RoleSynthesis:
		return []string{role}
	}
	return []string{role, profiles.RoleSynthesis}
}

// Set chooses a value of an option, once it was found that the conversation can go on with it.
func (s *session) Set(ctx context.Context, id, value string) error {
	c := map[string]choice{optionModel: {model: value}, optionReasoning: {reasoning: value}, optionRole: {role: value}}[id]
	return wireError(s.choose(ctx, c))
}

func (s *session) choose(ctx context.Context, c choice) error {
	own, leave, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer leave()
	req := run.Request{}
	c.use(&req, choice{})
	conv, err := own.Stored(ctx, s.id, req)
	if err != nil {
		return err
	}
	if err := conv.Check(ctx); err != nil {
		return err
	}
	o := &s.options
	o.mu.Lock()
	defer o.mu.Unlock()
	o.chosen = c.over(o.chosen)
	return nil
}
