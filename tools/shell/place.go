package shell

import (
	"fmt"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"jp/tools/interpreter"
	"jp/tools/template"
)

// quote is how a placeholder is quoted where it is.
type quote uint8

const (
	unquoted quote = iota
	singleQuoted
	dollarQuoted
	doubleQuoted
	heredocText
)

// expansion returns the expansion for a placeholder that is quoted like this. The value is one
// piece of text everywhere: nothing splits, globs or evaluates it.
func (q quote) expansion(name string) string {
	switch q {
	case singleQuoted:
		return `'"${` + name + `}"'`
	case dollarQuoted:
		return `'"${` + name + `}"$'`
	case doubleQuoted, heredocText:
		return `${` + name + `}`
	}
	return `"${` + name + `}"`
}

// use is where the value of a placeholder goes.
type use struct {
	quote   quote
	program string // program that gets it as an argument; "" = none
	argv    bool   // it is in the arguments or the environment of a program
	options bool   // an option may be here
	leads   bool   // the argument may begin with it
	echo    bool   // options are those of echo
	alone   bool   // it is the whole argument
	before  []int  // the placeholders before it in the argument
}

// reading is what one shell reads in a text.
type reading struct {
	src   *source
	uses  []use // by leaf
	rules Rules

	commands map[*syntax.CallExpr]command
	funcs    map[string]bool   // functions that the text defines
	declared map[string]string // variables with attributes, and how they got them
	exported map[string]bool   // variables that programs get
	exports  bool              // all are
	dynamic  string            // a declaration of names that are not written out; "" = none
}

// readAs parses a text as lang and finds the use of each of its placeholders.
func (s *Text) readAs(lang syntax.LangVariant, chunks []chunk, rules Rules) (*reading, error) {
	src, err := s.source(chunks)
	if err != nil {
		return nil, err
	}
	file, err := parseSyntax(lang, src.text)
	if err != nil {
		return nil, src.syntaxError(lang, err)
	}
	r := &reading{
		src: src, rules: rules, uses: make([]use, len(src.leaves)),
		commands: map[*syntax.CallExpr]command{}, funcs: map[string]bool{}, declared: map[string]string{}, exported: map[string]bool{},
	}
	if len(src.leaves) == 0 {
		return r, nil
	}
	if strings.Count(src.text, s.mark) != len(src.leaves) || strings.Contains(src.text, argVariable) {
		return nil, src.leaves[0].errorf("is in a text with {{\"...\"}} that makes names of ours")
	}
	if err := r.survey(file); err != nil {
		return nil, err
	}
	return r, r.findTokens(file)
}

// findTokens finds each token in a literal and checks everything around it.
func (r *reading) findTokens(file *syntax.File) error {
	var (
		stack  []syntax.Node
		first  error
		placed = make([]bool, len(r.uses))
	)
	syntax.Walk(file, func(n syntax.Node) bool {
		if n == nil {
			stack = stack[:len(stack)-1]
			return true
		}
		stack = append(stack, n)
		var text string
		switch n := n.(type) {
		case *syntax.Lit:
			text = n.Value
		case *syntax.SglQuoted:
			text = n.Value
		default:
			return true
		}
		i, last := r.src.inside(int(n.Pos().Offset()), int(n.End().Offset()))
		for ; i < last; i++ {
			span := r.src.spans[i]
			if !strings.Contains(text, r.src.text[span[0]:span[1]]) {
				continue // another literal at the same place
			}
			use, why := r.use(i, stack)
			placed[i] = true
			r.uses[i] = use
			if why != "" && first == nil {
				first = r.src.leaves[i].errorf("%s", why)
			}
		}
		return true
	})
	if first != nil {
		return first
	}
	for i, ok := range placed {
		if !ok {
			return r.src.leaves[i].errorf("is in a comment or another place that takes no value")
		}
	}
	return nil
}

// use returns the use of a leaf in the literal on top of stack, or the reason why it cannot be used
// there.
func (r *reading) use(leaf int, stack []syntax.Node) (u use, why string) {
	top := len(stack) - 1
	switch n := stack[top].(type) {
	case *syntax.SglQuoted:
		if _, ok := stack[top-1].(*syntax.Word); !ok {
			return u, refusedIn(stack[top-1])
		}
		u.quote = singleQuoted
		if n.Dollar {
			u.quote = dollarQuoted
		}
	default:
		switch in := stack[top-1].(type) {
		case *syntax.DblQuoted:
			u.quote = doubleQuoted
			if in.Dollar {
				return u, translated
			}
		case *syntax.Word:
			if redirect, ok := stack[top-2].(*syntax.Redirect); ok && redirect.Hdoc == in {
				u.quote = heredocText
			}
		case *syntax.ParamExp:
			return u, "would be part of a variable's name: write ${NAME} in front of it"
		default:
			return u, refusedIn(in)
		}
	}
	if why := r.escaped(leaf, u.quote); why != "" {
		return u, why
	}
	c := climb{leaf: leaf, direct: true}
	for i := top - 1; i > 0; i-- {
		if why := r.step(&u, &c, stack[:i+1]); why != "" {
			return u, why
		}
	}
	return u, ""
}

// escaped returns the reason why the text before a token would change its expansion; "" = none.
func (r *reading) escaped(leaf int, q quote) string {
	before := r.src.text[:r.src.spans[leaf][0]]
	slashes := len(before) - len(strings.TrimRight(before, `\`))
	switch {
	case q == singleQuoted:
		return ""
	case slashes%2 == 1:
		return `follows a backslash: nothing needs one here, values are never shell text`
	case q == dollarQuoted && strings.HasSuffix(before, `\c`):
		return `follows \c`
	}
	return ""
}

// climb is the way of a value from its literal to the whole text.
type climb struct {
	leaf   int
	direct bool // nothing is between the value and the place
	split  bool // it comes out of a $(...) that is not quoted
}

// step checks what the node on top of stack does with the one below it.
func (r *reading) step(u *use, c *climb, stack []syntax.Node) (why string) {
	top := len(stack) - 1
	n := stack[top]
	switch in := stack[top-1].(type) {
	case *syntax.File, *syntax.Stmt, *syntax.IfClause, *syntax.WhileClause, *syntax.Block, *syntax.Subshell,
		*syntax.TimeClause, *syntax.FuncDecl, *syntax.ArrayExpr, *syntax.CaseClause, *syntax.TestClause, *syntax.ParenTest:
		return ""
	case *syntax.Word:
		_, c.split = n.(*syntax.CmdSubst)
	case *syntax.DblQuoted:
		if in.Dollar {
			return translated
		}
	case *syntax.CmdSubst:
		if in.Backquotes {
			return "is in `...`: write $(...)"
		}
		if in.TempFile || in.ReplyVar {
			return refusedIn(in)
		}
		c.direct = false
	case *syntax.ProcSubst:
		c.direct = false
	case *syntax.CallExpr:
		if _, ok := n.(*syntax.Assign); ok {
			u.argv = u.argv || c.direct && len(in.Args) > 0
			return ""
		}
		return r.argument(u, c, in, n)
	case *syntax.Assign:
		call, ok := stack[top-2].(*syntax.CallExpr)
		if !ok {
			return "is in a declaration: declare the name first, then write name={{...}}"
		}
		if n == syntax.Node(in.Name) || n == syntax.Node(in.Index) || in.Index != nil {
			return "is in or at a subscript or name, and a shell evaluates that"
		}
		if len(call.Args) > 0 && isUpper(in.Name.Value) {
			return givenToPrograms(in.Name.Value)
		}
		return r.assignable(in.Name.Value)
	case *syntax.ArrayElem:
		if in.Index != nil || strings.HasPrefix(literalPrefix(in.Value), "[") {
			return "is at a subscript, and a shell evaluates that"
		}
	case *syntax.Redirect:
		return r.redirect(in, n, stack[top-2])
	case *syntax.WordIter:
		if f, ok := stack[top-2].(*syntax.ForClause); !ok || f.Select {
			return "is in select"
		}
		if n == syntax.Node(in.Name) {
			return "would be the name of a loop's variable"
		}
		return r.assignable(in.Name.Value)
	case *syntax.ForClause:
		return ""
	case *syntax.CaseItem:
		if _, ok := n.(*syntax.Stmt); !ok {
			return "would be a pattern of case: compare with [ = ]"
		}
	case *syntax.UnaryTest:
		if !slices.Contains(safeUnary, in.Op) {
			return fmt.Sprintf("is behind %s, and a shell evaluates that", in.Op)
		}
	case *syntax.BinaryTest:
		switch in.Op {
		case syntax.AndTest, syntax.OrTest, syntax.TsMatchShort, syntax.TsMatch, syntax.TsNoMatch,
			syntax.TsNewer, syntax.TsOlder, syntax.TsDevIno, syntax.TsBefore, syntax.TsAfter:
		case syntax.TsReMatch:
			if n == syntax.Node(in.Y) {
				return "would be a regular expression"
			}
		default:
			return fmt.Sprintf("is beside %s, which is arithmetic, and a shell evaluates that: compare with = or check it with case first", in.Op)
		}
	case *syntax.BinaryCmd:
		if (in.Op == syntax.Pipe || in.Op == syntax.PipeAll) && n == syntax.Node(in.X) {
			if why := r.readsCode(in.Y); why != "" {
				return "is piped into " + why
			}
		}
	default:
		return refusedIn(in)
	}
	return ""
}

const translated = `is in $"...", which is translated`

// safeUnary are the tests of strings and files.
var safeUnary = []syntax.UnTestOperator{
	syntax.TsExists, syntax.TsRegFile, syntax.TsDirect, syntax.TsCharSp, syntax.TsBlckSp, syntax.TsNmPipe, syntax.TsSocket,
	syntax.TsSmbLink, syntax.TsSticky, syntax.TsGIDSet, syntax.TsUIDSet, syntax.TsGrpOwn, syntax.TsUsrOwn, syntax.TsModif,
	syntax.TsRead, syntax.TsWrite, syntax.TsExec, syntax.TsNoEmpty, syntax.TsEmpStr, syntax.TsNempStr, syntax.TsNot, syntax.TsParen,
}

// refusedIn returns the reason why no value may be in n: whatever is not known to be safe.
func refusedIn(n syntax.Node) string {
	switch n := n.(type) {
	case *syntax.ArithmExp, *syntax.ArithmCmd, *syntax.LetClause, *syntax.BinaryArithm, *syntax.UnaryArithm, *syntax.ParenArithm, *syntax.CStyleLoop:
		return "is in arithmetic, and a shell evaluates that"
	case *syntax.ParamExp:
		return "is in ${...}: assign it to a variable first"
	case *syntax.ExtGlob:
		return "is in a pattern"
	case *syntax.FuncDecl:
		return "would be the name of a function"
	case *syntax.DeclClause:
		return "is in a declaration: declare the name first, then write name={{...}}"
	case *syntax.Assign:
		return "would be the name of a variable"
	case *syntax.Redirect:
		return "would be a file descriptor"
	case *syntax.WordIter:
		return "would be the name of a loop's variable"
	case *syntax.CoprocClause:
		return "is in coproc"
	default:
		return fmt.Sprintf("is where no value is known to be safe (%s)", strings.TrimPrefix(fmt.Sprintf("%T", n), "*syntax."))
	}
}

// redirect checks a value in a redirection of stmt.
func (r *reading) redirect(in *syntax.Redirect, n, stmt syntax.Node) string {
	switch {
	case n == syntax.Node(in.Hdoc):
		for _, p := range in.Word.Parts {
			if l, ok := p.(*syntax.Lit); !ok || strings.Contains(l.Value, `\`) {
				return "is in a here-document with a quoted delimiter, where nothing is expanded: do not quote the delimiter"
			}
		}
	case n == syntax.Node(in.Word) && (in.Op == syntax.Hdoc || in.Op == syntax.DashHdoc):
		return "would be the delimiter of a here-document"
	case n != syntax.Node(in.Word) || in.Op != syntax.WordHdoc:
		return "would be the target of a redirection"
	}
	s, ok := stmt.(*syntax.Stmt)
	if !ok || s.Cmd == nil {
		return "is the input of no command"
	}
	if why := r.readsCode(s.Cmd); why != "" {
		return "is the input of " + why
	}
	return ""
}

const splits = "comes out of a $(...) that is not quoted, which splits it: quote that"

// argument checks a value in a word of a command.
func (r *reading) argument(u *use, c *climb, call *syntax.CallExpr, word syntax.Node) string {
	at := slices.IndexFunc(call.Args, func(w *syntax.Word) bool { return word == syntax.Node(w) })
	if at <= 0 {
		return "would choose what runs"
	}
	name, ok := r.static(call.Args[0])
	switch {
	case !ok || !plainName(name):
		return "is an argument of a command whose name is not written out"
	case r.funcs[name]:
		return fmt.Sprintf("is an argument of the function %s, which may do anything with it: assign it to a variable", name)
	case name == "echo":
		if c.direct {
			r.option(u, c.leaf, call, at)
			u.echo, u.options = !slices.ContainsFunc(call.Args[1:at], func(w *syntax.Word) bool {
				s, ok := r.static(w)
				return ok && !isEchoOption(s)
			}), false
		}
		return ""
	case name == "printf":
		return r.printfArgument(call.Args, at)
	case slices.Contains(builtins, name):
		return fmt.Sprintf("is an argument of %s: of the commands of the shell itself only echo, printf, test and [ take values", name)
	case c.split:
		return splits
	case name == "test" || name == "[":
		return r.testArgument(name, call.Args, at)
	}
	if why := r.external(name, call).why; why != "" {
		return fmt.Sprintf("is an argument of %s: %s", name, why)
	}
	if c.direct {
		u.argv, u.program = true, name
		r.option(u, c.leaf, call, at)
	}
	return ""
}

// command is what is known of a command with placeholders.
type command struct {
	why  string // reason why it takes no values, or not there
	ends int    // where its first literal -- is; 0 = none
}

// external checks the arguments of a command that is no part of the shell.
func (r *reading) external(name string, call *syntax.CallExpr) command {
	if known, ok := r.commands[call]; ok {
		return known
	}
	var c command
	var args []interpreter.Argument
	for i, w := range call.Args[1:] {
		args = append(args, r.wordArgument(w))
		if s, ok := r.static(w); ok && s == "--" && c.ends == 0 {
			c.ends = i + 1
		}
	}
	if err := interpreter.Check(name, args, r.rules.Dash); err != nil {
		c.why = err.Error()
	}
	r.commands[call] = c
	return c
}

// option says whether a value in an argument could be an option.
func (r *reading) option(u *use, leaf int, call *syntax.CallExpr, at int) {
	ends := r.commands[call].ends
	u.options = ends == 0 || at <= ends
	span := r.src.spans[leaf]
	start, end := int(call.Args[at].Pos().Offset()), int(call.Args[at].End().Offset())
	word := r.src.text[start:end]
	offset := span[0] - start
	before, _ := r.src.inside(start, span[0])
	u.before = nil
	lead := word[:offset]
	for i := before; i < leaf; i++ {
		u.before = append(u.before, i)
		s := r.src.spans[i]
		lead = strings.Replace(lead, r.src.text[s[0]:s[1]], "", 1)
	}
	// Only quotes and other values are before it: it may be the beginning. An expansion before it
	// may be empty.
	u.leads = strings.Trim(lead, `'"`) == "" || strings.IndexByte("$`<", (strings.TrimLeft(lead, `'"`) + " ")[0]) >= 0
	u.alone = strings.Trim(strings.Replace(word, r.src.text[span[0]:span[1]], "", 1), `'"`) == ""
}

// wordArgument converts a word for the table of interpreters: text that is written out, and values.
func (r *reading) wordArgument(w *syntax.Word) interpreter.Argument {
	if s, ok := r.static(w); ok {
		return interpreter.Argument{template.Text{Text: s}}
	}
	var nodes interpreter.Argument
	if p := literalPrefix(w); p != "" {
		first, last := r.src.inside(int(w.Pos().Offset()), int(w.End().Offset()))
		for i := first; i < last; i++ {
			if at := strings.Index(p, r.src.text[r.src.spans[i][0]:r.src.spans[i][1]]); at >= 0 {
				p = p[:at]
			}
		}
		if p != "" {
			nodes = append(nodes, template.Text{Text: p})
		}
	}
	first, last := r.src.inside(int(w.Pos().Offset()), int(w.End().Offset()))
	for i := first; i < last; i++ {
		nodes = append(nodes, template.Value{Path: r.src.leaves[i].from})
	}
	if first == last {
		nodes = append(nodes, template.Value{}) // a value of the text's own
	}
	return nodes
}

// holds reports whether there is a placeholder in a word.
func (r *reading) holds(w *syntax.Word) bool {
	first, last := r.src.inside(int(w.Pos().Offset()), int(w.End().Offset()))
	return first < last
}

// printfArgument checks the arguments of printf: values may be formatted, but may not be the format
// or the name of a variable.
func (r *reading) printfArgument(args []*syntax.Word, at int) string {
	format := 1
	if s, ok := r.static(args[1]); ok && s == "--" {
		format++
	}
	if format >= len(args) || at <= format {
		return "would be the format of printf: write printf '%s' first"
	}
	s, ok := r.static(args[format])
	switch {
	case !ok:
		return "is formatted by printf with a format that is not written out"
	case strings.HasPrefix(s, "-"):
		return "is an argument of printf with options"
	case formatAssigns(s):
		return "is an argument of printf with %n, which would be the name of a variable"
	}
	return ""
}

// formatAssigns reports whether a format has %n.
func formatAssigns(s string) bool {
	for {
		_, rest, ok := strings.Cut(s, "%")
		if !ok {
			return false
		}
		rest = strings.TrimLeft(rest, "-+ #0123456789.*'hljztL")
		if strings.HasPrefix(rest, "n") {
			return true
		}
		s = strings.TrimPrefix(rest, "%")
	}
}

// testArgument checks the arguments of test and [: only forms that have one meaning, with tests of
// strings and files.
func (r *reading) testArgument(name string, args []*syntax.Word, at int) string {
	args, at = args[1:], at-1
	if name == "[" {
		if s, ok := r.static(args[len(args)-1]); !ok || s != "]" || at == len(args)-1 {
			return "is an argument of [ without ]"
		}
		args = args[:len(args)-1]
	}
	if s, ok := r.static(args[0]); ok && s == "!" && len(args) > 1 {
		args, at = args[1:], at-1
	}
	if at < 0 {
		return "would be an operator of " + name
	}
	if slices.ContainsFunc(args, func(w *syntax.Word) bool { return !oneWord(w) }) {
		return "is an argument of " + name + " beside one that may be none or several: quote that"
	}
	switch len(args) {
	case 1:
		return ""
	case 2:
		if op, ok := r.static(args[0]); ok && at == 1 && len(op) == 2 && op[0] == '-' && strings.Contains("nzefdrwxsLhbcpSgukOGN", op[1:]) {
			return ""
		}
	case 3:
		if op, ok := r.static(args[1]); ok && at != 1 && slices.Contains([]string{"=", "==", "!=", "<", ">", "-nt", "-ot", "-ef"}, op) {
			return ""
		}
	default:
		return fmt.Sprintf("is one of more than three arguments of %s, which a value could make mean something else: use several tests", name)
	}
	return fmt.Sprintf("is no argument of a test of strings or files of %s: -v and numbers are evaluated", name)
}
