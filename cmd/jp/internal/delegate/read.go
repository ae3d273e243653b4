package delegate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"jp/convstore"
	"jp/convstore/search"
	"jp/tools"
)

// subtree is what a caller can read: the strict descendants of its conversation. Its methods are
// the conversation tools.
type subtree struct {
	scope convstore.Scope
	set   tools.Set // tools of the caller, which say how long a result may be
}

// turnOf returns the events of one turn of a conversation in view, nil when it has begun none.
func turnOf(ctx context.Context, v convstore.View, child convstore.ID, turn int) ([]convstore.Event, error) {
	var events []convstore.Event
	for ev, err := range v.Events(ctx, child, convstore.Turn(turn)) {
		if errors.As(err, new(*convstore.RangeError)) {
			break
		}
		if err != nil {
			return nil, err
		}
		events = append(events, ev)
	}
	return events, nil
}

// listed is one row of jp_conversation_list.
type listed struct {
	ID      string `json:"id"`
	Title   string `json:"title"`
	Events  int    `json:"events_count"`
	Turns   int    `json:"turns"`
	Status  string `json:"status"`
	Profile string `json:"profile"`
	Parent  string `json:"parent_id"`
}

// gone reports whether err says that a conversation was removed, or moved out of view.
func gone(err error) bool {
	return errors.As(err, new(*convstore.NotFoundError)) || errors.As(err, new(*convstore.ScopeError))
}

// recorded returns the ending of a delegation from the store, with the events of its turn. Where
// these cannot be read, the ending has what the delegation says.
func recorded(ctx context.Context, scope convstore.Scope, del convstore.Delegation) (ending, []convstore.Event, error) {
	events, err := turnOf(ctx, scope.View, del.Child, del.ChildTurn)
	e := answered(events)
	e.State, e.Reason, e.Total = del.State, del.Reason, del.Total
	e.ran(del)
	return e, events, err
}

// list is jp_conversation_list: the conversations of the subtree.
func (t subtree) list(ctx context.Context, _ tools.Call) (tools.Result, error) {
	convs, err := t.scope.List(ctx, convstore.Filter{Hidden: true})
	if err != nil {
		return tools.Result{}, err
	}
	rows := make([]listed, 0, len(convs))
	for _, c := range convs {
		rows = append(rows, listed{
			ID: c.ID.String(), Title: neutralize(c.Title), Events: c.Events, Turns: c.Turns,
			Status: string(c.Status), Profile: c.Profile, Parent: c.Parent.String(),
		})
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(rows); err != nil {
		return tools.Result{}, err
	}
	return tools.Result{Text: strings.TrimSpace(b.String())}, nil
}

// print is jp_conversation_print: what was said in one descendant, as much at a time as a result
// may hold.
func (t subtree) print(ctx context.Context, c tools.Call) (tools.Result, error) {
	var a struct {
		ID   string `json:"id"`
		Last int    `json:"last"`
		From int    `json:"from"`
	}
	if err := json.Unmarshal(c.Arguments, &a); err != nil {
		return tools.Result{}, err
	}
	id, err := convstore.ParseID(a.ID)
	if err != nil {
		return denied(err)
	}
	const note = 100 // most bytes of the line about the rest
	most := tools.DefaultSizeThreshold
	if tool, ok := t.set.Get(c.Name); ok {
		most = tool.SizeLimit()
	}
	text, size, err := t.transcript(ctx, id, a.Last, a.From, most)
	switch {
	case err != nil:
		return denied(err)
	case size == 0:
		return tools.Result{Text: fmt.Sprintf("%s holds nothing yet", id)}, nil
	case a.From < 0 || a.From >= size:
		return denied(fmt.Errorf("from: %d is not within the %d bytes there are", a.From, size))
	}
	from := a.From
	for len(text) > 0 && !utf8.RuneStart(text[0]) { // it may begin within a rune
		text, from = text[1:], from+1
	}
	part, _ := bound(text, most-note)
	if next := from + len(part); next < size {
		part += fmt.Sprintf("\n[%d of %d bytes are left; continue with from=%d]", size-next, size, next)
	}
	return tools.Result{Text: part}, nil
}

// transcript returns what was said in a descendant, in its last turns, or in all of them where last
// is 0: at most most bytes of it, after the first from, and how many there are. It keeps no others:
// there can be hundreds of megabytes.
func (t subtree) transcript(ctx context.Context, id convstore.ID, last, from, most int) (text string, size int, err error) {
	r := convstore.Range{}
	switch {
	case last < 0:
		return "", 0, fmt.Errorf("last: %d is not a number of turns", last)
	case last > 0:
		r = convstore.LastTurns(last)
	}
	var kept strings.Builder
	for ev, err := range t.scope.Events(ctx, id, r) {
		if err != nil {
			return "", 0, err
		}
		var b strings.Builder
		writeEvent(&b, ev)
		said := neutralize(b.String())
		if lo, hi := min(max(from-size, 0), len(said)), min(max(from+most-size, 0), len(said)); lo < hi {
			kept.WriteString(said[lo:hi])
		}
		size += len(said)
	}
	size, text = max(size-len("\n\n"), 0), kept.String() // each event ends so
	return text[:min(len(text), max(size-from, 0))], size, nil
}

// writeEvent writes an event under a heading. Each line that was said has a bar in front, so that
// no text can pass for a heading.
func writeEvent(b *strings.Builder, ev convstore.Event) {
	head := func(format string, args ...any) {
		fmt.Fprintf(b, "## turn %d: %s\n", ev.Turn, fmt.Sprintf(format, args...))
	}
	text := func(s string) {
		for line := range strings.Lines(strings.TrimRight(s, "\n")) {
			b.WriteString("| " + strings.TrimRight(line, "\n") + "\n")
		}
		b.WriteByte('\n')
	}
	switch e := ev.Body.(type) {
	case convstore.UserMessage:
		head("user")
		text(e.Text)
	case convstore.AssistantMessage:
		head("assistant")
		text(e.Text)
	case convstore.ToolCall:
		head("call")
		text(e.Name + " " + string(e.Arguments))
	case convstore.ToolResult:
		if e.IsError {
			head("error")
		} else {
			head("result")
		}
		text(e.Text)
	case convstore.TurnEnd:
		if e.State != convstore.StateOK {
			head("ended %s", e.State)
			text(e.Reason)
		}
	}
}

// grep is jp_conversation_grep: it searches the subtree for plain text, ignoring case.
func (t subtree) grep(ctx context.Context, c tools.Call) (tools.Result, error) {
	var a struct {
		Pattern string `json:"pattern"`
		ID      string `json:"id"`
	}
	if err := json.Unmarshal(c.Arguments, &a); err != nil {
		return tools.Result{}, err
	}
	const most, width = 200, 400
	q := search.Query{Pattern: a.Pattern, Case: search.IgnoreCase, Hidden: true, Archived: true, MaxMatches: most + 1}
	if a.ID != "" {
		id, err := convstore.ParseID(a.ID)
		if err != nil {
			return denied(err)
		}
		if _, err := t.scope.Get(ctx, id); err != nil {
			return denied(err)
		}
		q.IDs = []convstore.ID{id}
	}
	var b strings.Builder
	n := 0
	for m, err := range search.Run(ctx, t.scope.View, q) {
		if err != nil {
			return denied(err)
		}
		if n++; n > most {
			fmt.Fprintf(&b, "[more than %d matches: narrow the pattern or name an id]\n", most)
			break
		}
		line, cut := bound(m.Text, width)
		if cut > 0 {
			line += fmt.Sprintf(" [%d bytes more]", cut)
		}
		if m.Turn == 0 {
			fmt.Fprintf(&b, "%s: title: %s\n", m.ID, line)
		} else {
			fmt.Fprintf(&b, "%s: turn %d, %s: %s\n", m.ID, m.Turn, m.Scope, line)
		}
	}
	if n == 0 {
		return tools.Result{Text: fmt.Sprintf("no sub-conversation says %q", a.Pattern)}, nil
	}
	return tools.Result{Text: neutralize(strings.TrimSpace(b.String()))}, nil
}

// denied returns an error for the model to read, for example about an id that is not in the
// subtree.
func denied(err error) (tools.Result, error) {
	return tools.Result{Text: neutralize(err.Error()), IsError: true}, nil
}
