package cli

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"jp/cmd/jp/internal/agent"
	"jp/cmd/jp/internal/call"
	"jp/cmd/jp/internal/cli/conversation"
	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/delegate"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/stream"
	"jp/cmd/jp/internal/workspace"
	"jp/convstore"
	"jp/profiles"
	"jp/tools"
	"jp/tools/proc"
)

// line opens the line of each call of a tool with access.jp.
func (q *query) line(d *delegate.Delegator) func(context.Context, tools.Definition, tools.Call) (*tools.Line, error) {
	return func(ctx context.Context, def tools.Definition, c tools.Call) (*tools.Line, error) {
		dir, err := q.app.ownFolder()
		if err != nil {
			return nil, err
		}
		g := &guest{scope: d.Scope, in: d.Inside(def.Name, c.ID), tool: def, environ: proc.Environ(q.app.con.Env.Environ, "LANG", "LC_*", "TZ")}
		l, err := call.Open(ctx, func(ctx context.Context, r call.Request) int {
			status := g.serve(ctx, r)
			q.app.con.Logger().Info("jp inside a tool", "conversation", q.conv.ID, "tool", def.Name, "call", c.ID, "arguments", len(r.Args), "exit", status)
			return status
		})
		if err != nil {
			return nil, err
		}
		return &tools.Line{Socket: l.Socket(), Dir: dir, Close: func() {
			l.Close()
			g.in.Close(context.WithoutCancel(ctx))
		}}, nil
	}
}

// ownFolder returns a folder with nothing but a link "jp" to this program, for the PATH of a tool. It is in the state folder,
// which no rule of access.fs covers: no tool can put something else there.
func (a *app) ownFolder() (dir string, err error) {
	program, state := workspace.OwnProgram(), a.con.StateDir()
	switch {
	case program == "":
		return "", errors.New("the file of this program is gone")
	case state == "":
		return "", errors.New("there is no home folder to keep a link to this program in")
	}
	sum := sha256.Sum256([]byte(program))
	dir = filepath.Join(state, "bin", hex.EncodeToString(sum[:8]))
	link := filepath.Join(dir, "jp")
	if at, err := os.Readlink(link); err == nil && at == program {
		return dir, nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", err
	}
	// Another jp may be doing the same: what is there then is right.
	if err := os.Symlink(program, link); err != nil && !errors.Is(err, os.ErrExist) {
		return "", err
	}
	if at, err := os.Readlink(link); err != nil || at != program {
		return "", fmt.Errorf("%s: is not the link to %s that it should be; remove it", link, program)
	}
	return dir, nil
}

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
	if err != nil || id == g.scope.Caller() {
		return err
	}
	if _, err := g.scope.Get(ctx, id); err != nil {
		return err
	}
	return exit.Refusedf("%s %s: a tool delegates for the conversation that calls it, %s, and for no other", flag, id, g.scope.Caller())
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
	id, err := g.in.Fork(ctx, order)
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
		return exit.Refusedf("query: inside a tool it needs --id").WithHint("--id=new --root-id=%s --cfg=PROFILE, or the id of a sub-conversation", g.scope.Caller())
	case isNew && !o.rootID.Set:
		return exit.Refusedf("query: inside a tool a new conversation is a sub-conversation").WithHint("add --root-id=%s", g.scope.Caller())
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
	t, err := (&query{app: a, o: o}).content(ctx)
	if err != nil {
		return err
	}
	order.Query = t.text
	if strings.TrimSpace(order.Query) == "" {
		return exit.Usagef("query: nothing to ask").WithHint("give the question as words or on stdin")
	}
	r, err := g.in.Query(ctx, order)
	if err != nil {
		return err
	}
	if err := a.writeReport(r); err != nil {
		return err
	}
	return outcomeError(ctx, r.Child, (&queryOptions{}).again(r.Child), agent.Outcome{State: r.State, Reason: r.Reason})
}

// writeReport writes what `jp query` writes of a run.
func (a *app) writeReport(r delegate.Report) error {
	text := r.Text
	if r.State != convstore.StateOK && r.State != convstore.StatePartial {
		text = ""
	}
	if a.con.JSON() {
		return a.resultDocument(inOtherWords(&stream.Result{
			ConversationID: r.Child.String(), Turn: r.Turn, Status: string(r.State), Reason: r.Reason, Result: text, Model: r.Model,
			Usage: stream.NewResultUsage(usage(r.Usage)), CostUSD: usd(r.Cost), DurationMS: r.Duration.Milliseconds(),
			TotalCostUSD: usd(r.Cost),
		}, "", nil))
	}
	if text == "" {
		return nil
	}
	_, err := io.WriteString(a.con.IO.Out, strings.TrimSuffix(text, "\n")+"\n")
	return err
}
