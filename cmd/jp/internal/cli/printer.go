package cli

import (
	"bufio"
	"fmt"
	"strings"

	"jp/cmd/jp/internal/markdown"
	"jp/cmd/jp/internal/term"
	"jp/cmd/jp/internal/wording"
	"jp/convstore"
)

// The styles of `conversation print`, each showing more than the one before.
const (
	styleUser  = "user"
	styleChat  = "chat"
	styleBrief = "brief"
	styleFull  = "full"
)

// printer writes a conversation as text: Markdown headings, a blank line around every piece.
type printer struct {
	w      *bufio.Writer
	io     *term.IO
	style  string
	layout *markdown.Style // nil = text as it is
	turn   int
	lines  bool                          // the last thing written was a line of a list
	calls  map[string]convstore.ToolCall // without a result so far
	order  []string
}

// shows reports whether the style is at least s.
func (p *printer) shows(s string) bool {
	rank := map[string]int{styleUser: 0, styleChat: 1, styleBrief: 2, styleFull: 3}
	return rank[p.style] >= rank[s]
}

func (p *printer) event(e convstore.Event) error {
	if e.Turn != p.turn {
		p.pending()
		p.turn = e.Turn
		p.lines = false
		fmt.Fprintln(p.w)
		p.heading("## ", fmt.Sprintf("turn %d, %s", e.Turn, e.Time.Local().Format("2006-01-02 15:04")))
	}
	switch b := e.Body.(type) {
	case convstore.UserMessage:
		p.piece("user", p.typed(b.Text))
		for _, at := range b.Attachments {
			p.line("attached: " + at.Source)
		}
	case convstore.AssistantMessage:
		if p.shows(styleChat) {
			p.piece("assistant", p.said(b.Text))
		}
	case convstore.Structured:
		if p.shows(styleChat) {
			p.piece("assistant", p.shown(string(b.Data)))
		}
	case convstore.Reasoning:
		if p.shows(styleFull) && b.Text != "" {
			p.piece("reasoning", p.said(b.Text))
		}
	case convstore.ToolCall:
		switch {
		case p.shows(styleFull):
			p.piece("tool call: "+b.Name, p.shown(string(b.Arguments)))
			fallthrough
		case p.shows(styleBrief):
			p.calls[b.ID] = b
			p.order = append(p.order, b.ID)
		}
	case convstore.ToolResult:
		call, known := p.calls[b.ID]
		delete(p.calls, b.ID)
		name := wording.Either(known, call.Name, "?")
		switch {
		case p.shows(styleFull):
			p.piece("tool result: "+name+wording.Either(b.IsError, " (error)", ""), p.shown(b.Text))
		case p.shows(styleBrief):
			p.toolLine(call, name, resultSummary(b))
		}
	case convstore.Note:
		if p.shows(styleBrief) {
			p.line("note: " + b.Text)
		}
	case convstore.Compaction:
		switch {
		case b.Summary != "" && p.shows(styleFull):
			p.piece(compactedText(b), b.Summary)
			for _, c := range b.Conversations {
				p.line(strings.TrimSpace(c.ID + " " + c.Status + " " + c.Profile + " " + c.Title))
			}
		case p.shows(styleBrief):
			p.line(compactedText(b))
		}
	case convstore.Inquiry:
		if p.shows(styleBrief) {
			p.line(b.Tool + " asked: " + b.Text)
		}
	case convstore.InquiryAnswer:
		if p.shows(styleBrief) {
			p.line("answered: " + string(b.Answer))
		}
	case convstore.TurnEnd:
		p.pending()
		if p.shows(styleChat) && b.State != convstore.StateOK {
			p.line("ended: " + string(b.State) + wording.Either(b.Reason == "", "", ": "+b.Reason))
		}
	case convstore.ConfigDelta:
		if p.shows(styleFull) {
			p.piece("config changed"+wording.Either(b.Reset == "", "", ", after a reset to "+b.Reset), p.shown(string(b.Delta)))
		}
	case convstore.ModelCall:
		if p.shows(styleFull) {
			p.line(fmt.Sprintf("%s: %s tokens in, %s out, %s", b.Model, term.Count(b.Usage.Input), term.Count(b.Usage.Output),
				wording.Either(b.CostNano == nil, "cost unknown", wording.Dollars(b.CostNano))))
		}
	case convstore.Opaque:
		if p.shows(styleFull) {
			p.piece(b.Name, p.shown(string(b.Raw)))
		}
	}
	_, err := p.w.Write(nil) // the buffer's sticky error: stop reading when nobody listens
	return err
}

// pending tells of calls whose result never came.
func (p *printer) pending() {
	for _, id := range p.order {
		if call, ok := p.calls[id]; ok {
			p.toolLine(call, call.Name, "no result")
		}
	}
	clear(p.calls)
	p.order = p.order[:0]
}

func (p *printer) toolLine(call convstore.ToolCall, name, result string) {
	args := term.Cut(term.Line(string(call.Arguments)), 100, p.io.UTF8)
	p.line(fmt.Sprintf("%s %s: %s", name, args, result))
}

// resultSummary says in a few words what a tool gave back.
func resultSummary(r convstore.ToolResult) string {
	if !r.IsError {
		return term.Count(int64(len(r.Text))) + " bytes"
	}
	first, _, _ := strings.Cut(strings.TrimSpace(r.Text), "\n")
	return "error: " + strings.TrimPrefix(first, "error: ")
}

func (p *printer) heading(level, text string) {
	text = level + term.Line(text)
	if p.io.Color {
		text = "\x1b[1m" + text + "\x1b[0m"
	}
	fmt.Fprintln(p.w, text)
}

// said is text of the model, laid out from its Markdown.
func (p *printer) said(text string) string {
	if p.layout == nil {
		return p.io.Text(text)
	}
	return markdown.Render(text, *p.layout)
}

// typed is text of the user: its lines stay lines, only longer ones are wrapped.
func (p *printer) typed(text string) string {
	if p.layout == nil {
		return p.io.Text(text)
	}
	return markdown.Plain(text, p.layout.Width)
}

// shown is data, as it is.
func (p *printer) shown(text string) string {
	if p.layout == nil {
		return p.io.Text(text)
	}
	return term.Clean(text)
}

// piece writes text that can be shown under a heading.
func (p *printer) piece(who, text string) {
	p.lines = false
	fmt.Fprintln(p.w)
	p.heading("### ", who)
	fmt.Fprintln(p.w, "\n"+strings.TrimRight(text, "\n"))
}

func (p *printer) line(text string) {
	text = term.Line(text)
	if p.layout != nil && p.layout.Width > 2 {
		text = strings.ReplaceAll(markdown.Plain(text, p.layout.Width-2), "\n", "\n  ")
	}
	fmt.Fprintln(p.w, wording.Either(p.lines, "- ", "\n- ")+text)
	p.lines = true
}

// compactedText says what a compaction has done.
func compactedText(c convstore.Compaction) string {
	return "compacted: " + leftOut(c) + "; print still shows everything"
}

// leftOut says what a compaction leaves out, and what comes of it.
func leftOut(c convstore.Compaction) string {
	var what []string
	if n := len(c.Results); n > 0 {
		what = append(what, wording.Plural(n, "old result")+" left out")
	}
	if c.Covered > 0 {
		what = append(what, "a summary for what was said before")
	}
	return fmt.Sprintf("about %s tokens instead of %s: %s", term.Count(c.After), term.Count(c.Before), strings.Join(what, ", "))
}
