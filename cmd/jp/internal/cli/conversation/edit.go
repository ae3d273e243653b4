package conversation

import (
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/review"
	"jp/cmd/jp/internal/rule"
	"jp/cmd/jp/internal/wording"
	"jp/cmd/jp/internal/workspace"
	"jp/convstore"
	"jp/tools/unseen"
)

type editOptions struct {
	title        command.Maybe[string]
	hide, unhide bool
	pin, unpin   bool
	tmp          command.Maybe[time.Duration]
	noTmp        bool
	labels       []string
	noLabels     []string
	ask          []string
	parent       command.Maybe[string]
	noParent     bool
}

func newEditCommand(g *Group) *cli.Command {
	var o editOptions
	return g.Tree.Command(command.Spec{
		Name: "edit", Summary: "change titles, labels, parents, expiry and permissions of conversations", Args: "ID...",
		About: "Changes all of them, or none if one cannot be changed. Prints their ids.\n\n" +
			"--parent moves a conversation with everything below it; --no-parent makes it a root. " +
			"Its authority and what it spent stay the same. After that no agent can reach it. A " +
			"conversation is not moved while anything in either tree runs, and never below " +
			"itself.\n\n" +
			"A conversation with --tmp expires: the first jp query after that time removes it. It " +
			"is not removed while it, or one below it, is pinned, runs or has not expired.",
		Flags: []*command.Option{
			command.Text(&o.title, "title", "T", "its title"),
			command.Bool(&o.hide, "hide", "hide it from listings"),
			command.Bool(&o.unhide, "unhide", "list it again"),
			command.Bool(&o.pin, "pin", "never let it expire"),
			command.Bool(&o.unpin, "unpin", "let it expire again"),
			command.DurationMaybe(&o.tmp, "tmp", "DURATION", workspace.DefaultTmp, "let it expire DURATION from now (default: one day)"),
			command.Bool(&o.noTmp, "no-tmp", "remove the time at which it expires"),
			command.Texts(&o.labels, "label", "K[=V]", "set a label; repeat for more"),
			command.Texts(&o.noLabels, "no-label", "K", "remove a label; repeat for more"),
			command.List(&o.ask, "ask", "TOOL", "ask again before each call of TOOL, which was allowed always; repeat for more"),
			command.String(&o.parent, "parent", "ID", "move it below ID"),
			command.Bool(&o.noParent, "no-parent", "make it a root"),
		},
		Min: 1, Max: -1,
		Exits: []exit.Status{exit.NotFound, exit.Busy},
		Examples: []string{
			"jp conversation edit . --title 'Release notes' --pin --label team=red",
			"jp conversation edit jp-c17543982411 --no-parent --unhide",
			"jp c ls --label scratch | jp c edit - --tmp=2h",
		},
		Run: func(ctx context.Context, args []string) error { return runEdit(ctx, g, o, args) },
	})
}

// check refuses flags that contradict one another, or no flag at all.
func (o *editOptions) check() error {
	for _, pair := range []struct {
		a, b       string
		hasA, hasB bool
	}{
		{"--hide", "--unhide", o.hide, o.unhide}, {"--pin", "--unpin", o.pin, o.unpin},
		{"--tmp", "--no-tmp", o.tmp.Set, o.noTmp}, {"--parent", "--no-parent", o.parent.Set, o.noParent},
	} {
		if pair.hasA && pair.hasB {
			return command.ErrMixed(pair.a, pair.b)
		}
	}
	given := o.title.Set || o.hide || o.unhide || o.pin || o.unpin || o.tmp.Set || o.noTmp ||
		len(o.labels) > 0 || len(o.noLabels) > 0 || len(o.ask) > 0 || o.parent.Set || o.noParent
	if !given {
		return exit.Usagef("conversation edit: no flag says what to change").WithHint("see `jp conversation edit --help`")
	}
	return nil
}

// apply makes the change to one conversation.
func (o *editOptions) apply(c *convstore.Conversation, labels map[string]string, parent convstore.ID) {
	if o.title.Set {
		c.Title = o.title.Value
	}
	c.Hidden = (c.Hidden || o.hide) && !o.unhide
	c.Pinned = (c.Pinned || o.pin) && !o.unpin
	if o.tmp.Set {
		c.ExpiresAt = command.Expiry(o.tmp)
	}
	if o.noTmp {
		c.ExpiresAt = time.Time{}
	}
	if c.Labels == nil {
		c.Labels = map[string]string{}
	}
	for _, name := range o.noLabels {
		delete(c.Labels, name)
	}
	maps.Copy(c.Labels, labels)
	c.Allowed = slices.DeleteFunc(c.Allowed, func(a convstore.Allowance) bool { return review.IsAnswer(a) && slices.Contains(o.ask, a.Tool) })
	if o.parent.Set || o.noParent {
		c.Parent = parent
	}
}

func runEdit(ctx context.Context, g *Group, o editOptions, words []string) error {
	if err := g.WS.Persist("conversation edit"); err != nil {
		return err
	}
	if err := o.check(); err != nil {
		return err
	}
	labels, err := labelFilter(o.labels)
	if err != nil {
		return err
	}
	for _, name := range o.noLabels {
		if _, both := labels[name]; both || name == "" || strings.Contains(name, "=") {
			return exit.Usagef("--no-label: %q", name).WithHint("--no-label takes the name of a label that --label does not set")
		}
	}
	if _, given := labels[rule.LabelSpecialization]; given || slices.Contains(o.noLabels, rule.LabelSpecialization) {
		return exit.Usagef("--%slabel %s: only jp sets it, to find the sub-agent that a specialization continues", wording.Either(given, "", "no-"), rule.LabelSpecialization)
	}
	st, ids, err := g.openStore(ctx, words)
	if err != nil {
		return err
	}
	var parent convstore.ID
	if o.parent.Set {
		if parent, err = g.WS.Target(ctx, o.parent.Value); err != nil {
			return err
		}
	}
	edited := make([]convstore.Conversation, 0, len(ids))
	if err := st.EditAll(ctx, ids, func(c *convstore.Conversation) error {
		for _, tool := range o.ask {
			if !slices.ContainsFunc(c.Allowed, func(a convstore.Allowance) bool { return review.IsAnswer(a) && a.Tool == tool }) {
				return exit.Usagef("--ask: conversation %s: %s is not always allowed", c.ID, unseen.Word(tool)).WithHint("`jp conversation show %s` lists the tools that are", c.ID)
			}
		}
		o.apply(c, labels, parent)
		return nil
	}); err != nil {
		return err
	}
	if !g.Con.JSON() {
		return g.WS.PrintIDs(ids)
	}
	for _, id := range ids {
		c, err := st.Get(ctx, id)
		if err != nil {
			return err
		}
		edited = append(edited, c)
	}
	return g.Con.Document(edited)
}

func newArchiveCommand(g *Group) *cli.Command {
	return newShelfCommand(g, "archive", "move conversations to the archive",
		"Listings and searches omit archived conversations, unless you give --archived. "+
			"`jp query --id ID` continues one and takes it out of the archive. Without --id, jp query never continues one.",
		func(c *convstore.Conversation, now time.Time) {
			if !c.Archived() {
				c.ArchivedAt = now
			}
		})
}

func newUnarchiveCommand(g *Group) *cli.Command {
	return newShelfCommand(g, "unarchive", "take conversations out of the archive", "Listings and searches include them again.",
		func(c *convstore.Conversation, _ time.Time) { c.ArchivedAt = time.Time{} })
}

// newShelfCommand makes archive and unarchive.
func newShelfCommand(g *Group, name, summary, about string, change func(*convstore.Conversation, time.Time)) *cli.Command {
	var cascade bool
	return g.Tree.Command(command.Spec{
		Name: name, Summary: summary, Args: "ID...",
		About: about + " If there is a mistake, none is changed. Prints their ids.",
		Flags: []*command.Option{command.Bool(&cascade, "cascade", "also everything below them")},
		Min:   1, Max: -1,
		Exits:    []exit.Status{exit.NotFound, exit.Busy},
		Examples: []string{"jp conversation " + name + " jp-c17543982411 --cascade"},
		Run: func(ctx context.Context, words []string) error {
			if err := g.WS.Persist("conversation " + name); err != nil {
				return err
			}
			st, ids, err := g.openStore(ctx, words)
			if err == nil && cascade {
				ids, err = withDescendants(ctx, st, ids)
			}
			if err != nil {
				return err
			}
			now := time.Now()
			if err := st.EditAll(ctx, ids, func(c *convstore.Conversation) error {
				change(c, now)
				return nil
			}); err != nil {
				return err
			}
			if g.Con.JSON() {
				return g.Con.Document(wording.Either(ids == nil, []convstore.ID{}, ids))
			}
			return g.WS.PrintIDs(ids)
		},
	})
}

// withDescendants adds to ids everything below them, each once.
func withDescendants(ctx context.Context, st *convstore.Store, ids []convstore.ID) (all []convstore.ID, err error) {
	seen := map[convstore.ID]bool{}
	add := func(id convstore.ID) {
		if !seen[id] {
			seen[id] = true
			all = append(all, id)
		}
	}
	for _, id := range ids {
		add(id)
		view, err := st.Under(ctx, id)
		if err != nil {
			return nil, err
		}
		below, err := view.List(ctx, convstore.Filter{Hidden: true, Archived: true})
		if err != nil {
			return nil, err
		}
		for _, c := range below {
			add(c.ID)
		}
	}
	return all, nil
}
