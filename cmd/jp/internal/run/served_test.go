package run

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"jp/tools"
)

// servingOf returns a serving of these tools with two places. Each is called through call.
func servingOf(t *testing.T, call tools.Func, defs ...tools.Definition) *serving {
	t.Helper()
	var list []tools.Tool
	for _, d := range defs {
		d.Source, d.Schema = "mcp.x", json.RawMessage(`{"type":"object","properties":{"n":{"type":"integer"}}}`)
		list = append(list, tools.Tool{Definition: d, Func: call})
	}
	set, err := tools.NewSet(list...)
	if err != nil {
		t.Fatal(err)
	}
	return newServing(set, 2)
}

// TestServingRules calls tools for a sub-agent that has asked nobody and checked nothing itself.
func TestServingRules(t *testing.T) {
	var ran []string
	v := servingOf(t, func(ctx context.Context, c tools.Call) (tools.Result, error) {
		ran = append(ran, c.Name)
		switch c.Name {
		case "slow":
			<-ctx.Done()
			return tools.Result{}, ctx.Err()
		case "panics":
			panic("a server")
		case "long":
			return tools.Result{Text: strings.Repeat("x", 5000)}, nil
		}
		return tools.Result{Text: string(c.Arguments)}, nil
	},
		tools.Definition{Name: "free", Run: tools.RunUnattended}, tools.Definition{Name: "asks"}, tools.Definition{Name: "denied", Run: tools.RunDeny},
		tools.Definition{Name: "held", Run: tools.RunUnattended, Result: tools.ResultAsk}, tools.Definition{Name: "panics", Run: tools.RunUnattended},
		tools.Definition{Name: "slow", Run: tools.RunUnattended, Timeout: time.Second}, tools.Definition{Name: "long", Run: tools.RunUnattended, SizeThreshold: 1024})
	for _, tt := range []struct{ tool, args, want string }{
		{"free", `{"n":"1"}`, `{"n":1}`},
		{"free", `{"n":"x"}`, "error: arguments of free"},
		{"free", `{not JSON`, "error: arguments of free"},
		{"free", strings.Repeat("[", 100_000), "error: arguments of free"},
		{"asks", `{}`, "error: refused: nobody can answer"},
		{"denied", `{}`, `error: refused: conversation.tools.denied.run says "deny"`},
		{"held", `{}`, "error: the tool ran; its result is withheld: nobody can answer"},
		{"other", `{}`, `error: unknown tool "other"`},
		{"panics", `{}`, "error: panic: a server"},
		{"slow", `{}`, "error: stopped after 1s (timeout)"},
		{"long", `{}`, "xxx"},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := v.call(t.Context(), tools.Call{ID: "c", Name: tt.tool, Arguments: json.RawMessage(tt.args)})
			if !strings.HasPrefix(r.Text, tt.want) || r.IsError != strings.HasPrefix(tt.want, "error") || len(r.Text) > 1024 {
				t.Errorf("%s %.20s = %+v, want %q", tt.tool, tt.args, r, tt.want)
			}
		})
	}
	if want := []string{"free", "held", "panics", "slow", "long"}; !slices.Equal(ran, want) {
		t.Errorf("%q were called, want %q", ran, want)
	}
}

// TestServingPlaces makes many calls at once, of tools that may run beside others and that may not.
func TestServingPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most, ran atomic.Int64
		v := servingOf(t, func(ctx context.Context, c tools.Call) (tools.Result, error) {
			n := running.Add(1)
			most.Store(max(most.Load(), n))
			ran.Add(1)
			time.Sleep(time.Second)
			if c.Name == "alone" && running.Load() != 1 {
				t.Errorf("%d calls beside one of a tool that runs alone", running.Load()-1)
			}
			running.Add(-1)
			return tools.Result{}, nil
		}, tools.Definition{Name: "beside", Run: tools.RunUnattended, Parallel: true}, tools.Definition{Name: "alone", Run: tools.RunUnattended})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan tools.Result)
		const calls = 1000
		for i := range calls {
			name := "beside"
			if i%3 == 0 {
				name = "alone"
			}
			go func() { ended <- v.call(ctx, tools.Call{ID: fmt.Sprint(i), Name: name}) }()
		}
		for range 10 {
			if r := <-ended; r.IsError {
				t.Errorf("%+v", r)
			}
		}
		cancel()
		for range calls - 10 {
			<-ended
		}
		if most.Load() != 2 || ran.Load() > 15 {
			t.Errorf("%d at once, %d together, want 2 at once and those before the end", most.Load(), ran.Load())
		}
	})
}
