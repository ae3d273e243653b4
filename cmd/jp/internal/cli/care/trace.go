package care

import (
	"bufio"
	"context"
	"iter"
	"time"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/trace"
	"jp/cmd/jp/internal/wording"
	"jp/cmd/jp/internal/workspace"
	"jp/convstore"
	"jp/convstore/usage"
)

// The values of `jp trace --output`.
const (
	traceText   = "text"
	traceJSON   = "json"
	traceChrome = "chrome"
	traceHTML   = "html"
)

// NewTrace returns the command `jp trace`.
func NewTrace(g *Group) *cli.Command {
	output := ""
	return g.Tree.Command(command.Spec{
		Name: "trace", Paged: true, Summary: "show what a conversation and its sub-agents did, and when", Args: "[ID]",
		About: "Shows the timeline of the conversation and of everything that it delegated: turns, " +
			"model calls, tool calls and runs of sub-agents, with start, time, state, tokens and " +
			"cost. This also works while they run. Without ID: the active conversation.\n\n" +
			"--output text is a tree with bars. json is documented in docs/trace.md. chrome is " +
			"the Trace Event Format, which https://ui.perfetto.dev opens. html is one page that " +
			"loads nothing from elsewhere. Only the first 4096 bytes of each text are shown.",
		Flags: []*command.Option{
			command.Choice(&output, "output", "FORM", []string{traceText, traceJSON, traceChrome, traceHTML}, "text, json, chrome or html (default: text, or json with a JSON --format)"),
		},
		Max:      1,
		Exits:    []exit.Status{exit.NotFound, exit.Busy},
		Examples: []string{"jp trace", "jp trace jp-c17543982411 --output html > trace.html", "jp trace --output chrome > trace.json"},
		Run: func(ctx context.Context, args []string) error {
			return runTrace(ctx, g, output, workspace.OrActive(args)[0])
		},
	})
}

func runTrace(ctx context.Context, g *Group, output, word string) error {
	if output == "" {
		output = wording.Either(g.Con.JSON(), traceJSON, traceText)
	}
	t, err := g.trace(ctx, word)
	if err != nil {
		return err
	}
	switch output {
	case traceJSON:
		if !g.Con.JSON() {
			g.Con.Globals.Format = console.FormatJSON
		}
		return g.Con.Document(t)
	case traceChrome:
		return g.Con.Text(func(w *bufio.Writer) error { return t.Chrome(w) })
	case traceHTML:
		return g.Con.Text(func(w *bufio.Writer) error { return t.HTML(w) })
	}
	return g.Con.Text(func(w *bufio.Writer) error {
		t.Text(w, g.Con.IO)
		return nil
	})
}

// trace builds the trace of the conversation that word names.
func (g *Group) trace(ctx context.Context, word string) (*trace.Trace, error) {
	st, err := g.WS.Store(ctx)
	if err != nil {
		return nil, err
	}
	id, err := g.WS.Target(ctx, word)
	if err != nil {
		return nil, err
	}
	spent, err := usage.Spent(ctx, st.View, id)
	if err != nil {
		return nil, err
	}
	scope, err := st.Below(ctx, id)
	if err != nil {
		return nil, err
	}
	below, err := scope.List(ctx, convstore.Filter{Hidden: true, Archived: true})
	if err != nil {
		return nil, err
	}
	delegations, err := st.Delegations(ctx, spent.Ledger)
	if err != nil {
		return nil, err
	}
	return trace.Build(trace.Source{
		Conversation: spent.Conversation, Below: below, Delegations: delegations, Now: time.Now(),
		Events: func(ids []convstore.ID) iter.Seq2[convstore.EventIn, error] { return st.EventsOf(ctx, ids) },
	})
}
