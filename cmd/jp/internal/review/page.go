package review

import (
	"cmp"
	"path"
	"slices"
	"strings"
	"time"

	"jp/cmd/jp/internal/run"
	"jp/cmd/jp/internal/servers"
	"jp/cmd/jp/internal/trust"
	"jp/profiles"
	"jp/tools"
)

// Page is a workspace and what it would allow, as `jp trust` publishes it.
type Page struct {
	Workspace string         `json:"workspace"`
	Status    string         `json:"status"`     // trusted, changed, untrusted
	TrustedAt *time.Time     `json:"trusted_at"` // null when there is no record
	Record    string         `json:"record"`     // where the record is or would be
	Agents    []Agent        `json:"agents"`
	Skills    []string       `json:"skills"`
	Texts     []string       `json:"instructions"`
	Servers   []string       `json:"mcp_servers"` // "name: command or address", and what it reaches
	Files     []trust.Change `json:"files"`       // all of them
}

// Agent is what one agent could do.
type Agent struct {
	Name     string         `json:"name"` // "main", or that of the profile
	File     string         `json:"file"`
	Model    string         `json:"model"`
	Tools    []ToolGrant    `json:"tools"`    // what can do most comes first
	Profiles []string       `json:"profiles"` // profiles that it may delegate to
	Settings []SettingGrant `json:"settings"` // other models, and limits above the default
	Problem  string         `json:"problem"`  // why it cannot be used; "" = none
}

// ToolGrant is one tool of an agent, and what it reaches.
type ToolGrant struct {
	Name       string   `json:"name"`
	Source     string   `json:"source"`
	Run        string   `json:"run"`
	Detached   string   `json:"detached"` // what becomes of a call that asks where nobody can be asked
	Command    string   `json:"command"`  // of a local tool
	Sandbox    string   `json:"sandbox"`  // of a program: auto, require, or off: it runs unconfined; "" = it is none
	Network    string   `json:"network"`
	Access     string   `json:"access"` // "" = the tool's default
	Env        []string `json:"env"`    // variables that it gets beside the usual ones
	JP         string   `json:"jp,omitempty"`
	Unenforced []string `json:"unenforced,omitempty"` // what of its sandbox this system cannot enforce
}

// Page finds out what the workspace would allow.
func (v *Reviewer) Page(j trust.Judgement) Page {
	root := j.Files.Root
	s := Page{
		Workspace: root, Status: j.Status(), Record: j.Path, Agents: []Agent{}, Skills: []string{}, Texts: []string{},
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
			s.Agents = append(s.Agents, v.agent(src, j.Files, p.Name, v.ws.Relative(p.Arg), run.UnderNone(p.Arg)))
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
	s.Settings = append(s.Settings, settingsShown(r, src.UserDir)...)
	known := v.servers.In(c)
	for _, d := range defs {
		shown := run.ShowTool(d, "", known)
		s.Tools = append(s.Tools, ToolGrant{
			Name: d.Name, Source: d.Source, Run: shown.Run, Detached: shown.Detached, Command: shown.Command, Sandbox: shown.Sandbox,
			Network: shown.Network, Access: strings.Join(shown.Access, ", "), Env: shown.Env, JP: strings.Join(shown.JP, " "),
			Unenforced: servers.ReachOfTool(d, known).Unenforced,
		})
	}
	slices.SortStableFunc(s.Tools, func(a, b ToolGrant) int { return a.rank() - b.rank() })
	return s
}

// rank is lower for what can do more.
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
