package cli

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/mcp"
	"jp/cmd/jp/internal/run"
	"jp/cmd/jp/internal/term"
	"jp/cmd/jp/internal/trust"
	"jp/cmd/jp/internal/wording"
	"jp/cmd/jp/internal/workspace"
	"jp/profiles"
	"jp/tools"
)

// finding is what a linter says about one place.
type finding struct {
	File   string `json:"file"` // relative to the workspace where it is in it; "" for what is in no file
	Line   int    `json:"line"` // 0 = the file as a whole
	Key    string `json:"key"`  // dotted; "" = none
	Reason string `json:"reason"`
	Hint   string `json:"hint"`
}

// linter collects findings about the files of a workspace. It reads them and does nothing that they say.
type linter struct {
	app   *app
	src   profiles.Sources
	files *trust.Files
	tools map[string]tools.Definition // of .jp/tools, as far as they can be read
	found []finding

	record func(server string) *mcp.Record // what an MCP server had when it was asked last; nil = nothing is known

	definitionsToo bool // what a definition says is reported at its own place
}

func newProfileCheckCommand(a *app) *cli.Command {
	return a.tree.Command(command.Spec{
		Name: "check", Summary: "find what is wrong with profiles", Args: "[FILE...]", Max: -1,
		About: "Reads the given profiles, or the workspace's config with all its profiles, and does nothing that they say; the " +
			"workspace need not be trusted. A line for each finding: file:line: key: reason.\n\n" +
			"Beside every mistake that loading would stop at, it names what an author may not have meant: a profile that does not " +
			"reset what stands before it, no model or an unknown one, a tool that asks where nobody answers, files written " +
			"without a question, paths outside the workspace, open network, variables that look like secrets, profiles " +
			"that do not exist. Status 2 says that there are findings.",
		Exits:    []exit.Status{exit.NotFound, exit.Refused},
		Examples: []string{"jp profile check", "jp profile check .jp/config/agent/researcher.toml -F json"},
		Run: func(ctx context.Context, args []string) error {
			l, err := a.newLinter(ctx)
			if err != nil {
				return err
			}
			if len(args) == 0 {
				l.workspace()
			}
			for _, arg := range args {
				p, err := profiles.Find(l.src, arg)
				if err != nil {
					if errors.Is(err, profiles.ErrNotFound) {
						return err
					}
					l.add(err)
					continue
				}
				l.profile(p.Arg)
			}
			return l.report()
		},
	})
}

func newToolCheckCommand(a *app) *cli.Command {
	var directives []profiles.Directive
	return a.tree.Command(command.Spec{
		Name: "check", Summary: "find what is wrong with tools",
		About: "Reads the definitions in .jp/tools and the tools that the workspace's config and its profiles enable, and runs " +
			"none of them; the workspace need not be trusted. A config, profile or specializations.ini that cannot be read is a finding " +
			"too. A line for each finding: file:line: tool NAME: key: reason. " +
			"Status 2 says that there are findings. With --cfg only the tools that this config enables are checked.",
		Flags:    workspace.ConfigFlags(&directives),
		Exits:    []exit.Status{exit.NotFound, exit.Refused},
		Examples: []string{"jp tool check", "jp tool check -F json", "jp tool check --cfg agent/researcher"},
		Run: func(ctx context.Context, _ []string) error {
			l, err := a.newLinter(ctx)
			if err != nil {
				return err
			}
			if len(directives) == 0 {
				l.allTools()
				return l.report()
			}
			r, err := a.ws.Resolve(l.src, directives, nil)
			if errors.Is(err, profiles.ErrNotFound) {
				return err
			} else if err != nil {
				l.add(err)
			} else {
				l.enabled(r, true)
			}
			return l.report()
		},
	})
}

func (a *app) newLinter(ctx context.Context) (*linter, error) {
	src, files, err := a.review(ctx)
	if err != nil {
		return nil, err
	}
	l := &linter{app: a, src: src, files: files}
	l.record = func(server string) *mcp.Record {
		r, err := a.env.Servers.Record(ctx, server)
		if err == nil && r == nil && a.ws.Gate.ByEnv() {
			r, err = a.env.Servers.ReadRecord(ctx, server, true)
		}
		if err != nil {
			return nil // without a state folder there are none
		}
		return r
	}
	l.tools, _ = files.Tools() // mistakes are tool check's to report
	return l, nil
}

// add notes an error of a loader.
func (l *linter) add(err error) {
	if all, ok := err.(interface{ Unwrap() []error }); ok { // errors.Join
		for _, e := range all.Unwrap() {
			l.add(e)
		}
		return
	}
	var config *profiles.Error
	var definition *tools.DefinitionError
	switch {
	case errors.As(err, &config):
		file := config.File
		if file == "" && config.Layer != "" {
			file = config.Layer
		}
		l.found = append(l.found, finding{File: l.app.ws.Relative(file), Line: config.Line, Key: config.Key, Reason: config.Msg, Hint: config.Hint})
	case errors.As(err, &definition):
		file, line := splitPosition(definition.Pos)
		key := "tool " + definition.Tool
		if definition.Key != "" {
			key += ": " + definition.Key
		}
		l.found = append(l.found, finding{File: l.app.ws.Relative(file), Line: line, Key: key, Reason: definition.Msg, Hint: definition.Hint})
	default:
		file, reason, ok := strings.Cut(err.Error(), ": ")
		if !ok || !filepath.IsAbs(file) {
			file, reason = "", err.Error()
		}
		file, line := splitPosition(file)
		l.found = append(l.found, finding{File: l.app.ws.Relative(file), Line: line, Reason: reason})
	}
}

// say notes a finding at the place of a setting.
func (l *linter) say(at profiles.Position, key, reason, hint string) {
	l.found = append(l.found, finding{File: l.app.ws.Relative(cmp.Or(at.File, at.Layer)), Line: at.Line, Key: key, Reason: reason, Hint: hint})
}

// splitPosition parts file:line.
func splitPosition(pos string) (string, int) {
	if i := strings.LastIndexByte(pos, ':'); i > 0 {
		if n, err := strconv.Atoi(pos[i+1:]); err == nil {
			return pos[:i], n
		}
	}
	return pos, 0
}

// report writes what was found, in the order of the files and lines, each once.
func (l *linter) report() error {
	slices.SortStableFunc(l.found, func(a, b finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Reason, b.Reason))
	})
	l.found = slices.Compact(l.found)
	var err error
	if l.app.con.JSON() {
		err = l.app.con.Document(wording.Either(l.found == nil, []finding{}, l.found))
	} else {
		err = l.app.con.Text(func(w *bufio.Writer) error {
			for _, f := range l.found {
				fmt.Fprintln(w, term.Line(f.String()))
			}
			return nil
		})
	}
	if err == nil && len(l.found) > 0 {
		err = exit.Quiet(exit.Usage)
	}
	return err
}

// String is `file:line: key: reason (hint)`.
func (f finding) String() string {
	var b strings.Builder
	if f.File != "" {
		b.WriteString(f.File)
		if f.Line > 0 {
			fmt.Fprintf(&b, ":%d", f.Line)
		}
		b.WriteString(": ")
	}
	if f.Key != "" {
		b.WriteString(f.Key + ": ")
	}
	b.WriteString(f.Reason)
	if f.Hint != "" {
		b.WriteString(" (" + f.Hint + ")")
	}
	return b.String()
}

// configFile is a config file that makes an agent.
type configFile struct {
	path string // absolute
	main bool   // the workspace's config.toml
}

// configs are the workspace's config, if there is one, and its profiles. Files that others extend are parts, not profiles.
func (l *linter) configs() []configFile {
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
	} else { // a broken config may have said where profiles are; here they are without one
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

// resolve is the config that a file makes: what the main agent gets, or a sub-agent under the profile.
func (l *linter) resolve(at configFile) (*profiles.Resolved, error) {
	var ds []profiles.Directive
	if !at.main {
		ds = run.UnderNone(at.path)
	}
	r, err := profiles.Resolve(l.src, ds, nil)
	if err != nil {
		return nil, err
	}
	return r, l.app.ws.Gate.Hold(l.app.ws.Found(), r, l.files)
}

// workspace checks everything that a workspace says about agents.
func (l *linter) workspace() {
	for _, at := range l.configs() {
		if at.main {
			l.config(at)
		} else {
			l.profile(at.path)
		}
	}
	l.specializations()
}

// allTools checks all definitions, and the tools that the config and the profiles enable. Where one cannot be read, its tools
// cannot be told, and why is a finding.
func (l *linter) allTools() {
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

func (l *linter) specializations() {
	if _, ok := l.files.Stamps[".jp/specializations.ini"]; ok {
		if _, err := profiles.LoadSpecializations(l.src, "", tools.EmbeddedNames()); err != nil {
			l.add(err)
		}
	}
}

// config checks the workspace's own config.
func (l *linter) config(at configFile) {
	r := l.load(at)
	if r == nil {
		return
	}
	if r.Config.Assistant.Model == "" {
		l.say(profiles.Position{File: at.path}, "assistant.model", "no model is named", `write model = "provider/model" below [assistant]`)
	}
	l.agent(r, at)
}

// profile checks one profile: an absolute path or builtin:NAME.
func (l *linter) profile(arg string) {
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

// load notes what is wrong with a file by itself and returns what it resolves to, nil when it does not.
func (l *linter) load(at configFile) *profiles.Resolved {
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

// agent checks what an agent under r would be.
func (l *linter) agent(r *profiles.Resolved, at configFile) {
	l.models(r)
	l.enabled(r, at.main)
	for _, name := range r.Config.Delegation.Profiles {
		if _, err := profiles.Find(l.src, name); err != nil {
			l.say(run.WrittenAt(r, "delegation.profiles"), "delegation.profiles", fmt.Sprintf("%s: there is no such profile", name), "`jp profile ls` lists them")
		}
	}
	for _, name := range []string{"jp_query", "jp_batch_query"} {
		if t, ok := r.Tools[name]; ok && tools.Enabled(t.Values) && len(r.Config.Delegation.Profiles) == 0 {
			l.say(t.Pos(""), "tool "+name, "can name no profile", "list some in delegation.profiles")
		}
	}
	for _, name := range r.Config.Delegation.LLMQuery.Tools {
		_, embedded := tools.Embedded(name)
		_, file := l.tools[name]
		if !embedded && !file {
			l.say(run.WrittenAt(r, "delegation.llm_query.tools"), "delegation.llm_query.tools", fmt.Sprintf("%s: there is no such tool", name), "")
		}
	}
}

// exists reports whether a path of the workspace leads to a regular file.
func (l *linter) exists(name string) bool {
	if !filepath.IsAbs(name) {
		name = filepath.Join(l.files.Root, name)
	}
	info, err := os.Stat(name)
	return err == nil && info.Mode().IsRegular()
}
