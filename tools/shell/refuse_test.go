package shell

import (
	"errors"
	"strings"
	"testing"

	"jp/tools/template"
)

// A placeholder in a place that is not known to be safe is an error of the definition, at its own
// line and column.
func TestShellRefuses(t *testing.T) {
	const x = "{{tool.arguments.x}}"
	for _, tt := range []struct{ script, want string }{
		// What runs.
		{`@ a`, "would choose what runs"},
		{`"@"`, "would choose what runs"},
		{`a@ b`, "would choose what runs"},
		{`x=1 @`, "would choose what runs"},
		{`$(@)`, "would choose what runs"},
		{`true && ! @`, "would choose what runs"},
		{`"$CMD" @`, "is an argument of a command whose name is not written out"},
		{`$CMD @`, "is an argument of a command whose name is not written out"},
		{`~/x @`, "is an argument of a command whose name is not written out"},
		{`ec{h,x}o @`, "is an argument of a command whose name is not written out"},
		{`"a b" @`, "is an argument of a command whose name is not written out"},
		{`f() { eval "$1"; }; f @`, "is an argument of the function f, which may do anything with it: assign it to a variable"},
		{`printf() { eval "$1"; }; printf '%s' @`, "is an argument of the function printf, which may do anything with it: assign it to a variable"},
		{`@ () { :; }`, "would be the name of a function"},
		{`function @ { :; }`, "would be the name of a function"},
		// Builtins.
		{`eval @`, ""},
		{`eval "x='@'"`, ""},
		{`\eval @`, ""},
		{`'eval' @`, ""},
		{`. @`, ""},
		{`source @`, ""},
		{`trap @ EXIT`, ""},
		{`read @`, ""},
		{`read -p @ x`, ""},
		{`unset @`, ""},
		{`let @`, "is in arithmetic, and a shell evaluates that"},
		{`let x=@`, "is in arithmetic, and a shell evaluates that"},
		{`cd @`, ""},
		{`exit @`, ""},
		{`return @`, ""},
		{`set -- @`, ""},
		{`shift @`, ""},
		{`mapfile -C @ x`, ""},
		{`getopts @ x`, ""},
		{`exec @`, ""},
		{`type @`, ""},
		{`kill @`, ""},
		{`wait @`, ""},
		{`complete -F @`, ""},
		{`: ${y:=@}`, "is in ${...}: assign it to a variable first"},
		{`: @`, ""},
		// Declarations and names.
		{`declare x=@`, "is in a declaration: declare the name first, then write name={{...}}"},
		{`declare @`, ""},
		{`declare -a x=(@)`, ""},
		{`local x=@`, "is in a declaration: declare the name first, then write name={{...}}"},
		{`export X=@`, "is in a declaration: declare the name first, then write name={{...}}"},
		{`export @`, ""},
		{`readonly x=@`, ""},
		{`typeset x=@`, ""},
		{`command export X=@`, ""},
		{`builtin declare x=@`, ""},
		{`@=1`, "would be the name of a variable"},
		{`x@=1`, "would be the name of a variable"},
		{`x[@]=1`, ""},
		{`x[0]=@`, "is in or at a subscript or name, and a shell evaluates that"},
		{`x=([@]=1)`, ""},
		{`x=([0]=@)`, "is at a subscript, and a shell evaluates that"},
		{`x=("[@]=1")`, "is at a subscript, and a shell evaluates that"},
		{`TAR_OPTIONS=@ tar -cf a b`, "is assigned to TAR_OPTIONS, which programs are given: name the variable in lower case"},
		{`GIT_DIR=@ git status`, "is assigned to GIT_DIR, which programs are given: name the variable in lower case"},
		{`a=1 CC=@ ./configure`, "is assigned to CC, which programs are given: name the variable in lower case"},
		{`export GIT_DIR; GIT_DIR=@`, "is assigned to GIT_DIR, which programs are given: name the variable in lower case"},
		{`RSYNC_RSH=@; declare -x RSYNC_RSH`, "is assigned to RSYNC_RSH, which programs are given: name the variable in lower case"},
		{`set -a; CC=@; make`, "is assigned to CC, which programs are given: name the variable in lower case"},
		{`set -o allexport; CC=@; make`, "is assigned to CC, which programs are given: name the variable in lower case"},
		{`npm_config_script_shell=@ node x`, "is assigned to npm_config_script_shell, which means something to the shell or to programs"},
		{`perl -ne print @`, ""},
		{`sftp -b - h <<< @`, ""},
		{`declare -A x; x=(@ 1)`, "is assigned to x, which is declared with declare -A"},
		{`declare -i x; x=@`, "is assigned to x, which is declared with declare -i"},
		{`f() { local -i x; }; x=@`, "is assigned to x, which is declared with local -i"},
		{`declare -n x=y; x=@`, "is assigned to x, which is declared with declare -n"},
		{`declare -xi x=1; x+=@`, "is assigned to x, which is declared with declare -xi"},
		{`x=@; typeset -u x`, "is assigned to x, which is declared with typeset -u"},
		{`\declare -i x; x=@`, "is assigned to x, which is declared with declare -i"},
		{`builtin declare -i x; x=@`, "is assigned to x, which is declared with declare -i"},
		{`declare -i "$n"; x=@`, "is assigned to x, and declare may declare that as anything"},
		{`declare $o x; x=@`, "is assigned to x, and declare may declare that as anything"},
		{`PATH=@`, "is assigned to PATH, which means something to the shell or to programs"},
		{`PATH=@ ls`, ""},
		{`PATH=/x:@`, ""},
		{`IFS=@`, ""},
		{`LD_PRELOAD=@ ls`, ""},
		{`BASH_ENV=@ ls`, ""},
		{`ENV=@ ls`, ""},
		{`SECONDS=@`, ""},
		{`RANDOM=@`, ""},
		{`OPTIND=@`, ""},
		{`PS4=@`, ""},
		{`HOME=@`, ""},
		{`LC_ALL=@`, ""},
		{`GIT_SSH_COMMAND=@ ls`, ""},
		{`PYTHONPATH=@ ls`, ""},
		{`ANTHROPIC_API_KEY=@`, ""},
		{`http_proxy=@ ls`, ""},
		{`GOFLAGS=@`, ""},
		{`Mixed=@`, "is assigned to Mixed: name the variable in lower case"},
		{`_X=@`, "is assigned to _X: name the variable in lower case"},
		{`for PATH in @; do :; done`, ""},
		{`for @ in a; do :; done`, "would be the name of a loop's variable"},
		{`select x in @; do :; done`, "is in select"},
		// Arithmetic and tests that evaluate.
		{`echo $((@))`, "is in arithmetic, and a shell evaluates that"},
		{`echo $((1 + "@"))`, "is in arithmetic, and a shell evaluates that"},
		{`echo $[@]`, "is in arithmetic, and a shell evaluates that"},
		{`((@))`, "is in arithmetic, and a shell evaluates that"},
		{`((x = $(echo @)))`, "is in arithmetic, and a shell evaluates that"},
		{`for ((i=0; i<@; i++)); do :; done`, "is in arithmetic, and a shell evaluates that"},
		{`[[ @ -eq 1 ]]`, "is beside -eq, which is arithmetic, and a shell evaluates that: compare with = or check it with case first"},
		{`[[ 1 -lt "@" ]]`, ""},
		{`[[ $(echo @) -ge 1 ]]`, ""},
		{`[[ -v @ ]]`, "is behind -v, and a shell evaluates that"},
		{`[[ -R @ ]]`, ""},
		{`[[ -o @ ]]`, ""},
		{`[[ -t @ ]]`, ""},
		{`[[ a =~ @ ]]`, "would be a regular expression"},
		{`[[ a == @(b|@) ]]`, ""},
		{`[ @ -eq 1 ]`, "is no argument of a test of strings or files of [: -v and numbers are evaluated"},
		{`[ -v @ ]`, ""},
		{`test -v @`, ""},
		{`test -t @`, ""},
		{`[ a @ b ]`, ""},
		{`[ @ a ]`, ""},
		{`[ @ = a -a b = c ]`, "is one of more than three arguments of [, which a value could make mean something else: use several tests"},
		{`[ "$a" $op @ ]`, ""},
		{`[ a = @`, "is an argument of [ without ]"},
		// Expansions.
		{`echo ${ @ }`, ""},
		{`echo ${!y@}`, ""},
		{`echo ${y:-@}`, "is in ${...}: assign it to a variable first"},
		{`echo "${y:-@}"`, "is in ${...}: assign it to a variable first"},
		{`echo ${y#@}`, ""},
		{`echo ${y/@/b}`, ""},
		{`echo ${y/a/@}`, ""},
		{`echo ${y:@}`, ""},
		{`echo ${y[ @ ]}`, ""},
		{`echo ${y:-$(echo @)}`, "is in ${...}: assign it to a variable first"},
		{`echo $@`, ""},
		{`echo $y@`, "would be part of a variable's name: write ${NAME} in front of it"},
		{"echo `echo @`", "is in `...`: write $(...)"},
		{"echo \"`echo @`\"", "is in `...`: write $(...)"},
		{`echo $"@"`, `is in $"...", which is translated`},
		{`echo \@`, "follows a backslash: nothing needs one here, values are never shell text"},
		{`echo "\@"`, "follows a backslash: nothing needs one here, values are never shell text"},
		{`echo \\\@`, "follows a backslash: nothing needs one here, values are never shell text"},
		{`echo $'\@'`, "follows a backslash: nothing needs one here, values are never shell text"},
		{`echo $'\\\c@'`, `follows \c`},
		{"cat <<EOF\n\\@\nEOF", "follows a backslash: nothing needs one here, values are never shell text"},
		{`echo +(a|@)`, "is in a pattern"},
		{`case a in @) :;; esac`, "would be a pattern of case: compare with [ = ]"},
		{`case a in "@"*) :;; esac`, ""},
		// Redirections and here-documents.
		{`echo a >@`, "would be the target of a redirection"},
		{`echo a >"$d/@"`, ""},
		{`cat <@`, ""},
		{`echo a >&@`, ""},
		{`echo a @>b | :`, "ok"},
		{`echo a > >(cat @)`, "would be the target of a redirection"},
		{"cat <<'EOF'\n@\nEOF", "is in a here-document with a quoted delimiter, where nothing is expanded: do not quote the delimiter"},
		{"cat <<E\"O\"F\n@\nEOF", ""},
		{"cat <<\\EOF\n@\nEOF", ""},
		{"cat <<@\nx\n@", ""},
		{"bash <<EOF\n@\nEOF", "is the input of bash, which may run what it reads"},
		{`sh <<< @`, ""},
		{`{ cat; python3 -; } <<< @`, ""},
		{`<<< @`, "is the input of no command"},
		{`exec <<< @`, ""},
		{`while read -r l; do eval "$l"; done <<< @`, "is the input of eval"},
		{`while read -r PATH; do :; done <<< @`, ""},
		{`read -r 'a[0]' <<< @`, ""},
		{`f() { sh; }; f <<< @`, ""},
		{`"$x" <<< @`, ""},
		// What is written into what runs it.
		{`echo @ | bash`, "is piped into bash, which may run what it reads"},
		{`echo @ | cat | sudo sh`, ""},
		{`echo "$(cat @)" | xargs rm`, ""},
		{`{ echo @; } |& sh -s`, ""},
		{`echo @ | { read -r x; sh; }`, ""},
		{`echo @ | python3`, ""},
		{`echo @ | perl /dev/stdin`, ""},
		{`echo @ | bash -c "$(cat)"`, ""},
		{`tar cf a $(echo @)`, "comes out of a $(...) that is not quoted, which splits it: quote that"},
		{`[ $(echo @) ]`, "comes out of a $(...) that is not quoted, which splits it: quote that"},
		{`[ -n a$(echo @) ]`, "comes out of a $(...) that is not quoted, which splits it: quote that"},
		{`tar cf a "$(echo "$(echo @)")" $(echo "$(echo @)")`, "comes out of a $(...) that is not quoted, which splits it: quote that"},
		{`tar cf a "$(echo $(echo @))"`, "ok"},
		{`x=$(echo @); for f in $(echo @); do echo $(echo @) > /dev/null; done`, "ok"},
		{`[ $y = @ ]`, "is an argument of [ beside one that may be none or several: quote that"},
		{`[ @ = "$@" ]`, ""},
		{`[ @ = "${a[@]}" ]`, ""},
		{`[ -n @* ]`, ""},
		{`[ @ = "$y" ] && [ "${y}z" != '@' ]`, "ok"},
		// Wrappers and interpreters.
		{`env @`, ""},
		{`env A=@ ls`, ""},
		{`xargs @`, ""},
		{`timeout 5 @`, ""},
		{`nice @`, ""},
		{`sudo ls @`, ""},
		{`command ls @`, ""},
		{`nohup x @`, ""},
		{`busybox ls @`, ""},
		{`find . -exec echo @ ';'`, ""},
		{`git -c @ log`, ""},
		{`git @`, ""},
		{`bash -c @`, ""},
		{`bash -c "echo '@'"`, ""},
		{`/bin/bash -c "echo @"`, ""},
		{`sh @`, ""},
		{`python3 -c "print('@')"`, ""},
		{`perl -e '@'`, ""},
		{`awk '@'`, ""},
		{`awk "/$(cat @)/"`, ""},
		{`sed s/a/@/`, ""},
		{`sed -e "$x" -e @`, ""},
		{`sed {-n,-e} @`, ""},
		{`jq ".[\"@\"]"`, ""},
		{`ssh h @`, ""},
		{`ssh @`, ""},
		{`make @`, ""},
		{`docker run i sh -c @`, ""},
		{`bash <(echo @)`, ""},
		{`source <(echo @)`, ""},
		{`bash -c "$(echo @)"`, ""},
		// printf.
		{`printf @`, "would be the format of printf: write printf '%s' first"},
		{`printf "a @"`, "would be the format of printf: write printf '%s' first"},
		{`printf -- @`, ""},
		{`printf -v x '%s' @`, "is an argument of printf with options"},
		{`printf "$f" @`, "is formatted by printf with a format that is not written out"},
		{`printf '%s%-5n' a @`, "is an argument of printf with %n, which would be the name of a variable"},
		// The rest.
		{"# @\necho", "is in a comment or another place that takes no value"},
		{`echo # @`, "is in a comment or another place that takes no value"},
	} {
		const prefix = "echo\n echo; "
		script := strings.NewReplacer("@(", "@(", `"$@"`, `"$@"`, "[@]}", "[@]}", "@", x).Replace(tt.script)
		err := checkScript(prefix+script, "bash")
		if tt.want == "ok" {
			if err != nil {
				t.Errorf("%s: %v", tt.script, err)
			}
			continue
		}
		var bad *template.Error
		if !errors.As(err, &bad) {
			t.Errorf("%s: %v, want a TemplateError", tt.script, err)
			continue
		}
		if tt.want != "" && bad.Msg != x+" "+tt.want {
			t.Errorf("%s\n got %s\nwant %s %s", tt.script, bad.Msg, x, tt.want)
		}
		if !strings.Contains(bad.Msg, "syntax") && !strings.HasPrefix(bad.Msg, x+" ") {
			t.Errorf("%s: %s, which names no placeholder", tt.script, bad.Msg)
		}
		if strings.Contains(bad.Msg, "Zjp") {
			t.Errorf("%s: %s", tt.script, bad.Msg)
		}
		line, column := 2, 0
		if at := strings.Index(script, x); at >= 0 {
			p := (template.Position{Line: 1, Column: 1}).After((prefix + script)[:len(prefix)+at])
			line, column = p.Line, p.Column
		}
		if !strings.Contains(bad.Msg, "syntax") && strings.Count(script, x) == 1 && (bad.Line != line || bad.Column != column) {
			t.Errorf("%s: at %d:%d, want %d:%d", tt.script, bad.Line, bad.Column, line, column)
		}
	}
}

// What a text does beside its placeholders can make them unsafe.
func TestShellRefusesTexts(t *testing.T) {
	for _, tt := range []struct{ script, interpreter, want string }{
		{"echo {{tool.arguments.x}}\nalias echo=eval", "bash", "line 2, column 1: alias changes what names stand for, and no text with placeholders may have it"},
		{"enable -n echo; echo {{tool.arguments.x}}", "bash", "line 1, column 1: enable changes what names stand for, and no text with placeholders may have it"},
		{"hash -p /bin/sh cat; cat {{tool.arguments.x}}", "bash", "line 1, column 1: hash changes what names stand for, and no text with placeholders may have it"},
		{"set -k; cat {{tool.arguments.x}}", "bash", "line 1, column 1: set -k makes assignments of arguments, and no text with placeholders may have it"},
		{"set -o keyword; cat {{tool.arguments.x}}", "bash", "line 1, column 1: set -k makes assignments of arguments, and no text with placeholders may have it"},
		{"command_not_found_handle() { eval \"$@\"; }; x {{tool.arguments.x}}", "bash", "line 1, column 1: command_not_found_handle gets the arguments of any command, and no text with placeholders may have it"},
		{"echo {{tool.arguments.x}} > >(bash)", "bash", "line 1, column 29: bash, which may run what it reads: no text with placeholders may write into that"},
		{"exec > >(cat | sh); echo {{tool.arguments.x}}", "bash", "line 1, column 8: sh, which may run what it reads: no text with placeholders may write into that"},
		{"echo {{tool.arguments.x}} | tee >(python3)", "bash", "line 1, column 33: python3, which may run what it reads: no text with placeholders may write into that"},
		{"coproc bash; echo {{tool.arguments.x}} >&3", "bash", "line 1, column 1: coproc reads what any command writes, and no text with placeholders may have it"},
		{"A=(x \"$(B=(y $'\\''); echo {{tool.arguments.x}})\")", "bash", "line 1, column 11: an array inside $(...) or <(...), and no text with placeholders may have it: assign it before"},
		{"cat <(A=(a\\'); echo {{tool.arguments.x}})", "bash", "line 1, column 9: an array inside $(...) or <(...), and no text with placeholders may have it: assign it before"},
		{"command alias a=b; echo {{tool.arguments.x}}", "bash", "line 1, column 1: alias changes what names stand for, and no text with placeholders may have it"},
		{"eval $JP_{{\"ARG_0\"}} {{tool.arguments.x}}", "bash", "line 1, column 22: {{tool.arguments.x}} is in a text with {{\"...\"}} that makes names of ours"},
		{"eval {{\"Zjp0\"}}q0z; echo {{tool.arguments.x}}", "bash", "line 1, column 26: {{tool.arguments.x}} is in a text with {{\"...\"}} that makes names of ours"},
		{"echo {{tool.arguments.x}} > >(tee a)", "bash", "ok"},
		{"if true; then", "bash", "line 1, column 10: no bash syntax: `then` must be followed by a statement list"},
		{"echo {{tool.arguments.x}}\n\necho (", "bash", "line 3, column 1: no bash syntax: `foo(` must be followed by `)`"},
		{"cat <<< {{tool.arguments.x}}", "sh", ""},
		{"[[ a == {{tool.arguments.x}} ]]", "sh", ""},
		{"echo $'{{tool.arguments.x}}'", "sh", "line 1, column 8: {{tool.arguments.x}} is where bash, which is sh on some systems, reads something else"},
		{"echo a\r\n", "bash", `line 1, column 7: holds the control character '\r'`},
		{"echo a\x00", "bash", `line 1, column 7: holds the control character '\x00'`},
		{"echo \xff", "bash", "line 1, column 6: is no valid UTF-8"},
		{"echo $JP_ARG_0", "bash", "line 1, column 7: names beginning with JP_ARG_ are for values"},
		{" \n", "bash", "is empty"},
		{"#!/usr/bin/python3\nprint()", "", "line 1, column 1: #!/usr/bin/python3: only bash and sh run shell texts"},
		{"#!/bin/bash -e\nls", "", "line 1, column 1: #!/bin/bash -e: the options of the shell are not used: write set -e and the like"},
		{"#!\nls", "", "line 1, column 1: #!: only bash and sh run shell texts"},
		{"echo {{#if tool.arguments.x}}", "bash", "line 1, column 6: {{#if tool.arguments.x}} is never closed: {{/if}} is missing"},
		{strings.Repeat("(", 600) + "echo {{tool.arguments.x}}" + strings.Repeat(")", 600), "bash", ""},
		{"echo {{tool.arguments.x}} " + strings.Repeat("$(", 10_000) + "ls" + strings.Repeat(")", 10_000), "bash", ""},
		{strings.Repeat("a", maxScript+1), "bash", "is longer than 64 KB"},
		{strings.Repeat("{{#if tool.arguments.x}}a\n{{/if}}\n", maxBlocks+1), "bash", "line 201, column 1: more than 100 blocks"},
		{strings.Repeat("echo {{tool.arguments.x}}\n", maxPlaceholders+1), "bash", "line 2001, column 6: more than 2000 placeholders in one text"},
	} {
		err := checkScript(tt.script, tt.interpreter)
		if tt.want == "ok" && err == nil {
			continue
		}
		if err == nil || tt.want != "" && err.Error() != tt.want {
			t.Errorf("%.80s\n got %v\nwant %s", tt.script, err, tt.want)
		}
	}
}

// Blocks hold text that parses alone in its place.
func TestShellBlocks(t *testing.T) {
	for _, tt := range []struct {
		script string
		ok     bool
	}{
		{"{{#if tool.arguments.x}}\nls\n{{else}}\npwd\n{{/if}}", true},
		{"{{#if tool.arguments.x}}ls{{/if}}", true},
		{"if true; then\n{{#if tool.arguments.x}}ls{{else}}pwd{{/if}}\nfi", true},
		{"x=$({{#if tool.arguments.x}}ls{{else}}pwd{{/if}})", true},
		{"ls {{#if tool.arguments.x}}-a --b={{tool.arguments.x}}{{/if}} c", true},
		{"ls \\\n {{#if tool.arguments.x}}-a \\\n -b{{/if}} \\\n c", true},
		{"ls \"a {{#if tool.arguments.x}}b $(pwd){{else}}c{{/if}}\"", true},
		{"ls 'a {{#if tool.arguments.x}}b{{/if}}'", true},
		{"ls --a{{#if tool.arguments.x}}=b{{/if}}", true},
		{"A=(a {{#for e in tool.arguments.list}}\"{{e}}\" {{/for}} b)", true},
		{"for f in {{#for e in tool.arguments.list}}{{e}} {{/for}} x; do :; done", true},
		{"cat <<EOF\n{{#if tool.arguments.x}}a\nb{{/if}}\nEOF\n", true},
		{"{{#if tool.arguments.x}}{{#for e in tool.arguments.list}}echo {{e}}\n{{/for}}{{else}}{{#if tool.arguments.y}}ls{{/if}}{{/if}}", true},
		{"{{#if tool.arguments.x}}case a in b) ;; esac{{/if}}", true},

		{"if true; then\n{{#if tool.arguments.x}}ls{{/if}}\nfi", false},
		{"{{#if tool.arguments.x}}if true; then{{/if}} ls; fi", false},
		{"if true; then ls; {{#if tool.arguments.x}}fi; if true; then ls;{{/if}} fi", false},
		{"if true; then ls\n{{#if tool.arguments.x}}else pwd{{/if}}\nfi", false},
		{"echo \"{{#if tool.arguments.x}}a\" \"b{{/if}}\"", false},
		{"echo '{{#if tool.arguments.x}}a' 'b{{/if}}'", false},
		{"echo \"{{#if tool.arguments.x}}a\"; echo \"{{tool.arguments.y}}{{/if}}\"", false},
		{"echo a{{#if tool.arguments.x}} b{{/if}}", false},
		{"echo {{#if tool.arguments.x}}a\nb{{/if}} c", false},
		{"echo {{#if tool.arguments.x}}a;{{/if}} c", false},
		{"echo {{#if tool.arguments.x}}a | {{/if}} c", false},
		{"{{#if tool.arguments.x}}ls |{{/if}}\ncat", false},
		{"{{#if tool.arguments.x}}ls \\{{/if}}\ncat", false},
		{"{{#if tool.arguments.x}}ls &&{{/if}}\ncat", false},
		{"{{#if tool.arguments.x}}cat <<EOF{{/if}}\nx\nEOF\n", false},
		{"cat <<EOF\n{{#if tool.arguments.x}}a\nEOF\ncat <<EOF{{/if}}\nEOF\n", false},
		{"(ls; {{#if tool.arguments.x}}); ({{/if}} ls)", false},
		{"case a in\na) {{#if tool.arguments.x}};; b) {{/if}} ls;; esac", false},
		{"echo $({{#if tool.arguments.x}}ls) $({{/if}}pwd)", false},
		{"# {{#if tool.arguments.x}}a{{/if}}\nls", false},
		{"# {{#if tool.arguments.x}}\necho {{tool.arguments.x}}\n{{/if}}\nls", false},
		{"eval {{#if tool.arguments.x}}a {{tool.arguments.y}}{{/if}} c", false},
		{"{{#if tool.arguments.x}}{{else}}eval {{tool.arguments.y}}{{/if}}", false},
		{"{{#for e in tool.arguments.list}}x=$(({{e}}))\n{{/for}}", false},
		{"{{#if tool.arguments.x}}declare -i y{{/if}}\n{{#if tool.arguments.x}}{{else}}:{{/if}}\ny={{tool.arguments.y}}", false},
	} {
		err := checkScript(tt.script, "bash")
		var bad *template.Error
		if (err == nil) != tt.ok || err != nil && !errors.As(err, &bad) {
			t.Errorf("%s\ngot %v", tt.script, err)
		}
		if err != nil && strings.Contains(err.Error(), "Zjp") {
			t.Errorf("%s: %v", tt.script, err)
		}
	}
}

// checkScript is what loading a text says.
func checkScript(text, interpreter string) error {
	s, err := Parse("", text, interpreter)
	if err != nil {
		return err
	}
	return s.Check(Rules{Env: []string{"GOFLAGS"}})
}
