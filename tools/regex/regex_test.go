package regex_test

import (
	"context"
	"errors"
	"math"
	"reflect"
	"regexp"
	"regexp/syntax"
	"strings"
	"testing"
	"time"

	"jp/tools/regex"
)

func compile(t testing.TB, expr string) *regex.Regexp {
	tree, err := syntax.Parse(expr, syntax.Perl)
	if err != nil {
		t.Skip(err)
	}
	r, err := regex.Compile(tree)
	if err != nil {
		t.Fatalf("Compile(%q): %v", expr, err)
	}
	return r
}

// padded are expressions that find what expr finds, and of which so little text is searched at once
// that every text goes the long way. The second one keeps the prefix.
func padded(expr string) []string {
	nothing := strings.Repeat(`(?:[^\x00-\x{10FFFF}]{0,1000})`, 5)
	return []string{"(?:" + expr + ")|" + nothing + "x[^\\x00-\\x{10FFFF}]", "(?:" + expr + ")" + nothing}
}

// TestParse: the bounds, and what is just within them.
func TestParse(t *testing.T) {
	for _, test := range []struct{ expr, err string }{
		{`func \w+\(`, ""},
		{strings.Repeat("x", regex.MaxLength), ""},
		{strings.Repeat("x", regex.MaxLength+1), "is longer than 4096 bytes"},
		{`(?:a?){1000}[xy]`, ""},
		{strings.Repeat(`(?:a?){1000}`, 4) + "[xy]", "is too large: it compiles to more than 4000 states"},
		{strings.Repeat(`(?:(?:a{10}){10}){10}`, 5), "is too large: it compiles to more than 4000 states"},
		{`(?:a{100}){1000}`, "error parsing regexp: invalid repeat count: `{1000}`"},
		{`(?i)` + strings.Repeat("x", 4050), "is too large: it compiles to more than 4000 states"},
		{`(`, "error parsing regexp: missing closing ): `(`"},
	} {
		_, err := regex.Parse(test.expr, syntax.Perl)
		if got := errorText(err); got != test.err {
			t.Errorf("Parse(%.30q) = %q, want %q", test.expr, got, test.err)
		}
	}
}

// TestReplacementCharacter: a text with U+FFFD, which package regexp keeps out of its prefixes, is
// looked for as a whole. It also matches bytes that are not UTF-8.
func TestReplacementCharacter(t *testing.T) {
	for _, test := range []struct {
		expr, text string
		want       []int
	}{
		{"\uFFFD", "abc", nil}, {"\uFFFDx", "x", nil}, {"a\uFFFD", "aa", nil},
		{"a\uFFFD", "aa\uFFFD", []int{1, 5}}, {"a\uFFFDb", "aa\xffb", []int{1, 4}},
	} {
		r := compile(t, test.expr)
		if got, err := regex.Find(t.Context(), r, test.text); !reflect.DeepEqual(got, test.want) || err != nil {
			t.Errorf("Find(%q, %q) = %v, %v, want %v", test.expr, test.text, got, err, test.want)
		}
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestLongLines: what is matched with looks at the context is what package regexp finds.
func TestLongLines(t *testing.T) {
	for expr, texts := range table() {
		for _, text := range texts {
			check(t, expr, text)
		}
	}
}

func table() map[string][]string {
	return map[string][]string{
		"":           {"", "a", "äöü", "\xff\xfe"},
		"a":          {"", "banana", "xyz"},
		"a*":         {"", "baaac", "aaa", "ébaé"},
		"^a":         {"aa", "ba"},
		"(?m:^a)":    {"aa\na\nba"},
		"a$":         {"aa", "aab", "a\n"},
		`\bfoo\b`:    {"foo food foo", "xfoo foo", "éfoo foo"},
		`\B`:         {"ab cd", ""},
		`(a)(b)?`:    {"ab a ab"},
		`a|ab`:       {"abab"},
		`(?:a|ab)c?`: {"abcac"},
		`foo.`:       {"foo\xff foo\n foox", "foofoofoo"},
		`(?i)k`:      {"kK\u212Ax"},
		`é|.`:        {"aé\xc3b"},
		`\A.|\z`:     {"abc", ""},
		`x*?`:        {"xx"},
		`[^a]`:       {"a\xffb\uFFFD"},
	}
}

func FuzzLongLines(f *testing.F) {
	for expr, texts := range table() {
		for _, text := range texts {
			f.Add(expr, text)
		}
	}
	f.Fuzz(func(t *testing.T, expr, text string) {
		if _, err := regexp.Compile(expr); err != nil || len(expr) > 50 || len(text) > 400 {
			t.Skip()
		}
		check(t, expr, text)
	})
}

func check(t *testing.T, expr, text string) {
	t.Helper()
	want := regexp.MustCompile(expr).FindAllStringIndex(text, -1)
	if got, err := regex.Each(compile(t, expr), t.Context(), text, math.MaxInt); !reflect.DeepEqual(got, want) || err != nil {
		t.Errorf("each match of %q in %q = %v, %v, want %v", expr, text, got, err, want)
	}
	for _, expr := range padded(expr) {
		checkLong(t, expr, text)
	}
}

func checkLong(t *testing.T, expr, text string) {
	t.Helper()
	r := compile(t, expr)
	if r.Piece() > 0 {
		t.Fatalf("%q is searched in pieces of %d", expr, r.Piece())
	}
	plain := regexp.MustCompile(expr)
	want := plain.FindAllStringIndex(text, -1)
	if got, err := r.All(t.Context(), text, math.MaxInt); !reflect.DeepEqual(got, want) || err != nil {
		t.Errorf("All(%q, %q) = %v, %v, want %v", expr, text, got, err, want)
	}
	first := plain.FindStringIndex(text)
	if got, err := regex.Find(t.Context(), r, text); !reflect.DeepEqual(got, first) || err != nil {
		t.Errorf("Find(%q, %q) = %v, %v, want %v", expr, text, got, err, first)
	}
	if got, err := regex.Find(t.Context(), r, []byte(text)); !reflect.DeepEqual(got, first) || err != nil {
		t.Errorf("Find(%q, bytes %q) = %v, %v, want %v", expr, text, got, err, first)
	}
}

// TestEnds: the end of a context ends a match that would take hours.
func TestEnds(t *testing.T) {
	gone := errors.New("nobody waits")
	r := compile(t, strings.Repeat(`(?:a?){1000}`, 3)+"[xy]")
	text := strings.Repeat("a", 30<<20)
	for what, match := range map[string]func(context.Context) error{
		"All":  func(ctx context.Context) error { _, err := r.All(ctx, text, 1); return err },
		"Find": func(ctx context.Context) error { _, err := regex.Find(ctx, r, text); return err },
	} {
		ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, gone)
		if err := match(ctx); err != gone {
			t.Errorf("%s = %v, want %v", what, err, gone)
		}
		cancel()
	}

	// Neither does a text that is searched at once, where each of its matches takes a look at all
	// of it.
	r, text = compile(t, `a.*b|a`), strings.Repeat("a", 200_000)
	ctx, cancel := context.WithTimeoutCause(t.Context(), 50*time.Millisecond, gone)
	defer cancel()
	if all, err := r.All(ctx, text, 10_000); err != gone {
		t.Errorf("All of many matches = %d, %v, want %v", len(all), err, gone)
	}
}

// BenchmarkPiece is the longest time without a look at the context.
func BenchmarkPiece(b *testing.B) {
	r := compile(b, strings.Repeat(`(?:a?){330}`, 4)+"[xy]")
	text := strings.Repeat("a", r.Piece())
	for b.Loop() {
		if loc, err := regex.Find(b.Context(), r, text); loc != nil || err != nil {
			b.Fatal(loc, err)
		}
	}
}
