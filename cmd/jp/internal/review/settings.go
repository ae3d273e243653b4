package review

import (
	"slices"
	"strings"

	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/wording"
	"jp/profiles"
)

// SettingGrant is a setting of a workspace that no line about its tools says.
type SettingGrant struct {
	Key     string `json:"key"`
	Value   any    `json:"value"`
	Default any    `json:"default"` // value without the workspace; null: none
}

// settingsShown are the settings that files of the workspace give to an agent, as far as no other
// line of the page says them: limits above those without the workspace, other models, and every key
// of a tool's table that is not in the line of a tool that the agent holds. tools are those lines.
// loosened are all of them, with those that the lines of the model and of the profiles say.
func settingsShown(brought []profiles.Brought, tools []ToolGrant) (list []SettingGrant, loosened []profiles.Brought) {
	held, defined := map[string]bool{}, map[string]bool{} // defined: the workspace says what runs
	for _, t := range tools {
		held[t.Name] = t.Held != ByNobody
	}
	for _, b := range brought {
		if name, key, ok := ofTool(b.Key); ok && strings.HasPrefix(key, "command") {
			defined[name] = true
		}
	}
	list = []SettingGrant{}
	for _, b := range brought {
		name, key, ok := ofTool(b.Key)
		show := ok && !(held[name] && (inLine(key) || defined[name])) && !(key == "description" && defined[name]) && !(key == "enable" && b.Value.Value == false)
		hasLine := b.Key == "assistant.model" || b.Key == "delegation.profiles"
		if !ok {
			show = hasLine || loosens(b)
		}
		if !show {
			continue
		}
		loosened = append(loosened, b)
		if !hasLine {
			list = append(list, SettingGrant{b.Key, b.Value.Value, b.Own})
		}
	}
	return list, loosened
}

// inLine reports whether the line of a tool says what a key of its table means.
func inLine(key string) bool {
	first, _, _ := strings.Cut(key, ".")
	return slices.Contains([]string{"enable", "source", "command", "run", "sandbox", "network", "access", "env"}, first) || key == "detached" || key == "detached.tool"
}

// text returns the value, and the one without the workspace.
func (s SettingGrant) text() string {
	return wording.Either(s.Value == nil, "not set", asJSON(s.Value)) + wording.Either(s.Default == nil, "", " (without it "+asJSON(s.Default)+")")
}

func asJSON(v any) string {
	b, err := console.EncodeJSON(v, false)
	if err != nil {
		return "?"
	}
	return strings.TrimSuffix(string(b), "\n")
}
