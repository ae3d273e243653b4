package profiles

import (
	"maps"
	"slices"
	"strings"
	"time"

	"jp/profiles/alias"
	"jp/profiles/effort"
	"jp/profiles/kinds"
	"jp/profiles/launch"
	"jp/profiles/tomldoc"
	"jp/tools/suggest"
)

// Setting describes a key that config may hold.
type Setting struct {
	Key     string `json:"key"`     // <name> is a name that the user chooses
	Kind    string `json:"kind"`    // kind of its values: "text", "whole number", ...
	Default any    `json:"default"` // as in a file; nil = none
	Machine bool   `json:"machine"` // only in the user's config.toml, the environment and flags
	Doc     string `json:"doc"`     // one line
}

// Settings lists every key, sorted.
func Settings() []Setting {
	var list []Setting
	for _, s := range table() {
		list = append(list, Setting{s.key, string(s.kind), s.def, s.class == machine, s.doc})
	}
	slices.SortFunc(list, func(a, b Setting) int { return strings.Compare(a.Key, b.Key) })
	return list
}

// class says which layers may set a key and whether it is stored.
type class uint8

const (
	stored  class = iota // by all layers; stored with the conversation
	machine              // by the user's config.toml, the environment and the command line; survives resets
	loader               // steers the reading of files; not stored
)

// setting is one row of the schema. The table below is the only place that knows keys: checking,
// defaults, the typed Config and Settings all follow it.
type setting struct {
	key     string // dotted; <x> is any name
	kind    kinds.Kind
	class   class
	def     any                                 // as in a file; nil = none
	check   func(any) error                     // of an accepted value, of each item of a list of text; nil = none
	field   func(c *Config, names []string) any // pointer for assign; names replace each <x> of the key
	repeats bool                                // a list of text in which an item may be there twice
	name    func(string) error                  // check of the name that replaces <x>; nil = any name
	doc     string
}

func table() []setting {
	short := func(c *Config, name string) any { return func(v any) { c.Providers.Aliases[name] = v.(string) } }
	var rows []setting
	for name, id := range alias.Builtin() {
		rows = append(rows, setting{key: "providers.llm.aliases." + name, kind: kinds.Text, def: id, check: kinds.ModelID,
			field: func(c *Config, _ []string) any { return short(c, name) }, doc: "what --model " + name + " stands for"})
	}
	return append(rows, []setting{
		{key: "extends", kind: kinds.Texts, class: loader, doc: "files to read first: relative paths or globs"},
		{key: "loader.reset", kind: kinds.Text, class: loader, check: kinds.OneOf("none"),
			doc: `"none": nothing read before this file counts; only in a file loaded by --cfg`},
		{key: "config_load_paths", kind: kinds.Texts, class: loader, check: kinds.NotEmpty,
			doc: "folders in which --cfg looks for names, first hit wins; in a file of yours after the workspace's; not set: .jp/config, then config/ beside your config.toml"},

		{key: "assistant.name", kind: kinds.Text, check: kinds.NoControl, field: func(c *Config, _ []string) any { return &c.Assistant.Name },
			doc: "what the assistant is called"},
		{key: "assistant.model", kind: kinds.Either, check: kinds.ModelName, field: func(c *Config, _ []string) any { return c.Assistant.setModel },
			doc: "provider/model, or an alias of providers.llm.aliases; in a list, each stands in for the one before; required to ask a model"},
		{key: "assistant.escalate", kind: kinds.Text, check: kinds.ModelName, field: func(c *Config, _ []string) any { return &c.Assistant.Escalate },
			doc: "model that goes on, once in a turn, where the turn would not end well; not set: none"},
		{key: "assistant.system_prompt", kind: kinds.Text, field: func(c *Config, _ []string) any { return &c.Assistant.SystemPrompt },
			doc: "beginning of the system prompt"},
		{key: "assistant.system_prompt_sections", kind: kinds.Sections,
			field: func(c *Config, _ []string) any { return &c.Assistant.SystemPromptSections },
			doc:   "list of {title, content} that follow it"},
		{key: "assistant.instructions", kind: kinds.Text, check: kinds.OneOf("", "AGENTS.md", "CLAUDE.md"),
			field: func(c *Config, _ []string) any { return &c.Assistant.Instructions },
			doc:   "file of the workspace that follows the main agent's prompt; AGENTS.md, else CLAUDE.md, where there is one"},
		{key: "assistant.parameters.max_tokens", kind: kinds.Whole, check: kinds.Between(1, 10_000_000),
			field: func(c *Config, _ []string) any { return &c.Assistant.Parameters.MaxTokens },
			doc:   "longest reply, in tokens; not set: the model's own limit"},
		{key: "assistant.parameters.reasoning", kind: kinds.Text, check: kinds.OneOf(effort.Levels()...),
			field: func(c *Config, _ []string) any { return &c.Assistant.Parameters.Reasoning },
			doc:   "none, low, medium or high; not set: the model's default"},
		{key: "assistant.parameters.temperature", kind: kinds.Number, check: kinds.Between(0, 2),
			field: func(c *Config, _ []string) any { return &c.Assistant.Parameters.Temperature },
			doc:   "0 to 2; not set: the model's default"},
		{key: "assistant.request.max_retries", kind: kinds.Whole, def: int64(5), check: kinds.Between(0, 100),
			field: func(c *Config, _ []string) any { return &c.Assistant.Request.MaxRetries },
			doc:   "how often a failed call of the model is repeated; 0 = never"},
		{key: "assistant.request.base_backoff_ms", kind: kinds.Whole, def: int64(1000), check: kinds.Between(0, 3_600_000),
			field: func(c *Config, _ []string) any { return units(&c.Assistant.Request.BaseBackoff, time.Millisecond) },
			doc:   "wait before the first repeat, in milliseconds; doubles each time"},
		{key: "assistant.request.max_backoff_secs", kind: kinds.Whole, def: int64(60), check: kinds.Between(0, 86_400),
			field: func(c *Config, _ []string) any { return units(&c.Assistant.Request.MaxBackoff, time.Second) },
			doc:   "longest wait between repeats, in seconds"},
		{key: "assistant.request.stream_idle_timeout_secs", kind: kinds.Whole, def: int64(60), check: kinds.Between(0, 86_400),
			field: func(c *Config, _ []string) any { return units(&c.Assistant.Request.StreamIdle, time.Second) },
			doc:   "longest silence of a reply, in seconds, to which keep-alives are no silence; 0 = no limit"},
		{key: "assistant.request.reply_idle_timeout_secs", kind: kinds.Whole, def: int64(900), check: kinds.Between(0, 86_400),
			field: func(c *Config, _ []string) any { return units(&c.Assistant.Request.ReplyIdle, time.Second) },
			doc:   "longest time in which a reply says nothing, keep-alives or not, in seconds; 0 = no limit"},
		{key: "assistant.request.reply_timeout_secs", kind: kinds.Whole, def: int64(3600), check: kinds.Between(0, 864_000),
			field: func(c *Config, _ []string) any { return units(&c.Assistant.Request.Reply, time.Second) },
			doc:   "longest time of a whole reply, in seconds; 0 = no limit"},
		{key: "assistant.request.max_response_bytes", kind: kinds.Whole, def: int64(8 << 20), check: kinds.Between(1, 1<<40),
			field: func(c *Config, _ []string) any { return &c.Assistant.Request.MaxResponseBytes },
			doc:   "largest reply, in bytes of text, reasoning and calls; on the wire it may have 4 times as many"},

		{key: "conversation.default", kind: kinds.Text, class: machine, def: "active", check: kinds.OneOf("active", "new"),
			field: func(c *Config, _ []string) any { return &c.Conversation.Default },
			doc:   "active or new: the conversation that `jp query` asks when the command names none"},
		{key: "conversation.max_turns", kind: kinds.Whole, def: int64(50), check: kinds.Between(1, 1_000_000),
			field: func(c *Config, _ []string) any { return &c.Conversation.MaxTurns },
			doc:   "tool rounds in one turn"},
		{key: "conversation.context_window", kind: kinds.Whole, def: int64(0), check: kinds.Between(0, maxWindow),
			field: func(c *Config, _ []string) any { return &c.Conversation.Window },
			doc:   "earlier turns that the model is sent beside the present one; 0 = all"},
		{key: "conversation.compact.mode", kind: kinds.Text, def: "auto", check: kinds.OneOf("auto", "off"),
			field: func(c *Config, _ []string) any { return &c.Conversation.Compact.Mode },
			doc:   "auto or off: whether what is old is left out by itself when the model's window is near"},
		{key: "conversation.compact.model", kind: kinds.Text, check: kinds.ModelName,
			field: func(c *Config, _ []string) any { return &c.Conversation.Compact.Model },
			doc:   "who writes summaries; not set, and in sub-agents: the conversation's own model"},
		{key: "conversation.compact.threshold", kind: kinds.Number, def: 0.8, check: kinds.Between(0.1, 1),
			field: func(c *Config, _ []string) any { return &c.Conversation.Compact.Threshold },
			doc:   "share of the window that a request may fill"},
		{key: "conversation.compact.window", kind: kinds.Whole, def: int64(0), check: kinds.Between(0, 100_000_000),
			field: func(c *Config, _ []string) any { return &c.Conversation.Compact.Window },
			doc:   "tokens of the model's window; 0 = the window that is known for the model, or no limit if none is known"},
		{key: "conversation.title.from_query", kind: kinds.Truth, def: true,
			field: func(c *Config, _ []string) any { return &c.Conversation.FromQuery },
			doc:   "the first line of the first query becomes the title"},
		{key: "conversation.title.model", kind: kinds.Text, check: kinds.ModelName,
			field: func(c *Config, _ []string) any { return &c.Conversation.TitleModel },
			doc:   "who writes a title when the first turn of a conversation is done; not set, and in sub-agents: nobody"},
		{key: "conversation.tools.parallel", kind: kinds.Whole, def: int64(8), check: kinds.Between(1, 1024),
			field: func(c *Config, _ []string) any { return &c.Conversation.Parallel },
			doc:   "tool calls of one reply that run at once, without those that start sub-agents; so no tool can be called parallel"},
		{key: "conversation.tools.<name>", kind: kinds.Table, doc: "a tool, enabled by being here; '*' holds defaults for all"},

		{key: "delegation.enabled", kind: kinds.Truth, def: true, field: func(c *Config, _ []string) any { return &c.Delegation.Enabled },
			doc: "whether sub-agents can be started at all"},
		{key: "delegation.profiles", kind: kinds.Texts, check: checkProfileRef, field: func(c *Config, _ []string) any { return &c.Delegation.Profiles },
			doc: "profiles that jp_query may name; none when not set"},
		{key: "delegation.models", kind: kinds.Texts, check: kinds.ModelName, field: func(c *Config, _ []string) any { return &c.Delegation.Models },
			doc: "models that an override may name; any when not set"},
		{key: "delegation.reasoning", kind: kinds.Texts, check: kinds.OneOf(effort.Levels()...), field: func(c *Config, _ []string) any { return &c.Delegation.Efforts },
			doc: "levels of reasoning that an override may name; any when not set"},
		{key: "delegation.inline_result", kind: kinds.Whole, def: int64(16 << 10), check: kinds.Between(1, 2<<20),
			field: func(c *Config, _ []string) any { return &c.Delegation.InlineResult },
			doc:   "bytes of a sub-agent's answer that are handed to the model"},
		{key: "delegation.max_depth", kind: kinds.Whole, check: kinds.Between(0, 1000), field: func(c *Config, _ []string) any { return &c.Delegation.MaxDepth },
			doc: "nesting below this agent, at most 5; not set: 1 at a root, 0 in a sub-agent"},
		{key: "delegation.max_per_turn", kind: kinds.Whole, def: int64(5), check: kinds.Between(0, 10_000),
			field: func(c *Config, _ []string) any { return &c.Delegation.MaxPerTurn },
			doc:   "sub-agent calls in one turn of one agent"},
		{key: "delegation.max_children", kind: kinds.Whole, def: int64(64), check: kinds.Between(0, 100_000),
			field: func(c *Config, _ []string) any { return &c.Delegation.MaxChildren },
			doc:   "sub-agents in one session of the whole tree"},
		{key: "delegation.max_parallel", kind: kinds.Whole, def: int64(4), check: kinds.Between(1, 1024),
			field: func(c *Config, _ []string) any { return &c.Delegation.MaxParallel },
			doc:   "sub-agents that run at once; more wait"},
		{key: "delegation.token_budget", kind: kinds.Tokens, def: kinds.Unlimited, check: kinds.AtLeast(0),
			field: func(c *Config, _ []string) any { return &c.Delegation.TokenBudget },
			doc:   "tokens that the sub-agents of one session may use; 0 = none"},
		{key: "delegation.max_cost_per_session", kind: kinds.Dollars, def: 1.0, check: kinds.UpTo(1_000_000_000),
			field: func(c *Config, _ []string) any { return nano(&c.Delegation.MaxCostNano) },
			doc:   "US dollars that the sub-agents of one session may cost; 0 = none"},
		{key: "delegation.budget_inheritance", kind: kinds.Number, def: 0.5, check: kinds.Between(0, 1),
			field: func(c *Config, _ []string) any { return &c.Delegation.BudgetInheritance },
			doc:   "share of what remains that one sub-agent may be given"},
		{key: "delegation.timeout", kind: kinds.Duration, def: "10m", check: kinds.Positive,
			field: func(c *Config, _ []string) any { return &c.Delegation.Timeout },
			doc:   "longest run of one sub-agent, from its start"},
		{key: "delegation.max_life_tokens", kind: kinds.Tokens, def: kinds.Unlimited, check: kinds.AtLeast(1),
			field: func(c *Config, _ []string) any { return &c.Delegation.MaxLifeTokens },
			doc:   "tokens that one sub-conversation under this profile may use itself, in all its turns"},
		{key: "delegation.max_life_cost", kind: kinds.Dollars, def: kinds.Unlimited, check: kinds.UpTo(1_000_000_000),
			field: func(c *Config, _ []string) any { return nano(&c.Delegation.MaxLifeNano) },
			doc:   "US dollars that one sub-conversation under this profile may cost itself, in all its turns"},
		{key: "delegation.expire", kind: kinds.Duration, check: kinds.Positive,
			field: func(c *Config, _ []string) any { return &c.Delegation.Expire },
			doc:   "how long after their last run sub-conversations of this agent expire, such as 30d; not set: never"},
		{key: "delegation.llm_query.tools", kind: kinds.Texts, check: kinds.NotEmpty, field: func(c *Config, _ []string) any { return &c.Delegation.LLMQuery.Tools },
			doc: "tools of the generic sub-agent; none when not set"},
		{key: "delegation.context_tool", kind: kinds.Text, check: kinds.NotEmpty, field: func(c *Config, _ []string) any { return &c.Delegation.ContextTool },
			doc: "tool of a sub-agent that answers the context_query of jp_query before it begins; none when not set"},
		{key: specializationsKey, kind: kinds.Text, class: loader, check: kinds.NotEmpty,
			doc: "INI file whose sections [llm_tool_<name>] define delegation tools; not set: .jp/specializations.ini"},

		{key: "style.reasoning.display", kind: kinds.Text, def: "hidden", check: kinds.OneOf("hidden", "full"),
			field: func(c *Config, _ []string) any { return &c.Style.Reasoning },
			doc:   "hidden or full: whether the model's reasoning is shown"},
		{key: "style.tool_call.show", kind: kinds.Truth, def: true, field: func(c *Config, _ []string) any { return &c.Style.ShowToolCall },
			doc: "whether tool calls are shown on stderr"},

		{key: "providers.llm.aliases.<alias>", kind: kinds.Text, check: kinds.ModelID, name: kinds.Alias,
			field: func(c *Config, n []string) any { return short(c, n[0]) }, doc: "a short name for provider/model"},
		{key: "providers.llm.prices.<model>.input", kind: kinds.Number, class: machine, check: kinds.Between(0, 1_000_000), name: kinds.Priced,
			field: price(func(p *Price, n int64) { p.Input = n }), doc: "US dollars for a million input tokens"},
		{key: "providers.llm.prices.<model>.output", kind: kinds.Number, class: machine, check: kinds.Between(0, 1_000_000), name: kinds.Priced,
			field: price(func(p *Price, n int64) { p.Output = n }), doc: "US dollars for a million output tokens"},
		{key: "providers.llm.prices.<model>.cache_read", kind: kinds.Number, class: machine, check: kinds.Between(0, 1_000_000), name: kinds.Priced,
			field: price(func(p *Price, n int64) { p.CacheRead = &n }), doc: "US dollars for a million tokens read from the cache; else those of input"},
		{key: "providers.llm.prices.<model>.cache_write", kind: kinds.Number, class: machine, check: kinds.Between(0, 1_000_000), name: kinds.Priced,
			field: price(func(p *Price, n int64) { p.CacheWrite = &n }), doc: "US dollars for a million tokens written to the cache; else 1.25 times those of input"},
		{key: "providers.llm.<name>.type", kind: kinds.Text, class: machine, check: kinds.OneOf("anthropic", "openai"), name: kinds.Provider,
			field: provider(func(p *Provider, s string) { p.Type = s }), doc: "anthropic, or openai for every compatible server"},
		{key: "providers.llm.<name>.base_url", kind: kinds.Text, class: machine, check: kinds.URL, name: kinds.Provider,
			field: provider(func(p *Provider, s string) { p.BaseURL = s }), doc: "http or https address of the API"},
		{key: "providers.llm.<name>.api_key_env", kind: kinds.Text, class: machine, check: kinds.Variable, name: kinds.Provider,
			field: provider(func(p *Provider, s string) { p.APIKeyEnv = s }), doc: "name of the environment variable that holds the key"},
		{key: "providers.llm.<name>.api", kind: kinds.Text, class: machine, check: kinds.OneOf("chat", "responses"), name: kinds.Provider,
			field: provider(func(p *Provider, s string) { p.API = s }), doc: "of type openai: chat or responses; not set: as the model needs it"},

		{key: "providers.mcp.<server>.command", kind: kinds.Text, class: machine, check: kinds.NotEmpty, name: kinds.Word,
			field: server(func(s *MCPServer, v any, _ string) { assign(&s.Command, v) }), doc: "program that is the MCP server and speaks on stdio"},
		{key: "providers.mcp.<server>.args", kind: kinds.Texts, class: machine, repeats: true, name: kinds.Word,
			field: server(func(s *MCPServer, v any, _ string) { assign(&s.Args, v) }), doc: "its arguments; ${NAME} is a variable of the environment, as in env, url and headers"},
		{key: "providers.mcp.<server>.env.<variable>", kind: kinds.Text, class: machine, name: kinds.Word,
			field: server(func(s *MCPServer, v any, name string) { putText(&s.Env, name, v) }), doc: "a variable that the program gets beside PATH, HOME and the like"},
		{key: "providers.mcp.<server>.url", kind: kinds.Text, class: machine, check: kinds.NotEmpty, name: kinds.Word,
			field: server(func(s *MCPServer, v any, _ string) { assign(&s.URL, v) }), doc: "address of an MCP server that speaks streamable HTTP"},
		{key: "providers.mcp.<server>.headers.<header>", kind: kinds.Text, class: machine, name: kinds.Word,
			field: server(func(s *MCPServer, v any, name string) { putText(&s.Headers, name, v) }), doc: "a header of every request to url"},
		{key: "providers.mcp.<server>.access", kind: kinds.Table, class: machine, name: kinds.Word,
			field: server(func(s *MCPServer, v any, _ string) { s.Access = v.(map[string]any) }), doc: "what the program may reach: fs, a list of { path, mode }, as a tool has it; with it, network or sandbox it is confined"},
		{key: "providers.mcp.<server>.network", kind: kinds.Text, class: machine, check: kinds.OneOf("none", "any"), name: kinds.Word,
			field: server(func(s *MCPServer, v any, _ string) { assign(&s.Network, v) }), doc: "none or any: the network that the confined program may use; not set: none"},
		{key: "providers.mcp.<server>.sandbox", kind: kinds.Text, class: machine, check: kinds.OneOf("auto", "require", "off"), name: kinds.Word,
			field: server(func(s *MCPServer, v any, _ string) { assign(&s.Sandbox, v) }), doc: "auto, require or off: how much of its confinement the system must enforce; not set: auto with access or network, off without"},

		{key: "launcher", kind: kinds.Text, check: kinds.Each(launch.CheckName), field: func(c *Config, _ []string) any { return &c.Launcher },
			doc: "of a profile: the table of launchers that starts the sub-agents of that profile elsewhere; not set: they run here. The main agent does not read it"},
		{key: "launchers.<launcher>.command", kind: kinds.Texts, class: machine, check: kinds.Each(launch.CheckArgument), repeats: true, name: launch.CheckName,
			field: launcher(func(l *Launcher) any { return &l.Command }), doc: "program and arguments that start jp elsewhere, such as ssh -T gpu1; {run} in an argument is a name unique to the run"},
		{key: "launchers.<launcher>.program", kind: kinds.Text, class: machine, def: "jp", check: kinds.Each(launch.CheckProgram), name: launch.CheckName,
			field: launcher(func(l *Launcher) any { return &l.Program }), doc: "jp on the node; it and `worker` follow the command"},
		{key: "launchers.<launcher>.stop", kind: kinds.Texts, class: machine, check: kinds.Each(launch.CheckArgument), repeats: true, name: launch.CheckName,
			field: launcher(func(l *Launcher) any { return &l.Stop }), doc: "command that is run when a launcher was ended by a signal, such as scancel --name={run}"},
		{key: "launchers.<launcher>.env", kind: kinds.Texts, class: machine, check: kinds.Each(launch.CheckVariable), name: launch.CheckName,
			field: launcher(func(l *Launcher) any { return &l.Env }), doc: "variables that the launcher gets beside those of a tool; SLURM_* for all that begin so; never a key"},
		{key: "launchers.<launcher>.workspace", kind: kinds.Text, class: machine, def: launch.Same, check: kinds.OneOf(launch.Same, launch.None), name: launch.CheckName,
			field: launcher(func(l *Launcher) any { return &l.Workspace }), doc: "same: at the same path on the node, with equal files where trust counts; none: sub-agents work with text alone"},
		{key: "launchers.<launcher>.keys", kind: kinds.Text, class: machine, def: "home", check: kinds.Keys, name: launch.CheckName,
			field: launcher(func(*Launcher) any { return func(any) {} }), doc: "home: this machine asks the models, so that no key leaves it"},
		{key: "launchers.<launcher>.workers", kind: kinds.Whole, class: machine, def: int64(1), check: kinds.Between(1, 1000), name: launch.CheckName,
			field: launcher(func(l *Launcher) any { return &l.Workers }), doc: "connections, each with many sub-agents"},
		{key: "launchers.<launcher>.children", kind: kinds.Whole, class: machine, def: int64(50), check: kinds.Between(1, 1024), name: launch.CheckName,
			field: launcher(func(l *Launcher) any { return &l.Children }), doc: "sub-agents at once of one connection, at each depth"},
		{key: "launchers.<launcher>.starting", kind: kinds.Whole, class: machine, def: int64(8), check: kinds.Between(1, 100), name: launch.CheckName,
			field: launcher(func(l *Launcher) any { return &l.Starting }), doc: "connections that are being started at once"},
		{key: "launchers.<launcher>.attempts", kind: kinds.Whole, class: machine, def: int64(3), check: kinds.Between(1, 100), name: launch.CheckName,
			field: launcher(func(l *Launcher) any { return &l.Attempts }), doc: "launches until the first word of a connection, never after it"},
		{key: "launchers.<launcher>.queue", kind: kinds.Duration, class: machine, def: "10m", check: kinds.Within("1s", "168h"), name: launch.CheckName,
			field: launcher(func(l *Launcher) any { return &l.Queue }), doc: "longest wait from a launch to the first word"},
		{key: "launchers.<launcher>.lease", kind: kinds.Duration, class: machine, def: "30s", check: kinds.Within("1s", "1h"), name: launch.CheckName,
			field: launcher(func(l *Launcher) any { return &l.Lease }), doc: "longest silence of a connection; then its sub-agents end there and are lost here"},

		{key: "store.path", kind: kinds.Text, class: machine, check: kinds.Path, field: func(c *Config, _ []string) any { return &c.Store.Path },
			doc: "folder of the store; ~/ is the home folder"},
		{key: "log.file", kind: kinds.Text, class: machine, check: kinds.LogFile, field: func(c *Config, _ []string) any { return &c.Log.File },
			doc: "where tracing goes; - for stderr"},
		{key: "editor.cmd", kind: kinds.Text, class: machine, check: kinds.NotEmpty, field: func(c *Config, _ []string) any { return &c.Editor.Cmd },
			doc: "command that edits a request; JP_EDITOR counts before it, VISUAL and EDITOR after it"},
		{key: "pager.cmd", kind: kinds.Text, class: machine, check: kinds.NotEmpty, field: func(c *Config, _ []string) any { return &c.Pager.Cmd },
			doc: "command that pages long output on a terminal; JP_PAGER counts before it, PAGER after it; cat = none"},
	}...)
}

// schema is the table as a tree, for walking a document beside it. Build one for each Resolve.
type schema struct {
	kids map[string]*schema
	any  *schema // below <x>
	row  *setting
}

func newSchema() *schema {
	root := &schema{}
	rows := table()
	for i := range rows {
		at := root
		for part := range strings.SplitSeq(rows[i].key, ".") {
			next := at.kids[part]
			if strings.HasPrefix(part, "<") {
				next = at.any
			}
			if next == nil {
				next = &schema{}
				if strings.HasPrefix(part, "<") {
					at.any = next
				} else {
					if at.kids == nil {
						at.kids = map[string]*schema{}
					}
					at.kids[part] = next
				}
			}
			at = next
		}
		at.row = &rows[i]
	}
	return root
}

func (s *schema) below(part string) *schema {
	if k := s.kids[part]; k != nil {
		return k
	}
	return s.any
}

// survives reports whether resets keep these keys: they are not settings of a conversation, or a
// table without such settings.
func (s *schema) survives() bool {
	if s.row != nil {
		return s.row.class != stored
	}
	for _, kid := range s.kids {
		if !kid.survives() {
			return false
		}
	}
	return s.any == nil || s.any.survives()
}

// find returns the row of the key at parts and how many parts belong to it: all of them, or fewer
// below a tool's table. If there is no row, known reports whether parts is a table of known keys.
func (s *schema) find(parts []string) (row *setting, n int, known bool) {
	for i, p := range parts {
		if s = s.below(p); s == nil {
			return nil, i, false
		}
		if s.row != nil {
			return s.row, i + 1, i+1 == len(parts) || s.row.kind == kinds.Table
		}
	}
	return nil, len(parts), true
}

// suggestion is a hint for an unknown key: the nearest sibling, else the key or table of that name
// elsewhere, the highest one. rest is what follows the part of the key that is unknown.
func (s *schema) suggestion(parts []string, rest ...string) string {
	at := s
	for _, p := range parts[:len(parts)-1] {
		at = at.below(p)
	}
	last := parts[len(parts)-1]
	if near := suggest.Closest(last, sortedKeys(at.kids)); near != "" {
		meant := append(slices.Clone(parts[:len(parts)-1]), near)
		if _, _, known := at.find(append([]string{near}, rest...)); known {
			meant = append(meant, rest...)
		}
		return "did you mean " + tomldoc.JoinKey(meant) + "?"
	}
	names := map[string]string{}
	level := map[string]*schema{"": s}
	for len(level) > 0 {
		next := map[string]*schema{}
		for _, key := range sortedKeys(level) {
			for name, kid := range level[key].kids {
				full := strings.TrimPrefix(key+"."+name, ".")
				next[full] = kid
				if names[name] == "" {
					names[name] = full
				}
			}
		}
		level = next
	}
	if near := suggest.Closest(last, sortedKeys(names)); near != "" {
		return "did you mean " + names[near] + "?"
	}
	return ""
}

// defaults is the Config of an empty tree.
func defaults() Config {
	c := Config{Providers: Providers{Aliases: map[string]string{}, LLM: map[string]Provider{}, Prices: map[string]Price{}, MCP: map[string]MCPServer{}}, Launchers: map[string]*Launcher{}}
	for _, r := range table() {
		if r.def != nil && r.name == nil { // the others are those of a table that somebody writes
			assign(r.field(&c, nil), r.def)
		}
	}
	return c
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// Describe returns what is known of a key: one that config may hold, a table of such keys, or one
// in the table of a tool. Its Key is key in the form that Value has. The *Error for any other key
// has a hint.
func Describe(key string) (Setting, error) {
	parts, ok := tomldoc.SplitKey(key)
	if !ok {
		return Setting{}, &Error{Key: printable(key), Msg: "is no key"}
	}
	s := newSchema()
	row, n, known := s.find(parts)
	switch {
	case row == nil && !known:
		return Setting{}, &Error{Key: tomldoc.JoinKey(parts), Msg: "unknown key", Hint: s.suggestion(parts[:n+1], parts[n+1:]...)}
	case row == nil:
		return Setting{Key: tomldoc.JoinKey(parts)}, nil
	case n < len(parts) && row.kind != kinds.Table:
		return Setting{}, &Error{Key: tomldoc.JoinKey(parts), Msg: "unknown key", Hint: tomldoc.JoinKey(parts[:n]) + " holds " + string(row.kind) + ", no keys of its own"}
	case n < len(parts):
		doc := "a key of a tool: `jp tool check` says what is wrong with it"
		if row.class == machine {
			doc = "a key of " + row.key
		}
		return Setting{Key: tomldoc.JoinKey(parts), Machine: row.class == machine, Doc: doc}, nil
	}
	return Setting{tomldoc.JoinKey(parts), string(row.kind), row.def, row.class == machine, row.doc}, nil
}
