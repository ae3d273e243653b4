package conversation

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/stream"
	"jp/cmd/jp/internal/term"
	"jp/cmd/jp/internal/wording"
	"jp/cmd/jp/internal/workspace"
	"jp/convstore"
	"jp/convstore/usage"
)

type listOptions struct {
	root       command.Maybe[string]
	tree       bool
	pick       bool
	hidden     bool
	archived   bool
	sort       string
	descending bool
	limit      command.Maybe[int]
	labels     []string
	top        convstore.ID // first conversation of tree; 0 = all
}

func newListCommand(g *Group) *cli.Command {
	var o listOptions
	return g.Tree.Command(command.Spec{
		Name: "ls", Paged: true, Follows: &o.pick, Summary: "list conversations",
		About: "Without flags it lists all conversations that are neither hidden nor archived. " +
			"The one with the latest activity comes first. (+3 hidden) after a parent counts its hidden " +
			"children.\n\n" +
			"On a terminal it prints a table that fits. In a pipe it prints tab-separated lines: " +
			"id, status, turns, time of the last activity, profile, model, cost in dollars, " +
			"title, and (+3 hidden) if it applies. Tabs, newlines and backslashes are escaped.\n\n" +
			"The cost is that of its own model calls. The table has the column TOTAL if sub-agents cost " +
			"anything, and JSON always total_cost_usd: its own cost and that of all sub-agents below it, also of " +
			"removed ones. A replay counts as what was recorded, and as nothing in jp usage.\n\n" +
			"--pick shows the list on the terminal and prints the id that was picked (-F json: its row). Arrows or Ctrl-N and " +
			"Ctrl-P move, typing filters by title and id, Enter picks, Esc leaves (status 130). Beside the " +
			"list is the last turn if the terminal has 80 columns. Where nobody can pick (no terminal, TERM=dumb, " +
			"JP_NONINTERACTIVE) it prints the plain list.",
		Flags: []*command.Option{
			workspace.TargetFlag(&o.root, "root", "ID", "only conversations below ID; without ID only roots"),
			command.Bool(&o.tree, "tree", "draw the tree, in the order in which they were created"),
			command.Bool(&o.pick, "pick", "pick one on the terminal and print its id"),
			command.Bool(&o.hidden, "hidden", "hidden conversations too"),
			command.Bool(&o.archived, "archived", "archived conversations too"),
			command.Choice(&o.sort, "sort", "KEY", []string{"created", "activity", "title", "turns", "cost"}, "order by created, activity, title, turns or cost, the least first (default: the latest activity first)"),
			command.Bool(&o.descending, "descending", "reverse the order"),
			command.Int(&o.limit, "limit", "N", 1, "at most N conversations; in a tree those with the latest activity"),
			command.Texts(&o.labels, "label", "K[=V]", "only conversations with this label; repeat for more"),
		},
		Exits: []exit.Status{exit.NotFound, exit.Busy, exit.Interrupted},
		Examples: []string{
			"jp conversation ls --tree --hidden",
			"id=$(jp c ls --pick) && jp c print $id",
			"jp conversation ls --root=jp-c17543982411 --hidden -F json",
			"jp c ls --limit 10",
		},
		Run: func(ctx context.Context, _ []string) error { return runList(ctx, g, o) },
	})
}

func newTreeCommand(g *Group) *cli.Command {
	o := listOptions{tree: true}
	return g.Tree.Command(command.Spec{
		Name: "tree", Paged: true, Summary: "draw conversations below their parents", Args: "[ID]",
		About: "The same as ls --tree. With ID: only that conversation and those below it.",
		Flags: []*command.Option{
			command.Bool(&o.hidden, "hidden", "hidden conversations too"),
			command.Bool(&o.archived, "archived", "archived conversations too"),
			command.Int(&o.limit, "limit", "N", 1, "at most N conversations; in a tree those with the latest activity"),
			command.Texts(&o.labels, "label", "K[=V]", "only conversations with this label; repeat for more"),
		},
		Max:      1,
		Exits:    []exit.Status{exit.NotFound, exit.Busy},
		Examples: []string{"jp conversation tree . --hidden"},
		Run: func(ctx context.Context, args []string) error {
			if len(args) == 0 {
				return runList(ctx, g, o)
			}
			id, err := g.WS.OneTarget(ctx, args[0])
			if err != nil {
				return err
			}
			o.top = id
			return runList(ctx, g, o)
		},
	})
}

func runList(ctx context.Context, g *Group, o listOptions) error {
	if o.tree && o.sort != "" {
		return command.ErrMixed("--tree", "--sort")
	}
	if o.tree && o.pick {
		return command.ErrMixed("--tree", "--pick")
	}
	labels, err := labelFilter(o.labels)
	if err != nil {
		return err
	}
	view, err := g.WS.View(ctx)
	if err != nil {
		return err
	}
	f := convstore.Filter{
		Roots: o.root.Set && o.root.Value == "", Hidden: o.hidden, Archived: o.archived, Labels: labels,
		Descending: o.descending, Limit: o.limit.Value,
		Sort: map[string]convstore.Sort{
			"": convstore.SortTree, "created": convstore.SortCreated, "activity": convstore.SortActivity,
			"title": convstore.SortTitle, "turns": convstore.SortTurns, "cost": convstore.SortCost,
		}[o.sort],
	}
	if o.sort == "" && (!o.tree || o.limit.Set) { // what was last worked on is what is looked for
		f.Sort, f.Descending = convstore.SortActivity, o.tree || !o.descending
	}
	if o.root.Value != "" {
		if view, err = g.WS.Below(ctx, o.root.Value); err != nil {
			return err
		}
	}
	var cs []convstore.Conversation
	if o.top != 0 {
		c, err := view.Get(ctx, o.top)
		if err != nil {
			return err
		}
		if view, err = view.Under(ctx, o.top); err != nil {
			return err
		}
		cs = append(cs, c)
	}
	below, err := view.List(ctx, f)
	if err != nil {
		return err
	}
	if cs = append(cs, below...); f.Limit > 0 {
		cs = cs[:min(len(cs), f.Limit)]
	}
	if o.tree && o.limit.Set {
		slices.SortFunc(cs, func(a, b convstore.Conversation) int {
			return wording.Either(o.descending, cmp.Compare(b.ID, a.ID), cmp.Compare(a.ID, b.ID))
		})
	}
	if o.pick && g.WS.Picks() {
		heads := make([]convstore.Head, len(cs))
		for i, c := range cs {
			heads[i] = convstore.Head{ID: c.ID, Title: c.Title}
		}
		i, err := g.WS.Pick(ctx, view, heads)
		if err != nil {
			return err
		}
		if cs = cs[i : i+1]; !g.Con.JSON() {
			_, err = fmt.Fprintln(g.Con.IO.Out, cs[0].ID)
			return err
		}
	}
	switch {
	case g.Con.JSON():
		rows, err := withTotals(ctx, view, cs)
		if err != nil {
			return err
		}
		return g.Con.Document(rows)
	case o.tree:
		return g.printTree(cs, o.hidden)
	case g.Con.Pretty():
		rows, err := withTotals(ctx, view, cs)
		if err != nil {
			return err
		}
		return g.printTable(rows, o.hidden)
	}
	return g.Con.Text(func(w *bufio.Writer) error {
		for _, c := range cs {
			writeListLine(w, c, o.hidden)
		}
		return nil
	})
}

// row is a conversation in a listing, with what it and everything below it by delegation cost; nil
// = a price is unknown.
type row struct {
	convstore.Conversation
	total *int64
}

// MarshalJSON adds that cost to what a conversation encodes to.
func (r row) MarshalJSON() ([]byte, error) {
	head, err := r.Conversation.MarshalJSON()
	if err != nil {
		return nil, err
	}
	tail, err := json.Marshal((*stream.USD)(r.total))
	return joinObjects(string(head), fmt.Appendf(nil, `{"total_cost_usd":%s}`, tail)), err
}

func withTotals(ctx context.Context, view convstore.View, cs []convstore.Conversation) ([]row, error) {
	rows := make([]row, len(cs))
	totals, err := usage.Totals(ctx, view, cs)
	if err != nil {
		return nil, err
	}
	for i, c := range cs {
		rows[i] = row{c, totals[i]}
	}
	return rows, nil
}

// writeListLine writes a conversation for a pipe.
func writeListLine(w *bufio.Writer, c convstore.Conversation, hidden bool) {
	fields := []string{
		c.ID.String(), string(c.Status), strconv.Itoa(c.Turns), c.UpdatedAt.UTC().Format(time.RFC3339),
		c.Profile, c.Model, console.Dollars(c.CostNano), c.Title,
	}
	for i, f := range fields {
		fields[i] = term.Escape(f)
	}
	fmt.Fprint(w, strings.Join(fields, "\t")+hiddenNote(c, hidden, "\t"))
	fmt.Fprintln(w)
}

// hiddenNote returns how many children a listing omits.
func hiddenNote(c convstore.Conversation, shown bool, before string) string {
	if shown || c.HiddenChildren == 0 {
		return ""
	}
	return fmt.Sprintf("%s(+%d hidden)", before, c.HiddenChildren)
}

func (g *Group) printTable(rows []row, hidden bool) error {
	if len(rows) == 0 {
		g.Con.Note("no conversations")
		return nil
	}
	t := term.Table{Columns: []term.Column{
		{Title: "id"}, {Title: "title", Flex: true, Least: 24}, {Title: "status"}, {Title: "turns", Right: true, Drop: 1},
		{Title: "marks", Drop: 3}, {Title: "profile", Drop: 6}, {Title: "model", Drop: 7}, {Title: "cost", Right: true, Drop: 5},
		{Title: "total", Right: true, Drop: 4}, {Title: "activity", Right: true, Drop: 2},
	}}
	more := slices.ContainsFunc(rows, func(r row) bool { return wording.Dollars(r.total) != wording.Dollars(r.CostNano) })
	now := time.Now()
	for _, c := range rows {
		title := wording.Either(c.Title == "", "-", c.Title) + hiddenNote(c.Conversation, hidden, " ")
		t.Rows = append(t.Rows, []string{
			c.ID.String(), title, string(c.Status), strconv.Itoa(c.Turns),
			strings.Join(marks(c.Conversation), " "), c.Profile, c.Model, wording.Dollars(c.CostNano),
			wording.Either(more, wording.Dollars(c.total), ""), age(now.Sub(c.UpdatedAt)),
		})
	}
	return g.Con.Text(func(w *bufio.Writer) error { return t.Write(w, g.Con.IO) })
}

// marks names what is special about a conversation.
func marks(c convstore.Conversation) (list []string) {
	for _, m := range []struct {
		on   bool
		text string
	}{{c.Hidden, "hidden"}, {c.Pinned, "pinned"}, {c.Archived(), "archived"}} {
		if m.on {
			list = append(list, m.text)
		}
	}
	return list
}

// age returns the time since then in one unit.
func age(d time.Duration) string {
	switch {
	case d < time.Minute:
		return "now"
	case d < time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	}
	return fmt.Sprintf("%dd", int(d.Hours()/24))
}

// printTree draws conversations below their parents. Those whose parent is not listed are drawn as
// roots. A conversation deeper than maxIndent is drawn at maxIndent with its level, because a chain
// of forks may be very long.
func (g *Group) printTree(cs []convstore.Conversation, hidden bool) error {
	children := map[convstore.ID][]convstore.Conversation{}
	listed := map[convstore.ID]bool{}
	for _, c := range cs {
		listed[c.ID] = true
	}
	for _, c := range cs {
		parent := c.Parent
		if !listed[parent] {
			parent = 0
		}
		children[parent] = append(children[parent], c)
	}
	return g.Con.Text(func(w *bufio.Writer) error {
		const maxIndent = 30
		type row struct {
			convstore.Conversation
			indent string
			level  int
			last   bool
		}
		var todo []row // in reverse; no call for each level: of a chain they would fill the stack
		push := func(parent convstore.ID, indent string, level int) {
			for i, c := range slices.Backward(children[parent]) {
				todo = append(todo, row{c, indent, level, i == len(children[parent])-1})
			}
		}
		for push(0, "", 0); len(todo) > 0; {
			r := todo[len(todo)-1]
			todo = todo[:len(todo)-1]
			branch, deeper := "", ""
			if r.level > 0 {
				branch, deeper = term.Branch(r.last, g.Con.IO.UTF8)
			}
			if r.level > maxIndent {
				branch, deeper = fmt.Sprintf("%s[%d] ", branch, r.level), ""
			}
			line := r.indent + branch + treeText(r.Conversation) + hiddenNote(r.Conversation, hidden, "  ")
			if g.Con.IO.Width > 0 {
				line = term.Cut(line, g.Con.IO.Width, g.Con.IO.UTF8)
			}
			fmt.Fprintln(w, line)
			push(r.ID, r.indent+deeper, r.level+1)
		}
		return nil
	})
}

// treeText returns the line of a conversation in a tree: id, status, turns, profile, cost, title.
func treeText(c convstore.Conversation) string {
	parts := []string{c.ID.String(), string(c.Status), wording.Plural(c.Turns, "turn")}
	if c.Profile != "" {
		parts = append(parts, c.Profile)
	}
	if c.CostNano == nil || *c.CostNano != 0 {
		parts = append(parts, wording.Either(c.CostNano == nil, "cost unknown", wording.Dollars(c.CostNano)))
	}
	if list := marks(c); list != nil {
		parts = append(parts, "["+strings.Join(list, " ")+"]")
	}
	if c.Title != "" {
		parts = append(parts, c.Title)
	}
	return term.Line(strings.Join(parts, "  "))
}
