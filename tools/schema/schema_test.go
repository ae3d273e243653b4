package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

// withSchema validates the arguments of a call by this schema.
type withSchema string

type problemsError []string

func (e problemsError) Error() string { return strings.Join(e, "; ") }

func (w withSchema) Validate(args json.RawMessage) (json.RawMessage, error) {
	s, err := Parse(json.RawMessage(w))
	if err != nil {
		return nil, err
	}
	out, problems := s.Arguments(args)
	if len(problems) > 0 {
		return nil, problemsError(problems)
	}
	return out, nil
}

const everyType = `{"type":"object","additionalProperties":false,"required":["s"],"properties":{
	"s":{"type":"string","minLength":1,"maxLength":5},
	"n":{"type":"number","minimum":0,"exclusiveMaximum":10},
	"i":{"type":"integer","multipleOf":2},
	"b":{"type":"boolean","default":true},
	"e":{"type":"string","enum":["x","y"]},
	"p":{"type":"string","pattern":"^a+$"},
	"l":{"type":"array","items":{"type":"integer"},"maxItems":3,"uniqueItems":true},
	"o":{"type":"object","properties":{"k":{"type":"string","default":"d"},"n":{"type":"integer"}},"required":["n"],"additionalProperties":false},
	"u":{"type":["integer","null"]},
	"any":{}}}`

func TestArguments(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{`{"s":"a"}`, `{"b":true,"s":"a"}`},
		{` { "s" : "<&>" , "b":false} `, `{"b":false,"s":"<&>"}`},
		{`{"s":"äöü€😀"}`, `{"b":true,"s":"äöü€😀"}`},
		{`{"s":"a","n":"1.50"}`, `{"b":true,"n":1.50,"s":"a"}`},
		{`{"s":"a","n":12345678901234567890e-19}`, `{"b":true,"n":12345678901234567890e-19,"s":"a"}`},
		{`{"s":"a","i":"4"}`, `{"b":true,"i":4,"s":"a"}`},
		{`{"s":"a","i":4.0}`, `{"b":true,"i":4,"s":"a"}`},
		{`{"s":"a","i":4e2}`, `{"b":true,"i":400,"s":"a"}`},
		{`{"s":"a","i":9007199254740994}`, `{"b":true,"i":9007199254740994,"s":"a"}`},
		{`{"s":"a","b":"false"}`, `{"b":false,"s":"a"}`},
		{`{"s":"5"}`, `{"b":true,"s":"5"}`}, // a string stays one where a string is declared
		{`{"s":"a","l":"[1, \"2\"]"}`, `{"b":true,"l":[1,2],"s":"a"}`},
		{`{"s":"a","o":"{\"n\":\"1\"}"}`, `{"b":true,"o":{"k":"d","n":1},"s":"a"}`},
		{`{"s":"a","o":{"n":1}}`, `{"b":true,"o":{"k":"d","n":1},"s":"a"}`},
		{`{"s":"a","i":null,"o":null,"e":null}`, `{"b":true,"s":"a"}`},
		{`{"s":"a","u":null}`, `{"b":true,"s":"a","u":null}`},
		{`{"s":"a","u":"null"}`, `{"b":true,"s":"a","u":null}`},
		{`{"s":"a","any":{"x":[null]}}`, `{"any":{"x":[null]},"b":true,"s":"a"}`},
		{`{"s":"a","s":"b"}`, `{"b":true,"s":"b"}`},
	} {
		got, err := withSchema(everyType).Validate(json.RawMessage(tt.in))
		if err != nil || string(got) != tt.want {
			t.Errorf("Validate(%s) = %s, %v, want %s", tt.in, got, err, tt.want)
		}
	}
}

// TestArgumentsGrow: what a few bytes of arguments become is bounded, of all their parts together.
func TestArgumentsGrow(t *testing.T) {
	texts := func(n int) json.RawMessage {
		held := "[" + strings.Repeat("0,", 60_000) + "0]"
		return json.RawMessage(`{"l":["` + strings.Repeat(held+`","`, n-1) + held + `"]}`)
	}
	lists := withSchema(`{"type":"object","properties":{"l":{"type":"array","items":{"type":"array","items":{"type":"integer"}}}}}`)
	if _, err := lists.Validate(texts(4)); err != nil {
		t.Errorf("4 texts: %v", err)
	}
	const want = "texts in it hold more than 262144 values: make it shorter"
	if _, err := lists.Validate(texts(5)); err == nil || err.Error() != want {
		t.Errorf("5 texts: %v, want %s", err, want)
	}

	s, err := Parse(json.RawMessage(`{"type":"object","properties":{"l":{"type":"array","items":{"type":"object","properties":{"a":{},"b":{},"c":{},"d":{}}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	lacking := func(n int) map[string]any {
		list := make([]any, n)
		for i := range list {
			list[i] = map[string]any{"d": 1}
		}
		return map[string]any{"l": list}
	}
	v := lacking(33_333)
	if err := s.Fill(v, true); err != nil || !reflect.DeepEqual(v["l"].([]any)[33_332], map[string]any{"a": true, "b": true, "c": true, "d": 1}) {
		t.Errorf("Fill = %v, the last is %v", err, v["l"].([]any)[33_332])
	}
	if err := s.Fill(lacking(33_334), true); err == nil || err.Error() != "leaves out more than 100000 properties: make it shorter" {
		t.Errorf("Fill = %v", err)
	}
}

func TestValidateErrors(t *testing.T) {
	for _, tt := range []struct {
		in   string
		want []string
	}{
		{``, []string{`"s" is missing`}},
		{`null`, []string{`"s" is missing`}},
		{`{`, []string{`not JSON: it ends in the middle`}},
		{`{"s":"a"} x`, []string{`not JSON: something follows the value`}},
		{`{"s":a}`, []string{`not JSON: invalid character 'a' looking for beginning of value`}},
		{`[]`, []string{`want a JSON object, not a list`}},
		{`"{}"`, []string{`want a JSON object, not the string "{}"`}},
		{`{"s":null}`, []string{`"s" must be string, not null`}},
		{`{"s":1}`, []string{`"s" must be string, not the number 1`}},
		{`{"s":""}`, []string{`"s" must have at least 1 character, not 0`}},
		{`{"s":"abcdef"}`, []string{`"s" must have at most 5 characters, not 6`}},
		{`{"s":"a","n":-1}`, []string{`"n" must be at least 0, not -1`}},
		{`{"s":"a","n":10}`, []string{`"n" must be below 10, not 10`}},
		{`{"s":"a","n":"x"}`, []string{`"n" must be number, not the string "x"`}},
		{`{"s":"a","n":1e999999999}`, []string{`"n" the number is out of range`}},
		{`{"s":"a","i":1e-999999999}`, []string{`"i" the number is out of range`}},
		{`{"s":"a","i":3}`, []string{`"i" must be a multiple of 2, not 3`}},
		{`{"s":"a","i":2.5}`, []string{`"i" must be integer, not the number 2.5`}},
		{`{"s":"a","i":"2 3"}`, []string{`"i" must be integer, not the string "2 3"`}},
		{`{"s":"a","b":1}`, []string{`"b" must be boolean, not the number 1`}},
		{`{"s":"a","e":"z"}`, []string{`"e" must be "x" or "y", not "z"`}},
		{`{"s":"a","p":"b"}`, []string{`"p" must match ^a+$`}},
		{`{"s":"a","l":[1,"x",2.5,3]}`, []string{`"l" must have at most 3 elements, not 4`, `"l[1]" must be integer, not the string "x"`, `"l[2]" must be integer, not the number 2.5`}},
		{`{"s":"a","l":[1,2,1.0]}`, []string{`"l" holds the same element twice, at 0 and 2`}},
		{`{"s":"a","o":{}}`, []string{`"o.n" is missing`}},
		{`{"s":"a","o":{"n":1,"kk":""}}`, []string{`"o.kk" is unknown; did you mean "k"?`}},
		{`{"S":"a","nothing like it":1}`, []string{`"s" is missing`, `"S" is unknown; did you mean "s"?`, `"nothing like it" is unknown; there is any, b, e, i, l, n, o, p, s, u`}},
		{`{"s":"a","u":true}`, []string{`"u" must be integer or null, not true`}},
	} {
		_, err := withSchema(everyType).Validate(json.RawMessage(tt.in))
		var bad problemsError
		if !errors.As(err, &bad) || !reflect.DeepEqual([]string(bad), tt.want) {
			t.Errorf("Validate(%s): %v\nwant %q", tt.in, err, tt.want)
		}
	}
}

// TestDefaultsThatDoNotFit: a default is no reason to refuse arguments that fit without it.
func TestDefaultsThatDoNotFit(t *testing.T) {
	for _, tt := range []struct{ schema, in, want string }{
		{`{"properties":{"a":{"type":"string","default":null},"b":{"default":1}}}`, `{}`, `{"b":1}`}, // as pydantic writes a: str = None
		{`{"properties":{"a":{"type":["string","null"],"default":null}}}`, `null`, `{"a":null}`},
		{`{"properties":{"a":{"anyOf":[{"type":"string"},{"type":"null"}],"default":null}}}`, `{}`, `{"a":null}`},
		{`{"properties":{"a":{"enum":["x","y"],"default":""},"b":{"type":"integer"}}}`, `{"b":"1"}`, `{"b":1}`},
		{`{"properties":{"a":{"default":1},"b":{}},"oneOf":[{"required":["a"]},{"required":["b"]}]}`, `{"b":1}`, `{"b":1}`},
		{`{"properties":{"a":{"default":1},"b":{}},"oneOf":[{"required":["a"]},{"required":["b"]}]}`, `null`, `{"a":1}`},
	} {
		if got, err := withSchema(tt.schema).Validate(json.RawMessage(tt.in)); err != nil || string(got) != tt.want {
			t.Errorf("Validate(%s) by %s = %s, %v, want %s", tt.in, tt.schema, got, err, tt.want)
		}
	}
}

// Schemas of MCP servers may say anything; nothing is fetched, nothing hangs.
func TestValidateFullSchemas(t *testing.T) {
	for _, tt := range []struct {
		schema, in string
		ok         bool
	}{
		{`{"type":"object","properties":{"a":{"anyOf":[{"type":"string"},{"type":"integer"}]}}}`, `{"a":1}`, true},
		{`{"type":"object","properties":{"a":{"anyOf":[{"type":"string"},{"type":"integer"}]}}}`, `{"a":true}`, false},
		{`{"type":"object","properties":{"a":{"$ref":"#/$defs/s"}},"$defs":{"s":{"type":"string"}}}`, `{"a":"x"}`, true},
		{`{"type":"object","properties":{"a":{"$ref":"#/$defs/s"}},"$defs":{"s":{"type":"string"}}}`, `{"a":1}`, false},
		{`{"type":"object","additionalProperties":{"type":"integer"}}`, `{"a":1}`, true},
		{`{"type":"object","additionalProperties":{"type":"integer"}}`, `{"a":"x"}`, false},
		{`{"type":"object","properties":{"a":false}}`, `{"a":1}`, false},
		{`{"type":"object"}`, `{"a":1}`, true},
		{`{"type":"object","properties":{"a":{"$ref":"#"}}}`, `{"a":{"a":{}}}`, true},
		{`{"type":"object","properties":{"a":{"$ref":"#"}}}`, `{"a":{"a":1}}`, false},
		{multiplying(5), `{"a":1}`, true},
		{`{"dependentScHemas":{"a":{"$ref":"#"}}}`, `{"a":1}`, true}, // no keyword, nor for the full validator
		{`{"dependencies":{"a":["b"]}}`, `{"a":1}`, false},
		{`{"properties":{"a":{"items":[{"type":"string"}],"additionalItems":false}}}`, `{"a":["x"]}`, true},
		{`{"patternProperties":{"^X-":{"type":"string"}},"additionalProperties":false}`, `{"X-a":"1"}`, true},
		{`{"patternProperties":{"^X-":{"type":"string"}},"additionalProperties":false}`, `{"X-a":1}`, false},
		{`{"patternProperties":{"^X-":{"type":"string"}},"additionalProperties":false}`, `{"a":"1"}`, false},
		{`{"properties":{"a":{"prefixItems":[{"type":"integer"}],"items":{"type":"string"}}}}`, `{"a":[1,"a"]}`, true},
		{`{"properties":{"a":{"prefixItems":[{"type":"string"}],"items":{"type":"integer"}}}}`, `{"a":["1",2]}`, true},
		{`{"properties":{"a":{"prefixItems":[{"type":"integer"}],"items":{"type":"string"}}}}`, `{"a":[1,2]}`, false},
		{`{"properties":{"a":{"const":"a","enum":["a","b"]}}}`, `{"a":"a"}`, true},
		{`{"properties":{"a":{"const":"a","enum":["a","b"]}}}`, `{"a":"b"}`, false},
		{`{"properties":{"a":{"items":[{"type":"string"}],"additionalItems":false}}}`, `{"a":["x",1]}`, false},
		{`{"properties":{"a":{"$ref":"#/definitions/s"}},"definitions":{"s":{"type":"string"}}}`, `{"a":1}`, false},
		{`{"x-vendor":{"$ref":"#"},"propertyNames":{"pattern":"^a"}}`, `{"a":1}`, true},
		{`{}`, `{"a":1}`, true},
		{``, `{}`, true},
		{``, `{"a":1}`, false},
		{`{"$schema":"http://json-schema.org/draft-07/schema#","type":"object","properties":{"a":{"type":"string","format":"uri"}}}`, `{"a":"x"}`, true},
	} {
		if _, err := withSchema(tt.schema).Validate(json.RawMessage(tt.in)); (err == nil) != tt.ok {
			t.Errorf("Validate(%s) by %s: %v, want ok: %v", tt.in, tt.schema, err, tt.ok)
		}
	}
	for _, schema := range []string{
		`{"type":"object","properties":{"a":{"$ref":"https://example.invalid/schema.json"}}}`,
		`{"type":"object","properties":{"a":{"$ref":"file:///etc/passwd"}}}`,
		`{"type":"object","properties":{"a":{"$ref":"#/$defs/none"}}}`,
		`{"$ref":"#"}`, `{"anyOf":[{"$ref":"#"}]}`, `{"not":{"if":{"$ref":"#/not"}}}`, `{"allOf":[{"$dynamicRef":"#a"}]}`,
		`{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}}}`, `{"properties":{"a":{"$ref":"#/properties/a"}}}`,
		multiplying(12), strings.Repeat(`{"not":`, 200) + "{}" + strings.Repeat("}", 200),
		`{"type":"objekt"}`, `[]`, `"x"`, `{`, `{"properties":[]}`, `{"required":[1]}`, `{"pattern":"("}`, `{"minimum":"1"}`, `{"minLength":1.5}`,
		`{"properties":{"a":{"pattern":"(?:a?){1000}(?:a?){1000}"}}}`, `{"patternProperties":{"(?:a?){1000}":{},"(?:b?){1000}":{}}}`,
	} {
		if s, err := Parse(json.RawMessage(schema)); err == nil {
			t.Errorf("parseSchema(%s) = %+v, want an error", schema, s)
		}
		if _, err := withSchema(schema).Validate(json.RawMessage(`{"a":1}`)); err == nil {
			t.Errorf("Validate by %s = nil, want an error", schema)
		}
	}
}

// multiplying is a schema in which each of n definitions refers twice to the next.
func multiplying(n int) string {
	defs := `"d0":{}`
	for i := range n {
		defs += fmt.Sprintf(`,"d%d":{"allOf":[{"$ref":"#/$defs/d%d"},{"$ref":"#/$defs/d%d"}]}`, i+1, i, i)
	}
	return fmt.Sprintf(`{"$defs":{%s},"$ref":"#/$defs/d%d"}`, defs, n)
}

// FuzzSchema: no schema and no arguments bring the program down.
func FuzzSchema(f *testing.F) {
	for _, s := range []string{
		everyType, `{"$ref":"#"}`, `{"properties":{"a":{"$ref":"#"}}}`, `{"anyOf":[{"$ref":"#/$defs/a"}],"$defs":{"a":{}}}`, multiplying(3),
		`{"properties":{"$ref":{"type":"string"}}}`, `{"$ref":"#/a~1b","a/b":{}}`, `{"items":[{},false]}`, `{"$id":"x","$ref":"x"}`,
		`{"$defs":{"a":{"$anchor":"q"}},"$ref":"#q"}`, `{"dependentSchemas":{"a":{"$ref":"#"}}}`, `{"contains":{"$ref":"#"}}`, `{"propertyNames":{"$ref":"#"}}`,
	} {
		f.Add(s, `{"a":{"a":[{}]}}`)
	}
	f.Fuzz(func(t *testing.T, schema, in string) {
		if _, err := withSchema(schema).Validate(json.RawMessage(in)); err != nil && err.Error() == "" {
			t.Errorf("Validate(%q) by %q: an error without a word", in, schema)
		}
	})
}

// FuzzValidate: nothing panics; what is accepted is JSON that the full validator accepts too, is
// accepted again unchanged, and what is refused is refused with the same words each time.
func FuzzValidate(f *testing.F) {
	for _, s := range []string{
		`{"s":"a"}`, `{"s":"a","n":"1.5"}`, `{"s":"a","l":"[1,2]"}`, `{"s":"a","o":{"n":1}}`, `{"s":"a","u":null}`, `{"s":1}`, `[]`, `{`,
		`{"s":"a","n":1e400}`, `{"s":"a","i":2e1}`, `{"s":"\ud800"}`, `{"s":"a","any":[[[[{}]]]]}`, `{"s":"a","l":[1,1]}`, "{\"s\":\"\xff\"}",
	} {
		f.Add(s)
	}
	def := withSchema(everyType)
	var js jsonschema.Schema
	if err := json.Unmarshal([]byte(def), &js); err != nil {
		f.Fatal(err)
	}
	full, err := js.Resolve(nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, in string) {
		out, err := def.Validate(json.RawMessage(in))
		if _, again := def.Validate(json.RawMessage(in)); fmt.Sprint(err) != fmt.Sprint(again) {
			t.Errorf("Validate(%q): %v, then %v", in, err, again)
		}
		if err != nil {
			return
		}
		var v any
		if err := json.Unmarshal(out, &v); err != nil {
			if strings.Contains(err.Error(), "cannot unmarshal number") {
				t.Skip() // beyond float64, but exact here
			}
			t.Fatalf("Validate(%q) = %s: %v", in, out, err)
		}
		if err := full.Validate(v); err != nil {
			t.Errorf("Validate(%q) = %s, but: %v", in, out, err)
		}
		if again, err := def.Validate(out); err != nil || string(again) != string(out) {
			t.Errorf("Validate(%q) = %s, and of that %s, %v", in, out, again, err)
		}
	})
}
