package lint

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/enabled"
	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/models"
	"jp/cmd/jp/internal/record"
	"jp/cmd/jp/internal/wording"
	"jp/profiles"
	"jp/tools"
	"jp/tools/files"
	"jp/tools/fs"
)

// models checks that the models that a config names can be found on this machine.
func (l *Linter) models(r *profiles.Resolved) {
	for key, names := range models.Named(r.Config) {
		for _, name := range names {
			l.model(r, key, name)
		}
	}
}

func (l *Linter) model(r *profiles.Resolved, key, name string) {
	at := r.WrittenAt(key)
	info, wrong := l.env.FindModel(r, key, name)
	file, _, _ := strings.Cut(info.Name, "#")
	switch {
	case wrong != nil:
		l.add(wrong)
		if e := (*model.Error)(nil); errors.As(wrong, &e) {
			l.wrong[subject(e)] = true
		}
	case info.Provider == "script" && !l.exists(file):
		l.say(at, key, fmt.Sprintf("there is no file %s in the workspace", file), "")
		l.wrong[info.ID] = true
	case l.machine && l.noKey(r, at, key, info):
	case info.Price == nil && (info.Provider == "anthropic" || info.Provider == "openai"):
		l.say(at, key, fmt.Sprintf("%s is not a model that this jp knows: its price is unknown", info.ID),
			"providers.llm.prices in your own config.toml gives it one")
	}
}

// noKey adds a finding if the key of a model is missing, and reports whether it did.
func (l *Linter) noKey(r *profiles.Resolved, at profiles.Position, key string, info model.Info) bool {
	_, err := l.env.Providers(r.Config).Key(info)
	e := (*model.Error)(nil)
	if !errors.As(err, &e) {
		return false
	}
	l.say(at, key, e.Error(), e.Hint)
	l.wrong[subject(e)] = true
	return true
}

// position returns where a key of a tool was written.
type position func(key string) profiles.Position

// definitions checks every file of .jp/tools.
func (l *Linter) definitions() {
	l.add(l.broken)
	before := len(l.found)
	for name, key := range l.files.DefinedIn() {
		lines := l.files.KeyLines(key)
		l.tool(l.tools[name], false, func(k string) profiles.Position {
			at := profiles.Position{File: filepath.Join(l.files.Root, filepath.FromSlash(key))}
			for ; k != "" && at.Line == 0; k = k[:max(strings.LastIndexByte(k, '.'), 0)] {
				at.Line = lines[k]
			}
			return at
		})
	}
	for _, f := range l.found[before:] {
		l.defined[f.Key+": "+f.Reason] = true
	}
}

// enabled checks the tools that a config enables.
func (l *Linter) enabled(r *profiles.Resolved, main bool) {
	files, err := enabled.WithSpecializations(r, l.tools)
	if err != nil {
		l.add(err)
		return
	}
	for name, t := range r.Tools {
		leaf := slices.Contains(r.Config.Delegation.LLMQuery.Tools, name)
		if name == "*" || !tools.Enabled(t.Values) && !leaf {
			continue
		}
		if main {
			l.places[name] = t.Pos("")
		}
		d, err := enabled.Define(name, r, files)
		if err != nil {
			l.add(enabled.Cause(err, l.broken))
			continue
		}
		l.tool(d, !main || !tools.Enabled(t.Values), func(key string) profiles.Position {
			at := t.Pos(key)
			if all, ok := r.Tools["*"]; ok && at == t.Pos("") && all.Pos(key) != all.Pos("") {
				return all.Pos(key)
			}
			return at
		})
		l.runsJP(d, r, main, t.Pos("access.jp"))
		if name == "skill" {
			_, problems := profiles.Skills(l.src)
			l.add(errors.Join(problems...))
		}
	}
}

// runsJP adds a finding if every delegation of a tool that runs jp would be refused.
func (l *Linter) runsJP(d tools.Definition, r *profiles.Resolved, main bool, at profiles.Position) {
	if !slices.Contains(d.Access.JP, tools.VerbQuery) && !slices.Contains(d.Access.JP, tools.VerbFork) {
		return
	}
	key := "tool " + d.Name + ": access.jp"
	depth := r.Config.Delegation.MaxDepth
	switch {
	case !r.Config.Delegation.Enabled:
		l.say(at, key, "delegation.enabled is false: the tool is not offered", "")
	case !main && (depth == nil || *depth == 0), depth != nil && *depth == 0:
		l.say(at, key, "delegation.max_depth is 0 here: every sub-agent that it asks for is refused; ls, print and grep work", "")
	case len(r.Config.Delegation.Profiles) == 0:
		l.say(at, key, "delegation.profiles names nobody: every sub-agent that it asks for is refused", "")
	}
}

// tool checks one definition. child means that a sub-agent has the tool, so that nobody can answer
// questions.
func (l *Linter) tool(d tools.Definition, child bool, at position) {
	say := func(key, reason, hint string) {
		setting, _, _ := strings.Cut(key, "[")
		where := at(setting)
		if key = "tool " + d.Name + ": " + key; where == at("") && l.defined[key+": "+reason] {
			return // the definition says so, and is reported at its place
		}
		l.say(where, key, reason, hint)
	}
	too := "" // other place that also has to give the permission
	own, _, off := enabled.OffByUser(l.env.WS, l.env.Con.Env.Environ, d)
	if child && off {
		d, too = d.WithPermissionsOf(own), " in your own config.toml too"
	}
	asks := d.Run == "" || d.Run == tools.RunAsk
	if child {
		const nobody = "nobody answers a sub-agent, and detached denies: "
		meant := d.Detached.Run == tools.DetachedDeny && at("detached") != at("") // the author denies it to sub-agents on purpose
		if asks && denies(d.Detached.Run) && !meant {
			say("run", nobody+"the tool can never run", `write run = "unattended"`+too+`, or leave the tool out`)
		}
		if d.Result == tools.ResultAsk && denies(d.Detached.Deliver) {
			say("result", nobody+"its result is never delivered", `write result = "unattended"`+too+`, or leave the tool out`)
		}
		if d.Source == tools.SourceInteractive {
			say("source", "is never in a sub-agent", "leave the tool out")
		}
	}
	if d.Local() && d.OpensWhole(l.files.Root) {
		say("access.fs", "opens the workspace and .git to be written, and with that .jp and hooks: what is written there you, or jp, run later",
			"leave out one of the two")
	}
	unattended := d.Run == tools.RunUnattended || asks && d.Detached.Run == tools.DetachedAuto
	writes := slices.Contains([]string{"fs_create_file", "fs_modify_file"}, d.Name) && d.Source == tools.SourceBuiltin
	for i, rule := range d.Access.FS {
		key := fmt.Sprintf("access.fs[%d]", i)
		writes = writes || rule.Mode == fs.ReadWrite && d.Local()
		if abs := rule.Path; !filepath.IsAbs(abs) && !filepath.IsLocal(abs) || filepath.IsAbs(abs) && !files.Within(l.files.Root, abs) {
			say(key, fs.VisiblePath(rule.Path)+" is outside the workspace", "")
		}
	}
	if unattended && writes && d.Run != tools.RunDeny {
		say("run", "writes files without a question", "")
	}
	if name, ok := d.MCP(); ok && !l.env.Servers.Named(l.files)[name] {
		say("source", fmt.Sprintf("there is no MCP server %s", name), "[providers.mcp."+name+"] in your own config.toml names one, or .mcp.json")
		l.wrong["tool "+d.Name+": MCP server "+name+": not found"] = true
	} else if ok {
		l.used[name] = true
		if names, known := l.had(name); known && !slices.Contains(names, d.Remote) {
			say("source", fmt.Sprintf("MCP server %s had no tool %s when it was asked last", name, d.Remote),
				command.DidYouMean(d.Remote, names, "`jp mcp show "+wording.ShellWord(name)+"` lists those it had"))
		}
	}
	if !d.Local() {
		return
	}
	if d.Network == tools.NetworkAny {
		say("network", "reaches every network, this machine's own services included", "")
	}
	switch {
	case d.Sandbox == tools.SandboxOff && child && !off:
		say("sandbox", "a sub-agent's calls are refused: only your own config.toml, with the same tool, can say off", "")
	case d.Sandbox == tools.SandboxOff:
		say("sandbox", "runs unconfined: it can do what you can do", "")
	}
	if d.Sandbox != tools.SandboxOff {
		if err := l.ws.CommandEnv(nil, nil).CheckAccess(d); err != nil {
			say("access.fs", err.Error(), "")
		}
	}
	for i, name := range d.Env {
		if record.IsSecret(name) {
			say(fmt.Sprintf("env[%d]", i), fmt.Sprintf("%s looks like a secret, which the tool is given", name), "")
		}
	}
	if p := d.Command.Program; strings.Contains(p, "/") && !l.exists(p) {
		say("command", fmt.Sprintf("there is no program %s", p), "")
	}
}

func denies(m tools.DetachedMode) bool { return m != tools.DetachedAuto }
