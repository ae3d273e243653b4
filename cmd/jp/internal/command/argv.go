package command

import (
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/exit"
	"jp/tools/suggest"
)

// Line is a command line put in order. cli/v2 stops at the first positional argument, refuses two
// spellings of one flag and knows no optional values. So the line is read here, by the commands'
// own definitions, and passed to it as `jp GLOBALS COMMAND... FLAGS -- POSITIONALS`, every flag by
// its name, every value behind an equals sign.
type Line struct {
	Path        []*cli.Command // from the top; empty when no command was named
	Globals     []string
	Flags       []string
	Positionals []string
	Plain       int  // number of positionals before --; the others are literal
	Help        bool // -h or --help is on the line
	Version     bool // --version, which is the command `version`; before any command
}

// Argv returns the arguments for the parser, without the program's name.
func (v *Line) Argv() []string {
	out := append([]string(nil), v.Globals...)
	for _, c := range v.Path {
		out = append(out, c.Name)
	}
	out = append(out, v.Flags...)
	out = append(out, "--")
	return append(out, v.Positionals...)
}

// Command returns the command that was reached, nil at the top.
func (v *Line) Command() *cli.Command {
	if len(v.Path) == 0 {
		return nil
	}
	return v.Path[len(v.Path)-1]
}

// reader walks over a command line.
type reader struct {
	tree *Tree
	args []string // arguments that are not read yet
	out  Line
}

// Arrange reads args, which do not have the program's name. Its errors are *exit.Error with
// exit.Usage; the result has what was read before the error.
func (t *Tree) Arrange(args []string) (*Line, error) {
	r := &reader{tree: t, args: args}
	for len(r.args) > 0 {
		arg := r.args[0]
		r.args = r.args[1:]
		var err error
		switch {
		case arg == "--":
			for _, a := range r.args {
				if err = r.positional(a, true); err != nil {
					break
				}
			}
			r.args = nil
		case strings.HasPrefix(arg, "--"):
			err = r.long(arg)
		case strings.HasPrefix(arg, "-") && arg != "-":
			err = r.cluster(arg)
		default:
			err = r.positional(arg, false)
		}
		if err != nil {
			return &r.out, err
		}
	}
	return &r.out, nil
}

// commands returns what may be named next; none below a leaf.
func (r *reader) commands() []*cli.Command {
	if c := r.out.Command(); c != nil {
		return c.Subcommands
	}
	return r.tree.Root.Commands
}

func (r *reader) positional(arg string, literal bool) error {
	next := r.commands()
	if len(next) == 0 {
		r.out.Positionals = append(r.out.Positionals, arg)
		if !literal {
			r.out.Plain++
		}
		return nil
	}
	var names []string
	given := arg
	for _, c := range next {
		if c.HasName(arg) && !literal {
			r.out.Path = append(r.out.Path, c)
			return nil
		}
		if !c.Hidden {
			names = append(names, c.Names()...)
		}
	}
	if other := otherWord(arg); elsewhere(r.out.Path, arg) == "" && slices.Contains(names, other) {
		arg, names = other, []string{other}
	}
	hint := elsewhere(r.out.Path, arg)
	if hint == "" {
		help := "see `" + Name(r.out.Path) + " --help`"
		hint = DidYouMean(arg, names, help)
		if asked := r.question(given); asked != "" && (hint == help || strings.Contains(given, " ")) {
			hint = "did you mean jp query " + asked + "?"
		}
	}
	return exit.Usagef("%sunknown command %q", Subject(r.out.Path), given).WithHint("%s", hint)
}

// question returns the question that words in place of a command are, quoted for a shell; "" if
// they are none. One word with a space or a question mark is one, and so are three words.
func (r *reader) question(first string) string {
	words := []string{first}
	for _, arg := range r.args {
		if strings.HasPrefix(arg, "-") {
			break
		}
		words = append(words, arg)
	}
	text := strings.Join(words, " ")
	switch {
	case len(r.out.Path) > 0 || len(words) < 3 && !strings.ContainsAny(first, " \t\n?"):
		return ""
	case len(text) > 200 || strings.ContainsFunc(text, unicode.IsControl):
		return `"..."`
	case strings.ContainsAny(text, "$`\\\"!"): // in double quotes a shell would change it
		return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
	}
	return `"` + text + `"`
}

// elsewhere returns the hint for a word that is a command of other programs, "" for any other word.
func elsewhere(path []*cli.Command, word string) string {
	return map[string]string{
		"jp ls": "did you mean `jp conversation ls`?", "jp sessions": "did you mean `jp conversation ls`?", "jp history": "`jp conversation ls` lists what was asked", "jp log": "`jp conversation print` shows what was said",
		"jp resume": "`jp query --id ID` continues a conversation", "jp continue": "`jp query` continues this terminal's conversation",
		"jp agents": "`jp profile ls` lists the agents", "jp agent": "`jp profile ls` lists the agents", "jp skills": "`jp tool show skill` lists the skills", "jp login": "keys are in the environment: `jp doctor` says which",
		"jp grep": "did you mean `jp conversation grep`?", "jp print": "did you mean `jp conversation print`?", "jp show": "did you mean `jp conversation show`?", "jp new": "`jp query --new` begins a conversation",
		"jp run": "`jp query` asks; `jp tool run` runs a tool", "jp edit": "did you mean `jp conversation edit`?", "jp rm": "did you mean `jp conversation rm`?",
		"jp conversation rename": "`jp conversation edit ID --title T` does", "jp conversation title": "`jp conversation edit ID --title T` does",
		"jp conversation log": "did you mean print?", "jp conversation resume": "`jp query --id ID` continues one",
		"jp config get": "`jp config explain KEY` shows one setting, `jp config show` all", "jp config list": "did you mean show?", "jp config ls": "did you mean show?",
		"jp config check":  "did you mean `jp check`?",
		"jp config edit":   "`jp config set KEY=VALUE` changes a setting; the file is .jp/config.toml, and after an editor `jp trust`",
		"jp config path":   "`jp config show` names the file of each setting; a workspace's is .jp/config.toml",
		"jp store restore": "with no jp at work, put the backup where `jp store path` says; `jp conversation import` brings single conversations back",
	}[Name(path)+" "+word]
}

// otherWord is jp's word for a command of other programs.
func otherWord(arg string) string {
	return map[string]string{
		"list": "ls", "delete": "rm", "remove": "rm", "search": "grep", "find": "grep", "cat": "print", "view": "show", "get": "show",
		"create": "new", "add": "new", "ask": "query", "chat": "query", "conversations": "conversation", "tools": "tool", "profiles": "profile",
	}[arg]
}

// options returns the flags that may be here: those of the command and the global ones. own is the
// owner of the first ones.
func (r *reader) options() []*Option {
	out := OptionsOf(r.out.Command())
	return append(out, Options(r.tree.Root.Flags)...)
}

// OptionsOf returns the flags of a command; none of nil.
func OptionsOf(c *cli.Command) []*Option {
	if c == nil {
		return nil
	}
	return Options(c.Flags)
}

func Options(flags []cli.Flag) []*Option {
	var out []*Option
	for _, f := range flags {
		if o, ok := f.(*Option); ok {
			out = append(out, o)
		}
	}
	return out
}

// find finds a flag by its spelling, dashes included.
func (r *reader) find(spelling string) *Option {
	for _, o := range r.options() {
		for _, s := range o.Spellings() {
			if s == spelling {
				return o
			}
		}
	}
	return nil
}

func (r *reader) long(arg string) error {
	name, value, given := strings.Cut(arg, "=")
	if !given {
		switch name {
		case "--help":
			r.out.Help = true
			return nil
		case "--version":
			if r.out.Command() == nil {
				r.out.Version = true
				return nil
			}
		}
	}
	o := r.find(name)
	if o == nil {
		return r.unknown(name)
	}
	return r.take(o, name, value, given)
}

// cluster reads short flags: -v, -vv, -i ID, -iID, -i=ID, -t=NAME, -xni.
func (r *reader) cluster(arg string) error {
	if name, _, _ := strings.Cut(arg, "="); len([]rune(name)) > 2 && r.find("-"+name) != nil {
		return exit.Usagef("%s: unknown flag", name).WithHint("did you mean -%s?", name)
	}
	for i, letter := range arg[1:] {
		name := "-" + string(letter)
		o := r.find(name)
		if o == nil {
			if letter == 'h' {
				r.out.Help = true
				continue
			}
			return r.unknown(name)
		}
		_, size := utf8.DecodeRuneInString(arg[1+i:])
		rest := arg[1+i+size:] // as it is: a path need not be UTF-8
		value, given := strings.CutPrefix(rest, "=")
		switch {
		case given:
			return r.take(o, name, value, true)
		case o.Arg != "" && !o.Maybe:
			return r.take(o, name, rest, rest != "")
		}
		if err := r.take(o, name, "", false); err != nil {
			return err
		}
	}
	return nil
}

// take adds one flag to the line, reading its value from the next argument where it needs one.
func (r *reader) take(o *Option, spelling, value string, given bool) error {
	switch {
	case o.Arg == "" && given:
		return exit.Usagef("%s: takes no value", spelling)
	case o.Maybe && given && value == "":
		return exit.Usagef("%s=: the value is missing", spelling).WithHint("%s without = has its own meaning", spelling)
	case o.Maybe && !given && len(r.args) > 0 && o.Fits(r.args[0]):
		return exit.Usagef("%s: its value goes behind =, and %q is apart from it", spelling, r.args[0]).
			WithHint("%s=%s if it is the value; %s -- %s if it is a word of its own", spelling, r.args[0], spelling, r.args[0])
	case o.Arg != "" && !o.Maybe && !given:
		if len(r.args) == 0 {
			return exit.Usagef("%s: needs a value (%s)", spelling, o.Arg)
		}
		value = r.args[0]
		// An empty value comes from an empty variable in a script, and is no value.
		if name, _, _ := strings.Cut(value, "="); value == "--" || (strings.HasPrefix(name, "--") || len(name) == 2) && r.find(name) != nil {
			return exit.Usagef("%s: needs a value (%s), not the flag %s", spelling, o.Arg, name).
				WithHint("%s=%s if that is the value", spelling, value)
		}
		r.args = r.args[1:]
	}
	text := "--" + o.Name + "=" + value
	for _, own := range OptionsOf(r.out.Command()) {
		if own == o {
			r.out.Flags = append(r.out.Flags, text)
			return nil
		}
	}
	r.out.Globals = append(r.out.Globals, text)
	return nil
}

func (r *reader) unknown(spelling string) error {
	var names []string
	for _, o := range r.options() {
		names = append(names, o.Spellings()...)
	}
	if strings.HasPrefix(spelling, "--") { // -n is close to every short word
		names = slices.DeleteFunc(names, func(name string) bool { return len(name) == 2 })
	}
	hint := "see `" + Name(r.out.Path) + " --help`"
	if r.tree.Hint != nil {
		if say := r.tree.Hint(r.out.Command(), spelling); say != "" {
			return exit.Usagef("%sunknown flag %s", Subject(r.out.Path), spelling).WithHint("%s", say)
		}
	}
	if len(r.commands()) > 0 {
		hint = "flags of a command go behind its name; " + hint
	}
	return exit.Usagef("%sunknown flag %s", Subject(r.out.Path), spelling).WithHint("%s", DidYouMean(spelling, append(names, "--help"), hint))
}

// DidYouMean names the closest candidate, or one that begins with word; without any it returns
// otherwise.
func DidYouMean(word string, candidates []string, otherwise string) string {
	// Dashes would count as letters that match.
	bare := map[string]string{}
	var names []string
	for _, c := range candidates {
		name := strings.TrimLeft(c, "-")
		bare[name] = c
		names = append(names, name)
	}
	if near := suggest.Closest(strings.TrimLeft(word, "-"), names); near != "" {
		return "did you mean " + bare[near] + "?"
	}
	for _, name := range names {
		if start := strings.TrimLeft(word, "-"); len(start) >= 3 && strings.HasPrefix(name, start) {
			return "did you mean " + bare[name] + "?"
		}
	}
	return otherwise
}

// Name is what a user types to reach a command: jp conversation ls.
func Name(path []*cli.Command) string {
	name := "jp"
	for _, c := range path {
		name += " " + c.Name
	}
	return name
}

// Subject begins a message about a command: "conversation ls: ". For jp itself it is empty, since
// every message begins with jp.
func Subject(path []*cli.Command) string {
	_, name, ok := strings.Cut(Name(path), " ")
	if !ok {
		return ""
	}
	return name + ": "
}

// FormatIn finds the --format of a command line that could not be read, so that its error has that
// form.
func FormatIn(args []string) string {
	format := ""
	for i, arg := range args {
		if arg == "--" {
			break
		}
		for _, spelling := range []string{"--format", "--output-format", "-F"} {
			rest, ok := strings.CutPrefix(arg, spelling)
			switch value, eq := strings.CutPrefix(rest, "="); {
			case !ok:
			case eq, rest != "" && spelling == "-F":
				format = value
			case rest == "" && i+1 < len(args):
				format = args[i+1]
			}
		}
	}
	return format
}

// SetGlobals sets the global flags of a command line that is not run, as far as they are valid.
func (t *Tree) SetGlobals(inv *Line) {
	for _, text := range inv.Globals {
		name, value, _ := strings.Cut(strings.TrimPrefix(text, "--"), "=")
		for _, o := range Options(t.Root.Flags) {
			if o.Name == name {
				_ = (*optionValue)(o).Set(value)
			}
		}
	}
}
