package tools

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"jp/tools/schema"
	"jp/tools/template"
)

// The keys of a parameter: our own, and those that its JSON schema has under the same name.
var (
	parameterKeys = append([]string{"required", "allow_dash"}, schemaKeys...)
	propertyKeys  = append([]string{"required"}, schemaKeys...)
	schemaKeys    = []string{
		"type", "description", "title", "default", "enum", "examples", "items", "properties", "additionalProperties",
		"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf",
		"minLength", "maxLength", "pattern", "minItems", "maxItems", "uniqueItems",
	}
)

// parameters makes the JSON schema of a [parameters] table and the names of parameters whose values
// may start with '-'.
func (d *decoder) parameters(key string, v any) (json.RawMessage, map[string]bool) {
	t, ok := v.(map[string]any)
	if !ok {
		d.fail(key, "want a table of tables, not %s", typeName(v))
		return nil, nil
	}
	dash := map[string]bool{}
	for _, name := range slices.Sorted(maps.Keys(t)) {
		if !template.IsName(name) || len(name) > 64 {
			d.fail(key+"."+name, "not a parameter name: a letter or '_', then letters, digits, '_' or '-', at most 64")
		}
		if p, ok := t[name].(map[string]any); ok && p["allow_dash"] != nil {
			dash[name] = d.boolean(key+"."+name+".allow_dash", p["allow_dash"])
		}
	}
	object := d.properties(key, t, parameterKeys)
	object["type"] = "object"
	object["additionalProperties"] = false
	if d.err != nil {
		return nil, nil
	}
	raw, err := json.Marshal(object)
	if err != nil {
		d.fail(key, "%v", err)
		return nil, nil
	}
	if _, err := schema.Parse(raw); err != nil {
		d.fail(key, "%v", err)
	}
	return raw, dash
}

// properties makes the part of an object schema that lists its properties.
func (d *decoder) properties(key string, t map[string]any, keys []string) map[string]any {
	props, required := map[string]any{}, []string{}
	for _, name := range slices.Sorted(maps.Keys(t)) {
		if d.err != nil {
			break
		}
		key := key + "." + name
		p := d.sub(key, t[name], keys...)
		if r, ok := p["required"]; ok && d.boolean(key+".required", r) {
			if _, ok := p["default"]; ok {
				d.fail(key+".default", "a required parameter has no use for one")
			}
			required = append(required, name)
		}
		props[name] = d.property(key, p)
	}
	out := map[string]any{"properties": props}
	if len(required) > 0 {
		out["required"] = required
	}
	return out
}

// property makes the schema of one value.
func (d *decoder) property(key string, p map[string]any) map[string]any {
	out := map[string]any{}
	for _, k := range slices.Sorted(maps.Keys(p)) {
		key := key + "." + k
		switch k {
		case "required", "allow_dash":
		case "properties":
			t, ok := p[k].(map[string]any)
			if !ok {
				d.fail(key, "want a table of tables, not %s", typeName(p[k]))
				continue
			}
			maps.Copy(out, d.properties(key, t, propertyKeys))
			if _, ok := p["additionalProperties"]; !ok {
				out["additionalProperties"] = false
			}
		case "items":
			out[k] = d.property(key, d.sub(key, p[k], schemaKeys...))
		case "description", "title":
			out[k] = strings.TrimSpace(d.str(key, p[k]))
		case "additionalProperties":
			out[k] = d.boolean(key, p[k])
		default:
			v, err := plainValue(p[k])
			if err != nil {
				d.fail(key, "%v", err)
			}
			out[k] = v
		}
	}
	if _, ok := out["type"]; !ok {
		d.fail(key, "type is missing: %s", schema.Types())
	}
	if d.err != nil {
		return out
	}
	d.consistent(key, out)
	return out
}

// consistent checks that a schema can hold for some value and that its default and enum fit it.
func (d *decoder) consistent(key string, out map[string]any) {
	raw, err := json.Marshal(out)
	if err != nil {
		d.fail(key, "%v", err)
		return
	}
	s, err := schema.Parse(raw)
	if err != nil {
		d.fail(key, "%v", err)
		return
	}
	if keyword, why := s.Inconsistent(); keyword != "" {
		d.fail(key+"."+keyword, "%s", why)
	}
}
