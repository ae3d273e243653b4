package tools

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"jp/tools/brief"
	"jp/tools/template"
)

// fromTable makes a command line of { program, args }.
func fromTable(program string, args ...string) (CommandLine, error) {
	return parseCommandTable(program, args)
}

// data has these arguments, where nil stands for one that was not given.
func data(args map[string]any) map[string]any {
	all := map[string]any{}
	for k, v := range args {
		if all[k] = v; v == nil {
			all[k] = template.Omitted
		}
	}
	return map[string]any{
		"tool":    map[string]any{"name": "t", "arguments": all, "options": map[string]any{"flag": "-v"}},
		"context": map[string]any{"workspace": "/w"},
	}
}

func TestRenderText(t *testing.T) {
	for _, tt := range []struct {
		command string
		args    map[string]any
		want    []string
	}{
		{"echo a 'b c'", nil, []string{"a", "b c"}},
		{"echo {{tool.arguments.x}}", map[string]any{"x": "a b; $(c) 'd' \"e\" \n*"}, []string{"a b; $(c) 'd' \"e\" \n*"}},
		{"echo {{tool.arguments.x}}", map[string]any{"x": ""}, []string{""}},
		{"echo {{tool.arguments.x}}{{tool.arguments.y}}", map[string]any{"x": "a ", "y": " b"}, []string{"a  b"}},
		// In this form one placeholder is always one argument.
		{"echo {{tool.arguments.x}}", map[string]any{"x": []any{"a", "b"}}, []string{`["a","b"]`}},
		{"echo {{#if tool.arguments.x}}y{{/if}} z", map[string]any{"x": nil}, []string{"", "z"}},
		{"echo --n={{tool.arguments.x}} {{context.workspace}}", map[string]any{"x": "-1"}, []string{"--n=-1", "/w"}},
		{"echo -- {{tool.arguments.x}}", map[string]any{"x": "-rf"}, []string{"--", "-rf"}},
		{"echo {{tool.options.flag}} x", nil, []string{"-v", "x"}},
		{"echo '{{tool.arguments.x}}' \"{{tool.arguments.x}}\"", map[string]any{"x": "'\"$"}, []string{"'\"$", "'\"$"}},
	} {
		c, err := parseCommandText(tt.command)
		if err != nil {
			t.Errorf("%s: %v", tt.command, err)
			continue
		}
		if got, err := c.render(data(tt.args), nil); err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%s with %v = %q, %v, want %q", tt.command, tt.args, got, err, tt.want)
		}
	}
}

func TestRenderTable(t *testing.T) {
	list := []any{"a", "b c", ""}
	for _, tt := range []struct {
		args   []string
		values map[string]any
		want   []string
	}{
		{[]string{"", "a b"}, nil, []string{"", "a b"}},
		{[]string{"{{tool.arguments.x}}"}, map[string]any{"x": list}, []string{"a", "b c", ""}},
		{[]string{"{{tool.arguments.x}}"}, map[string]any{"x": []any{}}, nil},
		{[]string{"{{tool.arguments.x}}"}, map[string]any{"x": "one"}, []string{"one"}},
		{[]string{"x{{tool.arguments.x}}"}, map[string]any{"x": []any{"a"}}, []string{`x["a"]`}},
		{[]string{"{{#if tool.arguments.x}}-n{{/if}}", "z"}, map[string]any{"x": nil}, []string{"z"}},
		{[]string{"{{#if tool.arguments.x}}-n{{/if}}", "z"}, map[string]any{"x": "y"}, []string{"-n", "z"}},
		{[]string{"{{#if tool.arguments.x}}{{tool.arguments.x}}{{else}}none{{/if}}"}, map[string]any{"x": list}, []string{"a", "b c", ""}},
		{[]string{"{{#if tool.arguments.x}}{{tool.arguments.x}}{{else}}none{{/if}}"}, map[string]any{"x": nil}, []string{"none"}},
		{[]string{"{{#for e in tool.arguments.x}}--e={{e}}{{/for}}"}, map[string]any{"x": list}, []string{"--e=a", "--e=b c", "--e="}},
		{[]string{"{{#for e in tool.arguments.x}}--e={{e}}{{/for}}"}, map[string]any{"x": nil}, nil},
		{[]string{"{{#for e in tool.arguments.x}}{{#if e}}{{e}}{{/if}}{{/for}}"}, map[string]any{"x": list}, []string{"a", "b c"}},
		{[]string{"<{{#for e in tool.arguments.x}}{{e}},{{/for}}>"}, map[string]any{"x": list}, []string{"<a,b c,,>"}},
		{[]string{"--", "{{tool.arguments.x}}"}, map[string]any{"x": []any{"-a", "--"}}, []string{"--", "-a", "--"}},
	} {
		c, err := fromTable("echo", tt.args...)
		if err != nil {
			t.Errorf("%q: %v", tt.args, err)
			continue
		}
		if got, err := c.render(data(tt.values), nil); err != nil || !slices.Equal(got, tt.want) {
			t.Errorf("%q with %v = %q, %v, want %q", tt.args, tt.values, got, err, tt.want)
		}
	}
}

// A value never becomes an option, NUL never a shorter argument.
func TestRenderRefuses(t *testing.T) {
	dash := func(name, value string) string {
		return `argument "` + name + `" must not start with '-': "` + value + `" would be an option, not a value`
	}
	for _, tt := range []struct {
		args   []string
		values map[string]any
		want   string
	}{
		{[]string{"{{tool.arguments.x}}"}, map[string]any{"x": "-rf"}, dash("x", "-rf")},
		{[]string{"{{tool.arguments.x}}"}, map[string]any{"x": "-"}, dash("x", "-")},
		{[]string{"{{tool.arguments.x}}"}, map[string]any{"x": []any{"a", "--b"}}, dash("x", "--b")},
		{[]string{"{{tool.arguments.x}}.txt"}, map[string]any{"x": "-o"}, dash("x", "-o.txt")},
		{[]string{"{{tool.arguments.x}}{{tool.arguments.y}}"}, map[string]any{"x": "", "y": "-y"}, dash("y", "-y")},
		{[]string{"{{tool.arguments.x}}{{tool.arguments.y}}"}, map[string]any{"x": "-", "y": "-y"}, dash("x", "--y")},
		{[]string{"{{#for e in tool.arguments.x}}{{e}}{{/for}}"}, map[string]any{"x": []any{"-e"}}, dash("x", "-e")},
		{[]string{"{{#for e in tool.arguments.x}}{{e.k}}{{/for}}"}, map[string]any{"x": []any{map[string]any{"k": "-e"}}}, dash("x", "-e")},
		{[]string{"{{#if tool.arguments.y}}--{{/if}}", "{{tool.arguments.x}}"}, map[string]any{"x": "-e", "y": nil}, dash("x", "-e")},
		// A -- that is a value ends nothing.
		{[]string{"{{tool.arguments.y}}", "{{tool.arguments.x}}"}, map[string]any{"x": "-e", "y": "--"}, dash("y", "--")},
		{[]string{"-{{tool.arguments.y}}", "{{tool.arguments.x}}"}, map[string]any{"x": "-e", "y": "-"}, dash("x", "-e")},
		{[]string{"{{tool.arguments.x}}", "--"}, map[string]any{"x": "-e"}, dash("x", "-e")},
		{[]string{"a{{tool.arguments.x}}"}, map[string]any{"x": "b\x00c"}, `argument "x" holds a NUL byte`},
		{[]string{"a{{tool.arguments.x}}"}, map[string]any{"x": strings.Repeat("a", maxArgument)}, `argument "x" is too long: an argument of a program is at most 131 KB`},
		{[]string{"{{tool.arguments.x}}"}, map[string]any{"x": nil}, "line 1, column 1: tool.arguments.x was not given; ask for it with {{#if tool.arguments.x}}"},
		{[]string{"{{tool.arguments.x}}"}, map[string]any{"x": []any{nil}}, "line 1, column 1: tool.arguments.x holds null"},
	} {
		c, err := fromTable("echo", tt.args...)
		if err != nil {
			t.Errorf("%q: %v", tt.args, err)
			continue
		}
		got, err := c.render(data(tt.values), nil)
		if err == nil || err.Error() != tt.want {
			t.Errorf("%q = %q, %v, want %s", tt.args, got, err, brief.Shorten(tt.want, 100))
		}
	}
	c, err := fromTable("echo", "{{tool.arguments.x}}")
	if err != nil {
		t.Fatal(err)
	}
	if got, err := c.render(data(map[string]any{"x": "-rf"}), map[string]bool{"x": true}); err != nil || !slices.Equal(got, []string{"-rf"}) {
		t.Errorf("with allow_dash = %q, %v", got, err)
	}
}

func TestCommandRefuses(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"", "is empty"},
		{"{{tool.arguments.x}} a", "program: a placeholder cannot choose what runs"},
		{"a{{tool.arguments.x}} a", "program: a placeholder cannot choose what runs"},
		{"'' a", `program: "" is no program`},
		{"bin/ a", `program: "bin/" is no program`},
		{"#!/bin/sh\necho", "is a script, not a command: write command = { script = ... }"},
		{"a {{#if tool.arguments.x}}b c{{/if}}", "line 1, column 3: {{#if tool.arguments.x}} is never closed: {{/if}} is missing in the same word; for an argument that may be absent write command = { program, args }"},
		{"a " + strings.Repeat("b", maxCommand), "is longer than 32 KB"},
	} {
		if _, err := parseCommandText(tt.in); err == nil || err.Error() != tt.want {
			t.Errorf("parseCommandText(%q): %v, want %q", brief.Shorten(tt.in, 60), err, tt.want)
		}
	}
}

// Placeholders may not stand where an interpreter reads code.
func TestInterpreters(t *testing.T) {
	dash := map[string]bool{"d": true}
	for _, tt := range []struct {
		command string
		ok      bool
	}{
		{"echo {{tool.arguments.x}}", true},
		{"bash -c 'echo {{tool.arguments.x}}'", false},
		{"bash -c {{tool.arguments.x}}", false},
		{"/bin/bash -c {{tool.arguments.x}}", false},
		{"bash -lc {{tool.arguments.x}}", false},
		{"bash -o pipefail -c {{tool.arguments.x}}", false},
		{"bash -c 'echo \"\\$1\"' _ {{tool.arguments.x}}", true},
		{"bash -o pipefail -ec 'echo' _ {{tool.arguments.x}}", true},
		{"bash {{tool.arguments.x}}", false},
		{"bash -o {{tool.arguments.x}}", false},
		{"bash script.sh {{tool.arguments.x}} --opt={{tool.arguments.x}}", true},
		{"bash -- {{tool.arguments.x}}", false},
		{"bash -- script.sh {{tool.arguments.x}}", true},
		{"bash --rcfile x {{tool.arguments.x}}", false},
		{"sh -x script.sh {{tool.arguments.x}}", true},
		{"sh -{{tool.arguments.x}} script.sh", false},
		{"python -c {{tool.arguments.x}}", false},
		{"python3.11 -c 'print({{tool.arguments.x}})'", false},
		{"python3 -m {{tool.arguments.x}}", false},
		{"python3 -m json.tool {{tool.arguments.x}}", true},
		{"python3 -W ignore {{tool.arguments.x}}", false},
		{"python3 -W ignore script.py {{tool.arguments.x}}", true},
		{"python3 --new-option script.py {{tool.arguments.x}}", false},
		{"perl -e 'print' {{tool.arguments.x}}", true},
		{"perl -e 'print' -{{tool.arguments.x}}", false},
		{"perl -e 'print' {{tool.arguments.d}}", false},
		{"perl -ne {{tool.arguments.x}}", false},
		{"perl script.pl --opt={{tool.arguments.x}}", true},
		{"perl -E{{tool.arguments.x}}", false},
		{"ruby -e 'x' {{tool.arguments.x}}", true},
		{"node -e {{tool.arguments.x}}", false},
		{"node --eval={{tool.arguments.x}}", false},
		{"node --eval {{tool.arguments.x}}", false},
		{"node script.js {{tool.arguments.x}}", true},
		{"php -r {{tool.arguments.x}}", false},
		{"sed -n 's/a/b/p' {{tool.arguments.x}}", true},
		{"sed 's/{{tool.arguments.x}}/b/' f", false},
		{"sed -e {{tool.arguments.x}} f", false},
		{"sed -e 's/a/b/' -e{{tool.arguments.x}} f", false},
		{"sed -e 's/a/b/' {{tool.arguments.x}}", true},
		{"sed -i.bak -e 's/a/b/' {{tool.arguments.x}}", true},
		{"sed 's/a/b/' {{tool.arguments.d}}", false},
		{"sed 's/a/b/' -- {{tool.arguments.d}}", true},
		{"sed --expression={{tool.arguments.x}}", false},
		{"sed --expression 's/a/b/' {{tool.arguments.x}}", true},
		{"awk '{print}' {{tool.arguments.x}}", true},
		{"awk {{tool.arguments.x}} f", false},
		{"awk -v v={{tool.arguments.x}} '{print v}' f", true},
		{"awk -v {{tool.arguments.x}} '{print v}' f", false},
		{"awk -f {{tool.arguments.x}}", false},
		{"jq --arg v {{tool.arguments.x}} .a f", true},
		{"jq --arg {{tool.arguments.x}} v .a f", false},
		{"jq {{tool.arguments.x}} f", false},
		{"jq -r .a {{tool.arguments.x}}", true},
		{"jq -n -L lib {{tool.arguments.x}}", false},
		{"jq -L lib .a {{tool.arguments.x}}", true},
		{"lua -e 'x = 1' {{tool.arguments.x}}", false},
		{"lua -e 'x = 1' f.lua {{tool.arguments.x}}", true},
		{"ssh host {{tool.arguments.x}}", false},
		{"ssh {{tool.arguments.x}}", false},
		{"ssh host uptime", true},
		{"env A=1 prog {{tool.arguments.x}}", false},
		{"xargs -n1 prog {{tool.arguments.x}}", false},
		{"timeout 5 prog {{tool.arguments.x}}", false},
		{"sudo prog {{tool.arguments.x}}", false},
		{"make {{tool.arguments.x}}", false},
		{"make all", true},
		{"find {{tool.arguments.x}} -name {{tool.arguments.x}}", true},
		{"find {{tool.arguments.d}} -name x", false},
		{"find . -exec sh -c {{tool.arguments.x}} \\;", false},
		{"find . -exec grep {{tool.arguments.x}} {} +", false},
		{"find . -exec grep x {} + -name {{tool.arguments.x}}", true},
		{"git log {{tool.arguments.x}}", true},
		{"git -C sub log -- {{tool.arguments.x}}", true},
		{"git -c {{tool.arguments.x}} log", false},
		{"git -c a={{tool.arguments.x}} log", false},
		{"git {{tool.arguments.x}}", false},
		{"git config {{tool.arguments.x}} y", false},
		{"git config a y", true},
		{"docker exec box sh -c {{tool.arguments.x}}", false},
		{"docker exec box cat {{tool.arguments.x}}", true},
		{"docker exec box python3 -c 'x' {{tool.arguments.x}}", true},
		{"sqlite3 db {{tool.arguments.x}}", false},
		{"busybox sh -c {{tool.arguments.x}}", false},
		{"vim {{tool.arguments.x}}", false},
		{"tar -xf a -I {{tool.arguments.x}}", false},
		{"tar xIf {{tool.arguments.x}} a", false},
		{"tar -I{{tool.arguments.x}} -xf a", false},
		{"tar --use-compress-program={{tool.arguments.x}} -xf a", false},
		{"tar --use-compress-program {{tool.arguments.x}} -xf a", false},
		{"tar --to-command={{tool.arguments.x}} -xf a", false},
		{"tar --to-comm {{tool.arguments.x}} -xf a", false},
		{"tar --checkpoint=1 --checkpoint-action=exec={{tool.arguments.x}} -cf a .", false},
		{"tar --checkpoint-action {{tool.arguments.x}} -cf a .", false},
		{"tar -cf a -- {{tool.arguments.x}}", true},
		{"tar -cf a {{tool.arguments.x}}", true},
		{"tar cf a {{tool.arguments.x}}", true},
		{"tar cf {{tool.arguments.x}} .", false},
		{"tar --file={{tool.arguments.x}} -t", false},
		{"tar -tf {{tool.arguments.x}}", false},
		{"tar --force-local -tf {{tool.arguments.x}}", true},
		{"tar --force-local -I {{tool.arguments.x}} -tf a", false},
		{"tar -cf a {{tool.arguments.d}}", false},
		{"tar -cf a -- {{tool.arguments.d}}", true},
		{"tar -{{tool.arguments.x}}", false},
		{"tar --{{tool.arguments.x}} -cf a", false},
		{"tar -C {{tool.arguments.x}} -xf a", true},
		{"rsync -e {{tool.arguments.x}} a b", false},
		{"rsync {{tool.arguments.x}} b", false},
		{"git fetch --upload-pack={{tool.arguments.x}}", false},
		{"git fetch --upload-pack {{tool.arguments.x}} o", false},
		{"git fetch --upl {{tool.arguments.x}}", false},
		{"git clone -u {{tool.arguments.x}} r", false},
		{"git clone -- {{tool.arguments.x}}", true},
		{"git rebase -x {{tool.arguments.x}}", false},
		{"git rebase --exec={{tool.arguments.x}}", false},
		{"git grep -O{{tool.arguments.x}} a", false},
		{"git grep --open-files-in-pager={{tool.arguments.x}} a", false},
		{"git grep -e {{tool.arguments.x}}", true},
		{"git log --author={{tool.arguments.x}}", true},
		{"git log {{tool.arguments.d}}", false},
		{"git log -- {{tool.arguments.d}}", true},
		{"git log --{{tool.arguments.x}}", false},
		{"git diff -{{tool.arguments.x}}", false},
		{"git difftool {{tool.arguments.x}}", false},
		{"git clone --template={{tool.arguments.x}} r", false},
		{"git clone --config {{tool.arguments.x}} r", false},
		{"git show HEAD:{{tool.arguments.x}}", true},
		{"go run {{tool.arguments.x}}", false},
		{"go run . {{tool.arguments.x}}", true},
		{"go run ./cmd/x {{tool.arguments.x}} {{tool.arguments.d}}", true},
		{"go tool {{tool.arguments.x}}", false},
		{"go {{tool.arguments.x}}", false},
		{"go test -exec {{tool.arguments.x}} ./...", false},
		{"go test -exec={{tool.arguments.x}} ./...", false},
		{"go test -run {{tool.arguments.x}} ./...", true},
		{"go test -run={{tool.arguments.x}} ./...", true},
		{"go build -toolexec={{tool.arguments.x}} .", false},
		{"go vet -vettool {{tool.arguments.x}} .", false},
		{"go test {{tool.arguments.x}}", true},
		{"rg --pre {{tool.arguments.x}} pat", false},
		{"rg --pre={{tool.arguments.x}} pat", false},
		{"rg -e {{tool.arguments.x}}", true},
		{"rg -- {{tool.arguments.x}}", true},
		{"sort --compress-program={{tool.arguments.x}} f", false},
		{"sort {{tool.arguments.x}}", true},
		{"split --filter={{tool.arguments.x}} f", false},
		{"curl -K {{tool.arguments.x}}", false},
		{"curl --config={{tool.arguments.x}}", false},
		{"curl -- {{tool.arguments.x}}", true},
		{"curl -sS {{tool.arguments.x}}", true},
		{"wget -e {{tool.arguments.x}}", false},
		{"wget --execute={{tool.arguments.x}}", false},
		{"less {{tool.arguments.x}}", false},
		{"npm run {{tool.arguments.x}}", false},
		{"pip install {{tool.arguments.x}}", false},
		{"scp -S {{tool.arguments.x}} a b", false},
		{"scp -o {{tool.arguments.x}} a b", false},
		{"gcc -wrapper {{tool.arguments.x}} a.c", false},
		{"gcc -c {{tool.arguments.x}}", false},
		{"gcc -o out -- {{tool.arguments.x}}", false},
		{"gcc -c ./{{tool.arguments.x}}", true},
		{"perl -ne print {{tool.arguments.x}}", false},
		{"perl -pe '' {{tool.arguments.x}}", false},
		{"perl -p -e 1 -- {{tool.arguments.x}}", false},
		{"perl -lane print {{tool.arguments.x}}", false},
		{"perl -e 'print while <>' {{tool.arguments.x}}", false},
		{"perl -e 'print while <<>>' {{tool.arguments.x}}", true},
		{"perl -e 'print @ARGV' {{tool.arguments.x}}", true},
		{"perl -I/opt/lib -e 1 {{tool.arguments.x}}", true},
		{"perl script.pl -n {{tool.arguments.x}}", true},
		{"git -C {{tool.arguments.x}} status", false},
		{"git --git-dir {{tool.arguments.x}} status", false},
		{"git --work-tree {{tool.arguments.x}} status", false},
		{"git --namespace {{tool.arguments.x}} status", true},
		{"python3 -m pip install {{tool.arguments.x}}", false},
		{"python3 -mpip install {{tool.arguments.x}}", false},
		{"python3 -X dev -Im pip._internal {{tool.arguments.x}}", false},
		{"python3 -m timeit {{tool.arguments.x}}", false},
		{"python3 -m cProfile {{tool.arguments.x}}", false},
		{"python3 -m own.module {{tool.arguments.x}}", true},
		{"python3 -c code -m pip {{tool.arguments.x}}", true},
		{"hg --config {{tool.arguments.x}} log", false},
		{"svn diff --diff-cmd {{tool.arguments.x}}", false},
		{"helm template --post-renderer {{tool.arguments.x}} c", false},
		{"java -jar {{tool.arguments.x}}", false},
		{"java -cp {{tool.arguments.x}} Main", false},
		{"java {{tool.arguments.x}}", false},
		{"java -Dx={{tool.arguments.x}} Main", false},
		{"java -jar app.jar {{tool.arguments.x}}", true},
		{"java -cp lib Main {{tool.arguments.x}}", true},
		{"pytest -p {{tool.arguments.x}}", false},
		{"pytest -c {{tool.arguments.x}}", false},
		{"pytest tests/{{tool.arguments.x}}", true},
		{"eslint -c {{tool.arguments.x}} a.js", false},
		{"eslint --rulesdir {{tool.arguments.x}} a.js", false},
		{"eslint -- {{tool.arguments.x}}", true},
		{"docker run {{tool.arguments.x}}", false},
		{"docker run box {{tool.arguments.x}}", false},
		{"docker run --rm -it -v a:b box {{tool.arguments.x}}", false},
		{"docker run --rm -v a:b box cat {{tool.arguments.x}}", true},
		{"docker run box perl -ne 1 {{tool.arguments.x}}", false},
		{"docker exec -w {{tool.arguments.x}} box cat", false},
		{"docker exec box {{tool.arguments.x}}", false},
		{"docker logs {{tool.arguments.x}}", true},
		{"kubectl exec p -- {{tool.arguments.x}}", false},
		{"kubectl exec p -- cat {{tool.arguments.x}}", true},
		{"dotnet {{tool.arguments.x}}", false},
		{"swift {{tool.arguments.x}}", false},
		{"irb {{tool.arguments.x}}", false},
		{"nu -c {{tool.arguments.x}}", false},
		{"xonsh -c {{tool.arguments.x}}", false},
		{"elvish -c {{tool.arguments.x}}", false},
		{"sftp -b - {{tool.arguments.x}}", false},
		{"zip -TT {{tool.arguments.x}} a b", false},
		{"convert {{tool.arguments.x}} a.png", false},
		{"pdflatex {{tool.arguments.x}}", false},
		{"man -P {{tool.arguments.x}} ls", false},
		{"fzf --filter={{tool.arguments.x}}", false},
		{"setpriv --reuid=1 {{tool.arguments.x}}", false},
		{"proxychains4 curl {{tool.arguments.x}}", false},
		{"x86_64 {{tool.arguments.x}}", false},
		{"linux32 {{tool.arguments.x}}", false},
		{"pandoc --lua-filter={{tool.arguments.x}} a", false},
		{"cargo --config {{tool.arguments.x}} build", false},
		{"openssl dgst -engine {{tool.arguments.x}} f", false},
		{"cpio -F {{tool.arguments.x}}", false},
		{"find . -ok {{tool.arguments.x}} \\;", false},
		{"find . -execdir {{tool.arguments.x}} \\;", false},
		{"find . -fprintf {{tool.arguments.x}} a", true},
		{"fd {{tool.arguments.x}} -x rm", true},
		{"fd -x {{tool.arguments.x}}", false},
		{"BASH.EXE script.sh {{tool.arguments.x}}", true}, // not known: another program to us
	} {
		c, err := parseCommandText(tt.command)
		if err != nil {
			t.Errorf("%s: %v", tt.command, err)
			continue
		}
		if err := c.checkInterpreters(dash); (err == nil) != tt.ok {
			t.Errorf("%s: %v, want allowed: %v", tt.command, err, tt.ok)
		}
	}
}

func TestInterpreterMessages(t *testing.T) {
	for _, tt := range []struct{ command, want string }{
		{"bash -c {{tool.arguments.x}}", "a placeholder in argument 2 of bash: it would be code, or name it"},
		{"env -i a {{tool.arguments.x}}", "a placeholder in argument 3 of env: it runs what its arguments name: name that program directly"},
		{"git -c {{tool.arguments.x}} log", "a placeholder in argument 2 of git: it would be configuration, and that names programs"},
		{"find . -exec {{tool.arguments.x}} ;", ""},
		{"tar -xf a --to-command={{tool.arguments.x}}", "a placeholder in argument 3 of tar: it names what is run, or an archive on another host where it has a colon (--force-local rules that out)"},
		{"rg --pre {{tool.arguments.x}} a", "a placeholder in argument 2 of rg: it names what is run"},
		{"git log --{{tool.arguments.x}}", "a placeholder in argument 2 of git: it chooses an option, and some of those name what is run"},
		{"go run {{tool.arguments.x}}", "a placeholder in argument 1 of go run: it would be code, or name it"},
		{"pip install {{tool.arguments.x}}", "a placeholder in argument 2 of pip: it installs what its arguments name, and runs its code"},
	} {
		c, err := parseCommandText(strings.ReplaceAll(tt.command, " ;", ` \;`))
		if err != nil {
			t.Fatal(err)
		}
		err = c.checkInterpreters(nil)
		if err == nil || tt.want != "" && err.Error() != tt.want {
			t.Errorf("%s: %v, want %s", tt.command, err, tt.want)
		}
	}
}

// FuzzCommand: whatever the value, a placeholder that is a word of its own is
// one argument, and never an option.
func FuzzCommand(f *testing.F) {
	for _, s := range []string{"", "a", "-", "--", "-rf", " -a", "a\x00", "{{x}}", "$(id)", "'\"", "\n-"} {
		f.Add(s)
	}
	c, err := parseCommandText("prog first {{tool.arguments.x}} --o={{tool.arguments.x}} -- {{tool.arguments.x}}")
	if err != nil {
		f.Fatal(err)
	}
	plain, err := parseCommandText("prog --o={{tool.arguments.x}} -- {{tool.arguments.x}}")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, value string) {
		args := data(map[string]any{"x": value})
		got, err := c.render(args, nil)
		var bad *ValueError
		refuse := strings.HasPrefix(value, "-") || strings.Contains(value, "\x00")
		if refuse != (err != nil) || err != nil && !errors.As(err, &bad) {
			t.Fatalf("render(%q) = %q, %v, want refused: %v", value, got, err, refuse)
		}
		if want := []string{"first", value, "--o=" + value, "--", value}; err == nil && !slices.Equal(got, want) {
			t.Errorf("render(%q) = %q, want %q", value, got, want)
		}
		got, err = plain.render(args, nil)
		if want := []string{"--o=" + value, "--", value}; !strings.Contains(value, "\x00") && (err != nil || !slices.Equal(got, want)) {
			t.Errorf("render(%q) = %q, %v, want %q", value, got, err, want)
		}
	})
}
