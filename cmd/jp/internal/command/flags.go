package command

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"jp/cmd/jp/internal/exit"
	"jp/profiles/kinds"
	"jp/tools/period"
	"jp/tools/suggest"
)

// Option is a flag of jp: a cli.Flag that writes into the options struct of its command. Commands
// make them with the constructors below. Only Arrange knows its aliases: it writes every flag by
// its name, so that the parser sees one name per flag and the order of the line stays.
type Option struct {
	Name    string
	Short   []string // other spellings, of one rune or several
	Arg     string   // name of the value in help; "" = a switch, which takes none
	Usage   string
	Choices []string // the only values, for the check, the help and completion
	Maybe   bool     // the value may be left out, and is given with = only

	Fits func(word string) bool               // reports, with Maybe, whether a word that follows looks like the value
	Take func(value string, given bool) error // stores a value; given is false for a switch and a value left out

	group string // heading in help; "" = flags
	seen  bool
	err   error // error of Take: package flag would keep its text only
}

// Alias adds other spellings: one rune for -x, more for --xy.
func (o *Option) Alias(names ...string) *Option {
	o.Short = append(o.Short, names...)
	return o
}

// Group puts flags under a heading of the help.
func Group(heading string, os ...*Option) []*Option {
	for _, o := range os {
		o.group = heading
	}
	return os
}

// flagGroup is flags under one heading.
type flagGroup struct {
	heading   string
	OptionsOf []*Option
}

// groups sorts flags by heading, in the order in which these first come.
func groups(os []*Option) []flagGroup {
	var out []flagGroup
	for _, o := range os {
		heading := cmp.Or(o.group, "flags")
		i := slices.IndexFunc(out, func(g flagGroup) bool { return g.heading == heading })
		if i < 0 {
			i, out = len(out), append(out, flagGroup{heading: heading})
		}
		out[i].OptionsOf = append(out[i].OptionsOf, o)
	}
	return out
}

// Names implements cli.Flag.
func (o *Option) Names() []string { return []string{o.Name} }

// IsSet implements cli.Flag.
func (o *Option) IsSet() bool { return o.seen }

// Apply implements cli.Flag.
func (o *Option) Apply(set *flag.FlagSet) error {
	set.Var((*optionValue)(o), o.Name, o.Usage)
	return nil
}

// String returns the flag as help shows it: -i, --id TARGET.
func (o *Option) String() string {
	spellings := o.Spellings()
	slices.SortStableFunc(spellings, func(a, b string) int { // -i before --id
		return cmp.Compare(min(len(a), 3), min(len(b), 3))
	})
	var b strings.Builder
	b.WriteString(strings.Join(spellings, ", "))
	switch {
	case o.Arg == "":
	case o.Maybe:
		b.WriteString("[=" + o.Arg + "]")
	default:
		b.WriteString(" " + o.Arg)
	}
	return b.String()
}

// Spellings returns every spelling with its dashes, the name first.
func (o *Option) Spellings() []string {
	out := []string{"--" + o.Name}
	for _, s := range o.Short {
		out = append(out, dashed(s))
	}
	return out
}

func dashed(name string) string {
	if len([]rune(name)) == 1 {
		return "-" + name
	}
	return "--" + name
}

// optionValue is the flag.Value of an option. A switch and a value that is left out are "", which
// Arrange never accepts as a value of such a flag.
type optionValue Option

func (v *optionValue) String() string { return "" }

func (v *optionValue) Set(s string) error {
	given := true
	if v.Arg == "" || v.Maybe {
		given = s != ""
	}
	v.seen = true
	if given && v.Choices != nil && !slices.Contains(v.Choices, s) {
		v.err = exit.Usagef("--%s: unknown value %q", v.Name, s).
			WithHint("%s", cmp.Or(suggest.Meant("did you mean %s?", s, v.Choices), "one of "+strings.Join(v.Choices, ", ")))
		return v.err
	}
	if err := v.Take(s, given); err != nil {
		v.err = exit.Usagef("--%s: %v", v.Name, err)
	}
	return v.err
}

// Maybe is a value that may not have been given.
type Maybe[T any] struct {
	Set   bool // the flag was there
	Value T    // zero when it had no value
}

// Given is a value that was given.
func Given[T any](v T) Maybe[T] { return Maybe[T]{true, v} }

// Bool is a switch.
func Bool(p *bool, name, usage string) *Option {
	return &Option{Name: name, Usage: usage, Take: func(string, bool) error { *p = true; return nil }}
}

// Count counts how often it was given.
func Count(p *int, name, usage string) *Option {
	return &Option{Name: name, Usage: usage, Take: func(string, bool) error { *p++; return nil }}
}

// String takes a value; if there are several, the last one counts.
func String(p *Maybe[string], name, arg, usage string) *Option {
	return valued(p, name, arg, usage, func(s string) (string, error) { return s, nil })
}

// Text is String for what the store keeps as text: bytes that are not UTF-8 would become others.
func Text(p *Maybe[string], name, arg, usage string) *Option {
	return valued(p, name, arg, usage, utf8Text)
}

func utf8Text(s string) (string, error) {
	if !utf8.ValidString(s) {
		return "", errors.New("not UTF-8 text")
	}
	return s, nil
}

// Model takes a model; arg is MODEL or ID. An empty one, as a script writes whose variable is empty,
// is not the default one, which may be a dear one.
func Model(p *Maybe[string], arg, usage string) *Option {
	return valued(p, "model", arg, usage, func(s string) (string, error) {
		if s == "" {
			return "", errors.New("must be provider/model or an alias")
		}
		return s, nil
	}).Alias("m")
}

// valued takes a value that parse reads.
func valued[T any](p *Maybe[T], name, arg, usage string, parse func(string) (T, error)) *Option {
	return &Option{Name: name, Arg: arg, Usage: usage, Take: func(s string, _ bool) (err error) {
		p.Set = true
		p.Value, err = parse(s)
		return err
	}}
}

// maybe has an optional value that begins with a digit and that parse reads; bare is the value of
// the bare flag.
func maybe[T any](p *Maybe[T], name, arg, usage string, bare T, parse func(string) (T, error)) *Option {
	o := valued(p, name, arg, usage, parse)
	take := o.Take
	o.Maybe, o.Fits = true, func(word string) bool { return word != "" && word[0] >= '0' && word[0] <= '9' }
	o.Take = func(s string, given bool) error {
		if !given {
			*p = Maybe[T]{true, bare}
			return nil
		}
		return take(s, given)
	}
	return o
}

// Choice takes one of choices; p holds the default.
func Choice(p *string, name, arg string, choices []string, usage string) *Option {
	return &Option{Name: name, Arg: arg, Usage: usage, Choices: choices, Take: func(s string, _ bool) error {
		*p = s
		return nil
	}}
}

// List may be repeated; commas do not separate.
func List(p *[]string, name, arg, usage string) *Option {
	return &Option{Name: name, Arg: arg, Usage: usage, Take: func(s string, _ bool) error {
		*p = append(*p, s)
		return nil
	}}
}

// Texts is List with values as those of Text.
func Texts(p *[]string, name, arg, usage string) *Option {
	return &Option{Name: name, Arg: arg, Usage: usage, Take: func(s string, _ bool) error {
		s, err := utf8Text(s)
		*p = append(*p, s)
		return err
	}}
}

// Int takes a number of at least least.
func Int(p *Maybe[int], name, arg string, least int, usage string) *Option {
	return valued(p, name, arg, usage, func(s string) (int, error) { return number(s, least) })
}

// Tokens takes a number of tokens, or unlimited: nil.
func Tokens(p *Maybe[*int64], name, usage string) *Option {
	return amountFlag(p, name, "N", tokens, "a whole number of tokens", usage)
}

func tokens(s string) (int64, bool) {
	n, err := strconv.ParseUint(s, 10, 63)
	return int64(n), err == nil && len(s) <= 10
}

// Cost takes US dollars, in billionths, or unlimited: nil.
func Cost(p *Maybe[*int64], name, usage string) *Option {
	return amountFlag(p, name, "USD", kinds.Nano, "an amount of dollars such as 0.25", usage)
}

func amountFlag(p *Maybe[*int64], name, arg string, read func(string) (int64, bool), what, usage string) *Option {
	return valued(p, name, arg, usage+"; 0 allows none, unlimited removes the limit", func(s string) (*int64, error) {
		if s == kinds.Unlimited {
			return nil, nil
		}
		n, ok := read(s)
		if !ok {
			return nil, fmt.Errorf("%q is not %s, nor unlimited", s, what)
		}
		return &n, nil
	})
}

// Amount writes an amount in units of its last decimal, or "unlimited", as JSON.
func Amount(n *int64, decimals int) string {
	if n == nil {
		return `"unlimited"`
	}
	digits := fmt.Sprintf("%0*d", decimals+1, *n)
	if decimals == 0 {
		return digits
	}
	return digits[:len(digits)-decimals] + "." + digits[len(digits)-decimals:]
}

// Duration takes a positive duration.
func Duration(p *Maybe[time.Duration], name, arg, usage string) *Option {
	return valued(p, name, arg, usage, ParseDuration)
}

// StringMaybe has an optional value; fits reports whether a word that follows looks like it.
func StringMaybe(p *Maybe[string], name, arg string, fits func(word string) bool, usage string) *Option {
	o := String(p, name, arg, usage)
	o.Maybe, o.Fits = true, fits
	return o
}

// IntMaybe has an optional number; bare is the value of the bare flag.
func IntMaybe(p *Maybe[int], name, arg string, least, bare int, usage string) *Option {
	return maybe(p, name, arg, usage, bare, func(s string) (int, error) { return number(s, least) })
}

// DurationMaybe has an optional duration; bare is the value of the bare flag.
func DurationMaybe(p *Maybe[time.Duration], name, arg string, bare time.Duration, usage string) *Option {
	return maybe(p, name, arg, usage, bare, ParseDuration)
}

// Expiry is when something expires to which a person gives the life of an option; zero = never. It is
// in whole seconds, which no session of an editor is: those of older versions are known by that.
func Expiry(life Maybe[time.Duration]) time.Time {
	if !life.Set {
		return time.Time{}
	}
	return time.Now().Add(life.Value).Round(time.Second)
}

// Call passes each value to set, in the order of the command line. Without arg it is a switch, and
// set gets "".
func Call(name, arg, usage string, set func(value string) error) *Option {
	return &Option{Name: name, Arg: arg, Usage: usage, Take: func(s string, _ bool) error { return set(s) }}
}

func number(s string, least int) (int, error) {
	n, err := strconv.Atoi(s)
	switch {
	case err != nil:
		return 0, fmt.Errorf("%q is not a whole number", s)
	case n < least:
		return 0, fmt.Errorf("%d is less than %d", n, least)
	}
	return n, nil
}

// ParseDuration reads a positive duration, as period.Parse does.
func ParseDuration(s string) (time.Duration, error) {
	d, err := period.Parse(s)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%q is not a duration such as 90s, 1h30m or 7d", s)
	}
	return d, nil
}
