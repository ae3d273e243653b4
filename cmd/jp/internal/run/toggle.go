package run

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"jp/cmd/jp/internal/enabled"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/wording"
	"jp/profiles"
)

// Toggle is one --tool, --no-tool, --all-tools or --no-tools, in order. An empty name means all
// tools.
type Toggle struct {
	Flag string
	Name string
	On   bool
}

// toggle turns --tool, --no-tool, --all-tools and --no-tools into config.
func (o *opening) toggle(r *profiles.Resolved) ([]profiles.Directive, error) {
	only, err := o.keepOnly(r)
	if err != nil {
		return nil, err
	}
	var ds []profiles.Directive
	for _, t := range slices.Concat(o.req.Toggles, only) {
		flag, names := t.Flag, []string{t.Name}
		if t.Name == "" {
			if err := o.meantOne(r, t); err != nil {
				return nil, err
			}
			names = names[:0]
			for name := range r.Tools {
				if name != "*" {
					names = append(names, name)
				}
			}
			slices.Sort(names)
		} else if _, ok := r.Tools[t.Name]; !ok {
			return nil, o.errNoTool(flag, t.Name, r)
		}
		for _, n := range names {
			if strings.ContainsFunc(n, func(r rune) bool { return r < ' ' || r == '"' || r == '\\' || r == 0x7f }) {
				return nil, exit.Usagef("%s: %q is not the name of a tool", flag, n)
			}
			ds = append(ds, profiles.Directive{Flag: flag, Text: fmt.Sprintf("conversation.tools.\"%s\".enable:=%v", n, t.On)})
		}
	}
	return append(ds, withoutOff(r, slices.Concat(o.req.Toggles, only))...), nil
}

// withoutOff takes tools that a flag disables from the sub-agents that llm_query and
// specializations start, too: these hold what delegation.llm_query.tools names, enabled or not.
func withoutOff(r *profiles.Resolved, toggles []Toggle) []profiles.Directive {
	held := r.Config.Delegation.LLMQuery.Tools
	left := slices.DeleteFunc(slices.Clone(held), func(name string) bool {
		off := false
		for _, t := range toggles { // the last one counts
			if t.Name == name || t.Name == "" {
				off = !t.On
			}
		}
		return off
	})
	if len(left) == len(held) {
		return nil
	}
	text, _ := json.Marshal(append([]string{}, left...)) // names are always JSON
	return []profiles.Directive{{Flag: toggles[len(toggles)-1].Flag, Text: "delegation.llm_query.tools:=" + string(text)}}
}

// meantOne refuses a flag for all tools if the first word of the request is the name of a tool.
func (o *opening) meantOne(r *profiles.Resolved, t Toggle) error {
	name := o.req.Word
	if _, ok := r.Tools[name]; !ok || name == "*" {
		return nil
	}
	return exit.Usagef("%s: means all tools, and takes no name", t.Flag).
		WithHint("%s %s for that one; -- %s if it is a word of the question", wording.Either(t.On, "--tool", "--no-tool"), name, name)
}

// errNoTool returns the error for a tool that is not configured, with the name that may have been
// meant.
func (o *opening) errNoTool(flag, name string, r *profiles.Resolved) error {
	return enabled.UnknownTool(o.env.WS, exit.NotFoundf("%s: no tool %q is configured here", flag, name), name, slices.Collect(maps.Keys(r.Tools)),
		wording.Either(strings.HasPrefix(flag, "--no-"), "--no-tools disables all", "`jp tool ls` lists what is enabled"))
}

// keepOnly returns toggles that disable every tool that --allowedTools does not name.
func (o *opening) keepOnly(r *profiles.Resolved) ([]Toggle, error) {
	const flag = "--allowedTools"
	if o.req.Only == nil {
		return nil, nil
	}
	var off []Toggle
	for name := range r.Tools {
		if name != "*" && !slices.Contains(o.req.Only, name) {
			off = append(off, Toggle{Flag: flag, Name: name})
		}
	}
	for _, name := range o.req.Only {
		if _, ok := r.Tools[name]; !ok {
			return nil, o.errNoTool(flag, name, r)
		}
	}
	slices.SortFunc(off, func(a, b Toggle) int { return strings.Compare(a.Name, b.Name) })
	return off, nil
}
