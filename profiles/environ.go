package profiles

import (
	"strings"

	"jp/profiles/tomldoc"
	"jp/tools/suggest"
)

const (
	cfgPrefix      = "JP_CFG_"
	subCallsPrefix = "JP_SUB_CALLS_"
)

// subCalls maps the short variables of delegation to their keys.
func subCalls() map[string]string {
	return map[string]string{
		"ENABLED":              "enabled",
		"MAX_PER_TURN":         "max_per_turn",
		"BUDGET_INHERITANCE":   "budget_inheritance",
		"MAX_COST_PER_SESSION": "max_cost_per_session",
		"MAX_DEPTH":            "max_depth",
		"TOKEN_BUDGET":         "token_budget",
	}
}

// environment is environ as a map. Of a name that is there twice the last counts, as for a started
// program.
func environment(environ []string) map[string]string {
	env := make(map[string]string, len(environ))
	for _, e := range environ {
		if k, v, ok := strings.Cut(e, "="); ok {
			env[k] = v
		}
	}
	return env
}

// variables turns JP_SUB_CALLS_* and JP_CFG_* into documents, one for each variable, the more
// general JP_CFG_* last so that they win. A variable that is set to nothing counts as not set. With
// machineOnly only machine settings are read; mistakes in others do not count. JP_SUB_CALLS_* are not stored.
func (s *schema) variables(env map[string]string, machineOnly bool) ([]*document, error) {
	var docs []*document
	names := sortedKeys(env)
	for _, prefix := range []string{subCallsPrefix, cfgPrefix} {
		for _, name := range names {
			rest, ok := strings.CutPrefix(name, prefix)
			if !ok || env[name] == "" {
				continue
			}
			key, err := variableKey(name, prefix, rest)
			if row, _, _ := s.find(key); machineOnly && (err != nil || row == nil || row.class != machine) {
				continue
			}
			if err != nil {
				return nil, err
			}
			value, json := strings.CutPrefix(env[name], ":")
			if prefix == subCallsPrefix {
				value, json = env[name], false
			}
			d, err := s.assignment(Layer{Kind: EnvLayer, Name: name}, key, value, json)
			if err != nil {
				return nil, err
			}
			d.once = prefix == subCallsPrefix
			docs = append(docs, d)
		}
	}
	return docs, nil
}

func variableKey(name, prefix, rest string) ([]string, error) {
	if prefix == subCallsPrefix {
		if key := subCalls()[rest]; key != "" {
			return []string{"delegation", key}, nil
		}
		hint := suggest.Meant("did you mean "+prefix+"%s?", rest, sortedKeys(subCalls()))
		return nil, &Error{Layer: tomldoc.QuotePart(name), Msg: "unknown variable", Hint: hint}
	}
	key, ok := tomldoc.SplitKey(strings.ReplaceAll(strings.ToLower(rest), "__", "."))
	if !ok {
		return nil, &Error{Layer: tomldoc.QuotePart(name), Msg: "names no key", Hint: "write __ between the levels of a key, as in JP_CFG_ASSISTANT__MODEL"}
	}
	return key, nil
}
