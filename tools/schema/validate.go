package schema

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strings"
	"unicode/utf8"

	"jp/tools/brief"
	"jp/tools/jsondoc"
	"jp/tools/suggest"
)

// Arguments checks the arguments of a call and returns them as one JSON object with sorted keys, or
// what is wrong. Strings that hold JSON are coerced if the schema declares another type, null for
// an optional argument counts as not given, defaults are filled in: those that are of the right
// type, and all of them or none where arguments fit only without. Empty args are no arguments.
func (s *Schema) Arguments(args json.RawMessage) (json.RawMessage, []string) {
	if len(bytes.TrimSpace(args)) == 0 {
		args = json.RawMessage("{}")
	}
	v, err := jsondoc.Decode(args)
	if err != nil {
		return nil, []string{err.Error()}
	}
	if v == nil {
		args, v = json.RawMessage("{}"), map[string]any{}
	}
	if _, ok := v.(map[string]any); !ok {
		return nil, []string{"want a JSON object, not " + jsonTypeName(v)}
	}
	room, left := maxFilled, jsondoc.MaxValues
	v = s.complete(s.coerce(v, &left), &room)
	switch {
	case left < 0:
		return nil, []string{fmt.Sprintf("texts in it hold more than %d values: make it shorter", jsondoc.MaxValues)}
	case room < 0:
		return nil, []string{"with its defaults it is larger than " + brief.Size(maxFilled) + ": make it shorter"}
	}
	out, wrong := s.accept(v)
	if len(wrong) > 0 && room < maxFilled { // a default may be wrong, or not go with another argument
		if v, err = jsondoc.Decode(args); err == nil {
			left = jsondoc.MaxValues
			if plain, none := s.accept(s.coerce(v, &left)); len(none) == 0 {
				return plain, nil
			}
		}
	}
	return out, wrong
}

// Bounds of what is added to arguments: a list may get it in each element.
const (
	maxFilled = 4 << 20 // bytes of defaults
	maxMarked = 100_000 // properties that were not given
)

// accept writes v as one JSON document with sorted keys and says what is wrong with it.
func (s *Schema) accept(v any) (json.RawMessage, []string) {
	if err := s.bounded(v); err != nil {
		return nil, []string{err.Error()}
	}
	var found problems
	s.check("", v, &found)
	if len(found.list) > 0 {
		return nil, found.list
	}
	out, err := jsondoc.Encode(v)
	if err != nil {
		return nil, []string{err.Error()}
	}
	if s.full != nil {
		var plain any
		if err := json.Unmarshal(out, &plain); err != nil {
			return nil, []string{err.Error()}
		}
		if err := s.full.Validate(plain); err != nil {
			return nil, []string{explainSchema(err).Error()}
		}
	}
	return out, nil
}

// coerce decodes strings that hold JSON of the type that the schema declares, while so many values
// are left, and removes optional properties that are null.
func (s *Schema) coerce(v any, left *int) any {
	if text, ok := v.(string); ok && len(s.types) > 0 && !slices.Contains(s.types, "string") {
		if *left -= jsondoc.Values([]byte(text)); *left < 0 {
			return v
		}
		if held, err := jsondoc.Decode([]byte(text)); err == nil && s.hasType(held) {
			v = held
		}
	}
	switch v := v.(type) {
	case map[string]any:
		for name, e := range v { // a schema from elsewhere may have far more properties
			sub, ok := s.properties[name]
			switch {
			case !ok:
			case e == nil && len(sub.types) > 0 && !slices.Contains(sub.types, "null") && !slices.Contains(s.required, name):
				delete(v, name)
			default:
				v[name] = sub.coerce(e, left)
			}
		}
	case []any:
		if s.items != nil {
			for i, e := range v {
				v[i] = s.items.coerce(e, left)
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

// complete fills in defaults while there is room for them.
func (s *Schema) complete(v any, room *int) any {
	switch v := v.(type) {
	case map[string]any:
		for name, e := range v {
			if sub, ok := s.properties[name]; ok {
				v[name] = sub.complete(e, room)
			}
		}
		for _, name := range s.defaults {
			sub := s.properties[name]
			if _, given := v[name]; given {
				continue
			}
			if *room -= len(name) + sub.size; *room < 0 {
				break
			}
			v[name] = sub.complete(clone(sub.fallback), room)
		}
	case []any:
		if s.items != nil {
			for i, e := range v {
				v[i] = s.items.complete(e, room)
			}
		}
	}
	return v
}

// Fill sets properties that are declared and were not given to mark, if they are not too many.
func (s *Schema) Fill(v, mark any) error {
	room := maxMarked
	if s.fill(v, mark, &room); room < 0 {
		return fmt.Errorf("leaves out more than %d properties: make it shorter", maxMarked)
	}
	return nil
}

func (s *Schema) fill(v, mark any, room *int) {
	if *room < 0 {
		return
	}
	switch v := v.(type) {
	case map[string]any:
		for name, sub := range s.properties {
			if e, given := v[name]; given {
				sub.fill(e, mark, room)
			} else if *room--; *room >= 0 {
				v[name] = mark
			}
		}
	case []any:
		for _, e := range v {
			if s.items != nil {
				s.items.fill(e, mark, room)
			}
		}
	}
}

// Property returns the schema of a property that s names.
func (s *Schema) Property(name string) (sub *Schema, ok bool) {
	sub, ok = s.properties[name]
	return sub, ok
}

// Properties returns the properties that s names, sorted.
func (s *Schema) Properties() []string { return slices.Sorted(maps.Keys(s.properties)) }

// Closed reports whether s allows no other properties than those that it names.
func (s *Schema) Closed() bool { return s.closed }

// Inconsistent says which value of s does not fit it: the keyword of the value, "enum" or
// "default", and why. keyword is "" when all fit.
func (s *Schema) Inconsistent() (keyword, why string) {
	for _, e := range s.enum {
		if !s.hasType(e) {
			return "enum", fmt.Sprintf("%s is not of type %s", valueShort(e), brief.Or(s.types))
		}
	}
	if s.hasDefault {
		var found problems
		s.check("", s.fallback, &found)
		if len(found.list) > 0 {
			return "default", "does not fit: " + found.list[0]
		}
	}
	return "", ""
}

// valueShort is a value for a message.
func valueShort(v any) string {
	if s, ok := v.(string); ok {
		return brief.Quote(s)
	}
	b, err := jsondoc.Encode(v)
	if err != nil {
		return jsonTypeName(v)
	}
	return brief.Shorten(string(b), 60)
}

// problems collects a few of the things that are wrong.
type problems struct{ list []string }

// enough is how many problems are reported.
const enough = 10

// full reports whether enough problems were found.
func (p *problems) full() bool { return len(p.list) > enough }

func (p *problems) add(at, format string, args ...any) {
	msg := fmt.Sprintf(format, args...)
	if at != "" {
		msg = brief.Quote(at) + " " + msg
	}
	switch {
	case len(p.list) < enough:
		p.list = append(p.list, msg)
	case len(p.list) == enough:
		p.list = append(p.list, "and more")
	}
}

// check finds what is wrong with v, in a fixed order. at is the path of v.
func (s *Schema) check(at string, v any, p *problems) {
	if p.full() {
		return
	}
	if !s.ofType(v) {
		p.add(at, "must be %s, not %s", brief.Or(s.types), jsonTypeName(v))
		return
	}
	if s.enum != nil && !s.hasValue(v) {
		words := make([]string, 0, len(s.enum))
		for _, e := range s.enum {
			words = append(words, valueShort(e))
		}
		if len(words) == 0 {
			p.add(at, "has no valid value")
		} else {
			p.add(at, "must be %s, not %s", brief.Shorten(brief.Or(words), 1000), valueShort(v))
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

func (s *Schema) checkString(at, v string, p *problems) {
	n := utf8.RuneCountInString(v)
	switch {
	case n < s.minLength:
		p.add(at, "must have at least %s, not %d", brief.Count(s.minLength, "character"), n)
	case s.maxLength >= 0 && n > s.maxLength:
		p.add(at, "must have at most %s, not %d", brief.Count(s.maxLength, "character"), n)
	case s.pattern != nil && !s.pattern.MatchString(v):
		p.add(at, "must match %s", s.pattern)
	}
}

func (s *Schema) checkNumber(at string, v json.Number, p *problems) {
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

func (s *Schema) checkList(at string, v []any, p *problems) {
	switch {
	case len(v) < s.minItems:
		p.add(at, "must have at least %s, not %d", brief.Count(s.minItems, "element"), len(v))
	case s.maxItems >= 0 && len(v) > s.maxItems:
		p.add(at, "must have at most %s, not %d", brief.Count(s.maxItems, "element"), len(v))
	}
	if s.unique {
		seen := map[string]int{}
		for i, e := range v {
			key, ok := keyOf(e)
			if !ok {
				continue
			}
			if j, ok := seen[key]; ok {
				p.add(at, "holds the same element twice, at %d and %d", j, i)
				break
			}
			seen[key] = i
		}
	}
	if s.items == nil {
		return
	}
	for i, e := range v {
		s.items.check(fmt.Sprintf("%s[%d]", at, i), e, p)
	}
}

func (s *Schema) checkObject(at string, v map[string]any, p *problems) {
	in := func(name string) string {
		if at == "" {
			return name
		}
		return at + "." + name
	}
	for _, name := range s.required {
		if p.full() {
			return
		}
		if _, ok := v[name]; !ok {
			p.add(in(name), "is missing")
		}
	}
	for _, name := range slices.Sorted(maps.Keys(v)) {
		if p.full() {
			return
		}
		sub, ok := s.properties[name]
		switch {
		case ok:
			sub.check(in(name), v[name], p)
		case s.closed:
			known := slices.Sorted(maps.Keys(s.properties))
			if c := suggest.Closest(name, known); c != "" {
				p.add(in(name), "is unknown; did you mean %q?", c)
			} else if len(known) > 0 {
				p.add(in(name), "is unknown; there is %s", brief.Shorten(strings.Join(known, ", "), 500))
			} else {
				p.add(in(name), "is unknown; there are no arguments")
			}
		}
	}
}

// hasValue reports whether v is one of the values that s allows.
func (s *Schema) hasValue(v any) bool {
	key, ok := keyOf(v)
	return ok && s.valid[key]
}

// ofType reports whether s allows the type of v.
func (s *Schema) ofType(v any) bool { return len(s.types) == 0 || s.hasType(v) }

// hasType reports whether v is of one of the types that s allows.
func (s *Schema) hasType(v any) bool {
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

// jsonTypeName is the name of v's type, for a message.
func jsonTypeName(v any) string {
	switch v := v.(type) {
	case nil:
		return "null"
	case string:
		return "the string " + brief.Quote(v)
	case bool:
		return fmt.Sprint(v)
	case json.Number:
		return "the number " + brief.Shorten(v.String(), 60)
	case []any:
		return "a list"
	}
	return "an object"
}
