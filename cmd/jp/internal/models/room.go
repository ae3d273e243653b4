package models

import (
	"jp/cmd/jp/internal/model"
	"jp/profiles"
	"jp/tools"
)

// RoomFor returns how many tokens the first request of an agent can have beside its prompt and its
// tools, whichever of its models is asked, before the conversation would be compacted; 0 = not
// known.
func (set *Set) RoomFor(r *profiles.Resolved, defs []tools.Definition, models []string) int64 {
	req := model.Request{System: []model.Section{{Text: r.Config.Assistant.SystemPrompt}}}
	for _, s := range r.Config.Assistant.SystemPromptSections {
		req.System = append(req.System, model.Section{Text: s.Title + s.Content})
	}
	for _, d := range defs {
		req.Tools = append(req.Tools, model.Tool{Name: d.Name, Description: d.Description, Schema: d.Schema})
	}
	least := int64(0)
	for _, id := range models {
		info, err := model.Lookup(id, set.Providers(r.Config))
		if err != nil {
			continue
		}
		if _, limit := Room(r.Config, info); limit > 0 && (least == 0 || limit < least) {
			least = limit
		}
	}
	if least == 0 {
		return 0
	}
	return max(least-req.Estimate(), 1)
}

// compactLimit returns how many tokens a request may have: a share of the window that leaves room
// for the longest reply, but at most a quarter of the window for it. 0 = no limit.
func compactLimit(window, reply int, share float64) int64 {
	return min(int64(float64(window)*share), int64(window-min(reply, window/4)))
}

// Room returns the tokens of a model's window, 0 for unknown, and how many a request to it may
// have.
func Room(cfg profiles.Config, info model.Info) (window int, limit int64) {
	window, reply := info.Window, cfg.Assistant.Parameters.MaxTokens
	if w := cfg.Conversation.Compact.Window; w > 0 {
		window = w
	}
	if info.MaxOutput > 0 {
		reply = info.Output(reply)
	}
	return window, compactLimit(window, reply, cfg.Conversation.Compact.Threshold)
}
