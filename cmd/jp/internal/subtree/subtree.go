// Package subtree is what an agent can read below its conversation: the tools that list, print and
// search its sub-conversations. Nothing in a result can close the tags around it.
package subtree

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"jp/convstore"
	"jp/convstore/search"
	"jp/tools"
	"jp/tools/brief"
	"jp/tools/unseen"
)

// Reader reads the strict descendants of a conversation.
type Reader struct {
	Scope convstore.Scope
	Set   tools.Set // tools of the agent, which say how long a result may be
}

// The names of the tools.
const (
	toolList  = "jp_conversation_list"
	toolPrint = "jp_conversation_print"
	toolGrep  = "jp_conversation_grep"
)

// IsTool reports whether a tool of this name reads a subtree.
func IsTool(name string) bool { return Reader{}.Tool(name) != nil }

// Tool returns what runs the tool of a name; nil = it is none of these.
func (t Reader) Tool(name string) tools.Func {
	switch name {
	case toolList:
		return t.list
	case toolPrint:
		return t.print
	case toolGrep:
		return t.grep
	}
	return nil
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

// note is the most bytes of the line about what a result has no room for.
const note = 100

// most is how many bytes the result of a call may have.
func (t Reader) most(c tools.Call) int {
	if tool, ok := t.Set.Get(c.Name); ok {
		return tool.SizeLimit()
	}
	return tools.DefaultSizeThreshold
}

// list is jp_conversation_list: the conversations of the subtree, as many at a time as a result may
// hold.
func (t Reader) list(ctx context.Context, c tools.Call) (tools.Result, error) {
	var a struct {
		After string `json:"after"`
	}
	if err := json.Unmarshal(c.Arguments, &a); err != nil {
		return tools.Result{}, err
	}
	convs, err := t.Scope.List(ctx, convstore.Filter{Hidden: true})
	if err != nil {
		return tools.Result{}, err
	}
	shown := 0
	if a.After != "" {
		at := slices.IndexFunc(convs, func(c convstore.Conversation) bool { return c.ID.String() == a.After })
		if at < 0 {
			return Denied(fmt.Errorf("after: %q is not in the list", a.After))
		}
		shown = at + 1
	}
	var b strings.Builder
	for _, conv := range convs[shown:] {
		row, err := rowOf(conv)
		if err != nil {
			return tools.Result{}, err
		}
		if b.Len() > 0 {
			if b.Len()+len(row) > t.most(c)-note {
				break
			}
			b.WriteByte(',')
		}
		b.WriteString("\n  " + row)
		shown++
	}
	text := "[]"
	if b.Len() > 0 {
		text = "[" + b.String() + "\n]"
	}
	if shown < len(convs) {
		text += fmt.Sprintf("\n[%d of %d conversations are left; continue with after=%s]", len(convs)-shown, len(convs), convs[shown-1].ID)
	}
	return tools.Result{Text: text}, nil
}

// rowOf returns a row of jp_conversation_list in JSON.
func rowOf(c convstore.Conversation) (string, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("  ", "  ")
	err := enc.Encode(listed{
		ID: c.ID.String(), Title: unseen.Neutralize(c.Title), Events: c.Events, Turns: c.Turns,
		Status: string(c.Status), Profile: c.Profile, Parent: c.Parent.String(),
	})
	return strings.TrimSpace(b.String()), err
}

// print is jp_conversation_print: what was said in one descendant, as much at a time as a result
// may hold.
func (t Reader) print(ctx context.Context, c tools.Call) (tools.Result, error) {
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
		return Denied(err)
	}
	most, before := t.most(c), min(a.From, 1) // with the byte before it, if there is one
	text, size, err := t.Transcript(ctx, id, a.Last, a.From-before, most+before)
	switch {
	case err != nil:
		return Denied(err)
	case size == 0:
		return tools.Result{Text: fmt.Sprintf("%s holds nothing yet", id)}, nil
	case a.From < 0 || a.From >= size:
		return Denied(fmt.Errorf("from: %d is not within the %d bytes there are", a.From, size))
	}
	from, within := a.From, ""
	if before == 1 {
		if text[0] != '\n' {
			within = "[goes on] " // the bar of the line is not in this part
		}
		text = text[1:]
	}
	for len(text) > 0 && !utf8.RuneStart(text[0]) { // it may begin within a rune
		text, from = text[1:], from+1
	}
	part, _ := brief.Cut(text, most-note)
	if next := from + len(part); next < size {
		part += fmt.Sprintf("\n[%d of %d bytes are left; continue with from=%d]", size-next, size, next)
	}
	return tools.Result{Text: within + part}, nil
}

// Transcript returns what was said in a descendant, in its last turns, or in all of them where last
// is 0: at most most bytes of it, after the first from, and how many there are. It keeps no others:
// there can be hundreds of megabytes.
func (t Reader) Transcript(ctx context.Context, id convstore.ID, last, from, most int) (text string, size int, err error) {
	r := convstore.Range{}
	switch {
	case last < 0:
		return "", 0, fmt.Errorf("last: %d is not a number of turns", last)
	case last > 0:
		r = convstore.LastTurns(last)
	}
	var kept strings.Builder
	for ev, err := range t.Scope.Events(ctx, id, r) {
		if err != nil {
			return "", 0, err
		}
		var b strings.Builder
		writeEvent(&b, ev)
		said := unseen.Neutralize(b.String())
		if lo, hi := min(max(from-size, 0), len(said)), min(max(from+most-size, 0), len(said)); lo < hi {
			kept.WriteString(said[lo:hi])
		}
		size += len(said)
	}
	size, text = max(size-len("\n\n"), 0), kept.String() // each event ends so
	return text[:min(len(text), max(size-from, 0))], size, nil
}

// writeEvent writes an event under a heading, for which no text can pass: what was said is barred.
func writeEvent(b *strings.Builder, ev convstore.Event) {
	head := func(format string, args ...any) {
		fmt.Fprintf(b, "## turn %d: %s\n", ev.Turn, fmt.Sprintf(format, args...))
	}
	text := func(s string) { b.WriteString(unseen.Barred(s) + "\n") }
	switch e := ev.Body.(type) {
	case convstore.UserMessage:
		head("user")
		text(e.Text)
	case convstore.Said:
		head("assistant")
		text(e.Said())
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
func (t Reader) grep(ctx context.Context, c tools.Call) (tools.Result, error) {
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
			return Denied(err)
		}
		if _, err := t.Scope.Get(ctx, id); err != nil {
			return Denied(err)
		}
		q.IDs = []convstore.ID{id}
	}
	var b strings.Builder
	n := 0
	for m, err := range search.Run(ctx, t.Scope.View, q) {
		if err != nil {
			return Denied(err)
		}
		if n++; n > most {
			fmt.Fprintf(&b, "[more than %d matches: narrow the pattern or name an id]\n", most)
			break
		}
		line, cut := brief.Cut(unseen.OneLine(m.Text), width)
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
	return tools.Result{Text: unseen.Neutralize(strings.TrimSpace(b.String()))}, nil
}

// Denied returns an error for the model to read, for example about an id that is not in the
// subtree.
func Denied(err error) (tools.Result, error) {
	return tools.Result{Text: unseen.Neutralize(err.Error()), IsError: true}, nil
}
