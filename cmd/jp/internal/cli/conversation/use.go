package conversation

import (
	"context"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/wording"
	"jp/convstore"
)

func newUseCommand(g *Group) *cli.Command {
	return g.Tree.Command(command.Spec{
		Name: "use", Summary: "choose this terminal's active conversation", Args: "[ID]",
		About: "Makes ID the active conversation, which jp query continues, and prints its id. " +
			"Without ID it prints the id of the active conversation. Every terminal has its own. " +
			"$JP_SESSION, a name of your choice, takes the place of the terminal. `jp " +
			"conversation use previous` switches back and forth.",
		Max:      1,
		Exits:    []exit.Status{exit.NotFound, exit.Busy},
		Examples: []string{"jp conversation use previous", "JP_SESSION=review jp conversation use newest"},
		Run:      func(ctx context.Context, args []string) error { return runUse(ctx, g, args) },
	})
}

func runUse(ctx context.Context, g *Group, words []string) error {
	session := g.WS.Session()
	if session == "" {
		return exit.Usagef("conversation use: this process has no terminal").
			WithHint("set JP_SESSION to a name of your choice")
	}
	word := "active"
	if len(words) > 0 {
		if err := g.WS.Persist("conversation use"); err != nil {
			return err
		}
		word = words[0]
	}
	id, err := g.WS.OneTarget(ctx, word)
	if err != nil {
		return err
	}
	st, err := g.WS.Store(ctx)
	if err != nil {
		return err
	}
	if len(words) > 0 {
		if err := st.Activate(ctx, session, id); err != nil {
			return err
		}
	}
	if !g.Con.JSON() {
		return g.WS.PrintIDs([]convstore.ID{id})
	}
	_, previous, err := st.Active(ctx, session)
	if err != nil {
		return err
	}
	return g.Con.Document(struct {
		ID       convstore.ID  `json:"id"`
		Previous *convstore.ID `json:"previous_id"`
	}{id, wording.Either(previous == 0, nil, &previous)})
}
