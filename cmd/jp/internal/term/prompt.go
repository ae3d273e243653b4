package term

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"jp/cmd/jp/internal/wording"
	"jp/tools"
)

// Prompter asks for permission on a terminal. It is a tools.Prompter.
type Prompter struct {
	tty    *TTY
	color  bool
	around func(func())
}

// NewPrompter returns a Prompter on t; color says whether it may have colours. Every question is
// asked inside around, which stops others from drawing on the screen (Tree.Around); nil = nothing
// draws.
func NewPrompter(t *TTY, color bool, around func(func())) *Prompter {
	if around == nil {
		around = func(f func()) { f() }
	}
	return &Prompter{tty: t, color: color, around: around}
}

const (
	promptKeys = "y yes\na yes to all calls of this tool in this turn\np print all of it\n" + noKeys
	promptMark = "[y/a/n/d/p/r, ? for help] "

	alwaysKeys = "\nalways (the whole word) yes to all calls of this tool in this conversation, in later turns too"

	unreadKeys = "p print all of it; then y and a are yes\n" + noKeys
	unreadMark = "[p/n/d/r, ? for help] "

	noKeys = "n no\nd no to all calls of this tool in this turn\nr no, with a reason"
)

// Ask shows the question and reads lines until one is an answer: y, a, n, d, p or r, as git asks
// about the parts of a change. The widest answer is a word, which nobody types by mistake. The
// error wraps tools.ErrNobody where the terminal has gone, or our process group is no longer in its
// foreground. When ctx ends the error is its cause. Ctrl-D is a no, because somebody answered.
func (p *Prompter) Ask(ctx context.Context, q tools.Question) (answer tools.Answer, err error) {
	p.around(func() {
		err = p.tty.Alone(ctx, func(person *Person) (err error) {
			answer, err = p.ask(ctx, person, q)
			return err
		})
	})
	switch {
	case errors.Is(err, io.EOF):
		return tools.Answer{Choice: tools.DenyOnce}, nil
	case errors.Is(err, ErrNobody):
		err = fmt.Errorf("%w: %w", tools.ErrNobody, err)
	}
	return answer, err
}

func (p *Prompter) ask(ctx context.Context, person *Person, q tools.Question) (tools.Answer, error) {
	width, height := p.tty.size()
	text, left := p.first(q, width, height)
	keys, mark := promptKeys, promptMark
	if left != "" {
		keys, mark = unreadKeys, unreadMark
	}
	for {
		key, err := person.Ask(ctx, text+mark)
		if err != nil {
			return tools.Answer{}, err
		}
		text = ""
		for key := range strings.Lines(keys + wording.Either(q.Always && left == "", alwaysKeys, "")) {
			text += strings.Join(Hang("", strings.TrimSpace(key), width, 2), "\n") + "\n"
		}
		switch key = strings.TrimSpace(key); key {
		case "y", "yes", "a", "all":
			if left != "" {
				text = "not before p: " + text
				continue
			}
			return tools.Answer{Choice: allows[key[0] == 'a']}, nil
		case "always":
			if q.Always && left == "" {
				return tools.Answer{Choice: tools.AllowAlways}, nil
			}
		case "n", "no":
			return tools.Answer{Choice: tools.DenyOnce}, nil
		case "d":
			return tools.Answer{Choice: tools.DenyTurn}, nil
		case "p":
			var page []tools.Row
			page, left = q.Page(width, math.MaxInt)
			text, keys, mark = Rows(page, p.color), promptKeys, promptMark
			if len(page) >= height { // what is asked is above the screen
				text += heading(q) + "\n" + Rows(page[:1], p.color)
			}
		case "r":
			reason, err := person.Ask(ctx, "reason: ")
			if err != nil {
				return tools.Answer{}, err
			}
			return tools.Answer{Choice: tools.DenyOnce, Reason: Line(reason)}, nil
		}
	}
}

// first returns what stands above the mark of a question: as much of it as one screen has room for.
// Nothing has scrolled off, unread, when somebody says yes. left says what was left out.
func (p *Prompter) first(q tools.Question, width, height int) (text, left string) {
	for rows := height; ; rows-- {
		var page []tools.Row
		page, left = q.Page(width, max(rows, 1))
		text = heading(q) + "\n" + Rows(page, p.color)
		if left != "" {
			text += strings.Join(Hang("", Line("not shown: "+left+"; p shows it"), width, 2), "\n") + "\n"
		}
		if rows <= 1 || rowsOf(linesOf(text+promptMark), width) <= height {
			return text, left
		}
	}
}

var allows = map[bool]tools.Choice{false: tools.AllowOnce, true: tools.AllowTurn}

// Rows returns the rows of a page as text. With colours what a change of a file removes is red, and
// what it adds is green.
func Rows(page []tools.Row, color bool) string {
	var b strings.Builder
	for _, row := range page {
		text := Clean(row.Text)
		if colour := map[byte]string{'-': "\x1b[31m", '+': "\x1b[32m"}[row.Mark]; colour != "" && color {
			text = colour + text + "\x1b[0m"
		}
		b.WriteString(text + "\n")
	}
	return b.String()
}

// heading returns what is asked for.
func heading(q tools.Question) string {
	what := "run"
	if q.Kind == tools.KindDeliver {
		what = "give the model the result of"
	}
	return Line(fmt.Sprintf("jp: %s %s (%s)?", what, q.Tool.Name, q.Tool.Declared()))
}
