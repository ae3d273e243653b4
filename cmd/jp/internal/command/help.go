package command

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/wording"
)

// Help writes the help of the command that path leads to, or of the program if path is empty, for
// width columns; 0 = unlimited.
func (t *Tree) Help(w io.Writer, width int, path []*cli.Command) error {
	var b strings.Builder
	h := helpText{b: &b, width: min(width, 100)}
	if len(path) == 0 {
		t.rootHelp(&h)
	} else {
		t.commandHelp(&h, path)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

func (t *Tree) rootHelp(h *helpText) {
	h.line("jp: %s", t.Root.Usage)
	h.line("")
	h.line("usage: jp [flags] COMMAND [flags] [arguments]")
	h.commands(t.Root.Commands)
	h.options(Options(t.Root.Flags))
	h.line("")
	h.para("Flags may be anywhere; -- ends them. Every command has --help.")
	h.exits(exit.Table())
	h.examples([]string{`jp query "what does this project do?"`})
}

func (t *Tree) commandHelp(h *helpText, path []*cli.Command) {
	c := path[len(path)-1]
	s := t.specs[c]
	name := Name(path)
	h.line("%s: %s", name, s.Summary)
	h.line("")
	h.line("usage: %s", usageLine(name, s))
	for _, alias := range s.Aliases {
		h.line("       %s", usageLine(Name(path[:len(path)-1])+" "+alias, s))
	}
	if s.About != "" {
		h.line("")
		for i, p := range strings.Split(strings.TrimSpace(s.About), "\n\n") {
			if i > 0 {
				h.line("")
			}
			h.para(p)
		}
	}
	for _, t := range s.Terms {
		h.pairs(t.Heading, t.Of)
	}
	h.commands(c.Subcommands)
	h.options(s.Flags)
	h.line("")
	h.line("The global flags are in `jp --help`.")
	h.exits(s.exits())
	h.examples(t.allExamples(s))
}

// usageLine is the shape of a command line.
func usageLine(name string, s Spec) string {
	out := name
	if s.Run == nil {
		return out + " COMMAND"
	}
	if len(s.Flags) > 0 {
		out += " [flags]"
	}
	if s.Args != "" {
		out += " " + s.Args
	}
	return out
}

// exits returns the statuses that the command can end with.
func (s Spec) exits() []exit.Meaning {
	var out []exit.Meaning
	for _, m := range exit.Table() {
		common := m.Status == exit.OK || m.Status == exit.Failed || m.Status == exit.Usage || m.Status == exit.Closed
		if common || slices.Contains(s.Exits, m.Status) {
			out = append(out, m)
		}
	}
	return out
}

// allExamples are the examples of a command; a group shows the first one of each of its commands.
func (t *Tree) allExamples(s Spec) []string {
	out := s.Examples
	for _, c := range s.Subs {
		if e := t.specs[c].Examples; len(e) > 0 {
			out = append(out, e[0])
		}
	}
	return out
}

// helpText lays help out.
type helpText struct {
	b     *strings.Builder
	width int // 0 = unlimited
}

func (h *helpText) line(format string, args ...any) {
	fmt.Fprintf(h.b, format, args...)
	h.b.WriteByte('\n')
}

// para writes a paragraph, wrapped.
func (h *helpText) para(text string) {
	for _, l := range wrap(strings.Join(strings.Fields(text), " "), h.width) {
		h.line("%s", l)
	}
}

// pairs writes terms and their meanings in two columns.
func (h *helpText) pairs(title string, ps []Term) {
	if len(ps) == 0 {
		return
	}
	h.line("")
	h.line("%s:", title)
	column := 0
	for _, p := range ps {
		if n := len(p.Word); n <= 32 {
			column = max(column, n)
		}
	}
	for _, p := range ps {
		room := 0
		if h.width > 0 {
			room = max(h.width-column-4, 20)
		}
		lines := wrap(p.Means, room)
		if len(p.Word) > column {
			h.line("  %s", p.Word)
			h.line("  %*s  %s", column, "", lines[0])
		} else {
			h.line("  %-*s  %s", column, p.Word, lines[0])
		}
		for _, l := range lines[1:] {
			h.line("  %*s  %s", column, "", l)
		}
	}
}

func (h *helpText) commands(cs []*cli.Command) {
	var ps []Term
	for _, c := range cs {
		if !c.Hidden {
			ps = append(ps, Term{strings.Join(c.Names(), ", "), c.Usage})
		}
	}
	h.pairs("commands", ps)
}

func (h *helpText) options(os []*Option) {
	for _, g := range groups(os) {
		var ps []Term
		for _, o := range g.OptionsOf {
			ps = append(ps, Term{o.String(), o.Usage})
		}
		h.pairs(g.heading, ps)
	}
}

func (h *helpText) exits(ms []exit.Meaning) {
	var ps []Term
	for _, m := range ms {
		ps = append(ps, Term{fmt.Sprintf("%3d", m.Status), m.Text})
	}
	h.pairs("exit statuses", ps)
}

func (h *helpText) examples(es []string) {
	if len(es) == 0 {
		return
	}
	h.line("")
	h.line("%s", wording.Either(len(es) == 1, "example:", "examples:"))
	for _, e := range es {
		h.line("  %s", e)
	}
}

// wrap breaks text at spaces; width 0 is unlimited. It returns at least one line.
func wrap(text string, width int) []string {
	var out []string
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && width > 0 && len(line)+1+len(word) > width {
			out = append(out, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(out, line)
}
