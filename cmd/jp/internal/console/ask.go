package console

import (
	"context"
	"errors"
	"io"
	"strings"

	"jp/cmd/jp/internal/term"
)

// AskLine asks for one line; Ctrl-D is an empty answer.
func AskLine(ctx context.Context, tty *term.TTY, text string) (string, error) {
	answer, err := tty.Ask(ctx, text)
	if errors.Is(err, io.EOF) {
		return "", nil
	}
	return strings.TrimSpace(answer), err
}
