// Package lint finds mistakes in the config, the profiles and the tools of a workspace: every
// mistake that would stop loading, and settings that the author may not have meant.
//
// A [Linter] collects findings, each with file, line and key, and reports them in that order. The
// workspace need not be trusted. A Linter starts no program of it and asks nobody.
package lint

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/run"
	"jp/cmd/jp/internal/servers"
	"jp/cmd/jp/internal/trust"
	"jp/cmd/jp/internal/wording"
	"jp/cmd/jp/internal/workspace"
	"jp/profiles"
	"jp/tools"
)

// Linter collects findings about the files of a workspace. Not for concurrent use.
type Linter struct {
	ws    *workspace.Workspace
	env   *run.Env
	src   profiles.Sources
	files *trust.Files
	found []Finding

	tools   map[string]tools.Definition // definitions of .jp/tools that can be read
	broken  error                       // mistakes in the others
	defined map[string]bool             // keys and reasons of the findings about those that can be read

	wrong  map[string]bool              // subjects of errors of models, and errors of a start, that findings are about
	used   map[string]bool              // MCP servers that tools name
	places map[string]profiles.Position // of the tools that the workspace's config enables

	machine bool // whether keys have to be on this machine

	had func(server string) (tools []string, known bool) // tools that an MCP server had when it was last asked

	finder func() (*profiles.Finder, error) // finds profiles as the workspace's config says
}

// New returns a linter of the files of a workspace, which need not be trusted. src and files are
// those of a review.
func New(ctx context.Context, ws *workspace.Workspace, env *run.Env, src profiles.Sources, files *trust.Files) *Linter {
	l := &Linter{
		ws: ws, env: env, src: src, files: files,
		wrong: map[string]bool{}, used: map[string]bool{}, places: map[string]profiles.Position{}, defined: map[string]bool{},
	}
	l.had = func(server string) ([]string, bool) { return env.Servers.ToolsSeen(ctx, server) }
	l.finder = sync.OnceValues(func() (*profiles.Finder, error) { return profiles.NewFinder(src) })
	l.tools, l.broken = files.Tools()
	return l
}

// All checks everything that is in the way of a query here, and returns the errors at which a query
// would stop; nil if one would start.
func (l *Linter) All(ctx context.Context) []error {
	l.machine = l.env.Con.Getenv("JP_REPLAY") == "" // a replay needs no key
	l.AllTools()                                    // first: its findings about definitions are not repeated where agents have the tools
	l.Agents()
	l.mcpServers()
	stops := l.env.Startable(ctx)
	for _, err := range stops {
		l.addStart(err)
	}
	return slices.DeleteFunc(stops, func(err error) bool { return errors.As(err, new(*run.ProfileError)) })
}

// mcpServers checks the entries of all MCP servers, and whether those that tools name can start.
func (l *Linter) mcpServers() {
	own, err := profiles.Resolve(l.ws.UserSources(), nil, nil)
	if err != nil {
		l.add(err)
		return
	}
	all, _, fileErr, err := l.env.Servers.Parse(l.files.Root, l.files.Data[trust.MCPFile])
	if err != nil {
		l.add(err)
		return
	}
	file := profiles.Position{File: filepath.Join(l.files.Root, trust.MCPFile)}
	if fileErr != nil {
		l.say(file, "", fileErr.Error(), "")
	}
	for name, s := range all {
		key, at := "mcpServers."+name, file
		if s.Own {
			key = "providers.mcp." + name
			if at = own.WrittenAt(key); servers.OnlyConfines(own.Config.Providers.MCP[name]) {
				continue // of a server that another workspace has
			}
		}
		err := s.Err
		if err == nil && l.used[name] {
			err = l.env.Servers.Client(s).Startable()
		}
		if err != nil {
			l.say(at, key, err.Error(), "`jp mcp show "+wording.ShellWord(name)+"` shows the entry")
		}
	}
}

// configFile is a config file of an agent.
type configFile struct {
	path string // absolute
	main bool   // the workspace's config.toml
}

// configs returns the workspace's config, if there is one, and its profiles. Files that others
// extend are parts, not profiles.
func (l *Linter) configs() []configFile {
	var list []configFile
	config := filepath.Join(l.files.Root, ".jp", "config.toml")
	if _, ok := l.files.Stamps[".jp/config.toml"]; ok {
		list = append(list, configFile{config, true})
	}
	var paths []string
	if found, err := profiles.Names(l.src); err == nil {
		for _, p := range found {
			if p.Source == "workspace" && !slices.Contains(paths, p.Arg) {
				paths = append(paths, p.Arg)
			}
		}
	} else { // the broken config may name other folders; use the default ones
		for key := range l.files.Stamps {
			if strings.HasPrefix(key, ".jp/config/") && path.Ext(key) == ".toml" {
				paths = append(paths, filepath.Join(l.files.Root, filepath.FromSlash(key)))
			}
		}
	}
	part := map[string]bool{}
	for _, p := range append(slices.Clone(paths), config) {
		for _, e := range profiles.Extends(l.src, p) {
			part[e] = true
		}
	}
	slices.Sort(paths)
	for _, p := range paths {
		if !part[p] {
			list = append(list, configFile{path: p})
		}
	}
	return list
}

// resolve returns the config of a file: that of the main agent, or that of a sub-agent under the
// profile.
func (l *Linter) resolve(at configFile) (*profiles.Resolved, error) {
	var ds []profiles.Directive
	if !at.main {
		ds = workspace.UnderNone(at.path)
	}
	return profiles.Resolve(l.src, ds, nil)
}

// Agents checks everything that a workspace says about agents.
func (l *Linter) Agents() {
	for _, at := range l.configs() {
		if at.main {
			l.config(at)
		} else {
			l.profileAt(at.path)
		}
	}
	l.specializations()
}

// AllTools checks all definitions, and the tools that the config and the profiles enable. If one
// cannot be read, the reason is a finding, and its tools are not checked.
func (l *Linter) AllTools() {
	l.definitions()
	for _, at := range l.configs() {
		r, err := l.resolve(at)
		if err != nil {
			l.add(err)
			continue
		}
		l.enabled(r, at.main)
	}
	l.specializations()
}

// ToolsUnder checks the tools that the config enables under directives. If a profile does not
// exist, the error wraps [profiles.ErrNotFound] and is not a finding.
func (l *Linter) ToolsUnder(directives []profiles.Directive) error {
	r, err := profiles.Resolve(l.src, directives, nil)
	switch {
	case errors.Is(err, profiles.ErrNotFound):
		return err
	case err != nil:
		l.add(err)
	default:
		l.enabled(r, true)
	}
	return nil
}

func (l *Linter) specializations() {
	if _, ok := l.files.Stamps[".jp/specializations.ini"]; ok {
		if _, err := profiles.LoadSpecializations(l.src, "", tools.EmbeddedNames()); err != nil {
			l.add(err)
		}
	}
}

// config checks the workspace's own config.
func (l *Linter) config(at configFile) {
	r := l.load(at)
	if r == nil {
		return
	}
	if r.Config.Assistant.Model == "" {
		l.say(profiles.Position{File: at.path}, "assistant.model", "no model is named", `write model = "provider/model" below [assistant]`)
	}
	l.agent(r, at)
}

// Profile checks the profile that --cfg finds by a name or path. If it does not exist, the error
// wraps [profiles.ErrNotFound] and is not a finding.
func (l *Linter) Profile(name string) error {
	p, err := profiles.Find(l.src, name)
	switch {
	case errors.Is(err, profiles.ErrNotFound):
		return err
	case err != nil:
		l.add(err)
	default:
		l.profileAt(p.Arg)
	}
	return nil
}

// profileAt checks one profile: an absolute path or builtin:NAME.
func (l *Linter) profileAt(arg string) {
	at := configFile{path: arg}
	r := l.load(at)
	if r == nil {
		return
	}
	if !slices.ContainsFunc(r.Layers, func(y profiles.Layer) bool {
		return y.Kind == profiles.ResetLayer && strings.HasPrefix(y.Name, "loader.reset ")
	}) {
		l.say(profiles.Position{File: arg}, "loader.reset", "is missing: taken by name, the profile adds to what config allows anyway",
			`write reset = "none" below [loader]`)
	}
	if r.Config.Assistant.Model == "" {
		l.say(profiles.Position{File: arg}, "assistant.model", "no model is named: a sub-agent needs one of its own",
			`write model = "provider/model" below [assistant]`)
	}
	l.agent(r, at)
}

// load adds the mistakes of a file and returns the config that it resolves to, nil if it does not
// resolve.
func (l *Linter) load(at configFile) *profiles.Resolved {
	before := len(l.found)
	if filepath.IsAbs(at.path) {
		for _, e := range profiles.Check(l.src, at.path) {
			l.add(e)
		}
	}
	r, err := l.resolve(at)
	if err != nil {
		if len(l.found) == before {
			l.add(err)
		}
		return nil
	}
	return r
}

// agent checks the agent of the config r.
func (l *Linter) agent(r *profiles.Resolved, at configFile) {
	l.models(r)
	if _, err := r.RequireLauncher(); err != nil {
		l.add(err)
	}
	l.enabled(r, at.main)
	l.delegates(r)
	for _, name := range []string{"jp_query", "jp_batch_query"} {
		if t, ok := r.Tools[name]; ok && tools.Enabled(t.Values) && len(r.Config.Delegation.Profiles) == 0 {
			l.say(t.Pos(""), "tool "+name, "can name no profile", "list some in delegation.profiles")
		}
	}
	written := r.WrittenAt("delegation.llm_query.tools")
	for _, name := range r.Config.Delegation.LLMQuery.Tools {
		_, embedded := tools.Embedded(name)
		_, file := l.tools[name]
		if _, table := r.Tools[name]; !embedded && !file && !table {
			l.say(written, "delegation.llm_query.tools", fmt.Sprintf("%s: there is no such tool", name), "")
		}
	}
}

// delegates checks the profiles that the agent of the config r can start.
func (l *Linter) delegates(r *profiles.Resolved) {
	if len(r.Config.Delegation.Profiles) == 0 {
		return
	}
	finder, err := l.finder()
	if err != nil {
		l.add(err)
		return
	}
	written := r.WrittenAt("delegation.profiles")
	for _, name := range r.Config.Delegation.Profiles {
		if _, err := finder.Find(name); err != nil {
			l.say(written, "delegation.profiles", fmt.Sprintf("%s: there is no such profile", name), "`jp profile ls` lists them")
			l.wrong[console.Explain(err).Message] = true
		}
	}
}

// exists reports whether a path in the workspace is a regular file.
func (l *Linter) exists(name string) bool {
	if !filepath.IsAbs(name) {
		name = filepath.Join(l.files.Root, name)
	}
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}
