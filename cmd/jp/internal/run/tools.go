package run

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sort"
	"strings"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/rule"
	"jp/cmd/jp/internal/wording"
	"jp/profiles"
	"jp/profiles/foreign"
	"jp/tools"
)

// Definitions returns the tools that a resolved config enables, sorted by name. Every command uses
// it, so that nothing runs which was not shown to the person who trusted the workspace: see unshown.
// If a table has the name of a known tool (built in, or a file of .jp/tools), it changes that
// tool. If it has another source, or a new name, it defines a tool of its own.
func (env *Env) Definitions(ctx context.Context, r *profiles.Resolved) ([]tools.Definition, error) {
	files, err := env.WS.Gate.Tools(ctx)
	if err != nil {
		return nil, err
	}
	defs, err := DefineAll(r, files)
	if err == nil {
		err = env.unshown(r, files, defs)
	}
	if err != nil {
		return nil, err
	}
	if env.owner != nil {
		return env.owner.Pinned(defs)
	}
	return env.Servers.Pinned(ctx, defs)
}

// DefineAll joins a config to the definitions in files of their own.
func DefineAll(r *profiles.Resolved, files map[string]tools.Definition) ([]tools.Definition, error) {
	var names []string
	for name, t := range r.Tools {
		if name != "*" && tools.Enabled(t.Values) {
			names = append(names, name)
		}
	}
	sort.Strings(names)
	files, err := WithSpecializations(r, files)
	if err != nil {
		return nil, err
	}
	defs := make([]tools.Definition, 0, len(names))
	for _, name := range names {
		d, err := Define(name, r, files)
		if err != nil {
			return nil, err
		}
		defs = append(defs, d)
	}
	return defs, nil
}

// Define returns the definition of one tool that a config enables.
func Define(name string, r *profiles.Resolved, files map[string]tools.Definition) (tools.Definition, error) {
	return define(name, r, r.Tools, files)
}

// define is Define with these tables in place of those of r.
func define(name string, r *profiles.Resolved, tables map[string]profiles.Table, files map[string]tools.Definition) (tools.Definition, error) {
	t := tables[name]
	d, err := tools.Define(name, t.Values, position(t), files)
	if err != nil {
		return d, err
	}
	if all, ok := tables["*"]; ok {
		if d, err = d.WithDefaults(all.Values, position(all)); err != nil {
			return d, err
		}
	}
	if d.Delegates() {
		switch name {
		case "jp_query":
			return d.WithEnum("config", r.Config.Delegation.Profiles)
		case "jp_batch_query":
			return d.WithEnum("queries.config", r.Config.Delegation.Profiles)
		}
	}
	return d, nil
}

func position(t profiles.Table) func(string) string {
	return func(key string) string { return t.Pos(key).String() }
}

// Names returns the names of definitions.
func Names(defs []tools.Definition) []string {
	names := make([]string, len(defs))
	for i, d := range defs {
		names[i] = d.Name
	}
	return names
}

// specializationTool returns the definition of the tool of an INI section.
func specializationTool(s profiles.Specialization) (tools.Definition, error) {
	window := "the last " + wording.Plural(s.ContextWindow, "earlier turn")
	if s.ContextWindow == 0 {
		window = "all its earlier turns"
	}
	description := fmt.Sprintf("%s\n\nA sub-agent with the skill %s. It has one conversation with you (session %s), in which every call is a turn: "+
		"it sees %s, and nothing of this conversation.", s.Skill.Description, s.Skill.Name, s.Session, window)
	return tools.Decode(s.Tool, map[string]any{
		"source": tools.SourceDelegation, "description": description,
		"parameters": map[string]any{"query": map[string]any{
			"type": "string", "required": true, "minLength": int64(1),
			"description": "The task, with all that the sub-agent needs to know.",
		}},
	}, func(string) string { return s.Pos.String() })
}

// WithSpecializations adds the tools of INI sections to the definitions in files of their own.
func WithSpecializations(r *profiles.Resolved, files map[string]tools.Definition) (map[string]tools.Definition, error) {
	if len(r.Specializations) == 0 {
		return files, nil
	}
	all := make(map[string]tools.Definition, len(files)+len(r.Specializations))
	maps.Copy(all, files)
	for name, s := range r.Specializations {
		if _, taken := files[name]; taken {
			return nil, &profiles.Error{File: s.Pos.File, Line: s.Pos.Line, Key: name, Msg: "a file of .jp/tools defines a tool of this name too"}
		}
		def, err := specializationTool(s)
		if err != nil {
			return nil, err
		}
		all[name] = def
	}
	return all, nil
}

// grantable returns the tools of defs as a profile offers them to a sub-agent, with what they may do
// without a question as in arm.
func grantable(defs []tools.Definition, r *profiles.Resolved) []rule.Tool {
	list := make([]rule.Tool, len(defs))
	for i, d := range defs {
		list[i] = rule.Tool{Name: d.Name, Source: d.Source, Authority: d.Authority()}
		if d.Name == SkillTool && !Says(r, d.Name, "run") {
			d.Run = tools.RunUnattended
		}
		list[i].Permissions = d.Permissions()
	}
	return list
}

func Says(r *profiles.Resolved, tool, key string) bool {
	_, own := r.Tools[tool].Values[key]
	_, all := r.Tools["*"].Values[key]
	return own || all
}

// SkillTool is the name of the built-in tool that returns skills.
const SkillTool = "skill"

// UnknownTool adds a hint to an error about the name of a tool: the name of the tool here, where it
// is defined and how to enable it, or the most similar known name.
func (env *Env) UnknownTool(f *exit.Error, name string, known []string, otherwise string) error {
	for _, format := range foreign.Formats() {
		if here, _ := (foreign.Agent{Format: format, Tools: []string{name}}).MapTools(); len(here) > 0 {
			return f.WithHint("here it is called %s", here[0])
		}
	}
	enable := fmt.Sprintf("`jp config set conversation.tools.%s.enable:=true` enables it", name)
	if file, ok := env.WS.Gate.DefinedTools()[name]; ok {
		return f.WithHint("%s defines it; %s", file, enable)
	}
	if _, ok := tools.Embedded(name); ok {
		return f.WithHint("it is built in; %s", enable)
	}
	return f.WithHint("%s", command.DidYouMean(name, append(slices.DeleteFunc(known, func(n string) bool { return n == "*" }), tools.EmbeddedNames()...), otherwise))
}

// NamesIn reads names with commas or spaces between them. It refuses patterns, which other agent
// programs allow.
func NamesIn(flag string, texts []string) ([]string, error) {
	names := []string{}
	for _, text := range texts {
		if i := strings.IndexAny(text, "()*?[]"); i >= 0 {
			return nil, exit.Usagef("%s %q: %q: only names of tools, no patterns", flag, text, text[i:i+1]).
				WithHint("the definition of a tool says what it may do; `jp tool ls` lists the names")
		}
		names = append(names, strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\n' })...)
	}
	return names, nil
}
