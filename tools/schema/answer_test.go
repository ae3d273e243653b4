package schema

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestSchemaCheck(t *testing.T) {
	const person = `{ "type": "object", "required": ["name","age"], "additionalProperties": false,
		"properties": {"name":{"type":"string"}, "age":{"type":"integer","minimum":0}} }`
	for _, tt := range []struct {
		schema, in, out string
		problems        []string
	}{
		{person, ` {"name": "<A>", "age": 3.0} `, `{"age":3.0,"name":"<A>"}`, nil},
		{person, `{"name":"A"}`, "", []string{`"age" is missing`}},
		{person, `{"name":"A","age":"3"}`, "", []string{`"age" must be integer, not the string "3"`}}, // nothing is coerced
		{person, `{"name":null,"age":-1,"x":1}`, "", []string{
			`"age" must be at least 0, not -1`, `"name" must be string, not null`, `"x" is unknown; there is age, name`}},
		{person, `[]`, "", []string{"must be object, not a list"}},
		{person, `{"name":"A","age":1} done`, "", []string{"not JSON: something follows the value"}},
		{person, "", "", []string{"not JSON: it ends in the middle"}},
		{`{"type":"object","properties":{"a":{"default":1}}}`, `{}`, `{}`, nil}, // no default is filled in
		{`{"type":"array","items":{"type":"string"}}`, `["b","a"]`, `["b","a"]`, nil},
		{`{"type":"number"}`, `1.50`, `1.50`, nil},
		{`{}`, `null`, `null`, nil},
		{`{"type":"object"}`, `{"a":1,"a":2}`, `{"a":2}`, nil}, // what was checked is what is handed on
		{`{"anyOf":[{"type":"string"},{"type":"null"}]}`, `"x"`, `"x"`, nil},
		{`{"enum":[1,{"a":[2.0]}]}`, `{"a":[2]}`, `{"a":[2]}`, nil},
		{`{"enum":["enum","enum",{"a":"a","b":["a",{"a":"b"}]}]}`, `"enum"`, `"enum"`, nil}, // no key twice in one object
		{`{"enum":[1,"1"]}`, `2`, "", []string{`must be 1 or "1", not 2`}},
		{`{"enum":[]}`, `2`, "", []string{"has no valid value"}},
		{`{"const":1}`, `1.0`, `1.0`, nil},
		{`{"default":{"pattern":"("}}`, `{}`, `{}`, nil}, // no pattern, only called so
		{`{}`, `"` + strings.Repeat("x", maxAnswer) + `"`, "", []string{"is larger than 256 KB"}},
	} {
		s, err := ParseAnswer(json.RawMessage(tt.schema))
		if err != nil {
			t.Fatalf("ParseSchema(%s): %v", tt.schema, err)
		}
		out, problems := s.Check([]byte(tt.in))
		if string(out) != tt.out || !reflect.DeepEqual(problems, tt.problems) {
			t.Errorf("Check(%.80s) by %s = %s, %q, want %s, %q", tt.in, tt.schema, out, problems, tt.out, tt.problems)
		}
	}
}

func TestParseSchemaRefuses(t *testing.T) {
	deep := strings.Repeat(`{"items":`, 101) + `{}` + strings.Repeat(`}`, 101)
	for _, tt := range []struct{ schema, want string }{
		{`true`, "is no object"},
		{``, "not JSON: it ends in the middle"},
		{`{"type":"objekt"}`, `type: want string, number, integer, boolean, array, object or null, not "objekt"`},
		{deep, "is nested too deep"},
		{`{"title":"` + strings.Repeat("x", maxAnswerSchema) + `"}`, "is larger than 64 KB"},
		{`{"$ref":"https://example.com/x"}`, `#: $ref "https://example.com/x": only pointers into the schema itself are followed`},
		{`{"$ref":"#"}`, "#: refers to itself"},
		{`{"type":"string","type":"object"}`, `has the key "type" twice in one object`},
		{`{"":1,"":2}`, `has the key "" twice in one object`},
		{`{"properties":{"a":{"enum":[{"b":1},"b",{"b":[],"\u0062":{}}]}}}`, `has the key "b" twice in one object`},
		{`{"pattern":"("}`, "pattern: error parsing regexp: missing closing ): `(`"},
		{`{"pattern":"\\pL{1000}\\pL{1000}\\pL{1000}\\pL{1000}"}`, "its patterns are too large"},
		{`{"anyOf":[{"Pattern":"x{1000}x{1000}x{1000}x{1000}x"}]}`, "its patterns are too large"},
		{`{"patternProperties":{"x{999}":{},"y{999}":{},"z{999}":{},"a{999}":{},"b{999}":{}}}`, "its patterns are too large"},
		{`{"items":{"enum":[` + strings.Repeat("1,", 600) + `1]},"contains":{"Enum":[` + strings.Repeat("1,", 600) + `1]}}`, "its enums have more than 1000 values"},
	} {
		_, err := ParseAnswer(json.RawMessage(tt.schema))
		if fmt.Sprint(err) != tt.want {
			t.Errorf("ParseSchema(%.80s): %v, want %s", tt.schema, err, tt.want)
		}
	}
}

// FuzzSchemaCheck: nothing panics, refusals repeat word for word, and what was accepted is accepted
// again as it is.
func FuzzSchemaCheck(f *testing.F) {
	for _, s := range []string{
		`{"type":"object","required":["a"],"properties":{"a":{"type":"integer"}}}`, `{"enum":[1,"a",null]}`, `{"items":{"pattern":"^a+$"}}`,
		`{"anyOf":[{"type":"string"},{"$ref":"#/$defs/n"}],"$defs":{"n":{"minimum":3}}}`, `{"uniqueItems":true}`, `{"not":{}}`, `{"patternProperties":{"a*":{}}}`,
	} {
		f.Add(s, `{"a":1.0}`)
		f.Add(s, `["aa", 4e0, "\ud800"]`)
	}
	f.Fuzz(func(t *testing.T, schema, value string) {
		s, err := ParseAnswer(json.RawMessage(schema))
		if err != nil {
			return
		}
		if _, err := ParseAnswer(s.JSON()); err != nil {
			t.Errorf("ParseSchema(%s) of what it gave: %v", s.JSON(), err)
		}
		out, problems := s.Check([]byte(value))
		if _, again := s.Check([]byte(value)); !reflect.DeepEqual(problems, again) {
			t.Errorf("Check(%q) by %q: %q, then %q", value, schema, problems, again)
		}
		if len(problems) > 0 {
			return
		}
		if again, problems := s.Check(out); string(again) != string(out) || len(problems) > 0 {
			t.Errorf("Check(%s) of what it gave = %s, %q", out, again, problems)
		}
	})
}

// TestCheckMultiplies: what a schema says twice of a value, and of all that is in it, multiplies
// with each step into the value, patterns take time with each character, and errors hold the value.
// A check cannot be interrupted.
func TestCheckMultiplies(t *testing.T) {
	nest := func(n int, open, inner, end string) string {
		return strings.Repeat(open, n) + inner + strings.Repeat(end, n)
	}
	const twice = `{"$defs":{"n":{"anyOf":[{"properties":{"c":{"$ref":"#/$defs/n"}},"required":["c"]},{"items":{"$ref":"#/$defs/n"},` +
		`"additionalProperties":{"$ref":"#/$defs/n"}},{"patternProperties":{"c":{"$ref":"#/$defs/n"}},"contains":{"$ref":"#/$defs/n"}}]}},"$ref":"#/$defs/n"}`
	const once = `{"$defs":{"n":{"anyOf":[{"type":"object","properties":{"c":{"$ref":"#/$defs/n"}},"required":["c"]},{"type":"integer"}]}},"$ref":"#/$defs/n"}`
	long := "[" + strings.Repeat("1,", 100_000) + "1]"
	text := `"` + strings.Repeat("ab", 50_000) + `"`
	any := func(n int, sub string) string {
		return `{"$defs":{"p":{"pattern":"^(ab?)*c"}},"anyOf":[` + strings.Repeat(sub+",", n) + `{"type":"string"}]}`
	}
	enum := func(n int, value string) string {
		return `{"items":{"anyOf":[{"enum":[` + strings.Repeat("0,", n-1) + value + `]}]}}`
	}
	each := func(keyword string) string { return `{"items":{"anyOf":[{` + keyword + `},{}]}}` }
	objects := func(n int) string { return "[" + strings.Repeat("{},", n) + "{}]" }
	pairs := func(n int) string {
		list := make([]string, n)
		for i := range list {
			list[i] = fmt.Sprintf("[%d]", i)
		}
		return "[" + strings.Join(list, ",") + "]"
	}
	want := []string{"takes more than 500000 steps to be checked against its schema: make it shorter, or nest it less deeply"}
	for _, tt := range []struct {
		schema, in string
		problems   []string
	}{
		{twice, nest(5, `{"c":`, "1", "}"), nil},
		{twice, nest(60, `{"c":`, "1", "}"), want},
		{twice, nest(60, "[", "1", "]"), want},
		{once, nest(90, `{"c":`, "1", "}"), nil},
		{`{"items":{"anyOf":[{"type":"string"},{"type":"integer"}]}}`, long, nil},
		{any(1, `{"$ref":"#/$defs/p"}`), text, nil},
		{any(400, `{"$ref":"#/$defs/p"}`), text, want},
		{any(400, `{"propertyNames":{"$ref":"#/$defs/p"}}`), "{" + text + ":1}", want},
		{any(400, `{"patternProperties":{"^(ab?)*c":true}}`), "{" + text + ":1}", want},
		{any(700, `{"enum":["b"]}`), text, want},
		{any(700, `{"type":"null"}`), "[" + text + "]", want},
		{enum(1000, `"v"`), "[" + strings.Repeat(`"v",`, 1000) + `"v"]`, nil},
		{enum(1000, `"v"`), "[" + strings.Repeat(`"v",`, 10_000) + `"v"]`, want},
		{enum(1000, "[1,2]"), "[" + strings.Repeat("[1,2],", 4000) + "1]", want},
		{each(`"required":[` + names(7000, "") + "]"), objects(10), nil},
		{each(`"required":[` + names(7000, "") + "]"), objects(400), want},
		{each(`"properties":{` + names(5000, ":{}") + "}"), objects(400), want},
		{each(`"dependentRequired":{` + names(5000, ":[]") + "}"), objects(400), want},
		{`{"anyOf":[{"uniqueItems":true}]}`, pairs(1000), nil},
		{`{"anyOf":[{"uniqueItems":true}]}`, pairs(18_000), want},
		{`{"pattern":"^(ab)*(b?){100}$"}`, text, nil},
		{`{"pattern":"a[ab]{1000}b[ab]{900}c"}`, text, want},
	} {
		s, err := ParseAnswer(json.RawMessage(tt.schema))
		if err != nil {
			t.Fatalf("ParseSchema(%.80s): %v", tt.schema, err)
		}
		if _, problems := s.Check([]byte(tt.in)); !reflect.DeepEqual(problems, tt.problems) {
			t.Errorf("Check(%.80s) by %.80s = %q, want %q", tt.in, tt.schema, problems, tt.problems)
		}
	}
}

// names are n names in JSON, each with what follows.
func names(n int, follows string) string {
	list := make([]string, n)
	for i := range list {
		list[i] = fmt.Sprintf("%q%s", fmt.Sprint(i), follows)
	}
	return strings.Join(list, ",")
}

// TestArgumentsOfManyNames: a schema of a server may have many names, long ones and large defaults.
// They take neither time nor memory for each element of a list.
func TestArgumentsOfManyNames(t *testing.T) {
	list := func(items string) string { return `{"properties":{"l":{"items":` + items + `}}}` }
	elements := `{"l":[` + strings.Repeat("{},", 100_000) + "{}]}"
	for _, tt := range []struct{ schema, args, want string }{
		{list(`{"properties":{` + names(80_000, ":{}") + "}}"), elements, ""},
		{list(`{"properties":{"a":{"default":"` + strings.Repeat("x", 50_000) + `"}}}`), elements, "with its defaults it is larger than 4.1 MB: make it shorter"},
		{list(`{"properties":{"a":{"default":"x"}}}`), elements, ""},
		{`{"additionalProperties":false,"properties":{` + names(20_000, ":{}") + "}}", `{"x` + strings.ReplaceAll(names(50_000, ":1"), `,"`, `,"x`)[1:] + "}", `"x0" is unknown; did you mean "0"?`},
	} {
		s, err := Parse(json.RawMessage(tt.schema))
		if err != nil {
			t.Fatal(err)
		}
		_, problems := s.Arguments(json.RawMessage(tt.args))
		if got := strings.Join(problems, ","); !strings.HasPrefix(got, tt.want) || tt.want == "" && got != "" {
			t.Errorf("Arguments(%.30s) by %.60s: %.100s, want %s", tt.args, tt.schema, got, tt.want)
		}
	}
	deep := `{"anyOf":[{"properties":{"` + strings.Repeat("k", 400_000) + `":{"properties":{` + names(40_000, ":{}") + "}}}}]}"
	if _, err := Parse(json.RawMessage(deep)); fmt.Sprint(err) != "has many parts below long names" {
		t.Errorf("Parse(%.30s): %v", deep, err)
	}
}

// TestCheckCounts: to count what a check takes must not take long itself.
func TestCheckCounts(t *testing.T) {
	subs, fields := map[string]any{}, map[string]any{}
	for i := range 1000 {
		subs[fmt.Sprint("a", i)], fields[fmt.Sprint(i)] = true, nil
	}
	c := checks{seen: map[[2]uintptr]int{}, states: map[string]int{}}
	if n := c.of(map[string]any{"patternProperties": subs}, fields); n <= maxChecks || len(c.states) > 501 {
		t.Errorf("of = %d after %d patterns, want more than %d after 501 of 1000", n, len(c.states), maxChecks)
	}
}

// TestCheckLong: an error about a long value says where it is and what is wrong.
func TestCheckLong(t *testing.T) {
	s, err := ParseAnswer(json.RawMessage(`{"properties":{"a":{"allOf":[{"maxLength":10}]}}}`))
	if err != nil {
		t.Fatal(err)
	}
	_, problems := s.Check([]byte(`{"a":"` + strings.Repeat("é", 5000) + `"}`))
	if len(problems) != 1 || len(problems[0]) > 2010 || !utf8.ValidString(problems[0]) ||
		!strings.HasPrefix(problems[0], "validating /properties/a: ") || !strings.HasSuffix(problems[0], ", more than 10") {
		t.Errorf("problems = %q", problems)
	}
}
