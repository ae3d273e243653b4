package conversation

import (
	"bufio"
	"context"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/term"
	"jp/cmd/jp/internal/wording"
	"jp/cmd/jp/internal/workspace"
	"jp/convstore"
	"jp/convstore/search"
)

// The values of `conversation grep --output`.
const (
	outputHits  = "hits"
	outputIDs   = "ids"
	outputCount = "count"
	outputText  = "text"
)

type grepOptions struct {
	ids        []string
	root       command.Maybe[string]
	rootID     command.Maybe[string]
	hidden     bool
	archived   bool
	ignoreCase bool
	matchCase  bool
	regexp     bool
	scopes     []string
	context    command.Maybe[int]
	maxMatches command.Maybe[int]
	limit      command.Maybe[int]
	output     string
	heading    bool
	noHeading  bool
	labels     []string
}

func newGrepCommand(g *Group) *cli.Command {
	o := grepOptions{output: outputHits}
	scopes := append(grepScopes(), "chat", "tool", "all")
	scope := &command.Option{Name: "scope", Arg: "SCOPE", Choices: scopes, Usage: "where to look, repeat for more: " + strings.Join(scopes, ", "),
		Take: func(s string, _ bool) error { o.scopes = append(o.scopes, s); return nil }}
	return g.Tree.Command(command.Spec{
		Name: "grep", Paged: true, Summary: "search conversations", Args: "PATTERN",
		About: "PATTERN is plain text. Case matters only if PATTERN holds an upper-case letter. In a " +
			"pipe each hit is a line ID:TURN:SCOPE:m:TEXT. Lines of --context have c instead of " +
			"m, and hits in titles have .. as their turn.\n\n" +
			"Hidden conversations are searched only with --hidden, or if --id names them.",
		Flags: []*command.Option{
			command.List(&o.ids, "id", "ID", "only in this conversation; repeat for more, - reads ids from stdin"),
			workspace.TargetFlag(&o.root, "root", "ID", "only in conversations below ID; without ID only in roots"),
			command.String(&o.rootID, "root-id", "ID", "only conversations below ID may be searched"),
			command.Bool(&o.hidden, "hidden", "hidden conversations too"),
			command.Bool(&o.archived, "archived", "archived conversations too"),
			command.Bool(&o.ignoreCase, "ignore-case", "ignore the case of letters").Alias("i"),
			command.Bool(&o.matchCase, "case-sensitive", "never ignore the case of letters"),
			command.Bool(&o.regexp, "regex", "PATTERN is a regular expression, in Go's syntax").Alias("r"),
			scope,
			command.Int(&o.context, "context", "N", 0, "N lines before and after each hit"),
			command.Int(&o.maxMatches, "max-matches", "N", 1, "at most N hits in one conversation"),
			command.Int(&o.limit, "limit", "N", 1, "at most N conversations"),
			command.Choice(&o.output, "output", "FORM", []string{outputHits, outputIDs, outputCount, outputText}, "hits, ids, count (ID:N) or text"),
			command.Bool(&o.heading, "heading", "print the conversation once, on a line above its hits, as on a terminal"),
			command.Bool(&o.noHeading, "no-heading", "print the conversation on every line, as in a pipe"),
			command.Texts(&o.labels, "label", "K[=V]", "only in conversations with this label; repeat for more"),
		},
		Min: 1, Max: 1,
		Exits: []exit.Status{exit.NotFound, exit.Scope, exit.Busy},
		Examples: []string{
			"jp conversation grep 'is_retryable' --hidden",
			"jp c grep --root=jp-c17543982411 --hidden -F json 'Backoff'",
			`jp c grep -r '(?:TODO|FIXME)\b' --scope assistant --output ids`,
		},
		Run: func(ctx context.Context, args []string) error { return runGrep(ctx, g, o, args[0]) },
	})
}

// grepScopes are the scopes of single hits; the flag knows groups of them too.
func grepScopes() []string {
	return []string{"title", "user", "assistant", "reasoning", "structured", "tool-call", "tool-result", "inquiry"}
}

func runGrep(ctx context.Context, g *Group, o grepOptions, pattern string) error {
	switch {
	case o.ignoreCase && o.matchCase:
		return command.ErrMixed("--ignore-case", "--case-sensitive")
	case o.heading && o.noHeading:
		return command.ErrMixed("--heading", "--no-heading")
	case o.root.Set && o.rootID.Set:
		return command.ErrMixed("--root", "--root-id")
	case pattern == "":
		return exit.Usagef("conversation grep: the pattern is empty")
	}
	labels, err := labelFilter(o.labels)
	if err != nil {
		return err
	}
	scope := o.rootID
	if o.root.Value != "" {
		scope = o.root
	}
	view, err := g.scope(ctx, scope)
	if err != nil {
		return err
	}
	ids, err := g.WS.Targets(ctx, o.ids)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if _, err := view.Get(ctx, id); err != nil {
			return err
		}
	}
	q := search.Query{
		Pattern: pattern, Regexp: o.regexp, AnySize: g.WS.Within == nil, IDs: ids, Hidden: o.hidden, Archived: o.archived, Labels: labels,
		Context: o.context.Value, MaxMatches: o.maxMatches.Value, Limit: o.limit.Value,
		Case: wording.Either(o.ignoreCase, search.IgnoreCase, wording.Either(o.matchCase, search.MatchCase, search.SmartCase)),
	}
	for _, s := range o.scopes {
		q.Scopes = append(q.Scopes, search.Scope(s))
	}
	if len(o.ids) > 0 && len(ids) == 0 {
		return g.noMatch() // --id - with empty stdin means no conversation, not all
	}
	if o.root.Set && o.root.Value == "" {
		if q.IDs, err = onlyRoots(ctx, view, q); err != nil {
			return err
		}
		if len(q.IDs) == 0 {
			return g.noMatch()
		}
	}
	found, err := g.writeHits(ctx, o, search.Run(ctx, view, q))
	if err == nil && !found {
		return exit.Quiet(exit.Failed)
	}
	return err
}

// noMatch returns the error for no match when there is no conversation to search.
func (g *Group) noMatch() error {
	if g.Con.JSON() {
		if err := g.Con.Document([]struct{}{}); err != nil {
			return err
		}
	}
	return exit.Quiet(exit.Failed)
}

// onlyRoots narrows a search to conversations without a parent.
func onlyRoots(ctx context.Context, view convstore.View, q search.Query) ([]convstore.ID, error) {
	roots, err := view.List(ctx, convstore.Filter{Roots: true, Hidden: q.Hidden, Archived: q.Archived, Labels: q.Labels})
	if err != nil {
		return nil, err
	}
	named := map[convstore.ID]bool{}
	for _, id := range q.IDs {
		named[id] = true
	}
	var ids []convstore.ID
	for _, c := range roots {
		if len(named) == 0 || named[c.ID] {
			ids = append(ids, c.ID)
		}
	}
	return ids, nil
}

func (g *Group) writeHits(ctx context.Context, o grepOptions, hits iter.Seq2[search.Match, error]) (found bool, err error) {
	err = g.Con.Text(func(w *bufio.Writer) error {
		out := hitWriter{w: w, io: g.Con.IO, pretty: g.Con.Pretty() || g.Con.IO.OutTTY, output: o.output, heading: o.heading || (g.Con.Pretty() && !o.noHeading)}
		if g.Con.JSON() {
			out.list = &console.List{W: w, Format: g.Con.Format()}
		}
		for m, err := range hits {
			if err != nil {
				return err
			}
			found = true
			if err := out.match(m); err != nil {
				return err
			}
			if g.Con.IO.OutTTY {
				if err := w.Flush(); err != nil {
					return err
				}
			}
		}
		return out.close()
	})
	return found, err
}

// hitJSON is a line of a search: a hit, or a line of context, which has no submatches.
type hitJSON struct {
	ID         convstore.ID   `json:"id"`
	Turn       *int           `json:"turn"` // null in a title
	Scope      search.Scope   `json:"scope"`
	Timestamp  time.Time      `json:"timestamp"`
	Title      string         `json:"title"`
	Text       string         `json:"text"`
	Match      bool           `json:"match"`
	Submatches []submatchJSON `json:"submatches"`
}

// submatchJSON is one occurrence; start and end are byte offsets in the line.
type submatchJSON struct {
	Match string `json:"match"`
	Start int    `json:"start"`
	End   int    `json:"end"`
}

// hitWriter prints the matches of one search, which come conversation by conversation.
type hitWriter struct {
	w       *bufio.Writer
	io      *term.IO
	pretty  bool          // for people: cleaned, cut to the width, hits coloured
	list    *console.List // of the JSON formats, else nil
	output  string
	heading bool

	last  convstore.ID
	count int // number of matches in last
}

func (h *hitWriter) match(m search.Match) error {
	fresh := m.ID != h.last
	if fresh {
		if err := h.finish(); err != nil {
			return err
		}
		h.last, h.count = m.ID, 0
	}
	h.count++
	switch {
	case h.output == outputCount:
		return nil
	case h.output == outputIDs:
		if !fresh {
			return nil
		}
		if h.list != nil {
			return h.list.Add(m.ID)
		}
		_, err := fmt.Fprintln(h.w, m.ID)
		return err
	case h.list != nil:
		return h.object(m)
	}
	if fresh && h.heading && h.output == outputHits {
		h.head(m)
	}
	for _, line := range m.Before {
		h.line(m, 'c', line)
	}
	h.line(m, 'm', m.Text)
	for _, line := range m.After {
		h.line(m, 'c', line)
	}
	_, err := h.w.Write(nil)
	return err
}

// finish ends the output of one conversation.
func (h *hitWriter) finish() error {
	if h.output != outputCount || h.last == 0 {
		return nil
	}
	if h.list != nil {
		return h.list.Add(struct {
			ID    convstore.ID `json:"id"`
			Count int          `json:"count"`
		}{h.last, h.count})
	}
	_, err := fmt.Fprintf(h.w, "%s:%d\n", h.last, h.count)
	return err
}

func (h *hitWriter) close() error {
	if err := h.finish(); err != nil {
		return err
	}
	if h.list != nil {
		return h.list.Close()
	}
	return nil
}

func (h *hitWriter) object(m search.Match) error {
	line := func(text string, match bool, subs []submatchJSON) error {
		j := hitJSON{ID: m.ID, Scope: m.Scope, Timestamp: m.Time.UTC(), Title: m.Title, Text: text, Match: match, Submatches: subs}
		if m.Scope != search.ScopeTitle {
			j.Turn = &m.Turn
		}
		return h.list.Add(j)
	}
	for _, text := range m.Before {
		if err := line(text, false, []submatchJSON{}); err != nil {
			return err
		}
	}
	subs := make([]submatchJSON, 0, len(m.Submatches))
	for _, s := range m.Submatches {
		subs = append(subs, submatchJSON{s.Text, s.Start, s.End})
	}
	if err := line(m.Text, true, subs); err != nil {
		return err
	}
	for _, text := range m.After {
		if err := line(text, false, []submatchJSON{}); err != nil {
			return err
		}
	}
	return nil
}

// head is the line above the hits of a conversation.
func (h *hitWriter) head(m search.Match) {
	text := strings.TrimSpace(m.ID.String() + "  " + term.Line(m.Title))
	if h.io.Width > 0 {
		text = term.Cut(text, h.io.Width, h.io.UTF8)
	}
	if h.io.Color {
		text = "\x1b[1m" + text + "\x1b[0m"
	}
	fmt.Fprintln(h.w, text)
}

// line writes one line of text. On a terminal it is cleaned and cut to the width.
func (h *hitWriter) line(m search.Match, kind byte, text string) {
	turn := strconv.Itoa(m.Turn)
	if m.Scope == search.ScopeTitle {
		turn = ".."
	}
	prefix := ""
	switch {
	case h.output == outputText:
	case h.heading:
		prefix = fmt.Sprintf("  %s:%s:%c:", turn, m.Scope, kind)
	default:
		prefix = fmt.Sprintf("%s:%s:%s:%c:", m.ID, turn, m.Scope, kind)
	}
	if !h.pretty {
		fmt.Fprintln(h.w, prefix+text)
		return
	}
	shown := term.Line(text)
	if h.io.Width > 0 {
		shown = h.window(shown, m, kind, h.io.Width-term.Width(prefix))
	}
	if h.io.Color && kind == 'm' {
		shown = h.mark(shown, m)
	}
	fmt.Fprintln(h.w, prefix+shown)
}

// window cuts a line to width and moves its start so that the first occurrence is visible.
func (h *hitWriter) window(text string, m search.Match, kind byte, width int) string {
	if kind == 'm' && len(m.Submatches) > 0 && term.Width(text) > width {
		needle := term.Line(m.Submatches[0].Text)
		before, after, ok := strings.Cut(text, needle)
		if lead := width / 3; ok && term.Width(before)+term.Width(needle) > width-3 {
			r := []rune(before)
			text = wording.Either(h.io.UTF8, "…", "...") + string(r[max(0, len(r)-lead):]) + needle + after
		}
	}
	return term.Cut(text, max(width, 10), h.io.UTF8)
}

// mark colours the occurrences that survived the cut, in one pass: a needle may be part of a
// colour.
func (h *hitWriter) mark(text string, m search.Match) string {
	var pairs []string
	for _, s := range m.Submatches {
		if needle := term.Line(s.Text); needle != "" {
			pairs = append(pairs, needle, "\x1b[31m"+needle+"\x1b[0m")
		}
	}
	return strings.NewReplacer(pairs...).Replace(text)
}
