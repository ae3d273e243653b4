package term

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"jp/tools/unseen"
)

// Question asks a question of a model until something is typed. The number of an option means that option; io.EOF is
// Ctrl-D. Every row of the question is indented, so that none looks like a line of jp.
func (t *TTY) Question(ctx context.Context, question string, options []string) (answer string, err error) {
	var b strings.Builder
	b.WriteString("jp: the assistant asks:\n")
	for line := range strings.Lines(strings.TrimSpace(Clean(question))) {
		line = "  " + strings.ReplaceAll(strings.TrimRight(line, "\n"), "\t", "    ")
		b.WriteString(strings.Join(unseen.Rows(line, t.Width(), "  "), "\n") + "\n")
	}
	for i, o := range options {
		b.WriteString(strings.Join(unseen.Rows(fmt.Sprintf("  %d) %s", i+1, Line(o)), t.Width(), "     "), "\n") + "\n")
	}
	b.WriteString("answer: ")
	err = t.Alone(ctx, func(p *Person) error {
		for text := b.String(); answer == ""; text = "answer, or Ctrl-D for none: " {
			line, err := p.Ask(ctx, text)
			if err != nil {
				return err
			}
			answer = strings.TrimSpace(strings.ToValidUTF8(line, "\uFFFD"))
		}
		return nil
	})
	if n, err := strconv.Atoi(answer); err == nil && n >= 1 && n <= len(options) {
		answer = options[n-1]
	}
	return answer, err
}
