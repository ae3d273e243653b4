package run

import (
	"slices"

	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/rule"
	"jp/convstore"
	"jp/profiles"
)

// budget returns what the session of this run may use; nil in a delegated conversation, which has a
// grant.
func (r *Run) budget(cfg profiles.Config) *convstore.Limits {
	if r.Delegated() || r.hand != nil {
		return nil
	}
	return new(rule.SessionLimits(cfg, rule.LimitsOf(cfg, 0)).With(convstore.Change{Run: r.req.Bounds}))
}

// boundable refuses --max-cost for a model whose price is unknown.
func (req *Request) boundable(info model.Info) error {
	if req.Bounds.CostNano == nil || info.Price != nil {
		return nil
	}
	return exit.Refusedf("--max-cost: the price of the model %s is not known", info.ID).
		WithHint("give it in [providers.llm.prices] of the user's config.toml, or leave --max-cost out")
}

// sees refuses images for a model that takes none. It is called before anything is stored.
func (req *Request) sees(info model.Info) error {
	if info.Images {
		return nil
	}
	for _, a := range slices.Backward(req.Task.Attachments) {
		if len(a.Data) > 0 {
			return exit.Usagef("--attachment: %s: the model %s takes no images", a.Source, info.ID)
		}
	}
	return nil
}
