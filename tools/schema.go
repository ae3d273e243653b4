package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/big"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/jsonschema-go/jsonschema"
)

// jsonTypes are the types of JSON schema.
var jsonTypes = []string{"string", "number", "integer", "boolean", "array", "object", "null"}

// schema is a JSON schema as far as this package reads it itself: to coerce,
// to fill defaults and to say precisely what is wrong. A schema that says more
// (a $ref, anyOf, ...) is put before the full validator as well.
type schema struct {
	types      []string // empty = any
	properties map[string]*schema
	required   []string
	closed     bool // no other properties
	items      *schema
	enum       []any
	fallback   any
	hasDefault bool

	minimum, maximum, above, below, multiple *big.Rat
	minLength, maxLength, minItems, maxItems int // -1 = none
	pattern                                  *regexp.Regexp
	unique                                   bool

	full *jsonschema.Resolved // of the root, where needed
}

// annotations are keywords that a validator passes over.
var annotations = []string{
	"description", "title", "examples", "$schema", "$id", "$comment", "deprecated", "readOnly", "writeOnly", "format",
	"contentEncoding", "contentMediaType",
}

// parseSchema reads the schema of a tool's arguments or of a part of them. An
// empty one allows no arguments.
func parseSchema(raw json.RawMessage) (*schema, error) {
	if len(raw) == 0 {
		return &schema{types: []string{"object"}, closed: true, minLength: -1, maxLength: -1, minItems: -1, maxItems: -1}, nil
	}
	if len(raw) > maxSchema {
		return nil, fmt.Errorf("is larger than %s", sizeText(maxSchema))
	}
	v, err := decodeJSON(raw)
	if err != nil {
		return nil, err
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("is no object")
	}
	more := false
	s, err := readSchema(m, &more)
	if err != nil || !more {
		return s, err
	}
	m = cleanSchema(m).(map[string]any)
	if err := checkRefs(m); err != nil {
		return nil, err
	}
	clean, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	var js jsonschema.Schema
	if err := json.Unmarshal(clean, &js); err != nil {
		return nil, err
	}
	// Without a loader, nothing is fetched from elsewhere: such a reference is
	// an error here.
	s.full, err = js.Resolve(&jsonschema.ResolveOptions{})
	return s, err
}

// readSchema reads one schema object; more is set when it says something that
// schema cannot hold.
func readSchema(m map[string]any, more *bool) (*schema, error) {
	s := &schema{minLength: -1, maxLength: -1, minItems: -1, maxItems: -1}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if err := s.keyword(k, m[k], more); err != nil {
			return nil, fmt.Errorf("%s: %w", k, err)
		}
	}
	return s, nil
}

func (s *schema) keyword(k string, v any, more *bool) (err error) {
	switch k {
	case "type":
		if one, ok := v.(string); ok {
			v = []any{one}
		}
		if s.types, err = stringList(v); err != nil || len(s.types) == 0 {
			return fmt.Errorf("want %s, or a list of them", orList(jsonTypes))
		}
		for _, t := range s.types {
			if !slices.Contains(jsonTypes, t) {
				return fmt.Errorf("want %s, not %q", orList(jsonTypes), t)
			}
		}
	case "properties":
		props, ok := v.(map[string]any)
		if !ok {
			return errors.New("is no object")
		}
		s.properties = make(map[string]*schema, len(props))
		for _, name := range slices.Sorted(maps.Keys(props)) {
			if s.properties[name], err = subSchema(props[name], more); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	case "items":
		s.items, err = subSchema(v, more)
	case "required":
		s.required, err = stringList(v)
	case "additionalProperties":
		open, ok := v.(bool)
		s.closed = ok && !open
		*more = *more || !ok
	case "enum":
		list, ok := v.([]any)
		if !ok {
			return errors.New("is no list")
		}
		s.enum = list
		if s.enum == nil {
			s.enum = []any{}
		}
	case "const":
		s.enum = []any{v}
	case "default":
		s.fallback, s.hasDefault = v, true
	case "minimum":
		s.minimum, err = ratOf(v)
	case "maximum":
		s.maximum, err = ratOf(v)
	case "exclusiveMinimum":
		s.above, err = ratOf(v)
	case "exclusiveMaximum":
		s.below, err = ratOf(v)
	case "multipleOf":
		if s.multiple, err = ratOf(v); err == nil && s.multiple.Sign() <= 0 {
			return errors.New("want a number above 0")
		}
	case "minLength":
		s.minLength, err = countOf(v)
	case "maxLength":
		s.maxLength, err = countOf(v)
	case "minItems":
		s.minItems, err = countOf(v)
	case "maxItems":
		s.maxItems, err = countOf(v)
	case "uniqueItems":
		ok := false
		if s.unique, ok = v.(bool); !ok {
			return errors.New("want true or false")
		}
	case "pattern":
		p, ok := v.(string)
		if !ok {
			return errors.New("want a string")
		}
		s.pattern, err = regexp.Compile(p)
	default:
		*more = *more || !slices.Contains(annotations, k)
	}
	return err
}

// subSchema reads a schema in a schema, which may be a boolean.
func subSchema(v any, more *bool) (*schema, error) {
	switch v := v.(type) {
	case map[string]any:
		return readSchema(v, more)
	case bool:
		*more = *more || !v
		return readSchema(nil, more)
	case []any: // the old form of prefixItems
		*more = true
		return readSchema(nil, more)
	}
	return nil, errors.New("is no schema")
}

// ArgumentError is a call whose arguments do not fit the schema of its tool.
type ArgumentError struct {
	Tool     string
	Problems []string // what to mend, in order; at least one
}

func (e *ArgumentError) Error() string {
	return fmt.Sprintf("arguments of %s: %s", e.Tool, strings.Join(e.Problems, "; "))
}

// Validate checks arguments against the schema and returns them as one JSON
// object with sorted keys: strings that hold JSON coerced where the schema
// declares another type, null for an optional argument taken as not given,
// defaults filled in. Empty args are no arguments. The error is an
// *ArgumentError, with the same text for the same arguments.
func (d Definition) Validate(args json.RawMessage) (json.RawMessage, error) {
	fail := func(problems ...string) (json.RawMessage, error) {
		return nil, &ArgumentError{d.Name, problems}
	}
	s, err := parseSchema(d.Schema)
	if err != nil {
		return fail("the schema of the tool cannot be used: " + err.Error())
	}
	if len(bytes.TrimSpace(args)) == 0 {
		args = json.RawMessage("{}")
	}
	v, err := decodeJSON(args)
	if err != nil {
		return fail(err.Error())
	}
	if v == nil {
		v = map[string]any{}
	}
	if _, ok := v.(map[string]any); !ok {
		return fail("want a JSON object, not " + jsonTypeName(v))
	}
	v = s.complete(s.coerce(v))
	var found problems
	s.check("", v, &found)
	if len(found.list) > 0 {
		return fail(found.list...)
	}
	out, err := encodeJSON(v)
	if err != nil {
		return fail(err.Error())
	}
	if s.full != nil {
		var plain any
		if err := json.Unmarshal(out, &plain); err != nil {
			return fail(err.Error())
		}
		if err := s.full.Validate(plain); err != nil {
			return fail(strings.TrimPrefix(err.Error(), "validating root: "))
		}
	}
	return out, nil
}

// coerce makes strings that hold JSON what the schema declares, and removes
// optional properties that are null.
func (s *schema) coerce(v any) any {
	if text, ok := v.(string); ok && len(s.types) > 0 && !slices.Contains(s.types, "string") {
		if held, err := decodeJSON([]byte(text)); err == nil && s.hasType(held) {
			v = held
		}
	}
	switch v := v.(type) {
	case map[string]any:
		for name, sub := range s.properties {
			e, given := v[name]
			switch {
			case !given:
			case e == nil && len(sub.types) > 0 && !slices.Contains(sub.types, "null") && !slices.Contains(s.required, name):
				delete(v, name)
			default:
				v[name] = sub.coerce(e)
			}
		}
	case []any:
		if s.items != nil {
			for i, e := range v {
				v[i] = s.items.coerce(e)
			}
		}
	case json.Number:
		if slices.Contains(s.types, "integer") && !slices.Contains(s.types, "number") {
			if r, err := ratOf(v); err == nil && r.IsInt() {
				return json.Number(r.Num().String()) // 3.0 and 3e0 are integers
			}
		}
	}
	return v
}

// complete fills in defaults.
func (s *schema) complete(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, sub := range s.properties {
			e, given := v[name]
			switch {
			case given:
				v[name] = sub.complete(e)
			case sub.hasDefault:
				v[name] = sub.complete(cloneJSON(sub.fallback))
			}
		}
	case []any:
		if s.items != nil {
			for i, e := range v {
				v[i] = s.items.complete(e)
			}
		}
	}
	return v
}

// omit puts Omitted where a declared property was not given, for templates.
func (s *schema) omit(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, sub := range s.properties {
			if e, given := v[name]; given {
				v[name] = sub.omit(e)
			} else {
				v[name] = Omitted
			}
		}
	case []any:
		if s.items != nil {
			for i, e := range v {
				v[i] = s.items.omit(e)
			}
		}
	}
	return v
}

// problems collects what is wrong, up to a few.
type problems struct{ list []string }

func (p *problems) add(at, format string, args ...any) {
	const enough = 10
	msg := fmt.Sprintf(format, args...)
	if at != "" {
		msg = quoteShort(at) + " " + msg
	}
	switch {
	case len(p.list) < enough:
		p.list = append(p.list, msg)
	case len(p.list) == enough:
		p.list = append(p.list, "and more")
	}
}

// check finds what is wrong with v, in a fixed order. at is where v stands.
func (s *schema) check(at string, v any, p *problems) {
	if len(s.types) > 0 && !s.hasType(v) {
		p.add(at, "must be %s, not %s", orList(s.types), jsonTypeName(v))
		return
	}
	if s.enum != nil && !slices.ContainsFunc(s.enum, func(e any) bool { return equalJSON(e, v) }) {
		words := make([]string, 0, len(s.enum))
		for _, e := range s.enum {
			words = append(words, valueShort(e))
		}
		if len(words) == 0 {
			p.add(at, "has no valid value")
		} else {
			p.add(at, "must be %s, not %s", shorten(orList(words), 1000), valueShort(v))
		}
		return
	}
	switch v := v.(type) {
	case string:
		s.checkString(at, v, p)
	case json.Number:
		s.checkNumber(at, v, p)
	case []any:
		s.checkList(at, v, p)
	case map[string]any:
		s.checkObject(at, v, p)
	}
}

func (s *schema) checkString(at, v string, p *problems) {
	n := utf8.RuneCountInString(v)
	switch {
	case n < s.minLength:
		p.add(at, "must have at least %s, not %d", count(s.minLength, "character"), n)
	case s.maxLength >= 0 && n > s.maxLength:
		p.add(at, "must have at most %s, not %d", count(s.maxLength, "character"), n)
	case s.pattern != nil && !s.pattern.MatchString(v):
		p.add(at, "must match %s", s.pattern)
	}
}

func (s *schema) checkNumber(at string, v json.Number, p *problems) {
	r, err := ratOf(v)
	switch {
	case err != nil:
		p.add(at, "%v", err)
	case s.minimum != nil && r.Cmp(s.minimum) < 0:
		p.add(at, "must be at least %s, not %s", ratText(s.minimum), v)
	case s.maximum != nil && r.Cmp(s.maximum) > 0:
		p.add(at, "must be at most %s, not %s", ratText(s.maximum), v)
	case s.above != nil && r.Cmp(s.above) <= 0:
		p.add(at, "must be above %s, not %s", ratText(s.above), v)
	case s.below != nil && r.Cmp(s.below) >= 0:
		p.add(at, "must be below %s, not %s", ratText(s.below), v)
	case s.multiple != nil && !new(big.Rat).Quo(r, s.multiple).IsInt():
		p.add(at, "must be a multiple of %s, not %s", ratText(s.multiple), v)
	}
}

func (s *schema) checkList(at string, v []any, p *problems) {
	switch {
	case len(v) < s.minItems:
		p.add(at, "must have at least %s, not %d", count(s.minItems, "element"), len(v))
	case s.maxItems >= 0 && len(v) > s.maxItems:
		p.add(at, "must have at most %s, not %d", count(s.maxItems, "element"), len(v))
	}
	if s.unique {
		seen := map[string]int{}
		for i, e := range v {
			key, err := encodeJSON(canonical(e))
			if err != nil {
				continue
			}
			if j, ok := seen[string(key)]; ok {
				p.add(at, "holds the same element twice, at %d and %d", j, i)
				break
			}
			seen[string(key)] = i
		}
	}
	if s.items == nil {
		return
	}
	for i, e := range v {
		s.items.check(fmt.Sprintf("%s[%d]", at, i), e, p)
	}
}

func (s *schema) checkObject(at string, v map[string]any, p *problems) {
	in := func(name string) string {
		if at == "" {
			return name
		}
		return at + "." + name
	}
	for _, name := range s.required {
		if _, ok := v[name]; !ok {
			p.add(in(name), "is missing")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v)) {
		sub, ok := s.properties[name]
		switch {
		case ok:
			sub.check(in(name), v[name], p)
		case s.closed:
			known := slices.Sorted(maps.Keys(s.properties))
			if c := closest(name, known); c != "" {
				p.add(in(name), "is unknown; did you mean %q?", c)
			} else if len(known) > 0 {
				p.add(in(name), "is unknown; there is %s", shorten(strings.Join(known, ", "), 500))
			} else {
				p.add(in(name), "is unknown; there are no arguments")
			}
		}
	}
}

// hasType reports whether v is of one of the types.
func (s *schema) hasType(v any) bool {
	for _, t := range s.types {
		switch v := v.(type) {
		case nil:
			if t == "null" {
				return true
			}
		case string:
			if t == "string" {
				return true
			}
		case bool:
			if t == "boolean" {
				return true
			}
		case []any:
			if t == "array" {
				return true
			}
		case map[string]any:
			if t == "object" {
				return true
			}
		case json.Number:
			if t == "number" {
				return true
			}
			if r, err := ratOf(v); t == "integer" && (err != nil || r.IsInt()) {
				return true // a number out of range is refused as such
			}
		}
	}
	return false
}

// jsonTypeName is what v is, for a message.
func jsonTypeName(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return "the string " + quoteShort(v)
	case bool:
		return fmt.Sprint(v)
	case json.Number:
		return "the number " + shorten(v.String(), 60)
	case []any:
		return "a list"
	}
	return "an object"
}

// decodeJSON reads one JSON value, with numbers as they are written.
func decodeJSON(b []byte) (any, error) {
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

// encodeJSON writes v with sorted keys and without escapes for HTML.
func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// maxExponent bounds the numbers that are computed with: 1e999999999 is short
// to write and long to hold.
const maxExponent = 400

// ratOf is the exact value of a JSON number.
func ratOf(v any) (*big.Rat, error) {
	n, ok := v.(json.Number)
	if !ok {
		return nil, errors.New("want a number")
	}
	s := n.String()
	if len(s) > maxExponent {
		return nil, errors.New("the number is out of range")
	}
	if _, exp, ok := strings.Cut(strings.ToLower(s), "e"); ok {
		exp = strings.TrimLeft(strings.TrimLeft(exp, "+-"), "0")
		if len(exp) > 3 || len(exp) == 3 && exp > fmt.Sprint(maxExponent) {
			return nil, errors.New("the number is out of range")
		}
	}
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		return nil, errors.New("want a number")
	}
	return r, nil
}

// ratText is r in the shortest decimal form.
func ratText(r *big.Rat) string {
	if r.IsInt() {
		return r.Num().String()
	}
	return strings.TrimRight(r.FloatString(10), "0")
}

func countOf(v any) (int, error) {
	r, err := ratOf(v)
	if err != nil || !r.IsInt() || r.Sign() < 0 || !r.Num().IsInt64() {
		return 0, errors.New("want a count")
	}
	return int(r.Num().Int64()), nil
}

func stringList(v any) ([]string, error) {
	list, ok := v.([]any)
	if !ok {
		return nil, errors.New("want a list of strings")
	}
	out := make([]string, len(list))
	for i, e := range list {
		if out[i], ok = e.(string); !ok {
			return nil, errors.New("want a list of strings")
		}
	}
	return out, nil
}

// count is "1 element", "2 elements".
func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// equalJSON compares values as JSON schema does: 1.0 equals 1.
func equalJSON(a, b any) bool {
	x, errX := encodeJSON(canonical(a))
	y, errY := encodeJSON(canonical(b))
	return errX == nil && errY == nil && bytes.Equal(x, y)
}

// canonical is v with every number in one spelling.
func canonical(v any) any {
	switch v := v.(type) {
	case json.Number:
		if r, err := ratOf(v); err == nil {
			return map[string]any{"\x00number": r.RatString()}
		}
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = canonical(e)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = canonical(e)
		}
		return out
	}
	return v
}

// cloneJSON copies what may be changed in v.
func cloneJSON(v any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = cloneJSON(e)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = cloneJSON(e)
		}
		return out
	}
	return v
}
