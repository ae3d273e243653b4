package anthropic

import (
	"encoding/json"
	"slices"
	"strings"

	"jp/cmd/jp/internal/model"
)

// native reports whether the vendor's own API can hold its model to a schema; it refuses requests
// with other schemas. Where it cannot, the schema in the prompt has to do. Models do from 4.5 on.
// Objects must be closed; ranges, lengths and patterns are unknown, and so is recursion. Source:
// platform.claude.com/docs/en/build-with-claude/structured-outputs, "JSON Schema limitations".
func (p provider) native(name string, schema json.RawMessage) bool {
	if _, version := model.Generation(name); !p.config.Official() || version > 0 && version < 405 {
		return false
	}
	var root map[string]any
	return json.Unmarshal(schema, &root) == nil && root["type"] == "object" && constrains(root)
}

func constrains(s map[string]any) bool {
	for k, v := range s {
		switch k {
		case "type", "description", "title", "default", "required":
		case "additionalProperties":
			if v != false {
				return false
			}
		case "enum":
			list, ok := v.([]any)
			if !ok || slices.ContainsFunc(list, composite) {
				return false
			}
		case "const":
			if composite(v) {
				return false
			}
		case "minItems":
			if v != 0.0 && v != 1.0 {
				return false
			}
		case "items":
			sub, ok := v.(map[string]any)
			if !ok || !constrains(sub) {
				return false
			}
		case "properties", "$defs":
			subs, ok := v.(map[string]any)
			if !ok {
				return false
			}
			for _, e := range subs {
				sub, ok := e.(map[string]any)
				if !ok || !constrains(sub) || k == "$defs" && refers(sub) {
					return false
				}
			}
		case "anyOf":
			list, ok := v.([]any)
			if !ok {
				return false
			}
			for _, e := range list {
				sub, ok := e.(map[string]any)
				if !ok || !constrains(sub) {
					return false
				}
			}
		case "$ref":
			if ref, ok := v.(string); !ok || !strings.HasPrefix(ref, "#/$defs/") {
				return false
			}
		default:
			return false
		}
	}
	_, open := s["additionalProperties"]
	return s["type"] != "object" || open
}

func composite(v any) bool {
	switch v.(type) {
	case map[string]any, []any:
		return true
	}
	return false
}

// refers reports whether a definition refers to any: those that do might do so in a circle.
func refers(v any) bool {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if _, ok := e.(string); ok && k == "$ref" || refers(e) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(v, refers)
	}
	return false
}
