package cli

import (
	"context"
	"io"
	"strings"

	"jp/cmd/jp/internal/agent"
	"jp/cmd/jp/internal/cli/conversation"
	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/delegate"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/run"
	"jp/cmd/jp/internal/show"
	"jp/cmd/jp/internal/stream"
	"jp/convstore"
	"jp/profiles"
)

// order reads what --cfg and --model say of a delegation: a profile and an override of its model. NONE is understood: a
// delegation always begins there.
func (g *guest) order(ds []profiles.Directive, model command.Maybe[string]) (o delegate.Order, err error) {
	o.Model = model.Value
	for _, d := range ds {
		value, override := strings.CutPrefix(d.Text, "assistant.model=")
		switch {
		case d.Text == "NONE":
		case override && value != "":
			o.Model = value
		case strings.Contains(d.Text, "="):
			return o, exit.Refusedf("--cfg %s: only a profile and assistant.model=MODEL may be said here", d.Text)
		case o.Profile != "":
			return o, exit.Usagef("--cfg %s: a delegation takes one profile", d.Text)
		default:
			o.Profile = d.Text
		}
	}
	return o, nil
}

// caller refuses any conversation but the one that the tool call is of.
func (g *guest) caller(ctx context.Context, a *app, flag, word string) error {
	id, err := a.ws.Target(ctx, word)
	if err != nil || id == g.Scope.Caller() {
		return err
	}
	if _, err := g.Scope.Get(ctx, id); err != nil {
		return err
	}
	return exit.Refusedf("%s %s: a tool delegates for the conversation that calls it, %s, and for no other", flag, id, g.Scope.Caller())
}

// fork admits a delegation and prints the id of its conversation, blank and hidden. The query that names it runs it.
func (g *guest) fork(ctx context.Context, a *app, o conversation.ForkOptions, words []string) error {
	if len(words) != 1 {
		return exit.Usagef("conversation fork: one conversation at a time")
	}
	if err := g.caller(ctx, a, "conversation fork", words[0]); err != nil {
		return err
	}
	if !o.None && !(o.Turns.Last.Set && o.Turns.Last.Value == 0) && !(o.Turns.First.Set && o.Turns.First.Value == 0) {
		return exit.Refusedf("conversation fork: a sub-conversation begins blank").WithHint("add --last=0")
	}
	order, err := g.order(o.Directives, command.Maybe[string]{})
	if err != nil {
		return err
	}
	if order.Profile == "" {
		return exit.Usagef("conversation fork: name the agent profile with --cfg").WithHint("for example --cfg agent/researcher")
	}
	order.Title = o.Create.Title.Value
	id, err := g.In.Fork(ctx, order)
	if err != nil {
		return err
	}
	if a.con.JSON() {
		return a.con.Document([]convstore.ID{id})
	}
	return a.ws.PrintIDs([]convstore.ID{id})
}

// query is one delegation, which the one rule decides.
func (g *guest) query(ctx context.Context, a *app, o queryOptions) error {
	if a.con.Format() == console.FormatStream {
		return exit.Refusedf("query: --format=stream-json is not for a jp inside a tool").WithHint("--format=json gives the result")
	}
	order, err := g.order(o.directives, o.model)
	if err != nil {
		return err
	}
	isNew := o.fresh || o.id.Value == "new"
	switch {
	case !o.id.Set && !o.fresh:
		return exit.Refusedf("query: inside a tool it needs --id").WithHint("--id=new --root-id=%s --cfg=PROFILE, or the id of a sub-conversation", g.Scope.Caller())
	case isNew && !o.rootID.Set:
		return exit.Refusedf("query: inside a tool a new conversation is a sub-conversation").WithHint("add --root-id=%s", g.Scope.Caller())
	case isNew:
		if err := g.caller(ctx, a, "--root-id", o.rootID.Value); err != nil {
			return err
		}
		if order.Profile == "" {
			return exit.Usagef("--root-id: name the agent profile with --cfg").WithHint("for example --cfg agent/researcher")
		}
		order.Title = o.title.Value
	case o.hidden || o.title.Set:
		return exit.Usagef("--hidden, --title: only for a new conversation")
	default:
		view, err := a.ws.View(ctx)
		if o.rootID.Set {
			view, err = a.ws.Below(ctx, o.rootID.Value)
		}
		if err != nil {
			return err
		}
		if order.ID, err = a.ws.Target(ctx, o.id.Value); err != nil {
			return err
		}
		if _, err := view.Get(ctx, order.ID); err != nil {
			return err
		}
	}
	t, err := a.asking(&o, nil).content(ctx)
	if err != nil {
		return err
	}
	order.Query = t.Text
	if strings.TrimSpace(order.Query) == "" {
		return exit.Usagef("query: nothing to ask").WithHint("give the question as words or on stdin")
	}
	r, err := g.In.Query(ctx, order)
	if err != nil {
		return err
	}
	if err := writeReport(a.con, r); err != nil {
		return err
	}
	return run.Failure(ctx, r.Child, "jp query --id "+r.Child.String(), agent.Outcome{State: r.State, Reason: r.Reason})
}

// writeReport writes what `jp query` writes of a run.
func writeReport(con *console.Console, r delegate.Report) error {
	text := r.Text
	if r.State != convstore.StateOK && r.State != convstore.StatePartial {
		text = ""
	}
	if con.JSON() {
		return show.WriteResult(con, show.Complete(&stream.Result{
			ConversationID: r.Child.String(), Turn: r.Turn, Status: string(r.State), Reason: r.Reason, Result: text, Model: r.Model,
			Usage: stream.NewResultUsage(show.Usage(r.Usage)), CostUSD: show.USD(r.Cost), DurationMS: r.Duration.Milliseconds(),
			TotalCostUSD: show.USD(r.Cost),
		}, "", nil))
	}
	if text == "" {
		return nil
	}
	_, err := io.WriteString(con.IO.Out, strings.TrimSuffix(text, "\n")+"\n")
	return err
}
