package tools

import (
	"fmt"
	"slices"
	"strings"

	"jp/tools/files"
	"jp/tools/shell"
	"jp/tools/template"
)

// shell reads the forms { script } and { script_file } of a command.
func (d *decoder) shell(key string, t map[string]any) CommandLine {
	for _, k := range []string{"program", "args"} {
		if _, ok := t[k]; ok {
			d.fail(key+"."+k, "a shell text has no %s", k)
		}
	}
	var c CommandLine
	script, hasScript := t["script"]
	file, hasFile := t["script_file"]
	switch {
	case hasScript && hasFile:
		d.fail(key+".script_file", "there is a script already")
	case hasScript:
		key += ".script"
		c.Script = d.str(key, script)
	case hasFile:
		key += ".script_file"
		c.ScriptFile = d.str(key, file)
		c.Script = d.scriptFile(key, c.ScriptFile)
	default:
		d.failHint(key, `command = { script = "..." } or { script_file = "x.sh" }`, "script is missing")
	}
	if i, ok := t["interpreter"]; ok {
		c.Program = choice(d, "command.interpreter", i, "bash", "sh")
	}
	if d.err != nil {
		return CommandLine{}
	}
	s, err := shell.Parse(c.ScriptFile, c.Script, c.Program)
	if err != nil {
		d.shellFail(key, c.ScriptFile, err)
		return CommandLine{}
	}
	c.Program, c.shell = s.Interpreter, s
	return c
}

// scriptFile is the text of a file beside the definition.
func (d *decoder) scriptFile(key, name string) string {
	switch {
	case d.err != nil:
	case d.read == nil:
		d.failHint(key, "define the tool in a file of its own, beside the script, and enable it here", "only the file of a definition can name one")
	case name == "" || strings.ContainsAny(name, `/\`) || strings.HasPrefix(name, "."):
		d.fail(key, "%q: want the name of a file in the folder of the definition", name)
	default:
		text, err := d.read(name)
		if err != nil {
			d.fail(key, "%q: %v", name, files.Reason(err))
		}
		return string(text)
	}
	return ""
}

// shellFail records what is wrong with a shell text. Line numbers count from the beginning of the
// text.
func (d *decoder) shellFail(key, file string, err error) {
	if file != "" {
		err = fmt.Errorf("%s: %w", file, err)
	}
	d.fail(key, "%v", err)
}

// shellWhole checks a shell text against the definition around it.
func (d *decoder) shellWhole(def *Definition) {
	s := def.Command.shell
	key := keyCommand + ".script"
	if s.File != "" {
		key += "_file"
	}
	err := template.EachPath(s.Nodes, nil, func(p *template.Path, names []string) error {
		if slices.Contains(names, p.Keys[0]) {
			return nil
		}
		return def.checkPath(p)
	})
	if err == nil {
		err = s.Check(def.shellRules())
	}
	if err != nil {
		d.shellFail(key, s.File, err)
	}
}

// shellRules is what d says about values in its shell text.
func (def Definition) shellRules() shell.Rules { return shell.Rules{Dash: def.dash, Env: def.Env} }
