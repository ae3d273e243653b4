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
// scrolls off unread before the question.
func Confirm(ctx context.Context, tty *term.TTY, page, question string) (bool, error) {
	rows := strings.SplitAfter(page, "\n")
	screen := max(tty.Height()-2, 5)
	for len(rows) > screen {
		more, err := AskLine(ctx, tty, strings.Join(rows[:screen], "")+fmt.Sprintf("-- %s below: Enter shows them, n is a no -- ", wording.Plural(len(rows)-screen, "line")))
		if err != nil || more != "" && !yes(more) {
			return false, err
		}
		rows = rows[screen:]
	}
	answer, err := AskLine(ctx, tty, strings.Join(rows, "")+question+" [y/N] ")
	return yes(answer), err
}

func yes(answer string) bool {
	answer = strings.ToLower(answer)
	return answer == "y" || answer == "yes"
}
