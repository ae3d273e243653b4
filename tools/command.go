package tools

import (
	"errors"
	"fmt"
	"strings"

	"jp/tools/brief"
	"jp/tools/interpreter"
	"jp/tools/shell"
	"jp/tools/template"
)

// CommandLine is the command of a local tool: a program and its arguments, some of them templates,
// executed directly, or a shell text. The zero CommandLine is no command.
type CommandLine struct {
	Text    string   // of the form command = "..."; "" for the others
	Program string   // literal; the shell of a shell text
	Args    []string // of the form { program, args }
	// Script is the text of the forms { script } and { script_file }, for the shell that Program
	// names, "bash" or "sh".
	Script     string
	ScriptFile string // the name of its file, in the folder of the definition; "" = none

	args  []argumentTemplate
	shell *shell.Text
}

// IsZero reports whether there is no command.
func (c CommandLine) IsZero() bool { return c.Program == "" }

// argumentTemplate is the template of one argument. In the table form one template may render to no
// argument or to several: an {{#if}} or {{#for}} that is the whole argument, or a placeholder that
// is the whole argument and names a list.
type argumentTemplate struct {
	interpreter.Argument
	spread bool
}

// maxCommand bounds the text of a command in bytes.
const maxCommand = 32_000

// parseCommandText parses the form command = "...".
func parseCommandText(text string) (CommandLine, error) {
	c := CommandLine{Text: text}
	if len(text) > maxCommand {
		return c, fmt.Errorf("is longer than %s", brief.Size(maxCommand))
	}
	if strings.HasPrefix(text, "#!") {
		return c, errors.New("is a script, not a command: write command = { script = ... }")
	}
	words, err := template.SplitWords(text)
	if err != nil {
		return c, err
	}
	if len(words) == 0 {
		return c, errors.New("is empty")
	}
	for i, w := range words {
		t, err := w.Parse()
		var bad *template.Error
		if errors.As(err, &bad) && strings.Contains(bad.Msg, "is never closed: ") {
			bad.Msg += " in the same word; for an argument that may be absent write command = { program, args }"
		}
		if err != nil {
			return c, err
		}
		a := interpreter.Argument(t.Nodes)
		if i > 0 {
			c.args = append(c.args, argumentTemplate{Argument: a})
		} else if c.Program, err = literalProgram(a); err != nil {
			return c, err
		}
	}
	return c, nil
}

// parseCommandTable parses the form command = { program, args }.
func parseCommandTable(program string, args []string) (CommandLine, error) {
	c := CommandLine{Args: args}
	size := len(program)
	t, err := template.Parse(program)
	if err != nil {
		return c, fmt.Errorf("program: %w", err)
	}
	if c.Program, err = literalProgram(interpreter.Argument(t.Nodes)); err != nil {
		return c, err
	}
	for i, a := range args {
		t, err := template.Parse(a)
		if err != nil {
			return c, fmt.Errorf("args[%d]: %w", i, err)
		}
		if size += len(a); size > maxCommand {
			return c, fmt.Errorf("is longer than %s", brief.Size(maxCommand))
		}
		if strings.ContainsRune(a, 0) {
			return c, fmt.Errorf("args[%d]: holds a NUL byte", i)
		}
		c.args = append(c.args, argumentTemplate{interpreter.Argument(t.Nodes), true})
	}
	return c, nil
}

// literalProgram is the program that a names. Values may not choose it.
func literalProgram(a interpreter.Argument) (string, error) {
	s, ok := a.Literal()
	switch {
	case !ok:
		return "", errors.New("program: a placeholder cannot choose what runs")
	case s == "" || strings.ContainsRune(s, 0) || strings.HasSuffix(s, "/"):
		return "", fmt.Errorf("program: %q is no program", s)
	}
	return s, nil
}

// check calls visit with each path in the command that is not a loop variable.
func (c CommandLine) check(visit func(*template.Path) error) error {
	for _, a := range c.args {
		err := template.EachPath(a.Argument, nil, func(p *template.Path, names []string) error {
			for _, n := range names {
				if p.Keys[0] == n {
					return nil
				}
			}
			return visit(p)
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// checkInterpreters refuses placeholders in arguments that a program would run as code. dash names
// the parameters whose values may start with '-'.
func (c CommandLine) checkInterpreters(dash map[string]bool) error {
	args := make([]interpreter.Argument, len(c.args))
	for i, a := range c.args {
		args[i] = a.Argument
	}
	return interpreter.Check(c.Program, args, dash)
}

// Bounds of an argument list. Linux takes 128 KiB for one argument with its final NUL.
const maxArgument = 128<<10 - 1

// render makes the arguments for a call, program excluded. dash names the parameters whose values
// may start with '-'.
func (c CommandLine) render(data map[string]any, dash map[string]bool) ([]string, error) {
	w := argWriter{dash: dash}
	w.r = template.Renderer{Data: data, Emit: w.emit}
	for _, a := range c.args {
		if err := w.argument(a.Argument, a.spread, false); err != nil {
			return nil, err
		}
	}
	return w.out, nil
}

// argWriter renders arguments and records which part of each is a value and which is literal.
type argWriter struct {
	r    template.Renderer
	dash map[string]bool
	out  []string
	ends bool // a literal -- was written: what follows are operands

	b       strings.Builder
	first   *template.Path // origin of the first byte; nil = literal
	value   *template.Path // origin of the last value in it; nil = all literal
	invalid error
}

// argument renders nodes as one argument, or as the elements of a list. branch is set for the body
// of a block, which may be empty.
func (w *argWriter) argument(nodes []template.Node, spread, branch bool) error {
	if branch && len(nodes) == 0 {
		return nil
	}
	if spread && len(nodes) == 1 {
		switch n := nodes[0].(type) {
		case template.If:
			v, _, err := w.r.Lookup(n.Path)
			if err != nil {
				return err
			}
			if template.Truthy(v) {
				return w.argument(n.Then, true, true)
			}
			return w.argument(n.Else, true, true)
		case template.For:
			return w.r.Each(n, func() error { return w.argument(n.Body, true, true) })
		case template.Value:
			v, from, err := w.r.Value(n.Path)
			if err != nil {
				return err
			}
			if list, ok := v.([]any); ok {
				return w.list(n.Path, list, from)
			}
		}
	}
	if err := w.r.Nodes(nodes); err != nil {
		return err
	}
	return w.flush()
}

// list writes one argument for each element.
func (w *argWriter) list(p *template.Path, list []any, from *template.Path) error {
	for _, e := range list {
		if e == nil || e == template.Omitted {
			return p.At.Errorf("%s holds null", p)
		}
		s, err := template.ValueText(e)
		if err != nil {
			return p.At.Errorf("%s %v", p, err)
		}
		if err := w.r.Put(s, from, p.At); err != nil {
			return err
		}
		if err := w.flush(); err != nil {
			return err
		}
	}
	return nil
}

// emit adds a piece to the argument.
func (w *argWriter) emit(s string, from *template.Path) {
	if w.b.Len() == 0 && s != "" {
		w.first = from
	}
	if from != nil {
		w.value = from
	}
	w.b.WriteString(s)
	if from != nil && w.invalid == nil && strings.ContainsRune(s, 0) {
		w.invalid = &template.ValueError{Argument: template.LastKey(from), Msg: "holds a NUL byte"}
	}
}

// flush ends the argument and checks it.
func (w *argWriter) flush() error {
	s, first, value := w.b.String(), w.first, w.value
	w.b.Reset()
	w.first, w.value = nil, nil
	if w.invalid != nil {
		return w.invalid
	}
	if name := template.ArgumentOf(first); name != "" && strings.HasPrefix(s, "-") && !w.ends && !w.dash[name] {
		return &template.ValueError{Argument: name, Msg: fmt.Sprintf("must not start with '-': %s would be an option, not a value", brief.Quote(s))}
	}
	if len(s) > maxArgument {
		return &template.ValueError{Argument: template.LastKey(value), Msg: fmt.Sprintf("is too long: an argument of a program is at most %s", brief.Size(maxArgument))}
	}
	if s == "--" && value == nil {
		w.ends = true
	}
	w.out = append(w.out, s)
	return nil
}
