package command

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/exit"
)

// probe is a command line of its own, with every kind of flag.
type probe struct {
	tree   *Tree
	format string
	quiet  bool
	noisy  int
	got    struct {
		hidden bool
		title  Maybe[string]
		id     Maybe[string]
		last   Maybe[int]
		root   Maybe[string]
		tmp    Maybe[time.Duration]
		style  string
		labels []string
		cfg    []string
	}
	args []string
	ran  string
}

func newProbe() *probe {
	p := &probe{tree: New("jp", ""), format: "auto"}
	p.tree.Around = func(_ Spec, _ string, run func() error) error { return run() }
	run := func(name string) func(context.Context, []string) error {
		return func(_ context.Context, args []string) error { p.ran, p.args = name, args; return nil }
	}
	g := &p.got
	set := func(value string) error { g.cfg = append(g.cfg, value); return nil }
	fork := p.tree.Command(Spec{Name: "fork", Args: "ID...", Max: -1, Run: run("fork"), Flags: []*Option{
		Bool(&g.hidden, "hidden", ""),
		String(&g.title, "title", "T", ""),
		String(&g.id, "id", "ID", "").Alias("i"),
		IntMaybe(&g.last, "last", "N", 0, 1, "").Alias("l"),
		StringMaybe(&g.root, "root", "ID", func(word string) bool { return word == "recent" || strings.HasPrefix(word, "jp-c") }, ""),
		DurationMaybe(&g.tmp, "tmp", "D", time.Hour, ""),
		Choice(&g.style, "style", "S", []string{"chat", "full"}, "").Alias("s"),
		List(&g.labels, "label", "K", ""),
		Call("cfg", "X", "", set).Alias("config", "c"),
		Call("no-cfg", "", "", func(string) error { return set("NONE") }),
	}})
	strict := p.tree.Command(Spec{Name: "show", Args: "ID", Min: 1, Max: 1, Run: run("show")})
	group := p.tree.Command(Spec{Name: "conversation", Aliases: []string{"c"}, Subs: []*cli.Command{fork, strict}})
	p.tree.Add([]*Option{
		Choice(&p.format, "format", "FORMAT", []string{"auto", "text", "json"}, "").Alias("F", "output-format"),
		Bool(&p.quiet, "quiet", "").Alias("q"),
		Count(&p.noisy, "verbose", "").Alias("v"),
	}, group)
	return p
}

func (p *probe) parse(line ...string) error {
	inv, err := p.tree.Arrange(line)
	if err != nil {
		return err
	}
	return p.tree.Root.Run(append([]string{"jp"}, inv.Argv()...))
}

func TestFlagsStandAnywhere(t *testing.T) {
	for _, line := range []string{
		"conversation fork A B --hidden --last=0 --title T -i X",
		"conversation fork --hidden A --last=0 B --title=T --id X",
		"c fork --title T -iX A --hidden B --last=0",
		"c fork -i=X --title T --last=0 --hidden -- A B",
		"c -q fork A -F json B -i X --hidden --last=0 --title T",
	} {
		p := newProbe()
		if err := p.parse(strings.Fields(line)...); err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		g := p.got
		if p.ran != "fork" || !slices.Equal(p.args, []string{"A", "B"}) || !g.hidden || g.last != (Maybe[int]{true, 0}) ||
			g.title != (Maybe[string]{true, "T"}) || g.id != (Maybe[string]{true, "X"}) {
			t.Errorf("%s: ran %s %q with %+v", line, p.ran, p.args, g)
		}
	}
}

func TestOptionalValues(t *testing.T) {
	for line, want := range map[string]struct {
		last Maybe[int]
		root Maybe[string]
		tmp  Maybe[time.Duration]
		args string
	}{
		"--last":             {last: Maybe[int]{true, 1}},
		"--last -- 3":        {last: Maybe[int]{true, 1}, args: "3"},
		"--last three":       {last: Maybe[int]{true, 1}, args: "three"},
		"--last=3":           {last: Maybe[int]{true, 3}},
		"-l":                 {last: Maybe[int]{true, 1}},
		"-l=4":               {last: Maybe[int]{true, 4}},
		"--root":             {root: Maybe[string]{true, ""}},
		"--root=true":        {root: Maybe[string]{true, "true"}},
		"--root -- jp-c1":    {root: Maybe[string]{true, ""}, args: "jp-c1"},
		"--root jpc1":        {root: Maybe[string]{true, ""}, args: "jpc1"},
		"--root=a=b":         {root: Maybe[string]{true, "a=b"}},
		"--tmp":              {tmp: Maybe[time.Duration]{true, time.Hour}},
		"--tmp=1d12h":        {tmp: Maybe[time.Duration]{true, 36 * time.Hour}},
		"--last=2 --last":    {last: Maybe[int]{true, 1}},
		"--tmp=90s --tmp=2w": {tmp: Maybe[time.Duration]{true, 14 * 24 * time.Hour}},
	} {
		p := newProbe()
		if err := p.parse(append([]string{"c", "fork"}, strings.Fields(line)...)...); err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		if g := p.got; g.last != want.last || g.root != want.root || g.tmp != want.tmp || strings.Join(p.args, " ") != want.args {
			t.Errorf("%s: %+v, args %q; want %+v", line, g, p.args, want)
		}
	}
}

func TestConfigFlagsKeepTheirOrder(t *testing.T) {
	p := newProbe()
	err := p.parse("c", "fork", "--cfg", "a=1", "hello", "--config", "b=2,c=3", "-c", "c=3", "--no-cfg", "--cfg=d=4,e", "-cf=5", "-c=g=6")
	if err != nil {
		t.Fatal(err)
	}
	got := p.got.cfg
	if want := []string{"a=1", "b=2,c=3", "c=3", "NONE", "d=4,e", "f=5", "g=6"}; !slices.Equal(got, want) {
		t.Errorf("directives %q, want %q", got, want)
	}
}

func TestValuesAreTakenWhole(t *testing.T) {
	p := newProbe()
	if err := p.parse("c", "fork", "--label", "a,b", "--label=-x", "--title", "-h", "--label", "", "-qqv", "-sfull", "-", "--", "--hidden", "--", "-x"); err != nil {
		t.Fatal(err)
	}
	if g := p.got; !slices.Equal(g.labels, []string{"a,b", "-x", ""}) || g.title.Value != "-h" || g.hidden || g.style != "full" || p.noisy != 1 || !p.quiet {
		t.Errorf("%+v, quiet %v", g, p.quiet)
	}
	if want := []string{"-", "--hidden", "--", "-x"}; !slices.Equal(p.args, want) {
		t.Errorf("args %q, want %q", p.args, want)
	}
	// A positional that is the name of a set flag, or of a command, is a positional.
	p = newProbe()
	if err := p.parse("c", "fork", "--title=x", "title", "fork", "help"); err != nil || !slices.Equal(p.args, []string{"title", "fork", "help"}) {
		t.Errorf("args %q, error %v", p.args, err)
	}
}

func TestMistakes(t *testing.T) {
	for line, want := range map[string]struct{ msg, hint string }{
		"conversaton fork":         {`unknown command "conversaton"`, "did you mean conversation?"},
		"conv fork":                {`unknown command "conv"`, "did you mean conversation?"},
		"xyz":                      {`unknown command "xyz"`, "see `jp --help`"},
		"what is this":             {`unknown command "what"`, `did you mean jp query "what is this"?`},
		"why?":                     {`unknown command "why?"`, `did you mean jp query "why?"?`},
		"who is $USER -v":          {`unknown command "who"`, `did you mean jp query 'who is $USER'?`},
		"show me all":              {`unknown command "show"`, "did you mean `jp conversation show`?"},
		"conversaton is this":      {`unknown command "conversaton"`, "did you mean conversation?"},
		"c frok A":                 {`conversation: unknown command "frok"`, "did you mean fork?"},
		"c view":                   {`conversation: unknown command "view"`, "did you mean show?"},
		"c -- fork":                {`conversation: unknown command "fork"`, "did you mean fork?"},
		"c fork --hiden":           {"conversation fork: unknown flag --hiden", "did you mean --hidden?"},
		"c fork --hiden=1":         {"conversation fork: unknown flag --hiden", "did you mean --hidden?"},
		"c fork --l":               {"conversation fork: unknown flag --l", "see `jp conversation fork --help`"},
		"c fork --zzzzzz":          {"conversation fork: unknown flag --zzzzzz", "see `jp conversation fork --help`"},
		"--hidden c fork":          {"unknown flag --hidden", "flags of a command go behind its name; see `jp --help`"},
		"c fork -x":                {"conversation fork: unknown flag -x", "see `jp conversation fork --help`"},
		"c fork -qx":               {"conversation fork: unknown flag -x", "see `jp conversation fork --help`"},
		"c fork -hidden":           {"-hidden: unknown flag", "did you mean --hidden?"},
		"c fork --hidden=true":     {"--hidden: takes no value", ""},
		"c fork -q=1":              {"-q: takes no value", ""},
		"c fork --last=":           {"--last=: the value is missing", "--last without = has its own meaning"},
		"c fork --last 3":          {`--last: its value goes behind =, and "3" is apart from it`, "--last=3 if it is the value; --last -- 3 if it is a word of its own"},
		"c fork -l 3 A":            {`-l: its value goes behind =, and "3" is apart from it`, "-l=3 if it is the value; -l -- 3 if it is a word of its own"},
		"c fork A --tmp 2h":        {`--tmp: its value goes behind =, and "2h" is apart from it`, "--tmp=2h if it is the value; --tmp -- 2h if it is a word of its own"},
		"c fork --root jp-c1 A":    {`--root: its value goes behind =, and "jp-c1" is apart from it`, "--root=jp-c1 if it is the value; --root -- jp-c1 if it is a word of its own"},
		"c fork --root recent":     {`--root: its value goes behind =, and "recent" is apart from it`, "--root=recent if it is the value; --root -- recent if it is a word of its own"},
		"c fork --last=x":          {`--last: "x" is not a whole number`, ""},
		"c fork --last=-1":         {"--last: -1 is less than 0", ""},
		"c fork --tmp=soon":        {`--tmp: "soon" is not a duration such as 90s, 1h30m or 7d`, ""},
		"c fork --tmp=0s":          {`--tmp: "0s" is not a duration such as 90s, 1h30m or 7d`, ""},
		"c fork --title":           {"--title: needs a value (T)", ""},
		"c fork -i":                {"-i: needs a value (ID)", ""},
		"c fork --title --hidden":  {"--title: needs a value (T), not the flag --hidden", "--title=--hidden if that is the value"},
		"c fork --title -i x":      {"--title: needs a value (T), not the flag -i", "--title=-i if that is the value"},
		"c fork --title -- x":      {"--title: needs a value (T), not the flag --", "--title=-- if that is the value"},
		"c fork --style=ful":       {`--style: unknown value "ful"`, "did you mean full?"},
		"c fork --style=zzz":       {`--style: unknown value "zzz"`, "one of chat, full"},
		"-F jsn c fork":            {`--format: unknown value "jsn"`, "did you mean json?"},
		"c show":                   {"conversation show: ID is missing", "see `jp conversation show --help`"},
		"c show a b":               {`conversation show: unexpected argument "b"`, "see `jp conversation show --help`"},
		"c fork --last=many":       {`--last: "many" is not a whole number`, ""},
		"c fork --cfg":             {"--cfg: needs a value (X)", ""},
		"c fork -tx":               {"conversation fork: unknown flag -t", "see `jp conversation fork --help`"},
		"c fork --label=a --lable": {"conversation fork: unknown flag --lable", "did you mean --label?"},
	} {
		p := newProbe()
		err := p.parse(strings.Fields(line)...)
		var f *exit.Error
		if !errors.As(err, &f) || f.Status != exit.Usage || f.Msg != want.msg || f.Hint != want.hint {
			t.Errorf("%s: error %v, hint %q; want %s, hint %q", line, err, hintOf(err), want.msg, want.hint)
		}
		if p.ran != "" {
			t.Errorf("%s: ran %s", line, p.ran)
		}
	}
}

func hintOf(err error) string {
	if f, ok := errors.AsType[*exit.Error](err); ok {
		return f.Hint
	}
	return ""
}

func TestHelpIsFoundAnywhere(t *testing.T) {
	for line, want := range map[string]string{
		"-h": "jp", "--help": "jp", "c -h": "jp conversation", "c fork A --help": "jp conversation fork",
		"-h c fork": "jp conversation fork", "c fork -qh": "jp conversation fork",
	} {
		inv, err := newProbe().tree.Arrange(strings.Fields(line))
		if err != nil || !inv.Help || Name(inv.Path) != want {
			t.Errorf("%s: help %t for %q, error %v; want %q", line, inv.Help, Name(inv.Path), err, want)
		}
	}
	inv, err := newProbe().tree.Arrange(strings.Fields("c fork --title -h -- -h"))
	if err != nil || inv.Help {
		t.Errorf("a value or an argument -h: help %t, error %v", inv.Help, err)
	}
}

// A value that is glued to its flag keeps its bytes.
func TestGluedBytes(t *testing.T) {
	inv, err := newProbe().tree.Arrange([]string{"c", "fork", "A", "-iX\xe9"})
	if err != nil || !slices.ContainsFunc(inv.Argv(), func(arg string) bool { return strings.HasSuffix(arg, "X\xe9") }) {
		t.Errorf("%q, %v", inv.Argv(), err)
	}
}

// Whatever is typed, arranging it never fails to account for a positional argument, and what it
// makes is read by the parser without a mistake in form.
func FuzzArrange(f *testing.F) {
	for _, line := range []string{
		"c fork A --hidden", "c fork -qhidden", "--", "c -- fork", "c fork --last= -", "c fork -i", "-F json c show x", "c fork --title=\x00 --=x", "- c", "c fork -=", "c fork --",
	} {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, line string) {
		p := newProbe()
		words := strings.Fields(line)
		inv, err := p.tree.Arrange(words)
		if err != nil {
			var own *exit.Error
			if !errors.As(err, &own) || own.Status != exit.Usage || own.Msg == "" {
				t.Fatalf("%q: error %v", words, err)
			}
			return
		}
		for _, arg := range inv.Positionals {
			if !slices.Contains(words, arg) {
				t.Fatalf("%q: made up the argument %q", words, arg)
			}
		}
		if inv.Help || inv.Command() == nil || len(inv.Command().Subcommands) > 0 {
			return
		}
		err = p.tree.Root.Run(append([]string{"jp"}, inv.Argv()...))
		var own *exit.Error
		if err != nil && !errors.As(err, &own) {
			t.Fatalf("%q -> %q: error %v of the parser itself", words, inv.Argv(), err)
		}
		if err == nil && !slices.Equal(p.args, inv.Positionals) && len(p.args)+len(inv.Positionals) > 0 {
			t.Fatalf("%q: args %q, want %q", words, p.args, inv.Positionals)
		}
	})
}
