package batch

import (
	"context"
	"io"

	"jp/cmd/jp/internal/attach"
	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/delegate"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/run"
	"jp/convstore"
)

// maxInTool bounds how many sub-agents a jp inside a tool runs at the same time; the slots of the
// tree bound them too.
const maxInTool = 64

// inTool carries out a batch for a jp inside a tool: delegations of the conversation that made the
// tool call, under its rule, limits and account. There is no conversation of the batch.
func inTool(ctx context.Context, env *run.Env, g *run.Guest, o options) (err error) {
	caller := g.Scope.Caller()
	if o.rootID.Set {
		if err := g.Caller(ctx, env.WS, "--root-id", o.rootID.Value); err != nil {
			return err
		}
	}
	o.rootID = command.Given(caller.String())
	if o.schema.Set {
		if o.answer, err = run.InlineSchema(o.schema.Value); err != nil {
			return err
		}
	}
	b := &batch{env: env, view: g.Scope.View, o: o, left: -1, parallel: 4}
	if b.what, err = o.reduction(); err != nil {
		return err
	}
	if o.parallel.Set {
		b.parallel = min(o.parallel.Value, maxInTool)
	}
	if b.in, _, err = openLines(ctx, env.Con, &o, false); err != nil {
		return err
	}
	first, err := b.in.next(ctx)
	switch {
	case err == io.EOF:
		return o.noQuery()
	case err != nil:
		return err
	}
	b.in.back(first)
	b.output()
	failed := g.In.Batch(ctx, b.next, delegate.Work{
		Parallel: b.parallel, Retry: o.retry.Value, Among: 2 * b.parallel, Text: maxRow,
		Attach: func(context.Context, attach.Refs) ([]convstore.Attachment, error) { // this process may read more than the tool
			return nil, exit.Refusedf("not for a jp inside a tool")
		},
	}, b.row)
	if failed == nil && b.what != nil {
		failed = b.last(g.In.Reduce(ctx, *b.what, b.inputs, b.parallel, o.reuse))
	}
	if failed = b.finish(failed); failed != nil {
		return &exit.Next{Err: failed} // rows were written
	}
	return b.verdict(caller)
}
