package review

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"jp/cmd/jp/internal/run"
	"jp/cmd/jp/internal/servers"
	"jp/cmd/jp/internal/wording"
	"jp/profiles/tomldoc"
	"jp/tools"
	"jp/tools/unseen"
)

// Bounds of a question, in rows of the screen: a long list must not push the lines before it off
// the screen.
const (
	maxAsked    = 200 // rows of the whole question
	maxAskedOne = 12  // rows of one line
)

// Text returns the page for a person. With a width it is the text of a question on a screen of
// width columns: only files that changed, and no more rows than a person will read. With width 0 it
// is not a question.
func (s Page) Text(width int) string {
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

// lines returns the lines of Text before invisible characters are spelled out. Names are quoted if
// they could be mistaken for something else.
func (s Page) lines(asked bool) []string {
	var lines []string
	add := func(format string, args ...any) { lines = append(lines, fmt.Sprintf(format, args...)) }
	status := s.differs
	if s.TrustedAt != nil {
		status += ", recorded " + s.TrustedAt.Format(time.RFC3339)
	}
	add("workspace %s: %s", s.Workspace, status)
	lines = append(lines, s.unconfined()...)
	for _, agent := range s.Agents {
		add("")
		add("%s%s", agent.title(), wording.Either(agent.File == named, "", " ("+unseen.Word(agent.File)+")"))
		if agent.Problem != "" {
			add("  cannot be used%s: %s", wording.Either(len(agent.Tools)+len(agent.loosened) > 0, " by itself", ""), agent.Problem)
		}
		if agent.Model != "" {
			add("  model: %s", agent.Model)
		}
		for _, t := range agent.Tools {
			add("%stool %s: %s", s.mark(s.before == nil || s.before.HasTool(t.def)), t.Name, t.text())
		}
		if len(agent.Profiles) > 0 {
			add("  may start: %s", words(agent.Profiles, ", "))
		}
		for _, g := range agent.Settings {
			add("%ssets %s", s.mark(s.before == nil || s.before.HasSetting(g.Key, g.Value)), g.text())
		}
	}
	if s.Unlisted != "" {
		add("")
		add("profiles that cannot be listed: %s", s.Unlisted)
	}
	if len(s.Defined) > 0 {
		add("")
		add("defined, and held by no agent above (.jp/tools)")
	}
	for _, t := range s.Defined {
		add("%stool %s: %s", s.mark(s.before == nil || s.before.HasTool(t.def)), t.Name, t.text())
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

// mark begins a line: with a plus sign where what it says was not shown when the workspace was trusted.
func (s Page) mark(shown bool) string { return wording.Either(shown, "  ", "+ ") }

// unconfined warns of programs without a sandbox; it comes first.
func (s Page) unconfined() []string {
	var list []string
	for _, agent := range s.Agents {
		for _, t := range agent.Tools {
			if t.off() {
				list = append(list, fmt.Sprintf("  tool %s of %s%s", t.Name, agent.title(), wording.Either(t.Command == "", "", ": "+t.Command)))
			}
		}
	}
	for _, agent := range s.Agents {
		for _, g := range agent.Settings {
			if _, key, ok := run.OfTool(g.Key); ok && key == "sandbox" && g.Value == string(tools.SandboxOff) {
				list = append(list, "  whatever tool of "+agent.title()+" gets "+g.text())
			}
		}
	}
	for _, t := range s.Defined {
		if t.off() {
			list = append(list, fmt.Sprintf("  tool %s of .jp/tools%s", t.Name, wording.Either(t.Command == "", "", ": "+t.Command)))
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

// title returns the name of the agent.
func (s Agent) title() string {
	name := "profile " + unseen.Word(s.Name)
	switch s.File {
	case named: // the name is what the person has written
		name = s.Name
	case s.Name:
		name = "file " + unseen.Word(s.Name)
	case ".jp/config.toml":
		name = "main agent"
	}
	return name + wording.Either(s.OnTop, " on top of the main agent", "")
}

// text returns who has a tool if it is not the agent.
func (h Holder) text() string {
	return map[Holder]string{BySubAgents: "for sub-agents of llm_query and specializations only; ", ByNobody: "not enabled; "}[h]
}

// text returns the tool on one line: what can do harm first, text of its author last.
func (t ToolGrant) text() string {
	line := wording.Either(t.off(), servers.Unconfined+"; ", "") + t.Held.text() + t.Source + ", " + t.Run
	if t.Run == string(tools.RunAsk) && t.Detached == string(tools.DetachedAuto) {
		line += ", but runs where nobody can be asked"
	}
	if t.Access != "" && !t.off() {
		line += ", " + t.Access
	}
	if t.Sandbox != "" && !t.off() {
		line += ", network " + t.Network
	}
	if t.Result == string(tools.ResultAsk) {
		line += ", result " + t.Result + wording.Either(t.Deliver == string(tools.DetachedAuto), ", but delivered where nobody can be asked", "")
	}
	if len(t.Unenforced) > 0 {
		line += ", but this system cannot enforce " + strings.Join(t.Unenforced, ", ")
	}
	if len(t.Env) > 0 {
		line += ", gets " + strings.Join(t.Env, " ")
	}
	if len(t.Options) > 0 {
		line += ", options " + asJSON(t.Options)
	}
	return line + wording.Either(t.JP == "", "", ", runs jp "+t.JP) + wording.Either(t.Command == "", "", ", runs: "+t.withOptions())
}

// withOptions returns the command with the values of the options that it names.
func (t ToolGrant) withOptions() string {
	return optionNamed.ReplaceAllStringFunc(t.Command, func(named string) string {
		v, ok := tomldoc.Lookup(t.Options, strings.Split(optionNamed.FindStringSubmatch(named)[1], "."))
		if text, is := v.(string); is {
			return unseen.Word(text)
		}
		return wording.Either(ok, asJSON(v), named)
	})
}

// optionNamed matches a place in a command where the value of an option goes.
var optionNamed = regexp.MustCompile(`\{\{\s*tool\.options\.([\w.-]+)\s*\}\}`)

// words joins names so that no name looks like two.
func words(names []string, between string) string {
	list := make([]string, len(names))
	for i, name := range names {
		list[i] = unseen.Word(name)
	}
	return strings.Join(list, between)
}

// shortStamp returns enough of a hash to compare by eye.
func shortStamp(stamp string) string {
	if at := strings.LastIndex(stamp, "sha256:"); at >= 0 && len(stamp) >= at+19 {
		return stamp[:at+19]
	}
	return stamp
}
