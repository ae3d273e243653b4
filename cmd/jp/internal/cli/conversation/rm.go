package conversation

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/term"
	"jp/cmd/jp/internal/wording"
	"jp/convstore"
)

type removeOptions struct {
	cascade bool
	promote bool
	yes     bool
}

func newRemoveCommand(g *Group) *cli.Command {
	var o removeOptions
	return g.Tree.Command(command.Spec{
		Name: "rm", Summary: "remove conversations", Args: "ID...",
		About: "Asks first, unless --yes is given. If a conversation has children that you do not " +
			"name, you need --cascade or --promote. A conversation is not removed while it, or " +
			"one below it, runs. If there is a mistake, or another one is made below while jp asks, " +
			"none is removed. Prints the ids of those that were removed.",
		Flags: []*command.Option{
			command.Bool(&o.cascade, "cascade", "also remove everything below"),
			command.Bool(&o.promote, "promote", "move the children to the grandparent"),
			command.Bool(&o.yes, "yes", "do not ask"),
		},
		Min: 1, Max: -1,
		Exits: []exit.Status{exit.NotFound, exit.Busy},
		Examples: []string{
			"jp conversation rm jp-c17543982411 --cascade --yes",
			"jp c ls --root=jp-c17543982411 --hidden | jp c rm - --promote --yes",
		},
		Run: func(ctx context.Context, args []string) error { return runRemove(ctx, g, o, args) },
	})
}

func runRemove(ctx context.Context, g *Group, o removeOptions, words []string) error {
	if err := g.WS.Persist("conversation rm"); err != nil {
		return err
	}
	if o.cascade && o.promote {
		return command.ErrMixed("--cascade", "--promote")
	}
	st, ids, err := g.openStore(ctx, words)
	if err != nil {
		return err
	}
	var below []convstore.ID // those that a person is asked about beside ids
	for _, id := range ids {
		c, err := st.Get(ctx, id)
		switch {
		case err != nil:
			return err
		case c.Children > 0 && !o.cascade && !o.promote:
			if err := allNamed(ctx, st, c, ids); err != nil {
				return err
			}
		}
		if o.yes {
			continue
		}
		counted, err := confirmRemoval(ctx, g, st, c, o)
		if err != nil {
			return err
		}
		below = append(below, counted...)
	}
	removed, err := removeShown(ctx, st, ids, below, o)
	if err != nil {
		return err
	}
	if space, err := st.Space(ctx); err == nil {
		g.Con.OfferCompact(space)
	}
	if g.Con.JSON() {
		return g.Con.Document(wording.Either(removed == nil, []convstore.ID{}, removed))
	}
	return g.WS.PrintIDs(removed)
}

// removeShown removes conversations: without --yes no more than what a person was shown, that is the
// named ones and those below them that another jp has not removed meanwhile.
func removeShown(ctx context.Context, st *convstore.Store, named, below []convstore.ID, o removeOptions) ([]convstore.ID, error) {
	for {
		removed, err := st.RemoveAll(ctx, slices.Concat(named, below), convstore.RemoveOptions{Cascade: o.cascade && o.yes, Promote: o.promote})
		if more, ok := errors.AsType[*convstore.ChildrenError](err); ok && o.cascade {
			return nil, fmt.Errorf("conversation %s: one was made below it after the question; nothing was removed", more.ID)
		}
		if !errors.As(err, new(*convstore.NotFoundError)) {
			return removed, err
		}
		left := slices.DeleteFunc(slices.Clone(below), func(id convstore.ID) bool {
			_, err := st.Get(ctx, id)
			return errors.As(err, new(*convstore.NotFoundError))
		})
		if len(left) == len(below) { // a named one is gone
			return nil, err
		}
		below = left
	}
}

// allNamed refuses to remove a conversation without its children. It runs before the question, so
// that jp asks only about what it can do.
func allNamed(ctx context.Context, st *convstore.Store, c convstore.Conversation, named []convstore.ID) error {
	children, err := st.List(ctx, convstore.Filter{Children: c.ID, Hidden: true, Archived: true})
	if err != nil {
		return err
	}
	for _, child := range children {
		if !slices.Contains(named, child.ID) {
			return &convstore.ChildrenError{ID: c.ID, Children: c.Children}
		}
	}
	return nil
}

// confirmRemoval asks about one conversation, and returns those below it that the question counts.
func confirmRemoval(ctx context.Context, g *Group, st *convstore.Store, c convstore.Conversation, o removeOptions) (ids []convstore.ID, err error) {
	tty, err := g.Con.Terminal()
	if console.Nobody(err) {
		return nil, exit.Usagef("conversation %s: nobody can confirm its removal", c.ID).WithHint("--yes removes without asking")
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = tty.Close() }()
	text := fmt.Sprintf("remove %s %s", c.ID, wording.Either(c.Title == "", "(no title)", fmt.Sprintf("%q", c.Title)))
	switch {
	case c.Children > 0 && o.cascade:
		below, err := st.Under(ctx, c.ID)
		if err != nil {
			return nil, err
		}
		all, err := below.List(ctx, convstore.Filter{Hidden: true, Archived: true})
		if err != nil {
			return nil, err
		}
		for _, c := range all {
			ids = append(ids, c.ID)
		}
		text += fmt.Sprintf(" and %s below it", wording.Plural(len(all), "conversation"))
	case c.Children > 0 && o.promote:
		text += fmt.Sprintf(", keeping its %s", wording.Either(c.Children == 1, "child", fmt.Sprintf("%d children", c.Children)))
	}
	yes, err := console.Confirm(ctx, tty, "", "jp: "+term.Line(text)+"?", nil)
	if err != nil {
		return nil, err
	}
	if !yes {
		return nil, &exit.Error{Code: "declined", Status: exit.Failed, Msg: fmt.Sprintf("conversation %s: not removed", c.ID)}
	}
	return ids, nil
}
