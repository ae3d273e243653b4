package agent

import (
	"context"
	"iter"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"jp/cmd/jp/internal/model"
	"jp/convstore"
)

func some(n int64) *int64 { return &n }

// pricey is a model at 3 nano-dollars a token of input, 4 when it is cached, and 10 of output.
func pricey() *model.Price { return &model.Price{Input: 3, CacheWrite: 4, Output: 10} }

// worth is a request whose bound is so many tokens, at least 9: a digit is one, and a message 8.
func worth(tokens int) model.Request {
	return model.Request{Messages: []model.Message{{Role: model.User, Content: []model.Content{{Text: strings.Repeat("7", tokens-8)}}}}}
}

func TestAfford(t *testing.T) {
	unknown := int64(model.Info{}.Output(0))
	for _, test := range []struct {
		name      string
		left      convstore.Budget
		priced    bool
		own       int // max_tokens of the config
		closing   bool
		told      []int64 // what calls have cost by their server, before
		out, send int64   // the bound of the output, and the request's max_tokens
		stop      string  // why not
	}{
		{name: "unlimited", out: unknown},
		{name: "unlimited, with a limit of its own", own: 500, out: 500, send: 500},
		{name: "plenty of tokens", left: convstore.Budget{Tokens: some(100_000)}, out: unknown, send: unknown},
		{name: "cut to what is left", left: convstore.Budget{Tokens: some(4000)}, out: 1976, send: 1976},
		{name: "just enough", left: convstore.Budget{Tokens: some(2280)}, out: 256, send: 256},
		{name: "one too few", left: convstore.Budget{Tokens: some(2279)}, stop: "token budget 9000"},
		{name: "none left", left: convstore.Budget{Tokens: some(-5)}, stop: "token budget 9000"},
		{name: "a short reply fits", left: convstore.Budget{Tokens: some(2124)}, own: 100, out: 100, send: 100},
		{name: "money", left: convstore.Budget{CostNano: some(24_240)}, priced: true, out: 1000, send: 1000},
		{name: "money, a little less", left: convstore.Budget{CostNano: some(24_239)}, priced: true, out: 999, send: 999},
		{name: "too little money", left: convstore.Budget{CostNano: some(16_000)}, priced: true, stop: "cost budget 0.5 USD"},
		{name: "money, no price", left: convstore.Budget{CostNano: some(1)}, out: unknown},
		{name: "money, no price, told", left: convstore.Budget{CostNano: some(800)}, told: []int64{400, 7}, out: unknown},
		{name: "money, no price, too little by what was told", left: convstore.Budget{CostNano: some(799)}, told: []int64{400, 7}, stop: "cost budget 0.5 USD"},
		{name: "closing, no price, told", left: convstore.Budget{CostNano: some(400)}, told: []int64{400, 7}, closing: true, out: 1024, send: 1024},
		{name: "closing, no price, too little by what was told", left: convstore.Budget{CostNano: some(399)}, told: []int64{400, 7}, closing: true, stop: "cost budget 0.5 USD"},
		{name: "closing", left: convstore.Budget{Tokens: some(2000)}, closing: true, out: 1000, send: 1000},
		{name: "closing, unlimited", closing: true, out: 1024, send: 1024},
		{name: "closing with too little", left: convstore.Budget{Tokens: some(1063)}, closing: true, stop: "token budget 9000"},
	} {
		l := Loop{Models: make([]Model, 1)}
		if test.priced {
			l.Models[0].Price = pricey()
		}
		a := l.newAsker(&history{}, &bill{})
		for _, n := range test.told {
			a.history.events = append(a.history.events, convstore.Event{Body: convstore.ModelCall{CostNano: some(n)}})
		}
		req := worth(1000)
		req.MaxTokens = test.own
		acc := convstore.Account{Left: test.left, Limit: convstore.Budget{Tokens: some(9000), CostNano: some(5e8)}}
		in, out, stop := a.afford(acc, &req, test.closing)
		if stop != nil && len(test.told) > 0 {
			in.Tokens = 1000 // not reckoned
		}
		reason := ""
		if stop != nil {
			reason = stop.reason
		}
		if in.Tokens != 1000 || out != test.out || reason != test.stop || stop == nil && int64(req.MaxTokens) != test.send {
			t.Errorf("%s: in %d, out %d of at most %d, %q; want %d of at most %d, %q", test.name, in.Tokens, out, req.MaxTokens, reason, test.out, test.send, test.stop)
		}
	}
}

// TestClosingLeavesOutOldResults: what does not fit is left out of the closing call, oldest first.
func TestClosingLeavesOutOldResults(t *testing.T) {
	req := worth(100)
	for _, n := range []int{3000, 20, 6000, 900} {
		req.Messages = append(req.Messages, model.Message{Role: model.ToolRole, Content: []model.Content{{Result: &model.CallResult{Text: strings.Repeat("r", n)}}}})
	}
	a := (&Loop{Models: make([]Model, 1)}).newAsker(&history{}, &bill{})
	in, out, stop := a.afford(convstore.Account{Left: convstore.Budget{Tokens: some(1200)}}, &req, true)
	if stop != nil || out < closingLeast || in.Tokens+out > 1200 {
		t.Fatalf("in %d, out %d, %v", in, out, stop)
	}
	for i, want := range []string{"[3000 bytes left out to stay within the budget]", strings.Repeat("r", 20), "[6000 bytes left out to stay within the budget]", strings.Repeat("r", 900)} {
		if got := req.Messages[i+1].Content[0].Result.Text; got != want {
			t.Errorf("result %d is %.60q, want %.60q", i, got, want)
		}
	}
}

// TestAsideOfAWriter: what another model than the turn's writes leaves what the closing call of the
// turn needs, at the price of the model that makes it.
func TestAsideOfAWriter(t *testing.T) {
	for _, tt := range []struct {
		name string
		main *model.Price
		want int64
	}{{"a dearer model", &model.Price{Output: 1000}, 1000 * closingTokens}, {"the same", pricey(), 10 * closingTokens}} {
		var aside convstore.Budget
		r := newRun(t, "[[rule]]\ntext = \"t\"")
		r.send(t.Context(), "go")
		r.loop.Models[0].Price = tt.main
		h, err := readHistory(t.Context(), r.loop.Log)
		if err != nil {
			t.Fatal(err)
		}
		left := int64(100_000) + tt.want // for the writer's call, when that is set aside
		if err := r.loop.Log.Limit(t.Context(), convstore.Limits{Run: convstore.Budget{CostNano: &left}}); err != nil {
			t.Fatal(err)
		}
		w := Writer{Ask: r.loop.Models[0].Ask, Model: "script/w", Name: "w", Price: pricey()}
		ask := w.Ask
		w.Ask = func(ctx context.Context, req model.Request) iter.Seq2[model.Part, error] {
			most := pricey().Most((&model.Meter{}).Bound(req), int64(req.MaxTokens))
			aside.CostNano = some(left - most)
			return ask(ctx, req)
		}
		if _, _, err := r.loop.newAsker(h, &bill{}).consult(t.Context(), "title", w, worth(1000)); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if got := *aside.CostNano; got < tt.want || got > tt.want+10 {
			t.Errorf("%s: %d nano-dollars are left for the closing call, want %d", tt.name, got, tt.want)
		}
	}
}

// TestBilledThoughFree: a model that costs nothing, whose server bills all the same, is asked as
// long as the rest is enough for two more of its dearest calls: the next one, and the closing call.
func TestBilledThoughFree(t *testing.T) {
	for _, price := range []*model.Price{nil, {}} {
		r := newRun(t, "[[rule]]\ntext = \"t\"")
		r.send(t.Context(), "go")
		ask := r.loop.Models[0].Ask
		r.loop.Models[0].Price, r.loop.Models[0].Ask = price, func(ctx context.Context, req model.Request) iter.Seq2[model.Part, error] {
			return func(yield func(model.Part, error) bool) {
				for p, err := range ask(ctx, req) {
					if p.Usage != nil {
						p.Cost = some(400)
					}
					if !yield(p, err) {
						return
					}
				}
			}
		}
		h, err := readHistory(t.Context(), r.loop.Log)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.loop.Log.Limit(t.Context(), convstore.Limits{Run: convstore.Budget{CostNano: some(1900)}}); err != nil {
			t.Fatal(err)
		}
		a, asked := r.loop.newAsker(h, &bill{}), 0
		for ; asked < 5; asked++ {
			reply, stop, err := a.ask(t.Context(), worth(10), false)
			if err != nil {
				t.Fatal(err)
			}
			if stop != nil {
				break
			}
			if err := h.save(t.Context(), a.record(reply)); err != nil {
				t.Fatal(err)
			}
		}
		if asked != 3 {
			t.Errorf("price %v: asked %d times, want 3: 1900 - 3 * 400 is less than 2 * 400", price, asked)
		}
	}
}

// TestAffordFits: a call is never bound to more than what is left, whichever model makes it in the
// end, and one that is not closing leaves what that needs.
func TestAffordFits(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		dear := pricey()
		dear.Output = rapid.Int64Range(0, 40).Draw(rt, "dear")
		a := (&Loop{Models: []Model{
			{Writer: Writer{Price: pricey(), Output: model.Info{MaxOutput: rapid.IntRange(0, 100_000).Draw(rt, "most")}.Output}}, {Writer: Writer{Price: dear}},
		}}).newAsker(&history{}, &bill{})
		tokens, cost := rapid.Int64Range(-10, 1<<20).Draw(rt, "tokens"), rapid.Int64Range(-10, 1<<24).Draw(rt, "cost")
		left := convstore.Budget{Tokens: &tokens, CostNano: &cost}
		closing := rapid.Bool().Draw(rt, "closing")
		req := worth(rapid.IntRange(9, 50_000).Draw(rt, "in"))
		in, out, stop := a.afford(convstore.Account{Left: left}, &req, closing)
		if stop != nil {
			return
		}
		keep := Closing(pricey(), dear)
		if closing {
			keep = convstore.Budget{Tokens: some(0), CostNano: some(0)}
		}
		most := max(pricey().Most(in, out), dear.Most(in, out))
		if in.Tokens+out > tokens-*keep.Tokens || most > cost-*keep.CostNano || out <= 0 {
			rt.Fatalf("in %d, out %d, cost %d; left %d and %d", in.Tokens, out, *a.most(in, out), tokens, cost)
		}
	})
}

// TestUncounted: a reply is charged though its server tells no usage, or only that of its
// beginning. No estimate is above the most that was reserved: of these spaces, a token for ten
// bytes.
func TestUncounted(t *testing.T) {
	for _, test := range []struct {
		name, rules string
		told        *convstore.Usage // instead of what the model tells; nil = nothing
		out         int64            // charged, at least
		in          int64
	}{
		{name: "nothing told", rules: "[[rule]]\ntext = \"" + strings.Repeat("word ", 60) + "\"", out: 100, in: 1},
		{name: "nothing told of calls", rules: "[[rule]]\nround = 1\ntool_calls = [{ name = \"echo\", arguments = { say = \"" + strings.Repeat("a", 300) + "\" } }]\n[[rule]]\ntext = \"x\"", out: 100, in: 1},
		{name: "zeros told", rules: "[[rule]]\ntext = \"" + strings.Repeat("word ", 60) + "\"", told: &convstore.Usage{}, out: 100, in: 1},
		{name: "no input told", rules: "[[rule]]\ntext = \"" + strings.Repeat("word ", 60) + "\"", told: &convstore.Usage{Output: 103}, out: 103, in: 1},
		{name: "no output told", rules: "[[rule]]\ntext = \"" + strings.Repeat("word ", 60) + "\"", told: &convstore.Usage{Input: 7}, out: 100, in: 7},
		{name: "told", rules: "[[rule]]\ntext = \"" + strings.Repeat("word ", 60) + "\"", told: &convstore.Usage{Input: 7, Output: 3}, out: 3, in: 7},
		{name: "only the beginning told", rules: "[[rule]]\ntext = \"" + strings.Repeat("word ", 60) + "\"\nerror = { kind = \"auth\", message = \"busy\" }", told: &convstore.Usage{Input: 7, Output: 1}, out: 100, in: 7},
	} {
		t.Run(test.name, func(t *testing.T) {
			r := newRun(t, test.rules)
			ask := r.loop.Models[0].Ask
			r.loop.Models[0].Ask = model.Count(func(ctx context.Context, req model.Request) iter.Seq2[model.Part, error] {
				return func(yield func(model.Part, error) bool) {
					if test.told != nil && !yield(model.Part{Usage: test.told}, nil) {
						return
					}
					for p, err := range ask(ctx, req) {
						if p.Usage == nil && !yield(p, err) {
							return
						}
					}
				}
			})
			r.send(t.Context(), "go"+strings.Repeat(" ", 30_000)+".")
			for ev, err := range r.store.Events(t.Context(), r.id, convstore.Range{}) {
				if err != nil {
					t.Fatal(err)
				}
				c, ok := ev.Body.(convstore.ModelCall)
				if !ok {
					continue
				}
				exact := test.told != nil && test.told.Output == test.out && test.told.Input == test.in
				if c.Usage.Output < test.out || c.Usage.Input < test.in || exact && c.Usage != *test.told || c.Estimated == exact {
					t.Errorf("charged %+v, estimated %v; want at least %d and %d", c.Usage, c.Estimated, test.in, test.out)
				}
				if c.Usage.Input > 5000 {
					t.Errorf("charged %d tokens of input, more than was reserved", c.Usage.Input)
				}
				return
			}
			t.Fatal("nothing is charged")
		})
	}
}
