package run

import (
	"context"
	"strings"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/delegate"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/workspace"
	"jp/convstore"
	"jp/profiles"
	"jp/tools"
)

// Guest is a jp that a tool started. It works for the conversation that made the tool call.
type Guest struct {
	Scope   convstore.Scope // below the conversation that made the tool call
	In      *delegate.Inside
	Tool    tools.Definition
	Environ []string // language and time zone only
}

// Order reads --cfg and --model of a delegation: a profile and an override of its model. NONE is
// ignored, because a delegation always begins with NONE.
func (g *Guest) Order(ds []profiles.Directive, model command.Maybe[string]) (o delegate.Order, err error) {
	o.Model = model.Value
	for _, d := range ds {
		value, override := strings.CutPrefix(d.Text, "assistant.model=")
		switch {
		case d.Text == "NONE":
		case override && value != "":
			o.Model = value
		case strings.Contains(d.Text, "="):
			return o, exit.Refusedf("--cfg %s: only a profile and assistant.model=MODEL can be given here", d.Text)
		case o.Profile != "":
			return o, exit.Usagef("--cfg %s: a delegation takes one profile", d.Text)
		default:
			o.Profile = d.Text
		}
	}
	return o, nil
}

// Caller returns an error if id is not the conversation that made the tool call.
func (g *Guest) Caller(ctx context.Context, ws *workspace.Workspace, flag, word string) error {
	id, err := ws.Target(ctx, word)
	if err != nil || id == g.Scope.Caller() {
		return err
	}
	if _, err := g.Scope.Get(ctx, id); err != nil {
		return err
	}
	return exit.Refusedf("%s %s: a tool delegates for the conversation that calls it, %s, and for no other", flag, id, g.Scope.Caller())
}
