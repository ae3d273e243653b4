package run

import (
	"context"
	"slices"

	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/rule"
	"jp/convstore"
	"jp/profiles"
)

// budget returns what the session of this run may use; nil in a delegated conversation, which has a
// grant. A turn that is resumed keeps its limits, which cfg can only lower; cfg then has its rounds.
func (r *Run) budget(ctx context.Context, cfg *profiles.Config) (*convstore.Limits, error) {
	if r.Delegated() || r.hand != nil {
		return nil, nil
	}
	session := rule.SessionLimits(*cfg, rule.LimitsOf(*cfg, 0)).With(convstore.Change{Run: r.req.Bounds})
	session.Rounds = new(int64(cfg.Conversation.MaxTurns))
	if r.Resumes() && r.Conv.Status == convstore.StatusInterrupted && r.locked() != nil {
		account, err := r.Store.Account(ctx, r.Conv.ID)
		if err != nil {
			return nil, err
		}
		session = *account.Limits.Narrow(session)
		cfg.Conversation.MaxTurns = int(*session.Rounds)
	}
	return &session, nil
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
