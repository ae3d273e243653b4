package run

import (
	"jp/cmd/jp/internal/model"
	"jp/profiles"
	"jp/tools"
)

// roomFor returns how many tokens the first request of an agent can have beside its prompt and its
// tools, whichever of its models is asked, before the conversation would be compacted; 0 = not known.
func (env *Env) roomFor(r *profiles.Resolved, defs []tools.Definition, models []string) int64 {
	req := model.Request{System: []model.Section{{Text: r.Config.Assistant.SystemPrompt}}}
	for _, s := range r.Config.Assistant.SystemPromptSections {
		req.System = append(req.System, model.Section{Text: s.Title + s.Content})
	}
	for _, d := range defs {
		req.Tools = append(req.Tools, model.Tool{Name: d.Name, Description: d.Description, Schema: d.Schema})
	}
	least := int64(0)
	for _, id := range models {
		info, err := model.Lookup(id, env.Providers(r.Config))
		if err != nil {
			continue
		}
		if _, limit := room(r.Config, info); limit > 0 && (least == 0 || limit < least) {
			least = limit
		}
	}
	if least == 0 {
		return 0
	}
	return max(least-req.Estimate(), 1)
}
