package review

import (
	"cmp"
	"maps"
	"path"
	"reflect"
	"slices"
	"strings"
	"time"

	"jp/cmd/jp/internal/run"
	"jp/cmd/jp/internal/servers"
	"jp/cmd/jp/internal/trust"
	"jp/profiles"
	"jp/tools"
)

// Page is the JSON form of a workspace and what it would allow.
type Page struct {
	Workspace string         `json:"workspace"`
	Status    string         `json:"status"`     // trusted, changed, untrusted
	TrustedAt *time.Time     `json:"trusted_at"` // null when there is no record
	Record    string         `json:"record"`     // path of the record, which may not exist
	Agents    []Agent        `json:"agents"`
	Defined   []ToolGrant    `json:"defined"` // tools of .jp/tools that no agent above has; your own config may enable them
	Skills    []string       `json:"skills"`
	Texts     []string       `json:"instructions"`
	Servers   []string       `json:"mcp_servers"` // lines "name: command or address", and what each reaches
	Files     []trust.Change `json:"files"`       // all of them
}

// Agent is what one agent could do.
type Agent struct {
	Name     string         `json:"name"` // "main", or the name of the profile
	File     string         `json:"file"`
	OnTop    bool           `json:"on_top"` // as a person loads it on top of the main agent's config: what differs
	Model    string         `json:"model"`
	Tools    []ToolGrant    `json:"tools"`    // tools, with those that can do most first
	Profiles []string       `json:"profiles"` // profiles that it may delegate to
	Settings []SettingGrant `json:"settings"` // other models, and limits above the default
	Problem  string         `json:"problem"`  // reason why the agent cannot be used; "" = none
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
}

// Holder is who can call a tool.
type Holder string

// The holders of a tool.
const (
	ByAgent     Holder = "agent"
	BySubAgents Holder = "sub-agents" // only those of llm_query and of specializations
	ByNobody    Holder = "nobody"     // until something enables it
)

// Page returns what the workspace would allow.
func (v *Reviewer) Page(j trust.Judgement) Page {
	root := j.Files.Root
	s := Page{
		Workspace: root, Status: j.Status(), Record: j.Path, Agents: []Agent{}, Defined: []ToolGrant{}, Skills: []string{}, Texts: []string{},
		Servers: []string{}, Files: slices.Clone(j.Changes),
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
		s.TrustedAt = &j.Record.TrustedAt
	}
	src := v.ws.SourcesOf(j.Files)
	s.Agents = append(s.Agents, v.agent(src, j.Files, "main", ".jp/config.toml", nil))
	found, err := profiles.Names(src)
	if err != nil {
		s.Agents[0].Problem = cmp.Or(s.Agents[0].Problem, err.Error())
	}
	for _, p := range found {
		if p.Source == "workspace" {
			alone := v.agent(src, j.Files, p.Name, v.ws.Relative(p.Arg), run.UnderNone(p.Arg))
			s.Agents = append(s.Agents, alone)
			if a, differs := v.layered(src, j.Files, alone, p.Arg); differs {
				s.Agents = append(s.Agents, a)
			}
		}
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
	s.Defined = v.defined(j.Files, s.Agents)
	s.Servers = v.servers.Brought(j.Files)
	return s
}

func (v *Reviewer) agent(src profiles.Sources, c *trust.Files, name, file string, ds []profiles.Directive) Agent {
	s := Agent{Name: name, File: file, Tools: []ToolGrant{}, Profiles: []string{}, Settings: []SettingGrant{}}
	r, defs, err := v.Resolve(src, c, ds)
	if err != nil {
		s.Problem = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	if r == nil {
		return s
	}
	s.Model = r.Config.Assistant.Model
	s.Profiles = append(s.Profiles, r.Config.Delegation.Profiles...)
	known := v.servers.In(c)
	for _, d := range defs {
		s.Tools = append(s.Tools, granted(d, ByAgent, known))
	}
	s.Tools = append(s.Tools, v.disabled(r, c, known)...)
	slices.SortStableFunc(s.Tools, func(a, b ToolGrant) int { return a.rank() - b.rank() })
	s.Settings = append(s.Settings, settingsShown(r, v.without(ds), src.UserDir, s.Tools)...)
	return s
}

// without are the values that directives would give if there were no workspace: those of the user's
// own config, and of NONE the defaults.
func (v *Reviewer) without(ds []profiles.Directive) map[string]any {
	base := map[string]any{}
	for _, s := range profiles.Settings() {
		base[s.Key] = s.Default
	}
	base["delegation.max_depth"] = int64(1)
	if len(ds) > 0 {
		return base
	}
	r, err := profiles.Resolve(v.ws.UserSources(), nil, nil)
	if err != nil {
		return base // the user's own config is broken, which every command says
	}
	for _, k := range r.Keys() {
		if !k.Default {
			base[k.Key] = k.Value
		}
	}
	return base
}

// layered are the tools of a profile that are something else when a person loads it on top of the
// config of the workspace, as --cfg does, than when an agent starts it.
func (v *Reviewer) layered(src profiles.Sources, c *trust.Files, alone Agent, arg string) (Agent, bool) {
	a := v.agent(src, c, alone.Name, alone.File, []profiles.Directive{{Flag: "--cfg", Text: arg}})
	a.OnTop, a.Settings, a.Profiles = true, []SettingGrant{}, []string{}
	a.Tools = slices.DeleteFunc(a.Tools, func(t ToolGrant) bool {
		i := slices.IndexFunc(alone.Tools, func(o ToolGrant) bool { return o.Name == t.Name })
		return i < 0 || t.Held != ByAgent || reflect.DeepEqual(alone.Tools[i], t)
	})
	return a, len(a.Tools) > 0
}

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
		d, err := run.Define(name, r, files)
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

// defined returns the tools of .jp/tools that no agent has or could have.
func (v *Reviewer) defined(c *trust.Files, agents []Agent) []ToolGrant {
	said := func(g ToolGrant) bool {
		for _, a := range agents {
			for _, t := range a.Tools {
				if t.covers(g) {
					return true
				}
			}
		}
		return false
	}
	files, _ := c.Tools()
	list := []ToolGrant{}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if g := granted(files[name], ByNobody, v.servers.In(c)); !said(g) {
			list = append(list, g)
		}
	}
	slices.SortStableFunc(list, func(a, b ToolGrant) int { return a.rank() - b.rank() })
	return list
}

// granted returns what a tool is and reaches.
func granted(d tools.Definition, by Holder, known map[string]servers.Server) ToolGrant {
	shown := run.ShowTool(d, "", known)
	return ToolGrant{
		Name: d.Name, Held: by, Source: d.Source, Run: shown.Run, Detached: shown.Detached, Command: shown.Command, Sandbox: shown.Sandbox,
		Network: shown.Network, Access: strings.Join(shown.Access, ", "), Env: shown.Env, JP: strings.Join(shown.JP, " "),
		Unenforced: servers.ReachOfTool(d, known).Unenforced,
	}
}

// covers reports whether a tool that is shown does all that another one of its name could do.
func (t ToolGrant) covers(o ToolGrant) bool {
	unasked := t.Run == string(tools.RunUnattended)
	return t.Name == o.Name && t.Source == o.Source && t.Command == o.Command && t.JP == o.JP &&
		(t.off() || t.Sandbox == o.Sandbox && t.Network == o.Network && t.Access == o.Access) && slices.Equal(t.Env, o.Env) &&
		(unasked || t.Run == o.Run && (t.Detached == o.Detached || t.Detached == string(tools.DetachedAuto)))
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
