package workspace

import (
	"context"
	"errors"
	"strings"

	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/markdown"
	"jp/cmd/jp/internal/term"
	"jp/convstore"
)

// previewMax is the most bytes of a message that a preview lays out.
const previewMax = 8 << 10

// Picks reports whether a person can pick from a list here: there is somebody at a terminal
// on which lines can be drawn again.
func (w *Workspace) Picks() bool {
	if w.Con.IO.Dumb {
		return false
	}
	tty, err := w.Con.Terminal()
	if err != nil {
		return false
	}
	_ = tty.Close()
	return true
}

// Pick lets a person pick from a list of conversations on the terminal, and returns the index.
// Whoever leaves the list gets an error with the status of an interrupt.
func (w *Workspace) Pick(ctx context.Context, view convstore.View, heads []convstore.Head) (picked int, err error) {
	if len(heads) == 0 {
		return 0, exit.NotFoundf("--pick: there is no conversation to pick")
	}
	tty, err := w.Con.Terminal()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, tty.Close()) }()
	ctx, stop := w.Con.WithSignals(ctx, nil)
	defer stop()
	list := term.List{Color: w.Con.IO.ErrColor, UTF8: w.Con.IO.UTF8}
	for _, h := range heads {
		list.Choices = append(list.Choices, term.Choice{Name: h.ID.String(), Title: h.Title})
	}
	said := make(map[int]string)
	list.Preview = func(i, width int) string {
		text, known := said[i]
		if !known {
			text = lastTurn(ctx, view, heads[i].ID)
			said[i] = text
		}
		return markdown.Render(text, markdown.Style{Width: width, UTF8: w.Con.IO.UTF8})
	}
	err = tty.Alone(ctx, func(p *term.Person) (err error) {
		picked, err = p.Pick(ctx, list)
		return err
	})
	if errors.Is(err, term.ErrLeft) {
		err = exit.Quiet(exit.Interrupted)
	}
	return picked, err
}

// ErrCannotPick is the error of a command that needs a choice where nobody can pick one.
func ErrCannotPick() error {
	return exit.Usagef("--pick: needs a terminal that a person uses and that can redraw lines").
		WithHint("--id takes an id or a part of a title; jp conversation ls lists all")
}

// lastTurn returns what was asked and answered in the last turn of a conversation, in Markdown. It
// omits what cannot be read.
func lastTurn(ctx context.Context, view convstore.View, id convstore.ID) string {
	var asked, answered string
	for e, err := range view.Events(ctx, id, convstore.LastTurns(1)) {
		if err != nil {
			return ""
		}
		switch b := e.Body.(type) {
		case convstore.UserMessage:
			asked = b.Text
		case convstore.Said:
			answered = b.Said()
		}
	}
	start := func(text string) string {
		return strings.ToValidUTF8(text[:min(len(text), previewMax)], "")
	}
	if asked == "" && answered == "" {
		return ""
	}
	line := term.Cut(term.Line(start(asked)), 200, true)
	return `\> ` + line + "\n\n" + start(answered)
}
