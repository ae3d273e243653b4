// Package schema checks JSON of models and of servers by JSON schemas, which may come from
// strangers too.
//
// [Parse] reads the schema of a tool's arguments, [ParseAnswer] that of an agent's answer, which is
// bounded more tightly. Common keywords are checked here, so that a message names the argument and
// what to mend. A schema with other keywords ($ref, anyOf, ...) is given to a full validator as
// well. Nothing is loaded from elsewhere. Neither a schema nor a value can make a check run for
// long: references that multiply, patterns that are large and values that are nested deeply are
// refused.
package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"regexp"
	"slices"

	"github.com/google/jsonschema-go/jsonschema"

	"jp/tools/brief"
	"jp/tools/jsondoc"
	"jp/tools/later"
)

// jsonTypes are the types of JSON schema.
var jsonTypes = []string{"string", "number", "integer", "boolean", "array", "object", "null"}

// Types names the types of JSON schema, for a message.
func Types() string { return brief.Or(jsonTypes) }

// Schema is a JSON schema as far as this package reads it itself: to coerce, to fill in defaults
// and to say precisely what is wrong. It is immutable. A schema with other keywords (a $ref, anyOf,
// ...) is given to the full validator as well.
type Schema struct {
	types      []string // empty = any
	properties map[string]*Schema
	required   []string
	closed     bool // no other properties
	items      *Schema
	enum       []any
	valid      map[string]bool // the same, by keyOf
	fallback   any
	hasDefault bool
	size       int      // of fallback as JSON, in bytes
	defaults   []string // properties that have one

	minimum, maximum, above, below, multiple *big.Rat
	minLength, maxLength, minItems, maxItems int // -1 = none
	pattern                                  *regexp.Regexp
	unique                                   bool

	full *jsonschema.Resolved // of the root, where needed
	root map[string]any       // schema that this is, or that full was made of; nil = no arguments
}

// annotations are keywords that a validator ignores.
var annotations = []string{
	"description", "title", "examples", "$schema", "$id", "$comment", "deprecated", "readOnly", "writeOnly", "format",
	"contentEncoding", "contentMediaType",
}

// Parse reads the schema of a tool's arguments or of a part of them. An empty one allows no
// arguments.
func Parse(raw json.RawMessage) (*Schema, error) {
	if len(raw) == 0 {
		return &Schema{types: []string{"object"}, closed: true, minLength: -1, maxLength: -1, minItems: -1, maxItems: -1}, nil
	}
	if len(raw) > maxSchema {
		return nil, fmt.Errorf("is larger than %s", brief.Size(maxSchema))
	}
	v, err := jsondoc.Decode(raw)
	if err != nil {
		return nil, err
	}
	m, ok := v.(map[string]any)
	if !ok {
		return nil, errors.New("is no object")
	}
	var b bounds // a server wrote it, or a model answers by it: no pattern may take hours to match
	if err := b.check(m, 0); err != nil {
		return nil, err
	}
	more := false
	s, err := readSchema(m, &more)
	if err != nil {
		return nil, err
	}
	s.root = m
	if !more {
		return s, nil
	}
	m = cleanSchema(m).(map[string]any)
	if err := checkRefs(m); err != nil {
		return nil, err
	}
	clean, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	later.Schema.Need()
	var js jsonschema.Schema
	if err := json.Unmarshal(clean, &js); err != nil {
		return nil, explainSchema(err)
	}
	// Without a loader, nothing is fetched from elsewhere: such a reference is an error here.
	s.root = m
	s.full, err = js.Resolve(&jsonschema.ResolveOptions{})
	return s, explainSchema(err)
}

// readSchema reads one schema object. more is set when the object has keywords that a Schema cannot
// hold.
func readSchema(m map[string]any, more *bool) (*Schema, error) {
	s := &Schema{minLength: -1, maxLength: -1, minItems: -1, maxItems: -1}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		if err := s.keyword(k, m[k], more); err != nil {
			return nil, fmt.Errorf("%s: %w", k, err)
		}
	}
	// Beside these, other properties are allowed too, and items holds for the rest of a list. Only the
	// full validator knows what is left.
	if _, ok := m["patternProperties"]; ok {
		s.closed = false
	}
	if _, ok := m["prefixItems"]; ok {
		s.items = nil
	}
	return s, nil
}

func (s *Schema) keyword(k string, v any, more *bool) (err error) {
	switch k {
	case "type":
		if one, ok := v.(string); ok {
			v = []any{one}
		}
		if s.types, err = stringList(v); err != nil || len(s.types) == 0 {
			return fmt.Errorf("want %s, or a list of them", Types())
		}
		for _, t := range s.types {
			if !slices.Contains(jsonTypes, t) {
				return fmt.Errorf("want %s, not %q", Types(), t)
			}
		}
	case "properties":
		props, ok := v.(map[string]any)
		if !ok {
			return errors.New("is no object")
		}
		s.properties = make(map[string]*Schema, len(props))
		for _, name := range slices.Sorted(maps.Keys(props)) {
			if s.properties[name], err = subSchema(props[name], more); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			if sub := s.properties[name]; sub.hasDefault && sub.ofType(sub.fallback) { // null often means that there is none
				s.defaults = append(s.defaults, name)
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
		s.oneOf(list)
	case "const":
		s.oneOf([]any{v})
	case "default":
		b, err := jsondoc.Encode(v)
		s.fallback, s.hasDefault, s.size = v, true, len(b)
		return err
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

// oneOf allows these values and no others, of those that were allowed before.
func (s *Schema) oneOf(list []any) {
	before, valid := s.enum, make(map[string]bool, len(list))
	s.enum = []any{}
	for _, v := range list {
		if before != nil && !s.hasValue(v) {
			continue
		}
		s.enum = append(s.enum, v)
		if key, ok := keyOf(v); ok {
			valid[key] = true
		}
	}
	s.valid = valid
}

// subSchema reads a schema in a schema, which may be a boolean.
func subSchema(v any, more *bool) (*Schema, error) {
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
