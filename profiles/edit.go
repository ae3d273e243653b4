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
	return edit(data, p.key, value, func(e *editing) (string, *Error) {
		if old, ok := tomldoc.Lookup(e.want, p.key); ok && isTable(old) {
			return "", &Error{Msg: "is a table", Hint: "set the keys in it"}
		}
		if !tomldoc.Put(e.want, p.key, value) {
			return "", &Error{Msg: "lies in what is no table", Hint: "edit the file"}
		}
		return tomldoc.Splice(e.src, e.list, p.key, tomldoc.Inline(value)), nil
	})
}

// Unset returns the TOML text data without the setting or the table key, which need not be one that
// config may hold. Everything else keeps its bytes. Errors are *Error without a file.
func Unset(data []byte, key string) (Edited, error) {
	parts, ok := tomldoc.SplitKey(key)
	if !ok {
		return Edited{}, &Error{Key: printable(key), Msg: "is no key"}
	}
	return edit(data, parts, nil, func(e *editing) (string, *Error) {
		if _, ok := tomldoc.Lookup(e.want, parts); !ok {
			bad := &Error{Msg: "is not set in this file"}
			if _, err := Describe(key); err != nil {
				bad.Hint = err.(*Error).Hint
			}
			return "", bad
		}
		tomldoc.Drop(e.want, parts)
		return tomldoc.Cut(e.src, e.list, parts), nil
	})
}

// editing is a text under edit.
type editing struct {
	src  string // without a byte order mark
	list []tomldoc.Statement
	want map[string]any // settings that the result has to have
}

// edit changes the text of one key, and checks that change has made of the text what it has made of
// want.
func edit(data []byte, key []string, value any, change func(*editing) (string, *Error)) (Edited, error) {
	tree, marks, err := parseTOML(data)
	if err != nil {
		return Edited{}, err
	}
	fail := func(e *Error) (Edited, error) {
		e.Line, e.Key = (&document{marks: marks}).position(key).Line, tomldoc.JoinKey(key)
		return Edited{}, e
	}
	src, bom := strings.CutPrefix(string(data), "\ufeff")
	e := &editing{src: src, want: tomldoc.CloneTable(tree)}
	if e.list, err = tomldoc.Statements(src); err != nil {
		return fail(&Error{Msg: "cannot be changed in this file", Hint: "edit it"})
	}
	changed, bad := change(e)
	if bad != nil {
		return fail(bad)
	}
	text := []byte(changed)
	if bom {
		text = append([]byte("\ufeff"), text...)
	}
	now, after, err := parseTOML(text)
	tomldoc.Prune(e.want, now, key) // a table without a header goes with the last of it
	if err != nil || !bytes.Equal(tomldoc.Canonical(now), tomldoc.Canonical(e.want)) {
		return fail(&Error{Msg: "cannot be changed in this file without touching more of it", Hint: "edit it"})
	}
	return Edited{Text: text, Key: tomldoc.JoinKey(key), Value: value, Line: (&document{marks: after}).position(key).Line}, nil
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
