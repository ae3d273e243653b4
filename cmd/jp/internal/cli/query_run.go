package cli

import (
	"context"
	"slices"
	"strings"

	"jp/cmd/jp/internal/agent"
	"jp/cmd/jp/internal/delegate"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/run"
	"jp/cmd/jp/internal/spans"
	"jp/cmd/jp/internal/term"
	"jp/convstore"
	"jp/profiles"
	"jp/tools"
	"jp/tools/fs"
)

// assemble joins config, model, tools and store into the loop of this run.
func (q *query) assemble(ctx context.Context) (*agent.Loop, *delegate.Delegator, error) {
	cfg := q.resolved.Config
	id, err := cfg.RequireModel()
	if err != nil {
		return nil, nil, err
	}
	stream, info, err := q.modelOf(ctx, cfg, id)
	if err == nil {
		err = q.sees(info)
	}
	if err != nil {
		return nil, nil, err
	}
	q.info = info
	defs, err := q.app.env.Definitions(ctx, q.resolved)
	if err != nil {
		return nil, nil, err
	}
	ceiling, err := delegate.CeilingOf(q.conv.Grant, q.conv.Role, q.o.role)
	if err != nil {
		return nil, nil, err
	}
	if defs, err = q.app.env.Servers.Ready(ctx, defs, ceiling.MayHold); err != nil {
		return nil, nil, err
	}
	var below convstore.Scope // without a conversation, where only the way to one is tried
	if q.log != nil {
		below = q.log.Below()
	}
	d := q.delegator(cfg, below)
	q.sub = d
	session, err := q.budget(cfg, info)
	if err != nil {
		return nil, nil, err
	}
	set, err := q.arm(ctx, defs, d)
	if err != nil {
		return nil, nil, err
	}
	set = q.narrow(ctx, set, ceiling)
	if q.app.con.Globals.NoPersist {
		if err := lone(set); err != nil {
			return nil, nil, err
		}
	}
	d.Set = set
	if specialTools(set) { // what is wrong with them shows before the model is asked
		if _, err := leafTools(q.resolved, q.conv.Grant != nil); err != nil {
			return nil, nil, err
		}
	}

	instructions, err := q.instructions(ctx)
	if err != nil {
		return nil, nil, err
	}
	var skills []model.Section
	if _, ok := set.Get(run.SkillTool); ok {
		skills = offerSkills(q.offered)
	}
	policy := tools.NewPolicy(q.prompter())
	loop := &agent.Loop{
		Log: q.log, Ask: stream, Model: info.ID, Provider: info.Provider, Name: info.Name,
		System:  slices.Concat(system(cfg, set), instructions, skills, q.o.heads.ownPrompt()),
		Tools:   tools.Executor{Set: set, Permit: q.denied.noted(policy.Permit), Deliver: policy.Deliver, Parallel: cfg.Conversation.Parallel, Around: spans.Call},
		Profile: q.conv.Profile, MaxTokens: cfg.Assistant.Parameters.MaxTokens,
		Reasoning: cfg.Assistant.Parameters.Reasoning, Temperature: q.temperature(cfg, info),
		Price: info.Price, Output: info.Output, MaxRounds: cfg.Conversation.MaxTurns, Window: cfg.Conversation.Window, Limits: session, Replayed: q.app.env.Tape.Replays(),
		Admit: d.Admit, Release: d.Release, Repeat: d.Repeats, Recalled: d.Recalled,
		Fetch: agent.Fetch{Tokens: contextTokens(q.conv)},
	}
	if loop.Synthesis, err = synthesis(cfg, set); err != nil {
		return nil, nil, err
	}
	loop.Synthesis.System = slices.Concat(loop.Synthesis.System, instructions, q.o.heads.ownPrompt())
	loop.Compact = q.compaction(cfg, stream, info)
	d.Closing = agent.Closing(loop.Price)
	return loop, d, nil
}

// temperature is the configured one, where the model takes it.
func (q *query) temperature(cfg profiles.Config, info model.Info) *float64 {
	set := cfg.Assistant.Parameters
	send, why := info.Temperature(set.Temperature, set.Reasoning)
	if why != "" {
		q.app.con.Warn("assistant.parameters.temperature = %g is not sent to %s: %s", *set.Temperature, info.ID, why)
	}
	return send
}

// arm gives every definition what runs it.
func (q *query) arm(ctx context.Context, defs []tools.Definition, d *delegate.Delegator) (tools.Set, error) {
	fs := fs.Env{Workspace: q.workspace, Deny: q.app.ws.Closed(), Sealed: q.app.ws.Sealed(), Growing: q.app.ws.Growing()}
	env := q.app.ws.CommandEnv(q.host, map[string]any{"conversation_id": q.conv.ID.String()})
	env.Main = q.talksAsMain()
	env.JP = q.line(d)
	armed := make([]tools.Tool, 0, len(defs))
	var builtin []tools.Definition
	for _, def := range defs {
		def = q.withinLeave(def)
		if def.Local() {
			own := env
			if users, program, off := q.app.env.OffByUser(def); off && !env.Main {
				own.AllowOff, own.Found, def = true, program, def.WithPermissionsOf(users)
			}
			t, err := tools.Command(def, own)
			if err != nil {
				return tools.Set{}, err
			}
			armed = append(armed, t)
			continue
		}
		if _, ok := def.MCP(); ok {
			if def.Pin == "" {
				continue // what this run may not hold was not looked up: see servers.Ready
			}
			t, err := q.app.env.Servers.Tool(ctx, def)
			if err != nil {
				return tools.Set{}, err
			}
			armed = append(armed, t)
			continue
		}
		switch def.Source {
		case tools.SourceBuiltin:
			if def.Name == run.SkillTool {
				if !q.says(def.Name, "run") {
					def.Run = tools.RunUnattended // what it reads was trusted
				}
				def = q.withinLeave(def)
				q.offered = q.skills(ctx)
				armed = append(armed, tools.Tool{Definition: def, Func: q.readSkill(q.offered)})
				continue
			}
			builtin = append(builtin, def)
		case tools.SourceDelegation, tools.SourceConversation:
			f, ok := d.Func(def.Name)
			if !ok {
				return tools.Set{}, exit.Refusedf("tool %s: source %q has no tool of this name", def.Name, def.Source)
			}
			armed = append(armed, tools.Tool{Definition: def, Func: f})
		case tools.SourceInteractive:
			if def.Name != "ask_user" {
				return tools.Set{}, exit.Refusedf("tool %s: source %q has no tool of this name", def.Name, def.Source)
			}
			if !q.says(def.Name, "run") {
				def.Run = tools.RunUnattended // nobody wants to be asked for leave to be asked
			}
			armed = append(armed, tools.Tool{Definition: def, Func: q.askUser(def)})
		default:
			return tools.Set{}, exit.Refusedf("tool %s: source %q is not supported yet", def.Name, def.Source)
		}
	}
	if len(builtin) > 0 {
		own, err := tools.Builtin(fs, builtin...)
		if err != nil {
			return tools.Set{}, err
		}
		armed = append(armed, own...)
	}
	return tools.NewSet(armed...)
}

// withinLeave holds a tool of a sub-agent to what its grant lets it do unasked.
func (q *query) withinLeave(d tools.Definition) tools.Definition {
	if q.conv.Grant == nil {
		return d
	}
	return d.WithPermissions(q.conv.Grant.Leave[d.Name])
}

// talksAsMain reports whether this run is one of the role main: one that a person started, in a conversation
// that nobody delegated.
func (q *query) talksAsMain() bool {
	main := func(role string) bool { return role == "" || role == profiles.RoleMain }
	return main(q.conv.Role) && main(q.o.role) && q.conv.Grant == nil
}

// system is the prompt: the config's own, then how to use sub-agents where there are such tools.
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

// delegator is set up for this run; its tools and the model's children are filled in by assemble.
func (q *query) delegator(cfg profiles.Config, scope convstore.Scope) *delegate.Delegator {
	return &delegate.Delegator{
		Scope: scope, Caller: scope.Caller(), Slot: q.slot, Limits: run.LimitsOf(cfg), Priced: q.app.env.Priced(cfg), Replayed: q.app.env.Tape.Replays(),
		Models: cfg.Delegation.Models, InlineResult: cfg.Delegation.InlineResult, ContextTool: cfg.Delegation.ContextTool,
		Resolve: q.app.env.Profile, Special: q.special, Host: q.host, Dir: q.workspace,
		Environ: func(ctx context.Context, r delegate.Run) []string {
			return spans.Environ(ctx, append(q.childEnviron(ctx, cfg, r), q.app.env.Tape.Environ(r.Call, r.Query)...))
		},
		Warn: q.app.con.Warn, Log: q.app.con.Logger(), Follow: spans.Follow, Checkpoint: q.app.con.Env.Checkpoint,
	}
}

// asker asks a person who is not at the terminal.
type asker interface {
	tools.Prompter
	// question puts a question of the model; call is that of ask_user. The errors are those of putQuestion.
	question(ctx context.Context, call, question string, options []string) (string, error)
}

// prompter asks on the terminal, nil where nobody can answer. The tree of sub-agents steps aside for a question.
func (q *query) prompter() tools.Prompter {
	if q.asks != nil {
		return q.asks
	}
	tty, err := q.app.con.Terminal()
	if err != nil {
		return nil
	}
	q.tty = tty
	return term.NewPrompter(tty, func(ask func()) { q.tree.Around(ask) })
}

// expire settles what runs that died have left, and removes what has expired. It is never silent with -v, and never the reason for a
// failure.
func (q *query) expire(ctx context.Context) {
	if err := q.store.Reconcile(context.WithoutCancel(ctx)); err != nil {
		q.app.con.Warn("what runs that died have left: %v", err)
	}
	gone, err := q.store.Expire(context.WithoutCancel(ctx))
	if err != nil {
		q.app.con.Warn("expired conversations: %v", err)
	}
	if len(gone) > 0 {
		names := make([]string, len(gone))
		for i, id := range gone {
			names[i] = id.String()
		}
		q.app.con.Verbosef("removed, expired: %s", strings.Join(names, " "))
	}
}
