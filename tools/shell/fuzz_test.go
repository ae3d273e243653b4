package shell

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"jp/tools/template"
)

// No value changes the text that a shell reads, whatever text an author writes; and whatever is
// wrong with that is a TemplateError.
func FuzzShellRewrite(f *testing.F) {
	for _, p := range places() {
		f.Add(p.text(), "a", hostile[len(p.script)%len(hostile)], true)
	}
	for _, s := range []string{
		"f() { echo {{tool.arguments.x}}; }\ncat <<A <<'B'\n{{tool.arguments.x}}\nA\nb\nB\n", "echo $({{tool.arguments.x}}", "a=({{tool.arguments.x}})",
		"case {{tool.arguments.x}} in (a) echo \\\n{{tool.arguments.x}};; esac &", "[[ {{tool.arguments.x}} -nt a ]]", "${ {{tool.arguments.x}}; }",
		"{{#for e in tool.arguments.list}}{{#if e}}echo {{e}}\n{{else}}:\n{{/if}}{{/for}}", "`echo \\`echo {{tool.arguments.x}}\\``", "coproc x { echo {{tool.arguments.x}}; }",
		"echo {{\"{{\"}}tool.arguments.x}}", "Zjp0q0z {{tool.arguments.x}}", "x[{{tool.arguments.x}}]=1", "time -p echo {{tool.arguments.x}} |& cat >&2 2>/dev/null",
	} {
		f.Add(s, "'", "$(touch pwned)", false)
	}
	f.Fuzz(func(t *testing.T, text, a, b string, bash bool) {
		interpreter := "bash"
		if !bash {
			interpreter = "sh"
		}
		s, err := Parse("", text, interpreter)
		if err == nil {
			err = s.Check(Rules{})
		}
		if err != nil {
			var place *template.Error
			if !errors.As(err, &place) && len(text) <= maxScript && strings.TrimSpace(text) != "" {
				t.Errorf("%v, which has no position", err)
			}
			return
		}
		if a == "" || b == "" || !utf8.ValidString(a+b) {
			return
		}
		call := func(v string) *Call {
			// Different values in the same pattern have the same variables.
			c, err := s.Call(callData(map[string]any{"x": v, "y": v + "y", "list": []any{v + "1", v + "2"}}), Rules{}, t.TempDir())
			if err != nil {
				var value *template.ValueError
				var place *template.Error
				if !errors.As(err, &value) && !errors.As(err, &place) {
					t.Errorf("%q: %v", v, err)
				}
				return nil
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			return c
		}
		one, two := call(a), call(b)
		if one == nil || two == nil || len(one.Files)+len(two.Files) > 0 {
			return
		}
		if !slices.Equal(one.Args, two.Args) || len(one.Env) != len(two.Env) {
			t.Errorf("%q\n%q", one.Args, two.Args)
		}
		if strings.Contains(one.Args[len(one.Args)-2], s.mark) {
			t.Errorf("a token is left: %q", one.Args)
		}
	})
}

// Texts put together of what is allowed print the value, byte for byte, and nothing else happens.
func FuzzShellRun(f *testing.F) {
	for i, v := range hostile {
		if i%2 == 0 {
			f.Add([]byte{byte(i), byte(i / 2), byte(i * 7), byte(i * 3), byte(i * 5), 4, 2, 1}, v)
		}
	}
	bash := lookShell("bash")
	f.Fuzz(func(t *testing.T, shape []byte, value string) {
		if bash == "" {
			t.Skip("bash is not installed")
		}
		if strings.ContainsRune(value, 0) || !utf8.ValidString(value) || len(value) > 5000 || len(shape) > 40 {
			return
		}
		b := shellBuilder{shape: shape, value: value}
		text, want := b.statement(3)
		s, err := Parse("", text, "bash")
		if err == nil {
			err = s.Check(Rules{})
		}
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		c, err := s.Call(callData(map[string]any{"x": value}), Rules{}, t.TempDir())
		if err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		if got, errs := newTestShell(t).run(t, c, bash); got != want || errs != "" {
			t.Errorf("%s\nwith %q\n got %q\nwant %q\n%s", text, value, got, want, errs)
		}
	})
}

// shellBuilder makes texts, and what they print, of bytes.
type shellBuilder struct {
	shape []byte
	value string
	inner bool // inside $(...) or <(...), where no array may be
}

func (b *shellBuilder) next(n int) int {
	if len(b.shape) == 0 {
		return 0
	}
	c := b.shape[0]
	b.shape = b.shape[1:]
	return int(c) % n
}

const leafText = "{{tool.arguments.x}}"

// word is a word and its meaning.
func (b *shellBuilder) word(depth int) (text, want string) {
	n := 7
	if depth == 0 {
		n = 5
	}
	switch b.next(n) {
	case 1:
		return `"<` + leafText + `'>"`, "<" + b.value + "'>"
	case 2:
		return `'a"` + leafText + `$'`, `a"` + b.value + `$`
	case 3:
		return `$'\t` + leafText + `\''`, "\t" + b.value + "'"
	case 4:
		return `a\ ` + leafText + `\'`, "a " + b.value + "'"
	case 5:
		l, lw := b.word(depth - 1)
		r, rw := b.word(depth - 1)
		return l + r, lw + rw
	case 6:
		s, w := b.inside(depth - 1)
		return `"$( ` + s + "\nprintf .)\"", w + "."
	}
	return leafText, b.value
}

// inside is a statement for $(...) or <(...).
func (b *shellBuilder) inside(depth int) (text, want string) {
	outer := b.inner
	defer func() { b.inner = outer }()
	b.inner = true
	return b.statement(depth)
}

// statement is a text of its own and what it prints.
func (b *shellBuilder) statement(depth int) (text, want string) {
	n := 13
	if depth <= 0 {
		n, depth = 6, 0
	}
	w, ww := b.word(depth - min(depth, 1))
	kind := b.next(n)
	if kind == 5 && b.inner {
		kind = 0
	}
	switch kind {
	case 1:
		return "v=" + w + "\nprintf '%s' \"$v\"", ww
	case 2:
		return "for v in " + w + " x; do printf '%s,' \"$v\"; done", ww + ",x,"
	case 3:
		return "case " + w + " in\n*) printf '%s' " + w + " ;;\nesac", ww
	case 4:
		return "cat <<EOF\n" + leafText + "'\"\\$\nEOF", b.value + "'\"$\n"
	case 5:
		return "A=(x " + w + ")\nprintf '%s,' \"${A[@]}\"", "x," + ww + ","
	case 6:
		return "if [ " + w + " = " + w + " ]; then printf '%s' " + w + "\nfi", ww
	case 7:
		return "[[ " + w + " == " + w + " ]] && printf '%s' " + w, ww
	case 8:
		s, sw := b.statement(depth - 1)
		return "(\n" + s + "\n)", sw
	case 9:
		s, sw := b.statement(depth - 1)
		return "f() {\n" + s + "\n}\nf", sw
	case 10:
		s, sw := b.statement(depth - 1)
		return "{\n" + s + "\n} | cat", sw
	case 11:
		s, sw := b.statement(depth - 1)
		return "{{#if tool.name}}\n" + s + "\n{{else}}:{{/if}}", sw
	case 12:
		s, sw := b.inside(depth - 1)
		return "cat <(\n" + s + "\n)", sw
	}
	return "printf '%s' " + w, ww
}
