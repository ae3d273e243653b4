package profiles

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"jp/profiles/tomldoc"
)

// Edited is a TOML text after Edit, and what was set in it.
type Edited struct {
	Text  []byte
	Key   string // dotted, quoted where TOML quotes
	Value any    // as Value has it
	Line  int    // where it stands
}

// Edit returns the TOML text data with one more setting, or another value of it. d is an assignment as --cfg has it,
// key=value or key:=json. Everything else keeps its bytes: comments, order, how values are written. Whether the result
// is a good config is for Resolve to say; that it says what it said before and d besides is sure.
//
// Errors are *Error: with d.Flag as the layer for what is wrong with d, else without a file.
func Edit(data []byte, d Directive) (Edited, error) {
	p, err := parseDirective(d)
	if err != nil {
		return Edited{}, err
	}
	if p.form != assignForm {
		bad := &Error{Layer: d.Flag, Msg: "must be key=value or key:=json"}
		if parts, ok := splitKey(d.Text); ok {
			if row, _, known := newSchema().find(parts); row != nil && known { // else it may be a value, which errors do not repeat
				bad.Key, bad.Hint = joinKey(parts), "write "+joinKey(parts)+"=VALUE"
			}
		}
		return Edited{}, bad
	}
	doc, err := newSchema().assignment(Layer{Name: d.Flag}, p.key, p.arg, p.json)
	if err != nil {
		return Edited{}, err
	}
	value, _ := lookup(doc.tree, p.key)
	fail := func(line int, msg, hint string) (Edited, error) {
		return Edited{}, &Error{Line: line, Key: joinKey(p.key), Msg: msg, Hint: hint}
	}
	tree, marks, err := parseTOML(data)
	if err != nil {
		return Edited{}, err
	}
	at := document{marks: marks}
	want := cloneTable(tree)
	switch old, ok := lookup(tree, p.key); {
	case ok && isTable(old):
		return fail(at.position(p.key).Line, "is a table", "set the keys in it")
	case !put(want, p.key, value):
		return fail(at.position(p.key).Line, "lies in what is no table", "edit the file")
	}
	src, bom := strings.CutPrefix(string(data), "\ufeff")
	list, err := tomldoc.Statements(src)
	if err != nil {
		return fail(0, "cannot be set in this file", "edit it")
	}
	text := []byte(splice(src, list, p.key, tomlValue(value)))
	if bom {
		text = append([]byte("\ufeff"), text...)
	}
	now, marks, err := parseTOML(text)
	if err != nil || !bytes.Equal(canonical(now), canonical(want)) {
		return fail(at.position(p.key).Line, "cannot be set in this file without touching more of it", "edit it")
	}
	return Edited{Text: text, Key: joinKey(p.key), Value: value, Line: (&document{marks: marks}).position(p.key).Line}, nil
}

func isTable(v any) bool { _, ok := v.(map[string]any); return ok }

// put sets the value at parts, and reports false where something that is no table stands in the way.
func put(tree map[string]any, parts []string, v any) bool {
	for _, p := range parts[:len(parts)-1] {
		if _, ok := tree[p]; !ok {
			tree[p] = map[string]any{}
		}
		next, ok := tree[p].(map[string]any)
		if !ok {
			return false
		}
		tree = next
	}
	tree[parts[len(parts)-1]] = v
	return true
}

// splice puts value at the key parts: where the key stands, else in the table that it belongs to, else beside keys of the same
// table that are written from further up, else in a new table at the end.
func splice(src string, list []tomldoc.Statement, parts []string, value string) string {
	last := len(parts) - 1
	header, beside := -1, -1 // indices of list
	for i, s := range list {
		switch {
		case s.InList:
		case s.Header:
			if slices.Equal(s.Path, parts[:last]) {
				header = i
			}
		case slices.Equal(s.Path, parts):
			return src[:s.Value] + value + src[s.End:]
		case len(s.Path) < len(parts) && slices.Equal(s.Path, parts[:len(s.Path)]) && src[s.Value] == '{':
			return spliceInline(src, s.Value, parts[len(s.Path):], value)
		case len(s.Path) > last && slices.Equal(s.Path[:last], parts[:last]):
			beside = i
		}
	}
	if header >= 0 {
		for header+1 < len(list) && !list[header+1].Header { // behind its last pair
			header++
		}
		return spliceLine(src, list[header], tomlKey(parts[last:])+" = "+value)
	}
	if beside >= 0 {
		s, top := list[beside], 0
		for i := beside; i >= 0; i-- {
			if list[i].Header {
				top = len(list[i].Path)
				break
			}
		}
		if top <= last {
			return spliceLine(src, s, tomlKey(parts[top:])+" = "+value)
		}
	}
	end := newline(src)
	if last == 0 { // before all tables
		return tomlKey(parts) + " = " + value + end + src
	}
	if src != "" {
		src = strings.TrimRight(src, "\r\n \t") + end + end
	}
	return src + "[" + tomlKey(parts[:last]) + "]" + end + tomlKey(parts[last:]) + " = " + value + end
}

// spliceLine puts a line behind that of s, as far in as that.
func spliceLine(src string, s tomldoc.Statement, text string) string {
	begin := strings.LastIndexByte(src[:s.Start], '\n') + 1
	indent := src[begin:s.Start]
	if strings.Trim(indent, " \t") != "" {
		indent = ""
	}
	i := strings.IndexByte(src[s.End:], '\n')
	if i < 0 {
		return src + newline(src) + indent + text + newline(src)
	}
	at := s.End + i + 1
	return src[:at] + indent + text + newline(src) + src[at:]
}

// spliceInline puts a value at parts of the inline table that opens at the offset open.
func spliceInline(src string, open int, parts []string, value string) string {
	pairs, closing, err := tomldoc.InlinePairs(src, open)
	if err != nil {
		return src
	}
	for _, s := range pairs {
		switch {
		case slices.Equal(s.Path, parts):
			return src[:s.Value] + value + src[s.End:]
		case len(s.Path) < len(parts) && slices.Equal(s.Path, parts[:len(s.Path)]) && src[s.Value] == '{':
			return spliceInline(src, s.Value, parts[len(s.Path):], value)
		}
	}
	pair := tomlKey(parts) + " = " + value
	if len(pairs) == 0 {
		return src[:open+1] + " " + pair + " " + src[closing:]
	}
	end := pairs[len(pairs)-1].End
	return src[:end] + ", " + pair + src[end:]
}

func newline(src string) string {
	if strings.Contains(src, "\r\n") {
		return "\r\n"
	}
	return "\n"
}

// tomlKey writes a key; unlike joinKey it quotes '*' too.
func tomlKey(parts []string) string {
	text := make([]string, len(parts))
	for i, p := range parts {
		if text[i] = quotePart(p); p == "*" {
			text[i] = "'*'"
		}
	}
	return strings.Join(text, ".")
}

// tomlValue writes a value on one line.
func tomlValue(v any) string {
	switch v := v.(type) {
	case string:
		return tomlString(v)
	case int64:
		return strconv.FormatInt(v, 10)
	case []any:
		items := make([]string, len(v))
		for i := range v {
			items[i] = tomlValue(v[i])
		}
		return "[" + strings.Join(items, ", ") + "]"
	case map[string]any:
		if len(v) == 0 {
			return "{}"
		}
		pairs := make([]string, 0, len(v))
		for _, k := range sortedKeys(v) {
			pairs = append(pairs, tomlKey([]string{k})+" = "+tomlValue(v[k]))
		}
		return "{ " + strings.Join(pairs, ", ") + " }"
	}
	return string(canonical(v)) // a bool or a float, which JSON writes as TOML does
}
