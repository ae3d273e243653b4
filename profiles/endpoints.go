package profiles

import (
	"fmt"
	"slices"

	"jp/profiles/tomldoc"
)

// endpoints checks the tables of [providers.llm], merged from all layers.
func (r *resolver) endpoints() error {
	for _, model := range sortedKeys(r.Config.Providers.Prices) {
		for _, k := range []string{"input", "output"} {
			if _, ok := tomldoc.Lookup(r.machine, []string{"providers", "llm", "prices", model, k}); !ok {
				return r.failAt(k+" is missing", "a price needs input and output", "providers", "llm", "prices", model)
			}
		}
	}
	for _, name := range sortedKeys(r.Config.Providers.LLM) {
		p := r.Config.Providers.LLM[name]
		table := []string{"providers", "llm", name}
		url, urlBy := r.by(append(table, "base_url"))
		key, keyBy := r.by(append(table, "api_key_env"))
		switch name {
		case "anthropic", "gemini", "llamacpp", "ollama", "openai", "openrouter":
		default:
			if p.Type == "" {
				return r.failAt("type is missing", `write type = "openai" for a compatible server`, table...)
			}
			if p.BaseURL == "" {
				return r.failAt("base_url is missing", "", table...)
			}
		}
		// A key goes only to the endpoint of the layer that named it. Otherwise someone who can set
		// one of the two, such as a variable, could have the key sent to a server of their own.
		if p.BaseURL != "" && urlBy != keyBy {
			p.KeyWithheld, p.APIKeyEnv = true, ""
			r.Config.Providers.LLM[name] = p
			switch {
			case keyBy != "":
				r.warn(fmt.Sprintf("%s: no key is sent to this provider: base_url is set in %s, api_key_env in %s; set both in one place", tomldoc.JoinKey(table), url, key))
			case name == "anthropic" || name == "gemini" || name == "openai" || name == "openrouter":
				r.warn(fmt.Sprintf("%s: no key is sent to this provider: %s sets base_url without api_key_env", tomldoc.JoinKey(table), url))
			}
		}
	}
	return nil
}

// by returns where the value at parts was written, and in which of the three sources of machine
// settings; "" when nobody wrote it.
func (r *resolver) by(parts []string) (Position, string) {
	for _, a := range slices.Backward(r.applied) {
		if _, ok := tomldoc.Lookup(a.tree, parts); !ok {
			continue
		}
		switch a.layer.Kind {
		case UserLayer:
			return a.position(parts), "user"
		case EnvLayer:
			return a.position(parts), "environment"
		}
		return a.position(parts), "command line"
	}
	return Position{}, ""
}

func (r *resolver) failAt(msg, hint string, key ...string) error {
	at := r.where(key...)
	return &Error{File: at.File, Line: at.Line, Layer: at.Layer, Key: tomldoc.JoinKey(key), Msg: msg, Hint: hint}
}
