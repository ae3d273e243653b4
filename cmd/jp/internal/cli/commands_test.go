package cli

import (
	"bytes"
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
	"mvdan.cc/sh/v3/syntax"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/exit"
)

// everyCommand calls f for each command with the path that leads to it.
func everyCommand(a *app, f func(path []*cli.Command, s command.Spec)) {
	var walk func(path []*cli.Command, cs []*cli.Command)
	walk = func(path []*cli.Command, cs []*cli.Command) {
		for _, c := range cs {
			path := append(slices.Clone(path), c)
			f(path, a.tree.Spec(c))
			walk(path, c.Subcommands)
		}
	}
	walk(nil, a.tree.Root.Commands)
}

func TestEveryCommandIsDocumented(t *testing.T) {
	a := newApp(console.Env{})
	n := 0
	everyCommand(a, func(path []*cli.Command, s command.Spec) {
		n++
		name := command.Name(path)
		if s.Summary == "" || strings.HasSuffix(s.Summary, ".") || strings.ToLower(s.Summary[:1]) != s.Summary[:1] {
			t.Errorf("%s: summary %q: want one line, lowercase, no full stop", name, s.Summary)
		}
		var b bytes.Buffer
		if err := a.tree.Help(&b, a.con.IO.Width, path); err != nil {
			t.Fatal(err)
		}
		_, examples, ok := strings.Cut(b.String(), "\nexample")
		if !ok || !strings.Contains(examples, "\n  ") {
			t.Errorf("%s: help has no example at its end", name)
		}
		if s.Run == nil {
			return
		}
		for _, status := range append([]exit.Status{exit.OK, exit.Failed, exit.Usage, exit.Closed}, s.Exits...) {
			at := slices.IndexFunc(exit.Table(), func(m exit.Meaning) bool { return m.Status == status })
			if at < 0 || !strings.Contains(b.String(), exit.Table()[at].Text) {
				t.Errorf("%s: help lacks the exit status %d", name, status)
			}
		}
		for _, o := range s.Flags {
			if o.Usage == "" {
				t.Errorf("%s: flag %s has no help", name, o)
			}
			for _, g := range command.Options(a.tree.Root.Flags) {
				for _, spelling := range g.Spellings() {
					if slices.Contains(o.Spellings(), spelling) {
						t.Errorf("%s: flag %s hides the global %s", name, o, spelling)
					}
				}
			}
		}
	})
	if n < 20 {
		t.Errorf("only %d commands", n)
	}
}

// Every example is a command line of this program: the right command, known flags, good values.
func TestExamplesAreCommandLines(t *testing.T) {
	n := 0
	everyCommand(newApp(console.Env{}), func(path []*cli.Command, s command.Spec) {
		for _, example := range s.Examples {
			for _, words := range jpCalls(t, example) {
				n++
				a := newApp(console.Env{})
				inv, err := a.tree.Arrange(words)
				if err != nil {
					t.Errorf("%s: example %q: %v", command.Name(path), example, err)
					continue
				}
				for _, c := range inv.Path {
					c.Action = func(*cli.Context) error { return nil }
				}
				if err := a.tree.Root.Run(append([]string{"jp"}, inv.Argv()...)); err != nil {
					t.Errorf("%s: example %q: %v", command.Name(path), example, err)
				}
				if got := a.tree.Spec(inv.Command()); len(inv.Positionals) < got.Min || got.Max >= 0 && len(inv.Positionals) > got.Max {
					t.Errorf("%s: example %q: %d arguments", command.Name(path), example, len(inv.Positionals))
				}
			}
		}
		if len(s.Examples) > 0 && !strings.Contains(s.Examples[0], path[len(path)-1].Name) {
			t.Errorf("%s: its first example does not show it: %q", command.Name(path), s.Examples[0])
		}
	})
	if n < 20 {
		t.Errorf("only %d examples", n)
	}
}

// jpCalls returns the arguments of every call of jp in a shell command line.
func jpCalls(t *testing.T, line string) [][]string {
	t.Helper()
	file, err := syntax.NewParser().Parse(strings.NewReader(line), "")
	if err != nil {
		t.Errorf("example %q: %v", line, err)
		return nil
	}
	var calls [][]string
	syntax.Walk(file, func(n syntax.Node) bool {
		call, ok := n.(*syntax.CallExpr)
		if !ok || len(call.Args) == 0 || call.Args[0].Lit() != "jp" {
			return true
		}
		var words []string
		for _, w := range call.Args[1:] {
			text := ""
			for _, part := range w.Parts {
				switch p := part.(type) {
				case *syntax.Lit:
					text += p.Value
				case *syntax.SglQuoted:
					text += p.Value
				case *syntax.DblQuoted:
					for _, q := range p.Parts {
						if lit, ok := q.(*syntax.Lit); ok {
							text += lit.Value
						}
					}
				}
			}
			words = append(words, text)
		}
		calls = append(calls, words)
		return true
	})
	if len(calls) == 0 {
		t.Errorf("example %q does not call jp", line)
	}
	return calls
}

func TestHelpFitsTheTerminal(t *testing.T) {
	for _, width := range []string{"40", "80"} {
		everyCommand(newApp(console.Env{}), func(path []*cli.Command, s command.Spec) {
			var out bytes.Buffer
			env := console.Env{Args: append(strings.Fields(command.Name(path)), "--help", "--width", width), Stdout: &out}
			if status := Main(context.Background(), env); status != 0 || out.Len() == 0 {
				t.Fatalf("%q: status %d", env.Args, status)
			}
			prose, _, _ := strings.Cut(out.String(), "\nflags:")
			for _, line := range strings.Split(prose, "\n")[4:] {
				if width == "80" && len(line) > 80 && strings.HasPrefix(line, " ") == false {
					t.Errorf("%s --width %s: %q", command.Name(path), width, line)
				}
			}
		})
	}
}

// TestNamed: a command that is built without the others has the name under which it is found, and
// the same help.
func TestNamed(t *testing.T) {
	whole := newApp(console.Env{})
	for _, v := range whole.commands() {
		a := newApp(console.Env{Args: []string{"jp", v.name}})
		built := a.tree.Root.Command(v.name)
		if built == nil || built.Name != v.name {
			t.Errorf("%s: builds %+v", v.name, built)
			continue
		}
		var alone, among bytes.Buffer
		if err := a.tree.Help(&alone, 80, []*cli.Command{built}); err != nil {
			t.Fatal(err)
		}
		if err := whole.tree.Help(&among, 80, []*cli.Command{whole.tree.Root.Command(v.name)}); err != nil {
			t.Fatal(err)
		}
		if alone.String() != among.String() {
			t.Errorf("%s: the help is\n%s, among all\n%s", v.name, &alone, &among)
		}
	}
	all := len(whole.commands())
	for word, want := range map[string]int{"query": 2, "version": 1, "help": all, "completion": all, "man": all, "c": all, "-q": all, "querry": all} {
		if n := len(newApp(console.Env{Args: []string{"jp", word}}).tree.Root.Commands); n != want {
			t.Errorf("jp %s: %d commands are built, want %d", word, n, want)
		}
	}
}
