package review

import (
	"fmt"
	"maps"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"jp/cmd/jp/internal/servers"
	"jp/cmd/jp/internal/trust"
	"jp/cmd/jp/internal/wording"
	"jp/profiles"
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

// Whole returns all of the page.
func (s Page) Whole() string { return strings.Join(append(s.whole(), s.files(false)...), "\n") + "\n" }

// Text returns the text of a question on a screen of width columns: no more rows than a person will
// read, only files that changed and, if the workspace was trusted before, only lines that differ.
func (s Page) Text(width int) string {
	lines := append(s.whole(), s.files(true)...)
	if s.compared() {
		lines = slices.Concat([]string{s.heading()}, s.differences(), []string{""}, s.files(true))
		lines = append(lines, "What was trusted before is left out: `jp trust --show` shows all, d or `jp trust --diff` what changed in the files.")
	}
	var rows []string
	for _, line := range lines {
		in := unseen.Rows(unseen.Fold(line), width, unseen.Margin)
		if more := len(in) - maxAskedOne; more > 0 {
			in = append(in[:maxAskedOne], fmt.Sprintf(unseen.Margin+"... and %d bytes more, which `jp trust --show` shows: say no if you have not read them", len(strings.Join(in[maxAskedOne:], ""))))
		}
		rows = append(rows, in...)
	}
	if more := len(rows) - maxAsked; more > 0 {
		rows = append(rows[:maxAsked], fmt.Sprintf("... and %d lines more, which `jp trust --show` shows: say no if you have not read them", more))
	}
	return strings.Join(rows, "\n") + "\n"
}

// section is a part of the page: lines below a title, which no other part has. The title "" is that
// of the last part.
type section struct {
	title string
	lines []line
}

// line is a line of the page. Names in it are quoted if they could be mistaken for something else.
type line struct {
	subject string // beginning of text that says what the line is about
	text    string
	shown   bool // whether the record has what the line allows, if a record can have that
}

// sections returns what the workspace would allow, in lines.
func (s Page) sections() []section {
	var all []section
	tool := func(t ToolGrant) line {
		subject := "tool " + t.Name + ": "
		return line{subject, subject + t.text(), s.before == nil || s.before.HasTool(t.def)}
	}
	for _, agent := range s.Agents {
		in := section{title: agent.title() + wording.Either(agent.File == named, "", " ("+unseen.Word(agent.File)+")")}
		add := func(subject, text, key string) {
			unshown := s.before != nil && slices.ContainsFunc(agent.loosened, func(b profiles.Brought) bool {
				return b.Key == key && !s.before.HasSetting(key, b.Value.Value)
			})
			in.lines = append(in.lines, line{subject, subject + text, !unshown})
		}
		if agent.Problem != "" {
			add("cannot be used", wording.Either(len(agent.Tools)+len(agent.loosened) > 0, " by itself", "")+": "+agent.Problem, "")
		}
		if len(agent.Models) > 0 {
			add(modelSubject, words(agent.Models, ", "), "assistant.model")
		}
		for _, t := range agent.Tools {
			in.lines = append(in.lines, tool(t))
		}
		if len(agent.Profiles) > 0 {
			add("may start: ", words(agent.Profiles, ", "), "delegation.profiles")
		}
		for _, g := range agent.Settings {
			add("sets "+g.Key+" = ", g.text(), g.Key)
		}
		all = append(all, in)
	}
	if len(s.Defined) > 0 {
		in := section{title: "defined, and held by no agent above (.jp/tools)"}
		for _, t := range s.Defined {
			in.lines = append(in.lines, tool(t))
		}
		all = append(all, in)
	}
	last := section{}
	add := func(subject, text string) { last.lines = append(last.lines, line{subject, subject + text, true}) }
	if s.Unlisted != "" {
		add("profiles that cannot be listed: ", s.Unlisted)
	}
	if len(s.Skills) > 0 {
		add("skills: ", words(s.Skills, "; "))
	}
	if len(s.Texts) > 0 {
		add("instructions: ", words(s.Texts, "; "))
	}
	for _, server := range s.Servers {
		name, rest, _ := strings.Cut(server, ": ")
		add("MCP server "+name+": ", rest)
	}
	return append(all, last)
}

const modelSubject = "model: "

// compared reports whether the page of the trusted state is known.
func (s Page) compared() bool { return s.before != nil && s.before.Page != nil }

// known reports whether a line was on the page of the trusted state, below the same title, and the
// record has what it allows. Only such a line may be left out.
func (s Page) known(title string, l line) bool {
	return l.shown && (!s.compared() || slices.Contains(s.before.Page[title], l.text))
}

// written is the part that a record keeps: all lines by title.
func (s Page) written() map[string][]string {
	all := map[string][]string{}
	for _, in := range append(s.sections(), section{servers.Unconfined, s.unconfined()}) {
		for _, l := range in.lines {
			all[in.title] = append(all[in.title], l.text)
		}
	}
	return all
}

// whole returns all lines, with a mark before those that are not known.
func (s Page) whole() []string {
	lines := append([]string{s.heading()}, warning(s.unconfined())...)
	for _, in := range s.sections() {
		indent := wording.Either(in.title == "", "", "  ")
		lines = append(lines, "")
		if in.title != "" {
			lines = append(lines, spelled(in.title))
		}
		for _, l := range in.lines {
			lines = append(lines, wording.Either(s.known(in.title, l), indent, "+ ")+spelled(l.text))
		}
	}
	return lines
}

// differences returns the lines that are not known, beside those that they replace.
func (s Page) differences() []string {
	lines := append([]string{}, warning(slices.DeleteFunc(s.unconfined(), func(l line) bool { return s.known(servers.Unconfined, l) }))...)
	present := s.written()
	here := map[string]bool{} // what only moved to another title is not gone
	for _, list := range present {
		for _, text := range list {
			here[text] = true
		}
	}
	part := func(in section) {
		gone := slices.DeleteFunc(slices.Clone(s.before.Page[in.title]), func(text string) bool { return slices.Contains(present[in.title], text) })
		var rows []string
		for _, l := range in.lines {
			if s.known(in.title, l) {
				continue
			}
			i := slices.IndexFunc(gone, func(text string) bool { return strings.HasPrefix(text, l.subject) })
			switch {
			case i < 0:
				rows = append(rows, "+ "+spelled(l.text))
			case l.subject == modelSubject:
				rows = append(rows, "  "+spelled(gone[i])+" -> "+spelled(strings.TrimPrefix(l.text, modelSubject)))
			default:
				rows = append(rows, "- "+spelled(gone[i]), "+ "+spelled(l.text))
			}
			if i >= 0 {
				gone = slices.Delete(gone, i, i+1)
			}
		}
		for _, text := range gone {
			if !here[text] {
				rows = append(rows, "- "+spelled(text))
			}
		}
		if len(rows) == 0 {
			return
		}
		lines = append(lines, "")
		if in.title != "" {
			lines = append(lines, spelled(in.title))
		}
		lines = append(lines, rows...)
	}
	for _, in := range s.sections() {
		part(in)
	}
	for _, title := range slices.Sorted(maps.Keys(s.before.Page)) {
		if present[title] == nil && title != servers.Unconfined && title != "" {
			part(section{title: title})
		}
	}
	return lines
}

func spelled(text string) string { return unseen.Spell(text) }

// heading returns the first line.
func (s Page) heading() string {
	status := s.status
	if s.TrustedAt != nil {
		status += ", recorded " + s.TrustedAt.Format(time.RFC3339)
	}
	return spelled("workspace " + s.Workspace + ": " + status)
}

// files returns a line for each file; changed leaves out those that are the same.
func (s Page) files(changed bool) (lines []string) {
	for _, f := range s.Files {
		if !changed || f.State != "same" {
			lines = append(lines, fileLine(f))
		}
	}
	return lines
}

func fileLine(f trust.Change) string {
	return spelled(fmt.Sprintf("%-8s%s  %s", f.State, unseen.Word(filepath.FromSlash(f.Path)), shortStamp(f.Stamp)))
}

// unconfined has a line for each program without a sandbox.
func (s Page) unconfined() (list []line) {
	add := func(shown bool, format string, args ...any) {
		list = append(list, line{text: fmt.Sprintf(format, args...), shown: shown})
	}
	for _, agent := range s.Agents {
		for _, t := range agent.Tools {
			if t.off() {
				add(s.before == nil || s.before.HasTool(t.def), "tool %s of %s%s", t.Name, agent.title(), wording.Either(t.Command == "", "", ": "+t.Command))
			}
		}
	}
	for _, agent := range s.Agents {
		for _, g := range agent.Settings {
			if _, key, ok := ofTool(g.Key); ok && key == "sandbox" && g.Value == string(tools.SandboxOff) {
				add(s.before == nil || s.before.HasSetting(g.Key, g.Value), "whatever tool of %s gets %s = %s", agent.title(), g.Key, g.text())
			}
		}
	}
	for _, t := range s.Defined {
		if t.off() {
			add(s.before == nil || s.before.HasTool(t.def), "tool %s of .jp/tools%s", t.Name, wording.Either(t.Command == "", "", ": "+t.Command))
		}
	}
	return list
}

// warning is what comes first on a page: programs that nothing confines.
func warning(list []line) []string {
	if len(list) == 0 {
		return nil
	}
	const most = 20
	lines := []string{servers.Unconfined}
	for _, l := range list[:min(len(list), most)] {
		lines = append(lines, "  "+spelled(l.text))
	}
	if more := len(list) - most; more > 0 {
		lines = append(lines, fmt.Sprintf("  and %d more", more))
	}
	return lines
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
	return optionNamed().ReplaceAllStringFunc(t.Command, func(named string) string {
		v, ok := tomldoc.Lookup(t.Options, strings.Split(optionNamed().FindStringSubmatch(named)[1], "."))
		if text, is := v.(string); is {
			return unseen.Word(text)
		}
		return wording.Either(ok, asJSON(v), named)
	})
}

// optionNamed matches a place in a command where the value of an option goes.
var optionNamed = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\{\{\s*tool\.options\.([\w.-]+)\s*\}\}`) })

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
