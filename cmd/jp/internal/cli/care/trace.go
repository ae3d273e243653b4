package care

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
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
	var o traceOptions
	return g.Tree.Command(command.Spec{
		Name: "trace", Paged: true, Summary: "show what a conversation and its sub-agents did, and when", Args: "[ID]",
		About: "Shows the timeline of the conversation and of everything that it delegated: turns, " +
			"model calls, tool calls and runs of sub-agents, with start, time, state, tokens and " +
			"cost. This also works while they run. Without ID: the active conversation.\n\n" +
			"--output text is a tree with bars. json is documented in docs/trace.md. chrome is " +
			"the Trace Event Format, which https://ui.perfetto.dev opens. html is one page that " +
			"loads nothing from elsewhere. Only the first 4096 bytes of each text are shown.\n\n" +
			"--follow prints lines until the conversation and everything below it have ended: one " +
			"for each span that ends, with its time since the beginning, and one for each turn and " +
			"each sub-agent that begins. With json it prints each span that has ended as a line.",
		Flags: []*command.Option{
			command.Choice(&o.output, "output", "FORM", []string{traceText, traceJSON, traceChrome, traceHTML}, "text, json, chrome or html (default: text, or json with a JSON --format)"),
			command.Bool(&o.follow, "follow", "print what happens, until nothing of it runs"),
		},
		Follows:  &o.follow,
		Max:      1,
		Exits:    []exit.Status{exit.NotFound, exit.Busy},
		Examples: []string{"jp trace", "jp trace jp-c17543982411 --output html > trace.html", "jp trace --output chrome > trace.json", "jp trace jp-c17543982411 --follow"},
		Run: func(ctx context.Context, args []string) error {
			return runTrace(ctx, g, o, workspace.OrActive(args)[0])
		},
	})
}

type traceOptions struct {
	output string
	follow bool
}

func runTrace(ctx context.Context, g *Group, o traceOptions, word string) error {
	output := cmp.Or(o.output, wording.Either(g.Con.JSON(), traceJSON, traceText))
	id, err := g.WS.OneTarget(ctx, word)
	if err != nil {
		return err
	}
	switch {
	case !o.follow:
	case output == traceText || output == traceJSON:
		return followTrace(ctx, g, output, id)
	default:
		return command.ErrMixed("--follow", "--output "+output)
	}
	src, err := g.traced(ctx, id)
	if err != nil {
		return err
	}
	t, err := trace.Build(src)
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

// followEvery is how often a trace that is followed is read again.
const followEvery = 500 * time.Millisecond

// followTrace prints what happens until nothing runs any more.
func followTrace(ctx context.Context, g *Group, output string, id convstore.ID) error {
	var f trace.Follower
	return g.Con.Text(func(w *bufio.Writer) error {
		for seen := -1; ; {
			src, err := g.traced(ctx, id)
			if err != nil {
				return err
			}
			steps, runs := 0, false
			for _, c := range append([]convstore.Conversation{src.Conversation}, src.Below...) {
				steps += c.Events + 1
				runs = runs || c.Status == convstore.StatusRunning || c.Status == convstore.StatusQueued
			}
			for _, d := range src.Delegations {
				steps += wording.Either(d.State == "", 1, 2)
			}
			if steps != seen || !runs {
				if err := g.followed(w, &f, src, output, runs); err != nil || !runs {
					return err
				}
			}
			seen = steps
			select { // all of it is read again, also where something happens all the time
			case <-time.After(followEvery):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
	})
}

// followed prints what is new in a trace that is followed.
func (g *Group) followed(w *bufio.Writer, f *trace.Follower, src trace.Source, output string, runs bool) error {
	t, err := trace.Build(src)
	if err != nil {
		return err
	}
	news := f.Next(t)
	if output == traceText {
		t.Lines(w, g.Con.IO, news)
		if !runs {
			fmt.Fprintln(w, t.Sum())
		}
		return w.Flush()
	}
	for _, s := range news {
		if s.End == nil {
			continue
		}
		b, err := console.EncodeJSON(s, false)
		if err != nil {
			return err
		}
		_, _ = w.Write(b) // the buffer remembers its error
	}
	return w.Flush()
}

// traced reads what the trace of a conversation is built from.
func (g *Group) traced(ctx context.Context, id convstore.ID) (src trace.Source, err error) {
	st, err := g.WS.Store(ctx)
	if err != nil {
		return src, err
	}
	spent, err := usage.Spent(ctx, st.View, id)
	if err != nil {
		return src, err
	}
	scope, err := st.Below(ctx, id)
	if err != nil {
		return src, err
	}
	src = trace.Source{
		Conversation: spent.Conversation, Now: time.Now(),
		Events: func(ids []convstore.ID) iter.Seq2[convstore.EventIn, error] { return st.EventsOf(ctx, ids) },
	}
	if src.Below, err = scope.List(ctx, convstore.Filter{Hidden: true, Archived: true}); err == nil {
		src.Delegations, err = st.Delegations(ctx, spent.Ledger)
	}
	return src, err
}
