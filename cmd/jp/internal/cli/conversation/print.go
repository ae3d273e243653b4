package conversation

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/term"
	"jp/cmd/jp/internal/turns"
	"jp/cmd/jp/internal/wording"
	"jp/cmd/jp/internal/workspace"
	"jp/convstore"
)

type printOptions struct {
	rootID command.Maybe[string]
	turns  turns.Flags
	style  string
	follow bool
}

func newPrintCommand(g *Group) *cli.Command {
	o := printOptions{style: turns.Brief}
	flags := []*command.Option{command.String(&o.rootID, "root-id", "ID", "only conversations below ID may be printed")}
	flags = append(flags, o.turns.LastFirst()...)
	return g.Tree.Command(command.Spec{
		Name: "print", Paged: true, Summary: "print what was said", Args: "[ID...]",
		About: "Styles: user prints what the user asked; chat adds the answers; brief adds a line " +
			"for each tool call; full adds reasoning, arguments and results. JSON formats print " +
			"whole events, in every style.\n\n" +
			"On a terminal, or with --format text-pretty, the model's Markdown is formatted and " +
			"fitted to the width. In a pipe it is printed as the model wrote it.\n\n" +
			"A line of `jp conversation grep` names the turn in which it was found. So you can " +
			"pipe such lines to `jp conversation print -`. Without ID: the active conversation.\n\n" +
			"--follow prints what is said until the run ends, a message when it is complete; --last " +
			"chooses where it begins. A conversation that does not run is printed.",
		Flags: append(flags,
			command.String(&o.turns.Turn, "turn", "RANGE", "turns N, A..B, A.. or ..B, counted from 1; .. is all"),
			command.Choice(&o.style, "style", "STYLE", []string{turns.User, turns.Chat, turns.Brief, turns.Full}, "user, chat, brief (default) or full").Alias("s"),
			command.Bool(&o.follow, "follow", "go on until the run has ended"),
		),
		Follows: &o.follow,
		Max:     -1,
		Exits:   []exit.Status{exit.NotFound, exit.Scope, exit.Busy},
		Examples: []string{
			"jp conversation print --last",
			"jp conversation grep is_retryable | jp conversation print -",
			"jp conversation print jp-c17543982415 --root-id jp-c17543982411 --turn 2.. --style full",
		},
		Run: func(ctx context.Context, args []string) error { return runPrint(ctx, g, o, workspace.OrActive(args)) },
	})
}

func runPrint(ctx context.Context, g *Group, o printOptions, words []string) error {
	chosen, err := o.turns.Turns()
	if err != nil {
		return err
	}
	view, err := g.scope(ctx, o.rootID)
	if err != nil {
		return err
	}
	passages, err := g.passages(ctx, words, chosen)
	if err != nil {
		return err
	}
	if o.follow && (len(passages) != 1 || o.turns.Turn.Set || o.turns.First.Set) {
		return exit.Usagef("print: --follow takes one conversation, and neither --turn nor --first")
	}
	var cs []convstore.Conversation
	for _, p := range passages {
		c, err := view.Get(ctx, p.id)
		if err != nil {
			return err
		}
		cs = append(cs, c)
		for _, err := range view.Events(ctx, p.id, p.ranges[len(p.ranges)-1]) { // the first says whether all turns exist
			if err != nil {
				return err
			}
			break
		}
	}
	if g.Con.JSON() {
		return g.printEvents(ctx, view, passages, o.follow)
	}
	return g.Con.Text(func(w *bufio.Writer) error {
		for i, c := range cs {
			p := turns.Printer{W: w, IO: g.Con.IO, Style: o.style, Layout: wording.Either(g.Con.Pretty(), new(g.Con.Style()), nil), Calls: map[string]convstore.ToolCall{}}
			if i > 0 {
				fmt.Fprintln(w)
			}
			p.Heading("# ", strings.TrimSpace(c.ID.String()+"  "+term.Line(c.Title)))
			for e, err := range passages[i].eventsOf(ctx, view, o.follow, w.Flush) {
				if err != nil {
					return err
				}
				if err := p.Event(e); err != nil {
					return err
				}
			}
			p.Pending()
		}
		return nil
	})
}

// scope returns the view of a command that takes --root-id. Call it before targets, so that an
// error about the root comes before an error about a target.
func (g *Group) scope(ctx context.Context, rootID command.Maybe[string]) (convstore.View, error) {
	if rootID.Set {
		return g.WS.Below(ctx, rootID.Value)
	}
	return g.WS.View(ctx)
}

// printEvents writes the events as JSON, each with the id of its conversation.
func (g *Group) printEvents(ctx context.Context, view convstore.View, passages []passage, follow bool) error {
	return g.Con.Text(func(w *bufio.Writer) error {
		out := console.List{W: w, Format: g.Con.Format()}
		for _, p := range passages {
			for e, err := range p.eventsOf(ctx, view, follow, w.Flush) {
				if err != nil {
					return err
				}
				b, err := console.EncodeJSON(e, false)
				if err != nil {
					return fmt.Errorf("event %s: %w", e.ID, err)
				}
				if err := out.Add(joinObjects(`{"conversation_id":"`+p.id.String()+`"}`, b)); err != nil {
					return err
				}
			}
		}
		return out.Close()
	})
}

// joinObjects makes one JSON object of two that are not empty.
func joinObjects(a string, b []byte) json.RawMessage {
	return json.RawMessage(strings.TrimSuffix(strings.TrimSpace(a), "}") + "," + strings.TrimPrefix(string(b), "{"))
}
