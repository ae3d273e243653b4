package term

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"jp/tools"
)

// Prompter asks for permission on a terminal. It is a tools.Prompter.
type Prompter struct {
	tty    *TTY
	around func(func())
}

// NewPrompter returns a Prompter on t. Every question is asked inside around, which stops others
// from drawing on the screen (Tree.Around); nil = nothing draws.
func NewPrompter(t *TTY, around func(func())) *Prompter {
	if around == nil {
		around = func(f func()) { f() }
	}
	return &Prompter{tty: t, around: around}
}

const (
	promptKeys = "y yes, Y yes for this turn, n no, N no for this turn, p print all of it, r no with a reason"
	promptMark = "[y/Y/n/N/p/r, ? for help] "

	unreadKeys = "p print all of it, then y and Y are yes, n no, N no for this turn, r no with a reason"
	unreadMark = "[p/n/N/r, ? for help] "
)

// Ask shows the question and reads lines until one is an answer: y, Y, n, N, p or r. The error
// wraps tools.ErrNobody where the terminal has gone, or our process group is no longer in its
// foreground. When ctx ends the error is its cause. Ctrl-D is a no, because somebody answered.
func (p *Prompter) Ask(ctx context.Context, q tools.Question) (answer tools.Answer, err error) {
	p.around(func() { answer, err = p.ask(ctx, q) })
	switch {
	case errors.Is(err, io.EOF):
		return tools.Answer{Choice: tools.DenyOnce}, nil
	case errors.Is(err, ErrNobody):
		err = fmt.Errorf("%w: %w", tools.ErrNobody, err)
	}
	return answer, err
}

func (p *Prompter) ask(ctx context.Context, q tools.Question) (tools.Answer, error) {
	width, height := p.tty.size()
	page, left := q.Page(width, max(2*height-6, 20))
	text, keys, mark := heading(q)+"\n"+lines(page), promptKeys, promptMark
	if left != "" {
		text += Line("not shown: "+left+"; p shows it") + "\n"
		keys, mark = unreadKeys, unreadMark
	}
	for {
		key, err := p.tty.Ask(ctx, text+mark)
		if err != nil {
			return tools.Answer{}, err
		}
		text = keys + "\n"
		switch key = strings.TrimSpace(key); key {
		case "y", "yes", "Y":
			if left != "" {
				text = "not before p: " + text
				continue
			}
			return tools.Answer{Choice: allows[key == "Y"]}, nil
		case "n", "no":
			return tools.Answer{Choice: tools.DenyOnce}, nil
		case "N":
			return tools.Answer{Choice: tools.DenyTurn}, nil
		case "p":
			page, left = q.Page(width, math.MaxInt)
			text, keys, mark = lines(page), promptKeys, promptMark
		case "r":
			reason, err := p.tty.Ask(ctx, "reason: ")
			if err != nil {
				return tools.Answer{}, err
			}
			return tools.Answer{Choice: tools.DenyOnce, Reason: Line(reason)}, nil
		}
	}
}

var allows = map[bool]tools.Choice{false: tools.AllowOnce, true: tools.AllowTurn}

// lines returns a page with a line break at its end, if it is not empty.
func lines(page string) string {
	if page == "" {
		return ""
	}
	return Clean(page) + "\n"
}

// heading returns what is asked for.
func heading(q tools.Question) string {
	what := "run"
	if q.Kind == tools.KindDeliver {
		what = "give the model the result of"
	}
	return Line(fmt.Sprintf("jp: %s %s (%s)?", what, q.Tool.Name, q.Tool.Source))
}
