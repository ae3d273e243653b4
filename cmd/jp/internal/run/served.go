package run

import (
	"context"
	"errors"
	"slices"

	"golang.org/x/sync/semaphore"

	"jp/cmd/jp/internal/delegate"
	"jp/cmd/jp/internal/enabled"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/rule"
	"jp/cmd/jp/internal/subprocess"
	"jp/cmd/jp/internal/wire"
	"jp/convstore"
	"jp/tools"
)

// isServed reports whether a sub-agent has its owner call a tool: one of an MCP server, or the one of
// skills, so that it reads those that have passed the gate.
func isServed(d tools.Definition) bool {
	_, remote := d.MCP()
	return remote || enabled.IsSkill(d)
}

// served is delegate.Options.Served. A sub-agent holds those of these tools that its config and its
// grant in the store allow. It has MCP servers of its own: a server may keep a state for its client.
func (s site) served(ctx context.Context, of delegate.Below) (v delegate.Served, err error) {
	if k, err := s.kindOf(ctx, of); err != nil || !k.served {
		return v, err
	}
	own, err := s.env.Servers.ForSubagent(ctx)
	if err != nil {
		return v, err
	}
	defer func() {
		if err == nil {
			return
		}
		own.Close()
		var f *exit.Error
		if errors.As(err, &f) && f.Status == exit.Refused {
			err = &subprocess.EndError{State: convstore.StateRefused, Reason: err.Error()}
		}
	}()
	r, err := s.configBelow(of)
	if err != nil {
		return v, err
	}
	defs, err := s.env.DefinitionsOf(ctx, r, of.Conv)
	if err != nil {
		return v, err
	}
	defs = slices.DeleteFunc(slices.Clone(defs), func(d tools.Definition) bool { return !isServed(d) })
	if err := s.env.Servers.ForSubagents(ctx, defs); err != nil {
		return v, err
	}
	ceiling, err := rule.CeilingOf(of.Conv.Grant, of.Conv.Role)
	if err != nil {
		return v, err
	}
	if defs, err = own.Ready(ctx, defs, ceiling.MayHold); err != nil {
		return v, err
	}
	var held []tools.Tool
	for _, d := range defs {
		d = withinGrant(withoutAsking(d, r), of.Conv.Grant)
		if !ceiling.Holds(d) {
			continue
		}
		var t tools.Tool
		if enabled.IsSkill(d) {
			all := s.env.Skills()
			t, v.Skills = tools.Tool{Definition: d, Func: all.Read}, all.Told()
		} else if t, err = own.Tool(ctx, d); err != nil {
			return v, err
		}
		held = append(held, t)
		v.Pins = append(v.Pins, wire.Pin{Tool: d.Name, Pin: d.Pin, Description: d.Description, Schema: d.Schema})
	}
	set, err := tools.NewSet(held...)
	if err != nil {
		return v, err
	}
	v.Call, v.Close = newServing(set, r.Config.Conversation.Parallel).call, own.Close
	return v, nil
}

// serving carries out calls of tools for a sub-agent, by the rules by which a run carries out its
// own: nobody can be asked. Safe for concurrent use.
type serving struct {
	executor tools.Executor
	places   int64 // calls that run at the same time, at most
	free     *semaphore.Weighted
}

func newServing(set tools.Set, places int) *serving {
	policy := tools.NewPolicy(nil)
	return &serving{
		executor: tools.Executor{Set: set, Permit: policy.Permit, Deliver: policy.Deliver},
		places:   int64(places), free: semaphore.NewWeighted(int64(places)),
	}
}

func (v *serving) call(ctx context.Context, c tools.Call) (r tools.Result) {
	takes := int64(1)
	if t, ok := v.executor.Set.Get(c.Name); ok && !t.Parallel {
		takes = v.places
	}
	if err := v.free.Acquire(ctx, takes); err != nil {
		return tools.Result{Text: "cancelled before it ran: " + context.Cause(ctx).Error(), IsError: true, Refused: true}
	}
	defer v.free.Release(takes)
	for _, r = range v.executor.Run(ctx, []tools.Call{c}) { // one
	}
	return r
}
