package cli

import (
	"cmp"
	"context"
	"sync"

	"jp/cmd/jp/internal/acp"
	"jp/cmd/jp/internal/choices"
	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/run"
	"jp/convstore"
	"jp/profiles"
)

// The options of a session, by the flags that they stand for.
const (
	acpModel     = "model"
	acpReasoning = "reasoning"
	acpRole      = "role"
)

// acpAsIs is the value of reasoning where the config says nothing of it.
const acpAsIs = "default"

// acpChoice is what --model, --reasoning and --role say.
type acpChoice struct {
	model     string
	reasoning string
	role      string
}

// over is the choice with what is not given taken from another.
func (c acpChoice) over(other acpChoice) acpChoice {
	return acpChoice{cmp.Or(c.model, other.model), cmp.Or(c.reasoning, other.reasoning), cmp.Or(c.role, other.role)}
}

// acpOptionsOf are the options of one session: as the conversation has them, and as they were chosen. The conversation records model
// and reasoning with its next prompt; the role is that of the session. Safe for concurrent use.
type acpOptionsOf struct {
	mu     sync.Mutex
	stored acpChoice
	chosen acpChoice // "" = nothing
	shown  acpChoice // to the editor
	models []command.Candidate
}

// learn reads what the conversation of a run has, and reports whether the options are not what the editor was told.
func (o *acpOptionsOf) learn(ctx context.Context, own *run.Env, conv convstore.Conversation, r *profiles.Resolved) bool {
	a := r.Config.Assistant
	known := choices.New(own.Con, own.WS, own.Servers)
	models := known.Models(ctx, known.HasKey)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stored, o.models = acpChoice{a.Model, cmp.Or(a.Parameters.Reasoning, acpAsIs), cmp.Or(conv.Role, profiles.RoleMain)}, models
	return o.chosen.over(o.stored) != o.shown
}

// apply has a run use what was chosen.
func (o *acpOptionsOf) apply(to *run.Request) acpChoice {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.chosen.use(to, o.stored)
	return o.chosen
}

// use sets the flags of a run of a conversation that has stored.
func (c acpChoice) use(to *run.Request, stored acpChoice) {
	to.UseModel(c.model)
	if c.reasoning != acpAsIs {
		to.UseReasoning(c.reasoning)
	}
	if c.role != stored.role {
		to.Role = c.role
	}
}

// applied is told that the conversation has recorded a choice.
func (o *acpOptionsOf) applied(c acpChoice) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.chosen == c {
		o.chosen = acpChoice{role: c.role}
	}
}

// Options are the model, how much it reasons, and what the agent may hold at most.
func (s *acpSession) Options() []acp.ConfigOption {
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
	if now.reasoning == acpAsIs {
		efforts = append(efforts, acp.ConfigValue{Value: acpAsIs, Name: acpAsIs, Description: "as the model does by itself"})
	}
	for _, e := range model.Efforts() {
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
		option(acpModel, "Model", "model", now.model, models...),
		option(acpReasoning, "Reasoning", "thought_level", now.reasoning, efforts...),
		option(acpRole, "Tools", "mode", now.role, roles...),
	}
}

// narrower are the roles that an agent of a role can be held to, itself first: each holds no more than those before it.
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
func (s *acpSession) Set(ctx context.Context, id, value string) error {
	c := map[string]acpChoice{acpModel: {model: value}, acpReasoning: {reasoning: value}, acpRole: {role: value}}[id]
	return acpError(s.choose(ctx, c))
}

func (s *acpSession) choose(ctx context.Context, c acpChoice) error {
	own, leave, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer leave()
	req := run.Request{}
	c.use(&req, acpChoice{})
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
