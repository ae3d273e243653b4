package wire

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"jp/cmd/jp/internal/agent"
	"jp/cmd/jp/internal/call"
	"jp/convstore"
	"jp/tools"
	"jp/tools/proc"
)

func no(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestRoundTrips makes each request once, in a turn as a run takes it.
func TestRoundTrips(t *testing.T) {
	ctx := t.Context()
	f := newFamily(t, convstore.Budget{Tokens: new(int64(1000))})
	subs := &fake{}
	o := f.owner(subs)
	o.Replayed = true // so that what it says is all that is known of its calls
	l := serve(t, o)
	c := l.join()
	if s := c.Start(); s.Conversation.ID != f.res.Child.ID || !c.Blank() || c.ID() != f.res.Child.ID || *s.Account.Left.Tokens != 1000 || s.Conversation.Profile != "agent/r" {
		t.Errorf("Start = %+v", s)
	}
	conv, err := c.Get(ctx)
	no(t, err)
	if conv.Title != "child" || conv.Status != convstore.StatusQueued {
		t.Errorf("Get = %+v", conv)
	}
	begins := at("b", convstore.TurnStart{}, convstore.UserMessage{Text: "q"})
	no(t, c.Begin(ctx, func(a convstore.Account) *convstore.Call {
		return &convstore.Call{Model: "m/child", Replayed: true, Usage: convstore.Usage{Input: 100, Output: *a.Left.Tokens - 100}}
	}, begins...))
	if a := f.account(t); a.Call.Usage.Output != 900 || *a.Left.Tokens != 0 {
		t.Errorf("the account after Begin = %+v", a)
	}
	big := strings.Repeat("x", 700<<10) // so that what is read comes in parts
	reply := at("r", convstore.ToolCall{ID: "c1", Name: "jp_query", Arguments: []byte(`{"a":1}`)}, convstore.ToolCall{ID: "c2", Name: "shell", Arguments: []byte(`{}`)},
		convstore.AssistantMessage{Text: big}, convstore.ModelCall{Model: "m/child", Replayed: true, Usage: convstore.Usage{Input: 90, Output: 10}})
	no(t, c.Append(ctx, reply...))
	if a := f.account(t); *a.Left.Tokens != 900 || a.Call != (convstore.Spend{}) {
		t.Errorf("the account after the call = %+v", a)
	}

	no(t, c.Admit(ctx, []Call{{ID: "c1", Name: "jp_query"}}))
	var steps []string
	subs.call = func(ctx context.Context, one Call, step func([]byte)) (tools.Result, bool, error) {
		step([]byte(`{"a":1}`))
		step([]byte(`{"b":2}`))
		if _, ok := ctx.Deadline(); !ok || string(one.Arguments) != `{"a":1}` || one.Place != "p" || !slices.Equal(one.Trace, []string{"T=1"}) {
			t.Errorf("the call is %+v", one)
		}
		return tools.Result{Text: "it is \x00 here", IsError: true}, true, nil
	}
	timed, cancel := context.WithTimeout(ctx, time.Hour)
	defer cancel()
	res, err := c.Call(timed, Call{ID: "c1", Name: "jp_query", Arguments: []byte(`{"a":1}`), Place: "p", Trace: []string{"T=1"}}, func(raw []byte) { steps = append(steps, string(raw)) })
	if err != nil || res.Text != "it is \x00 here" || !res.IsError || !c.Recalled("c1") || c.Recalled("c2") || !slices.Equal(steps, []string{`{"a":1}`, `{"b":2}`}) {
		t.Errorf("Call = %+v, %v after %q", res, err, steps)
	}
	no(t, c.Release(ctx))
	if c.Calls() != 3 {
		t.Errorf("Calls = %d", c.Calls())
	}
	no(t, c.Await(ctx, []string{"c9"}))
	subs.command = func(_ context.Context, cmd Command, r call.Request) (int, error) {
		in, err := io.ReadAll(r.Stdin)
		fmt.Fprintf(r.Stdout, "%q %q %v", cmd.Args, in, err)
		fmt.Fprint(r.Stderr, "err\n")
		return 9, nil
	}
	var out, errOut bytes.Buffer
	status, err := c.Command(ctx, Command{Tool: "shell", Call: "c2", Args: []string{"ls", ""}}, call.Request{Stdin: strings.NewReader("in"), Stdout: &out, Stderr: &errOut})
	if status != 9 || err != nil || out.String() != `["ls" ""] "in" <nil>` || errOut.String() != "err\n" {
		t.Errorf("Command = %d, %v, %q, %q", status, err, &out, &errOut)
	}
	no(t, c.End("c2"))

	no(t, c.Append(ctx, at("s", convstore.ToolResult{ID: "c1", Text: big}, convstore.ToolResult{ID: "c2", Text: big})...))
	no(t, c.Begin(ctx, func(a convstore.Account) *convstore.Call {
		if *a.Left.Tokens != 900 {
			t.Errorf("left = %d, want 900", *a.Left.Tokens)
		}
		return &convstore.Call{Model: "m/child", Replayed: true, Usage: convstore.Usage{Input: 10, Output: 10}}
	}))
	last := at("t", convstore.Structured{Data: []byte(`{"x":1}`)}, convstore.ModelCall{Model: "m/child", Replayed: true, Usage: convstore.Usage{Input: 10}}, convstore.TurnEnd{State: convstore.StateOK})
	no(t, c.Append(ctx, last...))
	list, err := c.Children(ctx, 10)
	if err != nil || len(list) != 0 {
		t.Errorf("Children = %+v, %v", list, err)
	}
	if changed, err := c.Retitle(ctx, "child", "other"); changed || err != nil {
		t.Errorf("Retitle = %v, %v", changed, err)
	}
	if changed, err := c.Retitle(ctx, "", "other"); changed || err != nil { // it has a title
		t.Errorf("Retitle = %v, %v", changed, err)
	}
	var got []convstore.Event
	for ev, err := range c.Events(ctx, convstore.Range{}) {
		no(t, err)
		got = append(got, ev)
	}
	want := slices.Concat(begins, reply, at("s", convstore.ToolResult{ID: "c1", Text: big}, convstore.ToolResult{ID: "c2", Text: big}), last)
	if len(got) != len(want) {
		t.Fatalf("%d events, want %d", len(got), len(want))
	}
	for i, ev := range got {
		if ev.ID == want[i].ID || ev.Seq != uint64(i+1) || ev.Turn != 1 || !reflect.DeepEqual(ev.Body, want[i].Body) {
			t.Errorf("event %d = %s %d %d", i, ev.ID, ev.Seq, ev.Turn)
		}
	}
	if err := l.close(); err != nil {
		t.Errorf("Serve = %v", err)
	}
	if want := []string{"admit 1", "call c1 jp_query", "release", `await ["c9"]`, "command c2 shell", "end c2"}; !slices.Equal(subs.said, want) {
		t.Errorf("asked for %q, want %q", subs.said, want)
	}
	if d := f.settle(t, convstore.StateOK); d.Own.Tokens() != 110 || d.Total.Tokens() != 110 {
		t.Errorf("the delegation used %+v", d.Own)
	}
}

// TestOrder sends many appends without waiting for an answer.
func TestOrder(t *testing.T) {
	f := newFamily(t, convstore.Budget{})
	r := serve(t, f.owner(nil)).raw()
	r.ask(started())
	const many = 500
	go func() {
		for i := range many {
			r.send(fmt.Sprintf(`{"n":%d,%s}`, i+10, appending(event(fmt.Sprint("n", i), convstore.Note{Kind: "n", Text: fmt.Sprint(i)}))))
		}
	}()
	for i := range many {
		if a := r.read(); a.Answer == nil || a.Answer.N != uint64(i+10) || a.Answer.Error != nil {
			t.Fatalf("answer %d = %+v", i, a)
		}
	}
	for i, ev := range f.events(t)[2:] {
		if n := ev.Body.(convstore.Note); n.Text != fmt.Sprint(i) {
			t.Fatalf("event %d = %s", i, n.Text)
		}
	}
	no(t, r.close())
}

// TestAgain sends requests and events a second time.
func TestAgain(t *testing.T) {
	f := newFamily(t, convstore.Budget{Tokens: new(int64(100))})
	r := serve(t, f.owner(nil)).raw()
	r.ask(started())
	r.send(`{"n":1,` + started() + `}`)                                            // the number and what it asks for
	r.send(`{"n":1,` + appending(event("x", convstore.Note{Text: "never"})) + `}`) // the number with something else
	if a := r.ask(started()); a.Error != nil {                                     // the ids under another number
		t.Errorf("events that come again: %v", a.Error.Text)
	}
	again := `"begin":{` + events(event("e1", convstore.TurnStart{}), event("n1", convstore.Note{Text: "n"}), event("n1", convstore.Note{Text: "other"})) + `,"left":null,"call":null}`
	for range 2 {
		if a := r.ask(again); a.Error != nil || !a.Stale || *a.Account.Left.Tokens != 100 {
			t.Errorf("begin = %+v", a)
		}
	}
	r.n = 90
	r.ask(`"get":true`)
	r.send(`{"n":50,` + appending(event("y", convstore.Note{Text: "never"})) + `}`) // lower than one before
	if a := r.ask(appending(event("n1", convstore.Note{Text: "other"}), event("n2", convstore.Note{Text: "m"}))); a.Error != nil || a.N != 92 {
		t.Errorf("append = %+v", a)
	}
	var notes []string
	events := f.events(t)
	for _, ev := range events {
		if n, ok := ev.Body.(convstore.Note); ok {
			notes = append(notes, n.Text)
		}
	}
	if want := []string{"n", "m"}; !slices.Equal(notes, want) || len(events) != 4 {
		t.Errorf("%d events with the notes %q, want 4 with %q", len(events), notes, want)
	}
	no(t, r.close())
}

// TestCancel cancels one of two calls.
func TestCancel(t *testing.T) {
	f := newFamily(t, convstore.Budget{})
	both := make(chan struct{}, 2)
	subs := &fake{call: func(ctx context.Context, c Call, _ func([]byte)) (tools.Result, bool, error) {
		both <- struct{}{}
		<-ctx.Done()
		return tools.Result{Text: c.ID + " was stopped"}, false, context.Cause(ctx)
	}}
	l := serve(t, f.owner(subs))
	c := l.join()
	no(t, c.Append(t.Context(), at("e", convstore.TurnStart{}, convstore.ToolCall{ID: "c1", Name: "jp_query"}, convstore.ToolCall{ID: "c2", Name: "jp_query"})...))
	why := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	type end struct {
		r   tools.Result
		err error
	}
	ends := make([]chan end, 2)
	for i, ctx := range []context.Context{ctx, t.Context()} {
		ends[i] = make(chan end, 1)
		go func() {
			r, err := c.Call(ctx, Call{ID: fmt.Sprint("c", i+1), Name: "jp_query"}, nil)
			ends[i] <- end{r, err}
		}()
	}
	<-both
	<-both
	cancel(why)
	if e := <-ends[0]; !errors.Is(e.err, why) || e.r.Text != "c1 was stopped" {
		t.Errorf("the cancelled call = %+v", e)
	}
	select {
	case e := <-ends[1]:
		t.Errorf("the other call ended: %+v", e)
	default:
	}
	no(t, l.close())
	if e := <-ends[1]; e.err == nil {
		t.Errorf("the other call = %+v, though nobody answers", e)
	}
}

// TestBounds opens more requests than there may be, with calls that never end.
func TestBounds(t *testing.T) {
	hangs := &fake{call: func(ctx context.Context, _ Call, _ func([]byte)) (tools.Result, bool, error) {
		<-ctx.Done()
		return tools.Result{}, false, context.Cause(ctx)
	}}
	one := func(i int) string {
		return fmt.Sprintf(`{"n":%d,"call":{"id":"d%d","name":"jp_query","arguments":{}}}`, i+2, i)
	}
	open := func(t *testing.T, subs Subagents) *raw {
		f := newFamily(t, convstore.Budget{})
		r := serve(t, f.owner(subs)).raw()
		said := []string{event("e1", convstore.TurnStart{}), event("e2", convstore.ToolCall{ID: "c1", Name: "jp_query"})}
		for i := range maxOpen + 1 {
			id := fmt.Sprint("d", i)
			said = append(said, event(id, convstore.ToolCall{ID: id, Name: "jp_query"}))
		}
		r.ask(appending(said...))
		return r
	}
	t.Run("requests", func(t *testing.T) {
		r := open(t, hangs)
		for i := range maxOpen + 1 {
			r.send(one(i))
		}
		broken(t, r.end(), "too many requests")
	})
	t.Run("bytes", func(t *testing.T) {
		r := open(t, hangs)
		big := strings.Repeat("x", MaxFrame/2)
		for i := range 5 {
			r.send(fmt.Sprintf(`{"n":%d,"call":{"id":"d%d","name":"jp_query","arguments":{"a":"%s"}}}`, i+2, i, big))
		}
		broken(t, r.end(), "at the same time")
	})
	// What was admitted waits until it is released, and the places of calls are kept for a recording.
	t.Run("admitted", func(t *testing.T) {
		calls := make([]string, maxCalls)
		for i := range calls {
			calls[i] = fmt.Sprintf(`{"id":"d%d","name":"jp_query","arguments":{},"place":"%s"}`, i, strings.Repeat("x", maxPlace))
		}
		admit := `"admit":[` + strings.Join(calls, ",") + `]`
		r := open(t, &fake{})
		for range 3 {
			for range maxSaid / (maxCalls * maxPlace) / 3 {
				r.ask(admit)
			}
			r.ask(`"release":true`)
		}
		r.send(`{"n":99,` + admit + `}`)
		broken(t, r.end(), "in one run")
		r = open(t, &fake{})
		for range 6 {
			r.ask(admit)
		}
		r.send(`{"n":98,` + admit + `}`)
		r.send(`{"n":99,` + admit + `}`)
		broken(t, r.end(), "at the same time")
	})
	t.Run("recorded", func(t *testing.T) {
		r := open(t, hangs)
		r.send(`{"n":9,"recorded":{"run":"main"}}`)
		broken(t, r.end(), "a line of a recording that nobody makes")
	})
	t.Run("calls", func(t *testing.T) {
		r := open(t, hangs)
		r.send(`{"n":9,"admit":[` + strings.Repeat(`{"id":"c1","name":"jp_query","arguments":{}},`, maxCalls) + `{"id":"c1","name":"jp_query","arguments":{}}]}`)
		broken(t, r.end(), "too many calls")
	})
	t.Run("values", func(t *testing.T) {
		r := open(t, hangs)
		r.send(`{"n":9,"await":["` + strings.Repeat(`[{,\"`, maxValues) + `"]}`) // a text of them is one value
		r.send(`{"n":10,"admit":[` + strings.Repeat(`{},`, maxValues/2) + `{}]}`)
		broken(t, r.end(), fmt.Sprint("a frame of more than ", maxValues, " values"))
		r = open(t, hangs)
		for i := range 2 {
			r.send(strings.TrimSuffix(one(i), "}}") + `,"trace":[""` + strings.Repeat(`,""`, maxValues-10) + `]}}`)
		}
		broken(t, r.end(), "at the same time")
	})
	// Each wait looks at the store again and again.
	t.Run("waits", func(t *testing.T) {
		r := open(t, hangs)
		r.send(`{"n":9,"await":["c1"]}`)
		r.send(`{"n":10,"await":["c1"]}`)
		broken(t, r.end(), "waits a second time")
	})
	t.Run("arguments", func(t *testing.T) {
		r := open(t, hangs)
		r.send(`{"n":9,"command":{"tool":"jp_query","call":"c1","args":["` + strings.Repeat("x", call.MaxArgs) + `"]}}`)
		broken(t, r.end(), "too long")
	})
	// Answers that nobody reads: neither more requests nor the end of the run waits for that.
	t.Run("deaf", func(t *testing.T) {
		large := strings.Repeat("y", 1<<20)
		r := open(t, &fake{call: func(context.Context, Call, func([]byte)) (tools.Result, bool, error) {
			return tools.Result{Text: large}, false, nil
		}})
		for i := range maxOpen + 1 {
			r.send(one(i))
		}
		broken(t, r.end(), "too many requests")
	})
	t.Run("events", func(t *testing.T) {
		r := open(t, hangs)
		r.send(`{"n":9,"append":{"events":[` + strings.Repeat(`{"type":"note"},`, maxSaid/eventSize) + `{"type":"note"}]}}`)
		broken(t, r.end(), fmt.Sprintf("events of more than %d MiB in one run", maxSaid>>20))
		r = open(t, hangs)
		r.send(`{"n":9,"begin":{"events":[` + event("e3", convstore.AssistantMessage{Text: strings.Repeat("x", maxAtOnce)}) + `]}}`)
		broken(t, r.end(), fmt.Sprintf("events of more than %d MiB at once", maxAtOnce>>20))
	})
	// Steps that nobody reads: whoever has come to one holds a slot of the tree.
	t.Run("deaf to steps", func(t *testing.T) {
		const steps = 100
		done := make(chan struct{})
		r := open(t, &fake{call: func(_ context.Context, _ Call, step func([]byte)) (tools.Result, bool, error) {
			for i := range steps {
				step(fmt.Appendf(nil, `"%d %s"`, i, strings.Repeat("x", 64<<10)))
			}
			close(done)
			return tools.Result{}, false, nil
		}})
		r.send(one(0))
		<-done
		for i := range steps {
			if f := r.read(); f.Step == nil || !strings.HasPrefix(string(f.Step.Step), fmt.Sprintf(`"%d `, i)) {
				t.Fatalf("step %d is %+v", i, f)
			}
		}
		if f := r.read(); f.Answer == nil {
			t.Errorf("after the steps comes %+v", f)
		}
	})
	// Events that nobody reads any more are not read from the store either.
	t.Run("unread", func(t *testing.T) {
		f := newFamily(t, convstore.Budget{})
		o, log := f.owner(hangs), &counted{Log: f.log}
		o.Log = log
		r := serve(t, o).raw()
		r.ask(appending(event("e1", convstore.TurnStart{}), event("e2", convstore.Note{Text: strings.Repeat("x", 2<<20)})))
		for i := range maxOpen - 1 { // the first may count still
			r.send(fmt.Sprintf(`{"n":%d,"events":true}`, i+2))
		}
		no(t, r.close())
		if log.n > maxOpen { // each would read two
			t.Errorf("%d events were read", log.n)
		}
	})
	// What commands write that nobody reads.
	t.Run("commands", func(t *testing.T) {
		var kept, began atomic.Int64
		all := make(chan struct{})
		large := make([]byte, 1<<20)
		r := open(t, &fake{command: func(_ context.Context, _ Command, r call.Request) (int, error) {
			for range call.MaxOutput >> 20 {
				n, _ := r.Stdout.Write(large)
				kept.Add(int64(n))
			}
			if began.Add(1) == call.Lines {
				close(all)
			}
			return 0, nil
		}})
		for i := range maxOpen - 1 {
			r.send(fmt.Sprintf(`{"n":%d,"command":{"tool":"jp_query","call":"c1","args":["ls"]}}`, i+2))
		}
		<-all
		if n := kept.Load(); n > maxHeld {
			t.Errorf("%d bytes are kept of %d commands", n, began.Load())
		}
		no(t, r.close())
	})
	t.Run("half closed", func(t *testing.T) {
		large := strings.Repeat("y", 1<<20)
		r := open(t, &fake{call: func(context.Context, Call, func([]byte)) (tools.Result, bool, error) {
			return tools.Result{Text: large}, false, nil
		}})
		r.send(one(0))
		r.send(`{"n":3,"events":true}`)
		shut(t, r.theirs)
		no(t, r.end())
	})
}

// counted is a Log that counts the events which are read of it.
type counted struct {
	agent.Log
	n int
}

func (c *counted) Events(ctx context.Context, r convstore.Range) iter.Seq2[convstore.Event, error] {
	return func(yield func(convstore.Event, error) bool) {
		for ev, err := range c.Log.Events(ctx, r) {
			if err == nil {
				c.n++
			}
			if !yield(ev, err) {
				return
			}
		}
	}
}

// TestBadFrames sends lines that break the protocol. What came before is stored.
func TestBadFrames(t *testing.T) {
	deep := strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000)
	for name, tt := range map[string]struct{ line, want string }{
		"empty":          {"", "cannot be read"},
		"no JSON":        {"GET / HTTP/1.1", "cannot be read"},
		"an array":       {"[]", "cannot be read"},
		"null":           {"null", "no request"},
		"no number":      {`{"get":true}`, "no request"},
		"negative":       {`{"n":-1,"get":true}`, "cannot be read"},
		"huge":           {`{"n":1e400,"get":true}`, "cannot be read"},
		"above 64 bits":  {`{"n":18446744073709551616,"get":true}`, "cannot be read"},
		"nothing asked":  {`{"n":9}`, "does not know"},
		"unknown":        {`{"n":9,"own":"everything"}`, "does not know"},
		"another":        {`{"n":9,"retitle":{"was":"child","title":"t"}}`, "does not know"},
		"no children":    {`{"n":9,"children":-5}`, "does not know"},
		"deep":           {`{"n":9,"call":{"id":"c1","name":"jp_query","arguments":` + deep + `}}`, "cannot be read"},
		"deep event":     {`{"n":9,"append":{"events":[{"type":"note","x":` + deep + `}]}}`, "cannot be read"},
		"null event":     {`{"n":9,"append":{"events":[null]}}`, "cannot be read"},
		"no type":        {`{"n":9,"append":{"events":[{"event_id":"x"}]}}`, "cannot be read"},
		"NUL":            {"{\"n\":9,\x00\"get\":true}", "cannot be read"},
		"two values":     {`{"n":9,"get":true}{"n":10,"get":true}`, "cannot be read"},
		"huge use":       {`{"n":9,"append":{"events":[{"event_id":"x","type":"model_call","usage":{"input_tokens":1e30}}]}}`, "does not know"},
		"time":           {`{"n":9,"append":{"events":[{"event_id":"x","timestamp":"soon","type":"note"}]}}`, "cannot be read"},
		"call elsewhere": {`{"n":9,"call":{"id":"other","name":"jp_query","arguments":{}}}`, "not made in this turn"},
		"other tool":     {`{"n":9,"call":{"id":"c1","name":"jp_batch_query","arguments":{}}}`, "not made in this turn"},
		"admit":          {`{"n":9,"admit":[{"id":"c1","name":"jp_query","arguments":{}},{"id":"c2","name":"jp_query","arguments":{}}]}`, "not made in this turn"},
		"two requests":   {`{"n":9,"admit":[{"id":"c2","name":"jp_query","arguments":{}}],"call":{"id":"c1","name":"jp_query","arguments":{}}}`, "more than one request"},
		"command":        {`{"n":9,"command":{"tool":"x","call":"c1","args":["ls"]}}`, "not made in this turn"},
		"place":          {`{"n":9,"call":{"id":"c1","name":"jp_query","arguments":{},"place":"` + strings.Repeat("x", maxPlace+1) + `"}}`, "place is too long"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFamily(t, convstore.Budget{})
			subs := &fake{}
			r := serve(t, f.owner(subs)).raw()
			r.send(`{"n":1,` + appending(event("e1", convstore.TurnStart{}), event("e2", convstore.ToolCall{ID: "c1", Name: "jp_query"})) + `}`)
			r.read()
			r.send(tt.line)
			if tt.want == "" {
				if f := r.read(); f.Answer == nil || f.Answer.Error == nil {
					t.Errorf("%s was answered with %+v", tt.line, f.Answer)
				}
				no(t, r.close())
			} else {
				broken(t, r.end(), tt.want)
			}
			if n := len(f.events(t)); n != 2 || len(subs.said) != 0 {
				t.Errorf("%d events, %q were asked for", n, subs.said)
			}
		})
	}
	t.Run("long", func(t *testing.T) {
		r := serve(t, newFamily(t, convstore.Budget{}).owner(nil)).raw()
		part := strings.Repeat("x", 1<<20)
		for range MaxFrame>>20 + 1 {
			if _, err := r.theirs.WriteString(part); err != nil {
				break
			}
		}
		broken(t, r.end(), "more than 64 MiB")
	})
	t.Run("cut", func(t *testing.T) {
		f := newFamily(t, convstore.Budget{})
		r := serve(t, f.owner(nil)).raw()
		r.send(`{"n":1,` + started() + `}`)
		_, _ = r.theirs.WriteString(`{"n":2,` + appending(event("e3", convstore.Note{Text: "n"}))) // all but its end
		no(t, r.close())
		if n := len(f.events(t)); n != 2 {
			t.Errorf("%d events, want the 2 that came whole", n)
		}
	})
	t.Run("UTF-8", func(t *testing.T) {
		f := newFamily(t, convstore.Budget{})
		r := serve(t, f.owner(nil)).raw()
		r.ask(started())
		if a := r.ask("\"append\":{\"events\":[{\"event_id\":\"u\",\"type\":\"note\",\"kind\":\"k\",\"text\":\"a\xff\\u0000\\ud800b\"}]}"); a.Error != nil {
			t.Fatal(a.Error.Text)
		}
		if n := f.events(t)[2].Body.(convstore.Note); n.Text != "a\ufffd\x00\ufffdb" {
			t.Errorf("stored %q", n.Text)
		}
		no(t, r.close())
	})
}

// TestJoin gives sub-agents other owners than they know.
func TestJoin(t *testing.T) {
	for name, tt := range map[string]struct{ says, want string }{
		"nothing":  {"", ErrGone.Error()},
		"cut":      {`{"start":{"protocol":` + strconv.Itoa(Protocol), ErrGone.Error()},
		"noise":    {"Welcome to gpu1\n", "wire: a frame that cannot be read"},
		"other":    {`{"start":{"protocol":1}}` + "\n", "wire: protocol 1, and this jp knows " + strconv.Itoa(Protocol)},
		"none":     {`{"start":{}}` + "\n", "wire: protocol 0, and this jp knows " + strconv.Itoa(Protocol)},
		"an other": {`{"answer":{"n":1}}` + "\n", "wire: the first frame is not a start"},
	} {
		t.Run(name, func(t *testing.T) {
			ours, theirs, err := proc.Pair()
			no(t, err)
			_, err = theirs.WriteString(tt.says)
			no(t, err)
			theirs.Close()
			c, err := Join(ours, nil)
			if c != nil || err == nil || !strings.HasPrefix(err.Error(), tt.want) {
				t.Errorf("Join = %v, want %s", err, tt.want)
			}
			if _, err := ours.Read(make([]byte, 1)); !errors.Is(err, os.ErrClosed) {
				t.Errorf("a Read of the connection = %v, want that it is closed", err)
			}
		})
	}
}

// TestOwnerDies closes the owner's side while a sub-agent waits for it in each way.
func TestOwnerDies(t *testing.T) {
	ctx := t.Context()
	for name, wait := range map[string]func(*Conn) error{
		"append": func(c *Conn) error { return c.Append(ctx, at("e", convstore.Note{Text: "n"})...) },
		"begin": func(c *Conn) error {
			return c.Begin(ctx, func(convstore.Account) *convstore.Call { return &convstore.Call{Model: "m"} })
		},
		"get":      func(c *Conn) error { _, err := c.Get(ctx); return err },
		"children": func(c *Conn) error { _, err := c.Children(ctx, 3); return err },
		"events": func(c *Conn) (last error) {
			for _, err := range c.Events(ctx, convstore.Range{}) {
				last = err
			}
			return last
		},
		"admit":   func(c *Conn) error { return c.Admit(ctx, []Call{{ID: "c1"}}) },
		"await":   func(c *Conn) error { return c.Await(ctx, []string{"c1"}) },
		"release": func(c *Conn) error { return c.Release(ctx) },
		"call":    func(c *Conn) error { _, err := c.Call(ctx, Call{ID: "c1"}, nil); return err },
		"end":     func(c *Conn) error { return c.End("c1") },
		"command": func(c *Conn) error {
			in, w := io.Pipe() // nobody writes
			defer w.Close()
			_, err := c.Command(ctx, Command{Call: "c1"}, call.Request{Stdin: in, Stdout: io.Discard, Stderr: io.Discard})
			return err
		},
	} {
		for _, says := range []string{"", `{"answer":{"n":1,"more":true}}` + "\n", `{"want":1}` + "\n" + `{"step":{"n":1,"step":{}}}` + "\n", `{"answer":{"n":1`} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				ours, theirs, err := proc.Pair()
				no(t, err)
				own, err := pollable(theirs)
				no(t, err)
				_, err = own.WriteString(`{"start":{"protocol":` + strconv.Itoa(Protocol) + `}}` + "\n")
				no(t, err)
				c, err := Join(ours, nil)
				no(t, err)
				ended := make(chan error, 2)
				go func() { ended <- wait(c) }()
				if _, err := own.Read(make([]byte, 1<<16)); err != nil { // the request
					t.Fatal(err)
				}
				_, err = own.WriteString(says)
				no(t, err)
				own.Close()
				for range 2 {
					select {
					case err := <-ended:
						if !errors.Is(err, ErrGone) {
							t.Errorf("%s = %v, want ErrGone", name, err)
						}
					case <-time.After(patience):
						t.Fatalf("%s hangs", name)
					}
					go func() { ended <- wait(c) }() // and what is asked later
				}
				<-ended
				_ = c.Close()
			})
		}
	}
}

// TestChildDies closes the sub-agent's side with requests open.
func TestChildDies(t *testing.T) {
	f := newFamily(t, convstore.Budget{})
	var stopped atomic.Int32
	began := make(chan struct{}, 2)
	subs := &fake{
		call: func(ctx context.Context, _ Call, _ func([]byte)) (tools.Result, bool, error) {
			began <- struct{}{}
			<-ctx.Done()
			if errors.Is(context.Cause(ctx), errEnded) {
				stopped.Add(1)
			}
			return tools.Result{}, false, ctx.Err()
		},
		command: func(_ context.Context, _ Command, r call.Request) (int, error) {
			began <- struct{}{}
			if _, err := r.Stdin.Read(make([]byte, 1)); errors.Is(err, errEnded) {
				stopped.Add(1)
			}
			return 0, nil
		},
	}
	r := serve(t, f.owner(subs)).raw()
	r.ask(appending(event("e1", convstore.TurnStart{}), event("e2", convstore.ToolCall{ID: "c1", Name: "x"})))
	r.send(`{"n":2,"call":{"id":"c1","name":"x","arguments":{}}}`)
	r.send(`{"n":3,"command":{"call":"c1","tool":"x"}}`)
	<-began
	<-began
	const many = 100
	for i := range many {
		r.send(fmt.Sprintf(`{"n":%d,%s}`, i+4, appending(event(fmt.Sprint("n", i), convstore.Note{Text: "n"}))))
	}
	no(t, r.close())
	if stopped.Load() != 2 {
		t.Errorf("%d of 2 requests were stopped", stopped.Load())
	}
	if n := len(f.events(t)); n != 2+many {
		t.Errorf("%d events, want all %d that came whole", n, 2+many)
	}
	if d := f.settle(t, convstore.StateLost); d.State != convstore.StateLost {
		t.Errorf("settled as %s", d.State)
	}
}

// TestOwnerStops ends the context of Serve: calls stop, and what happens is stored all the same.
func TestOwnerStops(t *testing.T) {
	f := newFamily(t, convstore.Budget{})
	l := serve(t, f.owner(&fake{call: func(ctx context.Context, _ Call, _ func([]byte)) (tools.Result, bool, error) {
		<-ctx.Done()
		return tools.Result{Text: "part"}, false, context.Cause(ctx)
	}}))
	c := l.join()
	no(t, c.Append(t.Context(), at("e", convstore.TurnStart{}, convstore.ToolCall{ID: "c1", Name: "x"})...))
	time.AfterFunc(time.Millisecond, l.stop)
	if r, err := c.Call(t.Context(), Call{ID: "c1", Name: "x"}, nil); err == nil || r.Text != "part" {
		t.Errorf("Call = %+v, %v", r, err)
	}
	no(t, c.Append(t.Context(), at("t", convstore.TurnEnd{State: convstore.StateCancelled})...))
	no(t, l.close())
	if n := len(f.events(t)); n != 3 {
		t.Errorf("%d events", n)
	}
}

// TestStdin runs many commands at once, some of which read their stdin.
func TestStdin(t *testing.T) {
	f := newFamily(t, convstore.Budget{})
	subs := &fake{command: func(_ context.Context, cmd Command, r call.Request) (int, error) {
		if cmd.Args[0] == "deaf" {
			return 1, nil
		}
		if cmd.Args[0] == "some" {
			n, err := io.ReadFull(r.Stdin, make([]byte, 10))
			fmt.Fprint(r.Stdout, n, " ", err)
			return 3, nil
		}
		in, err := io.ReadAll(r.Stdin)
		fmt.Fprint(r.Stdout, len(in), " ", err)
		return 2, nil
	}}
	l := serve(t, f.owner(subs))
	c := l.join()
	no(t, c.Append(t.Context(), at("e", convstore.TurnStart{}, convstore.ToolCall{ID: "c1", Name: "x"})...))
	var all sync.WaitGroup
	ask := func(arg string, stdin io.Reader, status int, want string) {
		all.Go(func() {
			var out bytes.Buffer
			got, err := c.Command(t.Context(), Command{Tool: "x", Call: "c1", Args: []string{arg}}, call.Request{Stdin: stdin, Stdout: &out, Stderr: io.Discard})
			if got != status || err != nil || out.String() != want {
				t.Errorf("%s = %d, %v, %q; want %d, %q", arg, got, err, &out, status, want)
			}
		})
	}
	reads := &endless{}
	for i := range 40 {
		ask("all", strings.NewReader(strings.Repeat("x", i*5000)), 2, fmt.Sprint(i*5000, " <nil>"))
		ask("deaf", unread{t}, 1, "")
		ask("some", reads, 3, "10 <nil>")
	}
	ask("all", strings.NewReader(strings.Repeat("x", call.MaxInput)), 2, fmt.Sprint(call.MaxInput, " <nil>"))
	ask("all", strings.NewReader(strings.Repeat("x", call.MaxInput+1)), 2, fmt.Sprint(call.MaxInput, " more than 4 MiB"))
	all.Wait()
	for last := int64(-1); last != reads.n.Load(); time.Sleep(time.Millisecond) { // else it would be read until the test times out
		last = reads.n.Load()
	}
	no(t, l.close())
}

type unread struct{ t *testing.T }

func (u unread) Read([]byte) (int, error) {
	u.t.Error("stdin is read though nobody wants it")
	return 0, io.EOF
}

// endless is a stdin without an end, which counts what is read.
type endless struct{ n atomic.Int64 }

func (e *endless) Read(p []byte) (int, error) {
	e.n.Add(1)
	p[0] = 'x'
	return 1, nil
}

// TestBegin begins calls of models against accounts.
func TestBegin(t *testing.T) {
	left := func(tokens, cost any) convstore.Budget {
		b := convstore.Budget{}
		if n, ok := tokens.(int); ok {
			b.Tokens = new(int64(n))
		}
		if n, ok := cost.(int); ok {
			b.CostNano = new(int64(n))
		}
		return b
	}
	for name, tt := range map[string]struct {
		grant convstore.Budget
		begin string // the request
		want  string // part of how the connection broke; "stale", "" = the call is in the account
	}{
		"fits":         {left(100, nil), `"left":{"tokens":100,"cost_nano":null},"call":{"model":"m","usage":{"input_tokens":60,"output_tokens":40},"cost_nano":null}`, ""},
		"no limits":    {left(nil, nil), `"left":{"tokens":null,"cost_nano":null},"call":{"model":"m","usage":{"input_tokens":9223372036854775807,"output_tokens":9223372036854775807},"cost_nano":null}`, ""},
		"with cost":    {left(nil, 50), `"left":{"tokens":null,"cost_nano":50},"call":{"model":"m/priced","usage":{"input_tokens":60},"cost_nano":50}`, ""},
		"free model":   {left(nil, 50), `"left":{"tokens":null,"cost_nano":50},"call":{"model":"m/other","usage":{"input_tokens":60},"cost_nano":null}`, ""},
		"not known":    {left(100, nil), `"left":null,"call":{"model":"m","usage":{"input_tokens":1}}`, "stale"},
		"changed":      {left(100, nil), `"left":{"tokens":101,"cost_nano":null},"call":{"model":"m","usage":{"input_tokens":1}}`, "stale"},
		"other amount": {left(100, nil), `"left":{"tokens":100,"cost_nano":5},"call":{"model":"m","usage":{"input_tokens":1}}`, "stale"},
		"empty":        {left(100, nil), `"left":{"tokens":null,"cost_nano":null},"call":{"model":"m","usage":{"input_tokens":1}}`, "stale"},
		"too much":     {left(100, nil), `"left":{"tokens":100,"cost_nano":null},"call":{"model":"m","usage":{"input_tokens":60,"output_tokens":41},"cost_nano":null}`, "more than is left"},
		"overflow":     {left(100, nil), `"left":{"tokens":100,"cost_nano":null},"call":{"model":"m","usage":{"input_tokens":9223372036854775807,"output_tokens":9223372036854775807},"cost_nano":null}`, "more than is left"},
		"too dear":     {left(nil, 50), `"left":{"tokens":null,"cost_nano":50},"call":{"model":"m","usage":{"input_tokens":60},"cost_nano":51}`, "more than is left"},
		"no cost":      {left(nil, 50), `"left":{"tokens":null,"cost_nano":50},"call":{"model":"m/priced","usage":{"input_tokens":60},"cost_nano":null}`, "without its cost"},
		"negative":     {left(100, nil), `"left":{"tokens":100,"cost_nano":null},"call":{"model":"m","usage":{"input_tokens":-1},"cost_nano":null}`, "less than nothing"},
		"negative out": {left(100, nil), `"left":{"tokens":100,"cost_nano":null},"call":{"model":"m","usage":{"input_tokens":500,"output_tokens":-500},"cost_nano":null}`, "less than nothing"},
		"negative hit": {left(100, nil), `"left":{"tokens":100,"cost_nano":null},"call":{"model":"m","usage":{"cache_read_tokens":-500},"cost_nano":null}`, "less than nothing"},
		"pays":         {left(nil, 50), `"left":{"tokens":null,"cost_nano":50},"call":{"model":"m","usage":{},"cost_nano":-5}`, "less than nothing"},
		"replayed":     {left(100, nil), `"left":{"tokens":100,"cost_nano":null},"call":{"model":"m","usage":{"input_tokens":1},"cost_nano":null,"replayed":true}`, "replayed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFamily(t, tt.grant)
			r := serve(t, f.owner(nil)).raw()
			a := r.ask(`"begin":{` + events(event("e1", convstore.TurnStart{})) + `,` + tt.begin + `}`)
			acc := f.account(t)
			calls := acc.Call != (convstore.Spend{})
			switch tt.want {
			case "":
				if a.Error != nil || a.Stale || !calls {
					t.Errorf("begin = %+v, the account %+v", a, acc)
				}
			case "stale":
				if a.Error != nil || !a.Stale || calls || !same(a.Account.Left, tt.grant) {
					t.Errorf("begin = %+v, the account %+v", a, acc)
				}
			default:
				if a.Error == nil || calls {
					t.Errorf("begin = %+v, the account %+v", a, acc)
				}
				broken(t, r.end(), tt.want)
			}
			if n := len(f.events(t)); n != 1 {
				t.Errorf("%d events", n)
			}
		})
	}
	t.Run("before the turn", func(t *testing.T) {
		f := newFamily(t, convstore.Budget{})
		r := serve(t, f.owner(nil)).raw()
		r.ask(`"begin":{"left":{"tokens":null,"cost_nano":null},"call":{"model":"m","usage":{"input_tokens":1}}}`)
		broken(t, r.end(), "outside of the turn")
	})
	// A person may narrow the limits, or a call may have cost more than was foreseen.
	t.Run("moves", func(t *testing.T) {
		f := newFamily(t, left(100, nil))
		o := f.owner(nil)
		o.Replayed = true
		l := serve(t, o)
		c := l.join()
		c.believe(&convstore.Account{Left: left(7, nil)})
		var seen []int64
		no(t, c.Begin(t.Context(), func(a convstore.Account) *convstore.Call {
			seen = append(seen, *a.Left.Tokens)
			return &convstore.Call{Model: "m", Replayed: true, Usage: convstore.Usage{Input: *a.Left.Tokens}}
		}, at("e", convstore.TurnStart{})...))
		no(t, c.Append(t.Context(), at("r", convstore.ModelCall{Model: "m", Replayed: true, Usage: convstore.Usage{Input: 300}})...))
		no(t, c.Begin(t.Context(), func(a convstore.Account) *convstore.Call {
			seen = append(seen, *a.Left.Tokens)
			return nil
		}))
		if want := []int64{7, 100, -200}; !slices.Equal(seen, want) {
			t.Errorf("the accounts had %d left, want %d", seen, want)
		}
		no(t, l.close())
	})
}

// TestErrors asks an owner whose answers are errors.
func TestErrors(t *testing.T) {
	f := newFamily(t, convstore.Budget{})
	errs := map[string]error{
		"busy":  fmt.Errorf("tried: %w", &convstore.BusyError{ID: 7}),
		"store": &convstore.BusyError{},
		"none":  fmt.Errorf("tried: %w", &convstore.NotFoundError{ID: 9}),
		"scope": &convstore.ScopeError{ID: 9, Root: 3},
		"other": io.ErrUnexpectedEOF,
	}
	subs := &fake{call: func(_ context.Context, c Call, _ func([]byte)) (tools.Result, bool, error) {
		return tools.Result{Text: "r"}, false, errs[c.Name]
	}}
	l := serve(t, f.owner(subs))
	c := l.join()
	no(t, c.Append(t.Context(), at("e", convstore.TurnStart{})...))
	for name, want := range errs {
		no(t, c.Append(t.Context(), at(name, convstore.ToolCall{ID: name, Name: name})...))
		r, err := c.Call(t.Context(), Call{ID: name, Name: name}, nil)
		if r.Text != "r" || err == nil || err.Error() != want.Error() {
			t.Errorf("%s = %+v, %v", name, r, err)
		}
		var (
			busy  *convstore.BusyError
			none  *convstore.NotFoundError
			scope *convstore.ScopeError
		)
		got := fmt.Sprint(errors.As(err, &busy), errors.As(err, &none), errors.As(err, &scope))
		if want := fmt.Sprint(errors.As(want, new(*convstore.BusyError)), errors.As(want, new(*convstore.NotFoundError)), errors.As(want, new(*convstore.ScopeError))); got != want {
			t.Errorf("%s is of the types %s, want %s", name, got, want)
		}
		if name == "busy" && busy.ID != 7 || name == "none" && none.ID != 9 || name == "scope" && (scope.ID != 9 || scope.Root != 3) {
			t.Errorf("%s = %#v", name, errors.Unwrap(err))
		}
	}
	no(t, l.close())

	f = newFamily(t, convstore.Budget{})
	l = serve(t, f.owner(nil)) // its sub-agents cannot be reached at all
	c = l.join()
	var scope *convstore.ScopeError
	if err := c.Await(t.Context(), []string{"c"}); !errors.As(err, &scope) {
		t.Errorf("Await = %v", err)
	}
	for _, err := range c.Events(t.Context(), convstore.LastTurns(1)) {
		if err == nil {
			t.Error("a part of the events can be read")
		}
	}
	no(t, f.log.Close()) // the store fails, and goes on failing
	for range 2 {
		if err := c.Append(t.Context(), at("e", convstore.TurnStart{})...); err == nil || err.Error() != convstore.ErrClosed.Error() {
			t.Errorf("Append = %v", err)
		}
	}
	no(t, l.close())
}

// TestTurn says events that no run says.
func TestTurn(t *testing.T) {
	call := convstore.ModelCall{Model: "m", Usage: convstore.Usage{Input: 5}}
	with := func(change func(*convstore.ModelCall)) convstore.ModelCall {
		c := call
		change(&c)
		return c
	}
	type bodies = []convstore.Body
	const begin = `"begin":{"left":{"tokens":100,"cost_nano":null},"call":{"model":"m","usage":{"input_tokens":10},"cost_nano":7}}`
	for name, tt := range map[string]struct {
		before bodies // stored
		begins bool   // whether a call of the model m is begun then
		says   bodies
		want   string // part of how the connection broke; "" = it did not
	}{
		"no turn":         {nil, false, bodies{convstore.AssistantMessage{Text: "a"}}, "before the turn"},
		"two turns":       {bodies{convstore.TurnStart{}}, false, bodies{convstore.TurnStart{}}, "second turn"},
		"limits":          {nil, false, bodies{convstore.TurnStart{Limits: &convstore.Limits{Children: 9}}}, "sets limits"},
		"after the end":   {bodies{convstore.TurnStart{}, convstore.TurnEnd{State: convstore.StateError}}, false, bodies{convstore.Note{Text: "n"}}, "after the end"},
		"again":           {bodies{convstore.TurnStart{}, convstore.TurnEnd{State: convstore.StateError}}, false, bodies{convstore.TurnStart{}}, "after the end"},
		"two ends":        {bodies{convstore.TurnStart{}}, false, bodies{convstore.TurnEnd{State: convstore.StateError}, convstore.TurnEnd{State: convstore.StateError}}, "after the end"},
		"no answer":       {bodies{convstore.TurnStart{}, convstore.UserMessage{Text: "q"}}, false, bodies{convstore.TurnEnd{State: convstore.StateOK}}, "without an answer"},
		"in part none":    {bodies{convstore.TurnStart{}}, false, bodies{convstore.TurnEnd{State: convstore.StatePartial}}, "without an answer"},
		"unseen answer":   {bodies{convstore.TurnStart{}}, false, bodies{convstore.AssistantMessage{Text: " \u200b\n"}, convstore.TurnEnd{State: convstore.StateOK}}, "without an answer"},
		"calls a tool":    {bodies{convstore.TurnStart{}}, false, bodies{convstore.AssistantMessage{Text: "a"}, convstore.ToolCall{ID: "c", Name: "x"}, convstore.TurnEnd{State: convstore.StateOK}}, "without an answer"},
		"answer":          {bodies{convstore.TurnStart{}}, false, bodies{convstore.AssistantMessage{Text: "a"}, convstore.TurnEnd{State: convstore.StateOK}}, ""},
		"error":           {bodies{convstore.TurnStart{}}, false, bodies{convstore.TurnEnd{State: convstore.StateError, Reason: "r"}}, ""},
		"killed":          {bodies{convstore.TurnStart{}}, false, bodies{convstore.TurnEnd{State: convstore.StateKilled}}, "by itself"},
		"lost":            {bodies{convstore.TurnStart{}}, false, bodies{convstore.TurnEnd{State: convstore.StateLost}}, "by itself"},
		"running":         {bodies{convstore.TurnStart{}}, false, bodies{convstore.TurnEnd{State: "running"}}, "by itself"},
		"no end":          {bodies{convstore.TurnStart{}}, false, bodies{convstore.TurnEnd{}}, "by itself"},
		"call":            {bodies{convstore.TurnStart{}}, true, bodies{with(func(c *convstore.ModelCall) { c.CostNano = new(int64(3)) })}, ""},
		"dear call":       {bodies{convstore.TurnStart{}}, true, bodies{with(func(c *convstore.ModelCall) { c.CostNano, c.Usage.Output = new(int64(300)), 900 })}, ""},
		"two calls":       {bodies{convstore.TurnStart{}}, true, bodies{with(func(c *convstore.ModelCall) { c.CostNano = new(int64(3)) }), call}, "not begun"},
		"no call":         {bodies{convstore.TurnStart{}}, false, bodies{call}, "not begun"},
		"only money":      {bodies{convstore.TurnStart{}}, false, bodies{convstore.ModelCall{Model: "m", CostNano: new(int64(1))}}, "not begun"},
		"nothing used":    {bodies{convstore.TurnStart{}}, false, bodies{convstore.ModelCall{Model: "m/child", CostNano: new(int64)}}, ""},
		"of no model":     {bodies{convstore.TurnStart{}}, false, bodies{convstore.ModelCall{Model: "m/strong", CostNano: new(int64)}}, "does not have"},
		"other model":     {bodies{convstore.TurnStart{}}, true, bodies{with(func(c *convstore.ModelCall) { c.Model = "m/other" })}, "another model"},
		"without cost":    {bodies{convstore.TurnStart{}}, true, bodies{call}, "without a cost"},
		"gives back":      {bodies{convstore.TurnStart{}}, true, bodies{with(func(c *convstore.ModelCall) { c.Usage.Input = -500 })}, "less than nothing"},
		"gives all back":  {bodies{convstore.TurnStart{}}, true, bodies{with(func(c *convstore.ModelCall) { c.Usage.Output = math.MinInt64 })}, "less than nothing"},
		"pays":            {bodies{convstore.TurnStart{}}, true, bodies{with(func(c *convstore.ModelCall) { c.CostNano = new(int64(-1)) })}, "less than nothing"},
		"replayed":        {bodies{convstore.TurnStart{}}, true, bodies{with(func(c *convstore.ModelCall) { c.Replayed = true })}, "replayed"},
		"lost call":       {bodies{convstore.TurnStart{}}, true, bodies{with(func(c *convstore.ModelCall) { c.Stop = convstore.StopLost })}, "is lost"},
		"late config":     {bodies{convstore.TurnStart{}}, false, bodies{convstore.ConfigDelta{Delta: []byte(`{}`)}}, "changes the config"},
		"config twice":    {bodies{convstore.ConfigDelta{}}, false, bodies{convstore.ConfigDelta{Delta: []byte(`{}`)}}, "changes the config"},
		"one call again":  {bodies{convstore.TurnStart{}, convstore.ToolCall{ID: "c", Name: "x"}}, false, bodies{convstore.ToolCall{ID: "c", Name: "y"}}, "id of another"},
		"id of a batch":   {bodies{convstore.TurnStart{}}, false, bodies{convstore.ToolCall{ID: "batch-1", Name: "x"}}, "only jp gives"},
		"id of a person":  {bodies{convstore.TurnStart{}}, false, bodies{convstore.ToolCall{ID: "hand-1", Name: "x"}}, "only jp gives"},
		"id of a task":    {bodies{convstore.TurnStart{}, convstore.ToolCall{ID: "c", Name: "x"}}, false, bodies{convstore.ToolCall{ID: "c#1", Name: "y"}}, "only jp gives"},
		"id of context":   {bodies{convstore.TurnStart{}}, false, bodies{convstore.ToolCall{ID: "jp-context-1", Name: "x"}}, ""},
		"id of c. task":   {bodies{convstore.TurnStart{}}, false, bodies{convstore.ToolCall{ID: "jp-context-1#1", Name: "x"}}, "only jp gives"},
		"longest name":    {bodies{convstore.TurnStart{}}, false, bodies{convstore.ToolCall{ID: "c", Name: strings.Repeat("x", 256)}}, ""},
		"longer name":     {bodies{convstore.TurnStart{}}, false, bodies{convstore.ToolCall{ID: "c", Name: strings.Repeat("x", 257)}}, "more than 256 bytes"},
		"unknown":         {bodies{convstore.TurnStart{}}, false, bodies{convstore.Opaque{Name: "new_kind", Raw: []byte(`{"type":"new_kind"}`)}}, "does not know"},
		"malformed":       {bodies{convstore.TurnStart{}}, false, bodies{convstore.Opaque{Name: "turn_end", Raw: []byte(`{"type":"turn_end","state":5}`)}}, "does not know"},
		"result of later": {nil, false, bodies{convstore.ToolResult{ID: "c", Text: "interrupted", IsError: true}, convstore.TurnStart{}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFamily(t, convstore.Budget{Tokens: new(int64(100))})
			r := serve(t, f.modelled(nil, nil)).raw()
			send := func(prefix string, list bodies) answer {
				said := make([]string, len(list))
				for i, b := range list {
					said[i] = event(fmt.Sprint(prefix, i), b)
				}
				return r.ask(appending(said...))
			}
			if a := send("b", tt.before); a.Error != nil {
				t.Fatal(a.Error.Text)
			}
			if tt.begins {
				if a := r.ask(begin); a.Error != nil || a.Stale {
					t.Fatalf("begin = %+v", a)
				}
			}
			before := f.events(t)
			a := send("s", tt.says)
			if tt.want == "" {
				if a.Error != nil {
					t.Errorf("was refused: %s", a.Error.Text)
				}
				no(t, r.close())
				return
			}
			if a.Error == nil {
				t.Error("was stored")
			}
			broken(t, r.end(), tt.want)
			if after := f.events(t); len(after) != len(before) {
				t.Errorf("%d events before, %d after", len(before), len(after))
			}
		})
	}
}

// TestTurnIsPlaced sends events with ids and times of others, and changes of the config.
func TestTurnIsPlaced(t *testing.T) {
	f := newFamily(t, convstore.Budget{Tokens: new(int64(100))})
	began := time.Now()
	o := f.owner(nil)
	o.Change = func(context.Context) (*convstore.ConfigDelta, error) {
		return &convstore.ConfigDelta{Delta: []byte(`{"own":1}`), Resolved: convstore.Config{JSON: []byte(`{"own":1}`)}}, nil
	}
	r := serve(t, o).raw()
	a := r.ask(`"append":{"events":[{"event_id":"d","type":"config_delta","delta":{"conversation":{"tools":"all"}},"turn":7,"seq":99,"timestamp":"2200-01-01T00:00:00Z","x":1},` +
		`{"event_id":"s","x":"y","type":"turn_start","timestamp":"1970-01-01T00:00:00Z"},{"event_id":"lost-4","type":"note","kind":"k","text":"t"}]}`)
	if a.Error != nil {
		t.Fatal(a.Error.Text)
	}
	for i, ev := range f.events(t) {
		if ev.Seq != uint64(i+1) || ev.Time.Before(began.Add(-time.Second)) || ev.Time.After(time.Now()) || ev.Turn != min(i, 1) {
			t.Errorf("event %s = %d, turn %d, %v", ev.ID, ev.Seq, ev.Turn, ev.Time)
		}
		if j, _ := ev.MarshalJSON(); strings.Contains(string(j), `"x"`) {
			t.Errorf("event %s has what nobody knows: %s", ev.ID, j)
		}
		if d, ok := ev.Body.(convstore.ConfigDelta); ok && string(d.Delta) != `{"own":1}` {
			t.Errorf("the config was changed by %s", d.Delta)
		}
	}
	if c, err := f.store.Config(t.Context(), f.res.Child.ID); err != nil || string(c.JSON) != `{"own":1}` {
		t.Errorf("the config is %s, %v", c.JSON, err)
	}
	// The id under which the store would charge a call that is lost with its owner is taken: it is
	// charged all the same.
	no(t, r.close())
	no(t, f.log.Begin(t.Context(), func(convstore.Account) *convstore.Call {
		return &convstore.Call{Model: "m", Usage: convstore.Usage{Input: 60}}
	}))
	if d := f.settle(t, convstore.StateLost); d.Own.Tokens() != 60 {
		t.Errorf("a lost call was charged with %d", d.Own.Tokens())
	}

	// A second run whose turn begins under the id of the first one: it is a turn all the same.
	f.reserve(t, convstore.Child{Call: "c2", ID: f.res.Child.ID, Kind: "sub_complete", Grant: convstore.Grant{Budget: convstore.Budget{Tokens: new(int64(100))}}})
	r = serve(t, f.owner(nil)).raw()
	if a := r.ask(appending(event("s", convstore.TurnStart{}))); a.Error != nil {
		t.Errorf("the second turn was refused: %+v", a.Error)
	}
	// Of a long reason the beginning is stored.
	if a := r.ask(appending(event("e", convstore.TurnEnd{State: convstore.StateError, Reason: strings.Repeat("é", MaxReason)}))); a.Error != nil {
		t.Errorf("the end was refused: %+v", a.Error)
	}
	no(t, r.close())
	if c, err := f.store.Get(t.Context(), f.res.Child.ID); err != nil || c.Turns != 2 {
		t.Errorf("%d turns are stored, %v", c.Turns, err)
	}
	all := f.events(t)
	if end, ok := all[len(all)-1].Body.(convstore.TurnEnd); !ok || end.Reason != strings.Repeat("é", MaxReason/2) {
		t.Errorf("the turn ends with %T and a reason of %d bytes", all[len(all)-1].Body, len(end.Reason))
	}
}
