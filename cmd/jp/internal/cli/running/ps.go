package running

import (
	"bufio"
	"context"
	"errors"
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
	"jp/convstore"
)

// NewPs returns the command `jp ps`.
func NewPs(g *Group) *cli.Command {
	return g.Tree.Command(command.Spec{
		Name: "ps", Summary: "show what runs now",
		About: "Lists the conversations of this store that run, each below the one that called it, " +
			"in the order of the calls: state, or the tools that it waits for, time since the turn began, " +
			"and tokens and cost of the turn with everything below it. A sub-agent that waits for " +
			"its turn is queued, and one that a launcher has started names its machine.\n\n" +
			"In a pipe it prints tab-separated lines: id, id of the one that called it, state, " +
			"seconds, tokens, cost in dollars, profile, model, title and machine (empty: this one). " +
			"Nothing runs: status 0 and no line. `jp stop ID` stops a run, `jp trace ID --follow` watches it.",
		Exits:    []exit.Status{exit.NotFound, exit.Busy},
		Examples: []string{"jp ps", "jp ps -F json | jq -r '.[] | select(.parent_id == null) | .id'"},
		Run:      func(ctx context.Context, _ []string) error { return runPs(ctx, g) },
	})
}

// run is a conversation that runs.
type run struct {
	ID        convstore.ID     `json:"id"`
	Parent    *convstore.ID    `json:"parent_id"` // null where what called it does not run
	Title     string           `json:"title"`
	Profile   string           `json:"profile"`
	Model     string           `json:"model"`
	Status    convstore.Status `json:"status"`     // running or queued
	Tools     []string         `json:"tools"`      // calls without a result, in their order
	Turn      int              `json:"turn"`       // 0 = it has not begun one
	Started   *time.Time       `json:"started_at"` // of the turn, or of the wait; null = of neither
	ElapsedMS int64            `json:"elapsed_ms"` //
	Tokens    int64            `json:"tokens"`     // of the turn, with everything below it
	CostUSD   *stream.USD      `json:"cost_usd"`   // null when a price is unknown
	Host      string           `json:"host"`       // machine where it runs; "" = this one

	last []bool // for it and each one above it: whether it is the last child
}

func runPs(ctx context.Context, g *Group) error {
	st, err := g.WS.Store(ctx)
	if err != nil {
		return err
	}
	cs, err := st.Running(ctx)
	if err != nil {
		return err
	}
	p := &reader{store: st, now: time.Now(), below: map[convstore.ID][]convstore.Conversation{}}
	here := map[convstore.ID]bool{}
	for _, c := range cs {
		here[c.ID] = true
	}
	for _, c := range cs {
		if !here[c.Parent] || c.Link != convstore.DelegationLink { // nothing calls a fork
			c.Parent = 0
		}
		p.below[c.Parent] = append(p.below[c.Parent], c)
	}
	if _, err := p.children(ctx, 0, nil); err != nil {
		return err
	}
	switch {
	case g.Con.JSON():
		return g.Con.Document(wording.Either(p.runs == nil, []*run{}, p.runs))
	case len(p.runs) == 0:
		g.Con.Note("nothing runs")
		return nil
	case g.Con.Pretty():
		return g.Con.Text(func(w *bufio.Writer) error { return table(p.runs, g.Con.IO.UTF8).Write(w, g.Con.IO) })
	}
	return g.Con.Text(func(w *bufio.Writer) error {
		for _, r := range p.runs {
			parent := ""
			if r.Parent != nil {
				parent = r.Parent.String()
			}
			fields := []string{
				r.ID.String(), parent, r.state(), strconv.FormatInt(r.ElapsedMS/1000, 10), strconv.FormatInt(r.Tokens, 10),
				console.Dollars((*int64)(r.CostUSD)), r.Profile, r.Model, r.Title, r.Host,
			}
			for i, f := range fields {
				fields[i] = term.Escape(f)
			}
			fmt.Fprintln(w, strings.Join(fields, "\t"))
		}
		return nil
	})
}

// reader reads what the runs do.
type reader struct {
	store *convstore.Store
	now   time.Time
	below map[convstore.ID][]convstore.Conversation // 0: those whose caller does not run
	runs  []*run                                    // each before those below it
}

// children reads the runs below one, and returns what they have used.
func (p *reader) children(ctx context.Context, id convstore.ID, above []bool) (used convstore.Spend, err error) {
	open, err := p.open(ctx, id)
	if err != nil {
		return used, err
	}
	for i, c := range p.below[id] {
		d := open[c.ID]
		r := &run{
			Host: d.Host,
			ID:   c.ID, Title: c.Title, Profile: c.Profile, Model: c.Model, Status: c.Status, Tools: []string{},
			last: append(above[:len(above):len(above)], i == len(p.below[id])-1),
		}
		if id != 0 {
			r.Parent = &id
		}
		at := len(p.runs)
		p.runs = append(p.runs, r)
		spent, err := p.read(ctx, c, d, r)
		if errors.As(err, new(*convstore.NotFoundError)) { // removed meanwhile
			p.runs = p.runs[:at]
			continue
		}
		if err != nil {
			return used, err
		}
		more, err := p.children(ctx, c.ID, r.last)
		if err != nil {
			return used, err
		}
		spent = spent.Add(more)
		r.Tokens, r.CostUSD = spent.Tokens(), (*stream.USD)(spent.Cost())
		used = used.Add(spent)
	}
	return used, nil
}

// read reads what a run does, and what its turn has used without the runs below it.
func (p *reader) read(ctx context.Context, c convstore.Conversation, d convstore.Delegation, r *run) (spent convstore.Spend, err error) {
	if c.Status == convstore.StatusQueued {
		if !d.Reserved.IsZero() {
			r.Started = &d.Reserved
		}
	} else {
		err = p.turn(ctx, c.ID, r)
	}
	if err != nil {
		return spent, err
	}
	if r.Started != nil {
		r.ElapsedMS = max(0, p.now.Sub(*r.Started).Milliseconds())
	}
	if r.Turn == 0 {
		return spent, nil
	}
	a, err := p.store.Account(ctx, c.ID)
	return a.Own.Add(a.Below), err
}

// turn reads the open turn of a conversation. If it has none, something else than an agent holds
// it.
func (p *reader) turn(ctx context.Context, id convstore.ID, r *run) error {
	var open []convstore.ToolCall
	for ev, err := range p.store.Events(ctx, id, convstore.LastTurns(1)) {
		if err != nil {
			return err
		}
		switch b := ev.Body.(type) {
		case convstore.TurnStart:
			r.Turn, r.Started = ev.Turn, &ev.Time
		case convstore.ToolCall:
			open = append(open, b)
		case convstore.ToolResult:
			open = slices.DeleteFunc(open, func(c convstore.ToolCall) bool { return c.ID == b.ID })
		case convstore.TurnEnd:
			r.Turn, r.Started, open = 0, nil, nil
		}
	}
	for _, c := range open {
		r.Tools = append(r.Tools, c.Name)
	}
	return nil
}

// open returns the delegations of a conversation that have not ended, by their child.
func (p *reader) open(ctx context.Context, id convstore.ID) (map[convstore.ID]convstore.Delegation, error) {
	open := map[convstore.ID]convstore.Delegation{}
	if id == 0 || len(p.below[id]) == 0 {
		return open, nil
	}
	scope, err := p.store.Below(ctx, id)
	if err == nil {
		var ds []convstore.Delegation
		ds, err = scope.Open(ctx)
		for _, d := range ds {
			open[d.Child] = d
		}
	}
	if errors.As(err, new(*convstore.NotFoundError)) { // removed meanwhile
		err = nil
	}
	return open, err
}

// state returns what a run does in a few words. A call without a result runs, or waits for a
// person, a slot or another call.
func (r *run) state() string {
	text := string(r.Status)
	for i, name := range r.Tools {
		switch {
		case i == 0:
			text = "waits for " + name
		case !slices.Contains(r.Tools[:i], name):
			text += ", " + name
		}
	}
	return text
}

// table lays runs out for people. A narrow terminal keeps what a run is about, and its state.
func table(runs []*run, utf8 bool) *term.Table {
	t := &term.Table{Columns: []term.Column{
		{Title: "id"}, {Title: "title", Flex: true}, {Title: "state", Flex: true}, {Title: "time", Right: true, Drop: 1},
		{Title: "tokens", Right: true, Drop: 3}, {Title: "cost", Right: true, Drop: 2}, {Title: "profile", Drop: 4}, {Title: "model", Drop: 5},
	}}
	far := slices.ContainsFunc(runs, func(r *run) bool { return r.Host != "" })
	if far {
		t.Columns = append(t.Columns, term.Column{Title: "on", Drop: 6})
	}
	for _, r := range runs {
		tree := ""
		for i, last := range r.last[1:] {
			branch, deeper := term.Branch(last, utf8)
			tree += wording.Either(i == len(r.last)-2, branch, deeper)
		}
		elapsed := "-"
		if r.Started != nil {
			elapsed = term.Elapsed(time.Duration(r.ElapsedMS) * time.Millisecond)
		}
		t.Rows = append(t.Rows, []string{
			tree + r.ID.String(), wording.Either(r.Title == "", "-", r.Title), r.state(), elapsed,
			term.Count(r.Tokens), wording.Dollars((*int64)(r.CostUSD)), r.Profile, r.Model,
		})
		if far {
			t.Rows[len(t.Rows)-1] = append(t.Rows[len(t.Rows)-1], wording.Either(r.Host == "", "-", r.Host))
		}
	}
	return t
}
