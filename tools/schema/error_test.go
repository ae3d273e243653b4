package schema

import (
	"encoding/json"
	"testing"
)

// TestSchemaErrors: what the validator says of a schema, and of a value, names no type of its own.
func TestSchemaErrors(t *testing.T) {
	for schema, want := range map[string]string{
		`{"anyOf":3}`:                                                "anyOf: want a list, not a number",
		`{"anyOf":[{"minimum":"a"}]}`:                                "anyOf.minimum: want a number, not a string",
		`{"allOf":[{"properties":{"a":5}}]}`:                         "allOf.properties: want an object, not a number",
		`{"not":[]}`:                                                 "not: want an object, not a list",
		`{"dependentRequired":{"a":1}}`:                              "dependentRequired: want a list, not a number",
		`{"anyOf":[{"minProperties":"x"}]}`:                          "a length or count in it is no whole number",
		`{"anyOf":[{"minProperties":1.5}]}`:                          "a length or count in it is no whole number",
		`{"type":"object","patternProperties":{"[":{}}}`:             "patternProperties[\"[\"]: error parsing regexp: missing closing ]: `[`",
		`{"$defs":{"a":{"pattern":"("}},"anyOf":[{"type":"array"}]}`: "pattern: error parsing regexp: missing closing ): `(`",
	} {
		if _, err := ParseAnswer(json.RawMessage(schema)); err == nil || err.Error() != want {
			t.Errorf("ParseSchema(%s) = %v, want %q", schema, err, want)
		}
	}
	for schema, want := range map[string]string{
		`{"anyOf":[{"type":"string"},{"type":["number","null"]}]}`: "anyOf: did not validate against any of its schemas:\nvalidating /anyOf/0: is of type array, want \"string\"\n" +
			"validating /anyOf/1: is of type array, want \"number, null\"",
		`{"oneOf":[{"minItems":1},{"minItems":0}]}`:                      "oneOf: validated against more than one of its schemas",
		`{"not":{"type":"array"}}`:                                       "not: validated against its schema",
		`{"contains":{"type":"string"},"type":"array"}`:                  "contains: [map[a:b]] does not have an item matching its schema",
		`{"items":{"$ref":"#/$defs/a"},"$defs":{"a":{"type":"number"}}}`: "validating /items: validating /$defs/a: is of type object, want \"number\"",
	} {
		s, err := ParseAnswer(json.RawMessage(schema))
		if err != nil {
			t.Fatal(err)
		}
		if _, problems := s.Check([]byte(`[{"a":"b"}]`)); len(problems) != 1 || problems[0] != want {
			t.Errorf("%s: %q, want %q", schema, problems, want)
		}
	}
}
