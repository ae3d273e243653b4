package review

import (
	"path/filepath"
	"strings"
	"time"

	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/wording"
	"jp/profiles"
	"jp/tools/files"
)

// SettingGrant is a setting of a workspace that reaches further than tools do.
type SettingGrant struct {
	Key     string `json:"key"`
	Value   any    `json:"value"`
	Default any    `json:"default"` // null: none
}

// settingsShown returns the other models that a config of the workspace names, and its limits above
// the default. It omits settings of the user's own config and of built-in profiles.
func settingsShown(r *profiles.Resolved, userDir string) []SettingGrant {
	defaults := map[string]any{}
	for _, s := range profiles.Settings() {
		defaults[s.Key] = s.Default
	}
	defaults["delegation.max_depth"] = int64(1)
	var list []SettingGrant
	for _, v := range r.Keys() {
		file := v.Origin.File
		if v.Default || v.Machine || !filepath.IsAbs(file) || userDir != "" && files.Inside(userDir, file) {
			continue
		}
		switch key := v.Key; {
		case strings.HasPrefix(key, "providers.llm.aliases."), key == "conversation.title.model", key == "conversation.compact.model",
			key == "delegation.models", key == "delegation.context_tool", key == "delegation.llm_query.tools":
			list = append(list, SettingGrant{key, v.Value, nil})
		case strings.HasPrefix(key, "delegation."), key == "conversation.max_turns", key == "conversation.tools.parallel",
			key == "assistant.request.max_retries", key == "assistant.request.max_response_bytes":
			if above(v.Value, defaults[key]) {
				list = append(list, SettingGrant{key, v.Value, defaults[key]})
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

// quantity returns a number or a duration as a number.
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

func (s SettingGrant) text() string {
	text := func(v any) string {
		b, err := console.EncodeJSON(v, false)
		if err != nil {
			return "?"
		}
		return strings.TrimSuffix(string(b), "\n")
	}
	return s.Key + " = " + text(s.Value) + wording.Either(s.Default == nil, "", " (default "+text(s.Default)+")")
}
