package profiles

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"jp/profiles/delta"
	"jp/profiles/kinds"
	"jp/profiles/tomldoc"
)

func TestDelta(t *testing.T) {
	tests := []struct{ old, new, want string }{
		{"", "", ""},
		{`{}`, `{"a":1}`, `{"a":1}`},
		{`{"a":1}`, `{}`, `{"a":null}`},
		{`{"a":1}`, ` { "a" : 1 } `, ``},
		{`{"a":{"b":1,"c":2}}`, `{"a":{"b":1,"c":3}}`, `{"a":{"c":3}}`},
		{`{"a":{"b":1,"c":2}}`, `{"a":{"b":1}}`, `{"a":{"c":null}}`},
		{`{"a":{"b":1}}`, `{"a":{}}`, `{"a":{"b":null}}`},
		{`{"a":1}`, `{"a":{}}`, `{"a":{}}`},
		{`{"a":{"b":1}}`, `{"a":"x"}`, `{"a":"x"}`},
		{`{"a":[1,2]}`, `{"a":[1]}`, `{"a":[1]}`},
		{`{"a":[1.0]}`, `{"a":[1]}`, `{"a":[1]}`},
	}
	for _, tt := range tests {
		got, err := delta.Between([]byte(tt.old), []byte(tt.new))
		if tt.old == "" {
			got, err = delta.Between(nil, nil)
		}
		if err != nil || string(got) != tt.want {
			t.Errorf("delta.Between(%s, %s) = %s, %v, want %s", tt.old, tt.new, got, err, tt.want)
		}
	}
	for _, bad := range []string{``, `[]`, `{`, `{"a":null}`} {
		if _, err := delta.Between([]byte(bad), nil); err == nil {
			t.Errorf("delta.Between(%s, nil) has no error", bad)
		}
		if _, err := delta.Between(nil, []byte(bad)); err == nil {
			t.Errorf("delta.Between(nil, %s) has no error", bad)
		}
	}
	for _, bad := range []string{``, `1`, `{`} {
		if _, err := Apply(nil, []byte(bad)); err == nil {
			t.Errorf("Apply(nil, %s) has no error", bad)
		}
	}
	if got, err := Apply(nil, nil); string(got) != "{}" || err != nil {
		t.Errorf("Apply(nil, nil) = %s, %v", got, err)
	}
}

// trees draws any config tree.
func trees() *rapid.Generator[any] {
	keys := rapid.SampledFrom([]string{"a", "b", "c", "d.e", "ü"})
	var value func(depth int) *rapid.Generator[any]
	value = func(depth int) *rapid.Generator[any] {
		leaf := rapid.OneOf(
			rapid.Custom(func(t *rapid.T) any { return rapid.Int64().Draw(t, "int") }),
			rapid.Custom(func(t *rapid.T) any { return rapid.SampledFrom([]float64{0, 1, -0.5, 1e300, 1e21}).Draw(t, "float") }),
			rapid.Custom(func(t *rapid.T) any { return rapid.String().Draw(t, "text") }),
			rapid.Custom(func(t *rapid.T) any { return rapid.Bool().Draw(t, "bool") }),
		)
		if depth == 0 {
			return leaf
		}
		return rapid.OneOf(leaf,
			rapid.Custom(func(t *rapid.T) any { return rapid.SliceOfN(value(depth-1), 0, 3).Draw(t, "list") }),
			rapid.Custom(func(t *rapid.T) any { return rapid.MapOfN(keys, value(depth-1), 0, 4).Draw(t, "table") }),
		)
	}
	return rapid.Custom(func(t *rapid.T) any { return rapid.MapOfN(keys, value(3), 0, 4).Draw(t, "tree") })
}

// A delta leads from any config to any other, and there is none exactly when they are equal.
func TestDeltaApply(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		old, new := tomldoc.Canonical(trees().Draw(t, "old")), tomldoc.Canonical(trees().Draw(t, "new"))
		patch, err := delta.Between(old, new)
		if err != nil {
			t.Fatal(err)
		}
		if (patch == nil) != bytes.Equal(old, new) {
			t.Fatalf("delta.Between(%s, %s) = %s", old, new, patch)
		}
		got, err := Apply(old, patch)
		if err != nil || !bytes.Equal(got, new) {
			t.Fatalf("Apply(%s, %s) = %s, %v, want %s", old, patch, got, err, new)
		}
	})
}

// What tools hold is stored and read back the same, whatever it is; merging it over something else
// included.
func TestStoredRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tools := map[string]any{}
		for _, name := range []string{"one", "two"} {
			tools[name] = trees().Draw(t, name)
		}
		stored := tomldoc.Canonical(map[string]any{"conversation": map[string]any{"tools": tools}})
		r, err := Resolve(Sources{Dir: "/", Stored: stored}, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := r.Stored(); !bytes.Equal(got, stored) {
			t.Fatalf("Stored() = %s, want %s", got, stored)
		}
		over := tomldoc.Canonical(trees().Draw(t, "over"))
		r, err = Resolve(Sources{Dir: "/", Stored: stored}, []Directive{{Flag: "--cfg", Text: "conversation.tools.one:=" + string(over)}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		again, err := Resolve(Sources{Dir: "/", Stored: r.Stored()}, nil, nil)
		if err != nil || !bytes.Equal(again.Stored(), r.Stored()) {
			t.Fatalf("%s is stored as %s: %v", r.Stored(), again.Stored(), err)
		}
		for _, v := range again.Keys() {
			if !v.Default && len(again.Origin(v.Key)) == 0 {
				t.Fatalf("%s is set, but by no layer", v.Key)
			}
		}
	})
}

// A conversation's config is its own: what layers say today does not reach it, a user's endpoints
// excepted.
func TestStoredIsComplete(t *testing.T) {
	w := newWorld(t, map[string]string{"WS/.jp/config/r.toml": resetConfig})
	stored := w.resolve("r").Stored()
	w.write("USER/config.toml", userConfig)
	w.write("WS/.jp/config.toml", workspaceConfig)
	w.write("WS/.jp/config/r.toml", "not TOML any more")
	w.src.Environ = append(w.src.Environ, "JP_CFG_ASSISTANT__NAME=env")
	w.src.Stored = stored
	r := w.resolve()
	if got := r.Stored(); !bytes.Equal(got, stored) {
		t.Errorf("Stored() = %s, want %s", got, stored)
	}
	if r.Config.Providers.LLM["local"].Type != "openai" {
		t.Error("machine settings do not reach a stored conversation")
	}
	if r.Reset {
		t.Error("Reset without a directive")
	}
}

func TestProvenance(t *testing.T) {
	w := newWorld(t, map[string]string{"USER/config.toml": userConfig, "WS/.jp/config.toml": workspaceConfig, "WS/.jp/config/r.toml": resetConfig})
	w.src.Environ = append(w.src.Environ, "JP_CFG_STYLE__TOOL_CALL__SHOW=false")
	r := w.resolve("assistant.name=before", "r", "assistant.name=after", "store.path=/x")
	origins := func(key string) string {
		var list []string
		for _, o := range r.Origin(key) {
			s := fmt.Sprintf("%s %s %v", o.Kind, w.show(o.String()), o.Value)
			if o.Dropped {
				s += " dropped"
			}
			list = append(list, s)
		}
		return strings.Join(list, "; ")
	}
	for key, want := range map[string]string{
		"assistant.name":                    "user USER/config.toml:3 user dropped; workspace WS/.jp/config.toml:2 workspace dropped; assignment --cfg before dropped; assignment --cfg after",
		"assistant.model":                   "user USER/config.toml:2 u/m dropped; file WS/.jp/config/r.toml:4 p/m",
		"store.path":                        "user USER/config.toml:8 /user/store; assignment --cfg /x",
		"store":                             "user USER/config.toml:7 <nil>; assignment --cfg <nil>",
		"conversation.tools":                "workspace WS/.jp/config.toml:3 <nil> dropped; file WS/.jp/config/r.toml:5 <nil>",
		"conversation.tools.p_tool.source":  "file WS/.jp/config/r.toml:6 builtin",
		`conversation.tools."p_tool"`:       "file WS/.jp/config/r.toml:5 <nil>",
		"style":                             "environment JP_CFG_STYLE__TOOL_CALL__SHOW <nil> dropped",
		"style.tool_call.show":              "environment JP_CFG_STYLE__TOOL_CALL__SHOW false dropped",
		"style.reasoning.display":           "",
		"conversation.tools.p_tool.source.": "",
		"":                                  "",
	} {
		if got := origins(key); got != want {
			t.Errorf("Origin(%s) = %s\nwant %s", key, got, want)
		}
	}
	var layers []string
	for _, l := range r.Layers {
		s := w.show(strings.TrimSpace(fmt.Sprintf("%s %s %s", l.Kind, l.Name, l.File)))
		if l.Dropped {
			s += " dropped"
		}
		layers = append(layers, s)
	}
	want := []string{
		"user user config USER/config.toml dropped", "workspace workspace config WS/.jp/config.toml dropped",
		"environment JP_CFG_STYLE__TOOL_CALL__SHOW dropped", "assignment --cfg dropped", "reset loader.reset of WS/.jp/config/r.toml",
		"file --cfg WS/.jp/config/r.toml", "assignment --cfg", "assignment --cfg",
	}
	if !slices.Equal(layers, want) {
		t.Errorf("Layers:\n%s\nwant:\n%s", strings.Join(layers, "\n"), strings.Join(want, "\n"))
	}
	for _, name := range []string{"parallel", "*"} {
		r := w.resolve("r", "conversation.tools.parallel=3", "conversation.tools.*.run=ask")
		if _, ok := r.Tools[name]; ok != (name == "*") {
			t.Errorf("Tools[%s]: %v", name, ok)
		}
		if keys := r.Keys(); name == "*" && !slices.ContainsFunc(keys, func(v Value) bool { return v.Key == "conversation.tools.*.run" }) {
			t.Errorf("Keys has no conversation.tools.*.run: %v", keys)
		}
	}
	// A dropped layer is nobody's place, also not for a key that only it had.
	r2 := w.resolve("conversation.tools.p_tool.run=deny", "r")
	if got, want := w.show(r2.Tools["p_tool"].Pos("run").String()), "WS/.jp/config/r.toml:5"; got != want {
		t.Errorf("Pos(run) = %s, want %s", got, want)
	}
	if got := r2.where("style", "tool_call", "show"); got != (Position{}) {
		t.Errorf("where = %v for a key that only dropped layers had", got)
	}
	values := map[string]Value{}
	keys := r.Keys()
	for i, v := range keys {
		values[v.Key] = v
		if i > 0 && keys[i-1].Key == v.Key {
			t.Errorf("Keys has %s twice", v.Key)
		}
	}
	for key, want := range map[string]string{
		"assistant.model":                  "p/m false false WS/.jp/config/r.toml:4",
		"assistant.name":                   "after false false --cfg",
		"store.path":                       "/x false true --cfg",
		"providers.llm.local.base_url":     "http://localhost:1/v1 false true USER/config.toml:6",
		"style.tool_call.show":             "true true false ",
		"delegation.max_depth":             "<nil> true false ",
		"pager.cmd":                        "<nil> true true ",
		"conversation.tools.p_tool.source": "builtin false false WS/.jp/config/r.toml:6",
	} {
		v, ok := values[key]
		if got := w.show(fmt.Sprintf("%v %v %v %s", v.Value, v.Default, v.Machine, v.Origin)); !ok || got != want {
			t.Errorf("Keys: %s = %s, want %s", key, got, want)
		}
	}
	for _, key := range []string{"conversation.tools.ws_tool.source", "loader.reset", "extends", "providers.llm.<name>.type"} {
		if _, ok := values[key]; ok {
			t.Errorf("Keys has %s", key)
		}
	}
}

func TestBuiltinProfiles(t *testing.T) {
	if got, want := Builtins(), []string{"agent/planner", "agent/researcher", "agent/reviewer"}; !slices.Equal(got, want) {
		t.Fatalf("Builtins() = %v, want %v", got, want)
	}
	for _, name := range Builtins() {
		r, err := Resolve(Sources{Dir: "/"}, []Directive{{Flag: "--cfg", Text: name}}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if !r.Reset || r.ProfileArg != "builtin:"+name || r.Profile != name {
			t.Errorf("%s: reset %v, profile %s, argument %s", name, r.Reset, r.Profile, r.ProfileArg)
		}
		if got, want := sortedKeys(r.Tools), []string{"fs_grep_files", "fs_list_files", "fs_read_file"}; !slices.Equal(got, want) {
			t.Errorf("%s holds %v, want %v", name, got, want)
		}
		for tool, table := range r.Tools {
			if table.Values["source"] != "builtin" || table.Values["run"] != "unattended" || len(table.Values) != 2 {
				t.Errorf("%s: %s = %v", name, tool, table.Values)
			}
		}
		c := r.Config
		if c.Assistant.Model != "anthropic/claude-sonnet-5-5" || c.Style.ShowToolCall || len(c.Assistant.SystemPromptSections) != 3 || c.Delegation.Profiles != nil {
			t.Errorf("%s: %+v", name, c)
		}
		for _, s := range c.Assistant.SystemPromptSections {
			if strings.Contains(s.Content, "  ") && !strings.Contains(s.Content, "\n") || strings.Contains(s.Content, `\`) {
				t.Errorf("%s: odd text %q", name, s.Content)
			}
		}
	}
	for _, name := range []string{"", ".", "agent", "init", "agent/../init", "agent/x", "/agent/planner", "agent/planner.toml"} {
		if _, ok := Builtin(name); ok {
			t.Errorf("Builtin(%q) exists", name)
		}
	}
}

func TestInitFiles(t *testing.T) {
	tests := []struct{ model, agent string }{
		{"anthropic/claude-opus-5-5", "anthropic/claude-haiku-5-5"},
		{"ollama/llama3", "ollama/llama3"},
		{`x/"quoted"\`, `x/"quoted"\`},
	}
	for _, tt := range tests {
		w := newWorld(t, nil)
		var names []string
		for _, f := range InitFiles(tt.model, tt.agent) {
			names = append(names, f.Name)
			w.write("WS/"+f.Name, string(f.Data))
		}
		if want := []string{".jp/config.toml", ".jp/config/agent/planner.toml", ".jp/config/agent/researcher.toml", ".jp/.gitignore"}; !slices.Equal(names, want) {
			t.Errorf("InitFiles = %v, want %v", names, want)
		}
		r := w.resolve()
		if r.Config.Assistant.Model != tt.model {
			t.Errorf("InitFiles(%s): model = %s", tt.model, r.Config.Assistant.Model)
		}
		if got, want := strings.Join(sortedKeys(r.Tools), " "), "fs_grep_files fs_list_files fs_read_file jp_conversation_grep jp_conversation_list jp_conversation_print jp_query"; got != want {
			t.Errorf("InitFiles: tools = %s, want %s", got, want)
		}
		for name, table := range r.Tools {
			source := map[string]string{"fs": "builtin", "jp": "conversation"}[name[:2]]
			if name == "jp_query" {
				source = "delegation"
			}
			if table.Values["run"] != "unattended" || table.Values["source"] != source {
				t.Errorf("InitFiles: %s = %v", name, table.Values)
			}
		}
		if got, want := r.Config.Delegation.Profiles, []string{"agent/researcher", "agent/planner"}; !slices.Equal(got, want) {
			t.Errorf("InitFiles: profiles = %v", got)
		}
		for _, name := range r.Config.Delegation.Profiles {
			p := w.resolve("NONE", w.find(name))
			if p.Config.Assistant.Model != tt.agent || w.show(p.ProfileArg) != "WS/.jp/config/"+name+".toml" || len(p.Tools) != 3 {
				t.Errorf("InitFiles(%s): %s is %s with %s", tt.model, name, w.show(p.ProfileArg), p.Config.Assistant.Model)
			}
		}
	}
}

// Apply returns the stored config that patch makes of old. Nil is an empty config and no change.
func Apply(old []byte, patch json.RawMessage) ([]byte, error) {
	tree, err := delta.Table(old)
	if err != nil {
		return nil, err
	}
	if patch == nil {
		return tomldoc.Canonical(tree), nil
	}
	v, err := tomldoc.ParseJSON(patch, true)
	if err != nil {
		return nil, &Error{Layer: "config delta", Msg: err.Error(), Err: err}
	}
	table, ok := v.(map[string]any)
	if !ok {
		return nil, &Error{Layer: "config delta", Msg: "must be a table, not " + kinds.NameOf(v)}
	}
	return tomldoc.Canonical(patched(tree, table)), nil
}

func patched(tree, patch map[string]any) map[string]any {
	for k, v := range patch {
		switch v := v.(type) {
		case nil:
			delete(tree, k)
		case map[string]any:
			below, ok := tree[k].(map[string]any)
			if !ok {
				below = map[string]any{}
			}
			tree[k] = patched(below, v)
		default:
			tree[k] = v
		}
	}
	return tree
}

// TestOnce: what holds for one run is not stored, and variables do not count beside a granted config.
func TestOnce(t *testing.T) {
	src := Sources{Dir: "/", Environ: []string{"JP_SUB_CALLS_MAX_PER_TURN=3", "JP_SUB_CALLS_ENABLED=true"}}
	limit := []Directive{{Flag: "--max-turns", Text: "conversation.max_turns:=2", Once: true}}
	r, err := Resolve(src, nil, limit)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(r.Stored()); got != "{}" || r.Config.Conversation.MaxTurns != 2 || r.Config.Delegation.MaxPerTurn != 3 {
		t.Errorf("stores %s, %d rounds, %d calls", got, r.Config.Conversation.MaxTurns, r.Config.Delegation.MaxPerTurn)
	}
	src.Stored = []byte(`{"delegation":{"enabled":false,"max_per_turn":7}}`)
	for person, want := range map[bool]int{false: 7, true: 3} {
		src.Person = person
		r, err := Resolve(src, nil, limit)
		if err != nil {
			t.Fatal(err)
		}
		if d := r.Config.Delegation; d.MaxPerTurn != want || d.Enabled || string(r.Stored()) != string(src.Stored) {
			t.Errorf("person %t: %d calls, enabled %t, stores %s", person, d.MaxPerTurn, d.Enabled, r.Stored())
		}
	}
}
