package wire

import (
	"bytes"
	"context"
	"io"
	"iter"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"jp/cmd/jp/internal/call"
	"jp/cmd/jp/internal/model"
	"jp/convstore"
	"jp/convstore/amount"
	"jp/tools"
)

// said is a connection to somebody who has said bytes, and to whom nobody listens.
type said struct{ io.Reader }

func (said) Write(p []byte) (int, error) { return len(p), nil }
func (said) Close() error                { return nil }

// checking is a Subagents that fails the test for calls that are not in the store.
type checking struct {
	t *testing.T
	f *family
}

func (c checking) made(id, tool string) {
	for _, ev := range c.f.events(c.t) {
		if one, ok := ev.Body.(convstore.ToolCall); ok && one.ID == id && one.Name == tool {
			return
		}
	}
	c.t.Errorf("call %q of %q is carried out, and nobody made it", id, tool)
}

func (c checking) Admit(_ context.Context, calls []Call) {
	for _, one := range calls {
		c.made(one.ID, one.Name)
	}
}

func (c checking) Call(_ context.Context, one Call, step func([]byte)) (tools.Result, bool, error) {
	c.made(one.ID, one.Name)
	step([]byte(`{}`))
	return tools.Result{Text: "r"}, true, nil
}

func (c checking) Command(_ context.Context, cmd Command, r call.Request) (int, error) {
	c.made(cmd.Call, cmd.Tool)
	if len(cmd.Args) > 0 {
		_, _ = io.Copy(io.Discard, r.Stdin)
	}
	return 0, nil
}

func (checking) Release(context.Context)               {}
func (checking) Await(context.Context, []string) error { return nil }
func (checking) End(_ context.Context, _ string)       {}
func (checking) Calls() int                            { return 0 }

// FuzzServe gives the bytes of a sub-agent to its owner. Whatever they are, the conversation is one
// that a run could have made, and the delegation adds up.
func FuzzServe(f *testing.F) {
	whole := strings.Join([]string{
		`{"n":1,"get":true}`,
		`{"n":2,"begin":{` + events(event("e1", convstore.TurnStart{}), event("e2", convstore.UserMessage{Text: "q"})) +
			`,"left":{"tokens":1000,"cost_nano":null},"call":{"model":"m","usage":{"input_tokens":10,"output_tokens":20},"cost_nano":5}}}`,
		`{"n":3,` + appending(event("e3", convstore.ToolCall{ID: "c1", Name: "x", Arguments: []byte(`{}`)}),
			event("e4", convstore.ModelCall{Model: "m", Usage: convstore.Usage{Input: 9}, CostNano: new(int64(1))})) + `}`,
		`{"n":4,"admit":[{"id":"c1","name":"x","arguments":{}}]}`, `{"n":5,"call":{"id":"c1","name":"x","arguments":{},"left":1}}`, `{"cancel":5}`,
		`{"n":6,"command":{"tool":"x","call":"c1","args":["ls"]}}`, `{"input":{"n":6,"data":"eA=="}}`, `{"input":{"n":6}}`, `{"n":7,"ended":"c1"}`, `{"n":8,"release":true}`,
		`{"n":9,` + appending(event("e5", convstore.ToolResult{ID: "c1", Text: "r"}), event("e6", convstore.AssistantMessage{Text: "a"}), event("e7", convstore.TurnEnd{State: "ok"})) + `}`,
		`{"n":10,"events":true}`, `{"n":11,"children":3}`, `{"n":12,"title":true}`, `{"n":13,"await":["c1"]}`,
	}, "\n") + "\n"
	f.Add([]byte(whole))
	asks := []string{
		`{"n":1,"begin":{` + events(event("e1", convstore.TurnStart{})) + `,"left":{"tokens":1000,"cost_nano":null},"call":{"model":"m/child","usage":{"input_tokens":10,"output_tokens":20}}}}`,
		`{"n":2,"get":true}`, `{"n":3,"gate":{"left":1}}`, `{"n":4,"gate":{"limited":true,"wait":1}}`, `{"cancel":3}`,
		`{"n":5,"ask":{"request":{"MaxTokens":20,"messages":[{"role":"user","content":[{"text":"q"}]}],"tools":[{"name":"x"}]}}}`, `{"taken":{"n":5,"bytes":100}}`,
		`{"n":6,` + appending(event("e3", convstore.ModelCall{Model: "m/child"})) + `}`,
		`{"n":7,"begin":{"left":{"tokens":993,"cost_nano":null},"call":{"model":"m/child","usage":{"input_tokens":10,"output_tokens":20}}}}`, `{"n":8,"get":true}`,
		`{"n":9,"ask":{"keep":1,"same":true,"request":{"MaxTokens":20}}}`, `{"cancel":9}`,
		`{"n":10,` + appending(event("e4", convstore.TurnEnd{State: "error"})) + `}`,
	}
	for i := range asks {
		f.Add([]byte(strings.Join(asks[:i+1], "\n") + "\n"))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		fam := newFamily(t, convstore.Budget{Tokens: new(int64(1000))})
		ended := make(chan error, 1)
		heard := int64(0) // tokens that its model has used
		o := fam.modelled(func(ctx context.Context, r model.Request) iter.Seq2[model.Part, error] {
			heard += 7
			return says(nil, model.Part{Text: "a"}, model.Part{Usage: &convstore.Usage{Input: 3, Output: 4}}, model.Part{Stop: model.StopEnd})(ctx, r)
		}, &shutGate{open: make(chan struct{}), looks: true})
		o.Subagents = fam.owner(checking{t, fam}).Subagents
		go func() { ended <- Serve(t.Context(), said{bytes.NewReader(b)}, o) }()
		select {
		case <-ended:
		case <-time.After(patience):
			t.Fatal("Serve does not return")
		}
		starts, over, used := 0, false, int64(0)
		for _, ev := range fam.events(t) {
			if over {
				t.Errorf("%T after the end", ev.Body)
			}
			switch b := ev.Body.(type) {
			case convstore.TurnStart:
				starts++
			case convstore.TurnEnd:
				over = true
				if !slices.Contains(ends, b.State) {
					t.Errorf("it ended as %q", b.State)
				}
			case convstore.ModelCall:
				if negative(b.Usage, b.CostNano) {
					t.Errorf("it used %+v", b)
				}
				used = amount.Sum(used, b.Usage.Tokens())
			case convstore.Opaque:
				t.Errorf("%s was stored", b.Raw)
			}
			if ev.Time.After(time.Now()) || ev.Turn != starts {
				t.Errorf("event %+v", ev)
			}
		}
		if starts > 1 || over && starts == 0 {
			t.Errorf("%d turns, ended: %v", starts, over)
		}
		if used != heard {
			t.Errorf("calls of %d tokens are stored, want %d", used, heard)
		}
		if d := fam.settle(t, convstore.StateLost); d.Own.Tokens() < used || d.Own.Tokens() > amount.Sum(used, 1000) || d.Own.CostNano < 0 {
			t.Errorf("used %d, settled %+v", used, d.Own)
		}
	})
}

// teller is a connection to an owner who says its first line at once and the others when it has
// been asked something.
type teller struct {
	first, rest *bytes.Reader
	asked       chan struct{}
	once        sync.Once
}

func (c *teller) Read(p []byte) (int, error) {
	if c.first.Len() > 0 {
		return c.first.Read(p)
	}
	<-c.asked
	return c.rest.Read(p)
}

func (c *teller) Write(p []byte) (int, error) {
	c.once.Do(func() { close(c.asked) })
	return len(p), nil
}

func (c *teller) Close() error {
	c.once.Do(func() { close(c.asked) })
	return nil
}

// FuzzJoin gives the bytes of an owner to a sub-agent that asks one thing after the other. All of
// it has an end.
func FuzzJoin(f *testing.F) {
	start := `{"start":{"protocol":` + strconv.Itoa(Protocol) + `,"blank":true,"conversation":{"ID":5},"account":{"Left":{"tokens":5}}}}` + "\n"
	f.Add(byte(0), []byte(start+`{"answer":{"n":1,"stale":true,"account":{"Left":{"tokens":9}}}}`+"\n"+`{"answer":{"n":2}}`+"\n"))
	f.Add(byte(1), []byte(start+`{"answer":{"n":1,"error":{"text":"t","kind":"busy","id":3}}}`+"\n"))
	f.Add(byte(2), []byte(start+`{"answer":{"n":1,"more":true,"events":[`+event("e1", convstore.Note{Text: "n"})+`]}}`+"\n"+`{"answer":{"n":1}}`+"\n"))
	f.Add(byte(3), []byte(start+`{"step":{"n":1,"step":{"phase":"started"}}}`+"\n"+`{"answer":{"n":1,"result":{"Text":"r"},"recalled":true}}`+"\n"))
	f.Add(byte(4), []byte(start+`{"want":1}`+"\n"+`{"want":1}`+"\n"+`{"answer":{"n":1,"status":3,"stdout":"eA=="}}`+"\n"))
	f.Add(byte(5), []byte(start+`{"answer":{"n":1,"conversations":[{"ID":5}]}}`+"\n"))
	f.Add(byte(6), []byte(start+`{"answer":{"n":1,"calls":-3}}`+"\n"))
	f.Fuzz(func(t *testing.T, ask byte, b []byte) {
		first, rest, _ := bytes.Cut(b, []byte("\n"))
		c, err := Join(&teller{first: bytes.NewReader(append(slices.Clone(first), '\n')), rest: bytes.NewReader(rest), asked: make(chan struct{})}, nil)
		if err != nil {
			return
		}
		ctx := t.Context()
		asks := []func(){
			func() {
				_ = c.Begin(ctx, func(convstore.Account) *convstore.Call { return &convstore.Call{Model: "m"} }, at("b", convstore.TurnStart{})...)
			},
			func() { _ = c.Append(ctx, at("a", convstore.ModelCall{Usage: convstore.Usage{Input: 3}})...) },
			func() {
				for range c.Events(ctx, convstore.Range{}) {
				}
			},
			func() { _, _ = c.Call(ctx, Call{ID: "c1"}, func([]byte) {}) },
			func() {
				_, _ = c.Command(ctx, Command{}, call.Request{Stdin: strings.NewReader("in"), Stdout: io.Discard, Stderr: io.Discard})
			},
			func() { _, _ = c.Get(ctx); _, _ = c.Children(ctx, 3) },
			func() {
				_ = c.Release(ctx)
				_ = c.Admit(ctx, []Call{{}})
				_ = c.Await(ctx, []string{"x"})
				_ = c.End("x")
			},
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			for i := range asks {
				asks[(i+int(ask))%len(asks)]()
			}
		}()
		select {
		case <-ended:
		case <-time.After(patience):
			t.Fatal("a request has no end")
		}
	})
}
