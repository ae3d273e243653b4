package cli

import (
	"cmp"
	"flag"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"jp/cmd/jp/internal/exit"
	"jp/tools/suggest"
)

// option is a flag of jp: a cli.Flag that writes straight into the options struct of its command. Commands make them with
// the constructors below. Its aliases are known to arrange only, which spells every flag by its name, so that the parser
// sees one name per flag and keeps the order of what was given.
type option struct {
	name    string
	short   []string               // other spellings, with one rune or several
	arg     string                 // what the value is called in help; "" = a switch, which takes none
	maybe   bool                   // the value may be left out, and is given with = only
	fits    func(word string) bool // of maybe: reports whether a word that follows looks like the value
	usage   string
	choices []string // the only values, for the check, the help and completion
	group   string   // the heading that help shows it under; "" = flags
	set     func(value string, given bool) error

	seen bool
	err  error // of set: package flag would keep its text only
}

// alias adds other spellings: one rune for -x, more for --xy.
func (o *option) alias(names ...string) *option {
	o.short = append(o.short, names...)
	return o
}

// grouped puts flags under a heading of the help.
func grouped(heading string, os ...*option) []*option {
	for _, o := range os {
		o.group = heading
	}
	return os
}

// flagGroup is flags under one heading.
type flagGroup struct {
	heading string
	options []*option
}

// groups sorts flags by heading, in the order in which these first come.
func groups(os []*option) []flagGroup {
	var out []flagGroup
	for _, o := range os {
		heading := cmp.Or(o.group, "flags")
		i := slices.IndexFunc(out, func(g flagGroup) bool { return g.heading == heading })
		if i < 0 {
			i, out = len(out), append(out, flagGroup{heading: heading})
		}
		out[i].options = append(out[i].options, o)
	}
	return out
}

// Names implements cli.Flag.
func (o *option) Names() []string { return []string{o.name} }

// IsSet implements cli.Flag.
func (o *option) IsSet() bool { return o.seen }

// Apply implements cli.Flag.
func (o *option) Apply(set *flag.FlagSet) error {
	set.Var((*optionValue)(o), o.name, o.usage)
	return nil
}

// String returns the flag as help shows it: -i, --id TARGET.
func (o *option) String() string {
	spellings := o.spellings()
	slices.SortStableFunc(spellings, func(a, b string) int { // -i before --id
		return cmp.Compare(min(len(a), 3), min(len(b), 3))
	})
	var b strings.Builder
	b.WriteString(strings.Join(spellings, ", "))
	switch {
	case o.arg == "":
	case o.maybe:
		b.WriteString("[=" + o.arg + "]")
	default:
		b.WriteString(" " + o.arg)
	}
	return b.String()
}

// spellings returns every spelling with its dashes, the name first.
func (o *option) spellings() []string {
	out := []string{"--" + o.name}
	for _, s := range o.short {
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

// optionValue is the flag.Value of an option. A switch and a left out value arrive as "", which arrange never lets through
// as a value of such a flag.
type optionValue option

func (v *optionValue) String() string { return "" }

func (v *optionValue) Set(s string) error {
	given := true
	if v.arg == "" || v.maybe {
		given = s != ""
	}
	v.seen = true
	if given && v.choices != nil && !slices.Contains(v.choices, s) {
		hint := "one of " + strings.Join(v.choices, ", ")
		if near := suggest.Closest(s, v.choices); near != "" {
			hint = "did you mean " + near + "?"
		}
		v.err = exit.Usagef("--%s: unknown value %q", v.name, s).WithHint("%s", hint)
		return v.err
	}
	if err := v.set(s, given); err != nil {
		v.err = exit.Usagef("--%s: %v", v.name, err)
	}
	return v.err
}

// maybe is a value that may not have been given.
type maybe[T any] struct {
	Set   bool // the flag was there
	Value T    // zero when it had no value
}

// boolFlag is a switch.
func boolFlag(p *bool, name, usage string) *option {
	return &option{name: name, usage: usage, set: func(string, bool) error { *p = true; return nil }}
}

// countFlag counts how often it was given.
func countFlag(p *int, name, usage string) *option {
	return &option{name: name, usage: usage, set: func(string, bool) error { *p++; return nil }}
}

// stringFlag takes a value; the last one counts.
func stringFlag(p *maybe[string], name, arg, usage string) *option {
	return &option{name: name, arg: arg, usage: usage, set: func(s string, _ bool) error {
		*p = maybe[string]{true, s}
		return nil
	}}
}

// choiceFlag takes one of choices; p holds the default.
func choiceFlag(p *string, name, arg string, choices []string, usage string) *option {
	return &option{name: name, arg: arg, usage: usage, choices: choices, set: func(s string, _ bool) error {
		*p = s
		return nil
	}}
}

// listFlag may be repeated; commas do not separate.
func listFlag(p *[]string, name, arg, usage string) *option {
	return &option{name: name, arg: arg, usage: usage, set: func(s string, _ bool) error {
		*p = append(*p, s)
		return nil
	}}
}

// intFlag takes a number of at least least.
func intFlag(p *maybe[int], name, arg string, least int, usage string) *option {
	return &option{name: name, arg: arg, usage: usage, set: func(s string, _ bool) error {
		n, err := number(s, least)
		*p = maybe[int]{true, n}
		return err
	}}
}

// tokensFlag takes a number of tokens, or unlimited: nil.
func tokensFlag(p *maybe[*int64], name, usage string) *option {
	return amountFlag(p, name, "N", 0, "a whole number of tokens", usage)
}

// costFlag takes US dollars, in billionths, or unlimited: nil.
func costFlag(p *maybe[*int64], name, usage string) *option {
	return amountFlag(p, name, "USD", 9, "an amount of dollars such as 0.25", usage)
}

func amountFlag(p *maybe[*int64], name, arg string, decimals int, what, usage string) *option {
	return &option{name: name, arg: arg, usage: usage + "; unlimited lifts the limit, 0 is none", set: func(s string, _ bool) error {
		*p = maybe[*int64]{Set: true}
		if s == "unlimited" {
			return nil
		}
		n, ok := fixed(s, decimals)
		if !ok {
			return fmt.Errorf("%q is not %s, nor unlimited", s, what)
		}
		p.Value = &n
		return nil
	}}
}

// fixed reads a decimal number that is not negative, in units of its last decimal; more decimals than that are refused.
func fixed(s string, decimals int) (int64, bool) {
	whole, frac, point := strings.Cut(s, ".")
	if point && frac == "" || len(frac) > decimals || len(whole) > 10 || whole == "" && frac == "" ||
		strings.Trim(whole+frac, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.ParseInt(whole+frac+strings.Repeat("0", decimals-len(frac)), 10, 64)
	return n, err == nil
}

// amount writes what fixed has read, or "unlimited" as JSON has it.
func amount(n *int64, decimals int) string {
	if n == nil {
		return `"unlimited"`
	}
	digits := fmt.Sprintf("%0*d", decimals+1, *n)
	if decimals == 0 {
		return digits
	}
	return digits[:len(digits)-decimals] + "." + digits[len(digits)-decimals:]
}

// durationFlag takes a positive duration.
func durationFlag(p *maybe[time.Duration], name, arg, usage string) *option {
	return &option{name: name, arg: arg, usage: usage, set: func(s string, _ bool) error {
		d, err := parseDuration(s)
		*p = maybe[time.Duration]{true, d}
		return err
	}}
}

// stringMaybe has an optional value; fits reports whether a word that follows looks like it.
func stringMaybe(p *maybe[string], name, arg string, fits func(word string) bool, usage string) *option {
	o := stringFlag(p, name, arg, usage)
	o.maybe, o.fits = true, fits
	return o
}

// intMaybe has an optional number; bare is the value of the bare flag.
func intMaybe(p *maybe[int], name, arg string, least, bare int, usage string) *option {
	return &option{name: name, arg: arg, maybe: true, fits: beginsWithDigit, usage: usage, set: func(s string, given bool) error {
		if !given {
			*p = maybe[int]{true, bare}
			return nil
		}
		n, err := number(s, least)
		*p = maybe[int]{true, n}
		return err
	}}
}

func beginsWithDigit(word string) bool { return word != "" && word[0] >= '0' && word[0] <= '9' }

// durationMaybe has an optional duration; bare is the value of the bare flag.
func durationMaybe(p *maybe[time.Duration], name, arg string, bare time.Duration, usage string) *option {
	return &option{name: name, arg: arg, maybe: true, fits: beginsWithDigit, usage: usage, set: func(s string, given bool) error {
		if !given {
			*p = maybe[time.Duration]{true, bare}
			return nil
		}
		d, err := parseDuration(s)
		*p = maybe[time.Duration]{true, d}
		return err
	}}
}

// callFlag hands each value to set, in the order of the command line. Without arg it is a switch, and set gets "".
func callFlag(name, arg, usage string, set func(value string) error) *option {
	return &option{name: name, arg: arg, usage: usage, set: func(s string, _ bool) error { return set(s) }}
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

// parseDuration reads Go's durations and, before them, weeks and days: 90s, 1h30m, 7d, 2w, 1d12h.
func parseDuration(s string) (time.Duration, error) {
	bad := fmt.Errorf("%q is not a duration such as 90s, 1h30m or 7d", s)
	rest, total := s, time.Duration(0)
	for _, unit := range []struct {
		letter byte
		length time.Duration
	}{{'w', 7 * 24 * time.Hour}, {'d', 24 * time.Hour}} {
		digits := strings.TrimLeft(rest, "0123456789")
		if digits == rest || digits == "" || digits[0] != unit.letter {
			continue
		}
		n, err := strconv.ParseInt(rest[:len(rest)-len(digits)], 10, 32)
		if err != nil || n > int64(1<<62/unit.length) {
			return 0, bad
		}
		total += time.Duration(n) * unit.length
		rest = digits[1:]
	}
	if rest != "" {
		d, err := time.ParseDuration(rest)
		if err != nil || d < 0 {
			return 0, bad
		}
		total += d
	}
	if total <= 0 {
		return 0, bad
	}
	return total, nil
}
