package conversation

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/agent"
	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/record"
	"jp/cmd/jp/internal/run"
	"jp/cmd/jp/internal/show"
	"jp/cmd/jp/internal/stream"
	"jp/cmd/jp/internal/turns"
	"jp/cmd/jp/internal/wording"
	"jp/convstore"
	"jp/tools/proc"
)

type compactOptions struct {
	keep      command.Maybe[int]
	model     command.Maybe[string]
	wait      command.Maybe[time.Duration]
	toolsOnly bool
	dryRun    bool
}

func newCompactCommand(g *Group) *cli.Command {
	o := compactOptions{keep: command.Maybe[int]{Value: 2}}
	return g.Tree.Command(command.Spec{
		Name: "compact", Summary: "send the model a summary in place of old turns", Args: "ID",
		About: "From then on the model gets one line in place of each long old tool result, and a " +
			"summary in place of all turns but the last ones. A model writes the summary, at its " +
			"price. Sub-conversations stay listed beside the summary. Nothing is removed: print " +
			"shows everything that was said.\n\n" +
			"`jp query` compacts by itself when the model's window is nearly full " +
			"(conversation.compact in the config).",
		Flags: []*command.Option{
			command.Int(&o.keep, "keep", "N", 0, "last turns that stay whole (default 2); a turn that can be resumed always stays whole"),
			command.Model(&o.model, "ID", "model that writes the summary: provider/model or an alias"),
			run.WaitFlag(&o.wait),
			command.Bool(&o.toolsOnly, "tools-only", "only shorten old tool results, and ask no model"),
			command.Bool(&o.dryRun, "dry-run", "print what the model would no longer get, and change nothing"),
		},
		Min: 1, Max: 1,
		Exits:    []exit.Status{exit.NotFound, exit.Busy, exit.Refused, exit.Limit, exit.Provider, exit.Hangup, exit.Interrupted, exit.Quit, exit.Terminated},
		Examples: []string{"jp conversation compact . --keep 3", "jp conversation compact jp-c17543982415 --tools-only --dry-run"},
		Run:      func(ctx context.Context, args []string) error { return runCompact(ctx, g, o, args[0]) },
	})
}

// compactDocument is what compact says in JSON.
type compactDocument struct {
	ConversationID convstore.ID `json:"conversation_id"`
	DryRun         bool         `json:"dry_run"`
	Results        int          `json:"results"`       // number of results that are shortened
	Summarizes     int          `json:"summarizes"`    // number of events that the summary replaces
	Summary        string       `json:"summary"`       // "" = none
	TokensBefore   int64        `json:"tokens_before"` // estimate for the next request
	TokensAfter    int64        `json:"tokens_after"`
	Model          string       `json:"model"` // model that wrote the summary; "" = none
	Usage          stream.Usage `json:"usage"`
	CostUSD        *stream.USD  `json:"cost_usd"`
}

func runCompact(ctx context.Context, g *Group, o compactOptions, word string) error {
	if err := g.WS.Persist("conversation compact"); err != nil {
		return err
	}
	if o.toolsOnly && (o.model.Set || o.wait.Set) {
		return command.ErrMixed("--tools-only", wording.Either(o.model.Set, "--model", "--wait-limit"))
	}
	if !o.toolsOnly && !o.dryRun {
		if err := record.Refuse(g.Con, "conversation compact"); err != nil {
			return err
		}
	}
	id, err := g.WS.OneTarget(ctx, word)
	if err != nil {
		return err
	}
	if _, err := g.WS.Store(ctx); err != nil {
		return err
	}
	if _, err := g.WS.Gate.Pass(ctx); err != nil {
		return err
	}
	host := proc.NewHost(proc.Options{})
	defer func() { _ = host.Close() }() // it starts nothing
	ctx, stop := g.Con.WithSignals(ctx, host.Kill)
	defer stop()
	g.Env.WaitFor(o.wait.Value)
	r, err := g.Env.OpenToShorten(ctx, host, id, run.Shortening{Writer: o.model.Value, Unasked: o.toolsOnly || o.dryRun})
	if err != nil {
		return err
	}
	whole := ctx
	ctx, abandon := context.WithCancelCause(ctx)
	defer abandon(nil)
	defer r.OnStop(abandon)()
	defer r.Close(whole)
	ag, err := r.Agent(ctx)
	if err != nil {
		return err
	}
	c, call, err := ag.Loop.Shorten(ctx, agent.CompactOptions{
		Keep: o.keep.Value, ToolsOnly: o.toolsOnly, DryRun: o.dryRun, Own: r.Conv.Link != convstore.DelegationLink,
	})
	var none *agent.AsideError
	switch {
	case errors.Is(err, agent.ErrNothingToCompact):
		g.Con.Note("conversation %s: nothing to compact%s", id,
			wording.Either(o.keep.Value > 0, " before the last "+wording.Either(o.keep.Value == 1, "turn", wording.Plural(o.keep.Value, "turn")), ""))
		c.After = c.Before
	case errors.As(err, &none) && none.Limit:
		return &exit.Error{Code: "budget", Status: exit.Limit, Msg: fmt.Sprintf("conversation %s: no summary: %s", id, none.Reason)}
	case ctx.Err() != nil && err != nil:
		return context.Cause(ctx)
	case err != nil:
		return fmt.Errorf("conversation %s: %w", id, err)
	}
	r.Shortened(ctx)
	switch {
	case g.Con.JSON():
		doc := compactDocument{
			ConversationID: id, DryRun: o.dryRun, Results: len(c.Results), Summarizes: c.Covered, Summary: c.Summary,
			TokensBefore: c.Before, TokensAfter: c.After, Model: c.Model, Usage: show.Usage(call.Usage), CostUSD: show.USD(call.CostNano),
		}
		if call.Model == "" {
			doc.CostUSD = new(stream.USD) // no model was asked
		}
		return g.Con.Document(doc)
	case err != nil: // the error was printed
	case o.dryRun:
		return g.Con.Text(func(w *bufio.Writer) error {
			fmt.Fprintln(w, "would compact: "+turns.LeftOut(c))
			return nil
		})
	default:
		g.Con.Note("conversation %s: %s", id, turns.Compacted(c))
	}
	return nil
}
