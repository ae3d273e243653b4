// Package enabled joins a resolved config to the definitions of tools: which tools it enables, what
// each of them is, and how `jp tool` shows it. It starts nothing and knows no run.
package enabled

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/wording"
	"jp/cmd/jp/internal/workspace"
	"jp/profiles"
	"jp/profiles/foreign"
	"jp/tools"
)

// All returns the tools that a config enables, sorted by name. files are the definitions in files
// of their own. If a table has the name of a known tool (built in, or of files), it changes that
// tool. If it has another source, or a new name, it defines a tool of its own.
func All(r *profiles.Resolved, files map[string]tools.Definition) ([]tools.Definition, error) {
	files, err := WithSpecializations(r, files)
	if err != nil {
		return nil, err
	}
	var defs []tools.Definition
	for _, name := range In(r) {
		d, err := Define(name, r, files)
		if err != nil {
			return nil, err
		}
		defs = append(defs, d)
	}
	return defs, nil
}

// In returns the names of the tools that a config enables, sorted.
func In(r *profiles.Resolved) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(r.Tools)), func(name string) bool { return name == "*" || !tools.Enabled(r.Tools[name].Values) })
}

// Define returns the definition of one tool that a config enables.
func Define(name string, r *profiles.Resolved, files map[string]tools.Definition) (tools.Definition, error) {
	return DefineBy(r.Tools, name, r, files)
}

// DefineBy is Define with these tables in place of those of r.
func DefineBy(tables map[string]profiles.Table, name string, r *profiles.Resolved, files map[string]tools.Definition) (tools.Definition, error) {
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

// Cause returns the mistake behind an error of Define. A table that changes a tool of .jp/tools is no
// whole definition, but that is the mistake only where no file defines the tool. broken are the
// mistakes in these files; one that is no TOML may define any tool.
func Cause(err, broken error) error {
	if e, ok := errors.AsType[*tools.DefinitionError](err); ok && e.Lacks() {
		own, other := defining(e.Tool, broken)
		return cmp.Or(own, other, err)
	}
	return err
}

// defining returns of joined mistakes the first in the definition of a tool, and the first in a file of
// any definition; nil for none.
func defining(tool string, broken error) (own, other error) {
	if all, ok := broken.(interface{ Unwrap() []error }); ok {
		for _, one := range all.Unwrap() {
			a, b := defining(tool, one)
			own, other = cmp.Or(own, a), cmp.Or(other, b)
		}
		return own, other
	}
	e, ok := errors.AsType[*tools.DefinitionError](broken)
	switch {
	case !ok:
		return nil, broken
	case e.Tool == tool:
		return broken, nil
	}
	return nil, nil
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

// Says reports whether a config sets a key of a tool, or of all tools.
func Says(r *profiles.Resolved, tool, key string) bool {
	_, own := r.Tools[tool].Values[key]
	_, all := r.Tools["*"].Values[key]
	return own || all
}

// SkillTool is the name of the built-in tool that returns skills.
const SkillTool = "skill"

// IsSkill reports whether a tool is that one.
func IsSkill(d tools.Definition) bool { return d.Source == tools.SourceBuiltin && d.Name == SkillTool }

// UnknownTool adds a hint to an error about the name of a tool: the name of the tool here, where it
// is defined and how to enable it, or the most similar known name.
func UnknownTool(ws *workspace.Workspace, f *exit.Error, name string, known []string, otherwise string) error {
	for _, format := range foreign.Formats() {
		if here, _ := (foreign.Agent{Format: format, Tools: []string{name}}).MapTools(); len(here) > 0 {
			return f.WithHint("here it is called %s", here[0])
		}
	}
	enable := fmt.Sprintf("`jp config set conversation.tools.%s.enable:=true` enables it", name)
	if file, ok := ws.Gate.DefinedTools()[name]; ok {
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
