package cli

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"jp/cmd/jp/internal/run"
	"jp/cmd/jp/internal/servers"
	"jp/cmd/jp/internal/trust"
	"jp/cmd/jp/internal/wording"
	"jp/profiles"
	"jp/tools"
)

// review says where config comes from for commands that show or check the files of a workspace and do nothing that they say.
// They need no trust, and get the workspace's files for it.
func (a *app) review(ctx context.Context) (profiles.Sources, *trust.Files, error) {
	root, err := a.ws.Root()
	if err != nil {
		return profiles.Sources{}, nil, err
	}
	j, err := a.ws.Gate.Judge(ctx, root)
	if err != nil {
		return profiles.Sources{}, nil, err
	}
	if !j.OK() {
		a.con.Note("workspace %s: %s; nothing of it is used before `jp trust`", root,
			wording.Either(j.Record == nil, "not trusted", "not as it was trusted"))
	}
	src := a.ws.UserSources()
	src.Workspace = root
	return src, j.Files, nil
}

// reviewed resolves config for review: what it is made of are the files of c and no others of the workspace. Beside an error
// about tools there are the config and the other tools.
func (a *app) reviewed(src profiles.Sources, c *trust.Files, ds []profiles.Directive) (*profiles.Resolved, []tools.Definition, error) {
	r, err := profiles.Resolve(src, ds, nil)
	if err != nil {
		return nil, nil, err
	}
	if err := a.ws.Gate.Hold(a.ws.Found(), r, c); err != nil {
		return nil, nil, err
	}
	files, err := c.Tools()
	if err == nil {
		files, err = run.WithSpecializations(r, files)
	}
	if err != nil {
		return r, nil, err
	}
	names := slices.Collect(maps.Keys(r.Tools))
	slices.Sort(names)
	var defs []tools.Definition
	var problems []error
	for _, name := range names {
		if name == "*" || !tools.Enabled(r.Tools[name].Values) {
			continue
		}
		d, err := run.Define(name, r, files)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		defs = append(defs, d)
	}
	return r, defs, errors.Join(problems...)
}

// trustShown is a workspace and what it would allow, as `jp trust` publishes it.
type trustShown struct {
	Workspace string         `json:"workspace"`
	Status    string         `json:"status"`     // trusted, changed, untrusted
	TrustedAt *time.Time     `json:"trusted_at"` // null when there is no record
	Record    string         `json:"record"`     // where the record is or would be
	Agents    []agentShown   `json:"agents"`
	Skills    []string       `json:"skills"`
	Texts     []string       `json:"instructions"`
	Servers   []string       `json:"mcp_servers"` // "name: command or address", and what it reaches
	Files     []trust.Change `json:"files"`       // all of them
}

// agentShown is what one agent could do.
type agentShown struct {
	Name     string         `json:"name"` // "main", or that of the profile
	File     string         `json:"file"`
	Model    string         `json:"model"`
	Tools    []toolGrant    `json:"tools"`    // what can do most comes first
	Profiles []string       `json:"profiles"` // profiles that it may delegate to
	Settings []settingGrant `json:"settings"` // other models, and limits above the default
	Problem  string         `json:"problem"`  // why it cannot be used; "" = none
}

// toolGrant is one tool of an agent, and what it reaches.
type toolGrant struct {
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

// trustShown finds out what the workspace would allow.
func (a *app) trustShown(j trust.Judgement) (trustShown, error) {
	root := j.Files.Root
	s := trustShown{
		Workspace: root, Status: j.Status(), Record: j.Path, Agents: []agentShown{}, Skills: []string{}, Texts: []string{},
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
	src := a.ws.UserSources()
	src.Workspace = root
	s.Agents = append(s.Agents, a.agentShown(src, j.Files, "main", ".jp/config.toml", nil))
	found, err := profiles.Names(src)
	if err != nil {
		s.Agents[0].Problem = cmp.Or(s.Agents[0].Problem, err.Error())
	}
	for _, p := range found {
		if p.Source == "workspace" {
			s.Agents = append(s.Agents, a.agentShown(src, j.Files, p.Name, a.ws.Relative(p.Arg), run.UnderNone(p.Arg)))
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
	s.Servers = a.env.Servers.Brought(j.Files)
	return s, nil
}

func (a *app) agentShown(src profiles.Sources, c *trust.Files, name, file string, ds []profiles.Directive) agentShown {
	s := agentShown{Name: name, File: file, Tools: []toolGrant{}, Profiles: []string{}, Settings: []settingGrant{}}
	r, defs, err := a.reviewed(src, c, ds)
	if err != nil {
		s.Problem = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	if r == nil {
		return s
	}
	s.Model = r.Config.Assistant.Model
	s.Profiles = append(s.Profiles, r.Config.Delegation.Profiles...)
	s.Settings = append(s.Settings, settingsShown(r, src.UserDir)...)
	known := a.env.Servers.In(c)
	for _, d := range defs {
		shown := run.ShowTool(d, "", known)
		s.Tools = append(s.Tools, toolGrant{
			Name: d.Name, Source: d.Source, Run: shown.Run, Detached: shown.Detached, Command: shown.Command, Sandbox: shown.Sandbox,
			Network: shown.Network, Access: strings.Join(shown.Access, ", "), Env: shown.Env, JP: strings.Join(shown.JP, " "),
			Unenforced: servers.ReachOfTool(d, known).Unenforced,
		})
	}
	slices.SortStableFunc(s.Tools, func(a, b toolGrant) int { return a.rank() - b.rank() })
	return s
}

// rank is lower for what can do more.
func (t toolGrant) rank() int {
	switch {
	case t.off():
		return 0
	case t.Sandbox != "":
		return 1
	}
	return 2
}

// off reports whether nothing confines the tool.
func (t toolGrant) off() bool { return t.Sandbox == string(tools.SandboxOff) }

// text is the tool on one line; what can do harm stands first, what its author wrote last.
func (t toolGrant) text() string {
	line := wording.Either(t.off(), servers.Unconfined+"; ", "") + t.Source + ", " + t.Run
	if t.Run == string(tools.RunAsk) && t.Detached == string(tools.DetachedAuto) {
		line += ", but runs where nobody can be asked"
	}
	if t.Access != "" && !t.off() {
		line += ", " + t.Access
	}
	if t.Sandbox != "" && !t.off() {
		line += ", network " + t.Network
	}
	if len(t.Unenforced) > 0 {
		line += ", but this system cannot enforce " + strings.Join(t.Unenforced, ", ")
	}
	if len(t.Env) > 0 {
		line += ", gets " + strings.Join(t.Env, " ")
	}
	return line + wording.Either(t.JP == "", "", ", runs jp "+t.JP) + wording.Either(t.Command == "", "", ", runs: "+t.Command)
}

// shortStamp is enough of a hash to compare by eye.
func shortStamp(stamp string) string {
	if at := strings.LastIndex(stamp, "sha256:"); at >= 0 && len(stamp) >= at+19 {
		return stamp[:at+19]
	}
	return stamp
}
