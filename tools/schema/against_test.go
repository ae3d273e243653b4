package schema

import (
	"encoding/json"
	"math/rand/v2"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"jp/tools/jsondoc"
)

// A maker makes schemas of the keywords that a Schema reads itself and of those that change the
// meaning of these, and values that may fit them.
type maker struct{ *rand.Rand }

func (m maker) one(of ...any) any { return of[m.IntN(len(of))] }

func (m maker) list(n int, f func() any) []any {
	out := make([]any, m.IntN(n))
	for i := range out {
		out[i] = f()
	}
	return out
}

func (m maker) members(n int, f func() any) map[string]any {
	out := map[string]any{}
	for range m.IntN(n) {
		out[m.one("a", "b", "X-a").(string)] = f()
	}
	return out
}

func (m maker) value(depth int) any {
	deeper := func() any { return m.value(depth - 1) }
	switch n := m.IntN(10); {
	case n < 2 && depth > 0:
		return m.list(4, deeper)
	case n < 5 && depth > 0:
		return m.members(4, deeper)
	case n < 7:
		return m.one(-2, 0, 1, 2, 3, 4, 1.5, 2.5)
	case n < 9:
		return m.one("", "a", "aa", "ab", "ß€😀", "1", "[1]")
	}
	return m.one(nil, true, false)
}

func (m maker) schema(depth int) any {
	if depth == 0 || m.IntN(15) == 0 {
		return m.one(true, true, false, map[string]any{"type": m.one(asAny(jsonTypes)...)})
	}
	deeper := func() any { return m.schema(depth - 1) }
	value := func() any { return m.value(1) }
	s := map[string]any{}
	for range 1 + m.IntN(4) {
		switch k := m.one("type", "properties", "items", "required", "additionalProperties", "enum", "const", "minimum", "maximum",
			"exclusiveMinimum", "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "minItems", "maxItems", "uniqueItems", "pattern",
			"patternProperties", "prefixItems", "additionalItems", "anyOf", "not", "default").(string); k {
		case "type":
			s[k] = m.one("array", "object", m.one(asAny(jsonTypes)...), []any{"string", m.one("object", "array", "integer", "null")})
		case "properties":
			s[k] = m.members(3, deeper)
		case "items":
			s[k] = m.one(deeper(), m.list(3, deeper))
		case "additionalProperties":
			s[k] = m.one(false, deeper())
		case "additionalItems", "not":
			s[k] = deeper()
		case "required":
			s[k] = m.one([]any{"a"}, []any{"b", "X-a"})
		case "enum":
			s[k] = append(m.list(4, value), value())
		case "const":
			s[k] = value()
		case "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum":
			s[k] = m.one(0, 1, 2.5)
		case "multipleOf":
			s[k] = m.one(1, 2, 0.5)
		case "minLength", "maxLength", "minItems", "maxItems":
			s[k] = m.IntN(3)
		case "uniqueItems":
			s[k] = m.one(true, false)
		case "pattern":
			s[k] = m.one("^a", "b$")
		case "patternProperties":
			s[k] = map[string]any{"^X-": deeper()}
		case "prefixItems", "anyOf":
			s[k] = append(m.list(2, deeper), deeper())
		case "default":
			s[k] = value()
		}
	}
	return s
}

func asAny(list []string) (out []any) {
	for _, s := range list {
		out = append(out, s)
	}
	return out
}

// TestAgainstFull: what is checked here is what JSON schema says. What is refused here the full
// validator refuses, too, and if it is not asked, what is accepted here it would accept. When fitting
// arguments are coerced and filled in, they still fit.
func TestAgainstFull(t *testing.T) {
	accepted, refused, wrong := 0, 0, 0
	for seed := range uint64(4000) {
		m := maker{rand.New(rand.NewPCG(seed, 0))}
		made, ok := m.schema(3).(map[string]any)
		if !ok {
			continue
		}
		raw, err := json.Marshal(made)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Parse(raw)
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		clean, err := json.Marshal(cleanSchema(s.root))
		if err != nil {
			t.Fatal(err)
		}
		var js jsonschema.Schema
		if err := json.Unmarshal(clean, &js); err != nil {
			t.Fatalf("%s: %v", clean, err)
		}
		full, err := js.Resolve(nil)
		if err != nil {
			t.Fatalf("%s: %v", clean, err)
		}
		for range 10 {
			in, err := json.Marshal(m.value(3))
			if err != nil {
				t.Fatal(err)
			}
			v, err := jsondoc.Decode(in)
			if err != nil {
				t.Fatal(err)
			}
			var plain any
			if err := json.Unmarshal(in, &plain); err != nil {
				t.Fatal(err)
			}
			var found problems
			s.check("", v, &found)
			err = full.Validate(plain)
			switch own := len(found.list) == 0; {
			case !own && err == nil:
				t.Errorf("%s by %s: %q, and the full validator accepts it", in, raw, found.list)
				wrong++
			case own && err != nil && s.full == nil:
				t.Errorf("%s by %s: accepted, and the full validator says %v", in, raw, err)
				wrong++
			case own:
				accepted++
			default:
				refused++
			}
			if _, ok := plain.(map[string]any); ok && err == nil {
				if out, problems := s.Arguments(in); len(problems) > 0 {
					t.Errorf("%s by %s: as arguments %q, and the full validator accepts them", in, raw, problems)
					wrong++
				} else if json.Unmarshal(out, &plain) != nil || full.Validate(plain) != nil {
					t.Errorf("%s by %s: as arguments %s, which the full validator refuses", in, raw, out)
					wrong++
				}
			}
			if wrong > 20 {
				t.FailNow()
			}
		}
	}
	if accepted < 10_000 || refused < 10_000 {
		t.Errorf("%d values are accepted and %d refused: that proves little", accepted, refused)
	}
}
