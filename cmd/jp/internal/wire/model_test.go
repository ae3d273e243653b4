package wire

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"jp/cmd/jp/internal/model"
	"jp/convstore"
)

// modelled is the Owner of a family whose model is s.
func (f *family) modelled(s model.Stream, g Gate) Owner {
	o := f.owner(nil)
	o.Models = []Model{{Info: model.Info{ID: "m/child", Name: "child", Account: model.Account{Key: "secret"}}, Stream: s, Gate: g}}
	return o
}

// says is a model that says parts, and then err.
func says(err error, parts ...model.Part) model.Stream {
	return func(context.Context, model.Request) iter.Seq2[model.Part, error] {
		return func(yield func(model.Part, error) bool) {
			for _, p := range parts {
				if !yield(p, nil) {
					return
				}
			}
			if err != nil {
				yield(model.Part{}, err)
			}
		}
	}
}

// beginCall begins a call of the model, with these events.
func beginCall(t testing.TB, c *Conn, events ...convstore.Event) {
	t.Helper()
	no(t, c.Begin(t.Context(), func(convstore.Account) *convstore.Call {
		return &convstore.Call{Model: "m/child", Usage: convstore.Usage{Input: 1 << 20, Output: 32 << 10}}
	}, events...))
}

// hear takes all parts of a reply, with what was said in one piece.
func hear(parts iter.Seq2[model.Part, error]) (text string, others []model.Part, err error) {
	for p, fault := range parts {
		if err = fault; err != nil {
			break
		}
		if text += p.Text; p.Text == "" {
			others = append(others, p)
		}
	}
	return text, others, err
}

// TestAskOthers asks each of two models. A call is charged by its own price, and none is of a
// model that the sub-agent does not have.
func TestAskOthers(t *testing.T) {
	f := newFamily(t, convstore.Budget{})
	o := f.modelled(says(&model.Error{Kind: model.KindQuota}), nil)
	o.Models = append(o.Models, Model{Info: model.Info{ID: "m/strong", Name: "strong", Price: &model.Price{Output: 5}}, Stream: says(nil,
		model.Part{Text: "a"}, model.Part{Usage: &convstore.Usage{Input: 1, Output: 2}}, model.Part{Stop: model.StopEnd})})
	l := serve(t, o)
	c := l.join()
	beginCall(t, c, at("e", convstore.TurnStart{})...)
	if _, _, err := hear(c.Ask(t.Context(), model.Request{})); err == nil || err.Error() != "quota" {
		t.Errorf("Ask = %v", err)
	}
	cost := int64(1 << 30)
	no(t, c.Begin(t.Context(), func(convstore.Account) *convstore.Call {
		return &convstore.Call{Model: "m/strong", Usage: convstore.Usage{Input: 1 << 20, Output: 32 << 10}, CostNano: &cost}
	}, at("f", convstore.ModelCall{Model: "m/child", Stop: "broken"})...))
	if text, _, err := hear(c.Ask(t.Context(), model.Request{})); err != nil || text != "a" {
		t.Errorf("Ask = %q, %v", text, err)
	}
	no(t, c.Append(t.Context(), at("g", convstore.AssistantMessage{Text: "a"}, convstore.ModelCall{Model: "m/strong", CostNano: new(int64), Stop: "end"})...))
	if a := f.account(t); a.Own.CostNano != 10 || a.Own.Usage.Output != 2 {
		t.Errorf("the account = %+v", a)
	}
	for id, want := range map[string]string{"m/strong": "", "m/child": "", "m/other": "model m/other: this sub-agent asks m/child, m/strong"} {
		if k, err := c.Start().Known(id); (err == nil) != (want == "") || err != nil && err.Error() != want || err == nil && k.Info.ID != id {
			t.Errorf("Known(%s) = %+v, %v", id, k, err)
		}
	}
}

// TestAsk asks in two rounds. Of the second thread only what is new is sent, and the model gets
// all, with the ids of calls that are stored and not those that the sub-agent says.
func TestAsk(t *testing.T) {
	f := newFamily(t, convstore.Budget{})
	no(t, f.log.Append(t.Context(), at("before", convstore.TurnStart{}, convstore.UserMessage{Text: "?"}, convstore.ToolCall{ID: "x", Name: "n"},
		convstore.ToolResult{ID: "x"}, convstore.TurnEnd{State: convstore.StateOK})...))
	f.res.Child.Turns = 1
	cost := int64(7)
	reply := []model.Part{
		{Text: "one "}, {Text: "two"}, {ReasoningDelta: "hm"}, {Reasoning: &model.Reasoning{Text: "hm", Opaque: json.RawMessage(`{"a":1}`), Provider: "m"}},
		{CallDelta: "{"}, {Call: &model.Call{ID: "c", Name: "n", Arguments: json.RawMessage(`{not JSON`)}},
		{Usage: &convstore.Usage{Input: 3, Output: 4}, Cost: &cost, Estimated: true}, {Stop: model.StopToolUse},
	}
	var got []model.Request
	l := serve(t, f.modelled(func(ctx context.Context, r model.Request) iter.Seq2[model.Part, error] {
		r.Name("id", "name")
		r.Named = nil
		got = append(got, r)
		return says(nil, reply...)(ctx, r)
	}, nil))
	c := l.join()
	if info := c.Start().Models[0].Info; info.ID != "m/child" || info.Account != (model.Account{}) {
		t.Errorf("the sub-agent is told %+v", info)
	}
	r := model.Request{
		Model: "child", System: []model.Section{{Text: "be brief"}}, Tools: []model.Tool{{Name: "t", Schema: json.RawMessage(`{"type":"object"}`)}},
		Messages:  []model.Message{{Role: model.User, Content: []model.Content{{Text: strings.Repeat("<long>", 1000)}, {Image: &model.Image{MediaType: "image/png", Data: []byte{1, 2}}}}}},
		MaxTokens: 5, Turn: 1, Round: 1, Attempt: 1,
	}
	beginCall(t, c, at("e", convstore.TurnStart{})...)
	named := ""
	for _, err := range c.Events(t.Context(), convstore.Range{}) {
		no(t, err)
	}
	first := r
	first.CallIDs = map[string]bool{"said": true}
	first.Named = func(id, name string) { named = id + " " + name }
	text, others, err := hear(c.Ask(t.Context(), first))
	want := slices.Clone(reply[2:])
	want[4].Attempt = others[4].Attempt
	if err != nil || text != "one two" || named != "id name" || !reflect.DeepEqual(others, want) {
		t.Errorf("the reply = %q %+v, %v, of %q", text, others, err, named)
	}
	next := r
	next.Messages = append(next.Messages[:1:1],
		model.Message{Role: model.Assistant, Content: []model.Content{{Text: "one two"}, {Call: reply[5].Call}}},
		model.Message{Role: model.ToolRole, Content: []model.Content{{Result: &model.CallResult{ID: "c", Name: "n", Text: "r"}}}})
	beginCall(t, c, at("m", convstore.ToolCall{ID: "c", Name: "n"}, convstore.ModelCall{Model: "m/child"}, convstore.ToolResult{ID: "c"})...)
	if _, _, err := hear(c.Ask(t.Context(), next)); err != nil {
		t.Error(err)
	}
	r.MaxInput, next.MaxInput = 1<<20, 1<<20 // as the call that was begun says
	r.CallIDs, next.CallIDs = map[string]bool{"x": true}, map[string]bool{"x": true, "c": true}
	if want := []model.Request{r, next}; !reflect.DeepEqual(got, want) {
		t.Errorf("the model was asked\n%+v, want\n%+v", got, want)
	}
	no(t, l.close())
}

// TestAskWorks: a model is asked when the sub-agent may work, and not while it waits for others.
func TestAskWorks(t *testing.T) {
	f := newFamily(t, convstore.Budget{})
	asked, may := false, make(chan struct{})
	o := f.modelled(func(ctx context.Context, r model.Request) iter.Seq2[model.Part, error] {
		asked = true
		return says(nil, model.Part{Text: "yes"}, model.Part{Stop: model.StopEnd})(ctx, r)
	}, nil)
	o.Works = func(ctx context.Context) error {
		select {
		case <-may:
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	l := serve(t, o)
	c := l.join()
	beginCall(t, c, at("e", convstore.TurnStart{})...)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := hear(c.Ask(ctx, model.Request{})); err == nil || asked {
		t.Errorf("Ask of one that waits = %v, asked: %v", err, asked)
	}
	close(may)
	beginCall(t, c)
	if text, _, err := hear(c.Ask(t.Context(), model.Request{})); text != "yes" || err != nil {
		t.Errorf("Ask = %q, %v", text, err)
	}
	no(t, l.close())
}

// TestAskErrors: the sub-agent gets the error of a model as it was, without its cause.
func TestAskErrors(t *testing.T) {
	f := newFamily(t, convstore.Budget{})
	busy := &model.Error{Provider: "m", Kind: model.KindOverloaded, Status: 529, RetryAfter: time.Second, Message: "busy", Hint: "wait", Final: true}
	caused := *busy
	caused.Err = errors.New("cause")
	l := serve(t, f.modelled(says(&caused, model.Part{Text: "a"}), nil))
	c := l.join()
	beginCall(t, c, at("e", convstore.TurnStart{})...)
	text, _, err := hear(c.Ask(t.Context(), model.Request{}))
	if got := (*model.Error)(nil); !errors.As(err, &got) || *got != *busy || text != "a" {
		t.Errorf("the reply = %q, %#v", text, err)
	}
	no(t, l.close())
}

// TestAskRefused: a model is asked once for each call that was begun, and no other model is asked.
func TestAskRefused(t *testing.T) {
	const begin = `"begin":{` + `%s,"left":{"tokens":null,"cost_nano":null},"call":{"model":"%s","usage":{"input_tokens":1,"output_tokens":32768}}}`
	start := events(event("e1", convstore.TurnStart{}))
	for name, tt := range map[string]struct {
		before []string // requests
		ask    string
		want   string
	}{
		"never begun":    {nil, `"ask":{"request":{}}`, "asked once"},
		"another model":  {[]string{fmt.Sprintf(begin, start, "m/dear")}, `"ask":{"request":{}}`, "asked once"},
		"asked before":   {[]string{fmt.Sprintf(begin, start, "m/child"), `"ask":{"request":{}}`}, `"ask":{"request":{}}`, "asked once"},
		"ended":          {[]string{fmt.Sprintf(begin, start, "m/child"), appending(event("e2", convstore.ModelCall{Model: "m/child"}))}, `"ask":{"request":{}}`, "asked once"},
		"withdrawn":      {[]string{fmt.Sprintf(begin, start, "m/child"), `"begin":{"left":{"tokens":null,"cost_nano":null}}`}, `"ask":{"request":{}}`, "asked once"},
		"more output":    {[]string{fmt.Sprintf(begin, start, "m/child")}, `"ask":{"request":{"MaxTokens":32769}}`, "asked for more"},
		"less than zero": {[]string{fmt.Sprintf(begin, start, "m/child")}, `"ask":{"request":{"MaxTokens":-1}}`, "asked for more"},
		"more input":     {[]string{fmt.Sprintf(begin, start, "m/child")}, `"ask":{"request":{"Messages":[{"Role":"user","Content":[{"Text":"` + strings.Repeat("word ", 20) + `"}]}]}}`, "asked for more"},
		"what it had":    {[]string{fmt.Sprintf(begin, start, "m/child")}, `"ask":{"keep":1,"request":{}}`, "never sent"},
		"less than none": {[]string{fmt.Sprintf(begin, start, "m/child")}, `"ask":{"keep":-1,"request":{}}`, "never sent"},
		"many thoughts": {[]string{fmt.Sprintf(begin, start, "m/child")},
			`"ask":{"request":{"Messages":[{"Role":"assistant","Content":[{"Reasoning":{"Opaque":"[1` + strings.Repeat(",1", maxThread) + `]"}}]}]}}`, "values in its reasoning"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFamily(t, convstore.Budget{})
			r := serve(t, f.modelled(says(nil, model.Part{Stop: model.StopEnd}), nil)).raw()
			for _, req := range tt.before {
				r.n++
				r.send(fmt.Sprintf(`{"n":%d,%s}`, r.n, req))
				for f := r.read(); f.Answer == nil; f = r.read() {
				}
			}
			r.n++
			r.send(fmt.Sprintf(`{"n":%d,%s}`, r.n, tt.ask))
			broken(t, r.end(), tt.want)
		})
	}
}

// TestAskWithinLimits: where the account has a limit, a request says how much may be answered, and
// its call costs what its tokens cost.
func TestAskWithinLimits(t *testing.T) {
	const begin = `"begin":{"left":{"tokens":%s,"cost_nano":%s},"call":{"model":"m/child","usage":{"input_tokens":1,"output_tokens":10},"cost_nano":%d}}`
	for name, tt := range map[string]struct {
		begin, ask string
		want       string // "" = it is asked
	}{
		"asked":            {fmt.Sprintf(begin, "1000", "1000", 86), `"ask":{"request":{"MaxTokens":10}}`, ""},
		"without a number": {fmt.Sprintf(begin, "1000", "1000", 86), `"ask":{"request":{}}`, "asked for more"},
		"too cheap":        {fmt.Sprintf(begin, "1000", "1000", 85), `"ask":{"request":{"MaxTokens":10}}`, "costs less"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFamily(t, convstore.Budget{Tokens: new(int64(1000)), CostNano: new(int64(1000))})
			o := f.modelled(says(nil, model.Part{Text: "a"}, model.Part{Usage: &convstore.Usage{Input: 1, Output: 1}}, model.Part{Stop: model.StopEnd}), nil)
			o.Models[0].Info.Price = &model.Price{Input: 6, Output: 8}
			r := serve(t, o).raw()
			r.n = 1
			r.ask(started())
			r.n++
			r.send(fmt.Sprintf(`{"n":%d,%s}`, r.n, tt.begin))
			if tt.want == "costs less" {
				broken(t, r.end(), tt.want)
				return
			}
			for f := r.read(); f.Answer == nil; f = r.read() {
			}
			r.n++
			r.send(fmt.Sprintf(`{"n":%d,%s}`, r.n, tt.ask))
			if tt.want != "" {
				broken(t, r.end(), tt.want)
				return
			}
			for f := r.read(); f.Answer == nil || f.Answer.Error != nil; f = r.read() {
			}
			no(t, r.close())
		})
	}
}

// TestAskWithoutPrice: a model without a price, or a free one, whose server reports what each reply
// costs is not asked when less is left than its dearest reply has cost, whatever the sub-agent says
// that a call costs.
func TestAskWithoutPrice(t *testing.T) {
	free := &model.Price{}
	for name, tt := range map[string]struct {
		limit int64
		price *model.Price
		cost  *int64
		asked int
	}{
		"the rest is enough":     {1000, nil, nil, 2},
		"the rest is less":       {700, nil, nil, 1},
		"nothing is left":        {300, nil, nil, 1},
		"a cost that it invents": {1000, nil, new(int64), 0},
		"free, enough":           {1000, free, new(int64), 2},
		"free, less":             {700, free, new(int64), 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFamily(t, convstore.Budget{CostNano: &tt.limit})
			o := f.modelled(says(nil, model.Part{Text: "a"}, model.Part{Usage: &convstore.Usage{Input: 1, Output: 1}, Cost: new(int64(400))}, model.Part{Stop: model.StopEnd}), nil)
			o.Models[0].Info.Price = tt.price
			l := serve(t, o)
			c := l.join()
			asked, events := 0, at("e", convstore.TurnStart{})
			for asked < 2 {
				if err := c.Begin(t.Context(), func(convstore.Account) *convstore.Call {
					return &convstore.Call{Model: "m/child", Usage: convstore.Usage{Input: 100, Output: 10}, CostNano: tt.cost}
				}, events...); err != nil {
					broken(t, l.end(), "more than is left")
					break
				}
				_, _, err := hear(c.Ask(t.Context(), model.Request{MaxTokens: 10}))
				no(t, err)
				asked++
				events = at(fmt.Sprint("m", asked), convstore.ModelCall{Model: "m/child", CostNano: new(int64(400))})
			}
			if asked != tt.asked {
				t.Errorf("it was asked %d times, want %d", asked, tt.asked)
			}
			if asked == 2 {
				no(t, l.close())
			}
		})
	}
}

// TestAskBeyond: a request has as much input as was begun at most, by what the model has counted of
// earlier ones.
func TestAskBeyond(t *testing.T) {
	long := strings.Repeat("7", 4000)      // has at most 4,000 tokens
	words := strings.Repeat("words ", 700) // has fewer than 3,000, for all that can be known at most 4,200
	asks := func(texts ...string) (r model.Request) {
		for _, text := range texts {
			r.Messages = append(r.Messages, model.Message{Role: model.User, Content: []model.Content{{Text: text}}})
		}
		return r
	}
	hidden := asks("hi") // no provider is sent the reasoning of another
	hidden.Messages = append(hidden.Messages, model.Message{Role: model.Assistant, Content: []model.Content{
		{Reasoning: &model.Reasoning{Signature: long, Provider: "other"}}, {Text: "hi"},
	}})
	type step struct {
		model  string
		r      model.Request
		most   int64 // tokens of input that are begun
		cost   int64 // nano-dollars that are begun; 0 = none
		of     int   // reply that the bound was computed from, from 1; 0 = none
		beyond bool  // whether it is refused
	}
	for name, steps := range map[string][]step{
		"a first one":                  {{r: asks(long), most: 4008}},
		"more than that":               {{r: asks(long), most: 4007, beyond: true}},
		"a first one of a learner":     {{r: asks(long), most: 600, beyond: true}},
		"after a count":                {{r: asks(long), most: 4008}, {r: asks(long, "77"), most: 1010, of: 1}},
		"more than the count":          {{r: asks(long), most: 4008}, {r: asks(long, "77"), most: 1009, of: 1, beyond: true}},
		"a count that it does not say": {{r: asks(long), most: 4008}, {r: asks(long, "77"), most: 1010, beyond: true}},
		"a count that never was":       {{r: asks(long), most: 4008}, {r: asks(long, "77"), most: 1010, of: 9, beyond: true}},
		"something else":               {{r: asks("hi"), most: 4008}, {r: asks(long), most: 1010, of: 1, beyond: true}},
		"of another model":             {{r: asks(long), most: 4008}, {model: "m/other", r: asks(long, "77"), most: 1010, of: 1, beyond: true}},
		"after a summary":              {{r: asks(long), most: 4008}, {r: asks("sum up"), most: 4008}, {r: asks(long, "77"), most: 1010, of: 1}},
		"forgotten": {
			{r: asks(long), most: 4008}, {r: asks("a"), most: 4008}, {r: asks("a"), most: 4008}, {r: asks("a"), most: 4008}, {r: asks("a"), most: 4008},
			{r: asks(long, "77"), most: 4018, of: 1},
		},
		"what was not sent":          {{r: hidden, most: 8000}, {r: asks(long), most: 1010, of: 1, beyond: true}},
		"the price of a long prompt": {{model: "m/dear", r: asks(words), most: 3000, cost: 3000 + 32<<10, beyond: true}},
		"what it can cost":           {{model: "m/dear", r: asks(words), most: 3000, cost: 10 * (3000 + 32<<10)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFamily(t, convstore.Budget{})
			count := says(nil, model.Part{Text: "a"}, model.Part{Usage: &convstore.Usage{Input: 1000, Output: 1}}, model.Part{Stop: model.StopEnd})
			o := f.modelled(count, nil)
			o.Models = append(o.Models, Model{Info: model.Info{ID: "m/other"}, Stream: count}, Model{Stream: count, Info: model.Info{ID: "m/dear", Price: &model.Price{
				Input: 1, Output: 1, Long: &model.LongPrice{Above: 4000, Input: 10, Output: 10},
			}}})
			l := serve(t, o)
			c := l.join()
			said := []uint64{0}
			events := at("e", convstore.TurnStart{})
			for i, s := range steps {
				id := cmp.Or(s.model, "m/child")
				no(t, c.Begin(t.Context(), func(convstore.Account) *convstore.Call {
					call := &convstore.Call{Model: id, Usage: convstore.Usage{Input: s.most, Output: 32 << 10}}
					if s.cost > 0 {
						call.CostNano = &s.cost
					}
					return call
				}, events...))
				if s.r.Learned = 99; s.of < len(said) {
					s.r.Learned = said[s.of]
				}
				_, parts, err := hear(c.Ask(t.Context(), s.r))
				if refused := err != nil && strings.Contains(err.Error(), errBeyond.Error()); refused != s.beyond {
					t.Errorf("request %d: %v", i+1, err)
				}
				if s.beyond {
					broken(t, l.end(), errBeyond.Error())
					return
				}
				said = append(said, parts[0].Attempt)
				events = at(fmt.Sprintf("m%d", i), convstore.ModelCall{Model: id})
			}
			no(t, l.close())
		})
	}
}

// TestAskBrokenOff: a sub-agent that breaks off one request after the other is charged the
// most that these may use: what a model has thought in silence is billed, and nobody has heard it.
func TestAskBrokenOff(t *testing.T) {
	for how, stated := range map[string]int64{"cancelled": 0, "closed": 0, "stated to cost more": 5000} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			f := newFamily(t, convstore.Budget{Tokens: new(int64(2300))})
			o := f.modelled(func(ctx context.Context, r model.Request) iter.Seq2[model.Part, error] {
				if r.MaxInput != 100 {
					t.Errorf("at most %d tokens of input are charged, want those of the call", r.MaxInput)
				}
				return func(yield func(model.Part, error) bool) {
					if !yield(model.Part{ReasoningDelta: "hm"}, nil) {
						return
					}
					<-ctx.Done()
					if yield(model.Part{Usage: &convstore.Usage{Input: 3}, Cost: &stated, Estimated: true}, nil) {
						yield(model.Part{}, context.Cause(ctx))
					}
				}
			}, nil)
			price := int64(2)
			o.Models[0].Info.Price = &model.Price{Input: price, Output: price}
			l := serve(t, o)
			c := l.join()
			events := at("e", convstore.TurnStart{})
			var used []int64
			for i := range 4 {
				no(t, c.Begin(t.Context(), func(convstore.Account) *convstore.Call {
					return &convstore.Call{Model: "m/child", Usage: convstore.Usage{Input: 100, Output: 1000}, CostNano: new(1100 * price)}
				}, events...))
				events = at(fmt.Sprint("m", i), convstore.ModelCall{Model: "m/child", CostNano: new(int64)})
				ctx, cancel := context.WithCancel(t.Context())
				for range c.Ask(ctx, model.Request{MaxTokens: 1000}) {
					if how == "cancelled" {
						cancel()
					} else {
						no(t, c.Append(t.Context(), events...))
					}
				}
				cancel()
				no(t, c.Append(t.Context(), events...))
				own := f.account(t).Own
				used = append(used, own.Usage.Tokens())
				if want := max(own.Usage.Tokens()*price, stated*int64(i+1)); own.CostNano != want {
					t.Errorf("%d tokens cost %d, want %d", own.Usage.Tokens(), own.CostNano, want)
				}
				events = nil
			}
			if want := []int64{3, 6, 1106, 2206}; !slices.Equal(used, want) {
				t.Errorf("charged in all after each request: %d, want %d", used, want)
			}
			no(t, l.close())
		})
	}
}

// TestAskSlow: of a reply that the sub-agent does not take, its owner keeps a window and no more.
// Meanwhile other requests are answered.
func TestAskSlow(t *testing.T) {
	f := newFamily(t, convstore.Budget{})
	const pieces, size = 10_000, 1 << 10
	var mu sync.Mutex
	came := 0
	r := serve(t, f.modelled(func(context.Context, model.Request) iter.Seq2[model.Part, error] {
		return func(yield func(model.Part, error) bool) {
			for range pieces {
				mu.Lock()
				came++
				mu.Unlock()
				if !yield(model.Part{Text: strings.Repeat("x", size)}, nil) {
					return
				}
			}
			yield(model.Part{Stop: model.StopEnd}, nil)
		}
	}, nil)).raw()
	r.ask(`"begin":{` + events(event("e1", convstore.TurnStart{})) + `,"left":{"tokens":null,"cost_nano":null},"call":{"model":"m/child","usage":{"input_tokens":1,"output_tokens":32768}}}`)
	r.n++
	ask := r.n
	r.send(fmt.Sprintf(`{"n":%d,"ask":{"request":{}}}`, ask))
	got, untold := 0, 0
	take := func(f fromOwner) {
		if f.Parts != nil {
			for _, p := range f.Parts.Parts {
				got, untold = got+len(p.Text), untold+p.Size()
			}
		}
	}
	for range 100 { // each answer gives it time to send more than it may
		r.n++
		r.send(fmt.Sprintf(`{"n":%d,"get":true}`, r.n))
		f := r.read()
		for ; f.Answer == nil; f = r.read() {
			take(f)
		}
	}
	mu.Lock()
	if most := (window + 2*pieceSize) / size; came > most+2 || got > window+pieceSize {
		t.Errorf("%d pieces came from the model, want at most %d; %d bytes were sent", came, most, got)
	}
	mu.Unlock()
	end := fromOwner{}
	for end.Answer == nil {
		if untold > window/2 {
			r.send(fmt.Sprintf(`{"taken":{"n":%d,"bytes":%d}}`, ask, untold))
			untold = 0
		}
		end = r.read()
		take(end)
	}
	take(fromOwner{Parts: end.Answer.Said})
	if got != pieces*size {
		t.Errorf("%d bytes came, want %d", got, pieces*size)
	}
	no(t, r.close())
}

// TestAskCancelled: a reply that the sub-agent cancels, or takes no more of, ends in the owner, and
// says what it has used. What the run of the owner is stopped by does not end it.
func TestAskCancelled(t *testing.T) {
	used := model.Part{Usage: &convstore.Usage{Input: 1}}
	for _, how := range []string{"cancelled", "left", "gone", "closed"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			f := newFamily(t, convstore.Budget{})
			ended := make(chan error, 1)
			l := serve(t, f.modelled(func(ctx context.Context, _ model.Request) iter.Seq2[model.Part, error] {
				return func(yield func(model.Part, error) bool) {
					defer func() { ended <- context.Cause(ctx) }()
					if !yield(model.Part{Text: "a"}, nil) {
						return
					}
					<-ctx.Done()
					if yield(used, nil) {
						yield(model.Part{}, context.Cause(ctx))
					}
				}
			}, nil))
			c := l.join()
			beginCall(t, c, at("e", convstore.TurnStart{})...)
			l.stop() // the owner stops its sub-agent by a signal, and this is not it
			why := errors.New("enough")
			ctx, cancel := context.WithCancelCause(t.Context())
			var others []model.Part
			var err error
			for p, fault := range c.Ask(ctx, model.Request{}) {
				if err = fault; err != nil {
					break
				}
				if p.Text == "" {
					others = append(others, p)
					continue
				}
				switch how {
				case "cancelled":
					cancel(why)
				case "gone":
					c.Close()
				case "closed":
					go func() { _ = c.Append(t.Context(), at("m", convstore.ModelCall{Model: "m/child"})...) }()
				}
				if how == "left" {
					break
				}
			}
			if <-ended == nil {
				t.Error("the reply was not ended")
			}
			cancel(nil)
			switch how {
			case "cancelled":
				if !errors.Is(err, why) || len(others) != 1 || others[0].Usage == nil || *others[0].Usage != *used.Usage {
					t.Errorf("the end = %+v, %v", others, err)
				}
			case "left":
				if err != nil || others != nil {
					t.Errorf("the end = %+v, %v", others, err)
				}
			default:
				if err == nil {
					t.Error("no error")
				}
			}
			_ = l.close()
		})
	}
}

// shutGate is a Gate that is shut until it is opened.
type shutGate struct {
	open    chan struct{}
	looks   bool
	mu      sync.Mutex
	entered int
	heard   int
	limited []time.Duration
}

func (g *shutGate) Look() (model.Pass, bool) { return model.Pass{Open: true}, g.looks }
func (g *shutGate) Enter(ctx context.Context, waits func(time.Duration)) (model.Pass, error) {
	g.mu.Lock()
	g.entered++
	g.mu.Unlock()
	waits(time.Minute)
	select {
	case <-g.open:
		return model.Pass{At: 5}, nil
	case <-ctx.Done():
		return model.Pass{}, context.Cause(ctx)
	}
}

func (g *shutGate) Heard(p model.Pass) { g.heard += int(p.At) }
func (g *shutGate) Limited(p model.Pass, wait time.Duration) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.limited = append(g.limited, wait+p.At)
	return true
}

// TestGate: a request that the gate holds back is told of it, and passes when the gate opens. Only
// one that met a limit shuts the gate, and only once.
func TestGate(t *testing.T) {
	f := newFamily(t, convstore.Budget{})
	g := &shutGate{open: make(chan struct{})}
	fails := &model.Error{Kind: model.KindRateLimit}
	o := f.modelled(says(fails, model.Part{Text: "a"}), g)
	l := serve(t, o)
	c := l.join()
	beginCall(t, c, at("e", convstore.TurnStart{})...)
	if c.Gate(c.Start().Models[0]).Limited(model.Pass{}, time.Hour) {
		t.Error("the gate was shut by who met no limit")
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	if _, err := c.Gate(c.Start().Models[0]).Enter(ctx, func(time.Duration) { cancel(why) }); !errors.Is(err, why) {
		t.Errorf("Enter = %v", err)
	}
	var waits []time.Duration
	if _, err := c.Gate(c.Start().Models[0]).Enter(t.Context(), func(d time.Duration) {
		waits = append(waits, d)
		close(g.open)
	}); err != nil || len(waits) != 1 || waits[0] != time.Minute {
		t.Errorf("Enter = %v, waits %v", err, waits)
	}
	beginCall(t, c) // as after each wait
	if _, _, err := hear(c.Ask(t.Context(), model.Request{})); err == nil {
		t.Error("no error")
	}
	if !c.Gate(c.Start().Models[0]).Limited(model.Pass{}, time.Second) || c.Gate(c.Start().Models[0]).Limited(model.Pass{}, time.Second) {
		t.Error("the gate was not shut once")
	}
	no(t, l.close())
	if g.entered != 2 || g.heard != 5 || !reflect.DeepEqual(g.limited, []time.Duration{time.Second + 5}) {
		t.Errorf("the gate was entered %d times, heard %d, limited %v", g.entered, g.heard, g.limited)
	}
}

// TestGateOfOthers: of two models, a limit of one does not shut the gate of the other, and a
// permission of one gate is none of the other.
func TestGateOfOthers(t *testing.T) {
	f := newFamily(t, convstore.Budget{})
	first, second := &shutGate{open: make(chan struct{})}, &shutGate{open: make(chan struct{})}
	close(first.open)
	close(second.open)
	o := f.modelled(says(&model.Error{Kind: model.KindRateLimit}), first)
	o.Models = append(o.Models, Model{Info: model.Info{ID: "m/other", Name: "other"}, Stream: says(nil, model.Part{Stop: model.StopEnd}), Gate: second})
	l := serve(t, o)
	c := l.join()
	beginCall(t, c, at("e", convstore.TurnStart{})...)
	if _, _, err := hear(c.Ask(t.Context(), model.Request{})); err == nil {
		t.Error("no error")
	}
	no(t, c.Begin(t.Context(), func(convstore.Account) *convstore.Call {
		return &convstore.Call{Model: "m/other", Usage: convstore.Usage{Input: 1 << 20, Output: 32 << 10}}
	}))
	if c.Gate(c.Start().Models[1]).Limited(model.Pass{}, time.Hour) || len(second.limited) > 0 {
		t.Errorf("the gate of the other model was shut: %v", second.limited)
	}
	no(t, l.close())
}

// TestHeardOfNobody: where no model can be asked, a sub-agent is charged with nothing, whatever it
// says.
func TestHeardOfNobody(t *testing.T) {
	f := newFamily(t, convstore.Budget{})
	o := f.modelled(nil, nil)
	o.Models[0].Err = &model.Error{Kind: model.KindAuth}
	l := serve(t, o)
	c := l.join()
	beginCall(t, c, at("e", convstore.TurnStart{})...)
	most := int64(1) << 60
	no(t, c.Append(t.Context(), at("f", convstore.ModelCall{Model: "m/child", Usage: convstore.Usage{Input: most}, CostNano: &most, Stop: "end"})...))
	no(t, l.close())
	if d := f.settle(t, convstore.StateError); d.Own.Tokens() != 0 || d.Own.CostNano != 0 {
		t.Errorf("%+v was charged", d.Own)
	}
}

// TestHeard: what the owner has heard of an attempt is charged, whatever the sub-agent says of it.
func TestHeard(t *testing.T) {
	const (
		begin = `"begin":{"left":null,"call":null}`
		call  = `"begin":{"left":{"tokens":1000,"cost_nano":1000},"call":{"model":"m/child","usage":{"input_tokens":1,"output_tokens":10},"cost_nano":86}}`
		later = `"begin":{"left":{"tokens":993,"cost_nano":950},"call":{"model":"m/child","usage":{"input_tokens":1,"output_tokens":10},"cost_nano":86}}`
		ask   = `"ask":{"request":{"MaxTokens":10}}`
	)
	used := func(in, out, cost int64) convstore.ModelCall {
		return convstore.ModelCall{Model: "m/child", Usage: convstore.Usage{Input: in, Output: out}, CostNano: &cost}
	}
	said := func(id string, m convstore.ModelCall) string { return appending(event(id, m)) }
	end := event("z", convstore.TurnEnd{State: convstore.StateError})
	end2 := `"append":{"events":[` + end + `]}`
	whole := []model.Part{{Text: "a"}, {Usage: &convstore.Usage{Input: 3, Output: 4}}, {Stop: model.StopEnd}}
	fails := &model.Error{Kind: model.KindOverloaded}
	for name, tt := range map[string]struct {
		stream model.Stream
		says   []string
		want   []int64 // tokens of the calls that are stored
		stops  []string
		cost   int64
	}{
		"as it was":    {says(nil, whole...), []string{call, ask, said("m", used(3, 4, 50)), end2}, []int64{7}, []string{""}, 50},
		"nothing":      {says(nil, whole...), []string{call, ask, said("m", used(0, 0, 0)), end2}, []int64{7}, []string{""}, 50},
		"too much":     {says(nil, whole...), []string{call, ask, said("m", used(900, 4, 900)), end2}, []int64{7}, []string{""}, 50},
		"other tokens": {says(nil, whole...), []string{call, ask, said("m", used(4, 3, 35)), end2}, []int64{7}, []string{""}, 50},
		"with its end": {says(nil, whole...), []string{call, ask, appending(event("m", used(0, 0, 0)), end)}, []int64{7}, []string{""}, 50},
		"twice":        {says(nil, whole...), []string{call, ask, appending(event("m", used(0, 0, 0)), event("n", used(0, 0, 0)), end)}, []int64{7, 0}, []string{"", ""}, 50},
		"only its end": {says(nil, whole...), []string{call, ask, end2}, []int64{7}, []string{"cut"}, 50},
		"no end":       {says(nil, whole...), []string{call, ask}, []int64{7}, []string{"cut"}, 50},
		"begun anew":   {says(nil, whole...), []string{call, ask, call, later, ask, said("m", used(0, 0, 0)), end2}, []int64{7, 7}, []string{"cut", ""}, 100},
		"withdrawn":    {says(nil, whole...), []string{call, ask, begin, end2}, []int64{7}, []string{"cut"}, 50},
		"breaks off":   {says(nil, whole...), []string{call, ask, `"own":"everything"`}, []int64{7}, []string{"cut"}, 50},
		"bad step":     {says(nil, whole...), []string{call, ask, appending(event("m", used(0, 0, 0)), event("x", convstore.TurnStart{}))}, []int64{7}, []string{"cut"}, 50},
		"failed":       {says(fails, whole[:2]...), []string{call, ask, said("m", used(0, 0, 0)), end2}, []int64{7}, []string{""}, 50},
		"goes on":      {says(nil, append(whole[:3:3], model.Part{Usage: &convstore.Usage{Input: 50}})...), []string{call, ask, said("m", used(3, 4, 50)), end2}, []int64{7}, []string{""}, 50},
		"used nothing": {says(fails), []string{call, ask, said("m", used(5, 0, 25)), end2}, []int64{0}, []string{""}, 0},
		"never asked":  {says(nil, whole...), []string{call, said("m", used(5, 0, 25)), end2}, []int64{0}, []string{""}, 0},
		"not begun":    {says(nil, whole...), []string{end2}, nil, nil, 0},
		"goes before":  {says(nil, whole...), []string{call}, nil, nil, 0},
		"goes at once": {says(nil, whole...), []string{call, ask, call, later}, []int64{7}, []string{"cut"}, 50},
		"goes then":    {says(fails), []string{call, ask}, nil, nil, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFamily(t, convstore.Budget{Tokens: new(int64(1000)), CostNano: new(int64(1000))})
			o := f.modelled(tt.stream, nil)
			o.Models[0].Info.Price = &model.Price{Input: 6, Output: 8}
			r := serve(t, o).raw()
			for _, body := range append([]string{started()}, tt.says...) {
				r.n++
				r.send(fmt.Sprintf(`{"n":%d,%s}`, r.n, body))
				for !strings.Contains(body, `"own"`) {
					if f := r.read(); f.Answer != nil {
						break
					}
				}
			}
			_ = r.close()
			var tokens []int64
			var stops []string
			for _, ev := range f.events(t) {
				if c, ok := ev.Body.(convstore.ModelCall); ok {
					tokens, stops = append(tokens, c.Usage.Tokens()), append(stops, c.Stop)
				}
			}
			if !slices.Equal(tokens, tt.want) || !slices.Equal(stops, tt.stops) {
				t.Errorf("calls of %d tokens are stored that ended as %q, want %d, %q", tokens, stops, tt.want, tt.stops)
			}
			if d := f.settle(t, convstore.StateError); d.Own.CostNano != tt.cost {
				t.Errorf("%d were charged, want %d", d.Own.CostNano, tt.cost)
			}
		})
	}
}

// TestHeardLate: a sub-agent that says what its reply has used before it knows, or that goes while
// the reply comes, is charged with what the reply uses in the end.
func TestHeardLate(t *testing.T) {
	for name, then := range map[string]func(*raw){
		"says it before": func(r *raw) {
			r.send(`{"n":4,` + appending(event("m", convstore.ModelCall{Model: "m/child"}), event("z", convstore.TurnEnd{State: convstore.StateError})) + `}`)
			for f := r.read(); f.Answer == nil || f.Answer.N != 4; f = r.read() {
			}
		},
		"ends before": func(r *raw) {
			r.send(`{"n":4,` + appending(event("z", convstore.TurnEnd{State: convstore.StateError})) + `}`)
			for f := r.read(); f.Answer == nil || f.Answer.N != 4; f = r.read() {
			}
		},
		"begins before": func(r *raw) {
			r.send(`{"n":4,"begin":{"left":{"tokens":1000,"cost_nano":null},"call":{"model":"m/child","usage":{"input_tokens":1,"output_tokens":10}}}}`)
			for f := r.read(); f.Answer == nil || f.Answer.N != 4; f = r.read() {
			}
			r.send(`{"n":5,` + appending(event("z", convstore.TurnEnd{State: convstore.StateError})) + `}`)
			for f := r.read(); f.Answer == nil || f.Answer.N != 5; f = r.read() {
			}
		},
		"goes": func(*raw) {},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFamily(t, convstore.Budget{Tokens: new(int64(1000))})
			more := make(chan struct{})
			r := serve(t, f.modelled(model.Count(func(ctx context.Context, _ model.Request) iter.Seq2[model.Part, error] {
				return func(yield func(model.Part, error) bool) {
					for yield(model.Part{Text: strings.Repeat("x", pieceSize)}, nil) {
						select {
						case <-ctx.Done():
							yield(model.Part{}, context.Cause(ctx))
							return
						case <-more:
						}
					}
				}
			}), nil)).raw()
			r.n = 1
			r.ask(`"begin":{` + events(event("e1", convstore.TurnStart{})) + `,"left":{"tokens":1000,"cost_nano":null},"call":{"model":"m/child","usage":{"input_tokens":1,"output_tokens":10}}}`)
			r.send(`{"n":3,"ask":{"request":{"MaxTokens":10}}}`)
			for f := r.read(); f.Parts == nil; f = r.read() {
			}
			then(r)
			r.theirs.Close()
			close(more)
			no(t, r.end())
			if d := f.settle(t, convstore.StateError); d.Own.Output < pieceSize/3 {
				t.Errorf("%+v was charged", d.Own)
			}
		})
	}
}

// TestHeardUnderEarlierID: a sub-agent that says a call of its model under the id of an event of an
// earlier turn, which the store has, is charged with what the owner has heard.
func TestHeardUnderEarlierID(t *testing.T) {
	f := newFamily(t, convstore.Budget{Tokens: new(int64(1000))})
	r := serve(t, f.owner(nil)).raw()
	r.ask(appending(event("s", convstore.TurnStart{}), event("u", convstore.UserMessage{Text: "q"}), event("z", convstore.TurnEnd{State: convstore.StateError})))
	no(t, r.close())
	f.settle(t, convstore.StateError)

	f.reserve(t, convstore.Child{Call: "c2", ID: f.res.Child.ID, Kind: "sub_complete", Grant: convstore.Grant{Budget: convstore.Budget{Tokens: new(int64(1000))}}})
	r = serve(t, f.modelled(says(nil, model.Part{Text: "a"}, model.Part{Usage: &convstore.Usage{Input: 3, Output: 4}}, model.Part{Stop: model.StopEnd}), nil)).raw()
	for _, body := range []string{
		appending(event("s2", convstore.TurnStart{})),
		`"begin":{"left":{"tokens":1000,"cost_nano":null},"call":{"model":"m/child","usage":{"input_tokens":1,"output_tokens":10}}}`,
		`"ask":{"request":{"MaxTokens":10}}`,
		appending(event("u", convstore.ModelCall{Model: "m/child"}), event("z2", convstore.TurnEnd{State: convstore.StateError})),
	} {
		r.n++
		r.send(fmt.Sprintf(`{"n":%d,%s}`, r.n, body))
		for f := r.read(); f.Answer == nil; f = r.read() {
		}
	}
	no(t, r.close())
	if d := f.settle(t, convstore.StateError); d.Own.Tokens() != 7 {
		t.Errorf("%d tokens were charged, want 7", d.Own.Tokens())
	}
}
