package run

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"jp/cmd/jp/internal/call"
	"jp/cmd/jp/internal/delegate"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/record"
	"jp/cmd/jp/internal/rule"
	"jp/cmd/jp/internal/spans"
	"jp/cmd/jp/internal/stream"
	"jp/cmd/jp/internal/wire"
	"jp/convstore"
	"jp/profiles"
	"jp/tools"
	"jp/tools/proc"
)

// join opens the run that another jp has delegated. All that it knows of its conversation comes
// over the wire.
func (env *Env) join(ctx context.Context, host *proc.Host, req Request) (*Run, error) {
	conn, err := wire.Join(req.Wire, env.Con.Env.Checkpoint)
	if err != nil {
		return nil, err
	}
	env.Tape.Through(conn.Record)
	o := &opening{site: site{env: env, Host: host}, req: req, Began: time.Now(), held: held{conn}, Conv: conn.Start().Conversation}
	if err = o.join(ctx); err != nil {
		(*Run)(o).Close(ctx)
		return nil, err
	}
	return (*Run)(o), nil
}

func (o *opening) join(ctx context.Context) (err error) {
	for _, named := range []struct {
		flag, value string
		id          convstore.ID
	}{{"--id", o.req.ID.Value, o.Conv.ID}, {"--root-id", o.req.RootID.Value, o.Conv.Parent}} {
		if id, err := convstore.ParseID(named.value); err != nil || id != named.id {
			return exit.Refusedf("%s %s: the conversation that was delegated is %s, of %s", named.flag, named.value, o.Conv.ID, o.Conv.Parent)
		}
	}
	if o.Root, err = o.env.WS.Root(); err != nil {
		return err
	}
	start := o.conn().Start()
	o.env.Owner, o.env.WaitLimit, o.env.WS.Told, o.env.WS.Keys = o.conn(), start.WaitLimit, start.Kept, start.Keys
	stored := start.Config
	directives, err := childDirectives(o.req.Directives, o.Conv)
	if err != nil {
		return err
	}
	if err := o.resolve(ctx, stored.JSON, directives); err != nil {
		return err
	}
	o.change, err = o.changed(ctx, stored.JSON)
	return err
}

// childDirectives checks the command line of a delegated run against the config that its caller
// stored. The stored config counts. The command line can only override the model and its reasoning,
// and only if no override is stored.
func childDirectives(ds []profiles.Directive, conv convstore.Conversation) ([]profiles.Directive, error) {
	if len(ds) == 0 || ds[0].Text != "NONE" {
		for _, d := range ds {
			if !strings.HasPrefix(d.Text, rule.OverrideModel) && !strings.HasPrefix(d.Text, rule.OverrideReasoning) {
				return nil, exit.Refusedf("--cfg %s: a delegated run takes no config but its own", d.Text)
			}
		}
		return ds, nil
	}
	if len(ds) < 2 || ds[1].Text != conv.ProfileArg {
		return nil, exit.Refusedf("--cfg: %s was delegated under the profile %s", conv.ID, conv.ProfileArg)
	}
	return nil, nil
}

// Subagents is what an agent delegates with: a *delegate.Delegator where this process has the
// store, else the wire to the process that has it.
type Subagents interface {
	Admit(context.Context, []tools.Call)
	Release(context.Context)
	Repeats(tool string) bool
	Await(ctx context.Context, calls []string) error
	Recalled(call string) bool
	Calls() int
}

// Watch shows the sub-agents of the agent while they run, from any goroutine. Those of a delegated
// run are shown by the jp that delegated it.
func (ag *Agent) Watch(show func(*stream.Delegation)) {
	if d := ag.run.own; d != nil {
		d.Watch(show)
	}
}

// remote is the Subagents of a delegated run.
type remote struct {
	conn *wire.Conn
	tape *record.Tape
	set  tools.Set // tools that the agent holds; set before the first call
	warn func(format string, a ...any)
	used atomic.Bool // the caller was asked for something that Release ends
}

func (r *remote) wireCall(ctx context.Context, c tools.Call) wire.Call {
	return wire.Call{ID: c.ID, Name: c.Name, Arguments: c.Arguments, Place: r.tape.Place(c.ID), Trace: spans.Trace(ctx)}
}

// function is the delegate.Funcs of the agent.
func (r *remote) function(name string) (tools.Func, bool) {
	return func(ctx context.Context, c tools.Call) (tools.Result, error) {
		r.used.Store(true)
		return r.conn.Call(ctx, r.wireCall(ctx, c), func(raw []byte) {
			if s, err := delegate.StepOf(raw); err == nil {
				spans.Follow(ctx, s)
			}
		})
	}, delegate.IsTool(name)
}

func (r *remote) Admit(ctx context.Context, calls []tools.Call) {
	var list []wire.Call
	for _, c := range calls {
		if r.Repeats(c.Name) {
			list = append(list, r.wireCall(ctx, c))
		}
	}
	if len(list) > 0 {
		r.used.Store(true)
	}
	if err := r.conn.Admit(ctx, list); err != nil {
		r.warn("delegations of this reply: %v", err) // each call says it too
	}
}

// Release asks nothing, which is a way there and back, where there is nothing to end.
func (r *remote) Release(ctx context.Context) {
	if !r.used.Swap(false) {
		return
	}
	if err := r.conn.Release(ctx); err != nil {
		r.warn("delegations of this reply: %v", err)
	}
}

func (r *remote) Repeats(tool string) bool { return delegate.Delegates(r.set, tool) }

func (r *remote) Await(ctx context.Context, calls []string) error { return r.conn.Await(ctx, calls) }

func (r *remote) Recalled(call string) bool { return r.conn.Recalled(call) }

func (r *remote) Calls() int { return r.conn.Calls() }

// commands returns what carries out the command lines of a jp inside a call of a tool, and what
// ends them.
func (ag *Agent) commands(def tools.Definition, id string) (run func(context.Context, call.Request) int, end func(context.Context)) {
	if d := ag.run.own; d != nil {
		in := d.Inside(def.Name, id)
		return func(ctx context.Context, r call.Request) int { return ag.run.command(ctx, d.Scope(), in, def, r) }, in.Close
	}
	far := ag.Sub.(*remote)
	run = func(ctx context.Context, r call.Request) int {
		far.used.Store(true)
		status, err := far.conn.Command(ctx, wire.Command{Tool: def.Name, Call: id, Args: r.Args, Place: far.tape.Place(id), Trace: spans.Trace(ctx)}, r)
		if err != nil {
			fmt.Fprintln(r.Stderr, "jp:", err)
			return int(exit.Failed)
		}
		return status
	}
	return run, func(context.Context) {
		if err := far.conn.End(id); err != nil {
			far.warn("%v", err)
		}
	}
}
