package foreign

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v4"

	"jp/profiles/tomldoc"
)

// rule is one of opencode's rules of permission.
type rule struct {
	action   string // name of a tool, perhaps with * and ?
	resource string // path or the like; "*" = any
	effect   string // allow, ask or deny
}

func (r rule) String() string {
	if r.resource == "*" {
		return r.action
	}
	return r.action + "(" + r.resource + ")"
}

// pair is a key with its value, a text or []pair, in a table whose order counts.
type pair struct {
	key   string
	value any
}

func inOrder(n *yaml.Node) any {
	switch n.Kind {
	case yaml.MappingNode:
	case yaml.ScalarNode:
		return n.Value
	default:
		return nil
	}
	list := []pair{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		list = append(list, pair{n.Content[i].Value, inOrder(n.Content[i+1])})
	}
	return list
}

// rulesOf reads permission and permissions, both in any of their forms: a text for all tools, a text
// or table for each, or the list of rules of opencode V2.
func rulesOf(v any) (rules []rule, err error) {
	tools, ok := v.([]pair)
	switch v := v.(type) {
	case nil:
		return nil, nil
	case []any:
		return ruleList(v)
	case string:
		if v == "" {
			return nil, nil
		}
		tools, ok = []pair{{"*", v}}, isEffect(v)
	}
	if !ok {
		return nil, errors.New("must be allow, ask or deny, have a key for each tool, or be a list of rules")
	}
	for _, t := range tools {
		parts, ok := t.value.([]pair)
		if !ok {
			parts = []pair{{"*", t.value}}
		}
		for _, p := range parts {
			effect, _ := p.value.(string)
			if !isEffect(effect) {
				return nil, fmt.Errorf("%s: must be allow, ask or deny", tomldoc.String(t.key))
			}
			rules = append(rules, rule{t.key, p.key, effect})
		}
	}
	return checkActions(rules)
}

func ruleList(list []any) (rules []rule, err error) {
	for _, item := range list {
		m, _ := item.(map[string]any)
		action, _ := m["action"].(string)
		resource, _ := m["resource"].(string)
		effect, _ := m["effect"].(string)
		if action == "" || resource == "" || !isEffect(effect) {
			return nil, errors.New("each must have an action, a resource and an effect")
		}
		rules = append(rules, rule{action, resource, effect})
	}
	return checkActions(rules)
}

func isEffect(s string) bool { return s == "allow" || s == "ask" || s == "deny" }

// checkActions refuses rules whose action names no tools, and drops those of them that allow: they
// allow nothing here.
func checkActions(rules []rule) ([]rule, error) {
	rules = slices.DeleteFunc(rules, func(r rule) bool { return r.effect == "allow" && !isName(r.action) })
	var names []string
	for _, r := range rules {
		names = append(names, r.action)
	}
	return rules, checkNames(names)
}

// permit applies rules, of which the last that matches counts. A profile has no rule for a part of
// a tool: a part that is denied denies the tool, and a part that is allowed does not allow it. If
// the rules deny what they do not name, what they allow is the list of tools.
func (f *Agent) permit(rules []rule) {
	here := toolNames[f.Format]
	var allowed, partly []string
	none := false
	for _, tool := range append(slices.Sorted(maps.Keys(here)), "") { // "" is what no rule names
		action := tool
		if here[tool] == "fs_create_file" || here[tool] == "fs_modify_file" {
			action = "edit"
		}
		no, denied := "", ""       // rule that denies it; the same for this tool alone
		named, ask := false, false // it is allowed by name, at least in part
		for _, r := range rules {
			match := match(r.action, action)
			switch {
			case r.action == tool && tool != action:
				if r.effect == "deny" {
					f.denied = append(f.denied, r.String())
				}
			case match && r.effect == "deny":
				no, ask = r.String(), false
				denied = rule{action, r.resource, r.effect}.String()
				named = named && r.resource != "*"
			case match && r.resource == "*":
				no, named, ask = "", r.action != "*", r.effect == "ask"
			case match:
				named, ask = r.action != "*", ask || r.effect == "ask"
			}
		}
		switch {
		case no == "*":
			none = none || tool == ""
		case no != "" && tool != "":
			f.denied = append(f.denied, denied)
		}
		if named && no == "" {
			allowed = append(allowed, tool)
		} else if named {
			partly = append(partly, tool)
		}
		if ask {
			f.ask = append(f.ask, tool)
		}
	}
	if !none {
		return
	}
	if f.Listed {
		f.Tools = slices.DeleteFunc(f.Tools, func(t string) bool {
			gone := here[t] != "" && !slices.Contains(allowed, t)
			if gone {
				f.Notes = append(f.Notes, "the tool "+t+", because the file forbids *")
			}
			return gone
		})
		return
	}
	f.Tools, f.Listed = allowed, true
	for _, tool := range partly {
		f.Notes = append(f.Notes, "the tool "+tool+", because the file allows a part of it")
	}
	for _, r := range rules {
		switch {
		case strings.ContainsAny(r.action, "*?") || r.effect == "deny" || slices.Contains(append(partly, f.Tools...), r.action):
		case here[r.action] != "":
			f.Notes = append(f.Notes, "the tool "+r.action+", because the file forbids *")
		default:
			f.Tools = append(f.Tools, r.action) // said to be left out
		}
	}
}
