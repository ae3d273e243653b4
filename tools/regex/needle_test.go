package regex

import (
	"bytes"
	"regexp/syntax"
	"strings"
	"testing"
)

// TestNeedles says which texts are looked for in place of an expression.
func TestNeedles(t *testing.T) {
	for expr, want := range map[string]string{
		"":                      "",
		"find":                  "find",
		"Find":                  "Find",
		"(?i)Find":              "find",
		"a.b":                   "b",
		"abc.de":                "abc",
		"(ab|xy)z+":             "z",
		"one|two|three":         "one wo hree", // t(?:wo|hree)
		"one|.":                 "",
		"a?b*":                  "",
		"(?:hello){2,}":         "hello",
		"(?:hello){0,2}":        "",
		"a|b|c[de]|f.g|h.|i.|j": "",
		"x1|x2|x3|x4|x5|x6|x7":  "x",
		"一二三四五六七八九十一二":          "一二三四五六七八九十\xe4\xb8",
		"(?i)一二三四五六七八九十一二": "一二三四五六七八九十\xe4\xb8",
	} {
		tree, err := syntax.Parse(expr, syntax.Perl)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, n := range Needles(tree.Simplify(), func(text string, _ bool) []string { return []string{text} }) {
			got = append(got, string(n.text))
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("Needles(%q) = %q, want %q", expr, got, want)
		}
	}
}

// TestNeedlesCut chooses among the parts of a text.
func TestNeedlesCut(t *testing.T) {
	tree, err := syntax.Parse("the zigzag of it", syntax.Perl)
	if err != nil {
		t.Fatal(err)
	}
	var all []Needle
	for _, cut := range []func(string, bool) []string{
		func(text string, _ bool) []string { return strings.Fields(text) },
		func(string, bool) []string { return nil },
		func(string, bool) []string { return []string{"", ""} },
	} {
		all = append(all, Needles(tree, cut)...)
	}
	if len(all) != 1 || string(all[0].text) != "zigzag" {
		t.Errorf("Needles = %+v, want zigzag", all)
	}
}

// FuzzNeedle compares Index with a search that goes place by place.
func FuzzNeedle(f *testing.F) {
	f.Add("find", []byte("a needle to Find and find"), false)
	f.Add("Find", []byte("a needle to fIND and find"), true)
	f.Add("e ", []byte(strings.Repeat("eeee e", 20)), false)
	f.Add("{`K", []byte(strings.Repeat("[@k{`k", 20)), true)
	f.Add("zz", []byte("z"), false)
	f.Add("ü", []byte("\xc3\x9c\xc3\xbc"), true)
	f.Fuzz(func(t *testing.T, text string, data []byte, fold bool) {
		if text == "" {
			return
		}
		n := newNeedle(text, fold)
		text = text[:min(len(text), maxNeedle)]
		same := func(a []byte) bool { return string(a) == text }
		if fold {
			same = func(a []byte) bool { return string(lower(a)) == string(lower([]byte(text))) }
		}
		want := -1
		for i := 0; i+len(text) <= len(data) && want < 0; i++ {
			if same(data[i : i+len(text)]) {
				want = i
			}
		}
		if got := n.Index(data); got != want {
			t.Errorf("Index of %q (fold %v) in %q = %d, want %d", text, fold, data, got, want)
		}
	})
}

// lower returns a copy with ASCII letters in lower case.
func lower(s []byte) []byte {
	s = bytes.Clone(s)
	for i, c := range s {
		if 'A' <= c && c <= 'Z' {
			s[i] += 'a' - 'A'
		}
	}
	return s
}
