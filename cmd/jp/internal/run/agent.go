package run

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"jp/cmd/jp/internal/agent"
	"jp/cmd/jp/internal/delegate"
	"jp/cmd/jp/internal/enabled"
	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/models"
	"jp/cmd/jp/internal/otel"
	"jp/cmd/jp/internal/review"
	"jp/cmd/jp/internal/rule"
	"jp/cmd/jp/internal/skills"
	"jp/cmd/jp/internal/spans"
	"jp/cmd/jp/internal/stream"
	"jp/cmd/jp/internal/term"
	"jp/convstore"
	"jp/profiles"
	"jp/profiles/role"
	"jp/tools"
)

// titlePatience is how long a run waits at its end for a title.
const titlePatience = 20 * time.Second

var errTitleLate = errors.New("it took too long")

// LogNote logs which tools a turn with late results may use.
func (ag *Agent) LogNote(n convstore.Note) {
	if n.Kind == agent.NoteSynthesis {
		held := ag.Loop.Synthesis.Tools.Len()
		ag.run.env.Con.Logger().Info("tools", "conversation", ag.run.Conv.ID, "role", role.Synthesis, "allowed", held, "denied", ag.Loop.Tools.Set.Len()-held)
	}
}

// Denied returns the calls that were not permitted.
func (ag *Agent) Denied() []stream.PermissionDenial { return ag.denied.all() }

// Agent is a run with its model and its tools. It takes one turn.
type Agent struct {
	Loop   *agent.Loop
	Sub    Subagents
	Info   model.Info  // facts about the first of its models
	Skills skills.List // skills that the model is offered

	run     *Run
	free    string // title that the model gave in the turn; "" = none
	denied  denials
	prices  []*model.Price // of its models
	decided atomic.Bool    // whether what a person said in the turn is part of its answer
	span    *otel.Span     // span of the latest turn, which has ended; nil = the turn was not traced
}

// Agent joins config, model, tools and store. It asks no model and stores nothing.
func (r *Run) Agent(ctx context.Context) (*Agent, error) {
	ag := &Agent{run: r}
	cfg := r.Resolved.Config
	models, escalate, err := ag.models(ctx, cfg)
	if err != nil {
		return nil, err
	}
	defs, err := r.env.DefinitionsOf(ctx, r.Resolved, r.Conv)
	if err == nil && r.locked() != nil && r.Conv.Grant == nil {
		var has []convstore.Allowance
		if has, err = review.Has(ctx, r.env.WS, r.Resolved, defs); err == nil {
			err = review.Keep(ctx, r.locked(), &r.Conv, has)
		}
	}
	if err != nil {
		return nil, err
	}
	ceiling, err := rule.CeilingOf(r.Conv.Grant, r.Conv.Role, r.req.Role)
	if err != nil {
		return nil, err
	}
	if !r.Delegated() { // else its owner has done that
		if defs, err = r.env.Servers.Ready(ctx, defs, ceiling.MayHold); err != nil {
			return nil, err
		}
	}
	session, err := r.budget(ctx, &cfg)
	if err != nil {
		return nil, err
	}
	var set tools.Set
	arm := func(funcs delegate.Funcs) (_ tools.Set, err error) {
		if set, err = ag.arm(ctx, defs, funcs); err != nil {
			return set, err
		}
		set = ag.narrow(ctx, set, ceiling)
		if r.env.Con.Globals.NoPersist {
			err = lone(set)
		}
		return set, err
	}
	if conn := r.conn(); conn != nil {
		far := &remote{conn: conn, tape: r.env.Tape, warn: r.env.Con.Warn}
		far.set, err = arm(far.function)
		ag.Sub = far
	} else {
		if err := r.choose(cfg, r.req.Launcher); err != nil {
			return nil, err
		}
		var below convstore.Scope // zero without a conversation, when Startable only tries a query
		if log := r.locked(); log != nil {
			below = log.Below()
		}
		o := r.delegation(cfg, below, r.slot, func(ctx context.Context, tool string) (delegate.Special, error) {
			return r.special(ctx, r.Resolved, r.Conv.Grant != nil, tool)
		})
		o.Closing = agent.Closing(ag.prices...)
		r.own, err = delegate.New(o, arm)
		ag.Sub = r.own
	}
	if err != nil {
		return nil, err
	}
	if specialTools(set) { // finds mistakes in them before the model is asked
		if _, err := leafTools(r.Resolved, r.Conv.Grant != nil); err != nil {
			return nil, err
		}
	}

	instructions, err := ag.instructions(ctx)
	if err != nil {
		return nil, err
	}
	var offered []model.Section
	if _, ok := set.Get(enabled.SkillTool); ok {
		offered = ag.Skills.Section()
	}
	policy := tools.NewPolicy(ag.prompter())
	if m := (memory{r}); m.lasts() {
		policy.Memory = m
	}
	around := spans.Call
	if r.env.Owner != nil {
		around = onAll
	}
	loop := &agent.Loop{
		Log: r.Log, Models: models, Escalate: escalate,
		System: slices.Concat(system(cfg, set), instructions, offered, r.req.prompts()),
		Tools:  tools.Executor{Set: set, Permit: ag.denied.noted(policy.Permit), Deliver: ag.delivers(policy), Absent: ceiling.Forbids, Parallel: cfg.Conversation.Parallel, Around: around},
		Change: r.change, Back: r.back, Profile: r.Conv.Profile, MaxTokens: cfg.Assistant.Parameters.MaxTokens,
		Reasoning: cfg.Assistant.Parameters.Reasoning,
		MaxRounds: cfg.Conversation.MaxTurns, Window: cfg.Conversation.Window, Limits: session, Replayed: r.env.Tape.Replays(),
		Admit: ag.Sub.Admit, Release: ag.Sub.Release, Repeat: ag.Sub.Repeats, Await: ag.Sub.Await, Recalled: ag.Sub.Recalled,
		Fetch: agent.Fetch{Tokens: contextTokens(r.Conv)}, Personal: ag.personal,
	}
	if loop.Synthesis, err = synthesis(cfg, set); err != nil {
		return nil, err
	}
	loop.Synthesis.System = slices.Concat(loop.Synthesis.System, instructions, r.req.prompts())
	loop.Compact = ag.compaction(cfg)
	if log := r.locked(); log != nil {
		loop.Foreign = log.Foreign()
	}
	ag.Loop = loop
	return ag, nil
}

// models opens the models that answer in a turn, and checks that each can: so a mistake shows now
// and not when one fails.
func (ag *Agent) models(ctx context.Context, cfg profiles.Config) (list []agent.Model, escalate *agent.Model, err error) {
	ids, last, err := ag.run.env.InTurn(cfg)
	if err != nil {
		return nil, nil, err
	}
	for i, id := range append(ids, last) {
		if id == "" {
			continue
		}
		stream, info, err := ag.modelOf(ctx, cfg, id)
		if err == nil {
			err = ag.run.req.sees(info)
		}
		if err == nil {
			err = ag.run.req.boundable(info)
		}
		if err != nil {
			return nil, nil, err
		}
		window, limit := models.Room(cfg, info)
		m := agent.Model{Writer: writer(stream, info, window), Provider: info.Provider, Temperature: ag.temperature(cfg, info), Limit: limit}
		ag.prices = append(ag.prices, info.Price)
		if i == 0 {
			ag.Info = info
		}
		if i < len(ids) {
			list = append(list, m)
		} else {
			escalate = &m
		}
	}
	return list, escalate, nil
}

// temperature is the configured one, or nil if the model takes none.
func (ag *Agent) temperature(cfg profiles.Config, info model.Info) *float64 {
	set := cfg.Assistant.Parameters
	send, why := info.Temperature(set.Temperature, set.Reasoning)
	if why != "" {
		ag.run.env.Con.Warn("assistant.parameters.temperature = %g is not sent to %s: %s", *set.Temperature, info.ID, why)
	}
	return send
}

// talksAsMain reports whether this run has the role main: a person started it, in a conversation
// that was not delegated.
func (ag *Agent) talksAsMain() bool {
	main := func(name string) bool { return name == "" || name == role.Main }
	return main(ag.run.Conv.Role) && main(ag.run.req.Role) && ag.run.Conv.Grant == nil
}

// system returns the system prompt: that of the config, then how to use sub-agents if the set has
// such tools.
func system(cfg profiles.Config, set tools.Set) []model.Section {
	var list []model.Section
	if p := cfg.Assistant.SystemPrompt; p != "" {
		list = append(list, model.Section{Text: p})
	}
	for _, s := range cfg.Assistant.SystemPromptSections {
		text := s.Content
		if s.Title != "" {
			text = "# " + s.Title + "\n\n" + text
		}
		list = append(list, model.Section{Text: text})
	}
	for t := range set.All() {
		if t.Source == tools.SourceDelegation {
			return append(list, model.Section{Text: delegate.Guidance})
		}
	}
	return list
}

// narrow removes the tools that the role and the grant do not allow. It is the only place where
// tools that the config enables become tools that the model can call.
func (ag *Agent) narrow(ctx context.Context, set tools.Set, ceiling rule.Ceiling) tools.Set {
	held := set.Narrow(func(name, source string) bool {
		t, _ := set.Get(name)
		return ceiling.Holds(t.Definition) && (ag.run.Resolved.Config.Delegation.Enabled || source != tools.SourceDelegation)
	})
	log := ag.run.env.Con.Logger()
	if ag.run.conn() == nil { // else its owner logs it with the delegation, and most sub-agents log nothing else
		log.Info("tools", "conversation", ag.run.Conv.ID, "role", ceiling.Role(), "allowed", held.Len(), "denied", set.Len()-held.Len())
	}
	if log.Enabled(ctx, slog.LevelDebug) {
		denied := slices.DeleteFunc(set.Names(), func(name string) bool { _, ok := held.Get(name); return ok })
		log.Debug("tools", "conversation", ag.run.Conv.ID, "allowed", held.Names(), "denied", denied)
	}
	return held
}

// prompter returns what asks on the terminal, or nil if nobody can answer. The tree of sub-agents
// is hidden during a question.
func (ag *Agent) prompter() tools.Prompter {
	if ag.run.req.Asker != nil {
		return ag.run.req.Asker
	}
	tty, err := ag.run.env.Con.Terminal()
	if err != nil {
		return nil
	}
	ag.run.tty = tty
	return term.NewPrompter(tty, ag.run.env.Con.IO.ErrColor, func(ask func()) { ag.run.aside(ask) })
}

// Asker asks a person who is not at the terminal.
type Asker interface {
	tools.Prompter
	// Question asks a question of the model; call is the call of ask_user. The errors are io.EOF
	// for no answer, and one that wraps term.ErrNobody.
	Question(ctx context.Context, call, question string, options []string) (string, error)
}

// Turn takes a turn: it answers the task, or resumes a turn that was cut off.
func (ag *Agent) Turn(ctx context.Context) (out agent.Outcome, err error) {
	loop, task := ag.Loop, ag.run.req.Task
	take := loop.Resume
	if task.Text != "" {
		if ag.run.Conv.Title == "" && ag.run.Resolved.Config.Conversation.FromQuery {
			free := delegate.Title(cmp.Or(task.Title, task.Text))
			if given, err := ag.run.Log.Retitle(ctx, "", free); err != nil {
				return agent.Outcome{}, err
			} else if given { // else a person has given one meanwhile
				ag.free = free
			}
		}
		if loop.Asked, err = ag.asked(); err != nil {
			return out, err
		}
		loop.Fetch.Tool, loop.Fetch.Query = task.Fetch.Tool, task.Fetch.Query
		take = func(ctx context.Context) (agent.Outcome, error) {
			return loop.Send(ctx, convstore.UserMessage{Text: task.Text, Attachments: task.Attachments, Schema: task.Schema})
		}
	}
	ag.span, out, err = spans.Turn(ctx, loop, take)
	if err == nil {
		ag.run.Keep()
	}
	if errors.Is(err, agent.ErrNothingToResume) {
		err = ErrNothing() // another run has ended the turn meanwhile
	}
	return out, err
}

// Name asks the model of conversation.title.model for a title after the first turn of a
// conversation. The answer has been printed by then, so an error is only logged and the old title
// stays; Ctrl-C cancels the request. The title of a sub-agent's conversation is its task. begin,
// which may be nil, shows that the model is asked; end removes that.
func (ag *Agent) Name(ctx context.Context, out agent.Outcome, begin func() (end func())) {
	cfg := ag.run.Resolved.Config
	id := cfg.Conversation.TitleModel
	if id == "" || !out.First || ag.run.env.Con.Globals.NoPersist || ag.run.req.Title.Set || ag.run.Conv.Grant != nil || ctx.Err() != nil {
		return
	}
	if _, err := cfg.ResolveModel(id); err != nil {
		ag.run.env.Con.Warn("%v", inKey(err, models.TitleKey))
		return
	}
	if begin != nil {
		defer begin()()
	}
	ctx, cancel := context.WithTimeoutCause(otel.With(ctx, ag.span), titlePatience, errTitleLate)
	defer cancel()
	title, err := ag.Loop.Title(ctx, agent.Naming{
		Line: delegate.Title, Free: ag.free,
		Writer: func(ctx context.Context) (agent.Writer, error) {
			return ag.scribe(ctx, cfg, models.TitleKey, id, models.Waits{})
		},
	})
	switch {
	case err != nil && ctx.Err() != nil:
		ag.run.env.Con.Logger().Info("title", "conversation", ag.run.Conv.ID, "model", id, "skipped", context.Cause(ctx).Error())
		ag.run.env.Con.Verbosef("no title: %v", context.Cause(ctx))
	case err != nil:
		ag.run.env.Con.Logger().Warn("title", "conversation", ag.run.Conv.ID, "model", id, "error", err.Error())
		ag.run.env.Con.Verbosef("%v", err)
	case title != "":
		ag.run.env.Con.Verbosef("title: %s", title)
	}
}

// scribe opens the model that the setting key names, for a text outside of the turns of this
// conversation.
func (ag *Agent) scribe(ctx context.Context, cfg profiles.Config, key, id string, w models.Waits) (agent.Writer, error) {
	id, err := cfg.ResolveModel(id)
	if err != nil {
		return agent.Writer{}, inKey(err, key)
	}
	stream, info, err := ag.run.env.Model(ctx, cfg, id, w)
	if err == nil {
		err = ag.run.req.boundable(info)
	}
	return writer(stream, info, info.Window), err
}

// inKey adds to an error about the name of a model the setting that has this name.
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

// contextTokens is the most that fetched context may take, in tokens: half of the run's grant, and
// never more than 4000.
func contextTokens(conv convstore.Conversation) int64 {
	most := int64(4000)
	if g := conv.Grant; g != nil && g.Tokens != nil {
		most = min(most, *g.Tokens/2)
	}
	return most
}

// synthesis narrows this run to the role synthesis, for a turn with late results.
func synthesis(cfg profiles.Config, held tools.Set) (agent.Synthesis, error) {
	role, err := role.Tools(role.Synthesis)
	if err != nil {
		return agent.Synthesis{}, err
	}
	set := held.Narrow(role.Matches)
	return agent.Synthesis{System: system(cfg, set), Tools: set}, nil
}

// Task is the request of a run. With an empty text the run resumes.
type Task struct {
	Text        string
	Title       string // text that a title is made from; "" = Text
	Attachments []convstore.Attachment
	Schema      json.RawMessage // schema of the answer; nil = free text
	Fetch       agent.Fetch     // query of context_query; its Tokens are those of the run
}

// asked returns the task as the rule knows it.
func (t Task) asked() rule.Asked {
	return rule.Asked{Query: t.Text, Attachments: t.Attachments, Schema: t.Schema, Context: t.Fetch.Query}
}

// denials are the calls of tools that were not permitted. Safe for concurrent use.
type denials struct {
	mu   sync.Mutex
	list []stream.PermissionDenial
}

// noted returns permit with a record of what it denies.
func (d *denials) noted(permit func(context.Context, tools.Tool, tools.Call) (tools.Decision, error)) func(context.Context, tools.Tool, tools.Call) (tools.Decision, error) {
	return func(ctx context.Context, t tools.Tool, c tools.Call) (tools.Decision, error) {
		decision, err := permit(ctx, t, c)
		if err != nil || !decision.Allow {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.list = append(d.list, stream.PermissionDenial{ToolName: c.Name, ToolUseID: c.ID, ToolInput: c.Arguments})
		}
		return decision, err
	}
}

func (d *denials) all() []stream.PermissionDenial {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.list)
}
