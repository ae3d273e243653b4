package profiles

import (
	"bytes"
	"strings"

	"jp/profiles/fault"
	"jp/profiles/tomldoc"
)

// Edited is a TOML text after Edit, and what was set in it.
type Edited struct {
	Text  []byte
	Key   string // dotted, quoted where TOML quotes
	Value any    // as Value has it
	Line  int    // line that it is in
}

// Edit returns the TOML text data with one more setting, or another value of it. d is an assignment
// as --cfg has it, key=value or key:=json. Everything else keeps its bytes: comments, order, how
// values are written. Edit checks that the result has the same settings as data, and d. Whether
// that is a good config is for Resolve to say.
//
// Errors are *Error: with d.Flag as the layer for what is wrong with d, else without a file.
func Edit(data []byte, d Directive) (Edited, error) {
	p, err := parseDirective(d)
	if err != nil {
		return Edited{}, err
	}
	if p.form != assignForm {
		bad := &Error{Layer: d.Flag, Msg: "must be key=value or key:=json"}
		if parts, ok := tomldoc.SplitKey(d.Text); ok {
			if row, _, known := newSchema().find(parts); row != nil && known { // else it may be a value, which errors do not repeat
				bad.Key, bad.Hint = tomldoc.JoinKey(parts), "write "+tomldoc.JoinKey(parts)+"=VALUE"
			}
		}
		return Edited{}, bad
	}
	doc, err := newSchema().assignment(Layer{Name: d.Flag}, p.key, p.arg, p.json)
	if err != nil {
		return Edited{}, err
	}
	value, _ := tomldoc.Lookup(doc.tree, p.key)
	fail := func(line int, msg, hint string) (Edited, error) {
		return Edited{}, &Error{Line: line, Key: tomldoc.JoinKey(p.key), Msg: msg, Hint: hint}
	}
	tree, marks, err := parseTOML(data)
	if err != nil {
		return Edited{}, err
	}
	at := document{marks: marks}
	want := tomldoc.CloneTable(tree)
	switch old, ok := tomldoc.Lookup(tree, p.key); {
	case ok && isTable(old):
		return fail(at.position(p.key).Line, "is a table", "set the keys in it")
	case !tomldoc.Put(want, p.key, value):
		return fail(at.position(p.key).Line, "lies in what is no table", "edit the file")
	}
	src, bom := strings.CutPrefix(string(data), "\ufeff")
	list, err := tomldoc.Statements(src)
	if err != nil {
		return fail(0, "cannot be set in this file", "edit it")
	}
	text := []byte(tomldoc.Splice(src, list, p.key, tomldoc.Inline(value)))
	if bom {
		text = append([]byte("\ufeff"), text...)
	}
	now, marks, err := parseTOML(text)
	if err != nil || !bytes.Equal(tomldoc.Canonical(now), tomldoc.Canonical(want)) {
		return fail(at.position(p.key).Line, "cannot be set in this file without touching more of it", "edit it")
	}
	return Edited{Text: text, Key: tomldoc.JoinKey(p.key), Value: value, Line: (&document{marks: marks}).position(p.key).Line}, nil
}

// Format returns the TOML text data in the one form, as tomldoc.Format does. Errors are *Error
// without a file.
func Format(data []byte) ([]byte, error) {
	out, err := tomldoc.Format(data)
	if err != nil {
		return nil, fault.OfTOML(err)
	}
	return out, nil
}

func isTable(v any) bool { _, ok := v.(map[string]any); return ok }
