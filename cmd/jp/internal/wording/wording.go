// Package wording has the few rules by which jp words what it prints.
package wording

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"jp/tools/unseen"
)

// Either returns a if yes, else b.
func Either[T any](yes bool, a, b T) T {
	if yes {
		return a
	}
	return b
}

// Plural returns n and a noun that takes an s: "1 call", "2 calls".
func Plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// Dollars returns an amount in billionths of a dollar for people, with two digits that matter:
// "$0.0042", "$1.50". Nil is an amount that is not known: "?".
func Dollars(nano *int64) string {
	switch {
	case nano == nil:
		return "?"
	case *nano == 0:
		return "$0"
	case *nano < 1e7 && *nano > -1e7:
		short, _ := strconv.ParseFloat(strconv.FormatFloat(float64(*nano)/1e9, 'e', 1, 64), 64) // a number that was just written
		return "$" + strconv.FormatFloat(short, 'f', -1, 64)
	}
	return fmt.Sprintf("$%.2f", float64(*nano)/1e9)
}

// Repeated returns a flag with each of its values for a command line in a hint, unless that is too
// long for one: then it returns "" and that it does not fit.
func Repeated(flag string, values []string) (text string, fits bool) {
	for _, value := range values {
		text += flag + ShellWord(value)
	}
	const most = 200 // bytes, which is about two lines of a terminal
	return Either(len(text) <= most, text, ""), len(text) <= most
}

// ShellWord returns s as one word of a command line that a person may paste into a shell: in single
// quotes if it needs any, because in double quotes a shell still runs what is in `$(...)`. If a part
// of s would not show, or not be the same on a terminal, all of it is spelled, in the quotes $'...'
// of bash, zsh and ksh: otherwise a terminal would leave the part out, with quotes that it takes along.
func ShellWord(s string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=,@%+", r)
	}
	switch {
	case s != "" && !strings.ContainsFunc(s, func(r rune) bool { return !plain(r) }):
		return s
	case utf8.ValidString(s) && unseen.Spell(s) == s:
		return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
	}
	var b strings.Builder
	for i, n := 0, 0; i < len(s); i += n {
		var r rune
		r, n = utf8.DecodeRuneInString(s[i:])
		if unseen.Shows(r) && r != '\'' && r != '\\' && !(r == utf8.RuneError && n == 1) {
			b.WriteRune(r)
			continue
		}
		for _, c := range []byte(s[i : i+n]) {
			fmt.Fprintf(&b, `\%03o`, c)
		}
	}
	return "$'" + b.String() + "'"
}
