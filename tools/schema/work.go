package schema

import (
	"fmt"
	"reflect"
)

// maxChecks bounds how many schemas the full validator checks parts of one value against. It cannot
// be interrupted, and a schema that checks a part twice doubles the work with each step into the
// value.
const maxChecks = 500_000

// A checks counts the work of the full validator before it begins. Each pair of a schema and a part
// of a value is counted once, however often the validator checks it.
type checks struct {
	refs refs
	seen map[[2]uintptr]int
}

// bounded refuses a value whose check would take too long. root is a schema that cleanSchema and
// checkRefs have accepted.
func bounded(root map[string]any, v any) error {
	c := checks{refs: refs{root: root}, seen: map[[2]uintptr]int{}}
	if c.of(root, v) > maxChecks {
		return fmt.Errorf("takes more than %d steps to be checked against its schema: nest it less deeply", maxChecks)
	}
	return nil
}

// of is how many checks v needs against the schema s, maxChecks+1 for any larger number.
func (c *checks) of(s, v any) int {
	m, ok := s.(map[string]any)
	if !ok {
		return 1
	}
	key := [2]uintptr{reflect.ValueOf(m).Pointer(), 0}
	var parts []any // of v
	fields, _ := v.(map[string]any)
	list, _ := v.([]any)
	switch {
	case len(fields) > 0:
		key[1] = reflect.ValueOf(fields).Pointer()
		for _, e := range fields {
			parts = append(parts, e)
		}
	case len(list) > 0:
		key[1] = reflect.ValueOf(list).Pointer()
		parts = list
	}
	if n, ok := c.seen[key]; ok {
		return n
	}
	n := 1
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
			_, target, _ := c.refs.resolve(ref)
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
		case "patternProperties":
			for _, s := range each(sub) {
				add(s, parts...)
			}
		case "propertyNames":
			add(sub, make([]any, len(fields))...)
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
	c.seen[key] = n
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
