package cli

import (
	"slices"
	"strings"

	"jp/cmd/jp/internal/model"
	"jp/convstore"
	"jp/profiles"
)

// headless are flags as other agents have them in their headless mode. Those that mean the same under another name are
// aliases of ours; the others stand here (docs/headless.md).
type headless struct {
	resume  maybe[string]
	recent  bool
	fork    bool
	allowed []string // each may hold several names; nil = no --allowedTools
	denied  []string
	prompts []string // that this run adds to the system prompt

	only []string // the names in allowed; nil = no --allowedTools
}

func headlessFlags(o *queryOptions) []*option {
	h := &o.heads
	allowed := &option{name: "allowedTools", short: []string{"allowed-tools"}, arg: "NAMES",
		usage: "of the tools that the config enables, take away all but these; commas or spaces between them"}
	allowed.set = func(s string, _ bool) error {
		h.allowed = append(h.allowed, s)
		return nil
	}
	return []*option{
		stringFlag(&h.resume, "resume", "TARGET", "the same as --id TARGET, of a conversation that there is").alias("r"),
		boolFlag(&h.recent, "continue", "the same as --id recent"),
		boolFlag(&h.fork, "fork-session", "with --resume or --continue: the same as --fork"),
		allowed,
		listFlag(&h.denied, "disallowedTools", "NAMES", "the same as --no-tool NAME for each").alias("disallowed-tools"),
		listFlag(&h.prompts, "append-system-prompt", "TEXT", "add TEXT to the system prompt, in this run only"),
	}
}

// inOurWords turns the flags of other agents into ours.
func (o *queryOptions) inOurWords() error {
	h := o.heads
	if err := onlyOne(map[string]bool{
		"--id": o.id.Set, "--new": o.fresh, "--resume": h.resume.Set, "--continue": h.recent,
	}, "--resume", "--continue", "--id", "--new"); err != nil && (h.resume.Set || h.recent) {
		return err
	}
	switch {
	case h.resume.Set:
		if !isTarget(h.resume.Value) { // new is none: there is nothing to go on with
			_, err := convstore.ParseID(h.resume.Value)
			return err
		}
		o.id = h.resume
	case h.recent:
		o.id = maybe[string]{true, "recent"}
	case h.fork:
		return usagef("--fork-session: needs --resume or --continue").withHint("--fork forks this session's active conversation")
	}
	if h.fork {
		if o.fork.Set {
			return errMixed("--fork", "--fork-session")
		}
		o.fork = maybe[int]{true, -1}
	}
	names, err := toolNamesIn("--disallowedTools", h.denied)
	if err != nil {
		return err
	}
	for _, name := range names {
		o.toggles = append(o.toggles, toggle{flag: "--disallowedTools", name: name})
	}
	if h.allowed != nil {
		o.heads.only, err = toolNamesIn("--allowedTools", h.allowed)
	}
	return err
}

// toolNamesIn reads names with commas or spaces between them. What other agents can say and a name cannot is refused.
func toolNamesIn(flag string, texts []string) ([]string, error) {
	names := []string{}
	for _, text := range texts {
		if i := strings.IndexAny(text, "()*?[]"); i >= 0 {
			return nil, usagef("%s %q: %q: only names of tools, no patterns", flag, text, text[i:i+1]).
				withHint("what a tool may do stands in its definition; `jp tool ls` lists the names")
		}
		names = append(names, strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\t' || r == '\n' })...)
	}
	return names, nil
}

// keepOnly are the toggles that leave nothing enabled but what --allowedTools names.
func (q *query) keepOnly(r *profiles.Resolved) ([]toggle, error) {
	const flag = "--allowedTools"
	h := q.o.heads
	if h.only == nil {
		return nil, nil
	}
	var off []toggle
	for name := range r.Tools {
		if name != "*" && !slices.Contains(h.only, name) {
			off = append(off, toggle{flag: flag, name: name})
		}
	}
	for _, name := range h.only {
		if _, ok := r.Tools[name]; !ok {
			return nil, q.errNoTool(flag, name, r)
		}
	}
	slices.SortFunc(off, func(a, b toggle) int { return strings.Compare(a.name, b.name) })
	return off, nil
}

// ownPrompt is what --append-system-prompt adds.
func (h headless) ownPrompt() []model.Section {
	var list []model.Section
	for _, text := range h.prompts {
		list = append(list, model.Section{Text: text})
	}
	return list
}

// foreignFlag tells what stands here for a flag of other agents, "" for all others.
func foreignFlag(spelling string) string {
	switch strings.TrimLeft(spelling, "-") {
	case "dangerously-skip-permissions", "permission-mode", "permission-prompt-tool", "yolo", "full-auto", "approval-mode":
		return "what a tool may do unasked stands in its definition: run and detached; no flag lifts that"
	case "system-prompt", "agent", "agents":
		return "a profile holds prompt, model and tools of an agent: --cfg NAME"
	case "tools":
		return "--allowedTools keeps only what it names of the tools that the config enables"
	case "add-dir":
		return "what a tool can reach stands in its access.fs"
	case "session-id":
		return "jp names conversations itself: session_id in json and stream-json; --resume ID goes on"
	case "include-partial-messages":
		return "stream-json has whole messages"
	}
	return ""
}
