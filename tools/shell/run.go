package shell

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"jp/tools/brief"
	"jp/tools/template"
	"jp/tools/vanishing"
)

// Call is the program that a call of a shell text runs.
type Call struct {
	Path  string   // of the shell
	Args  []string // its arguments, its name first
	Env   []string // the variables that carry the values
	Files []string // files with large values, to be removed after the call

	dir *vanishing.Dir // folder of Files; nil = there are none
}

// Close removes the files.
func (c Call) Close() error { return c.dir.Remove() }

// folders is where a shell is looked for before the PATH of the tool.
var folders = []string{"/bin", "/usr/bin", "/usr/local/bin", "/opt/homebrew/bin", "/run/current-system/sw/bin"}

// shellPath returns the shell that runs the text.
func (s *Text) shellPath() string {
	for _, dir := range folders {
		path := dir + "/" + s.Interpreter
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0 {
			return path
		}
	}
	return s.Interpreter
}

// Call returns what runs for the values in data. It makes files in the folder temp. The caller
// closes it.
func (s *Text) Call(data map[string]any, rules Rules, temp string) (*Call, error) {
	chunks, err := s.flatten(data)
	if err != nil {
		return nil, err
	}
	r, err := s.read(chunks, rules)
	if err != nil {
		return nil, fmt.Errorf("with these arguments the shell text is refused: %w", err)
	}
	v := values{numbers: map[string]int{}}
	names := make([]string, len(r.uses))
	for i := range r.uses {
		if names[i], err = v.name(r, i); err != nil {
			return nil, err
		}
	}
	text, err := s.rewrite(r, names)
	if err != nil {
		return nil, err
	}
	c := &Call{Path: s.shellPath(), Env: v.env}
	if len(v.large) > 0 {
		if c.dir, err = folder(temp); err != nil {
			return nil, fmt.Errorf("large values: %w", err)
		}
	}
	var prologue strings.Builder
	for _, n := range v.large {
		name := argVariable + strconv.Itoa(n)
		file, err := c.dir.WriteFile(name, v.values[n])
		if err != nil {
			_ = c.Close() // the first error says more
			return nil, fmt.Errorf("a value of %s: %w", brief.Size(len(v.values[n])), err)
		}
		c.Files, c.Env = append(c.Files, file), append(c.Env, name+"_FILE="+file)
		// The last character protects line breaks at the end.
		fmt.Fprintf(&prologue, `%[1]s=$(command -p cat -- "${%[1]s_FILE}" && printf .) || exit 125; %[1]s=${%[1]s%%.}; `, name)
	}
	c.Args = []string{s.Interpreter}
	if s.Interpreter == "bash" {
		c.Args = append(c.Args, "--noprofile", "--norc")
	}
	c.Args = append(c.Args, "-c", prologue.String()+text, s.Interpreter)
	return c, nil
}

// flatten returns the text of a call: its blocks decided and unrolled, its placeholders with their
// values.
func (s *Text) flatten(data map[string]any) ([]chunk, error) {
	var (
		out []chunk
		add func(nodes []template.Node) error
	)
	r := template.Renderer{Data: data}
	size := func(n int, at template.Position) error {
		if r.Size += n; r.Size > template.MaxRendered || len(out) > template.MaxSteps {
			return at.Errorf("comes to more than %s", brief.Size(template.MaxRendered))
		}
		return nil
	}
	add = func(nodes []template.Node) error {
		for _, n := range nodes {
			var err error
			switch n := n.(type) {
			case template.Text:
				out = append(out, chunk{text: n.Text, at: n.At})
				err = size(len(n.Text), n.At)
			case template.Value:
				var (
					v    any
					from *template.Path
					text string
				)
				if v, from, err = r.Value(n.Path); err != nil {
					return err
				}
				if text, err = template.ValueText(v); err != nil {
					return n.Path.At.Errorf("%s %v", n.Path, err)
				}
				out = append(out, chunk{at: n.Path.At, leaf: &leaf{path: n.Path, from: from, value: text}})
				err = size(len(text), n.Path.At)
			case template.If:
				var v any
				if v, _, err = r.Lookup(n.Path); err != nil {
					return err
				}
				if template.Truthy(v) {
					err = add(n.Then)
				} else {
					err = add(n.Else)
				}
			case template.For:
				err = r.Each(n, func() error { return add(n.Body) })
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	return out, add(s.Nodes)
}

// values are the distinct values of a call and the variables for them.
type values struct {
	numbers map[string]int // by value
	values  []string
	large   []int // those that travel in files
	env     []string
	size    int
}

// name returns the variable for the value of a leaf, if it may be used there.
func (v *values) name(r *reading, i int) (string, error) {
	l, u := r.src.leaves[i], r.uses[i]
	argument := template.LastKey(l.from)
	switch parameter := template.ArgumentOf(l.from); {
	case strings.ContainsRune(l.value, 0):
		return "", &template.ValueError{Argument: argument, Msg: "holds a NUL byte"}
	case u.argv && len(l.value) > maxInline:
		return "", &template.ValueError{Argument: argument, Msg: fmt.Sprintf("is too long for the arguments and variables of a program (%s; at most %s)", brief.Size(len(l.value)), brief.Size(maxInline))}
	case parameter == "" || !u.leads || !emptyLeaves(r, u.before):
	case u.options && strings.HasPrefix(l.value, "-") && !r.rules.Dash[parameter]:
		return "", &template.ValueError{Argument: argument, Msg: fmt.Sprintf("must not start with '-': %s would be an option of %s, not a value", brief.Quote(l.value), u.program)}
	case u.echo && (isEchoOption(l.value) || l.value == "-" && !u.alone):
		return "", &template.ValueError{Argument: argument, Msg: fmt.Sprintf("must not be %s: that is an option of echo", brief.Quote(l.value))}
	}
	n, ok := v.numbers[l.value]
	if !ok {
		n = len(v.values)
		v.numbers[l.value] = n
		v.values = append(v.values, l.value)
		if len(l.value) > maxInline {
			v.large = append(v.large, n)
		} else {
			v.env = append(v.env, argVariable+strconv.Itoa(n)+"="+l.value)
			if v.size += len(l.value) + len(argVariable) + 8; v.size > maxInlineAll {
				return "", &template.ValueError{Argument: argument, Msg: fmt.Sprintf("and the others come to more than %s", brief.Size(maxInlineAll))}
			}
		}
	}
	return argVariable + strconv.Itoa(n), nil
}

func emptyLeaves(r *reading, leaves []int) bool {
	for _, i := range leaves {
		if r.src.leaves[i].value != "" {
			return false
		}
	}
	return true
}

// rewrite replaces the tokens by expansions of the named variables. It checks the result as a shell
// reads it: these expansions must be the only difference.
func (s *Text) rewrite(r *reading, names []string) (string, error) {
	var b strings.Builder
	end := 0
	for i, span := range r.src.spans {
		b.WriteString(r.src.text[end:span[0]])
		b.WriteString(r.uses[i].quote.expansion(names[i]))
		end = span[1]
	}
	b.WriteString(r.src.text[end:])
	text := b.String()
	for _, lang := range s.variants() {
		file, err := parseSyntax(lang, text)
		if err != nil {
			return "", fmt.Errorf("the shell text cannot be rewritten: %w", err)
		}
		if !slices.Equal(expansions(file, names), names) {
			return "", fmt.Errorf("the shell text cannot be rewritten: %s reads it differently", s.Interpreter)
		}
	}
	return text, nil
}

// expansions returns the variables for values that a text expands, in the order of the text; nil
// when one is not expanded as this package writes it.
func expansions(file *syntax.File, names []string) []string {
	var (
		parents []syntax.Node
		at      = map[int]string{} // by offset: here-documents are not walked in order
		ok      = true
	)
	syntax.Walk(file, func(n syntax.Node) bool {
		if n == nil {
			parents = parents[:len(parents)-1]
			return true
		}
		if p, is := n.(*syntax.ParamExp); is && p.Param != nil && strings.HasPrefix(p.Param.Value, argVariable) {
			quoted := false
			switch parents[len(parents)-1].(type) {
			case *syntax.DblQuoted:
				quoted = true
			case *syntax.Word:
				_, quoted = parents[len(parents)-2].(*syntax.Redirect)
			}
			start := int(p.Pos().Offset())
			ok = ok && quoted && int(p.End().Offset())-start == len("${}")+len(p.Param.Value)
			at[start] = p.Param.Value
		}
		parents = append(parents, n)
		return true
	})
	out := make([]string, 0, len(names))
	for _, start := range slices.Sorted(maps.Keys(at)) {
		out = append(out, at[start])
	}
	if !ok {
		return nil
	}
	return out
}

// folder makes a folder for the values of one call in temp, whose links are resolved in its path. It
// also removes the folders that killed processes have left there.
func folder(temp string) (*vanishing.Dir, error) {
	temp, err := filepath.Abs(cmp.Or(temp, os.TempDir())) // the program works in another folder
	if err == nil {
		temp, err = filepath.EvalSymlinks(temp)
	}
	if err != nil {
		return nil, err
	}
	go vanishing.Sweep(temp, vanishing.OfTool)
	return vanishing.Make(temp, vanishing.OfTool)
}
