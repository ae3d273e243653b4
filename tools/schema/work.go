package schema

import (
	"fmt"
	"reflect"
	"regexp/syntax"

	"jp/tools/regex"
)

// maxChecks bounds how many schemas parts of one value are checked against. That cannot be
// interrupted, and for the full validator a schema that checks a part twice doubles the work with
// each step into the value.
const maxChecks = 500_000

// Each of these counts as one check more.
const (
	matched  = 512 // bytes times states of a pattern
	written  = 128 // bytes of a part: the error of each check of the full validator may hold it whole
	named    = 4   // names in a schema: the full validator looks up all of them in each object
	paired   = 512 // elements of a list times its elements and 8 bytes of it
	compared = 16  // values of an enum, or of them times 8 bytes of a list or an object: the full validator goes through them
)

// A checks counts the work of a check before it begins. Each pair of a schema and a part of a value
// is counted once, however often it is checked.
type checks struct {
	refs   refs
	full   bool // for the full validator
	seen   map[[2]uintptr]int
	sizes  map[uintptr]int // in bytes, of parts
	states map[string]int  // of patterns
	names  map[uintptr]int // in schemas
}

// bounded refuses a value whose check would take too long.
func (s *Schema) bounded(v any) error {
	c := checks{refs: refs{root: s.root}, full: s.full != nil, seen: map[[2]uintptr]int{}, sizes: map[uintptr]int{}, states: map[string]int{}, names: map[uintptr]int{}}
	if c.of(s.root, v) > maxChecks {
		return fmt.Errorf("takes more than %d steps to be checked against its schema: make it shorter, or nest it less deeply", maxChecks)
	}
	return nil
}

// of is how many checks v needs against the schema s, maxChecks+1 for any larger number.
func (c *checks) of(s, v any) int {
	n := 1
	if c.full {
		n += min(c.size(v)/written, maxChecks)
	}
	m, ok := s.(map[string]any)
	if !ok {
		return n
	}
	key := [2]uintptr{reflect.ValueOf(m).Pointer(), 0}
	var parts []any // of v
	fields, _ := v.(map[string]any)
	list, _ := v.([]any)
	text, isText := v.(string) // a text has no identity to be counted once by
	switch {
	case fields != nil:
		key[1] = reflect.ValueOf(fields).Pointer()
		for _, e := range fields {
			parts = append(parts, e)
		}
	case len(list) > 0:
		key[1] = reflect.ValueOf(list).Pointer()
		parts = list
	}
	if known, ok := c.seen[key]; ok && !isText {
		return known
	}
	if c.full && fields != nil {
		n += c.namesIn(m, key[0]) / named
	}
	match := func(pattern, text string) { n = min(n+c.match(pattern, text), maxChecks+1) }
	add := func(s any, values ...any) {
		for _, v := range values {
			if n > maxChecks || len(c.seen) > maxChecks {
				n = maxChecks + 1
				return
			}
			n = min(n+c.of(s, v), maxChecks+1)
		}
	}
	for k, sub := range m {
		switch k {
		case "$ref":
			ref, _ := sub.(string)
			target, _ := c.refs.resolve(ref)
			add(target, v)
		case "not", "if", "then", "else":
			add(sub, v)
		case "allOf", "anyOf", "oneOf", "dependentSchemas":
			for _, s := range each(sub) {
				add(s, v)
			}
		case "properties":
			subs, _ := sub.(map[string]any)
			for name, e := range fields {
				if s, ok := subs[name]; ok {
					add(s, e)
				}
			}
		case "pattern":
			pattern, _ := sub.(string)
			match(pattern, text)
		case "enum":
			if values, _ := sub.([]any); c.full {
				each := 1
				if !isText {
					each += c.size(v) / 8
				}
				n = min(n+len(values)*each/compared, maxChecks+1)
			}
		case "uniqueItems": // lists and objects can be made so that the full validator compares each with each
			if c.full {
				n = min(n+c.pairs(list), maxChecks+1)
			}
		case "patternProperties":
			subs, _ := sub.(map[string]any)
			for pattern, s := range subs {
				if n > maxChecks {
					break
				}
				for name := range fields {
					match(pattern, name)
				}
				add(s, parts...)
			}
		case "propertyNames":
			for name := range fields {
				add(sub, name)
			}
		case "prefixItems":
			subs, _ := sub.([]any)
			for i := range min(len(subs), len(list)) {
				add(subs[i], list[i])
			}
		case "additionalProperties", "unevaluatedProperties":
			if list == nil {
				add(sub, parts...)
			}
		case "items", "contains", "unevaluatedItems":
			add(sub, list...)
		}
	}
	if !isText {
		c.seen[key] = n
	}
	return n
}

// match is how many checks a text counts as that a pattern is matched with.
func (c *checks) match(pattern, text string) int {
	n, ok := c.states[pattern]
	if !ok {
		if tree, err := syntax.Parse(pattern, syntax.Perl); err == nil {
			n = regex.States(tree)
		}
		c.states[pattern] = n
	}
	return n * len(text) / matched
}

// namesIn is how many names a schema looks up in each object.
func (c *checks) namesIn(s map[string]any, at uintptr) int {
	n, ok := c.names[at]
	if !ok {
		for _, k := range []string{"properties", "required", "patternProperties", "dependentSchemas", "dependentRequired"} {
			switch v := s[k].(type) {
			case []any:
				n += len(v)
			case map[string]any:
				n += len(v)
				for _, e := range v {
					names, _ := e.([]any)
					n += len(names)
				}
			}
		}
		c.names[at] = n
	}
	return n
}

// pairs is how many checks it counts as that each of the lists and objects in a list is compared
// with each. Texts and numbers are not, unless they are equal.
func (c *checks) pairs(list []any) int {
	nested := 0
	for _, e := range list {
		switch e.(type) {
		case []any, map[string]any:
			nested++
		}
	}
	return nested * (nested + c.size(list)/8) / paired
}

// size is about how many bytes v has.
func (c *checks) size(v any) (n int) {
	var at uintptr
	switch v := v.(type) {
	case string:
		return len(v)
	case map[string]any:
		at = reflect.ValueOf(v).Pointer()
		if n, ok := c.sizes[at]; ok || len(v) == 0 {
			return n
		}
		for name, e := range v {
			n += len(name) + c.size(e)
		}
	case []any:
		at = reflect.ValueOf(v).Pointer()
		if n, ok := c.sizes[at]; ok || len(v) == 0 {
			return n
		}
		for _, e := range v {
			n += c.size(e)
		}
	default:
		return 8
	}
	c.sizes[at] = n
	return n
}

// each are the schemas in a list or under names.
func each(v any) []any {
	if m, ok := v.(map[string]any); ok {
		list := make([]any, 0, len(m))
		for _, s := range m {
			list = append(list, s)
		}
		return list
	}
	list, _ := v.([]any)
	return list
}
