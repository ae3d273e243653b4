package shell

import (
	"fmt"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"jp/tools/environ"
	"jp/tools/interpreter"
	"jp/tools/proc"
	"jp/tools/template"
)

// builtins are the commands of bash and dash that run in the shell, less those that take values.
var builtins = strings.Fields(`
	. : alias bg bind break builtin caller cd chdir command compgen complete compopt continue declare dirs disown enable
	eval exec exit export false fc fg getopts hash help history jobs kill let local logout mapfile nameref popd pushd pwd
	read readarray readonly return set shift shopt source suspend times trap true type typeset ulimit umask unalias unset wait
`)

// specialVariables mean something to the shell or to the programs it starts when they are set.
var specialVariables = strings.Fields(`
	_ BASH BASHOPTS BASHPID CDPATH CHILD_MAX COLUMNS COMPREPLY COPROC DIRSTACK EMACS ENV EPOCHREALTIME EPOCHSECONDS EUID
	EXECIGNORE FCEDIT FIGNORE FPATH FUNCNAME FUNCNEST GLOBIGNORE GLOBSORT GROUPS HISTCMD HISTCONTROL HISTFILE HISTFILESIZE
	HISTIGNORE HISTSIZE HISTTIMEFORMAT HOME HOSTFILE HOSTNAME HOSTTYPE IFS IGNOREEOF INPUTRC INSIDE_EMACS LANG LANGUAGE
	LINENO LINES LOGNAME MACHTYPE MAIL MAILCHECK MAILPATH MAPFILE NLSPATH OLDPWD OPTARG OPTERR OPTIND OSTYPE PATH PIPESTATUS
	POSIXLY_CORRECT PPID PROMPT_COMMAND PROMPT_DIRTRIM PS0 PS1 PS2 PS3 PS4 PWD RANDOM REPLY SECONDS SHELL SHELLOPTS SHLVL
	SRANDOM TERM TERMCAP TERMINFO TIMEFORMAT TMOUT TMP TMPDIR TEMP TZ TZDIR UID USER LOCPATH
	auto_resume histchars http_proxy https_proxy ftp_proxy all_proxy no_proxy
	HTTP_PROXY HTTPS_PROXY FTP_PROXY ALL_PROXY NO_PROXY
`)

// assignable returns the reason why a value cannot be assigned to name; "" if it can.
func (r *reading) assignable(name string) string {
	lower := strings.ToLower(name) == name
	upper := isUpper(name)
	exported := slices.ContainsFunc(append(proc.ToolEnv(), r.rules.Env...), func(v string) bool {
		prefix, ok := strings.CutSuffix(v, "*")
		return v == name || ok && strings.HasPrefix(name, prefix)
	})
	switch {
	case !template.IsName(name) || strings.Contains(name, "-") || !lower && !upper:
		return fmt.Sprintf("is assigned to %s: name the variable in lower case", name)
	case exported, slices.Contains(specialVariables, name), strings.HasPrefix(name, "LC_"), environ.Forbidden(name) != "",
		strings.HasPrefix(name, "COMP_"), strings.HasPrefix(name, "READLINE_"), strings.HasPrefix(name, "npm_"):
		return fmt.Sprintf("is assigned to %s, which means something to the shell or to programs", name)
	case upper && (r.exports || r.exported[name]):
		return givenToPrograms(name)
	case r.declared[name] != "":
		return fmt.Sprintf("is assigned to %s, which is declared with %s", name, r.declared[name])
	case r.dynamic != "":
		return fmt.Sprintf("is assigned to %s, and %s may declare that as anything", name, r.dynamic)
	}
	return ""
}

// isUpper reports whether name is in upper case, as names of settings of programs are.
func isUpper(name string) bool {
	return strings.ToUpper(name) == name && name != "" && name[0] != '_'
}

// givenToPrograms returns the reason why a value cannot be assigned to name in the environment of
// programs: nobody can know which of them takes it for options, or for what it runs (TAR_OPTIONS,
// GIT_DIR, CC).
func givenToPrograms(name string) string {
	return fmt.Sprintf("is assigned to %s, which programs are given: name the variable in lower case", name)
}

// declarers are the commands that give variables attributes.
var declarers = []string{"declare", "typeset", "local", "export", "readonly", "nameref"}

// renamers are the commands that change what runs under a name.
var renamers = []string{"alias", "enable", "hash"}

// survey finds what a text defines, and refuses what changes the meaning of its words.
func (r *reading) survey(file *syntax.File) error {
	var first error
	refuse := func(n syntax.Node, format string, args ...any) {
		if first == nil {
			first = r.src.at(int(n.Pos().Offset())).Errorf(format, args...)
		}
	}
	depth := 0
	syntax.Walk(file, func(n syntax.Node) bool {
		if n == nil {
			depth--
			return true
		}
		if depth++; depth > maxDepth {
			refuse(n, "is nested too deep")
		}
		switch n := n.(type) {
		case *syntax.FuncDecl:
			if n.Name == nil {
				break
			}
			r.funcs[n.Name.Value] = true
			if n.Name.Value == "command_not_found_handle" {
				refuse(n, "%s gets the arguments of any command, and no text with placeholders may have it", n.Name.Value)
			}
		case *syntax.DeclClause:
			var words []*syntax.Word
			for _, a := range n.Args {
				switch {
				case a.Name != nil:
					words = append(words, &syntax.Word{Parts: []syntax.WordPart{a.Name}})
				case a.Value != nil:
					words = append(words, a.Value)
				}
			}
			r.declare(n.Variant.Value, words)
		case *syntax.CallExpr:
			if len(n.Args) == 0 {
				break
			}
			name, ok := r.static(n.Args[0])
			switch {
			case !ok:
			case slices.Contains(declarers, name):
				r.declare(name, n.Args[1:])
			case name == "command" || name == "builtin":
				for i, w := range n.Args[1:] {
					s, ok := r.static(w)
					switch {
					case ok && slices.Contains(declarers, s):
						r.declare(s, n.Args[i+2:])
					case ok && slices.Contains(renamers, s):
						refuse(n, "%s changes what names stand for, and no text with placeholders may have it", s)
					}
				}
			case slices.Contains(renamers, name):
				refuse(n, "%s changes what names stand for, and no text with placeholders may have it", name)
			case name == "set":
				for i, w := range n.Args[1:] {
					s, ok := r.static(w)
					if s == "--" || s == "-" {
						break
					}
					if ok && (len(s) > 1 && s[0] == '-' && s[1] != '-' && strings.Contains(s, "k") || i > 0 && s == "keyword") {
						refuse(n, "set -k makes assignments of arguments, and no text with placeholders may have it")
					}
					if !ok || len(s) > 1 && s[0] == '-' && s[1] != '-' && strings.Contains(s, "a") || i > 0 && s == "allexport" {
						r.exports = true
					}
				}
			}
		}
		return true
	})
	if first != nil {
		return first
	}
	// Bash writes such a text again before it runs it, and gets quotes in arrays wrong.
	for n := range syntax.Preorder(file) {
		switch n.(type) {
		case *syntax.CmdSubst, *syntax.ProcSubst:
			for inner := range syntax.Preorder(n) {
				if a, ok := inner.(*syntax.ArrayExpr); ok {
					refuse(a, "an array inside $(...) or <(...), and no text with placeholders may have it: assign it before")
				}
			}
		}
	}
	// What is written into a process that runs it may come from anywhere.
	syntax.Walk(file, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.CoprocClause:
			refuse(n, "coproc reads what any command writes, and no text with placeholders may have it")
		case *syntax.ProcSubst:
			if n.Op != syntax.CmdIn {
				if why := r.readsCode(n); why != "" {
					refuse(n, "%s: no text with placeholders may write into that", why)
				}
			}
		}
		return true
	})
	return first
}

// declare records the variables that a declaration gives attributes to.
func (r *reading) declare(command string, words []*syntax.Word) {
	attributes, exports := "", command == "export"
	if command == "nameref" {
		attributes = command
	}
	var names []string
	for _, w := range words {
		s, ok := r.static(w)
		switch {
		case ok && len(s) > 1 && (s[0] == '-' || s[0] == '+'):
			exports = exports || strings.Contains(s, "x")
			if strings.Trim(s[1:], "agrxpf-") != "" { // attributes that change the value
				attributes = command + " " + s
			}
		case ok:
			name, _, _ := strings.Cut(s, "=")
			names = append(names, strings.TrimSuffix(name, "+"))
		default:
			prefix := literalPrefix(w)
			if name, _, ok := strings.Cut(prefix, "="); ok && template.IsName(strings.TrimSuffix(name, "+")) {
				names = append(names, strings.TrimSuffix(name, "+"))
			} else if command != "export" {
				r.dynamic = command
			}
		}
	}
	for _, n := range names {
		if exports {
			r.exported[n] = true
		}
		if attributes != "" {
			r.declared[n] = attributes
		}
	}
}

// readsCode returns the command in n that would run what it reads; "" if none is known to.
func (r *reading) readsCode(n syntax.Node) (why string) {
	syntax.Walk(n, func(n syntax.Node) bool {
		if why != "" {
			return false
		}
		switch n := n.(type) {
		case *syntax.CallExpr:
			if len(n.Args) > 0 {
				why = r.callReadsCode(n.Args)
			}
		case *syntax.CoprocClause:
			why = "coproc"
		}
		return true
	})
	return why
}

func (r *reading) callReadsCode(args []*syntax.Word) string {
	name, ok := r.static(args[0])
	switch {
	case !ok || !plainName(name):
		return "a command whose name is not written out"
	case r.funcs[name]:
		return fmt.Sprintf("the function %s, which may do anything with it", name)
	case slices.Contains([]string{"read", "mapfile", "readarray"}, name):
		for _, w := range args[1:] {
			s, ok := r.static(w)
			if !ok {
				return name + " with arguments that are not written out"
			}
			if template.IsName(s) && r.assignable(s) != "" || strings.ContainsAny(s, "[") || name != "read" && (strings.HasPrefix(s, "-C") || strings.HasPrefix(s, "-c")) {
				return fmt.Sprintf("%s %s", name, s)
			}
		}
		return ""
	case slices.Contains([]string{"eval", ".", "source", "exec", "command", "builtin", "trap", "bind", "complete", "compgen", "fc"}, name):
		return name
	case slices.Contains(builtins, name):
		return ""
	}
	if !interpreter.Is(name) {
		return ""
	}
	why := fmt.Sprintf("%s, which may run what it reads", name)
	line := []interpreter.Argument{}
	for _, w := range args[1:] {
		a := r.wordArgument(w)
		if s, ok := a.Literal(); ok && slices.Contains([]string{"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"}, s) {
			return why
		}
		line = append(line, a)
	}
	if interpreter.ReadsCode(name, line) {
		return why
	}
	return ""
}

// static returns the text of a word without quotes, if nothing in it is expanded.
func (r *reading) static(w *syntax.Word) (string, bool) {
	if r.holds(w) {
		return "", false
	}
	return staticWord(w)
}

// staticWord returns the text of a word without quotes, if nothing in it is expanded, split or
// matched.
func staticWord(w *syntax.Word) (string, bool) {
	if w == nil {
		return "", false
	}
	var b strings.Builder
	for _, p := range w.Parts {
		switch p := p.(type) {
		case *syntax.Lit:
			s, ok := unescape(p.Value, "", b.Len() == 0)
			if !ok && !(p.Value == "[" && len(w.Parts) == 1) {
				return "", false
			}
			b.WriteString(s)
		case *syntax.SglQuoted:
			if p.Dollar {
				return "", false
			}
			b.WriteString(p.Value)
		case *syntax.DblQuoted:
			if p.Dollar {
				return "", false
			}
			for _, q := range p.Parts {
				l, ok := q.(*syntax.Lit)
				if !ok {
					return "", false
				}
				s, _ := unescape(l.Value, "$`\"\\", false)
				b.WriteString(s)
			}
		default:
			return "", false
		}
	}
	return b.String(), true
}

// oneWord reports whether a word is exactly one argument whatever is expanded in it.
func oneWord(w *syntax.Word) bool {
	for _, p := range w.Parts {
		switch p := p.(type) {
		case *syntax.Lit:
			if _, ok := unescape(p.Value, "", false); !ok {
				return false
			}
		case *syntax.DblQuoted:
			for _, q := range p.Parts {
				e, ok := q.(*syntax.ParamExp)
				if ok && (e.Param == nil || e.Param.Value == "@" || e.Index != nil || e.Excl || e.Slice != nil || e.Exp != nil) {
					return false
				}
			}
		case *syntax.SglQuoted, *syntax.ProcSubst:
		default:
			return false
		}
	}
	return true
}

// unescape removes backslashes from a literal: all of them if only is "", otherwise those before
// one of the characters of only. It reports whether the literal means itself when it is not quoted.
func unescape(s, only string, first bool) (string, bool) {
	var b strings.Builder
	ok := !first || !strings.HasPrefix(s, "~")
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case c == '\\' && i+1 < len(s) && s[i+1] == '\n':
			i++
			continue
		case c == '\\' && i+1 < len(s) && (only == "" || strings.IndexByte(only, s[i+1]) >= 0):
			i++
		case only == "" && strings.IndexByte("*?[{", c) >= 0:
			ok = false
		}
		b.WriteByte(s[i])
	}
	if s == "[" {
		return s, false
	}
	return b.String(), ok
}

// literalPrefix is the literal text that a word surely begins with.
func literalPrefix(w *syntax.Word) string {
	if w == nil || len(w.Parts) == 0 {
		return ""
	}
	part := w.Parts[0]
	if q, ok := part.(*syntax.DblQuoted); ok && len(q.Parts) > 0 {
		part = q.Parts[0]
	}
	switch p := part.(type) {
	case *syntax.Lit:
		return p.Value
	case *syntax.SglQuoted:
		return p.Value
	}
	return ""
}

// plainName reports whether the name of a command means nothing more.
func plainName(s string) bool {
	return s == "[" || s != "" && strings.Trim(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./+-:@%,") == ""
}

// isEchoOption reports whether echo regards s as options.
func isEchoOption(s string) bool {
	return len(s) > 1 && s[0] == '-' && strings.Trim(s[1:], "neE") == ""
}
