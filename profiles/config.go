package profiles

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"jp/profiles/kinds"
	"jp/tools/suggest"
)

// Config is the typed result of resolving: defaults applied, values checked. Each field mirrors the
// TOML key of the same name in snake_case; Settings lists the keys. The tables of tools are in
// Resolved.Tools.
type Config struct {
	Assistant    Assistant
	Conversation Conversation
	Delegation   Delegation
	Style        Style
	Providers    Providers
	Launcher     string               // launcher of the sub-agents of this profile, see FindLauncher; "" = none, they run here
	Launchers    map[string]*Launcher // by name
	Store        StoreSettings
	Log          LogSettings
	Editor       Program
	Pager        Program

	near func(name string) string // see Sources.NearModel; nil knows none
	hint string                   // hint of RequireModel: where the model of this config belongs
}

// Assistant is the agent that answers, and how its model is asked.
type Assistant struct {
	Name                 string   // shown to people; "" = none
	Model                string   // as written: provider/model or an alias; RequireModel resolves it
	Fallback             []string // rest of the list that Model is the first of, see RequireModels; nil = none
	Escalate             string   // as written, see RequireModels; "" = none
	SystemPrompt         string   // comes before the sections; "" = none
	SystemPromptSections []Section
	Instructions         string // file below the workspace that the main agent's prompt has behind them; "" = none
	Parameters           Parameters
	Request              Request
}

// Section is one part of the system prompt.
type Section struct {
	Title   string // "" = none
	Content string // never empty
}

// Parameters are sent to the model.
type Parameters struct {
	MaxTokens   int      // of one reply; 0 = the model's own limit
	Reasoning   string   // none, low, medium, high; "" = the model's default
	Temperature *float64 // 0 to 2; nil = the model's default
}

// Request bounds a call of the model.
type Request struct {
	MaxRetries       int           // default 5; 0 = never
	BaseBackoff      time.Duration // base_backoff_ms, default 1 s
	MaxBackoff       time.Duration // max_backoff_secs, default 60 s
	StreamIdle       time.Duration // stream_idle_timeout_secs, default 60 s; 0 = no limit
	ReplyIdle        time.Duration // reply_idle_timeout_secs, default 15 min; 0 = no limit
	Reply            time.Duration // reply_timeout_secs, default 1 h; 0 = no limit
	MaxResponseBytes int64         // default 8 MiB
}

// Conversation holds the settings of the turn loop.
type Conversation struct {
	Default   string // active (default) or new: the conversation that a query without a name asks
	MaxTurns  int    // tool rounds in one turn, default 50
	Window    int    // context_window: earlier turns that the model gets; 0 = all, the default
	Parallel  int    // conversation.tools.parallel: tool calls run at once, without those that start sub-agents, default 8
	FromQuery bool   // conversation.title.from_query: the first query's first line becomes the title, default true
	Compact   Compact

	TitleModel string // conversation.title.model: model that writes a title after the first turn; "" = none
}

// Compact says when and how old messages are left out of what a model gets.
type Compact struct {
	Mode      string  // auto (default) or off
	Model     string  // model that writes summaries; "" = that of the conversation
	Threshold float64 // share of the window that a request may fill, default 0.8
	Window    int     // tokens; 0 = as known for the model
}

// Delegation limits sub-agents. Nil limits are "unlimited"; a limit of 0 allows none.
type Delegation struct {
	Enabled           bool          // default true
	Profiles          []string      // names that `config` of jp_query may have; nil = none
	Models            []string      // models that an override of assistant.model may name; nil = any
	Efforts           []string      // delegation.reasoning: levels that an override of the reasoning may name; nil = any
	InlineResult      int           // bytes of a result given to the model, default 16 KiB
	MaxDepth          *int          // 0 to 5; nil = not set: 1 at a root, 0 in a child
	MaxPerTurn        int           // default 5
	MaxChildren       int           // per session, default 64
	MaxParallel       int           // default 4, at least 1
	TokenBudget       *int64        // per session; nil = unlimited, the default
	MaxCostNano       *int64        // max_cost_per_session in nano-dollars; default 1 dollar
	MaxCostSet        bool          // whether anyone set max_cost_per_session
	BudgetInheritance float64       // 0 to 1, default 0.5
	Timeout           time.Duration // of one child, default 10 minutes
	MaxLifeTokens     *int64        // of the own calls of one sub-conversation, in all its turns; nil = unlimited, the default
	MaxLifeNano       *int64        // max_life_cost in nano-dollars, of the same; nil = unlimited, the default
	Expire            time.Duration // after the last run of a sub-conversation; 0 = never, the default
	LLMQuery          LLMQuery
	ContextTool       string // tool of a sub-agent that answers a context_query; "" = none
}

// LLMQuery is the generic sub-agent.
type LLMQuery struct {
	Tools []string // tools that it holds; nil = none
}

// Style says what is shown beside the answer.
type Style struct {
	Reasoning    string // style.reasoning.display: hidden (default) or full
	ShowToolCall bool   // style.tool_call.show, default true
}

// Providers is everything under [providers]. All but the aliases are machine settings.
type Providers struct {
	Aliases map[string]string    // name -> provider/model
	LLM     map[string]Provider  // by name; only those in the config
	Prices  map[string]Price     // by exact provider/model
	MCP     map[string]MCPServer // by name
}

// Keys returns the names of the variables that hold the keys of providers in the config, sorted.
func (p Providers) Keys() []string {
	var names []string
	for _, name := range sortedKeys(p.LLM) {
		if env := p.LLM[name].APIKeyEnv; env != "" {
			names = append(names, env)
		}
	}
	return names
}

// IsKey reports whether a variable of this name holds the key of a provider in the config.
func (p Providers) IsKey(name string) bool {
	for _, l := range p.LLM {
		if l.APIKeyEnv == name {
			return true
		}
	}
	return false
}

// MCPServer is one table of [providers.mcp], as it is written. Nothing is expanded, and it may have
// a command and an address, one of them, or none.
type MCPServer struct {
	Command string // the program; "" = not given
	Args    []string
	Env     map[string]string
	URL     string // "" = not given
	Headers map[string]string
	// Reach of a confined program, in the words of a tool. Only the words of the last two are
	// checked here.
	Access           map[string]any // nil = not given
	Network, Sandbox string         // "" = not given
}

// Provider is one endpoint. The key goes only to the endpoint of the layer that named its variable:
// when base_url and api_key_env come from different layers, APIKeyEnv is empty, KeyWithheld is set
// and a warning says why. With KeyWithheld no key may be sent at all, not even one from a default
// variable.
type Provider struct {
	Type        string // anthropic or openai (every compatible server); "" for the built-in names
	BaseURL     string // http or https, no user, query or fragment; "" = the provider's own
	API         string // chat or responses, of type openai; "" = as the model needs it
	APIKeyEnv   string // name of the variable that holds the key; "" = none configured
	KeyWithheld bool
}

// Price is in nano-dollars for a million tokens (1 USD for a million = 1_000_000_000). Nil cache
// prices were not given.
type Price struct {
	Input, Output         int64
	CacheRead, CacheWrite *int64
}

// StoreSettings says where the store is.
type StoreSettings struct{ Path string } // absolute; "" = the default place

// LogSettings says where the log is.
type LogSettings struct{ File string } // absolute, "-" for stderr, "" = the default place

// Program is a command line that a person chose, split by the shell that runs it.
type Program struct{ Cmd string } // "" = not set

// maxDepth is the deepest nesting that the program allows, whatever a config says.
const maxDepth = 5

// RequireModel returns the model id with aliases resolved, always `provider/model`. Its *Error
// wraps ErrModel and says where assistant.model is set.
func (c Config) RequireModel() (string, error) {
	id, err := c.ResolveModel(c.Assistant.Model)
	if err != nil {
		if e := err.(*Error); e.Hint == "" {
			e.Hint = c.modelHint()
			if c.Assistant.Model != "" {
				names := sortedKeys(c.Providers.Aliases)
				e.Hint += ", or an alias such as " + strings.Join(names[:min(len(names), 8)], ", ") + "; `jp model ls` lists what is known"
			}
		}
		return "", err
	}
	return id, nil
}

// RequireModels returns the ids of all models that may answer: that of RequireModel, then
// those that stand in for it, in order. escalate is that of assistant.escalate, "" for none.
func (c Config) RequireModels() (list []string, escalate string, err error) {
	first, err := c.RequireModel()
	if err != nil {
		return nil, "", err
	}
	list = []string{first}
	for _, name := range c.Assistant.Fallback {
		id, err := c.ResolveModel(name)
		if err != nil {
			return nil, "", err
		}
		if slices.Contains(list, id) {
			return nil, "", &Error{Key: "assistant.model", Msg: id + " is there twice", Err: ErrModel}
		}
		list = append(list, id)
	}
	if c.Assistant.Escalate != "" {
		if escalate, err = c.ResolveModel(c.Assistant.Escalate); err != nil {
			err.(*Error).Key = "assistant.escalate"
		}
	}
	return list, escalate, err
}

// Named returns the models as they are written: those of assistant.model.
func (a Assistant) Named() []string {
	if a.Model == "" {
		return nil
	}
	return append([]string{a.Model}, a.Fallback...)
}

func (a *Assistant) setModel(v any) {
	a.Model, a.Fallback = "", nil
	switch v := v.(type) {
	case string:
		a.Model = v
	case []any:
		for i, item := range v {
			if name := item.(string); i == 0 {
				a.Model = name
			} else {
				a.Fallback = append(a.Fallback, name)
			}
		}
	}
}

// ResolveModel turns provider/model or an alias, as a person or a model wrote it, into a model id.
// Its *Error wraps ErrModel.
func (c Config) ResolveModel(name string) (string, error) {
	fail := func(msg, hint string) (string, error) {
		return "", &Error{Key: "assistant.model", Msg: msg, Hint: hint, Err: ErrModel}
	}
	if name == "" {
		return fail("not set", "")
	}
	if id, ok := c.Providers.Aliases[name]; ok {
		return id, nil
	}
	if err := kinds.ModelID(name); err != nil {
		if strings.Contains(name, "/") {
			return fail(err.Error(), "")
		}
		hint := suggest.Meant("did you mean %s?", name, sortedKeys(c.Providers.Aliases))
		if hint == "" && c.near != nil {
			if near := c.near(name); near != "" {
				hint = "did you mean " + near + "?"
			}
		}
		return fail(strconv.Quote(name)+" is neither provider/model nor an alias", hint)
	}
	return name, nil
}

func (c Config) modelHint() string {
	if c.hint != "" {
		return c.hint
	}
	return `write model = "provider/model" below [assistant] in .jp/config.toml, or pass --model provider/model`
}
