package review

import (
	"cmp"
	"context"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"jp/cmd/jp/internal/enabled"
	"jp/cmd/jp/internal/servers"
	"jp/cmd/jp/internal/trust"
	"jp/cmd/jp/internal/workspace"
	"jp/profiles"
	"jp/tools"
	"jp/tools/unseen"
)

// Page is the JSON form of a workspace and what it would allow.
type Page struct {
	Workspace string         `json:"workspace"`
	Status    string         `json:"status"`     // trusted, changed, untrusted
	TrustedAt *time.Time     `json:"trusted_at"` // null when there is no record
	Record    string         `json:"record"`     // path of the record, which may not exist
	Agents    []Agent        `json:"agents"`
	Unlisted  string         `json:"unlisted"` // reason why not all profiles are listed; "" = they are
	Defined   []ToolGrant    `json:"defined"`  // tools of .jp/tools that no agent above has; your own config may enable them
	Skills    []string       `json:"skills"`
	Texts     []string       `json:"instructions"`
	Servers   []string       `json:"mcp_servers"` // lines "name: command or address", and what each reaches
	Files     []trust.Change `json:"files"`       // all of them

	Differs []string   `json:"differs,omitempty"` // of AddDiffs: lines that differ from the page of the trusted state
	Diffs   []FileDiff `json:"diffs,omitempty"`   // the same of the files

	Shown trust.Shown `json:"-"` // what the page says

	status string       // Status for people
	before *trust.Shown // what was shown of the trusted state; nil = nothing
}

// Agent is what one agent could do.
type Agent struct {
	Name     string         `json:"name"` // "main", or the name of the profile
	File     string         `json:"file"`
	OnTop    bool           `json:"on_top"`   // as a person loads it on top of the main agent's config: what no line before says
	Models   []string       `json:"models"`   // the first is asked, the others stand in for it
	Tools    []ToolGrant    `json:"tools"`    // tools, with those that can do most first
	Profiles []string       `json:"profiles"` // profiles that it may delegate to
	Settings []SettingGrant `json:"settings"` // other models, and limits above the user's own
	Problem  string         `json:"problem"`  // reason why the agent cannot be used by itself; "" = none

	loosened []profiles.Brought // all that the lines of model, profiles and settings say
}

// ToolGrant is one tool of an agent, and what it reaches.
type ToolGrant struct {
	Name       string   `json:"name"`
	Source     string   `json:"source"`
	Run        string   `json:"run"`
	Detached   string   `json:"detached"` // answer to a call that asks when nobody can be asked
	Command    string   `json:"command"`  // command of a local tool
	Sandbox    string   `json:"sandbox"`  // sandbox of a program: auto, require, or off (unconfined); "" = not a program
	Network    string   `json:"network"`
	Access     string   `json:"access"` // "" = the tool's default
	Env        []string `json:"env"`    // variables that it gets in addition to the usual ones
	Held       Holder   `json:"held"`
	JP         string   `json:"jp,omitempty"`
	Unenforced []string `json:"unenforced,omitempty"` // parts of its sandbox that this system cannot enforce

	Result  string         `json:"result"`            // whether the model reads a result unasked
	Deliver string         `json:"deliver"`           // answer to that question when nobody can be asked
	Options map[string]any `json:"options,omitempty"` // of a program

	def tools.Definition
}

// Holder is who can call a tool.
type Holder string

// The holders of a tool.
const (
	ByAgent     Holder = "agent"
	BySubAgents Holder = "sub-agents" // only those of llm_query and of specializations
	ByNobody    Holder = "nobody"     // until something enables it
)

// Page returns what the workspace would allow. A workspace can have so many configs that it takes
// long: the error is the cause of the end of ctx.
func (v *Reviewer) Page(ctx context.Context, j trust.Judgement) (Page, error) {
	root := j.Files.Root
	s := Page{
		Workspace: root, Status: j.Status(), Record: j.Path, Agents: []Agent{}, Defined: []ToolGrant{}, Skills: []string{}, Texts: []string{},
		Servers: []string{}, Files: slices.Clone(j.Changes), status: j.Differs(),
	}
	changed := map[string]bool{}
	for _, c := range j.Changes {
		changed[c.Path] = true
	}
	for key, stamp := range j.Files.Stamps {
		if !changed[key] {
			s.Files = append(s.Files, trust.Change{Path: key, State: "same", Stamp: stamp})
		}
	}
	slices.SortFunc(s.Files, func(a, b trust.Change) int { return strings.Compare(a.Path, b.Path) })
	if j.Record != nil {
		s.TrustedAt, s.before = &j.Record.TrustedAt, j.Before()
	}
	src := v.ws.SourcesOf(j.Files)
	s.add(v.agent(src, j.Files, "main", ".jp/config.toml", nil))
	listed := map[string]bool{".jp/config.toml": true}
	both := func(name, arg string) []Agent {
		file := strings.TrimPrefix(arg, root+string(filepath.Separator))
		listed[file] = true
		alone := v.agent(src, j.Files, name, file, workspace.UnderNone(arg))
		top := v.agent(src, j.Files, name, file, []profiles.Directive{{Flag: "--cfg", Text: arg}})
		top.OnTop = true
		return []Agent{alone, top}
	}
	found, err := profiles.Names(src)
	if err != nil {
		s.Unlisted = oneLine(err)
	}
	for _, p := range found {
		if ctx.Err() != nil {
			return Page{}, context.Cause(ctx)
		}
		if p.Source == "workspace" {
			agents := both(p.Name, p.Arg)
			s.add(agents[0])
			s.more(agents[1])
		}
	}
	for _, f := range s.Files { // files that --cfg takes by their path
		if ctx.Err() != nil {
			return Page{}, context.Cause(ctx)
		}
		if name := filepath.FromSlash(f.Path); f.State != "gone" && path.Ext(name) == ".toml" && !listed[name] {
			for _, a := range both(name, filepath.Join(root, name)) {
				s.more(a)
			}
		}
	}
	if len(v.Named) > 0 {
		words := make([]string, len(v.Named))
		for i, d := range v.Named {
			words[i] = d.Flag + " " + unseen.Word(d.Text)
		}
		s.add(v.agent(src, j.Files, strings.Join(words, " "), named, v.Named))
	}
	for _, f := range s.Files {
		switch dir, base := path.Split(f.Path); {
		case f.State == "gone":
		case base == "SKILL.md":
			s.Skills = append(s.Skills, strings.TrimSuffix(dir, "/"))
		case f.Path == "AGENTS.md" || f.Path == "CLAUDE.md":
			s.Texts = append(s.Texts, f.Path)
		}
	}
	s.Defined = v.defined(j.Files, &s.Shown)
	s.Servers = v.servers.Brought(j.Files)
	s.Shown.SetPage(s.written())
	return s, nil
}

// add adds an agent to the page.
func (s *Page) add(a Agent) {
	s.Agents = append(s.Agents, a)
	for _, t := range a.Tools {
		s.Shown.AddTool(t.def)
	}
	for _, b := range a.loosened {
		s.Shown.AddSetting(b.Key, b.Value.Value)
	}
}

// more adds what an agent has that no agent before it has.
func (s *Page) more(a Agent) {
	a.Tools = slices.DeleteFunc(a.Tools, func(t ToolGrant) bool { return s.Shown.HasTool(t.def) })
	a.loosened = slices.DeleteFunc(a.loosened, func(b profiles.Brought) bool { return s.Shown.HasSetting(b.Key, b.Value.Value) })
	has := func(key string) bool {
		return slices.ContainsFunc(a.loosened, func(b profiles.Brought) bool { return b.Key == key })
	}
	a.Settings = slices.DeleteFunc(a.Settings, func(g SettingGrant) bool { return !has(g.Key) })
	if !has("delegation.profiles") {
		a.Profiles = []string{}
	}
	if !has("assistant.model") {
		a.Models = []string{}
	}
	if len(a.Tools)+len(a.loosened) > 0 {
		s.add(a)
	}
}

// named is the file of an agent that the command line names.
const named = "--cfg"

// Named reports whether the command line names the config of the agent, and no file of the
// workspace makes it one.
func (a Agent) Named() bool { return a.File == named }

// agent returns what a config gives. What variables say for one command counts only as limits of
// the user's own, since the next command may run without them.
func (v *Reviewer) agent(src profiles.Sources, c *trust.Files, name, file string, ds []profiles.Directive) Agent {
	s := Agent{Name: name, File: file, Models: []string{}, Tools: []ToolGrant{}, Profiles: []string{}, Settings: []SettingGrant{}}
	all := src
	if file != named { // else the person names it
		src.Environ = slices.DeleteFunc(slices.Clone(src.Environ), func(e string) bool { return strings.HasPrefix(e, "JP_") })
	}
	r, defs, err := v.resolve(src, c, ds, profiles.Review)
	if err != nil {
		s.Problem = oneLine(err)
	}
	if r == nil {
		return s
	}
	s.Models = append(s.Models, r.Config.Assistant.Named()...)
	s.Profiles = append(s.Profiles, r.Config.Delegation.Profiles...)
	known := v.servers.In(c)
	for _, d := range defs {
		s.Tools = append(s.Tools, granted(d, ByAgent, known))
	}
	s.Tools = append(s.Tools, v.disabled(r, c, known)...)
	slices.SortStableFunc(s.Tools, func(a, b ToolGrant) int { return a.rank() - b.rank() })
	brought := broughtBy(r)
	if len(all.Environ) != len(src.Environ) {
		if r, _ := profiles.Review(all, ds); r != nil {
			brought = append(brought, slices.DeleteFunc(broughtBy(r), func(b profiles.Brought) bool {
				_, _, tool := ofTool(b.Key)
				return tool || slices.ContainsFunc(brought, func(o profiles.Brought) bool { return o.Key == b.Key && loosens(o) })
			})...)
		}
	}
	s.Settings, s.loosened = settingsShown(brought, s.Tools)
	return s
}

func oneLine(err error) string { return strings.ReplaceAll(err.Error(), "\n", "; ") }

// disabled returns the tools that a config names and does not enable, if an agent can have them in
// another way: delegation.llm_query.tools gives them to sub-agents, and a flag or another layer may
// enable a program.
func (v *Reviewer) disabled(r *profiles.Resolved, c *trust.Files, known map[string]servers.Server) []ToolGrant {
	files, _ := c.Tools() // mistakes in them are shown as the problem of the agent
	var list []ToolGrant
	for _, name := range slices.Sorted(maps.Keys(r.Tools)) {
		if name == "*" || tools.Enabled(r.Tools[name].Values) {
			continue
		}
		d, err := enabled.Define(name, r, files)
		if err != nil {
			continue // nobody can use it
		}
		switch g := granted(d, ByNobody, known); {
		case slices.Contains(r.Config.Delegation.LLMQuery.Tools, name):
			g.Held = BySubAgents
			list = append(list, g)
		case g.Sandbox != "":
			list = append(list, g)
		}
	}
	return list
}

// defined returns the tools of .jp/tools that were not shown yet, and adds them.
func (v *Reviewer) defined(c *trust.Files, shown *trust.Shown) []ToolGrant {
	files, _ := c.Tools()
	list := []ToolGrant{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if !shown.HasTool(files[name]) {
			list = append(list, granted(files[name], ByNobody, v.servers.In(c)))
			shown.AddTool(files[name])
		}
	}
	slices.SortStableFunc(list, func(a, b ToolGrant) int { return a.rank() - b.rank() })
	return list
}

// granted returns what a tool is and reaches.
func granted(d tools.Definition, by Holder, known map[string]servers.Server) ToolGrant {
	shown := enabled.ShowTool(d, "", known)
	g := ToolGrant{
		Name: d.Name, Held: by, Source: d.Source, Run: shown.Run, Detached: shown.Detached, Command: shown.Command, Sandbox: shown.Sandbox,
		Network: shown.Network, Access: strings.Join(shown.Access, ", "), Env: shown.Env, JP: strings.Join(shown.JP, " "),
		Unenforced: servers.ReachOfTool(d, known).Unenforced, Result: shown.Result, Deliver: cmp.Or(string(d.Detached.Deliver), string(tools.DetachedDeny)), def: d,
	}
	if d.Local() {
		g.Options = d.Options
	}
	return g
}

// rank is lower for a tool that can do more.
func (t ToolGrant) rank() int {
	switch {
	case t.off():
		return 0
	case t.Sandbox != "":
		return 1
	}
	return 2
}

// off reports whether nothing confines the tool.
func (t ToolGrant) off() bool { return t.Sandbox == string(tools.SandboxOff) }
