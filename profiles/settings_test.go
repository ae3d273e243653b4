package profiles

import (
	"fmt"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"jp/profiles/alias"
	"jp/profiles/kinds"
	"jp/profiles/tomldoc"
)

// Every row of the table can be checked, has a description, and its default is a value it accepts.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range table() {
		if seen[r.key] {
			t.Errorf("%s stands twice", r.key)
		}
		seen[r.key] = true
		if r.doc == "" {
			t.Errorf("%s has no description", r.key)
		}
		if (r.field == nil) != (r.class == loader || r.kind == kinds.Table && r.class == stored) {
			t.Errorf("%s: only settings of the typed config have a field", r.key)
		}
		if r.def == nil {
			continue
		}
		if err := r.kind.Accept(r.def); err != nil {
			t.Errorf("default of %s: %v", r.key, err)
		}
		if r.check != nil {
			if err := r.check(r.def); err != nil {
				t.Errorf("default of %s: %v", r.key, err)
			}
		}
	}
}

func ptr[T any](v T) *T { return &v }

// Each setting: a value that is taken, where it lands, and values that are refused.
func TestSettings(t *testing.T) {
	huge := "must be between 0 and 10000"
	tests := []struct {
		key, value string
		get        func(c Config) any
		want       any
		bad        map[string]string // value -> message; a value that begins with : is JSON
	}{
		{"assistant.name", "x y", func(c Config) any { return c.Assistant.Name }, "x y", map[string]string{"a\nb": "must not contain control characters", ":1": "must be text, not a whole number"}},
		{"assistant.model", `:["a/b","sonnet","c/d"]`, func(c Config) any { return c.Assistant.Named() }, []string{"a/b", "sonnet", "c/d"}, map[string]string{
			`:[]`: "must not be an empty list", `:["a/b","a/b"]`: "item 2 is there twice", `:[""]`: "item 1 must be provider/model or an alias, without spaces", `:[1]`: "item 1 must be text, not a whole number"}},
		{"assistant.escalate", "sonnet", func(c Config) any { return c.Assistant.Escalate }, "sonnet", map[string]string{"": "must be provider/model or an alias, without spaces"}},
		{"assistant.model", "sonnet", func(c Config) any { return c.Assistant.Model }, "sonnet", map[string]string{
			"a b": "must be provider/model or an alias, without spaces", "/m": "must be provider/model, without spaces", "p/": "must be provider/model, without spaces"}},
		{"assistant.system_prompt", "a\nb", func(c Config) any { return c.Assistant.SystemPrompt }, "a\nb", nil},
		{"assistant.system_prompt_sections", `:[{"content":"x"},{"title":"t","content":"y"}]`, func(c Config) any { return c.Assistant.SystemPromptSections },
			[]Section{{Content: "x"}, {"t", "y"}}, map[string]string{"x": "must be a list of tables, written as JSON", ":{}": "must be a list of tables, not a table"}},
		{"assistant.instructions", "AGENTS.md", func(c Config) any { return c.Assistant.Instructions }, "AGENTS.md", map[string]string{
			"README.md": "must be \"\", \"AGENTS.md\" or \"CLAUDE.md\""}},
		{"assistant.parameters.max_tokens", "100", func(c Config) any { return c.Assistant.Parameters.MaxTokens }, 100, map[string]string{
			"0": "must be between 1 and 10000000", "1.5": "must be a whole number", ":1.5": "must be a whole number, not a number", "1e3": "must be a whole number", "0x10": "must be a whole number",
			"99999999999999999999": "must be a whole number", ":99999999999999999999": "number is out of range", "": "must be a whole number"}},
		{"assistant.parameters.reasoning", "low", func(c Config) any { return c.Assistant.Parameters.Reasoning }, "low", map[string]string{
			"xlow": `must be "none", "low", "medium" or "high"`, "Low": `must be "none", "low", "medium" or "high"`}},
		{"assistant.parameters.temperature", "1", func(c Config) any { return *c.Assistant.Parameters.Temperature }, 1.0, map[string]string{
			"2.1": "must be between 0 and 2", "-1": "must be between 0 and 2", "nan": "must be a number", "inf": "must be a number", "0x1p-2": "must be a number", ":true": "must be a number, not true or false"}},
		{"assistant.request.max_retries", "0", func(c Config) any { return c.Assistant.Request.MaxRetries }, 0, map[string]string{"101": "must be between 0 and 100", "-1": "must be between 0 and 100"}},
		{"assistant.request.base_backoff_ms", "20", func(c Config) any { return c.Assistant.Request.BaseBackoff }, 20 * time.Millisecond, map[string]string{"20ms": "must be a whole number"}},
		{"assistant.request.max_backoff_secs", "3", func(c Config) any { return c.Assistant.Request.MaxBackoff }, 3 * time.Second, nil},
		{"assistant.request.stream_idle_timeout_secs", "0", func(c Config) any { return c.Assistant.Request.StreamIdle }, time.Duration(0), nil},
		{"assistant.request.reply_idle_timeout_secs", "0", func(c Config) any { return c.Assistant.Request.ReplyIdle }, time.Duration(0), nil},
		{"assistant.request.reply_timeout_secs", "7200", func(c Config) any { return c.Assistant.Request.Reply }, 2 * time.Hour, nil},
		{"assistant.request.max_response_bytes", "1", func(c Config) any { return c.Assistant.Request.MaxResponseBytes }, int64(1), map[string]string{"0": "must be between 1 and 1099511627776"}},
		{"conversation.context_window", "3", func(c Config) any { return c.Conversation.Window }, 3, map[string]string{"-1": "must be between 0 and 1000000"}},
		{"conversation.max_turns", "3", func(c Config) any { return c.Conversation.MaxTurns }, 3, map[string]string{"0": "must be between 1 and 1000000"}},
		{"conversation.compact.mode", "off", func(c Config) any { return c.Conversation.Compact.Mode }, "off", nil},
		{"conversation.compact.model", "script/s.toml", func(c Config) any { return c.Conversation.Compact.Model }, "script/s.toml", nil},
		{"conversation.compact.threshold", "0.5", func(c Config) any { return c.Conversation.Compact.Threshold }, 0.5, nil},
		{"conversation.compact.window", "9000", func(c Config) any { return c.Conversation.Compact.Window }, 9000, nil},
		{"conversation.title.from_query", "false", func(c Config) any { return c.Conversation.FromQuery }, false, map[string]string{"no": "must be true or false", ":1": "must be true or false, not a whole number"}},
		{"conversation.title.model", "script/s.toml", func(c Config) any { return c.Conversation.TitleModel }, "script/s.toml", map[string]string{"": "must be provider/model or an alias, without spaces"}},
		{"conversation.tools.parallel", "2", func(c Config) any { return c.Conversation.Parallel }, 2, map[string]string{"0": "must be between 1 and 1024"}},
		{"delegation.enabled", "0", func(c Config) any { return c.Delegation.Enabled }, false, map[string]string{"": "must be true or false"}},
		{"delegation.profiles", `:["a/b","builtin:agent/x"]`, func(c Config) any { return c.Delegation.Profiles }, []string{"a/b", "builtin:agent/x"}, map[string]string{
			`:["./a.toml"]`: "item 1 must be the name of a profile such as agent/researcher, or builtin:<name>", `:["a","a"]`: "item 2 is there twice",
			`:["NONE"]`: "item 1 must be the name of a profile such as agent/researcher, or builtin:<name>", `:["a.toml"]`: "item 1 must be the name of a profile such as agent/researcher, or builtin:<name>"}},
		{"delegation.models", `:["a/b","c"]`, func(c Config) any { return c.Delegation.Models }, []string{"a/b", "c"}, map[string]string{`:[""]`: "item 1 must be provider/model or an alias, without spaces"}},
		{"delegation.reasoning", `:["none","low"]`, func(c Config) any { return c.Delegation.Efforts }, []string{"none", "low"}, map[string]string{`:["most"]`: `item 1 must be "none", "low", "medium" or "high"`}},
		{"delegation.max_life_tokens", "7", func(c Config) any { return *c.Delegation.MaxLifeTokens }, int64(7), map[string]string{"0": "must not be below 1"}},
		{"delegation.max_life_cost", "0.5", func(c Config) any { return *c.Delegation.MaxLifeNano }, int64(5e8), map[string]string{"-1": "must be between 0 and 1000000000"}},
		{"delegation.expire", "30d", func(c Config) any { return c.Delegation.Expire }, 720 * time.Hour, map[string]string{"0s": "must be longer than nothing", "x": `must be a duration such as "90s" or "10m"`}},
		{"delegation.inline_result", "1", func(c Config) any { return c.Delegation.InlineResult }, 1, map[string]string{"0": "must be between 1 and 2097152"}},
		{"delegation.max_depth", "0", func(c Config) any { return *c.Delegation.MaxDepth }, 0, map[string]string{"-1": "must be between 0 and 1000"}},
		{"delegation.max_depth", "9", func(c Config) any { return *c.Delegation.MaxDepth }, 5, nil},
		{"delegation.max_per_turn", "0", func(c Config) any { return c.Delegation.MaxPerTurn }, 0, map[string]string{"-5": huge}},
		{"delegation.max_children", "9", func(c Config) any { return c.Delegation.MaxChildren }, 9, nil},
		{"delegation.max_parallel", "1", func(c Config) any { return c.Delegation.MaxParallel }, 1, map[string]string{"0": "must be between 1 and 1024"}},
		{"delegation.token_budget", "0", func(c Config) any { return *c.Delegation.TokenBudget }, int64(0), map[string]string{
			"-1": "must not be below 0", "none": `must be a whole number or "unlimited"`, `:"none"`: `must be a whole number or "unlimited", not other text`, ":1.5": `must be a whole number or "unlimited", not a number`}},
		{"delegation.token_budget", "unlimited", func(c Config) any { return c.Delegation.TokenBudget }, (*int64)(nil), nil},
		{"delegation.max_cost_per_session", "0.1", func(c Config) any { return []any{*c.Delegation.MaxCostNano, c.Delegation.MaxCostSet} }, []any{int64(100_000_000), true}, map[string]string{"-1": "must be between 0 and 1000000000"}},
		{"delegation.max_cost_per_session", "0.0999999999999999", func(c Config) any { return *c.Delegation.MaxCostNano }, int64(99_999_999), nil},
		{"delegation.max_cost_per_session", ":0", func(c Config) any { return []any{*c.Delegation.MaxCostNano, c.Delegation.MaxCostSet} }, []any{int64(0), true}, nil},
		{"delegation.max_cost_per_session", "unlimited", func(c Config) any { return []any{c.Delegation.MaxCostNano, c.Delegation.MaxCostSet} }, []any{(*int64)(nil), true}, nil},
		{"delegation.budget_inheritance", "1", func(c Config) any { return c.Delegation.BudgetInheritance }, 1.0, map[string]string{"1.1": "must be between 0 and 1"}},
		{"delegation.timeout", "90s", func(c Config) any { return c.Delegation.Timeout }, 90 * time.Second, map[string]string{
			"0s": "must be longer than nothing", "-1s": "must be longer than nothing", "10": `must be a duration such as "90s" or "10m"`, ":10": `must be a duration such as "90s" or "10m", not a whole number`}},
		{"delegation.context_tool", "docs_search", func(c Config) any { return c.Delegation.ContextTool }, "docs_search", map[string]string{" ": "must not be empty"}},
		{"delegation.llm_query.tools", `:["a"]`, func(c Config) any { return c.Delegation.LLMQuery.Tools }, []string{"a"}, map[string]string{`:[""]`: "item 1 must not be empty"}},
		{"style.reasoning.display", "full", func(c Config) any { return c.Style.Reasoning }, "full", nil},
		{"style.tool_call.show", "1", func(c Config) any { return c.Style.ShowToolCall }, true, nil},
		{"providers.llm.aliases.fast", "a/b", func(c Config) any { return c.Providers.Aliases["fast"] }, "a/b", nil},
		{`providers.llm.prices."a/b"`, `:{"input":3,"output":0.0001,"cache_read":0}`, func(c Config) any { return c.Providers.Prices["a/b"] },
			Price{Input: 3_000_000_000, Output: 100_000, CacheRead: ptr(int64(0))}, nil},
		{"providers.llm.openai.type", "openai", func(c Config) any { return c.Providers.LLM["openai"].Type }, "openai", map[string]string{"ollama": `must be "anthropic" or "openai"`}},
		{"providers.llm.ollama.base_url", "http://h:1/v1", func(c Config) any { return c.Providers.LLM["ollama"].BaseURL }, "http://h:1/v1", map[string]string{
			"h:1/v1": "must be an http or https address", "file:///x": "must be an http or https address", "http://": "must be an http or https address", "http://u:p@h": "must not contain a user or password",
			"http://h?k=v": "must not contain a query or a fragment", "http://h#x": "must not contain a query or a fragment", "http://h\n": "must be an http or https address"}},
		{"providers.llm.openai.api_key_env", "MY_KEY1", func(c Config) any { return c.Providers.LLM["openai"].APIKeyEnv }, "MY_KEY1", map[string]string{
			"sk-x": "must be the name of an environment variable", "1A": "must be the name of an environment variable", "": "must be the name of an environment variable", "A=B": "must be the name of an environment variable"}},
		{"providers.llm.openai.api", "responses", func(c Config) any { return c.Providers.LLM["openai"].API }, "responses", map[string]string{"completions": `must be "chat" or "responses"`}},
		{"providers.mcp.files.command", "npx", func(c Config) any { return c.Providers.MCP["files"].Command }, "npx", map[string]string{" ": "must not be empty"}},
		{"conversation.default", "new", func(c Config) any { return c.Conversation.Default }, "new", map[string]string{"recent": `must be "active" or "new"`}},
		{"providers.llm.aliases.sonnet", "a/b", func(c Config) any { return c.Providers.Aliases["sonnet"] }, "a/b", map[string]string{"b": "must be provider/model, without spaces"}},
		{"providers.mcp.files.args", `:["-v","-v",""]`, func(c Config) any { return c.Providers.MCP["files"].Args }, []string{"-v", "-v", ""}, nil},
		{"providers.mcp.files.env.TOKEN", "${TOKEN}", func(c Config) any { return c.Providers.MCP["files"].Env }, map[string]string{"TOKEN": "${TOKEN}"}, nil},
		{"providers.mcp.files.url", "https://h/${X}", func(c Config) any { return c.Providers.MCP["files"].URL }, "https://h/${X}", map[string]string{"": "must not be empty"}},
		{"providers.mcp.files.headers.Authorization", "Bearer ${T}", func(c Config) any { return c.Providers.MCP["files"].Headers["Authorization"] }, "Bearer ${T}", nil},
		{"providers.mcp.files.access", `:{"fs":[{"path":".","mode":"rw"}]}`, func(c Config) any { return c.Providers.MCP["files"].Access },
			map[string]any{"fs": []any{map[string]any{"path": ".", "mode": "rw"}}}, map[string]string{":7": "must be a table, not a whole number"}},
		{"providers.mcp.files.network", "any", func(c Config) any { return c.Providers.MCP["files"].Network }, "any", map[string]string{"some": `must be "none" or "any"`}},
		{"providers.mcp.files.sandbox", "require", func(c Config) any { return c.Providers.MCP["files"].Sandbox }, "require", map[string]string{"on": `must be "auto", "require" or "off"`}},
		{"launcher", "gpu", func(c Config) any { return c.Launcher }, "gpu", map[string]string{
			"": "the name of a launcher must be letters, digits, - and _, at most 40", "a b": "the name of a launcher must be letters, digits, - and _, at most 40"}},
		{"store.path", "/s", func(c Config) any { return c.Store.Path }, "/s", map[string]string{"s": "must be an absolute path or begin with ~/", "": "must be an absolute path or begin with ~/"}},
		{"store.path", "~/s", func(c Config) any { return c.Store.Path }, "/home/s", nil},
		{"log.file", "-", func(c Config) any { return c.Log.File }, "-", map[string]string{"x": "must be an absolute path or begin with ~/"}},
		{"editor.cmd", "vi -n", func(c Config) any { return c.Editor.Cmd }, "vi -n", map[string]string{" ": "must not be empty"}},
		{"pager.cmd", "less", func(c Config) any { return c.Pager.Cmd }, "less", nil},
	}
	src := Sources{Dir: "/", Environ: []string{"HOME=/home"}}
	directive := func(key, value string) []Directive {
		if rest, ok := strings.CutPrefix(value, ":"); ok {
			return []Directive{{Flag: "--cfg", Text: key + ":=" + rest}}
		}
		return []Directive{{Flag: "--cfg", Text: key + "=" + value}}
	}
	covered := map[string]bool{}
	for _, tt := range tests {
		covered[tt.key] = true
		r, err := Resolve(src, directive(tt.key, tt.value), nil)
		if err != nil {
			t.Errorf("%s=%s: %v", tt.key, tt.value, err)
			continue
		}
		if got := tt.get(r.Config); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s=%s: %v, want %v", tt.key, tt.value, got, tt.want)
		}
		for value, want := range tt.bad {
			_, err := Resolve(src, directive(tt.key, value), nil)
			if got, want := fmt.Sprint(err), "--cfg: "+tt.key+": "+want; got != want {
				t.Errorf("%s=%s: %s, want %s", tt.key, value, got, want)
			}
		}
	}
	for name := range alias.Builtin() {
		covered["providers.llm.aliases."+name] = covered["providers.llm.aliases.sonnet"] // one rule for all
	}
	names := strings.NewReplacer("<alias>", "fast", "<model>", `"a/b"`, "conversation.tools.<name>", "",
		"<server>", "files", "<variable>", "TOKEN", "<header>", "Authorization")
	for _, s := range Settings() {
		key := names.Replace(s.Key)
		if strings.HasPrefix(key, `providers.llm.prices."a/b"`) {
			key = `providers.llm.prices."a/b"`
		}
		if strings.HasPrefix(key, "launchers.") {
			continue // TestLaunchers
		}
		for _, provider := range []string{"openai", "ollama"} {
			if k := strings.Replace(key, "<name>", provider, 1); covered[k] {
				key = k
			}
		}
		if !covered[key] && key != "" && key != "extends" && key != "loader.reset" && key != "config_load_paths" && key != specializationsKey {
			t.Errorf("%s has no test of its value", s.Key)
		}
	}
}

func TestDefaults(t *testing.T) {
	r, err := Resolve(Sources{Dir: "/"}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := Config{
		Assistant:    Assistant{Request: Request{MaxRetries: 5, BaseBackoff: time.Second, MaxBackoff: time.Minute, StreamIdle: time.Minute, ReplyIdle: 15 * time.Minute, Reply: time.Hour, MaxResponseBytes: 8 << 20}},
		Conversation: Conversation{Default: "active", MaxTurns: 50, Parallel: 8, FromQuery: true, Compact: Compact{Mode: "auto", Threshold: 0.8}},
		Delegation: Delegation{Enabled: true, InlineResult: 16384, MaxPerTurn: 5, MaxChildren: 64, MaxParallel: 4, MaxCostNano: ptr(int64(1e9)),
			BudgetInheritance: 0.5, Timeout: 10 * time.Minute},
		Style:     Style{Reasoning: "hidden", ShowToolCall: true},
		Providers: Providers{Aliases: alias.Builtin(), LLM: map[string]Provider{}, Prices: map[string]Price{}, MCP: map[string]MCPServer{}},
		Launchers: map[string]*Launcher{},
	}
	if !reflect.DeepEqual(r.Config, want) {
		t.Errorf("defaults = %+v\nwant %+v", r.Config, want)
	}
	if len(r.Tools) != 0 || len(r.Layers) != 0 || len(r.Warnings) != 0 || r.Reset || string(r.Stored()) != "{}" {
		t.Errorf("Resolve of nothing = %+v", r)
	}
}

func TestWarningOfDepth(t *testing.T) {
	w := newWorld(t, map[string]string{"WS/.jp/config.toml": "[delegation]\nmax_depth = 7"})
	r := w.resolve()
	if want := []string{w.path("WS/.jp/config.toml") + ":2: delegation.max_depth: 7 is above the deepest nesting, 5 is used"}; !slices.Equal(r.Warnings, want) {
		t.Errorf("Warnings = %q, want %q", r.Warnings, want)
	}
}

func TestVariables(t *testing.T) {
	environ := []string{
		"JP_SUB_CALLS_ENABLED=false", "JP_SUB_CALLS_MAX_PER_TURN=2", "JP_SUB_CALLS_BUDGET_INHERITANCE=0.25", "JP_SUB_CALLS_MAX_COST_PER_SESSION=2.5",
		"JP_SUB_CALLS_MAX_DEPTH=3", "JP_SUB_CALLS_TOKEN_BUDGET=unlimited", "JP_CFG_DELEGATION__MAX_PER_TURN=7",
		`JP_CFG_DELEGATION__PROFILES=:["a"]`, "JP_CFG_ASSISTANT__NAME=x=y", `JP_CFG_ASSISTANT__MODEL=:"a/b"`, "JP_CFG_STYLE__REASONING__DISPLAY=",
		"JP_CFG_CONVERSATION__TOOLS__FS_READ_FILE__RUN=deny", "JP_CFG_CONVERSATION__TOOLS__FS_READ_FILE__ENABLE=false", "JP_CFGX=1", "jp_cfg_a=1", "=x", "noise",
	}
	r, err := Resolve(Sources{Dir: "/", Environ: environ}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	d := r.Config.Delegation
	got := []any{d.Enabled, d.MaxPerTurn, d.BudgetInheritance, *d.MaxCostNano, *d.MaxDepth, d.TokenBudget, d.Profiles, r.Config.Assistant.Name, r.Config.Assistant.Model}
	want := []any{false, 7, 0.25, int64(2_500_000_000), 3, (*int64)(nil), []string{"a"}, "x=y", "a/b"}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("variables = %v, want %v", got, want)
	}
	if got, want := r.Tools["fs_read_file"].Values, (map[string]any{"run": "deny", "enable": false}); !reflect.DeepEqual(got, want) {
		t.Errorf("tool = %v, want %v", got, want)
	}
	if got := r.Tools["fs_read_file"].Pos("run").String(); got != "JP_CFG_CONVERSATION__TOOLS__FS_READ_FILE__RUN" {
		t.Errorf("Pos(run) = %s", got)
	}
}

func TestRequireModel(t *testing.T) {
	w := newWorld(t, map[string]string{
		"WS/.jp/config.toml":       "[providers.llm.aliases]\nfast = 'a/small'\n",
		"WS/.jp/config/empty.toml": "[loader]\nreset = 'none'\n",
	})
	const hint = `write model = "provider/model" below [assistant] in .jp/config.toml, or pass --model provider/model`
	const known = ", or an alias such as fast, gemini, gpt, haiku, opus, sonnet; `jp model ls` lists what is known"
	tests := []struct {
		cfg  []string
		want string
	}{
		{nil, "assistant.model: not set (" + hint + ")"},
		{[]string{"NONE"}, "assistant.model: not set (" + hint + ")"},
		{[]string{"empty"}, `assistant.model: not set (write model = "provider/model" below [assistant] in WS/.jp/config/empty.toml, or pass --model provider/model)`},
		{[]string{"assistant.model=x/y/z"}, "x/y/z"},
		{[]string{"assistant.model=fast"}, "a/small"},
		{[]string{"assistant.model=fats"}, `assistant.model: "fats" is neither provider/model nor an alias (did you mean fast?)`},
		{[]string{"assistant.model=gpt", "NONE", "assistant.model=sonnet"}, "anthropic/claude-sonnet-5-5"},
		{[]string{"providers.llm.aliases.sonnet=my/own", "assistant.model=sonnet"}, "my/own"},
		{[]string{"assistant.model=gptt"}, `assistant.model: "gptt" is neither provider/model nor an alias (did you mean gpt?)`},
		{[]string{"assistant.model=other"}, `assistant.model: "other" is neither provider/model nor an alias (` + hint + known + ")"},
		{[]string{"assistant.model=fast", "empty"}, `assistant.model: not set (write model = "provider/model" below [assistant] in WS/.jp/config/empty.toml, or pass --model provider/model)`},
		{[]string{"empty", "assistant.model=fast"}, `assistant.model: "fast" is neither provider/model nor an alias (write model = "provider/model" below [assistant] in WS/.jp/config/empty.toml, or pass --model provider/model` + strings.Replace(known, "fast, ", "", 1) + ")"},
	}
	for _, tt := range tests {
		got, err := w.resolve(tt.cfg...).Config.RequireModel()
		if err != nil {
			got = w.failure(err)
		}
		if got != tt.want {
			t.Errorf("RequireModel(%q) = %s, want %s", tt.cfg, got, tt.want)
		}
	}
	for name, want := range map[string]string{
		"a/b": "<nil>", "a/b/c": "<nil>", "a/b c": "assistant.model: must be provider/model, without spaces", "/": "assistant.model: must be provider/model, without spaces",
		"a": `assistant.model: "a" is neither provider/model nor an alias`, "": "assistant.model: not set",
	} {
		if _, err := (Config{}).ResolveModel(name); fmt.Sprint(err) != want {
			t.Errorf("ResolveModel(%q) = %v, want %s", name, err, want)
		}
	}
}

func TestOneLine(t *testing.T) {
	if got := tomldoc.OneLine(" a\r\n b\t"); got != "a b" {
		t.Errorf("oneLine = %q", got)
	}
	if got, want := tomldoc.OneLine(strings.Repeat("a", 199)+"ü"), strings.Repeat("a", 199)+"..."; got != want {
		t.Errorf("oneLine = %q, want %q", got, want)
	}
}

func TestNumbersAreFinite(t *testing.T) {
	for _, s := range []string{"1e400", "-1e400"} {
		if v, err := tomldoc.Number(s); err == nil {
			t.Errorf("number(%s) = %v", s, v)
		}
	}
	if v, _ := tomldoc.Number("1.0"); v != 1.0 {
		t.Errorf("number(1.0) = %T", v)
	}
	if got := string(tomldoc.Canonical(map[string]any{"b": 1.0, "a": int64(1), "c": 1e300, "d": math.Copysign(0, -1), "e": "<\u2028\x01>"})); got != `{"a":1,"b":1.0,"c":1e+300,"d":-0.0,"e":"<\u2028\u0001>"}` {
		t.Errorf("canonical = %s", got)
	}
}
