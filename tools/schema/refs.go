package schema

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"jp/tools/brief"
	"jp/tools/jsondoc"
)

// Bounds of schemas from elsewhere.
const (
	maxSchema   = 1 << 20  // bytes
	maxInPlace  = 1000     // schemas that one value is checked against
	maxSchemaAt = 100      // nested schemas
	maxPaths    = 32 << 20 // bytes of the pointers to all of its parts, which the full validator keeps
)

// checkRefs refuses what would make the full validator run for ever or very long: a schema that
// refers to itself without going into the value, and references that multiply. Only pointers into
// the schema itself are references here.
func checkRefs(root map[string]any) error {
	r := refs{root: root, costs: map[uintptr]int{}}
	return r.all(nil, root, 0)
}

type refs struct {
	root  map[string]any
	costs map[uintptr]int // by the identity of a schema; -1 while it is being computed
	paths int             // bytes of pointers so far
}

// A step leads to a part of a schema. It is written only for an error: names may be long, and the
// parts many.
type step struct {
	from *step // nil = the root
	name string
	size int // of the whole pointer, in bytes
}

func (s *step) to(name string) *step {
	size := 1 + len(name)
	if s != nil {
		size += s.size
	}
	return &step{s, name, size}
}

func (s *step) String() string {
	if s == nil {
		return ""
	}
	return s.from.String() + "/" + s.name
}

// all checks every object below v, since any may be referred to.
func (r *refs) all(at *step, v any, depth int) error {
	if depth > maxSchemaAt {
		return errors.New("is nested too deep")
	}
	if at != nil {
		r.paths += at.size
	}
	if r.paths > maxPaths {
		return errors.New("has many parts below long names")
	}
	switch v := v.(type) {
	case map[string]any:
		if _, err := r.cost(at, v); err != nil {
			return err
		}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if err := r.all(at.to(k), v[k], depth+1); err != nil {
				return err
			}
		}
	case []any:
		for i, e := range v {
			if err := r.all(at.to(strconv.Itoa(i)), e, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// cost is how many schemas a value is checked against by a schema, without going into the value.
func (r *refs) cost(at *step, m map[string]any) (int, error) {
	id := reflect.ValueOf(m).Pointer()
	switch n, ok := r.costs[id]; {
	case n < 0:
		return 0, fmt.Errorf("#%s: refers to itself", at)
	case ok:
		return n, nil
	}
	r.costs[id] = -1
	total := 1
	add := func(at *step, v any) error {
		sub, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		n, err := r.cost(at, sub)
		if total += n; err == nil && total > maxInPlace {
			err = fmt.Errorf("#%s: its references multiply to more than %d", at, maxInPlace)
		}
		return err
	}
	for _, k := range slices.Sorted(maps.Keys(m)) {
		var err error
		switch k {
		case "$ref":
			ref, ok := m[k].(string)
			if !ok {
				continue // a property that is called so
			}
			target, found := r.resolve(ref)
			if !found {
				return 0, fmt.Errorf("#%s: $ref %s: only pointers into the schema itself are followed", at, brief.Quote(ref))
			}
			var to *step
			if ref != "#" {
				to = to.to(ref[len("#/"):])
			}
			err = add(to, target)
		case "$dynamicRef", "$recursiveRef":
			if _, ok := m[k].(string); ok {
				return 0, fmt.Errorf("#%s: %s is not followed", at, k)
			}
		case "not", "if", "then", "else":
			err = add(at.to(k), m[k])
		case "allOf", "anyOf", "oneOf":
			list, _ := m[k].([]any)
			for i, e := range list {
				if err = add(at.to(k).to(strconv.Itoa(i)), e); err != nil {
					break
				}
			}
		case "dependentSchemas", "dependencies":
			subs, _ := m[k].(map[string]any)
			for _, name := range slices.Sorted(maps.Keys(subs)) {
				if err = add(at.to(k).to(name), subs[name]); err != nil {
					break
				}
			}
		}
		if err != nil {
			return 0, err
		}
	}
	r.costs[id] = total
	return total, nil
}

// resolve finds the target of a reference.
func (r *refs) resolve(ref string) (v any, ok bool) {
	if ref != "#" && !strings.HasPrefix(ref, "#/") || strings.Contains(ref, "%") {
		return nil, false
	}
	v = r.root
	if ref == "#" {
		return v, true
	}
	for name := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		name = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
		switch in := v.(type) {
		case map[string]any:
			if v, ok = in[name]; !ok {
				return nil, false
			}
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(in) {
				return nil, false
			}
			v = in[i]
		default:
			return nil, false
		}
	}
	return v, true
}

// cleanSchema is a schema with nothing in it but keywords, in the spelling of draft 2020-12. The
// full validator reads keywords in any case, so a word that is no keyword here could be one there.
// It would also follow $id and anchors.
func cleanSchema(v any) any {
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	out := map[string]any{}
	for k, v := range m {
		switch k {
		case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas":
			out[k] = jsondoc.Each(v, cleanSchema)
		case "allOf", "anyOf", "oneOf", "prefixItems":
			out[k] = jsondoc.Each(v, cleanSchema)
		case "not", "if", "then", "else", "additionalProperties", "propertyNames", "contains", "unevaluatedItems", "unevaluatedProperties":
			out[k] = cleanSchema(v)
		case "items":
			if _, ok := v.([]any); ok {
				out["prefixItems"] = jsondoc.Each(v, cleanSchema)
				continue
			}
			if _, ok := out[k]; !ok {
				out[k] = cleanSchema(v)
			}
		case "additionalItems":
			if _, ok := m["items"].([]any); ok {
				out["items"] = cleanSchema(v)
			}
		case "dependencies":
			required, schemas := map[string]any{}, map[string]any{}
			deps, _ := v.(map[string]any)
			for name, d := range deps {
				if _, ok := d.([]any); ok {
					required[name] = d
				} else {
					schemas[name] = cleanSchema(d)
				}
			}
			out["dependentRequired"], out["dependentSchemas"] = required, schemas
		case "type", "enum", "const", "required", "dependentRequired", "$ref", "$dynamicRef", "$recursiveRef",
			"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "pattern",
			"minItems", "maxItems", "uniqueItems", "minContains", "maxContains", "minProperties", "maxProperties":
			out[k] = v
		}
	}
	return out
}
