package turns

import (
	"bufio"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"jp/cmd/jp/internal/markdown"
	"jp/cmd/jp/internal/term"
	"jp/cmd/jp/internal/wording"
	"jp/convstore"
	"jp/tools/unseen"
)

// The styles of `conversation print`, each showing more than the one before.
const (
	User  = "user"
	Chat  = "chat"
	Brief = "brief"
	Full  = "full"
)

// Printer writes a conversation as text: Markdown headings, a blank line around every piece.
type Printer struct {
	W      *bufio.Writer
	IO     *term.IO
	Style  string
	Layout *markdown.Style // nil = text as it is
	Barred bool            // whether what was said is barred, because a model reads it
	turn   int
	lines  bool                          // last thing written was a line of a list
	Calls  map[string]convstore.ToolCall // without a result so far
	order  []string
}

// shows reports whether the style is at least s.
func (p *Printer) shows(s string) bool {
	rank := map[string]int{User: 0, Chat: 1, Brief: 2, Full: 3}
	return rank[p.Style] >= rank[s]
}

func (p *Printer) Event(e convstore.Event) error {
	if e.Turn != p.turn {
		p.Pending()
		p.turn = e.Turn
		p.lines = false
		fmt.Fprintln(p.W)
		p.Heading("## ", fmt.Sprintf("turn %d, %s", e.Turn, e.Time.Local().Format("2006-01-02 15:04")))
	}
	switch b := e.Body.(type) {
	case convstore.UserMessage:
		p.piece("user", p.typed(b.Text))
		for _, at := range b.Attachments {
			p.line("attached: " + at.Source)
		}
	case convstore.AssistantMessage:
		if p.shows(Chat) {
			p.piece("assistant", p.said(b.Text))
		}
	case convstore.Structured:
		if p.shows(Chat) {
			p.piece("assistant", p.shown(string(b.Data)))
		}
	case convstore.Reasoning:
		if p.shows(Full) && b.Text != "" {
			p.piece("reasoning", p.said(b.Text))
		}
	case convstore.ToolCall:
		switch {
		case p.shows(Full):
			p.piece("tool call: "+b.Name, p.shown(string(b.Arguments)))
			fallthrough
		case p.shows(Brief):
			p.Calls[b.ID] = b
			p.order = append(p.order, b.ID)
		}
	case convstore.ToolResult:
		call, known := p.Calls[b.ID]
		delete(p.Calls, b.ID)
		name := wording.Either(known, call.Name, "?")
		switch {
		case p.shows(Full):
			p.piece("tool result: "+name+wording.Either(b.IsError, " (error)", ""), p.shown(b.Text))
		case p.shows(Brief):
			p.toolLine(call, name, resultSummary(b))
		}
	case convstore.Note:
		if p.shows(Brief) {
			p.line("note: " + joined(b.Text))
		}
	case convstore.Compaction:
		switch {
		case b.Summary != "" && p.shows(Full):
			p.piece(Compacted(b), p.said(b.Summary))
			for _, c := range b.Conversations {
				p.line(strings.TrimSpace(c.ID + " " + c.Status + " " + c.Profile + " " + c.Title))
			}
		case p.shows(Brief):
			p.line(Compacted(b))
		}
	case convstore.Inquiry:
		if p.shows(Brief) {
			p.line(b.Tool + " asked: " + b.Text)
		}
	case convstore.InquiryAnswer:
		if p.shows(Brief) {
			p.line("answered: " + string(b.Answer))
		}
	case convstore.TurnEnd:
		p.Pending()
		if p.shows(Chat) && b.State != convstore.StateOK {
			p.line("ended: " + string(b.State) + wording.Either(b.Reason == "", "", ": "+b.Reason))
		}
	case convstore.ConfigDelta:
		if p.shows(Full) {
			p.piece("config changed"+wording.Either(b.Reset == "", "", ", after a reset to "+b.Reset), p.shown(string(b.Delta)))
		}
	case convstore.ModelCall:
		if p.shows(Full) {
			p.line(fmt.Sprintf("%s: %s tokens in, %s out, %s", b.Model, term.Count(b.Usage.Input), term.Count(b.Usage.Output),
				wording.Either(b.CostNano == nil, "cost unknown", wording.Dollars(b.CostNano))))
		}
	case convstore.Opaque:
		if p.shows(Full) {
			p.piece(b.Name, p.shown(string(b.Raw)))
		}
	}
	_, err := p.W.Write(nil) // the buffer remembers its error: stop reading when nobody listens
	return err
}

// Pending prints calls whose result never came.
func (p *Printer) Pending() {
	for _, id := range p.order {
		if call, ok := p.Calls[id]; ok {
			p.toolLine(call, call.Name, "no result")
		}
	}
	clear(p.Calls)
	p.order = p.order[:0]
}

func (p *Printer) toolLine(call convstore.ToolCall, name, result string) {
	args := term.Cut(term.Line(string(call.Arguments)), 100, p.IO.UTF8)
	p.line(fmt.Sprintf("%s %s: %s", name, args, result))
}

// resultSummary says in a few words what a tool returned.
func resultSummary(r convstore.ToolResult) string {
	if !r.IsError {
		return term.Count(int64(len(r.Text))) + " bytes"
	}
	return "error: " + strings.TrimPrefix(Failed(r.Text), "error: ")
}

// Failed returns the line of a failed result that says what is wrong. Of the end of a
// sub-agent, which is written for a model, that is the conversation, how it ended and why.
func Failed(text string) string {
	first, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	m := ended().FindStringSubmatch(first)
	if m == nil {
		return first
	}
	reason := strings.NewReplacer("&lt;", "<", "&gt;", ">").Replace(m[3])
	return m[1] + ": " + m[2] + wording.Either(reason == "", "", ", "+reason)
}

var ended = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^<response conversation_id="(jp-c[0-9]+)" status="([a-z]+)"(?: reason="([^"]*)")?`)
})

func (p *Printer) Heading(level, text string) {
	width := 0
	if p.Layout != nil {
		width = p.Layout.Width
	}
	for _, row := range markdown.Hanging(level, text, width) {
		fmt.Fprintln(p.W, wording.Either(p.IO.Color, "\x1b[1m"+row+"\x1b[0m", row))
	}
}

// said is text of the model, laid out from its Markdown.
func (p *Printer) said(text string) string {
	if p.Layout == nil {
		return p.IO.Text(text)
	}
	return markdown.Render(text, *p.Layout)
}

// typed is text of the user: its lines stay, and only longer ones are wrapped.
func (p *Printer) typed(text string) string {
	if p.Layout == nil {
		return p.IO.Text(text)
	}
	return markdown.Plain(text, p.Layout.Width)
}

// shown is data, unchanged.
func (p *Printer) shown(text string) string {
	if p.Layout == nil {
		return p.IO.Text(text)
	}
	return term.Clean(text)
}

// piece writes text that can be shown under a heading.
func (p *Printer) piece(who, text string) {
	p.lines = false
	fmt.Fprintln(p.W)
	p.Heading("### ", who)
	if p.Barred {
		text = unseen.Barred(text)
	}
	fmt.Fprintln(p.W, "\n"+strings.TrimRight(text, "\n"))
}

func (p *Printer) line(text string) {
	text = term.Line(text)
	if p.Layout != nil && p.Layout.Width > 2 {
		text = strings.ReplaceAll(markdown.Plain(text, p.Layout.Width-2), "\n", "\n  ")
	}
	fmt.Fprintln(p.W, wording.Either(p.lines, "- ", "\n- ")+text)
	p.lines = true
}

// joined returns the lines of a note as one, with a stop between two of them.
func joined(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i, line := range lines[:len(lines)-1] {
		if line = strings.TrimSpace(line); line != "" && !strings.ContainsAny(line[len(line)-1:], ".:;,!?") {
			line += "."
		}
		lines[i] = line
	}
	return strings.Join(lines, "\n")
}

// Compacted prints what a compaction has done.
func Compacted(c convstore.Compaction) string {
	return "compacted: " + LeftOut(c) + "; print still shows everything"
}

// LeftOut says what a compaction leaves out, and what follows from that.
func LeftOut(c convstore.Compaction) string {
	var what []string
	if n := len(c.Results); n > 0 {
		what = append(what, wording.Plural(n, "old result")+" left out")
	}
	if c.Covered > 0 {
		what = append(what, "a summary for what was said before")
	}
	return fmt.Sprintf("about %s tokens instead of %s: %s", term.Count(c.After), term.Count(c.Before), strings.Join(what, ", "))
}
