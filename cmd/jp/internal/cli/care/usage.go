package care

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"maps"
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
	"jp/convstore/amount"
	"jp/convstore/usage"
)

type usageOptions struct {
	check bool
	all   bool
	since command.Maybe[time.Duration]
}

// NewUsage returns the command `jp usage`.
func NewUsage(g *Group) *cli.Command {
	var o usageOptions
	return g.Tree.Command(command.Spec{
		Name: "usage", Paged: true, Summary: "show what a conversation and its sub-agents have used", Args: "[ID]",
		About: "Counts the events of the conversation and of everything that it delegated, at any " +
			"depth. A sub-agent that was removed still counts: the ledger has what its runs used. " +
			"What a root itself used is removed with it, also when it expires. " +
			"Without ID: the root of the active conversation. A session is one turn of the root " +
			"with all that it delegates; life is all turns. A cost is unknown if one of its " +
			"prices is unknown.\n\n" +
			"On a terminal it prints tables. In a pipe it prints tab-separated lines: what, name, " +
			"model calls, runs of sub-agents, tokens of input, output, cache reads and cache " +
			"writes, cost in dollars (empty if unknown), seconds of model time.",
		Flags: []*command.Option{
			command.Bool(&o.check, "check", "compare with what the ledger settled for each sub-agent, and fail if it differs"),
			command.Bool(&o.all, "all", "count all conversations of the workspace, by day"),
			command.Duration(&o.since, "since", "DURATION", "with --all: only the last DURATION, such as 7d"),
		},
		Max:      1,
		Exits:    []exit.Status{exit.NotFound, exit.Busy},
		Examples: []string{"jp usage", "jp usage . --check", "jp usage --all --since 30d -F json-pretty"},
		Run: func(ctx context.Context, args []string) error {
			switch {
			case o.since.Set && !o.all:
				return exit.Usagef("--since: needs --all")
			case o.all && o.check:
				return command.ErrMixed("--all", "--check")
			case o.all && len(args) > 0:
				return command.ErrMixed("--all", args[0])
			case o.all:
				return runUsageAll(ctx, g, o)
			}
			return runUsage(ctx, g, o, args)
		},
	})
}

// tally adds up charges.
type tally struct {
	ModelCalls int             `json:"model_calls"`
	Runs       int             `json:"runs"`   // runs of sub-agents
	Tokens     int64           `json:"tokens"` // tokens as the ledger counts them: input, cache writes and output
	Usage      convstore.Usage `json:"usage"`
	CostUSD    *stream.USD     `json:"cost_usd"` // null if a price is unknown
	Unpriced   int             `json:"unpriced"` // model calls, and runs of removed conversations, without a price
	ModelMS    int64           `json:"model_ms"`
	Lost       int             `json:"lost_calls"` // model calls whose process died; counted with the most that they may have used
	Replayed   int             `json:"replayed"`   // model calls, and runs of removed conversations, that a recording answered at no cost

	nano int64
	took time.Duration
}

func (t *tally) add(c usage.Charge) {
	if !c.Recorded {
		t.ModelCalls++
	}
	t.Usage = t.Usage.Add(c.Usage)
	t.Tokens = amount.Sum(t.Tokens, c.Usage.Tokens())
	t.took += c.Took
	if c.Lost {
		t.Lost++
	}
	switch {
	case c.Replayed:
		t.Replayed++
	case c.CostNano == nil:
		t.Unpriced++
	default:
		t.nano = amount.Sum(t.nano, *c.CostNano)
	}
}

// done computes the sums for output.
func (t *tally) done() {
	t.ModelMS = t.took.Milliseconds()
	if t.Unpriced == 0 {
		t.CostUSD = (*stream.USD)(&t.nano)
	}
}

// period is the usage of one session or of all.
type period struct {
	Own      tally `json:"own"`
	SubCalls tally `json:"sub_calls"`
	Total    tally `json:"total"`
}

func (p *period) add(c usage.Charge, own bool) {
	p.Total.add(c)
	if own {
		p.Own.add(c)
	} else {
		p.SubCalls.add(c)
	}
}

// run counts one run of a sub-agent.
func (t *tally) run() { t.Runs++ }

func (p *period) run() {
	p.SubCalls.run()
	p.Total.run()
}

func (p *period) done() {
	p.Own.done()
	p.SubCalls.done()
	p.Total.done()
}

// tallies has sums by name.
type tallies map[string]*tally

func (m tallies) at(name string) *tally {
	if m[name] == nil {
		m[name] = &tally{}
	}
	return m[name]
}

// named is a tally in a list. Only one of the names is set.
type named struct {
	Model   *string `json:"model,omitempty"`
	Profile *string `json:"profile,omitempty"`
	Day     *string `json:"day,omitempty"`
	tally
}

func (n named) name() string { return *cmp.Or(n.Model, n.Profile, n.Day) }

// list returns the sums, sorted by cost or by name.
func (m tallies) list(name func(*named, *string), byName bool) []named {
	out := make([]named, 0, len(m))
	for _, k := range slices.Sorted(maps.Keys(m)) {
		m[k].done()
		n := named{tally: *m[k]}
		name(&n, &k)
		out = append(out, n)
	}
	if !byName {
		slices.SortStableFunc(out, func(a, b named) int {
			return cmp.Or(cmp.Compare(b.nano, a.nano), cmp.Compare(b.Tokens, a.Tokens))
		})
	}
	return out
}

func asModel(n *named, s *string)   { n.Model = s }
func asProfile(n *named, s *string) { n.Profile = s }
func asDay(n *named, s *string)     { n.Day = s }

// usageJSON is the document of `jp usage`.
type usageJSON struct {
	ID          convstore.ID      `json:"conversation_id"`
	Title       string            `json:"title"`
	Ledger      convstore.ID      `json:"ledger_id"` // root whose sessions these are
	SessionTurn int               `json:"session_turn"`
	Session     period            `json:"session"`
	Life        period            `json:"life"`
	Models      []named           `json:"models"`
	Profiles    []named           `json:"profiles"`
	Removed     int               `json:"removed_runs"` // number of runs that only the ledger still has
	Differences *[]differenceJSON `json:"differences,omitempty"`
}

type differenceJSON struct {
	ID          convstore.ID    `json:"conversation_id"`
	Events      convstore.Usage `json:"events"`
	EventsUSD   *stream.USD     `json:"events_cost_usd"`
	Recorded    convstore.Usage `json:"ledger"`
	RecordedUSD *stream.USD     `json:"ledger_cost_usd"`
}

func runUsage(ctx context.Context, g *Group, o usageOptions, args []string) error {
	st, err := g.WS.Store(ctx)
	if err != nil {
		return err
	}
	id, err := g.WS.OneTarget(ctx, workspace.OrActive(args)[0])
	if err != nil {
		return err
	}
	s, err := usage.Spent(ctx, st.View, id)
	if err == nil && len(args) == 0 && s.Ledger != id {
		s, err = usage.Spent(ctx, st.View, s.Ledger)
	}
	if err != nil {
		return err
	}
	u := usageOf(s)
	if o.check {
		u.Differences = &[]differenceJSON{}
		for _, d := range s.Differences() {
			*u.Differences = append(*u.Differences, differenceJSON{d.Child, d.Events.Usage, (*stream.USD)(d.Events.Cost()), d.Recorded.Usage, (*stream.USD)(d.Recorded.Cost())})
		}
	}
	switch {
	case g.Con.JSON():
		err = g.Con.Document(u)
	case g.Con.Pretty():
		err = g.Con.Text(func(w *bufio.Writer) error { return g.writeUsage(w, u) })
	default:
		err = g.Con.Text(func(w *bufio.Writer) error {
			writePeriod(w, "session", u.Session)
			writePeriod(w, "life", u.Life)
			writeNamed(w, "model", u.Models)
			writeNamed(w, "profile", u.Profiles)
			return nil
		})
	}
	if err != nil || !o.check || len(*u.Differences) == 0 {
		return err
	}
	var told []string
	for _, d := range *u.Differences {
		told = append(told, fmt.Sprintf("%s has %s (%s) in its events, %s (%s) in the ledger", d.ID,
			console.UsageText(d.Events), wording.Dollars((*int64)(d.EventsUSD)), console.UsageText(d.Recorded), wording.Dollars((*int64)(d.RecordedUSD))))
	}
	return &exit.Error{Code: "differs", Status: exit.Failed, Msg: "usage: events and ledger differ: " + strings.Join(told, "; ")}
}

// usageOf sums up a tree.
func usageOf(s usage.Spending) usageJSON {
	u := usageJSON{ID: s.Conversation.ID, Title: s.Conversation.Title, Ledger: s.Ledger, SessionTurn: s.Session}
	models, profiles := tallies{}, tallies{}
	for _, c := range s.Charges {
		own := c.Conversation == u.ID
		u.Life.add(c, own)
		if c.Session == s.Session {
			u.Session.add(c, own)
		}
		models.at(c.Model).add(c)
		profiles.at(c.Profile).add(c)
		if c.Recorded {
			u.Removed++
		}
	}
	for _, d := range s.Runs {
		u.Life.run()
		if d.Session == s.Session {
			u.Session.run()
		}
		models.at(d.Model).run()
		profiles.at(d.Profile).run()
	}
	u.Life.done()
	u.Session.done()
	u.Models, u.Profiles = models.list(asModel, false), profiles.list(asProfile, false)
	return u
}

// usageColumns has the columns of every table of sums, after the name.
func usageColumns(name string) []term.Column {
	return []term.Column{
		{Title: name}, {Title: "calls", Right: true, Drop: 5}, {Title: "runs", Right: true, Drop: 4}, {Title: "input", Right: true, Drop: 1},
		{Title: "cached", Right: true, Drop: 6}, {Title: "written", Right: true, Drop: 7}, {Title: "output", Right: true, Drop: 2},
		{Title: "cost", Right: true}, {Title: "time", Right: true, Drop: 3},
	}
}

func (t tally) cells(name string) []string {
	some := func(n int64) string { return wording.Either(n == 0, "", term.Count(n)) }
	return []string{name, term.Count(int64(t.ModelCalls)), some(int64(t.Runs)), term.Count(t.Usage.Input), some(t.Usage.CacheRead),
		some(t.Usage.CacheWrite), term.Count(t.Usage.Output), wording.Dollars((*int64)(t.CostUSD)), term.Elapsed(t.took)}
}

func namedTable(title, none string, list []named) term.Table {
	t := term.Table{Columns: usageColumns(title)}
	for _, n := range list {
		t.Rows = append(t.Rows, n.cells(cmp.Or(n.name(), none)))
	}
	return t
}

func (g *Group) writeUsage(w *bufio.Writer, u usageJSON) error {
	g.Con.Field(w, "", term.Line(strings.TrimSpace(u.ID.String()+"  "+u.Title)), 2)
	if u.Ledger != u.ID {
		fmt.Fprintf(w, "below %s\n", u.Ledger)
	}
	for _, p := range []struct {
		title string
		period
	}{{"session " + strconv.Itoa(u.SessionTurn), u.Session}, {"life", u.Life}} {
		t := term.Table{Columns: usageColumns(p.title), Rows: [][]string{p.Own.cells("own"), p.SubCalls.cells("sub-calls"), p.Total.cells("total")}}
		fmt.Fprintln(w)
		if err := t.Write(w, g.Con.IO); err != nil {
			return err
		}
	}
	for _, t := range []term.Table{namedTable("model", "-", u.Models), namedTable("profile", "(none)", u.Profiles)} {
		fmt.Fprintln(w)
		if err := t.Write(w, g.Con.IO); err != nil {
			return err
		}
	}
	if u.Life.Total.Unpriced > 0 {
		g.remark(w, "cost unknown: "+wording.Plural(u.Life.Total.Unpriced, "call")+" without a price; [providers.llm.prices] can name it")
	}
	g.writeLost(w, u.Life.Total)
	if u.Removed > 0 {
		g.remark(w, wording.Plural(u.Removed, "run")+" of removed conversations: counted from their records, without calls and time")
	}
	return nil
}

// remark writes a line below the tables.
func (g *Group) remark(w *bufio.Writer, text string) {
	fmt.Fprintln(w)
	g.Con.Field(w, "", text, 0)
}

// writeLost writes which calls are estimates, and which cost nothing.
func (g *Group) writeLost(w *bufio.Writer, t tally) {
	if t.Replayed > 0 {
		g.remark(w, wording.Plural(t.Replayed, "call")+" of replays: they cost nothing")
	}
	if t.Lost > 0 {
		g.remark(w, wording.Plural(t.Lost, "call")+" of processes that died: counted with the most that they may have used")
	}
}

func writePeriod(w *bufio.Writer, what string, p period) {
	writeTally(w, what, "own", p.Own)
	writeTally(w, what, "sub-calls", p.SubCalls)
	writeTally(w, what, "total", p.Total)
}

func writeNamed(w *bufio.Writer, what string, list []named) {
	for _, n := range list {
		writeTally(w, what, n.name(), n.tally)
	}
}

// writeTally writes sums for a pipe.
func writeTally(w *bufio.Writer, what, name string, t tally) {
	fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%d\t%d\t%d\t%d\t%s\t%.3f\n", what, term.Escape(name), t.ModelCalls, t.Runs, t.Usage.Input, t.Usage.Output,
		t.Usage.CacheRead, t.Usage.CacheWrite, console.Dollars((*int64)(t.CostUSD)), t.took.Seconds())
}

// usageAllJSON is the document of `jp usage --all`.
type usageAllJSON struct {
	Since    *time.Time `json:"since"`
	Total    tally      `json:"total"`
	Days     []named    `json:"days"` // days in local time
	Models   []named    `json:"models"`
	Profiles []named    `json:"profiles"`
}

func runUsageAll(ctx context.Context, g *Group, o usageOptions) error {
	st, err := g.WS.Store(ctx)
	if err != nil {
		return err
	}
	var since time.Time
	if o.since.Set {
		since = time.Now().Add(-o.since.Value)
	}
	u := usageAllJSON{Since: console.OrNil(since)}
	days, models, profiles := tallies{}, tallies{}, tallies{}
	in := func(at time.Time, model, profile string) []*tally {
		return []*tally{&u.Total, days.at(at.Local().Format(time.DateOnly)), models.at(model), profiles.at(profile)}
	}
	for c, err := range usage.Charges(ctx, st, since, func(r usage.Run) {
		for _, t := range in(wording.Either(r.Ended.IsZero(), r.Reserved, r.Ended), r.Model, r.Profile) {
			t.run()
		}
	}) {
		if err != nil {
			return err
		}
		for _, t := range in(c.Time, c.Model, c.Profile) {
			t.add(c)
		}
	}
	u.Total.done()
	u.Days, u.Models, u.Profiles = days.list(asDay, true), models.list(asModel, false), profiles.list(asProfile, false)
	switch {
	case g.Con.JSON():
		return g.Con.Document(u)
	case !g.Con.Pretty():
		return g.Con.Text(func(w *bufio.Writer) error {
			writeNamed(w, "day", u.Days)
			writeNamed(w, "model", u.Models)
			writeNamed(w, "profile", u.Profiles)
			writeTally(w, "total", "", u.Total)
			return nil
		})
	}
	return g.Con.Text(func(w *bufio.Writer) error {
		byDay := namedTable("day", "-", u.Days)
		byDay.Rows = append(byDay.Rows, u.Total.cells("total"))
		for i, t := range []term.Table{byDay, namedTable("model", "-", u.Models), namedTable("profile", "(none)", u.Profiles)} {
			fmt.Fprint(w, wording.Either(i > 0, "\n", ""))
			if err := t.Write(w, g.Con.IO); err != nil {
				return err
			}
		}
		g.writeLost(w, u.Total)
		return nil
	})
}
