package profiles

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"jp/profiles/ondisk"
)

// world is a workspace WS, a user's config folder USER and a folder OUT beside them, in a folder of
// its own.
type world struct {
	t   *testing.T
	dir string
	src Sources
}

// newWorld writes files: names begin with WS/, USER/ or OUT/.
func newWorld(t *testing.T, files map[string]string) *world {
	t.Helper()
	w := &world{t: t, dir: t.TempDir()}
	for _, d := range []string{"WS/.jp", "USER", "OUT"} {
		if err := os.MkdirAll(filepath.Join(w.dir, d), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range files {
		w.write(name, text)
	}
	w.src = Sources{Workspace: w.path("WS"), Files: ondisk.FS(w.path("WS")), UserDir: w.path("USER"), Dir: w.path("WS"), Environ: []string{"HOME=" + w.path("OUT")}}
	return w
}

func (w *world) path(name string) string { return filepath.Join(w.dir, filepath.FromSlash(name)) }

func (w *world) write(name, text string) {
	w.t.Helper()
	if err := os.MkdirAll(filepath.Dir(w.path(name)), 0o700); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(w.path(name), []byte(text), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// show puts the folders' short names back.
func (w *world) show(s string) string {
	return strings.ReplaceAll(s, w.dir+string(os.PathSeparator), "")
}

// cfg makes --cfg directives, with WS/, USER/ and OUT/ at the beginning of a path made absolute.
func (w *world) cfg(texts ...string) []Directive {
	var ds []Directive
	for _, text := range texts {
		for _, d := range []string{"WS/", "USER/", "OUT/"} {
			if strings.HasPrefix(text, d) {
				text = w.path(text)
			}
		}
		ds = append(ds, Directive{Flag: "--cfg", Text: text})
	}
	return ds
}

func (w *world) resolve(texts ...string) *Resolved {
	w.t.Helper()
	r, err := Resolve(w.src, w.cfg(texts...), nil)
	if err != nil {
		w.t.Fatalf("Resolve(%q) = %v", texts, w.show(err.Error()))
	}
	return r
}

// failure is `message` or `message (hint)`.
func (w *world) failure(err error) string {
	w.t.Helper()
	if err == nil {
		return "no error"
	}
	e, ok := err.(*Error)
	if !ok {
		w.t.Fatalf("error %v is a %T, want *Error", err, err)
	}
	s := e.Error()
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return w.show(s)
}

func TestPrecedence(t *testing.T) {
	const file = "[conversation]\nmax_turns = %d\n"
	w := newWorld(t, map[string]string{"WS/.jp/config/p.toml": fmt.Sprintf(file, 6)})
	user := func() { w.write("USER/config.toml", fmt.Sprintf(file, 2)) }
	workspace := func() { w.write("WS/.jp/config.toml", fmt.Sprintf(file, 3)) }
	env := func() { w.src.Environ = append(w.src.Environ, "JP_CFG_CONVERSATION__MAX_TURNS=4") }
	stored := func() { w.src.Stored = []byte(`{"conversation":{"max_turns":5}}`) }
	var ds, flags []Directive
	steps := []struct {
		add    func()
		turns  int
		origin string
	}{
		{func() {}, 50, ""},
		{user, 2, "USER/config.toml:2"},
		{workspace, 3, "WS/.jp/config.toml:2"},
		{env, 4, "JP_CFG_CONVERSATION__MAX_TURNS"},
		{stored, 5, "stored config"},
		{func() { ds = w.cfg("p") }, 6, "WS/.jp/config/p.toml:2"},
		{func() { ds = append(ds, w.cfg("conversation.max_turns=7")...) }, 7, "--cfg"},
		{func() { ds = append(ds, w.cfg("p")...) }, 6, "WS/.jp/config/p.toml:2"},
		{func() { flags = []Directive{{Flag: "--max-turns", Text: "conversation.max_turns=8"}} }, 8, "--max-turns"},
		{func() { flags = append(flags, Directive{Flag: "--max-turns", Text: "conversation.max_turns:=9"}) }, 9, "--max-turns"},
	}
	for i, s := range steps {
		s.add()
		r, err := Resolve(w.src, ds, flags)
		if err != nil {
			t.Fatal(err)
		}
		if r.Config.Conversation.MaxTurns != s.turns {
			t.Errorf("step %d: max_turns = %d, want %d", i, r.Config.Conversation.MaxTurns, s.turns)
		}
		origin := Origin{}
		for _, o := range r.Origin("conversation.max_turns") {
			if !o.Dropped {
				origin = o
			}
		}
		if got := w.show(origin.String()); got != s.origin {
			t.Errorf("step %d: origin = %q, want %q", i, got, s.origin)
		}
	}
}

const (
	userConfig = `[assistant]
model = "u/m"
name = "user"
[providers.llm.local]
type = "openai"
base_url = "http://localhost:1/v1"
[store]
path = "/user/store"
`
	workspaceConfig = `[assistant]
name = "workspace"
[conversation.tools.ws_tool]
source = "local"
`
	profileConfig = `[assistant]
model = "p/m"
[conversation.tools.p_tool]
source = "builtin"
`
	resetConfig = "[loader]\nreset = \"none\"\n" + profileConfig
)

func TestResets(t *testing.T) {
	type outcome struct {
		model, name, tools, turns string
		reset, profile            string
	}
	stored := `{"assistant":{"model":"s/m"},"conversation":{"max_turns":5,"tools":{"s_tool":{}}}}`
	tests := []struct {
		name   string
		stored string
		cfg    []string
		want   outcome
	}{
		{"nothing", "", nil, outcome{"u/m", "workspace", "ws_tool", "4", "", ""}},
		{"profile", "", []string{"p"}, outcome{"p/m", "workspace", "p_tool ws_tool", "4", "", "p WS/.jp/config/p.toml"}},
		{"profile that resets", "", []string{"r"}, outcome{"p/m", "", "p_tool", "50", "none", "r WS/.jp/config/r.toml"}},
		{"reset drops what stands before", "", []string{"assistant.name=x", "p", "r"}, outcome{"p/m", "", "p_tool", "50", "none", "r WS/.jp/config/r.toml"}},
		{"reset keeps what follows", "", []string{"r", "assistant.name=x"}, outcome{"p/m", "x", "p_tool", "50", "none", "r WS/.jp/config/r.toml"}},
		{"names after a profile that resets", "", []string{"r", "p"}, outcome{"p/m", "", "p_tool", "50", "none", "p WS/.jp/config/p.toml"}},
		{"reset reached over extends", "", []string{"over"}, outcome{"p/m", "workspace", "p_tool ws_tool", "4", "", "over WS/.jp/config/over.toml"}},
		{"NONE", "", []string{"NONE"}, outcome{"", "", "", "50", "none", ""}},
		{"NONE and a path", "", []string{"NONE", "./.jp/config/p.toml"}, outcome{"p/m", "", "p_tool", "50", "none", "./.jp/config/p.toml WS/.jp/config/p.toml"}},
		{"NONE and an absolute path", "", []string{"NONE", "WS/.jp/config/p.toml"}, outcome{"p/m", "", "p_tool", "50", "none", "WS/.jp/config/p.toml WS/.jp/config/p.toml"}},
		{"NONE and a builtin", "", []string{"NONE", "builtin:agent/reviewer", "assistant.model=b/m"},
			outcome{"b/m", "reviewer", "fs_grep_files fs_list_files fs_read_file", "50", "none", "builtin:agent/reviewer builtin:agent/reviewer"}},
		{"NONE drops what stands before", "", []string{"assistant.name=x", "./missing.toml", "NONE", "conversation.max_turns=9"}, outcome{"", "", "", "9", "none", ""}},
		{"NONE last", "", []string{"p", "assistant.name=x", "NONE"}, outcome{"", "", "", "50", "none", ""}},
		{"NONE twice", "", []string{"NONE", "assistant.name=x", "NONE"}, outcome{"", "", "", "50", "none", ""}},
		{"WORKSPACE", "", []string{"p", "WORKSPACE"}, outcome{"u/m", "workspace", "ws_tool", "4", "workspace", ""}},
		{"WORKSPACE and a profile", "", []string{"assistant.name=x", "WORKSPACE", "p"}, outcome{"p/m", "workspace", "p_tool ws_tool", "4", "workspace", "p WS/.jp/config/p.toml"}},
		{"WORKSPACE skips files before it", "", []string{"./missing.toml", "WORKSPACE"}, outcome{"u/m", "workspace", "ws_tool", "4", "workspace", ""}},
		{"WORKSPACE, then a profile that resets", "", []string{"WORKSPACE", "r"}, outcome{"p/m", "", "p_tool", "50", "none", "r WS/.jp/config/r.toml"}},
		{"stored", stored, nil, outcome{"s/m", "", "s_tool", "5", "", ""}},
		{"stored and a profile", stored, []string{"p"}, outcome{"p/m", "", "p_tool s_tool", "5", "", "p WS/.jp/config/p.toml"}},
		{"stored and a profile that resets", stored, []string{"r"}, outcome{"p/m", "", "p_tool", "50", "none", "r WS/.jp/config/r.toml"}},
		{"stored and NONE", stored, []string{"NONE"}, outcome{"", "", "", "50", "none", ""}},
		{"stored and WORKSPACE", stored, []string{"WORKSPACE"}, outcome{"u/m", "workspace", "ws_tool", "4", "workspace", ""}},
		{"stored is empty", `{}`, nil, outcome{"", "", "", "50", "", ""}},
		{"stored is broken and NONE", `{`, []string{"NONE"}, outcome{"", "", "", "50", "none", ""}},
		{"stored is broken and WORKSPACE", `[]`, []string{"WORKSPACE"}, outcome{"u/m", "workspace", "ws_tool", "4", "workspace", ""}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, map[string]string{
				"USER/config.toml": userConfig, "WS/.jp/config.toml": workspaceConfig,
				"WS/.jp/config/p.toml": profileConfig, "WS/.jp/config/r.toml": resetConfig, "WS/.jp/config/over.toml": `extends = ["r.toml"]`,
			})
			w.src.Environ = append(w.src.Environ, "JP_CFG_CONVERSATION__MAX_TURNS=4")
			if tt.stored != "" {
				w.src.Stored = []byte(tt.stored)
			}
			r := w.resolve(tt.cfg...)
			c := r.Config
			got := outcome{c.Assistant.Model, c.Assistant.Name, strings.Join(sortedKeys(r.Tools), " "), fmt.Sprint(c.Conversation.MaxTurns),
				r.ResetKind, strings.TrimSpace(w.show(r.Profile + " " + r.ProfileArg))}
			if got != tt.want {
				t.Errorf("Resolve(%q) = %+v, want %+v", tt.cfg, got, tt.want)
			}
			if r.Reset != (tt.want.reset != "") {
				t.Errorf("Resolve(%q).Reset = %v", tt.cfg, r.Reset)
			}
			// Machine settings survive every reset, and no conversation stores them.
			if c.Store.Path != "/user/store" || c.Providers.LLM["local"].BaseURL != "http://localhost:1/v1" {
				t.Errorf("Resolve(%q) lost machine settings: %+v %+v", tt.cfg, c.Store, c.Providers)
			}
			if s := string(r.Stored()); strings.Contains(s, "store") || strings.Contains(s, "providers") || strings.Contains(s, "loader") || strings.Contains(s, "extends") {
				t.Errorf("Stored() = %s, want no machine or loader settings", s)
			}
		})
	}
}

func TestMachineSettings(t *testing.T) {
	w := newWorld(t, map[string]string{"USER/config.toml": userConfig + "[log]\nfile = \"~/log\"\n"})
	w.src.Environ = append(w.src.Environ, "JP_CFG_STORE__PATH=/env/store", "JP_CFG_ASSISTANT__NAME=env", "JP_CFG_NOT_A_KEY=1", "JP_SUB_CALLS_TYPO=1")
	// NONE reads machine settings of the variables and nothing else, not even mistakes.
	r := w.resolve("editor.cmd=vi", "NONE", "pager.cmd=less")
	c := r.Config
	got := []string{c.Store.Path, c.Log.File, c.Editor.Cmd, c.Pager.Cmd, c.Assistant.Name}
	if want := []string{"/env/store", w.path("OUT/log"), "vi", "less", ""}; !slices.Equal(got, want) {
		t.Errorf("machine settings after NONE = %q, want %q", got, want)
	}
	if got, want := string(r.Stored()), "{}"; got != want {
		t.Errorf("Stored() = %s, want %s", got, want)
	}
	for _, o := range r.Origin("store.path") {
		if o.Dropped {
			t.Errorf("Origin(store.path) has %v dropped: machine settings are not", o.Position)
		}
	}
}

func TestBrokenUserConfig(t *testing.T) {
	tests := []struct{ name, file, want string }{
		{"syntax", "a = \n", "USER/config.toml:1: not valid TOML: expected value but found '\\n' instead"},
		{"unknown key", "[store]\npath = \"/x\"\n[styl]\n", "USER/config.toml:3: styl: unknown key (did you mean style?)"},
		{"wrong kind", "[store]\npath = 1\n", "USER/config.toml:2: store.path: must be text, not a whole number"},
		{"over several keys", "[store]\npath = \"/x\"\n[providers.llm.x]\nbase_url = \"http://h\"\n", `USER/config.toml:3: providers.llm.x: type is missing (write type = "openai" for a compatible server)`},
		{"missing extends", `extends = ["x.toml"]`, "USER/config.toml:1: extends: USER/x.toml: no such file or directory"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, map[string]string{"USER/config.toml": tt.file})
			_, err := Resolve(w.src, nil, nil)
			if got := w.failure(err); got != tt.want {
				t.Errorf("Resolve() = %s, want %s", got, tt.want)
			}
			w.src.Environ = append(w.src.Environ, "JP_CFG_PAGER__CMD=less")
			r := w.resolve("NONE", "builtin:agent/researcher")
			message, _, _ := strings.Cut(tt.want, " (")
			if want := []string{"the user's config is not used: " + message}; !slices.Equal(r.Warnings, want) && w.show(strings.Join(r.Warnings, "\n")) != want[0] {
				t.Errorf("Warnings = %q, want %q", r.Warnings, want)
			}
			if r.Config.Store.Path != "" || len(r.Config.Providers.LLM) != 0 || r.Config.Pager.Cmd != "less" {
				t.Errorf("machine settings = %+v %+v %+v, want those of the environment alone", r.Config.Store, r.Config.Providers, r.Config.Pager)
			}
			if _, err := r.Config.RequireModel(); err != nil {
				t.Error(err)
			}
		})
	}
}

// A key must not reach an endpoint that someone else named.
func TestKeysAndEndpoints(t *testing.T) {
	const both = "[providers.llm.x]\ntype = \"openai\"\nbase_url = \"http://h/v1\"\napi_key_env = \"K\"\n"
	tests := []struct {
		name, file string
		env, cfg   []string
		provider   string
		want       Provider
		warning    string
	}{
		{"one file", both, nil, nil, "x", Provider{Type: "openai", BaseURL: "http://h/v1", APIKeyEnv: "K"}, ""},
		{"endpoint from a variable", both, []string{"JP_CFG_PROVIDERS__LLM__X__BASE_URL=http://evil"}, nil, "x",
			Provider{Type: "openai", BaseURL: "http://evil", KeyWithheld: true},
			"providers.llm.x: no key is sent to this provider: base_url is set in JP_CFG_PROVIDERS__LLM__X__BASE_URL, api_key_env in USER/config.toml:4; set both in one place"},
		{"both from variables", both, []string{"JP_CFG_PROVIDERS__LLM__X__BASE_URL=http://e", "JP_CFG_PROVIDERS__LLM__X__API_KEY_ENV=E"}, nil, "x",
			Provider{Type: "openai", BaseURL: "http://e", APIKeyEnv: "E"}, ""},
		{"key from the command line", both, nil, []string{"providers.llm.x.api_key_env=E"}, "x", Provider{Type: "openai", BaseURL: "http://h/v1", KeyWithheld: true},
			"providers.llm.x: no key is sent to this provider: base_url is set in USER/config.toml:3, api_key_env in --cfg; set both in one place"},
		{"both from the command line", both, nil, []string{"providers.llm.x.api_key_env=E", "providers.llm.x.base_url=http://e"}, "x",
			Provider{Type: "openai", BaseURL: "http://e", APIKeyEnv: "E"}, ""},
		{"default key, own endpoint", "", nil, []string{"providers.llm.openai.base_url=http://e"}, "openai", Provider{BaseURL: "http://e", KeyWithheld: true},
			"providers.llm.openai: no key is sent to this provider: --cfg sets base_url without api_key_env"},
		{"local server", "", nil, []string{"providers.llm.ollama.base_url=http://e"}, "ollama", Provider{BaseURL: "http://e", KeyWithheld: true}, ""},
		{"own key, default endpoint", "", nil, []string{"providers.llm.openai.api_key_env=E"}, "openai", Provider{APIKeyEnv: "E"}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, map[string]string{"USER/config.toml": tt.file})
			w.src.Environ = append(w.src.Environ, tt.env...)
			r := w.resolve(tt.cfg...)
			if got := r.Config.Providers.LLM[tt.provider]; got != tt.want {
				t.Errorf("provider = %+v, want %+v", got, tt.want)
			}
			if got := w.show(strings.Join(r.Warnings, "\n")); got != tt.warning {
				t.Errorf("warnings = %q, want %q", got, tt.warning)
			}
		})
	}
}

func TestErrorsOfLayers(t *testing.T) {
	const where = "it belongs in the user's config.toml, the environment or a flag"
	tests := []struct {
		name       string
		files      map[string]string
		env        []string
		stored     string
		cfg, flags []string
		want       string
	}{
		{name: "unknown key, sibling", files: map[string]string{"WS/.jp/config.toml": "\n[assistant]\nmodle = 'a/b'\n"},
			want: "WS/.jp/config.toml:3: assistant.modle: unknown key (did you mean assistant.model?)"},
		{name: "unknown key, elsewhere", files: map[string]string{"WS/.jp/config.toml": "model = 'a/b'\n"},
			want: "WS/.jp/config.toml:1: model: unknown key (did you mean assistant.model?)"},
		{name: "unknown table, elsewhere", files: map[string]string{"WS/.jp/config.toml": "[tools.x]\nsource = 'builtin'\n"},
			want: "WS/.jp/config.toml:1: tools: unknown key (did you mean conversation.tools?)"},
		{name: "unknown key, nothing near", files: map[string]string{"WS/.jp/config.toml": "[style]\nzzzzzz = 1\n"},
			want: "WS/.jp/config.toml:2: style.zzzzzz: unknown key"},
		{name: "unknown key below a name", files: map[string]string{"USER/config.toml": "[providers.llm.x]\nbase_uri = 'http://h'\n"},
			want: "USER/config.toml:2: providers.llm.x.base_uri: unknown key (did you mean providers.llm.x.base_url?)"},
		{name: "first mistake by line", files: map[string]string{"WS/.jp/config.toml": "[style]\nz = 1\n[assistant]\na = 1\n"},
			want: "WS/.jp/config.toml:2: style.z: unknown key"},
		{name: "table for a value", files: map[string]string{"WS/.jp/config.toml": "[assistant.model]\nid = 'a/b'\n"},
			want: "WS/.jp/config.toml:1: assistant.model: must be text or a list of text, not a table"},
		{name: "value for a table", files: map[string]string{"WS/.jp/config.toml": "assistant = 1\n"},
			want: "WS/.jp/config.toml:1: assistant: must be a table, not a whole number"},
		{name: "negative", files: map[string]string{"WS/.jp/config.toml": "[delegation]\n\nmax_per_turn = -1"},
			want: "WS/.jp/config.toml:3: delegation.max_per_turn: must be between 0 and 10000"},
		{name: "enum", files: map[string]string{"WS/.jp/config.toml": "style.reasoning.display = 'ful'"},
			want: `WS/.jp/config.toml:1: style.reasoning.display: must be "hidden" or "full" (did you mean "full"?)`},
		{name: "item", files: map[string]string{"WS/.jp/config.toml": "[delegation]\nprofiles = [\n  'a',\n  1,\n]"},
			want: "WS/.jp/config.toml:4: delegation.profiles: item 2 must be text, not a whole number"},
		{name: "item of wrong form", files: map[string]string{"WS/.jp/config.toml": "[delegation]\nprofiles = [\n  'a',\n  '../x',\n]"},
			want: "WS/.jp/config.toml:4: delegation.profiles: item 2 must be the name of a profile such as agent/researcher, or builtin:<name>"},
		{name: "item twice", files: map[string]string{"WS/.jp/config.toml": "[delegation]\nprofiles = ['a', 'b',\n'a']"},
			want: "WS/.jp/config.toml:3: delegation.profiles: item 3 is there twice"},
		{name: "section without content", files: map[string]string{"WS/.jp/config.toml": "[[assistant.system_prompt_sections]]\ncontent = 'x'\n[[assistant.system_prompt_sections]]\ntitle = 'x'"},
			want: "WS/.jp/config.toml:3: assistant.system_prompt_sections.1: content is missing or empty"},
		{name: "unknown key of a section", files: map[string]string{"WS/.jp/config.toml": "[[assistant.system_prompt_sections]]\ncontent = 'x'\ncontens = 'x'"},
			want: "WS/.jp/config.toml:3: assistant.system_prompt_sections.0.contens: unknown key (did you mean content?)"},
		{name: "section of wrong kind", files: map[string]string{"WS/.jp/config.toml": "[[assistant.system_prompt_sections]]\ncontent = ['x']"},
			want: "WS/.jp/config.toml:2: assistant.system_prompt_sections.0.content: must be text, not a list"},
		{name: "sections of wrong kind", files: map[string]string{"WS/.jp/config.toml": "[assistant]\nsystem_prompt_sections = ['x']"},
			want: "WS/.jp/config.toml:2: assistant.system_prompt_sections.0: must be a table, not text"},
		{name: "tool that is no table", files: map[string]string{"WS/.jp/config.toml": "[conversation.tools]\nfs_read_file = true"},
			want: "WS/.jp/config.toml:2: conversation.tools.fs_read_file: must be a table, not true or false (open a table with [conversation.tools.fs_read_file])"},
		{name: "tool called parallel", files: map[string]string{"WS/.jp/config.toml": "[conversation.tools.parallel]\n"},
			want: "WS/.jp/config.toml:1: conversation.tools.parallel: must be a whole number, not a table"},
		{name: "specializations outside of .jp", files: map[string]string{"WS/.jp/config.toml": "[delegation]\nspecializations = 'x.ini'\n"},
			want: "WS/.jp/config.toml:2: delegation.specializations: leads out of the workspace's .jp folder"},
		{name: "specializations that are no INI", files: map[string]string{"WS/.jp/config.toml": "[delegation]\nspecializations = '.jp/x.toml'\n"},
			want: "WS/.jp/config.toml:2: delegation.specializations: must be the path of an .ini file"},
		{name: "specializations that are not there", files: map[string]string{"WS/.jp/config.toml": "[delegation]\nspecializations = '.jp/x.ini'\n"},
			want: "WS/.jp/x.ini: not found"},
		{name: "specializations of a profile", files: map[string]string{"OUT/p.toml": "[delegation]\nspecializations = 'x.ini'\n"}, cfg: []string{"OUT/p.toml"},
			want: "OUT/p.toml:2: delegation.specializations: belongs only in the user's and the workspace's config.toml"},
		{name: "specializations of a flag", cfg: []string{"delegation.specializations=.jp/x.ini"},
			want: "--cfg: delegation.specializations: belongs only in config files"},
		{name: "specialization without a section", files: map[string]string{"WS/.jp/config.toml": "[conversation.tools.llm_tool_x]\nsource = 'delegation'\n"},
			want: "WS/.jp/config.toml:1: conversation.tools.llm_tool_x: is the tool of an INI section that is not there (only main agents have these tools, by a section [llm_tool_x])"},

		{name: "machine setting of a workspace", files: map[string]string{"WS/.jp/config.toml": "[store]\npath = '/x'\n"},
			want: "WS/.jp/config.toml:2: store.path: is a machine setting, which a workspace cannot set (" + where + ")"},
		{name: "machine setting of what a workspace extends", files: map[string]string{"WS/.jp/config.toml": "extends = ['b.toml']", "WS/.jp/b.toml": "[providers.llm.x]\n\nbase_url = 'http://h'"},
			want: "WS/.jp/b.toml:3: providers.llm.x.base_url: is a machine setting, which a workspace cannot set (" + where + ")"},
		{name: "machine setting of a profile", files: map[string]string{"USER/config/p.toml": "[providers.llm.openai]\napi_key_env = 'K'\n"}, cfg: []string{"p"},
			want: "USER/config/p.toml:2: providers.llm.openai.api_key_env: is a machine setting, which a profile cannot set (" + where + ")"},
		{name: "machine setting of a price in a profile", files: map[string]string{"OUT/p.toml": "[providers.llm.prices.'a/b']\ninput = 0\n"}, cfg: []string{"OUT/p.toml"},
			want: `OUT/p.toml:2: providers.llm.prices."a/b".input: is a machine setting, which a profile cannot set (` + where + ")"},
		{name: "machine setting of a stored config", stored: `{"log":{"file":"/x"}}`,
			want: "stored config: log.file: is a machine setting, which a conversation does not store (drop it with --cfg=NONE or --cfg=WORKSPACE)"},
		{name: "loader setting of a stored config", stored: `{"extends":["x.toml"]}`,
			want: "stored config: extends: belongs only in config files (drop it with --cfg=NONE or --cfg=WORKSPACE)"},
		{name: "stored config that is no JSON", stored: `{"a":`, want: "stored config: not JSON: it ends in the middle (drop it with --cfg=NONE or --cfg=WORKSPACE)"},
		{name: "stored config with a key twice", stored: `{"style":{},"style":{}}`, want: "stored config: key style is there twice (drop it with --cfg=NONE or --cfg=WORKSPACE)"},
		{name: "stored config with null", stored: `{"style":null}`, want: "stored config: null is no value of a setting (drop it with --cfg=NONE or --cfg=WORKSPACE)"},
		{name: "stored config of a list", stored: `[]`, want: "stored config: must be a table, not a list (drop it with --cfg=NONE or --cfg=WORKSPACE)"},
		{name: "stored config with an empty key", stored: `{"":1}`, want: "stored config: a key must not be empty (drop it with --cfg=NONE or --cfg=WORKSPACE)"},
		{name: "stored config that is not UTF-8", stored: "{\"assistant\":{\"name\":\"\xff\"}}", want: "stored config: not UTF-8 text (drop it with --cfg=NONE or --cfg=WORKSPACE)"},
		{name: "stored config of many levels", stored: strings.Repeat(`{"a":`, 26) + "1" + strings.Repeat("}", 26), want: "stored config: nested deeper than 24 levels (drop it with --cfg=NONE or --cfg=WORKSPACE)"},
		{name: "stored config with a mistake", stored: `{"style":x}`, want: "stored config: not JSON: invalid character 'x' looking for beginning of value (drop it with --cfg=NONE or --cfg=WORKSPACE)"},
		{name: "two stored configs", stored: `{}{}`, want: "stored config: not JSON: something follows the value (drop it with --cfg=NONE or --cfg=WORKSPACE)"},
		{name: "reset in config.toml", files: map[string]string{"WS/.jp/config.toml": "[loader]\nreset = 'none'"},
			want: "WS/.jp/config.toml:2: loader.reset: belongs only in files loaded by --cfg"},
		{name: "reset of unknown kind", files: map[string]string{"OUT/p.toml": "[loader]\nreset = 'workspace'"}, cfg: []string{"OUT/p.toml"},
			want: `OUT/p.toml:2: loader.reset: must be "none"`},

		{name: "variable with unknown key", env: []string{"JP_CFG_ASSISTANT__MODLE=a/b"}, want: "JP_CFG_ASSISTANT__MODLE: assistant.modle: unknown key (did you mean assistant.model?)"},
		{name: "variable without a key", env: []string{"JP_CFG_=x"}, want: "JP_CFG_: names no key (write __ between the levels of a key, as in JP_CFG_ASSISTANT__MODEL)"},
		{name: "variable of wrong kind", env: []string{"JP_CFG_CONVERSATION__MAX_TURNS=many"}, want: "JP_CFG_CONVERSATION__MAX_TURNS: conversation.max_turns: must be a whole number"},
		{name: "variable with broken JSON", env: []string{"JP_CFG_DELEGATION__PROFILES=:[1"}, want: "JP_CFG_DELEGATION__PROFILES: delegation.profiles: not JSON: it ends in the middle"},
		{name: "variable that needs JSON", env: []string{"JP_CFG_DELEGATION__PROFILES=a"}, want: `JP_CFG_DELEGATION__PROFILES: delegation.profiles: must be a list of text, written as JSON (write delegation.profiles:=["a", "b"])`},
		{name: "variable of a table", env: []string{"JP_CFG_ASSISTANT=a"}, want: `JP_CFG_ASSISTANT: assistant: is a table, not a value (write assistant:={"key": value})`},
		{name: "unknown short variable", env: []string{"JP_SUB_CALLS_MAX_DEPHT=1"}, want: "JP_SUB_CALLS_MAX_DEPHT: unknown variable (did you mean JP_SUB_CALLS_MAX_DEPTH?)"},
		{name: "short variable with JSON", env: []string{"JP_SUB_CALLS_MAX_DEPTH=:1"}, want: "JP_SUB_CALLS_MAX_DEPTH: delegation.max_depth: must be a whole number"},
		{name: "extends in a variable", env: []string{`JP_CFG_EXTENDS=:["x"]`}, want: "JP_CFG_EXTENDS: extends: belongs only in config files"},

		{name: "NONE and WORKSPACE", cfg: []string{"NONE", "WORKSPACE"}, want: "--cfg: NONE and WORKSPACE exclude each other (give one of them)"},
		{name: "WORKSPACE and NONE", cfg: []string{"WORKSPACE", "a=b", "NONE"}, want: "--cfg: NONE and WORKSPACE exclude each other (give one of them)"},
		{name: "name after NONE", cfg: []string{"NONE", "mine/x"}, want: "--cfg: profile mine/x: names are not searched after NONE (give its path, such as .jp/config/mine/x.toml)"},
		{name: "built-in name after NONE", cfg: []string{"NONE", "agent/planner"}, want: "--cfg: profile agent/planner: names are not searched after NONE (give its path, or builtin:agent/planner)"},
		{name: "assignment of an unknown key", cfg: []string{"assistant.foo=secret"}, want: "--cfg: assistant.foo: unknown key"},
		{name: "assignment below a value", cfg: []string{"assistant.model.id=a/b"}, want: "--cfg: assistant.model.id: unknown key (assistant.model holds text or a list of text, no keys of its own)"},
		{name: "assignment before NONE", cfg: []string{"assistant.foo=1", "NONE"}, want: "--cfg: assistant.foo: unknown key"},
		{name: "assignment of a table", cfg: []string{"style=x"}, want: `--cfg: style: is a table, not a value (write style:={"key": value})`},
		{name: "assignment of a tool", cfg: []string{"conversation.tools.x=on"}, want: "--cfg: conversation.tools.x: must be a table, written as JSON (write conversation.tools.x.<key>=value)"},
		{name: "unknown name", cfg: []string{"agent/reseacher"}, want: "--cfg: profile agent/reseacher: not found (did you mean agent/researcher?)"},
		{name: "unknown name, nothing near", cfg: []string{"zzz"}, want: "--cfg: profile zzz: not found (it was looked for in WS/.jp/config, USER/config, the built-in profiles)"},
		{name: "unknown builtin", cfg: []string{"builtin:agent/x"}, want: "--cfg: built-in profile agent/x: not found (built in are agent/planner, agent/researcher, agent/reviewer)"},
		{name: "misspelt builtin", cfg: []string{"builtin:agent/planer"}, want: "--cfg: built-in profile agent/planer: not found (did you mean builtin:agent/planner?)"},
		{name: "builtin that leaves", cfg: []string{"builtin:agent/../init"}, want: `--cfg: built-in profile "agent/../init": not found (built in are agent/planner, agent/researcher, agent/reviewer)`},
		{name: "missing path", cfg: []string{"./x.toml"}, want: "WS/x.toml: not found (a path is relative to the current folder; `jp profile ls` lists the profiles, which go by name)"},
		{name: "path without HOME", env: []string{"HOME="}, cfg: []string{"~/x.toml"}, want: "--cfg: ~ is unknown: HOME is not set to an absolute path"},
		{name: "store without HOME", env: []string{"HOME="}, cfg: []string{"store.path=~/x"}, want: "--cfg: store.path: ~ is unknown: HOME is not set to an absolute path"},
		{name: "log without HOME", env: []string{"HOME="}, cfg: []string{"log.file=~/x"}, want: "--cfg: log.file: ~ is unknown: HOME is not set to an absolute path"},
		{name: "flag that is no assignment", flags: []string{"NONE"}, want: "--flag: must be key=value"},
		{name: "flag with unknown key", flags: []string{"a=1"}, want: "--flag: a: unknown key"},
		{name: "flag of wrong value", flags: []string{"assistant.model=a b"}, want: "--flag: assistant.model: must be provider/model or an alias, without spaces"},

		{name: "alias with a slash", files: map[string]string{"WS/.jp/config.toml": "[providers.llm.aliases]\n'anthropic/x' = 'evil/y'"},
			want: `WS/.jp/config.toml:2: providers.llm.aliases."anthropic/x": an alias must be a word without / and spaces`},
		{name: "alias of an alias", files: map[string]string{"WS/.jp/config.toml": "[providers.llm.aliases]\nx = 'y'"},
			want: "WS/.jp/config.toml:2: providers.llm.aliases.x: must be provider/model, without spaces"},
		{name: "price of no model", files: map[string]string{"USER/config.toml": "[providers.llm.prices.x]\ninput = 1"},
			want: "USER/config.toml:2: providers.llm.prices.x.input: prices are given for provider/model, in quotes"},
		{name: "half a price", files: map[string]string{"USER/config.toml": "[providers.llm.prices.'a/b']\ninput = 1"},
			want: `USER/config.toml:1: providers.llm.prices."a/b": output is missing (a price needs input and output)`},
		{name: "provider called script", files: map[string]string{"USER/config.toml": "[providers.llm.script]\ntype = 'openai'"},
			want: "USER/config.toml:2: providers.llm.script.type: script is the name of the scripted model and no provider"},
		{name: "provider with an odd name", files: map[string]string{"USER/config.toml": "[providers.llm.'a/b']\ntype = 'openai'"},
			want: `USER/config.toml:2: providers.llm."a/b".type: the name of a provider must be letters, digits, - and _`},
		{name: "provider without base_url", files: map[string]string{"USER/config.toml": "[providers.llm.x]\ntype = 'openai'"},
			want: "USER/config.toml:1: providers.llm.x: base_url is missing"},
		{name: "key instead of its variable", files: map[string]string{"USER/config.toml": "[providers.llm.openai]\napi_key_env = 'sk-secret'"},
			want: "USER/config.toml:2: providers.llm.openai.api_key_env: must be the name of an environment variable (put the key into a variable and its name here; config never holds keys)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t, tt.files)
			w.src.Environ = append(w.src.Environ, tt.env...)
			w.src.Stored = []byte(tt.stored)
			var flags []Directive
			for _, f := range tt.flags {
				flags = append(flags, Directive{Flag: "--flag", Text: f})
			}
			_, err := Resolve(w.src, w.cfg(tt.cfg...), flags)
			if got := w.failure(err); got != tt.want {
				t.Errorf("Resolve() = %s\nwant %s", got, tt.want)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("Resolve() = %v, which repeats a value", err)
			}
		})
	}
}

func TestNotFound(t *testing.T) {
	w := newWorld(t, nil)
	for _, text := range []string{"nobody", "./nobody.toml", "builtin:nobody"} {
		if _, err := Resolve(w.src, w.cfg(text), nil); !errors.Is(err, ErrNotFound) {
			t.Errorf("Resolve(%s) = %v, want ErrNotFound", text, err)
		}
		if _, err := Find(w.src, text); !errors.Is(err, ErrNotFound) {
			t.Errorf("Find(%s) = %v, want ErrNotFound", text, err)
		}
	}
	if _, err := Resolve(w.src, w.cfg("NONE", "agent/researcher"), nil); err == nil || errors.Is(err, ErrNotFound) {
		t.Errorf("a name after NONE is %v, want a usage error", err)
	}
}

// The order of what is merged, and what merging does to tools.
func TestMerge(t *testing.T) {
	w := newWorld(t, map[string]string{
		"USER/config.toml": `
[[assistant.system_prompt_sections]]
content = "one"
[[assistant.system_prompt_sections]]
content = "two"
[conversation.tools.count]
source = "local"
run = "unattended"
command = { program = "wc", args = ["-w"] }
[conversation.tools.count.parameters.path]
type = "string"
required = true
[conversation.tools.count.parameters.command]
type = "string"
[conversation.tools.'*']
run = "ask"
`,
		"WS/.jp/config.toml": `
[[assistant.system_prompt_sections]]
content = "three"
[conversation.tools.count]
run = "ask"
command = { program = "cat" }
[conversation.tools.count.parameters.path]
type = "array"
[conversation.tools.count.parameters.command]
required = true
`})
	r := w.resolve("conversation.tools.count.enable=false", "conversation.tools.count.timeout=60s", "conversation.tools.count.limit=3")
	if got, want := r.Config.Assistant.SystemPromptSections, []Section{{Content: "three"}}; !slices.Equal(got, want) {
		t.Errorf("sections = %v, want %v: lists are replaced", got, want)
	}
	want := map[string]any{
		"source": "local", "run": "ask", "command": map[string]any{"program": "cat"}, "enable": false, "timeout": "60s", "limit": int64(3),
		"parameters": map[string]any{"path": map[string]any{"type": "array", "required": true}, "command": map[string]any{"type": "string", "required": true}},
	}
	count := r.Tools["count"]
	if !reflect.DeepEqual(count.Values, want) {
		t.Errorf("tool = %v, want %v", count.Values, want)
	}
	if got := r.Tools["*"].Values; !reflect.DeepEqual(got, map[string]any{"run": "ask"}) {
		t.Errorf("'*' = %v", got)
	}
	for key, want := range map[string]string{
		"":                         "--cfg",
		"run":                      "WS/.jp/config.toml:5",
		"source":                   "USER/config.toml:7",
		"command":                  "WS/.jp/config.toml:6",
		"command.program":          "WS/.jp/config.toml:6",
		"parameters.path.required": "USER/config.toml:12",
		"parameters.path.type":     "WS/.jp/config.toml:8",
		"parameters.path.nothing":  "WS/.jp/config.toml:7",
		"parameters.command.type":  "USER/config.toml:14",
		"enable":                   "--cfg",
	} {
		if got := w.show(count.Pos(key).String()); got != want {
			t.Errorf("Pos(%q) = %s, want %s", key, got, want)
		}
	}
	// What a decoder does to its table must not reach the config.
	before := string(r.Stored())
	count.Values["run"] = "unattended"
	count.Values["parameters"].(map[string]any)["path"].(map[string]any)["type"] = "object"
	if after := string(r.Stored()); after != before {
		t.Errorf("Stored() = %s after a change of the table, want %s", after, before)
	}
}

func TestGrant(t *testing.T) {
	w := newWorld(t, map[string]string{"WS/.jp/config.toml": workspaceConfig, "WS/.jp/config/p.toml": profileConfig})
	w.src.Stored = []byte(`{"conversation":{"tools":{"*":{"run":"ask"},"a":{},"b":{}}}}`)
	r := w.resolve("p")
	if got, want := r.Cut([]string{"a", "p_tool", "other"}), []string{"b"}; !slices.Equal(got, want) {
		t.Errorf("Cut = %v, want %v", got, want)
	}
	if got, want := sortedKeys(r.Tools), []string{"*", "a", "p_tool"}; !slices.Equal(got, want) {
		t.Errorf("Tools = %v, want %v", got, want)
	}
	if got, want := string(r.Stored()), `{"assistant":{"model":"p/m"},"conversation":{"tools":{"*":{"run":"ask"},"a":{},"p_tool":{"source":"builtin"}}}}`; got != want {
		t.Errorf("Stored() = %s, want %s", got, want)
	}
	if r.Cut(nil); len(r.Tools) != 1 {
		t.Errorf("Tools = %v after Cut(nil), want '*' alone", sortedKeys(r.Tools))
	}
}
