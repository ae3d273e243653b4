package schema

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"jp/tools/brief"
	"jp/tools/jsondoc"
)

// Bounds of schemas from elsewhere.
const (
	maxSchema   = 1 << 20 // bytes
	maxInPlace  = 1000    // schemas that one value is checked against
	maxSchemaAt = 100     // nested schemas
)

// checkRefs refuses what would make the full validator run for ever or very long: a schema that
// refers to itself without going into the value, and references that multiply. Only pointers into
// the schema itself are references here.
func checkRefs(root map[string]any) error {
	r := refs{root: root, costs: map[string]int{}}
	return r.all("", root, 0)
}

type refs struct {
	root  map[string]any
	costs map[string]int // by pointer; -1 while it is being computed
}

// all checks every object below v, since any may be referred to.
func (r *refs) all(at string, v any, depth int) error {
	if depth > maxSchemaAt {
		return errors.New("is nested too deep")
	}
	switch v := v.(type) {
	case map[string]any:
		if _, err := r.cost(at, v); err != nil {
			return err
		}
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if err := r.all(at+"/"+k, v[k], depth+1); err != nil {
				return err
			}
		}
	case []any:
		for i, e := range v {
			if err := r.all(fmt.Sprintf("%s/%d", at, i), e, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// cost is how many schemas a value is checked against by the schema at a pointer, without going
// into the value.
func (r *refs) cost(at string, m map[string]any) (int, error) {
	switch n, ok := r.costs[at]; {
	case n < 0:
		return 0, fmt.Errorf("#%s: refers to itself", at)
	case ok:
		return n, nil
	}
	r.costs[at] = -1
	total := 1
	add := func(at string, v any) error {
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
			pointer, target, found := r.resolve(ref)
			if !found {
				return 0, fmt.Errorf("#%s: $ref %s: only pointers into the schema itself are followed", at, brief.Quote(ref))
			}
			err = add(pointer, target)
		case "$dynamicRef", "$recursiveRef":
			if _, ok := m[k].(string); ok {
				return 0, fmt.Errorf("#%s: %s is not followed", at, k)
			}
		case "not", "if", "then", "else":
			err = add(at+"/"+k, m[k])
		case "allOf", "anyOf", "oneOf":
			list, _ := m[k].([]any)
			for i, e := range list {
				if err = add(fmt.Sprintf("%s/%s/%d", at, k, i), e); err != nil {
					break
				}
			}
		case "dependentSchemas", "dependencies":
			subs, _ := m[k].(map[string]any)
			for _, name := range slices.Sorted(maps.Keys(subs)) {
				if err = add(at+"/"+k+"/"+name, subs[name]); err != nil {
					break
				}
			}
		}
		if err != nil {
			return 0, err
		}
	}
	r.costs[at] = total
	return total, nil
}

// resolve finds the target of a reference, and its pointer in the spelling of r.
func (r *refs) resolve(ref string) (pointer string, v any, ok bool) {
	if ref != "#" && !strings.HasPrefix(ref, "#/") || strings.Contains(ref, "%") {
		return "", nil, false
	}
	v = r.root
	for name := range strings.SplitSeq(strings.TrimPrefix(ref, "#"), "/") {
		if name == "" && pointer == "" {
			continue // the part before the first slash
		}
		name = strings.NewReplacer("~1", "/", "~0", "~").Replace(name)
		switch in := v.(type) {
		case map[string]any:
			if v, ok = in[name]; !ok {
				return "", nil, false
			}
		case []any:
			i, err := strconv.Atoi(name)
			if err != nil || i < 0 || i >= len(in) {
				return "", nil, false
			}
			v = in[i]
		default:
			return "", nil, false
		}
		pointer += "/" + name
	}
	return pointer, v, true
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
