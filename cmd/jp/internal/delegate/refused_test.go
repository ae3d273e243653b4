package delegate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"jp/cmd/jp/internal/rule"
	"jp/convstore"
	"jp/tools"
)

const toolReview = "llm_tool_review"

// reader is a profile whose agent reads files.
func reader(name string) rule.Profile {
	return rule.Profile{
		Name: name, Config: convstore.Config{JSON: []byte("{}"), Tools: []string{"fs_read_file"}}, MaxDepth: 9,
		Tools: []rule.Tool{{Name: "fs_read_file", Source: tools.SourceBuiltin}},
	}
}

// running returns a new store, and the log of a conversation in it.
func running(t testing.TB) (*convstore.Store, *convstore.Log) {
	t.Helper()
	st, err := convstore.Open(t.TempDir()+"/store", convstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	conv, err := st.Create(t.Context(), convstore.New{Config: convstore.Config{JSON: []byte("{}")}})
	if err != nil {
		t.Fatal(err)
	}
	log, err := st.Lock(t.Context(), conv.ID)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = log.Close() })
	return st, log
}

// TestRefusedLeavesNothing: a refusal inside the reserving transaction makes no conversation and no
// delegation.
func TestRefusedLeavesNothing(t *testing.T) {
	ctx := context.Background()
	_, log := running(t)
	set := specialSet(t, toolReview, toolLLMQuery)
	d, err := New(Options{
		Scope: log.Below(), Limits: rule.Limits{MaxDepth: 0, MaxPerTurn: 5, MaxChildren: 5},
		Special: func(_ context.Context, tool string) (Special, error) {
			return Special{Profile: reader(tool), Session: "s"}, nil
		},
	}, func(Funcs) (tools.Set, error) { return set, nil })
	if err != nil {
		t.Fatal(err)
	}
	for i, call := range []tools.Call{
		{Name: toolReview, Arguments: []byte(`{"query":"x"}`)},
		{Name: toolLLMQuery, Arguments: []byte(`{"query":"x"}`)},
		{Name: toolReview, Arguments: []byte(`{"query":"  "}`)},
		{Name: toolReview, Arguments: []byte(`{"query":"a\u0000"}`)},
		{Name: toolReview, Arguments: []byte(`{"query":"x","id":"` + log.ID().String() + `"}`)},
		{Name: toolReview, Arguments: []byte(`{"query":"x","config":"agent/x","overrides":["a"]}`)},
	} {
		call.ID = fmt.Sprint("c", i)
		d.Admit(ctx, []tools.Call{call})
		r, err := d.query(ctx, call)
		if err != nil || !r.IsError {
			t.Errorf("%s: %+v, %v, want an error result", call.Arguments, r, err)
		}
		d.Release(ctx)
	}
	below, err := log.Below().List(ctx, convstore.Filter{Hidden: true})
	if err != nil || len(below) > 0 {
		t.Errorf("%d conversations are left, %v", len(below), err)
	}
	ds, err := log.Below().Delegations(ctx, log.ID())
	var scope *convstore.ScopeError
	if len(ds) > 0 || err != nil && !errors.As(err, &scope) {
		t.Errorf("%d delegations are left, %v", len(ds), err)
	}
	if d.Calls() != 0 {
		t.Errorf("%d calls are counted", d.Calls())
	}
}

// TestUnlistedResolvesNothing: no profile is read for a model or a level of reasoning that may not be
// chosen.
func TestUnlistedResolvesNothing(t *testing.T) {
	resolved := 0
	_, log := running(t)
	set := specialSet(t, toolQuery)
	d, err := New(Options{
		Scope:  log.Below(),
		Limits: rule.Limits{MaxDepth: 1, MaxPerTurn: 5, MaxChildren: 5, Share: 1, Profiles: []string{"agent/a"}, Models: []string{"x/a"}, Efforts: []string{"low"}},
		Resolve: func(context.Context, string, []string) (rule.Profile, error) {
			resolved++
			return reader("agent/a"), nil
		},
	}, func(Funcs) (tools.Set, error) { return set, nil })
	if err != nil {
		t.Fatal(err)
	}
	for i, override := range []string{"assistant.model=x/b", "assistant.parameters.reasoning=high"} {
		call := tools.Call{ID: fmt.Sprint("c", i), Name: toolQuery, Arguments: fmt.Appendf(nil, `{"config":"agent/a","query":"x","overrides":[%q]}`, override)}
		d.Admit(t.Context(), []tools.Call{call})
		if r, err := d.query(t.Context(), call); err != nil || !r.IsError || resolved > 0 {
			t.Errorf("%s: %+v, %v, and %d profiles were resolved", override, r, err, resolved)
		}
		d.Release(t.Context())
	}
}

// TestStarvedLeavesNothing: a call that waits until another one leaves something, and is cancelled
// meanwhile, is not kept. A service that runs for weeks has many.
func TestStarvedLeavesNothing(t *testing.T) {
	_, log := running(t)
	ctx, cancel := context.WithCancel(t.Context())
	set := specialSet(t, toolReview)
	d, err := New(Options{
		Scope: log.Below(), Lanes: 2,
		Special: func(context.Context, string) (Special, error) {
			cancel()
			return Special{}, rule.Refuse(rule.CodeTokens, "nothing is left")
		},
	}, func(Funcs) (tools.Set, error) { return set, nil })
	if err != nil {
		t.Fatal(err)
	}
	d.lanes.open = 1 // another call, which has it all
	if _, err := d.query(ctx, tools.Call{ID: "c", Name: toolReview, Arguments: []byte(`{"query":"x"}`)}); !errors.Is(err, context.Canceled) {
		t.Errorf("error = %v", err)
	}
	if left := d.queue.drain(); len(left) > 0 {
		t.Errorf("%d calls are kept", len(left))
	}
}

func specialSet(t testing.TB, names ...string) tools.Set {
	t.Helper()
	var list []tools.Tool
	for _, name := range names {
		list = append(list, tools.Tool{
			Definition: tools.Definition{Name: name, Source: tools.SourceDelegation, Run: tools.RunUnattended,
				Schema: []byte(`{"type":"object","properties":{"query":{"type":"string","minLength":1}},"required":["query"],"additionalProperties":false}`)},
			Func: func(context.Context, tools.Call) (tools.Result, error) { return tools.Result{}, nil },
		})
	}
	set, err := tools.NewSet(list...)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// FuzzRefusedLeavesNothing: arguments of any kind, for a caller that may delegate nothing, make an
// error result, and no conversation, delegation or count in the store.
func FuzzRefusedLeavesNothing(f *testing.F) {
	names := []string{toolQuery, toolBatch, toolLLMQuery, toolReview}
	f.Add(uint8(0), `{"config":"agent/researcher","query":"x"}`)
	f.Add(uint8(1), `{"queries":[{"config":"agent/researcher","query":"x"},{"config":"agent/researcher","query":"y"}],"total_budget":9}`)
	f.Add(uint8(2), `{"query":"x"}`)
	f.Add(uint8(3), `{"query":"x","session_id":"s"}`)
	ctx := context.Background()
	st, log := running(f)
	set, n := specialSet(f, names...), 0
	f.Fuzz(func(t *testing.T, tool uint8, arguments string) {
		if !json.Valid([]byte(arguments)) { // never gets as far as a delegation
			return
		}
		d, err := New(Options{
			Scope:  log.Below(),
			Limits: rule.Limits{MaxDepth: 0, MaxPerTurn: 5, MaxChildren: 5, Share: 1, Profiles: []string{"agent/researcher"}},
			Resolve: func(context.Context, string, []string) (rule.Profile, error) {
				return reader("agent/researcher"), nil
			},
			Special: func(_ context.Context, tool string) (Special, error) {
				return Special{Profile: reader(tool), Session: "s"}, nil
			},
		}, func(Funcs) (tools.Set, error) { return set, nil })
		if err != nil {
			t.Fatal(err)
		}
		n++
		call := tools.Call{ID: fmt.Sprint("c", n), Name: names[int(tool)%len(names)], Arguments: []byte(arguments)}
		d.Admit(ctx, []tools.Call{call})
		run := d.query
		if call.Name == toolBatch {
			run = d.batch
		}
		r, err := run(ctx, call)
		if err != nil || call.Name != toolBatch && !r.IsError {
			t.Errorf("%s(%s): %+v, %v, want an error result", call.Name, arguments, r, err)
		}
		d.Release(ctx)
		if below, err := log.Below().List(ctx, convstore.Filter{Hidden: true}); err != nil || len(below) > 0 {
			t.Errorf("%s(%s): %d conversations are left, %v", call.Name, arguments, len(below), err)
		}
		if all, err := st.List(ctx, convstore.Filter{Hidden: true}); err != nil || len(all) != 1 {
			t.Errorf("%s(%s): %d conversations in the store, %v", call.Name, arguments, len(all), err)
		}
		if d.Calls() != 0 {
			t.Errorf("%s(%s): %d calls are counted", call.Name, arguments, d.Calls())
		}
	})
}
