// Package jsondoc reads and writes JSON of strangers: one value and nothing behind it, numbers as
// they are written, errors in words of JSON.
//
// [Decode] makes a tree of values, [Strict] fills a struct, [Members] and [Object] keep the order
// of an object. The standard decoder takes the last of two equal keys and says nothing:
// [RepeatedKey] finds them at any depth, and Strict refuses them.
package jsondoc

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// Decode reads one JSON value, with numbers as they are written. The value may have 262,144 values
// in it, about, and [MaxDepth] levels.
func Decode(b []byte) (any, error) {
	if Crowded(b, MaxValues) {
		return nil, fmt.Errorf("more than %d values", MaxValues)
	}
	if Deep(b, MaxDepth) {
		return nil, fmt.Errorf("nested deeper than %d levels", MaxDepth)
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, errors.New("not JSON: it ends in the middle")
		}
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("not JSON: something follows the value")
	}
	return v, nil
}

// MaxValues bounds the values of one message of a stranger, and of what Decode reads.
const MaxValues = 1 << 18

// Crowded reports whether a text has more than most values, about, if it is JSON. Each can take a
// hundred times the memory of its bytes once it is decoded.
func Crowded(b []byte, most int) bool { return len(b) > most && Values(b) > most }

// Values counts the values of a text, about, if it is JSON or whole lines of it.
func Values(b []byte) (n int) {
	quoted := false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; { // counts what stands before each value
		case c == '"':
			quoted = !quoted
		case c == '\n': // no text has one: what is not JSON, such as a remark of a stream, ends here
			quoted = false
		case quoted && c == '\\' && !bytes.HasPrefix(b[i+1:], []byte("\n")):
			i++
		case !quoted && (c == ',' || c == '[' || c == '{'):
			n++
		}
	}
	return n
}

// MaxDepth bounds the levels of what Decode reads. encoding/json reads ten times as many, and a value
// of a stranger is stored and sent inside of others.
const MaxDepth = 1000

// Deep reports whether a text has more than most lists and objects within one another, if it is
// JSON.
func Deep(b []byte, most int) bool {
	if len(b) <= 2*most { // each level has two bytes
		return false
	}
	depth, quoted := 0, false
	for i := 0; i < len(b); i++ {
		switch c := b[i]; {
		case c == '"':
			quoted = !quoted
		case quoted && c == '\\':
			i++
		case quoted:
		case c == '[' || c == '{':
			if depth++; depth > most {
				return true
			}
		case c == ']' || c == '}':
			depth--
		}
	}
	return false
}

// RepeatedKey returns the first key that an object has twice. b is JSON; the object is b or is in
// it.
func RepeatedKey(b []byte) (key string, ok bool) {
	dec := json.NewDecoder(bytes.NewReader(b))
	var open []map[string]bool // keys of each object that is open; nil for a list
	for wantKey := false; ; {
		t, err := dec.Token()
		if err != nil {
			return "", false // the end
		}
		name, isText := t.(string)
		switch {
		case isText && wantKey:
			keys := open[len(open)-1]
			if keys[name] {
				return name, true
			}
			keys[name], wantKey = true, false
			continue
		case t == json.Delim('{'):
			open = append(open, map[string]bool{})
		case t == json.Delim('['):
			open = append(open, nil)
		case t == json.Delim('}'), t == json.Delim(']'):
			open = open[:len(open)-1]
		}
		wantKey = len(open) > 0 && open[len(open)-1] != nil
	}
}

// Strict decodes one JSON value into v and refuses what would be lost: a key that v has no field
// for, a key that the outermost object has twice or in another case, which encoding/json would take,
// and what follows the value. Errors say on which line and in which column, both from 1, where that
// is known.
func Strict(b []byte, v any) error {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		var syntax *json.SyntaxError
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return errors.New("it ends in the middle")
		case errors.As(err, &syntax):
			return at(b, syntax.Offset-1, err.Error())
		}
		return errors.New(strings.TrimPrefix(Explain(err).Error(), "json: "))
	}
	if rest := bytes.TrimLeft(b[dec.InputOffset():], " \t\r\n"); len(rest) > 0 {
		return at(b, int64(len(b)-len(rest)), "more than one value")
	}
	members, err := Members(b)
	if err != nil {
		return nil // no object
	}
	names := fieldNames(reflect.TypeOf(v).Elem())
	for i, m := range members {
		if slices.ContainsFunc(members[:i], func(earlier Member) bool { return strings.EqualFold(earlier.Name, m.Name) }) {
			return fmt.Errorf("%s: is there twice", m.Name)
		}
		if names != nil && !slices.Contains(names, m.Name) {
			return fmt.Errorf("unknown field %q", m.Name)
		}
	}
	return nil
}

// fieldNames returns the keys of a struct, all of which its tags name; nil for another type.
func fieldNames(t reflect.Type) (names []string) {
	if t.Kind() == reflect.Struct {
		for f := range t.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			names = append(names, name)
		}
	}
	return names
}

// at is an error about the byte at offset of b.
func at(b []byte, offset int64, text string) error {
	before := b[:max(offset, 0)]
	column := len(before) - bytes.LastIndexByte(before, '\n')
	if line := 1 + bytes.Count(before, []byte("\n")); line > 1 {
		return fmt.Errorf("line %d, column %d: %s", line, column, text)
	}
	return fmt.Errorf("column %d: %s", column, text)
}

// Member is a member of an object, with its value as it is written.
type Member struct {
	Name  string
	Value json.RawMessage
}

// Members returns the members of an object in their order. Names that are there twice are returned
// twice. It is an error if b begins with no whole object; what follows the object is not read.
func Members(b []byte) ([]Member, error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return nil, errors.Join(errors.New("not an object"), err)
	}
	var ms []Member
	for dec.More() {
		t, err := dec.Token()
		if err != nil {
			return nil, err
		}
		m := Member{}
		m.Name, _ = t.(string)
		if err := dec.Decode(&m.Value); err != nil {
			return nil, err
		}
		ms = append(ms, m)
	}
	_, err := dec.Token()
	return ms, err
}

// Object writes an object of members in their order, with their values as they are.
func Object(ms []Member) []byte {
	out := []byte{'{'}
	for i, m := range ms {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, Text(m.Name)...), ':'), m.Value...)
	}
	return append(out, '}')
}

// Encode writes v with sorted keys, without escapes for HTML, and [Sound].
func Encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return Sound(bytes.TrimSuffix(b.Bytes(), []byte("\n"))), nil
}

// Canonical returns what [Decode] reads of b with sorted keys, no space, and each number that is no
// integer in its shortest form, and what it does not read as it is.
func Canonical(b []byte) []byte {
	v, err := Decode(b)
	if err != nil {
		return b
	}
	if sorted, err := Encode(shortest(v)); err == nil {
		b = sorted
	}
	return b
}

// shortest puts numbers that have a point or an exponent into their shortest form.
func shortest(v any) any {
	switch v := v.(type) {
	case json.Number:
		if f, err := v.Float64(); err == nil && strings.ContainsAny(v.String(), ".eE") {
			return json.Number(strconv.FormatFloat(f, 'g', -1, 64))
		}
	case []any:
		for i := range v {
			v[i] = shortest(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = shortest(v[k])
		}
	}
	return v
}

// Sound returns JSON that strict readers take too. U+FFFD stands for each byte that is not UTF-8 and
// for each escape that is half of a surrogate pair (RFC 8259, section 8.2), as encoding/json reads
// them: the value is the same. b is not changed.
func Sound(b []byte) []byte {
	if !utf8.Valid(b) {
		b = bytes.Map(func(r rune) rune { return r }, b)
	}
	if !bytes.Contains(b, []byte(`\ud`)) && !bytes.Contains(b, []byte(`\uD`)) {
		return b
	}
	b = bytes.Clone(b)
	for i := 0; i < len(b); i++ {
		if b[i] != '\\' {
			continue
		}
		switch one := escaped(b[i:]); {
		case !utf16.IsSurrogate(one):
			i++
		case utf16.DecodeRune(one, escaped(b[i+len(half):])) != utf8.RuneError:
			i += 2*len(half) - 1
		default:
			i += copy(b[i:], half) - 1
		}
	}
	return b
}

const half = `\ufffd` // for half of a pair

// escaped returns the character of the escape \uXXXX that b begins with; 0 = with none.
func escaped(b []byte) rune {
	if len(b) < len(half) || b[0] != '\\' || b[1] != 'u' {
		return 0
	}
	n, _ := strconv.ParseUint(string(b[2:len(half)]), 16, 16) // 0 if it is none
	return rune(n)
}

// Text writes a text as [Encode] does.
func Text(s string) []byte {
	b, err := Encode(s)
	if err != nil {
		panic(err) // a text always encodes
	}
	return b
}

// Each returns a copy of v, a value that [Decode] has made, in which f(e) replaces each element e
// of the list or object. A value that is neither is returned as it is.
func Each(v any, f func(any) any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = f(e)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = f(e)
		}
		return out
	}
	return v
}

// Explain says what a JSON decoder did not like in words of JSON, where the standard ones name Go
// types: "servers.a: want a list, not a string". Errors of other kinds come back as they are.
func Explain(err error) error {
	var typed *json.UnmarshalTypeError
	if !errors.As(err, &typed) {
		return err
	}
	text := fmt.Sprintf("want %s, not %s", jsonKind(typed.Type), foundKind(typed.Value))
	if typed.Field != "" {
		text = typed.Field + ": " + text
	}
	return errors.New(text)
}

// jsonKind is the JSON that a Go type is decoded from.
func jsonKind(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return "a string"
	}
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "a string"
		}
		return "a list"
	}
	return "a whole number"
}

// foundKind is the kind of the value that was found, from UnmarshalTypeError.Value.
func foundKind(value string) string {
	switch value {
	case "array":
		return "a list"
	case "object":
		return "an object"
	case "bool":
		return "true or false"
	}
	if number, ok := strings.CutPrefix(value, "number "); ok {
		return number
	}
	return "a " + value
}
