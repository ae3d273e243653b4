package review

import (
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/wording"
	"jp/profiles"
	"jp/profiles/tomldoc"
	"jp/tools/files"
)

// SettingGrant is a setting of a workspace that no line about its tools says.
type SettingGrant struct {
	Key     string `json:"key"`
	Value   any    `json:"value"`
	Default any    `json:"default"` // value without the workspace; null: none
}

// settingsShown are the settings of a config that files of the workspace give, as far as no other
// line of the page says them: limits above those without the workspace, other models, and every key
// of a tool's table that is not in the line of a tool that the agent holds. tools are those lines.
// base are the values without the workspace; userDir is the folder of the user's own config.
func settingsShown(r *profiles.Resolved, base map[string]any, userDir string, tools []ToolGrant) []SettingGrant {
	held := map[string]bool{}
	for _, t := range tools {
		held[t.Name] = t.Held != ByNobody
	}
	values := r.Keys()
	byWorkspace := func(v profiles.Value) bool {
		file := v.Origin.File
		return !v.Default && !v.Machine && filepath.IsAbs(file) && (userDir == "" || !files.Inside(userDir, file))
	}
	defined := map[string]bool{} // tools that the workspace itself defines
	for _, v := range values {
		if name, key, ok := ofTool(v.Key); ok && (key == "source" || strings.HasPrefix(key, "command")) && byWorkspace(v) {
			defined[name] = true
		}
	}
	var list []SettingGrant
	for _, v := range values {
		if !byWorkspace(v) || reflect.DeepEqual(v.Value, base[v.Key]) {
			continue
		}
		name, key, ok := ofTool(v.Key)
		show := ok && !(held[name] && (inLine(key) || defined[name])) && key != "description" && !(key == "enable" && v.Value == false)
		if !ok {
			show = widens(v.Key, v.Value, base[v.Key])
		}
		if show {
			list = append(list, SettingGrant{v.Key, v.Value, base[v.Key]})
		}
	}
	return list
}

// ofTool takes the key of a tool's table apart; ok is false for every other key.
func ofTool(key string) (name, rest string, ok bool) {
	parts, ok := tomldoc.SplitKey(key)
	if !ok || len(parts) < 4 || parts[0] != "conversation" || parts[1] != "tools" {
		return "", "", false
	}
	return parts[2], strings.Join(parts[3:], "."), true
}

// inLine reports whether the line of a tool says what a key of its table means.
func inLine(key string) bool {
	first, _, _ := strings.Cut(key, ".")
	return slices.Contains([]string{"enable", "source", "command", "run", "sandbox", "network", "access", "env"}, first) || key == "detached" || key == "detached.tool"
}

// widens reports whether a setting that is not of a tool lets an agent do or spend more than its
// value without the workspace, or names another model.
func widens(key string, v, base any) bool {
	switch {
	case strings.HasPrefix(key, "providers.llm.aliases."), key == "conversation.title.model", key == "conversation.compact.model",
		key == "delegation.models", key == "delegation.context_tool", key == "delegation.llm_query.tools":
		return true
	case key == "delegation.enabled":
		return v == true
	case key == "style.tool_call.show":
		return v == false
	case strings.HasPrefix(key, "assistant.parameters."):
		return key != "assistant.parameters.temperature"
	case strings.HasPrefix(key, "assistant.request."):
		none := v == int64(0) || v == "0s" || v == "0"
		return above(v, base) || none && strings.Contains(key, "timeout")
	case strings.HasPrefix(key, "delegation."), key == "conversation.max_turns", key == "conversation.tools.parallel":
		return above(v, base)
	}
	return false
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
	return s.Key + " = " + text(s.Value) + wording.Either(s.Default == nil, "", " (without it "+text(s.Default)+")")
}
