package profiles

import (
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"unicode/utf8"

	"jp/profiles/kinds"
	"jp/profiles/tomldoc"
)

// form is the kind of a --cfg directive.
type form uint8

const (
	noneForm form = iota
	workspaceForm
	assignForm
	pathForm
	builtinForm
	nameForm
)

// parsed is one directive, parsed: an exact word, key=value, path, builtin:name or name.
type parsed struct {
	flag string
	form form
	text string   // as given
	arg  string   // path without @, name without builtin:, value
	key  []string // of an assignment
	json bool     // key:=value
}

// parseDirective reads d. Its errors do not repeat the text: it may hold a value.
func parseDirective(d Directive) (parsed, error) {
	p := parsed{flag: d.Flag, text: d.Text}
	fail := func(msg, hint string) (parsed, error) {
		return parsed{}, &Error{Layer: d.Flag, Msg: msg, Hint: hint}
	}
	switch {
	case d.Text == "":
		return fail("is empty", "give NONE, WORKSPACE, key=value, a path, builtin:<name> or the name of a profile")
	case !utf8.ValidString(d.Text) || strings.ContainsRune(d.Text, 0):
		return fail("is not UTF-8 text", "")
	case d.Text == "NONE":
		p.form = noneForm
		return p, nil
	case d.Text == "WORKSPACE":
		p.form = workspaceForm
		return p, nil
	}
	if key, value, ok := strings.Cut(d.Text, "="); ok {
		key, json := strings.CutSuffix(key, ":")
		if parts, ok := tomldoc.SplitKey(key); ok {
			p.form, p.key, p.arg, p.json = assignForm, parts, value, json
			return p, nil
		}
	}
	if rest, ok := strings.CutPrefix(d.Text, "@"); ok {
		if rest == "" {
			return fail("names no file after @", "")
		}
		p.form, p.arg = pathForm, rest
		return p, nil
	}
	if isPath(d.Text) {
		p.form, p.arg = pathForm, d.Text
		return p, nil
	}
	if rest, ok := strings.CutPrefix(d.Text, "builtin:"); ok {
		p.form, p.arg = builtinForm, rest
		return p, nil
	}
	if strings.Contains(d.Text, "=") {
		return fail("has no key before =", "write key=value, or ./ before the path of a file")
	}
	if !isName(d.Text) {
		return fail("is neither a path nor the name of a profile", "write ./ before the path of a file")
	}
	p.form, p.arg = nameForm, d.Text
	return p, nil
}

// MachineKeys returns the machine settings that directives assign, in their order. It leaves out what
// Resolve refuses.
func MachineKeys(ds []Directive) (keys []string) {
	s := newSchema()
	for _, d := range ds {
		p, err := parseDirective(d)
		if err != nil || p.form != assignForm {
			continue
		}
		doc, err := s.assignment(Layer{Kind: AssignLayer, Name: p.flag}, p.key, p.arg, p.json)
		if err != nil {
			continue
		}
		leaves, _ := s.check(doc)
		for _, l := range leaves {
			if l.row.class == machine {
				keys = append(keys, tomldoc.Key(l.parts))
			}
		}
	}
	return keys
}

// isPath: a text that begins like a path cannot be a name, so ../x and /x are paths too.
func isPath(s string) bool {
	for _, prefix := range []string{"./", "../", "/", "~/"} {
		if strings.HasPrefix(s, prefix) {
			return true
		}
	}
	return strings.HasSuffix(s, ".toml")
}

// isName reports whether s can be looked up below a folder without leaving it.
func isName(s string) bool {
	return s != "." && fs.ValidPath(s) && filepath.IsLocal(s) && kinds.NoControl(s) == nil && !strings.Contains(s, `\`)
}

// printable is a name from outside, safe for a message.
func printable(s string) string {
	if isName(s) {
		return s
	}
	return strconv.QuoteToGraphic(tomldoc.OneLine(s))
}

// assignment returns the document of a key=value directive or a variable, with the value read as
// JSON or as text.
func (s *schema) assignment(layer Layer, key []string, value string, json bool) (*document, error) {
	d := &document{layer: layer}
	fail := func(msg, hint string) (*document, error) { return nil, d.fail(key, msg, hint) }
	row, n, known := s.find(key)
	if row == nil && !known {
		return fail("unknown key", s.suggestion(key[:n+1], key[n+1:]...))
	}
	var v any
	switch {
	case json:
		parsed, err := tomldoc.ParseJSON([]byte(value), false)
		if err != nil {
			return fail(err.Error(), "")
		}
		v = parsed
	case row == nil:
		return fail("is a table, not a value", "write "+tomldoc.JoinKey(key)+`:={"key": value}`)
	case !known:
		return fail("unknown key", tomldoc.JoinKey(key[:n])+" holds "+string(row.kind)+", no keys of its own")
	case !utf8.ValidString(value):
		return fail("is not UTF-8 text", "")
	case row.kind == kinds.Table && len(key) > n:
		v = kinds.Guess(value)
	default:
		parsed, err := row.kind.Parse(value)
		if err != nil {
			hint := ""
			switch row.kind {
			case kinds.Texts:
				hint = "write " + tomldoc.JoinKey(key) + `:=["a", "b"]`
			case kinds.Sections:
				hint = "write " + tomldoc.JoinKey(key) + `:=[{"content": "..."}]`
			case kinds.Table:
				hint = "write " + tomldoc.JoinKey(key) + ".<key>=value"
			}
			return fail(err.Error(), hint)
		}
		v = parsed
	}
	for i := len(key) - 1; i > 0; i-- {
		v = map[string]any{key[i]: v}
	}
	d.tree = map[string]any{key[0]: v}
	return d, nil
}
