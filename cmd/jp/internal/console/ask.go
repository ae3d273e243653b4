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
func AskLine(ctx context.Context, tty *term.TTY, text string) (string, error) {
	answer, err := tty.Ask(ctx, text)
	if errors.Is(err, io.EOF) {
		return "", nil
	}
	return strings.TrimSpace(answer), err
}

// Confirm shows a page and asks a question whose default answer is no. page has a line for each row
// of the terminal. If the rows do not fit, Confirm shows one screen at a time, so that nothing
// scrolls off unread before the question. The answer d shows the page that diff returns and asks
// again; nil = there is none.
func Confirm(ctx context.Context, tty *term.TTY, page, question string, diff func() (string, error)) (bool, error) {
	rows := strings.SplitAfter(page, "\n")
	screen := max(tty.Height()-2, 5)
	for len(rows) > screen {
		more, err := AskLine(ctx, tty, strings.Join(rows[:screen], "")+fmt.Sprintf("-- %s below: Enter shows them, n is a no -- ", wording.Plural(len(rows)-screen, "line")))
		if err != nil || more != "" && !yes(more) {
			return false, err
		}
		rows = rows[screen:]
	}
	answer, err := AskLine(ctx, tty, strings.Join(rows, "")+question+wording.Either(diff == nil, " [y/N] ", " [y/N, d = diff] "))
	if err != nil || diff == nil || strings.ToLower(answer) != "d" {
		return yes(answer), err
	}
	if page, err = diff(); err != nil {
		return false, err
	}
	return Confirm(ctx, tty, page, question, diff)
}

func yes(answer string) bool {
	answer = strings.ToLower(answer)
	return answer == "y" || answer == "yes"
}
