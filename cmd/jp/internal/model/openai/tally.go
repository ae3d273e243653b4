package openai

import (
	"cmp"
	"encoding/json"
	"math"

	"jp/cmd/jp/internal/model"
	"jp/convstore"
)

// tally is the usage that a server reports for one reply. The zero value is that of a server that
// reports none.
type tally struct {
	any                                   bool
	input, output, total, cached, written int64
	cost                                  *int64
}

// add takes what an event says.
func (t *tally) add(u *usage) {
	if u == nil {
		return
	}
	*t = tally{true, cmp.Or(u.Prompt.N, u.Input.N), cmp.Or(u.Completion.N, u.Output.N), u.Total.N,
		cmp.Or(u.PromptDetails.Cached.N, u.InputDetails.Cached.N), cmp.Or(u.PromptDetails.CacheWrite.N, u.InputDetails.CacheWrite.N), dollars(u.Cost)}
}

// used returns the usage and the cost, nil if none was reported. Some vendors, such as xAI, count
// reasoning apart from the output, and only the total says what is paid.
func (t *tally) used() *model.Part {
	if !t.any {
		return nil
	}
	return &model.Part{Cost: t.cost, Usage: model.Tokens(convstore.Usage{
		Input: fresh(t.input, t.cached, t.written), Output: max(t.output, t.total-t.input), CacheRead: t.cached, CacheWrite: t.written,
	})}
}

// fresh returns the tokens of a prompt without cache reads and writes. Most servers count these in
// the prompt, some count them apart.
func fresh(prompt, cached, written int64) int64 {
	if n := prompt - max(cached, 0) - max(written, 0); n >= 0 {
		return n
	}
	return prompt
}

// dollars returns OpenRouter's usage.cost in nano-dollars; nil if there is no valid one.
func dollars(raw json.RawMessage) *int64 {
	var usd *float64
	if json.Unmarshal(raw, &usd) != nil || usd == nil || !(*usd >= 0 && *usd < 1e6) {
		return nil
	}
	nano := int64(math.Round(*usd * 1e9))
	return &nano
}
