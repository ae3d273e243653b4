package conversation

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
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
	"jp/cmd/jp/internal/review"
	"jp/cmd/jp/internal/stream"
	"jp/cmd/jp/internal/term"
	"jp/cmd/jp/internal/wording"
	"jp/cmd/jp/internal/workspace"
	"jp/convstore"
	"jp/convstore/usage"
	"jp/tools"
)

func newShowCommand(g *Group) *cli.Command {
	return g.Tree.Command(command.Spec{
		Name: "show", Paged: true, Summary: "show metadata, config and children of one conversation", Args: "[ID]",
		About: "Shows its metadata, a summary of its config, its tools, its children and the runs " +
			"that it delegated. Without ID: the active conversation.",
		Max:      1,
		Exits:    []exit.Status{exit.NotFound, exit.Busy},
		Examples: []string{"jp conversation show -F json-pretty"},
		Run:      func(ctx context.Context, args []string) error { return runShow(ctx, g, workspace.OrActive(args)[0]) },
	})
}

// shown has the keys of `show`: those of a listing and more.
type shown struct {
	Link        string                   `json:"link"`
	Role        string                   `json:"role"`
	ProfileHash string                   `json:"profile_hash"`
	Reason      string                   `json:"reason"`
	ArchivedAt  *time.Time               `json:"archived_at"`
	Tools       []string                 `json:"tools"`
	Allowed     []convstore.Allowance    `json:"allowed"` // answers "always" to questions for permission
	Grant       *convstore.Grant         `json:"grant"`
	Config      json.RawMessage          `json:"config"`
	Imported    *convstore.Imported      `json:"imported"` // null = made here
	Ledger      ledger                   `json:"ledger"`
	Delegations []delegationJSON         `json:"delegations"`
	ChildList   []convstore.Conversation `json:"child_conversations"`
}

// ledger is a summary of what a conversation delegated.
type ledger struct {
	Calls   int             `json:"calls"`
	Open    int             `json:"open"`
	Usage   convstore.Usage `json:"usage"`    // usage of all its sub-agents, at any depth
	CostUSD *stream.USD     `json:"cost_usd"` // null when some price is unknown
	Session account         `json:"session"`
}

// account is the state of a conversation's budget in its present turn.
type account struct {
	Tokens  amounts[int64]      `json:"tokens"`
	CostUSD amounts[stream.USD] `json:"cost_usd"`
}

// amounts are null where there is no limit.
type amounts[T any] struct {
	Limit *T `json:"limit"` // limit: in a sub-agent its grant, at a root that of all sub-agents of the session
	Run   *T `json:"run"`   // limit of the whole run, at a root
	Own   T  `json:"own"`
	Call  *T `json:"call"`  // most that an unfinished model call may use; charged if its process died; null = price unknown
	Below T  `json:"below"` // settled for what it delegated
	Open  *T `json:"open"`  // granted to what it delegated, and not settled
	Left  *T `json:"left"`  // amount that it may still grant; each sub-agent gets a share of it
}

// delegationJSON is one run as `show` publishes it.
type delegationJSON struct {
	ID      string          `json:"id"`
	Child   convstore.ID    `json:"child_id"`
	Turn    int             `json:"turn"`
	Kind    string          `json:"kind"`
	Profile string          `json:"profile"`
	Model   string          `json:"model"`
	State   string          `json:"state"` // "open" until the run has ended
	Reason  string          `json:"reason"`
	Started *time.Time      `json:"started_at"`
	Ended   *time.Time      `json:"ended_at"`
	Usage   convstore.Usage `json:"usage"`
	CostUSD *stream.USD     `json:"cost_usd"`
}

func runShow(ctx context.Context, g *Group, word string) error {
	st, err := g.WS.Store(ctx)
	if err != nil {
		return err
	}
	id, err := g.WS.OneTarget(ctx, word)
	if err != nil {
		return err
	}
	c, err := st.Get(ctx, id)
	if err != nil {
		return err
	}
	s, err := gather(ctx, st, c)
	if err != nil {
		return err
	}
	if g.Con.JSON() {
		rows, err := withTotals(ctx, st.View, []convstore.Conversation{c})
		if err != nil {
			return err
		}
		head, err := console.EncodeJSON(rows[0], false)
		if err != nil {
			return fmt.Errorf("conversation %s: %w", id, err)
		}
		tail, err := console.EncodeJSON(s, false)
		if err != nil {
			return fmt.Errorf("conversation %s: %w", id, err)
		}
		return g.Con.Document(joinObjects(string(head), tail))
	}
	return g.Con.Text(func(w *bufio.Writer) error { return g.writeShown(w, c, s) })
}

func gather(ctx context.Context, st *convstore.Store, c convstore.Conversation) (shown, error) {
	s := shown{
		Link: c.Link.String(), Role: c.Role, ProfileHash: c.ProfileHash, Reason: c.Reason, Grant: c.Grant,
		ArchivedAt: console.OrNil(c.ArchivedAt), Tools: []string{}, Allowed: []convstore.Allowance{}, Config: json.RawMessage("null"),
		Delegations: []delegationJSON{}, ChildList: []convstore.Conversation{},
	}
	for _, a := range c.Allowed {
		if review.IsAnswer(a) {
			s.Allowed = append(s.Allowed, a)
		}
	}
	config, err := st.Config(ctx, c.ID)
	if err != nil {
		return s, err
	}
	if s.Imported, err = st.Imported(ctx, c.ID); err != nil {
		return s, err
	}
	if len(config.JSON) > 0 {
		s.Config = config.JSON
	}
	s.Tools = append(s.Tools, config.Tools...)
	slices.Sort(s.Tools)
	children, err := st.List(ctx, convstore.Filter{Children: c.ID, Hidden: true, Archived: true})
	if err != nil {
		return s, err
	}
	s.ChildList = append(s.ChildList, children...)
	made, err := delegationsOf(ctx, st, c)
	if err != nil {
		return s, err
	}
	var used convstore.Spend
	for _, d := range made {
		s.Delegations = append(s.Delegations, delegationJSON{
			ID: d.ID, Child: d.Child, Turn: d.Turn, Kind: d.Kind, Profile: d.Profile, Model: d.Model,
			State: cmp.Or(string(d.State), "open"), Reason: d.Reason,
			Started: console.OrNil(d.Started), Ended: console.OrNil(d.Ended), Usage: d.Total.Usage, CostUSD: (*stream.USD)(d.Total.Cost()),
		})
		s.Ledger.Calls++
		if d.Ended.IsZero() { // not settled yet, even if its end is known
			s.Ledger.Open++
			continue
		}
		used = used.Add(d.Total)
	}
	s.Ledger.Usage, s.Ledger.CostUSD = used.Usage, (*stream.USD)(used.Cost())
	a, err := st.Account(ctx, c.ID)
	s.Ledger.Session = accountOf(a, c.Link == convstore.DelegationLink)
	return s, err
}

// delegationsOf returns the delegations that a conversation made, oldest first. A fork has a ledger
// of its own. What one made before it was moved below another, or came with, is in that of its root.
func delegationsOf(ctx context.Context, st *convstore.Store, c convstore.Conversation) (made []convstore.Delegation, err error) {
	ledger, err := usage.Ledger(ctx, st.View, c.ID)
	if err != nil {
		return nil, err
	}
	for _, root := range slices.Compact([]convstore.ID{c.Root, ledger}) {
		list, err := st.Delegations(ctx, root)
		if err != nil {
			return nil, err
		}
		made = append(made, slices.DeleteFunc(list, func(d convstore.Delegation) bool { return d.Caller != c.ID })...)
	}
	return made, nil
}

func accountOf(a convstore.Account, delegated bool) account {
	limit, run := a.Subs, a.Limit
	if delegated {
		limit, run = a.Limit, convstore.Budget{}
	}
	usd := func(n *int64) *stream.USD { return (*stream.USD)(n) }
	call := a.Call.Tokens()
	return account{
		Tokens: amounts[int64]{limit.Tokens, run.Tokens, a.Own.Tokens(), &call, a.Below.Tokens(), a.Open.Tokens, a.Free.Tokens},
		CostUSD: amounts[stream.USD]{usd(limit.CostNano), usd(run.CostNano), stream.USD(a.Own.CostNano), usd(a.Call.Cost()),
			stream.USD(a.Below.CostNano), usd(a.Open.CostNano), usd(a.Free.CostNano)},
	}
}

func (g *Group) writeShown(w *bufio.Writer, c convstore.Conversation, s shown) error {
	row := func(key, value string) {
		if value != "" {
			g.Con.Field(w, fmt.Sprintf("%-10s ", key), term.Line(value), 11)
		}
	}
	local := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.Local().Format("2006-01-02 15:04:05")
	}
	row("id", c.ID.String())
	row("title", c.Title)
	row("status", string(c.Status)+wording.Either(c.Reason == "", "", ": "+c.Reason))
	if c.Parent != 0 {
		row("parent", fmt.Sprintf("%s (%s)", c.Parent, s.Link))
		row("root", c.Root.String())
	}
	row("depth", strconv.Itoa(c.Depth))
	row("marks", strings.Join(marks(c), ", "))
	row("created", local(c.CreatedAt))
	row("activity", local(c.UpdatedAt))
	row("expires", local(c.ExpiresAt))
	if im := s.Imported; im != nil {
		row("imported", local(im.At)+void(im.Void))
	}
	row("turns", fmt.Sprintf("%d (%s)", c.Turns, wording.Plural(c.Events, "event")))
	row("profile", c.Profile+wording.Either(c.ProfileHash == "", "", " sha256:"+short(c.ProfileHash)))
	row("model", c.Model)
	row("role", c.Role)
	row("tools", wording.Either(len(s.Tools) == 0, "none", strings.Join(s.Tools, " ")))
	for _, a := range s.Allowed {
		row("always", wording.Either(a.Kind == string(tools.KindRun), "run ", "give the model the result of ")+a.Tool)
	}
	if g := c.Grant; g != nil {
		row("grant", fmt.Sprintf("tools %s; tokens %s; cost %s; down to depth %d", wording.Either(len(g.Tools) == 0, "none", strings.Join(g.Tools, " ")),
			limit(g.Tokens, func(n int64) string { return term.Count(n) }), limit(g.CostNano, func(n int64) string { return wording.Dollars(&n) }), g.MaxDepth))
	}
	row("ledger", s.Ledger.Session.text(c.Link == convstore.DelegationLink))
	row("call", s.Ledger.Session.callText())
	row("usage", console.UsageText(c.Usage)+", "+wording.Either(c.CostNano == nil, "cost unknown", wording.Dollars(c.CostNano)))
	for _, k := range slices.Sorted(maps.Keys(c.Labels)) {
		row("label", k+wording.Either(c.Labels[k] == "", "", "="+c.Labels[k]))
	}
	if s.Ledger.Calls > 0 {
		row("delegated", fmt.Sprintf("%s, %d open; %s, %s", wording.Plural(s.Ledger.Calls, "run"), s.Ledger.Open, console.UsageText(s.Ledger.Usage),
			wording.Either(s.Ledger.CostUSD == nil, "cost unknown", wording.Dollars((*int64)(s.Ledger.CostUSD)))))
		t := term.Table{Columns: []term.Column{
			{Title: "turn", Right: true, Drop: 1}, {Title: "child"}, {Title: "state"}, {Title: "profile", Drop: 3}, {Title: "tokens", Right: true, Drop: 2}, {Title: "reason", Flex: true},
		}}
		for _, d := range s.Delegations {
			t.Rows = append(t.Rows, []string{strconv.Itoa(d.Turn), d.Child.String(), d.State, d.Profile,
				term.Count(d.Usage.Tokens()), d.Reason})
		}
		fmt.Fprintln(w)
		if err := t.Write(w, g.Con.IO); err != nil {
			return err
		}
	}
	if len(s.ChildList) > 0 {
		fmt.Fprintf(w, "\nchildren:\n")
		for _, child := range s.ChildList {
			line := "  " + treeText(child)
			if g.Con.Pretty() && g.Con.IO.Width > 0 {
				line = term.Cut(line, g.Con.IO.Width, g.Con.IO.UTF8)
			}
			fmt.Fprintln(w, line)
		}
	}
	return nil
}

// callText returns what an unfinished model call has reserved; "" = none.
func (a account) callText() string {
	if a.Tokens.Call == nil || *a.Tokens.Call == 0 {
		return ""
	}
	return fmt.Sprintf("begun and not ended: at most %s tokens, %s", term.Count(*a.Tokens.Call),
		wording.Either(a.CostUSD.Call == nil, "cost unknown", wording.Dollars((*int64)(a.CostUSD.Call))))
}

// text returns the limits and what is left of them, on one line; "" = no limits.
func (a account) text(delegated bool) string {
	tokens := func(n *int64) string { return term.Count(*n) }
	usd := func(n *stream.USD) string { return wording.Dollars((*int64)(n)) }
	who := wording.Either(delegated, "of its grant", "for the sub-agents of this turn")
	var parts []string
	parts = append(parts, amountsText(a.Tokens, " tokens", who, delegated, tokens)...)
	return strings.Join(append(parts, amountsText(a.CostUSD, "", who, delegated, usd)...), "; ")
}

func amountsText[T int64 | stream.USD](a amounts[T], unit, who string, delegated bool, show func(*T) string) (parts []string) {
	used := a.Below
	if delegated {
		used += a.Own
	}
	all := a.Own + a.Below
	if a.Limit != nil {
		text := fmt.Sprintf("%s of %s%s %s", show(&used), show(a.Limit), unit, who)
		if a.Open != nil && *a.Open != 0 {
			text += fmt.Sprintf(", %s reserved", show(a.Open))
		}
		parts = append(parts, text)
	}
	if a.Run != nil {
		parts = append(parts, fmt.Sprintf("%s of %s%s for the whole run", show(&all), show(a.Run), unit))
	}
	return parts
}

// void names the authority that an import brought and jp does not use.
func void(v convstore.Void) string {
	var parts []string
	for _, p := range []struct {
		there bool
		text  string
	}{
		{v.Role != "", "role " + v.Role}, {v.Profile != "", "profile " + v.Profile}, {v.Grant != nil, "a grant"},
		{len(v.Raw()) > 0, "a config"}, {len(v.Tools) > 0, "tools " + strings.Join(v.Tools, " ")},
	} {
		if p.there {
			parts = append(parts, p.text)
		}
	}
	if parts == nil {
		return ""
	}
	return "; came with, and is not used: " + strings.Join(parts, ", ")
}

// limit returns the text of a limit, which may be nil.
func limit(n *int64, show func(int64) string) string {
	if n == nil {
		return "unlimited"
	}
	return show(*n)
}

// short returns the start of a hash.
func short(hash string) string { return hash[:min(len(hash), 12)] }
