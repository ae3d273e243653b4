package foreign

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"unicode"

	"jp/profiles/effort"
	"jp/profiles/tomldoc"
	"jp/tools/unseen"
)

// toolNames are the tools of other programs for which jp has one that can do no more.
var toolNames = map[string]map[string]string{
	"claude": {
		"Read": "fs_read_file", "Grep": "fs_grep_files", "Glob": "fs_list_files", "LS": "fs_list_files",
		"Write": "fs_create_file", "Edit": "fs_modify_file", "MultiEdit": "fs_modify_file",
		"Skill": "skill",
	},
	"gemini": {
		"read_file": "fs_read_file", "read_many_files": "fs_read_file", "list_directory": "fs_list_files", "glob": "fs_list_files",
		"grep_search": "fs_grep_files", "search_file_content": "fs_grep_files", "write_file": "fs_create_file", "replace": "fs_modify_file",
		"activate_skill": "skill",
	},
	"opencode": {
		"read": "fs_read_file", "list": "fs_list_files", "glob": "fs_list_files", "grep": "fs_grep_files",
		"write": "fs_create_file", "edit": "fs_modify_file", "patch": "fs_modify_file",
		"skill": "skill",
	},
}

// MapTools returns jp's names of the file's tools, sorted and each once, and the tools that jp has
// no name for, in the order of the file.
func (f Agent) MapTools() (names, unknown []string) {
	for _, t := range f.Tools {
		if name, ok := toolNames[f.Format][t]; ok {
			names = append(names, name)
		} else {
			unknown = append(unknown, t)
		}
	}
	slices.Sort(names)
	return slices.Compact(names), unknown
}

// Forbids returns the rule of the file that forbids a tool of jp, "" if none does. A file that lists
// no tools can have one too.
func (f Agent) Forbids(name string) string {
	for _, rule := range f.denied {
		for tool, here := range toolNames[f.Format] {
			if here == name && f.forbids(rule, tool) {
				return rule
			}
		}
	}
	return ""
}

// Asks reports whether the other program asks before each call of a tool of jp.
func (f Agent) Asks(name string) bool {
	return slices.ContainsFunc(f.ask, func(tool string) bool { return tool != "" && toolNames[f.Format][tool] == name })
}

// forbid removes the tools that a rule forbids. A tool of jp has several names there and no rules for
// a part of what it does: a rule for one of the names, or for a part, removes it, and a note says so.
func (f *Agent) forbid() {
	f.Tools = slices.DeleteFunc(f.Tools, func(tool string) bool {
		if slices.Contains(f.denied, tool) {
			return true
		}
		i := slices.IndexFunc(f.denied, func(rule string) bool { return f.forbids(rule, tool) })
		if i >= 0 {
			f.Notes = append(f.Notes, fmt.Sprintf("the tool %s, because the file forbids %s", tool, f.denied[i]))
		}
		return i >= 0
	})
}

// forbids reports whether a rule such as Read, gh_* or Read(**/.env) forbids a tool that jp has, or a
// part of it. In claude a rule for files of Read or Edit holds for all tools that read or write them,
// in opencode each tool that writes means all that write.
func (f *Agent) forbids(rule, tool string) bool {
	named, _, part := strings.Cut(rule, "(")
	here := toolNames[f.Format]
	names := []string{named}
	writers := []string{"edit", "write", "patch", "apply_patch", "multiedit"}
	switch {
	case part && named == "Read":
		names = append(names, "Grep", "Glob")
	case part && named == "Edit":
		names = append(names, "Write")
	case f.Format == "opencode" && slices.ContainsFunc(writers, func(w string) bool { return match(named, w) }):
		names = append(names, "edit", "write")
	}
	return here[tool] != "" && slices.ContainsFunc(names, func(name string) bool {
		return match(name, tool) || here[name] == here[tool]
	})
}

func match(pattern, name string) bool {
	ok, _ := path.Match(pattern, name)
	return ok
}

// ProfileName makes a name that is valid for a profile and a file: lowercase letters, digits, - and
// _. "" when nothing is left.
func (f Agent) ProfileName() string {
	words := strings.FieldsFunc(strings.ToLower(f.Name), func(r rune) bool { return r >= 0x80 || !tomldoc.IsBare(byte(r)) || r == '-' })
	name := strings.Join(words, "-")
	return strings.Trim(name[:min(len(name), 64)], "-")
}

// Imported is what a profile says beside what its file says.
type Imported struct {
	Source string   // where it was read from, as a person would say it
	Model  string   // provider/model; "" = none
	Tools  []Held   // all tools that it holds
	Notes  []string // what was left out and why
}

// Held is a tool of a profile.
type Held struct {
	Name, Source string
	Unattended   bool // it runs without a question
}

// Profile writes the TOML of a profile that drops all settings before it.
func (f Agent) Profile(im Imported) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "# Imported from %s by jp profile import.\n", comment(im.Source))
	if f.Description != "" {
		fmt.Fprintf(&b, "# %s\n", comment(f.Description))
	}
	for _, n := range im.Notes {
		fmt.Fprintf(&b, "# Left out: %s\n", comment(n))
	}
	b.WriteString("\n[loader]\nreset = \"none\" # what is here is what the agent can do\n\n[assistant]\n")
	fmt.Fprintf(&b, "name = %s\n", tomldoc.String(f.ProfileName()))
	if im.Model != "" {
		fmt.Fprintf(&b, "model = %s\n", tomldoc.String(im.Model))
	}
	reasoning := slices.Contains(effort.Levels(), f.Reasoning)
	if reasoning || f.Temperature != nil {
		b.WriteString("\n[assistant.parameters]\n")
		if reasoning {
			fmt.Fprintf(&b, "reasoning = %s\n", tomldoc.String(f.Reasoning))
		}
		if f.Temperature != nil {
			fmt.Fprintf(&b, "temperature = %s\n", tomldoc.Float(*f.Temperature))
		}
	}
	fmt.Fprintf(&b, "\n[[assistant.system_prompt_sections]]\ncontent = %s\n", tomldoc.Lines(f.Prompt))
	if f.MaxTurns > 0 {
		fmt.Fprintf(&b, "\n[conversation]\nmax_turns = %d\n", f.MaxTurns)
	}
	for _, t := range im.Tools {
		run := `run = "unattended"`
		if !t.Unattended {
			run = "run = \"ask\" # \"unattended\" lets a sub-agent, for whom nobody can be asked\ndetached = \"deny\" # until then it is refused to one"
		}
		fmt.Fprintf(&b, "\n[conversation.tools.%s]\nsource = %s\n%s\n", tomldoc.Key([]string{t.Name}), tomldoc.String(t.Source), run)
	}
	return []byte(b.String())
}

// comment makes a text fit for a comment behind #: one line that is not too long.
func comment(s string) string {
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	s = strings.Map(func(r rune) rune {
		if unseen.Is(r) {
			return -1 // it could reverse the direction of a line
		}
		return r
	}, s)
	if runes := []rune(s); len(runes) > 200 {
		s = string(runes[:199]) + "…"
	}
	return s
}
