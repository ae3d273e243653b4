package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"jp/cmd/jp/internal/mcp"
	"jp/cmd/jp/internal/term"
	"jp/profiles"
	"jp/tools"
)

// review says where config comes from for commands that show or check the files of a workspace and do nothing that they say.
// They need no trust, and get the workspace's files for it.
func (a *app) review(ctx context.Context) (profiles.Sources, *contribution, error) {
	root, err := a.workspace()
	if err != nil {
		return profiles.Sources{}, nil, err
	}
	j, err := a.judge(ctx, root)
	if err != nil {
		return profiles.Sources{}, nil, err
	}
	if !j.ok() {
		a.note("workspace %s: %s; nothing of it is used before `jp trust`", root,
			pick(j.record == nil, "not trusted", "not as it was trusted"))
	}
	src := a.userSources()
	src.Workspace = root
	return src, j.files, nil
}

// reviewed resolves config for review: what it is made of are the files of c and no others of the workspace. Beside an error
// about tools there are the config and the other tools.
func (a *app) reviewed(src profiles.Sources, c *contribution, ds []profiles.Directive) (*profiles.Resolved, []tools.Definition, error) {
	r, err := profiles.Resolve(src, ds, nil)
	if err != nil {
		return nil, nil, err
	}
	if err := a.hold(r, c); err != nil {
		return nil, nil, err
	}
	files, err := c.tools()
	if err == nil {
		files, err = withSpecializations(r, files)
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
		d, err := defined(name, r, files)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		defs = append(defs, d)
	}
	return r, defs, errors.Join(problems...)
}

// underNone are the directives that load one profile and nothing else.
func underNone(arg string) []profiles.Directive {
	ds := []profiles.Directive{{Flag: "--cfg", Text: "NONE"}}
	if arg != "" {
		ds = append(ds, profiles.Directive{Flag: "--cfg", Text: arg})
	}
	return ds
}

// trustShown is a workspace and what it would allow, as `jp trust` publishes it.
type trustShown struct {
	Workspace string       `json:"workspace"`
	Status    string       `json:"status"`     // trusted, changed, untrusted
	TrustedAt *time.Time   `json:"trusted_at"` // null when there is no record
	Record    string       `json:"record"`     // where the record is or would be
	Agents    []agentShown `json:"agents"`
	Skills    []string     `json:"skills"`
	Texts     []string     `json:"instructions"`
	Servers   []string     `json:"mcp_servers"` // "name: command or address"
	Files     []change     `json:"files"`       // all of them
}

// agentShown is what one agent could do.
type agentShown struct {
	Name     string      `json:"name"` // "main", or that of the profile
	File     string      `json:"file"`
	Model    string      `json:"model"`
	Tools    []toolGrant `json:"tools"`
	Profiles []string    `json:"profiles"` // that it may delegate to
	Problem  string      `json:"problem"`  // why it cannot be used; "" = none
}

// toolGrant is one tool of an agent.
type toolGrant struct {
	Name    string `json:"name"`
	Source  string `json:"source"`
	Run     string `json:"run"`
	Command string `json:"command"` // of a local tool
	Network string `json:"network"`
	Access  string `json:"access"`       // "" = the tool's default
	JP      string `json:"jp,omitempty"` // what it may run jp for
}

// trustShown finds out what the workspace would allow.
func (a *app) trustShown(j judgement) (trustShown, error) {
	root := j.files.root
	s := trustShown{
		Workspace: root, Status: j.status(), Record: j.path, Agents: []agentShown{}, Skills: []string{}, Texts: []string{},
		Servers: []string{}, Files: slices.Clone(j.changes),
	}
	changed := map[string]bool{}
	for _, c := range j.changes {
		changed[c.Path] = true
	}
	for key, stamp := range j.files.stamps {
		if !changed[key] {
			s.Files = append(s.Files, change{key, "same", stamp})
		}
	}
	slices.SortFunc(s.Files, func(a, b change) int { return strings.Compare(a.Path, b.Path) })
	if j.record != nil {
		s.TrustedAt = &j.record.TrustedAt
	}
	src := a.userSources()
	src.Workspace = root
	s.Agents = append(s.Agents, a.agentShown(src, j.files, "main", ".jp/config.toml", nil))
	found, err := profiles.Names(src)
	if err != nil {
		s.Agents[0].Problem = or(s.Agents[0].Problem, err.Error())
	}
	for _, p := range found {
		if p.Source == "workspace" {
			s.Agents = append(s.Agents, a.agentShown(src, j.files, p.Name, a.relative(p.Arg), underNone(p.Arg)))
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
	s.Servers = a.serversShown(j.files.data[mcpFile])
	return s, nil
}

func (a *app) agentShown(src profiles.Sources, c *contribution, name, file string, ds []profiles.Directive) agentShown {
	s := agentShown{Name: name, File: file, Tools: []toolGrant{}, Profiles: []string{}}
	r, defs, err := a.reviewed(src, c, ds)
	if err != nil {
		s.Problem = strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	if r == nil {
		return s
	}
	s.Model = r.Config.Assistant.Model
	s.Profiles = append(s.Profiles, r.Config.Delegation.Profiles...)
	for _, d := range defs {
		shown := showTool(d, "")
		s.Tools = append(s.Tools, toolGrant{
			Name: d.Name, Source: d.Source, Run: shown.Run, Command: commandText(d.Command),
			Network: shown.Network, Access: strings.Join(shown.Access, ", "), JP: strings.Join(shown.JP, " "),
		})
	}
	// What can do most comes first.
	slices.SortStableFunc(s.Tools, func(a, b toolGrant) int {
		rank := func(t toolGrant) int { return pick(t.Command != "", 0, 1) }
		return rank(a) - rank(b)
	})
	return s
}

// commandText is a command as its author wrote it.
func commandText(c tools.CommandLine) string {
	switch {
	case c.Text != "" || c.IsZero():
		return c.Text
	case c.ScriptFile != "":
		return c.Program + " .jp/tools/" + c.ScriptFile
	case c.Script != "":
		return c.Program + " -c " + strconv.Quote(c.Script)
	}
	words := []string{c.Program}
	for _, arg := range c.Args {
		if arg == "" || strings.ContainsAny(arg, " \t\n'\"") {
			arg = fmt.Sprintf("%q", arg)
		}
		words = append(words, arg)
	}
	return strings.Join(words, " ")
}

// serversShown names what .mcp.json would start or call, and for a program whether the user's own config confines it. A file that
// cannot be read as one says so.
func (a *app) serversShown(data []byte) []string {
	list := []string{}
	if data == nil {
		return list
	}
	entries, err := mcp.ParseFile(data, "")
	if err != nil {
		return append(list, mcpFile+": cannot be read")
	}
	for name, e := range entries {
		text := name + ": " + e.Server.Address()
		if v := e.Server.Variables(); len(v) > 0 {
			text += " (with " + strings.Join(v, " ") + ")"
		}
		if e.Server.Command != "" {
			text += ", " + pick(a.confines(name), "in a sandbox", "not confined")
		}
		if e.Err != nil {
			text = name + ": cannot be used: " + e.Err.Error()
		}
		list = append(list, text)
	}
	slices.Sort(list)
	return list
}

// maxAsked bounds the lines of a question; a flood must not push off the screen what stands before it.
const maxAsked = 200

// text is the page that a person reads before trusting. asked is for a question: only what would change of the files, and not
// more than a person will look at.
func (s trustShown) text(a *app, asked bool) string {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, term.Line(fmt.Sprintf(format, args...))) }
	status := map[string]string{"trusted": "trusted", "changed": "not as it was trusted", "untrusted": "not trusted"}[s.Status]
	if s.TrustedAt != nil {
		status += ", recorded " + s.TrustedAt.Format(time.RFC3339)
	}
	add("workspace %s: %s", s.Workspace, status)
	for _, agent := range s.Agents {
		add("")
		add("%s (%s)", pick(agent.Name == "main", "main agent", "profile "+agent.Name), agent.File)
		if agent.Problem != "" {
			add("  cannot be used: %s", agent.Problem)
		}
		if agent.Model != "" {
			add("  model: %s", agent.Model)
		}
		for _, t := range agent.Tools {
			line := fmt.Sprintf("  tool %s: %s, %s", t.Name, t.Source, t.Run)
			if t.Access != "" {
				line += ", " + t.Access
			}
			if t.Command != "" {
				line += ", network " + t.Network + pick(t.JP == "", "", ", runs jp "+t.JP) + ", runs: " + t.Command
			}
			add("%s", line)
		}
		if len(agent.Profiles) > 0 {
			add("  may start: %s", strings.Join(agent.Profiles, ", "))
		}
	}
	add("")
	for _, part := range []struct {
		name string
		list []string
	}{{"skills", s.Skills}, {"instructions", s.Texts}, {"MCP servers", s.Servers}} {
		if len(part.list) > 0 {
			add("%s: %s", part.name, strings.Join(part.list, "; "))
		}
	}
	for _, f := range s.Files {
		if !asked || f.State != "same" {
			add("%-8s%s  %s", f.State, filepath.FromSlash(f.Path), shortStamp(f.Stamp))
		}
	}
	if asked && len(lines) > maxAsked {
		more := len(lines) - maxAsked
		lines = append(lines[:maxAsked], fmt.Sprintf("... and %d lines more, which `jp trust --show` shows: say no if you have not read them", more))
	}
	return strings.Join(lines, "\n") + "\n"
}

// shortStamp is enough of a hash to compare by eye.
func shortStamp(stamp string) string {
	if at := strings.LastIndex(stamp, "sha256:"); at >= 0 && len(stamp) >= at+19 {
		return stamp[:at+19]
	}
	return stamp
}
