package template

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// plainWords are the words of a command without tags.
func plainWords(t testing.TB, words []Word) []string {
	t.Helper()
	out := []string{}
	for _, w := range words {
		s := ""
		for _, tok := range w.tokens {
			if tok.tag {
				s += "{{" + tok.text + "}}"
			} else {
				s += tok.text
			}
		}
		out = append(out, s)
	}
	return out
}

func TestSplitWords(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want []string
	}{
		{"", []string{}},
		{" \n\t ", []string{}},
		{"wc -w", []string{"wc", "-w"}},
		{"\n  wc -w  \n", []string{"wc", "-w"}},
		{"a '' \"\"", []string{"a", "", ""}},
		{`a 'b c' "d e" f\ g`, []string{"a", "b c", "d e", "f g"}},
		{`a 'it'\''s'`, []string{"a", "it's"}},
		{`a "\$x \" \\ \n"`, []string{"a", `$x " \ \n`}},
		{"a \\\n b", []string{"a", "b"}},
		{"a b\\\nc", []string{"a", "bc"}},
		{`a \*\?`, []string{"a", "*?"}},
		{`find . -exec echo {} \;`, []string{"find", ".", "-exec", "echo", "{}", ";"}},
		{"a b=c", []string{"a", "b=c"}},
		{"./a=b c", []string{"./a=b", "c"}},
		{"a x#y", []string{"a", "x#y"}},
		{"a x~", []string{"a", "x~"}},
		{"wc {{ x }}", []string{"wc", "{{ x }}"}},
		{"wc {{#if a.b}}x{{/if}}", []string{"wc", "{{#if a.b}}x{{/if}}"}},
		{`wc --f="{{x}}" '{{a["b c"]}}'`, []string{"wc", "--f={{x}}", `{{a["b c"]}}`}},
		{"grüße 'schön'", []string{"grüße", "schön"}},
	} {
		words, err := SplitWords(tt.in)
		if got := plainWords(t, words); err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("splitWords(%q) = %q, %v, want %q", tt.in, got, err, tt.want)
		}
	}
}

func TestSplitWordsRefuses(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"a | b", "line 1, column 3: | is shell syntax and means nothing here: quote it"},
		{"a && b", "line 1, column 3: & is shell syntax and means nothing here: quote it"},
		{"a; b", "line 1, column 2: ; is shell syntax and means nothing here: quote it"},
		{"a >b", "line 1, column 3: > is shell syntax and means nothing here: quote it"},
		{"(a)", "line 1, column 1: ( is shell syntax and means nothing here: quote it"},
		{"a $HOME", "line 1, column 3: $ is expanded by a shell and means nothing here: quote it"},
		{"a `b`", "line 1, column 3: ` is expanded by a shell and means nothing here: quote it"},
		{`a "$b"`, `line 1, column 4: $ is shell syntax, also in double quotes: write \$ or use single quotes`},
		{"a *.go", "line 1, column 3: * is a pattern to a shell and means nothing here: quote it"},
		{"a b[c", "line 1, column 4: [ is a pattern to a shell and means nothing here: quote it"},
		{"a {b,c}", "line 1, column 3: { begins a list to a shell and means nothing here: quote it"},
		{"a ~/b", "line 1, column 3: ~ is the home folder to a shell and means nothing here: quote it"},
		{"a #b", "line 1, column 3: # begins a comment to a shell and means nothing here: quote it"},
		{"A=b c", "line 1, column 2: = makes this an assignment to a shell and means nothing here: quote it"},
		{"A+=b c", "line 1, column 3: = makes this an assignment to a shell and means nothing here: quote it"},
		{"if a", "line 1, column 1: if is a shell keyword and means nothing here"},
		{"! a", "line 1, column 1: ! is a shell keyword and means nothing here"},
		{"a\nb", "line 2, column 1: a second line: a command is one line"},
		{"a 'b", "line 1, column 3: the quote ' is never closed"},
		{"ä \"b", "line 1, column 3: the quote \" is never closed"},
		{`a \`, `line 1, column 3: ends with \`},
		{"a {{b", "line 1, column 3: {{ is never closed"},
		{"a '{{b'", "line 1, column 4: {{ is never closed"},
		{"a\x00b", "line 1, column 1: holds a NUL byte"},
		{"a\rb", "line 1, column 2: a carriage return"},
	} {
		if _, err := SplitWords(tt.in); err == nil || err.Error() != tt.want {
			t.Errorf("splitWords(%q): %v, want %q", tt.in, err, tt.want)
		}
	}
}

// shellWords is how a shell splits src, if src is one simple command.
func shellWords(src string, lang syntax.LangVariant) ([]string, bool) {
	file, err := syntax.NewParser(syntax.Variant(lang)).Parse(strings.NewReader(src), "")
	if err != nil || len(file.Stmts) != 1 {
		return nil, false
	}
	call, ok := file.Stmts[0].Cmd.(*syntax.CallExpr)
	if !ok || len(call.Assigns) > 0 || len(file.Stmts[0].Redirs) > 0 || file.Stmts[0].Negated || file.Stmts[0].Background {
		return nil, false
	}
	fields, err := expand.Fields(&expand.Config{Env: expand.ListEnviron("HOME=/home/expanded")}, call.Args...)
	return fields, err == nil
}

// FuzzSplitWords: what is accepted means the same to a shell.
func FuzzSplitWords(f *testing.F) {
	for _, s := range []string{
		"wc -w", `a 'b c' "d\$e" f\ g`, "a \\\n b", "a {} b", "a b=c", "time a", "a x#y", "a !b", "{}", "a]", "a}b",
		"a :~ b", "--x=~", "a=b", "a^b", "a%b@c,d", "a '{{x}}'", "\"a\\\nb\"", "a\\\n", "=a", "a+=", "1=2", "ä=b",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, src string) {
		if strings.Contains(src, "{{") || !utf8.ValidString(src) {
			t.Skip()
		}
		if strings.Contains(src, `\\`+"\\\n") {
			t.Skip() // the reference takes the line break for text, bash and dash do not
		}
		words, err := SplitWords(src)
		if err != nil {
			return
		}
		got := plainWords(t, words)
		for _, lang := range []syntax.LangVariant{syntax.LangBash, syntax.LangPOSIX} {
			want, ok := shellWords(src, lang)
			if len(got) == 0 && !ok {
				continue // nothing at all is no command
			}
			if !ok || !slices.Equal(got, want) {
				t.Errorf("splitWords(%q) = %q, want %q (%v, simple command: %v)", src, got, want, lang, ok)
			}
		}
	})
}
