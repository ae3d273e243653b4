package wire

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"jp/convstore"
	"jp/tools"
)

// serving is an Owner that serves the tool echo; call carries out its calls.
func (f *family) serving(call func(context.Context, tools.Call) tools.Result) Owner {
	o := f.owner(&fake{})
	o.Start.Pins = []Pin{{Tool: "echo", Pin: "p", Description: "Says it again.", Schema: json.RawMessage(`{"type":"object"}`)}}
	o.Serve = call
	return o
}

// calling are the events of a turn with one call of echo for each of args. Their ids are c0, c1,
// ...
func calling(tool string, args ...string) string {
	list := []string{event("e1", convstore.TurnStart{})}
	for i, a := range args {
		list = append(list, event(fmt.Sprint("t", i), convstore.ToolCall{ID: fmt.Sprint("c", i), Name: tool, Arguments: json.RawMessage(a)}))
	}
	return appending(list...)
}

// TestServe calls tools that the owner carries out, as a run does.
func TestServe(t *testing.T) {
	f := newFamily(t, convstore.Budget{})
	began := make(chan struct{})
	c := serve(t, f.serving(func(ctx context.Context, c tools.Call) tools.Result {
		if c.ID == "c2" {
			close(began)
			<-ctx.Done()
			return tools.Result{Text: "cancelled", IsError: true}
		}
		return tools.Result{Text: fmt.Sprintf("%s %s %s", c.ID, c.Name, c.Arguments), IsError: c.ID == "c1"}
	})).join()
	defs, err := c.Pinned([]tools.Definition{{Name: "echo", Source: "mcp.x"}, {Name: "other", Source: "mcp.x"}, {Name: "fs"}})
	no(t, err)
	if d := defs[0]; d.Pin != "p" || d.Description != "Says it again." || string(d.Schema) != `{"type":"object"}` || defs[1].Pin != "" || defs[2].Name != "fs" {
		t.Errorf("Pinned = %+v", defs)
	}
	no(t, c.Append(t.Context(), at("e", convstore.TurnStart{},
		convstore.ToolCall{ID: "c0", Name: "echo", Arguments: json.RawMessage(`{"b":1}`)},
		convstore.ToolCall{ID: "c1", Name: "echo", Arguments: json.RawMessage(`"{not JSON"`)},
		convstore.ToolCall{ID: "c2", Name: "echo", Arguments: json.RawMessage(`{}`)})...))
	// What it says of the arguments does not count: those in the store do.
	for _, tt := range []struct{ id, want string }{{"c0", `c0 echo {"b":1}`}, {"c1", `c1 echo {not JSON`}} {
		r, err := c.Serve(t.Context(), tools.Call{ID: tt.id, Name: "echo", Arguments: json.RawMessage(`{"other":1}`)})
		if err != nil || r.Text != tt.want || r.IsError != (tt.id == "c1") {
			t.Errorf("Serve(%s) = %+v, %v, want %q", tt.id, r, err, tt.want)
		}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("enough")
	go func() {
		<-began
		cancel(why)
	}()
	if r, err := c.Serve(ctx, tools.Call{ID: "c2", Name: "echo"}); err != why || r.Text != "" {
		t.Errorf("Serve of a call that is cancelled = %+v, %v", r, err)
	}
}

// TestServeHostile asks for calls that no run asks for.
func TestServeHostile(t *testing.T) {
	const call = `"serve":{"tool":"echo","call":"c0"}`
	const asCall = `"call":{"id":"c0","name":"echo","arguments":{}}`
	for name, tt := range map[string]struct {
		before string   // events
		lines  []string // each but the last is answered
		want   string   // how the connection breaks
		runs   int64    // calls that were carried out
	}{
		"not its tool":      {calling("other", "{}"), []string{`"serve":{"tool":"other","call":"c0"}`}, "is none that its owner calls", 0},
		"no tool":           {calling("echo", "{}"), []string{`"serve":{}`}, "is none that its owner calls", 0},
		"a server":          {calling("echo", "{}"), []string{`"serve":{"tool":"mcp.x.echo","call":"c0"}`}, "is none that its owner calls", 0},
		"not made":          {calling("echo", "{}"), []string{`"serve":{"tool":"echo","call":"c9"}`}, "not made in this turn", 0},
		"another tool":      {calling("other", "{}"), []string{call}, "not made in this turn", 0},
		"before the turn":   {"", []string{call}, "not made in this turn", 0},
		"twice":             {calling("echo", "{}"), []string{call, call}, "was made before", 1},
		"with a result":     {appending(event("e1", convstore.TurnStart{}), event("e2", convstore.ToolCall{ID: "c0", Name: "echo"}), event("e3", convstore.ToolResult{ID: "c0"})), []string{call}, "was made before", 0},
		"after the turn":    {appending(event("e1", convstore.TurnStart{}), event("e2", convstore.ToolCall{ID: "c0", Name: "echo"}), event("e3", convstore.TurnEnd{State: convstore.StateError})), []string{call}, "not made in this turn", 0},
		"as another's call": {calling("echo", "{}"), []string{asCall, call}, "was made before", 0},
		"a call twice":      {calling("echo", "{}"), []string{asCall, asCall}, "was made before", 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFamily(t, convstore.Budget{})
			var runs atomic.Int64
			r := serve(t, f.serving(func(context.Context, tools.Call) tools.Result {
				runs.Add(1)
				return tools.Result{Text: "r"}
			})).raw()
			if tt.before != "" {
				r.ask(tt.before)
			}
			for i, line := range tt.lines {
				if i < len(tt.lines)-1 {
					r.ask(line)
					continue
				}
				r.n++
				r.send(fmt.Sprintf(`{"n":%d,%s}`, r.n, line))
			}
			broken(t, r.end(), tt.want)
			if n := runs.Load(); n != tt.runs {
				t.Errorf("%d calls were carried out, want %d", n, tt.runs)
			}
		})
	}
	many := make([]string, 2000)
	for i := range many {
		many[i] = "{}"
	}
	calls := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `{"n":%d,"serve":{"tool":"echo","call":"c%d"}}`+"\n", i+2, i)
		}
		return strings.TrimSuffix(b.String(), "\n")
	}
	t.Run("at once", func(t *testing.T) {
		f := newFamily(t, convstore.Budget{})
		var runs atomic.Int64
		r := serve(t, f.serving(func(ctx context.Context, _ tools.Call) tools.Result {
			runs.Add(1)
			<-ctx.Done()
			return tools.Result{}
		})).raw()
		r.ask(calling("echo", many...))
		r.send(calls(len(many)))
		broken(t, r.end(), "too many requests")
		if n := runs.Load(); n > maxOpen {
			t.Errorf("%d calls were carried out", n)
		}
	})
	t.Run("unread", func(t *testing.T) {
		f := newFamily(t, convstore.Budget{})
		large := strings.Repeat("r", 2<<20)
		r := serve(t, f.serving(func(context.Context, tools.Call) tools.Result { return tools.Result{Text: large} })).raw()
		r.ask(calling("echo", many[:200]...))
		r.send(calls(200))
		broken(t, r.end(), "more than 128 MiB at the same time")
	})
	t.Run("kept", func(t *testing.T) {
		f := newFamily(t, convstore.Budget{})
		r := serve(t, f.serving(nil)).raw()
		large := `{"a":"` + strings.Repeat("x", 5<<20) + `"}`
		r.ask(appending(event("e1", convstore.TurnStart{})))
		for i := range 3 {
			r.ask(appending(event(fmt.Sprint("t", i), convstore.ToolCall{ID: fmt.Sprint("c", i), Name: "echo", Arguments: json.RawMessage(large)})))
		}
		r.ask(appending(event("r0", convstore.ToolResult{ID: "c0"}))) // makes room
		r.ask(appending(event("t4", convstore.ToolCall{ID: "c4", Name: "echo", Arguments: json.RawMessage(large)})))
		r.n++
		r.send(fmt.Sprintf(`{"n":%d,%s}`, r.n, appending(event("t5", convstore.ToolCall{ID: "c5", Name: "echo", Arguments: json.RawMessage(large)}))))
		broken(t, r.end(), "arguments of more than 16 MiB for served tools")
	})
	t.Run("gone", func(t *testing.T) {
		f := newFamily(t, convstore.Budget{})
		began, ended := make(chan struct{}), make(chan struct{})
		r := serve(t, f.serving(func(ctx context.Context, _ tools.Call) tools.Result {
			close(began)
			<-ctx.Done()
			close(ended)
			return tools.Result{}
		})).raw()
		r.ask(calling("echo", "{}"))
		r.send(calls(1))
		<-began
		no(t, r.close())
		<-ended
	})
}
