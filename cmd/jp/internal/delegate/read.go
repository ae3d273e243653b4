package delegate

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"jp/convstore"
	"jp/tools"
)

// The names of the tools of this package.
const (
	toolQuery    = "jp_query"
	toolBatch    = "jp_batch_query"
	toolLLMQuery = "llm_query"
	toolList     = "jp_conversation_list"
	toolPrint    = "jp_conversation_print"
	toolGrep     = "jp_conversation_grep"
)

// Func returns what runs the delegation or conversation tool of that name.
func (d *Delegator) Func(name string) (tools.Func, bool) {
	switch name {
	case toolQuery:
		return d.query, true
	case toolBatch:
		return d.batch, true
	case toolList:
		return d.list, true
	case toolPrint:
		return d.print, true
	case toolGrep:
		return d.grep, true
	}
	if d.Special != nil && IsSpecial(tools.Definition{Name: name, Source: tools.SourceDelegation}) {
		return d.query, true
	}
	return nil, false
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

// list shows the caller's own subtree.
func (d *Delegator) list(ctx context.Context, _ tools.Call) (tools.Result, error) {
	convs, err := d.Scope.List(ctx, convstore.Filter{Hidden: true})
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

// print shows what was said in one descendant.
func (d *Delegator) print(ctx context.Context, c tools.Call) (tools.Result, error) {
	var a struct {
		ID   string `json:"id"`
		Last int    `json:"last"`
	}
	if err := json.Unmarshal(c.Arguments, &a); err != nil {
		return tools.Result{}, err
	}
	id, err := convstore.ParseID(a.ID)
	if err != nil {
		return denied(err)
	}
	r := convstore.Range{}
	if a.Last < 0 {
		return denied(fmt.Errorf("last: %d is not a number of turns", a.Last))
	}
	if a.Last > 0 {
		r = convstore.LastTurns(a.Last)
	}
	var b strings.Builder
	for ev, err := range d.Scope.Events(ctx, id, r) {
		if err != nil {
			return denied(err)
		}
		writeEvent(&b, ev)
	}
	if b.Len() == 0 {
		return tools.Result{Text: fmt.Sprintf("%s holds nothing yet", id)}, nil
	}
	return tools.Result{Text: neutralize(strings.TrimSpace(b.String()))}, nil
}

// writeEvent writes an event under a heading of its own. What was said stands behind a bar, so that no text can pass for a
// heading.
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

// grep searches the caller's subtree for plain text, ignoring case.
func (d *Delegator) grep(ctx context.Context, c tools.Call) (tools.Result, error) {
	var a struct {
		Pattern string `json:"pattern"`
		ID      string `json:"id"`
	}
	if err := json.Unmarshal(c.Arguments, &a); err != nil {
		return tools.Result{}, err
	}
	const most, width = 200, 400
	q := convstore.Query{Pattern: a.Pattern, Case: convstore.IgnoreCase, Hidden: true, Archived: true}
	if a.ID != "" {
		id, err := convstore.ParseID(a.ID)
		if err != nil {
			return denied(err)
		}
		if _, err := d.Scope.Get(ctx, id); err != nil {
			return denied(err)
		}
		q.IDs = []convstore.ID{id}
	}
	var b strings.Builder
	n := 0
	for m, err := range d.Scope.Search(ctx, q) {
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

// denied is an error for the model to read: unknown ids and ids outside the subtree among them.
func denied(err error) (tools.Result, error) {
	return tools.Result{Text: neutralize(err.Error()), IsError: true}, nil
}
