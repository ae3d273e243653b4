package shell

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// hostile are values that a shell would do something with, were they its text. What they would do
// is make a file called pwned.
var hostile = []string{
	"", "plain", "a b", " a  b ", "'", `"`, `'"'"'`, "`touch pwned`", "$(touch pwned)", "${IFS}", "$HOME", "$0 $@ $$", "${JP_ARG_0}",
	"; touch pwned", "&& touch pwned", "| touch pwned", "> pwned", ">pwned", "& touch pwned &", "'; touch pwned; '", `"; touch pwned; "`,
	`\`, `\\`, `\'; touch pwned #`, `\"; touch pwned #`, `a\`, `\n\x41\c`, "\n touch pwned\n", "EOF\ntouch pwned\nEOF\n", "\tEOF\n\ttouch pwned",
	"a[$(touch pwned)]", "x[$(touch pwned)]=1", "[$(touch pwned)]=1", "[0]=1", "*", "?", "[a-z]*", "~", "~root", "{a,b}", "{1..3}", "!!", "!(x)", "@(a|b)",
	"#c", "=", "(", ")", "!", "]", "]] && touch pwned; [[ a", ") touch pwned; (", ";; *) touch pwned ;;", "done; touch pwned", "}; touch pwned; {",
	"<(touch pwned)", "$((a[$(touch pwned)]))", "a\n\n", "\r\n", "\x01\x7f\x1b[0m", "é\u0081\u0082\u0083\u0088\u00a0", "%s%n%d", "() { :; }; touch pwned",
	"in", "esac", "x=1", strings.Repeat("ab'\"$", 2000),
}

// shellPlace is a place for values and what its text prints for one.
type shellPlace struct {
	bash, dash bool
	script     string // @ is the placeholder
	want       string // @ is the value
}

const (
	inBoth = iota
	inBash
)

func places() []shellPlace {
	var out []shellPlace
	add := func(in int, script, want string) {
		out = append(out, shellPlace{bash: true, dash: in == inBoth, script: script, want: want})
	}
	add(inBoth, `printf '%s' @`, "@")
	add(inBoth, `printf '%s' "@"`, "@")
	add(inBoth, `printf '%s' '@'`, "@")
	add(inBash, `printf '%s' $'@'`, "@")
	add(inBash, `printf '%s' $'\ta@\'b@\\'`, "\ta@'b@\\")
	add(inBoth, `printf '%s' a@b"c@d"'e@f'@@`, "a@bc@de@f@@")
	add(inBoth, `printf '%s' "it's <@>, \"@\" $ \$@"`, `it's <@>, "@" $ $@`)
	add(inBoth, `printf '%s' \\@ "\\@" '\@'`, `\@\@\@`)
	add(inBoth, `printf '%s' ~@ *@`, "~@*@")
	add(inBash, `printf '<%s>' {a,@}`, "<a><@>")
	add(inBoth, `printf -- '%s|%s' @ @`, "@|@")
	add(inBoth, `x=@; printf '%s' "$x"`, "@")
	add(inBoth, `x="<@>" y='@'`+"\n"+`printf '%s' "$x$y"`, "<@>@")
	add(inBoth, `QUERY="@"; printf '%s' "$QUERY"`, "@")
	add(inBash, `x=a; x+=@; printf '%s' "$x"`, "a@")
	add(inBash, `A=(); A+=(--cfg "@"); printf '<%s>' "${A[@AT]}"`, "<--cfg><@>")
	add(inBash, `A=(@ z '@'); printf '<%s>' "${A[@AT]}"`, "<@><z><@>")
	add(inBash, `declare -a A; A=(@); printf '<%s>' "${A[@AT]}" "${#A[@AT]}"`, "<@><1>")
	add(inBoth, "cat <<EOF\n<@>\nEOF\n", "<@>\n")
	add(inBoth, "cat <<-EOF\n\t<@>\n\tEOF\n", "<@>\n")
	add(inBoth, "cat <<EOF; printf '%s' \"@\"\n$(printf '%s' \"@\" | tr -d '\\n\\r\\t')'@'\"\\$@\nEOF\n", "")
	add(inBash, `cat <<< @`, "@\n")
	add(inBash, `cat <<< "<@>"`, "<@>\n")
	add(inBash, `IFS= read -r -d '' line <<< '@' || printf '%s' "$line"`, "@\n")
	add(inBoth, `for f in a @ "b@"; do printf '<%s>' "$f"; done`, "<a><@><b@>")
	add(inBoth, `case @ in *) printf '%s' "@";; esac`, "@")
	add(inBoth, `case "x@" in x) printf empty;; x*) printf '%s' @;; esac`, "")
	add(inBoth, `[ "@" = "@" ] && printf '%s' @`, "@")
	add(inBoth, `[ ! "@" != '@' ] && printf '%s' @`, "@")
	add(inBoth, `[ -n "x@" ] && [ x@ = "x@" ] && printf '%s' @`, "@")
	add(inBoth, `test -e "no/@" || printf '%s' @`, "@")
	add(inBoth, `test ! -d "no/@" && printf '%s' @`, "@")
	add(inBoth, `if [ @ ]; then printf full; else printf empty; fi`, "")
	add(inBash, `[[ @ == @ ]] && printf '%s' @`, "@")
	add(inBash, `[[ "a@" != b* && -n x@ && ! -e no/@ ]] && printf '%s' @`, "@")
	add(inBash, `[[ a@b == a"@"* ]] && printf '%s' @`, "@")
	add(inBoth, `printf '%s' "$(printf '%s' "@"; printf .)"`, "@.")
	add(inBoth, `x=$(printf '%s' "$(printf '<%s>' '@')"); printf '%s' "$x"`, "<@>")
	add(inBash, `cat <(printf '%s' @)`, "@")
	add(inBoth, `f() { printf '%s' "@"; }; f`, "@")
	add(inBoth, `if true; then { printf '%s' @; } fi | cat`, "@")
	add(inBoth, `(while :; do printf '%s' @; break; done) 2>&1`, "@")
	add(inBoth, `show -- @`, "<--><@>")
	add(inBoth, `show --q=@ "a @" 'b @'`, "<--q=@><a @><b @>")
	add(inBoth, `show x "$(printf %s "@"; printf .)"`, "<x><@.>")
	add(inBoth, `v=@ showenv`, "@")
	add(inBoth, `printf '%s' "{{#if tool.arguments.x}}<@>{{/if}}"`, "")
	add(inBoth, "{{#for e in tool.arguments.list}}\nprintf '<%s>' {{e}} \"{{e}}\"\n{{/for}}", "<@><@><-@><-@>")
	add(inBoth, `printf '<%s>' {{#for e in tool.arguments.list}}"{{e}}" {{/for}} end`, "<@><-@><end>")
	add(inBoth, "cat <<EOF\n{{#for e in tool.arguments.list}}{{e}}|{{/for}}\nEOF", "@|-@|\n")
	return out
}

// expected is what the text prints for value; the few whose output is more than its pattern are
// told apart by their text.
func (p shellPlace) expected(value string) string {
	empty := value == ""
	switch {
	case strings.HasPrefix(p.script, "cat <<EOF; printf"):
		clean := strings.NewReplacer("\n", "", "\r", "", "\t", "").Replace(value)
		return clean + "'" + value + `'"$` + value + "\n" + value
	case strings.HasPrefix(p.script, `case "x@"`) && empty, strings.HasPrefix(p.script, "if [ @ ]") && empty:
		return "empty"
	case strings.HasPrefix(p.script, `case "x@"`):
		return value
	case strings.HasPrefix(p.script, "if [ @ ]"):
		return "full"
	case strings.Contains(p.script, "{{#if") && empty:
		return ""
	case strings.Contains(p.script, "{{#if"):
		return "<" + value + ">"
	}
	return strings.ReplaceAll(p.want, "@", value)
}

// text is the shell text, its placeholders written out.
func (p shellPlace) text() string {
	s := strings.ReplaceAll(p.script, "@AT", "\x00")
	return strings.ReplaceAll(strings.ReplaceAll(s, "@", "{{tool.arguments.x}}"), "\x00", "@")
}

// testShell is a shell to run texts in.
type testShell struct {
	dir, bin string
}

func newTestShell(t testing.TB) testShell {
	sh := testShell{t.TempDir(), t.TempDir()}
	for name, text := range map[string]string{
		"show":    "#!/bin/sh\nprintf '<%s>' \"$@\"\n",
		"showenv": "#!/bin/sh\nprintf '%s' \"$v\"\n",
	} {
		if err := os.WriteFile(filepath.Join(sh.bin, name), []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return sh
}

// run runs a call directly, as shell when that is given.
func (sh testShell) run(t testing.TB, c *Call, shell string) (stdout, stderr string) {
	t.Helper()
	if shell != "" {
		c.Path = shell
	}
	cmd := exec.Command(c.Path, c.Args[1:]...)
	cmd.Dir = sh.dir
	cmd.Env = append([]string{"PATH=" + sh.bin + ":/usr/bin:/bin", "HOME=/nowhere", "LANG=C.UTF-8"}, c.Env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	// A text may well end with a status of its own.
	_ = cmd.Run()
	if entries, err := os.ReadDir(sh.dir); err != nil || len(entries) != 0 {
		t.Fatalf("%q made files: %v %v", c.Args, entries, err)
	}
	return out.String(), errs.String()
}

// Every value arrives byte for byte at every place, and nothing in it is done.
func TestShellPlaces(t *testing.T) {
	bash, dash := lookShell("bash"), lookShell("dash")
	if bash == "" || dash == "" {
		t.Logf("bash: %q, dash: %q: what is missing is not tested", bash, dash)
	}
	done := make(chan int, 2)
	for _, shell := range []string{"bash", "dash"} {
		path, interpreter := bash, "bash"
		if shell == "dash" {
			path, interpreter = dash, "sh"
		}
		t.Run(shell, func(t *testing.T) {
			if path == "" {
				t.Skip(shell + " is not installed")
			}
			t.Parallel()
			n := 0
			sh := newTestShell(t)
			for i, p := range places() {
				if shell == "dash" && !p.dash {
					continue
				}
				s, err := Parse("", p.text(), interpreter)
				if err == nil {
					err = s.Check(Rules{})
				}
				if err != nil {
					t.Errorf("%s: %v", p.script, err)
					continue
				}
				for j, v := range hostile {
					// Between them they have every pair, in half the time.
					if p.dash && dash != "" && (i+j)%2 == 0 == (shell == "bash") {
						continue
					}
					list := []any{v, "-" + v}
					c, err := s.Call(callData(map[string]any{"x": v, "list": list}), Rules{}, "")
					if err != nil {
						t.Errorf("%s with %q: %v", p.script, v, err)
						continue
					}
					if got, errs := sh.run(t, c, path); got != p.expected(v) || errs != "" {
						t.Errorf("%s with %q\n got %q\nwant %q\n%s\n%s", p.script, v, got, p.expected(v), errs, c.Args[len(c.Args)-2])
					}
					n++
				}
			}
			done <- n
			if n < 500 {
				t.Errorf("only %d combinations", n)
			}
		})
	}
	t.Cleanup(func() {
		close(done)
		total := 0
		for n := range done {
			total += n
		}
		t.Logf("%d combinations", total)
	})
}

// lookShell is the path of a shell; "" when it is not installed.
func lookShell(name string) string {
	path, err := exec.LookPath(name)
	if err != nil {
		return ""
	}
	return path
}
