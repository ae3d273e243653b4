package cli

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/wording"
	"jp/profiles"
)

// toggle turns --tool, --no-tool and their like into config.
func (q *query) toggle(r *profiles.Resolved) ([]profiles.Directive, error) {
	only, err := q.keepOnly(r)
	if err != nil {
		return nil, err
	}
	var ds []profiles.Directive
	for _, t := range slices.Concat(q.o.toggles, only) {
		flag, names := t.flag, []string{t.name}
		if t.name == "" {
			if err := q.meantOne(r, t); err != nil {
				return nil, err
			}
			names = names[:0]
			for name := range r.Tools {
				if name != "*" {
					names = append(names, name)
				}
			}
			slices.Sort(names)
		} else if _, ok := r.Tools[t.name]; !ok {
			return nil, q.errNoTool(flag, t.name, r)
		}
		for _, n := range names {
			if strings.ContainsFunc(n, func(r rune) bool { return r < ' ' || r == '"' || r == '\\' || r == 0x7f }) {
				return nil, exit.Usagef("%s: %q is no name of a tool", flag, n)
			}
			ds = append(ds, profiles.Directive{Flag: flag, Text: fmt.Sprintf("conversation.tools.\"%s\".enable:=%v", n, t.on)})
		}
	}
	return ds, nil
}

// meantOne refuses a flag for all tools where the first word is the name of one.
func (q *query) meantOne(r *profiles.Resolved, t toggle) error {
	if len(q.o.words) == 0 || q.app.plain == 0 {
		return nil
	}
	name := q.o.words[0]
	if _, ok := r.Tools[name]; !ok || name == "*" {
		return nil
	}
	return exit.Usagef("%s: means all tools, and takes no name", t.flag).
		WithHint("%s %s for that one; -- %s if it is a word of the question", wording.Either(t.on, "--tool", "--no-tool"), name, name)
}

// errNoTool says that no tool of a name is configured, and what may have been meant.
func (q *query) errNoTool(flag, name string, r *profiles.Resolved) error {
	return q.app.env.UnknownTool(exit.NotFoundf("%s: no tool %q is configured here", flag, name), name, slices.Collect(maps.Keys(r.Tools)),
		wording.Either(strings.HasPrefix(flag, "--no-"), "--no-tools disables all", "`jp tool ls` lists what is enabled"))
}
