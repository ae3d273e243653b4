package cli

import (
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/servers"
	"jp/cmd/jp/internal/wording"
	"jp/profiles"
	"jp/tools/files"
	"jp/tools/unseen"
)

// Bounds of a question, in rows of the screen: a flood must not push off it what stands before.
const (
	maxAsked    = 200 // in all
	maxAskedOne = 12  // of one line
)

// settingGrant is a setting of a workspace that reaches further than tools do.
type settingGrant struct {
	Key     string `json:"key"`
	Value   any    `json:"value"`
	Default any    `json:"default"` // null: none
}

// settingsShown are the other models that a config of the workspace names, and its limits above the default. Those of the user's
// own config, and of programs that jp brings along, are not meant.
func settingsShown(r *profiles.Resolved, userDir string) []settingGrant {
	defaults := map[string]any{}
	for _, s := range profiles.Settings() {
		defaults[s.Key] = s.Default
	}
	defaults["delegation.max_depth"] = int64(1)
	var list []settingGrant
	for _, v := range r.Keys() {
		file := v.Origin.File
		if v.Default || v.Machine || !filepath.IsAbs(file) || userDir != "" && files.Inside(userDir, file) {
			continue
		}
		switch key := v.Key; {
		case strings.HasPrefix(key, "providers.llm.aliases."), key == "conversation.title.model", key == "conversation.compact.model",
			key == "delegation.models", key == "delegation.context_tool", key == "delegation.llm_query.tools":
			list = append(list, settingGrant{key, v.Value, nil})
		case strings.HasPrefix(key, "delegation."), key == "conversation.max_turns", key == "conversation.tools.parallel",
			key == "assistant.request.max_retries", key == "assistant.request.max_response_bytes":
			if above(v.Value, defaults[key]) {
				list = append(list, settingGrant{key, v.Value, defaults[key]})
			}
		}
	}
	return list
}

// above reports whether a limit allows more than its default does.
func above(v, def any) bool {
	if v == "unlimited" || def == "unlimited" {
		return v != def && v == "unlimited"
	}
	a, isLimit := quantity(v)
	b, hasDefault := quantity(def)
	return isLimit && hasDefault && a > b
}

// quantity is a number or a duration as a number.
func quantity(v any) (float64, bool) {
	switch v := v.(type) {
	case int64:
		return float64(v), true
	case float64:
		return v, true
	case string:
		d, err := time.ParseDuration(v)
		return float64(d), err == nil
	}
	return 0, false
}

func (s settingGrant) text() string {
	text := func(v any) string {
		b, err := console.EncodeJSON(v, false)
		if err != nil {
			return "?"
		}
		return strings.TrimSuffix(string(b), "\n")
	}
	return s.Key + " = " + text(s.Value) + wording.Either(s.Default == nil, "", " (default "+text(s.Default)+")")
}

// text is the page that a person reads. Of a question it is what would change of the files, and no more than a person will look at,
// on a screen of width columns; a width of 0 asks nothing.
func (s trustShown) text(width int) string {
	lines := s.lines(width > 0)
	for i, line := range lines {
		lines[i] = unseen.Spell(line)
	}
	if width == 0 {
		return strings.Join(lines, "\n") + "\n"
	}
	var rows []string
	for _, line := range lines {
		in := unseen.Rows(unseen.Fold(line), width, "      ")
		if more := len(in) - maxAskedOne; more > 0 {
			in = append(in[:maxAskedOne], fmt.Sprintf("      ... and %d bytes more, which `jp trust --show` shows: say no if you have not read them", len(strings.Join(in[maxAskedOne:], ""))))
		}
		rows = append(rows, in...)
	}
	if more := len(rows) - maxAsked; more > 0 {
		rows = append(rows[:maxAsked], fmt.Sprintf("... and %d lines more, which `jp trust --show` shows: say no if you have not read them", more))
	}
	return strings.Join(rows, "\n") + "\n"
}

// lines are those of text before they are made to show all. Names are quoted where they could pass for something else.
func (s trustShown) lines(asked bool) []string {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	status := map[string]string{"trusted": "trusted", "changed": "not as it was trusted", "untrusted": "not trusted"}[s.Status]
	if s.TrustedAt != nil {
		status += ", recorded " + s.TrustedAt.Format(time.RFC3339)
	}
	add("workspace %s: %s", s.Workspace, status)
	lines = append(lines, s.unconfined()...)
	for _, agent := range s.Agents {
		add("")
		add("%s (%s)", agent.title(), unseen.Word(agent.File))
		if agent.Problem != "" {
			add("  cannot be used: %s", agent.Problem)
		}
		if agent.Model != "" {
			add("  model: %s", agent.Model)
		}
		for _, t := range agent.Tools {
			add("  tool %s: %s", t.Name, t.text())
		}
		if len(agent.Profiles) > 0 {
			add("  may start: %s", words(agent.Profiles, ", "))
		}
		for _, g := range agent.Settings {
			add("  sets %s", g.text())
		}
	}
	add("")
	if len(s.Skills) > 0 {
		add("skills: %s", words(s.Skills, "; "))
	}
	if len(s.Texts) > 0 {
		add("instructions: %s", words(s.Texts, "; "))
	}
	for _, server := range s.Servers {
		add("MCP server %s", server)
	}
	for _, f := range s.Files {
		if !asked || f.State != "same" {
			add("%-8s%s  %s", f.State, unseen.Word(filepath.FromSlash(f.Path)), shortStamp(f.Stamp))
		}
	}
	return lines
}

// unconfined says first what nothing confines.
func (s trustShown) unconfined() []string {
	var list []string
	for _, agent := range s.Agents {
		for _, t := range agent.Tools {
			if t.off() {
				list = append(list, fmt.Sprintf("  tool %s of %s%s", t.Name, agent.title(), wording.Either(t.Command == "", "", ": "+t.Command)))
			}
		}
	}
	if len(list) == 0 {
		return nil
	}
	const most = 20
	if more := len(list) - most; more > 0 {
		list = append(list[:most], fmt.Sprintf("  and %d more", more))
	}
	return append([]string{servers.Unconfined}, list...)
}

// title names the agent.
func (s agentShown) title() string {
	return wording.Either(s.Name == "main", "main agent", "profile "+unseen.Word(s.Name))
}

// words joins names so that none can pass for two.
func words(names []string, between string) string {
	list := make([]string, len(names))
	for i, name := range names {
		list[i] = unseen.Word(name)
	}
	return strings.Join(list, between)
}
