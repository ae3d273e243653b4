package openai

import (
	"jp/cmd/jp/internal/model"
	"jp/convstore"
)

// tally is the most that a server reports for one reply. Some report what was used so far in each
// event; none reports what was added. The zero value is that of a server that reports nothing.
type tally struct {
	any                          bool
	input, output, total, cached int64
	written, created             int64 // to a cache, of the prompt; and where nothing says whether of it
	cost                         *int64
}

// add takes what an event says.
func (t *tally) add(u *usage) {
	if u == nil {
		return
	}
	t.any = true
	t.input = max(t.input, u.Prompt.N, u.Input.N)
	t.output = max(t.output, u.Completion.N, u.Output.N)
	t.total = max(t.total, u.Total.N)
	t.created = max(t.created, u.Created.N)
	for _, d := range []inputDetails{u.PromptDetails, u.InputDetails} {
		t.cached, t.written = max(t.cached, d.Cached.N), max(t.written, d.CacheWrite.N, d.Created.N, d.NewAPI.N, d.Alibaba.N)
	}
	if cost := u.Paid(); t.cost == nil || cost != nil && *cost > *t.cost {
		t.cost = cost
	}
}

// counts reports whether the usage is that of a reply, and not only of its beginning.
func (u *usage) counts() bool { return u != nil && max(u.Completion.N, u.Output.N) > 0 }

// used returns the usage and the cost, nil if none was reported. Some vendors, such as xAI, count
// reasoning apart from the output, and only the total says what is paid.
func (t *tally) used() *model.Part {
	if !t.any {
		return nil
	}
	u := convstore.Usage{Input: fresh(t.input, t.cached, t.written), CacheRead: t.cached, CacheWrite: max(t.written, t.created)}
	u.Output = max(t.output, t.total-u.Input-u.CacheRead-u.CacheWrite)
	return &model.Part{Cost: t.cost, Usage: model.Tokens(u)}
}

// fresh returns the tokens of a prompt without cache reads and writes. Most servers count these in
// the prompt, some count them apart.
func fresh(prompt, cached, written int64) int64 {
	if n := prompt - cached - written; n >= 0 {
		return n
	}
	return prompt
}
