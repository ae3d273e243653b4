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
	"jp/profiles/role"
)

// The options of a session. Each has the name of its flag.
const (
	optionModel     = "model"
	optionReasoning = "reasoning"
	optionRole      = "role"
)

// asIs is the value of reasoning if the config does not set it.
const asIs = "default"

// choice has a value for --model, --reasoning and --role each.
type choice struct {
	model     string
	reasoning string
	role      string
}

// over returns c, with the values of other where c has none.
func (c choice) over(other choice) choice {
	return choice{cmp.Or(c.model, other.model), cmp.Or(c.reasoning, other.reasoning), cmp.Or(c.role, other.role)}
}

// sessionOptions are the options of one session. The next prompt stores the chosen model and
// reasoning in the conversation; the chosen role lasts as long as the session. Safe for concurrent
// use.
type sessionOptions struct {
	mu     sync.Mutex
	stored choice // values of the conversation
	chosen choice // values that the editor has set since; "" = not set
	shown  choice // values that the editor was sent last
	models []command.Candidate
}

// learn reads the options of a conversation, and reports whether they differ from those that the
// editor was sent.
func (o *sessionOptions) learn(ctx context.Context, own *run.Env, conv convstore.Conversation, r *profiles.Resolved) bool {
	a := r.Config.Assistant
	known := choices.New(own.Con, own.WS, own.Servers)
	models := known.Models(ctx, known.HasKey)
	o.mu.Lock()
	defer o.mu.Unlock()
	o.stored, o.models = choice{a.Model, cmp.Or(a.Parameters.Reasoning, asIs), cmp.Or(conv.Role, role.Main)}, models
	return o.chosen.over(o.stored) != o.shown
}

// now returns what is chosen.
func (o *sessionOptions) now() choice {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.chosen
}

// apply sets chosen options in a request.
func (o *sessionOptions) apply(c choice, to *run.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	c.use(to, o.stored)
}

// use sets the flags of a request to a conversation whose options are stored.
func (c choice) use(to *run.Request, stored choice) {
	to.UseModel(c.model)
	if c.reasoning != asIs {
		to.UseReasoning(c.reasoning)
	}
	if c.role != stored.role {
		to.Role = c.role
	}
}

// applied forgets a choice that the conversation has stored, except for its role.
func (o *sessionOptions) applied(c choice) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.chosen == c {
		o.chosen = choice{role: c.role}
	}
}

// Options returns the model, how much it reasons, and the role that limits the tools.
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
	if o.stored.reasoning == asIs {
		efforts = append(efforts, acp.ConfigValue{Value: asIs, Name: asIs, Description: "the model's own default"})
	}
	for _, e := range effort.Levels() {
		efforts = append(efforts, acp.ConfigValue{Value: e, Name: e})
	}
	var roles []acp.ConfigValue
	for _, r := range narrower(o.stored.role) {
		name := map[string]string{
			role.Main: "All tools", role.Scheduled: "Tools that work without a person", role.Synthesis: "Tools that only read",
		}[r]
		roles = append(roles, acp.ConfigValue{Value: r, Name: cmp.Or(name, r), Description: "of the tools that the config enables, those that the role " + r + " allows"})
	}
	return []acp.ConfigOption{
		option(optionModel, "Model", "model", now.model, models...),
		option(optionReasoning, "Reasoning", "thought_level", now.reasoning, efforts...),
		option(optionRole, "Tools", "mode", now.role, roles...),
	}
}

// narrower returns a role and the roles to which it can be narrowed. Each allows no more tools than
// the ones before it.
func narrower(from string) []string {
	switch from {
	case role.Main:
		return []string{from, role.Scheduled, role.Synthesis}
	case role.Synthesis:
		return []string{from}
	}
	return []string{from, role.Synthesis}
}

// Set sets an option, after a check that the conversation can continue with the value.
func (s *session) Set(ctx context.Context, id, value string) error {
	c := map[string]choice{optionModel: {model: value}, optionReasoning: {reasoning: value}, optionRole: {role: value}}[id]
	return wireError(s.choose(ctx, c))
}

func (s *session) choose(ctx context.Context, c choice) error {
	own, done, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer done()
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
