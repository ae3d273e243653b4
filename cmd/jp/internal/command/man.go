package command

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/exit"
)

// CommandPath finds a command by its words.
func (t *Tree) CommandPath(words []string) ([]*cli.Command, error) {
	inv, err := t.Arrange(append(slices.Clone(words), "--help"))
	if err != nil {
		return nil, err
	}
	if len(inv.Positionals) > 0 {
		return nil, exit.Usagef("%sunknown command %q", Subject(inv.Path), inv.Positionals[0])
	}
	return inv.Path, nil
}

// Manual returns the page of the command that path leads to, with the commands below it; of the
// program when path is empty. It has the version of the program and the day of that, "" when it is
// not known.
func (t *Tree) Manual(path []*cli.Command, version, day string) string {
	m := manText{b: &strings.Builder{}}
	name := strings.ReplaceAll(Name(path), " ", "-")
	m.macro("TH", strings.ToUpper(name), "1", day, "jp "+version, "jp")
	m.macro("SH", "NAME")
	if len(path) == 0 {
		m.text(name + " - " + t.Root.Usage)
		m.macro("SH", "SYNOPSIS")
		m.macro("B", "jp [flags] COMMAND [flags] [arguments]")
		m.macro("SH", "DESCRIPTION")
		m.text("Flags may be anywhere; -- ends them. Every command has --help.")
		m.macro("SH", "COMMANDS")
		t.manCommands(&m, nil, t.Root.Commands)
		m.macro("SH", "GLOBAL FLAGS")
		m.options(Options(t.Root.Flags))
		m.macro("SH", "EXIT STATUS")
		m.exits(exit.Table())
		return m.b.String()
	}
	s := t.specs[path[len(path)-1]]
	m.text(name + " - " + s.Summary)
	m.macro("SH", "SYNOPSIS")
	m.macro("B", usageLine(Name(path), s))
	if s.About != "" {
		m.macro("SH", "DESCRIPTION")
		m.paragraphs(s.About)
	}
	for _, t := range s.Terms {
		m.macro("SH", strings.ToUpper(t.Heading))
		m.terms(t.Of)
	}
	if len(s.Subs) > 0 {
		m.macro("SH", "COMMANDS")
		t.manCommands(&m, path, s.Subs)
	}
	if len(s.Flags) > 0 {
		m.macro("SH", "FLAGS")
		m.options(s.Flags)
	}
	m.macro("SH", "EXIT STATUS")
	m.exits(s.exits())
	if examples := t.allExamples(s); len(examples) > 0 {
		m.macro("SH", "EXAMPLES")
		m.verbatim(examples)
	}
	m.macro("SH", "SEE ALSO")
	m.text("jp(1)")
	return m.b.String()
}

// manCommands writes a subsection for each command below path, groups without one of their own.
func (t *Tree) manCommands(m *manText, path []*cli.Command, cs []*cli.Command) {
	for _, c := range cs {
		if c.Hidden {
			continue
		}
		at, s := append(slices.Clone(path), c), t.specs[c]
		if len(s.Subs) > 0 {
			t.manCommands(m, at, s.Subs)
			continue
		}
		m.macro("SS", usageLine(Name(at), s))
		m.text(s.Summary)
		if s.About != "" {
			m.macro("PP")
			m.paragraphs(s.About)
		}
		for _, t := range s.Terms {
			m.macro("PP")
			m.text(t.Heading + ":")
			m.terms(t.Of)
		}
		m.options(s.Flags)
		if len(s.Examples) > 0 {
			m.macro("PP")
			m.verbatim(s.Examples)
		}
	}
}

// manText writes the man macros of roff (man 7 groff_man).
type manText struct{ b *strings.Builder }

// roff escapes text so that nothing in it is a request or an escape.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "`", `\(ga`, "'", `\(aq`, "^", `\(ha`, "~", `\(ti`).Replace(text)
	if strings.HasPrefix(text, ".") {
		text = `\&` + text
	}
	return text
}

// macro writes a request with its arguments.
func (m *manText) macro(name string, args ...string) {
	m.b.WriteString("." + name)
	for _, arg := range args {
		m.b.WriteString(` "` + strings.ReplaceAll(roff(arg), `"`, `\(dq`) + `"`)
	}
	m.b.WriteByte('\n')
}

// text writes a line of running text.
func (m *manText) text(text string) {
	m.b.WriteString(roff(strings.Join(strings.Fields(text), " ")) + "\n")
}

func (m *manText) paragraphs(about string) {
	for i, p := range strings.Split(strings.TrimSpace(about), "\n\n") {
		if i > 0 {
			m.macro("PP")
		}
		m.text(p)
	}
}

func (m *manText) terms(list []Term) {
	for _, t := range list {
		m.item(t.Word, t.Means)
	}
}

// item writes a term and its meaning.
func (m *manText) item(term, text string) {
	m.macro("TP")
	m.macro("B", term)
	m.text(text)
}

func (m *manText) options(os []*Option) {
	for _, g := range groups(os) {
		if g.heading != "flags" {
			m.macro("PP")
			m.macro("I", strings.ToUpper(g.heading[:1])+g.heading[1:])
		}
		for _, o := range g.OptionsOf {
			m.item(o.String(), o.Usage)
		}
	}
}

func (m *manText) exits(ms []exit.Meaning) {
	for _, s := range ms {
		m.item(fmt.Sprint(int(s.Status)), s.Text)
	}
}

// verbatim writes lines unchanged.
func (m *manText) verbatim(lines []string) {
	m.macro("EX")
	for _, line := range lines {
		m.b.WriteString(roff(line) + "\n")
	}
	m.macro("EE")
}
