package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"jp/cmd/jp/internal/term"
	"jp/cmd/jp/internal/wording"
)

// AskLine asks for one line; Ctrl-D is an empty answer.
func AskLine(ctx context.Context, tty *term.TTY, text string) (answer string, err error) {
	err = tty.Alone(ctx, func(p *term.Person) (err error) {
		answer, err = askLine(ctx, p, text)
		return err
	})
	return answer, err
}

func askLine(ctx context.Context, p *term.Person, text string) (string, error) {
	answer, err := p.Ask(ctx, text)
	if errors.Is(err, io.EOF) {
		return "", nil
	}
	return strings.TrimSpace(answer), err
}

// Confirm shows a page and asks a question whose default answer is no. page has a line for each row
// of the terminal. If the rows do not fit, Confirm shows one screen at a time, so that nothing
// scrolls off unread before the question. The answer d shows the page that diff returns and asks
// again; nil = there is none.
func Confirm(ctx context.Context, tty *term.TTY, page, question string, diff func() (string, error)) (yes bool, err error) {
	err = tty.Alone(ctx, func(p *term.Person) (err error) {
		yes, err = confirm(ctx, p, max(tty.Height()-2, 5), page, question, diff)
		return err
	})
	return yes, err
}

func confirm(ctx context.Context, p *term.Person, screen int, page, question string, diff func() (string, error)) (bool, error) {
	rows := strings.SplitAfter(page, "\n")
	for len(rows) > screen {
		more, err := askLine(ctx, p, strings.Join(rows[:screen], "")+fmt.Sprintf("-- %s below: Enter shows them, n is a no -- ", wording.Plural(len(rows)-screen, "line")))
		if err != nil || more != "" && !yes(more) {
			return false, err
		}
		rows = rows[screen:]
	}
	answer, err := askLine(ctx, p, strings.Join(rows, "")+question+wording.Either(diff == nil, " [y/N] ", " [y/N, d = diff] "))
	if err != nil || diff == nil || strings.ToLower(answer) != "d" {
		return yes(answer), err
	}
	if page, err = diff(); err != nil {
		return false, err
	}
	return confirm(ctx, p, screen, page, question, diff)
}

func yes(answer string) bool {
	answer = strings.ToLower(answer)
	return answer == "y" || answer == "yes"
}
