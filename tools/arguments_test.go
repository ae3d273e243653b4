package tools

import (
	"encoding/json"
	"errors"
	"reflect"
	"testing"
)

// TestValidate: whatever is wrong with a call is an ArgumentError with the name of the tool, by a
// definition and in a set alike.
func TestValidate(t *testing.T) {
	const object = `{"type":"object","additionalProperties":false,"properties":{"n":{"type":"integer","default":3}}}`
	for _, tt := range []struct {
		schema, in, out string
		problems        []string
	}{
		{object, "", `{"n":3}`, nil},
		{object, `{"n":"4"}`, `{"n":4}`, nil},
		{object, `{"n":true}`, "", []string{`"n" must be integer, not true`}},
		{object, `[]`, "", []string{"want a JSON object, not a list"}},
		{object, `{`, "", []string{"not JSON: it ends in the middle"}},
		{`{"type":5}`, `{}`, "", []string{"the schema of the tool cannot be used: type: want string, number, integer, boolean, array, object or null, or a list of them"}},
	} {
		def := Definition{Name: "t", Schema: json.RawMessage(tt.schema)}
		out, err := def.Validate(json.RawMessage(tt.in))
		var bad *ArgumentError
		if errors.As(err, &bad); string(out) != tt.out || (err != nil) != (bad != nil) ||
			bad != nil && (bad.Tool != "t" || !reflect.DeepEqual(bad.Problems, tt.problems)) || bad == nil && tt.problems != nil {
			t.Errorf("Validate(%s) by %s = %s, %v, want %s, %q", tt.in, tt.schema, out, err, tt.out, tt.problems)
		}
		s, setErr := NewSet(Tool{Definition: def, Func: say("")})
		if setErr != nil {
			continue // the schema
		}
		tool, _ := s.Get("t")
		if again, againErr := tool.validate(json.RawMessage(tt.in)); string(again) != string(out) || !reflect.DeepEqual(againErr, err) {
			t.Errorf("in a set: %s, %v, want %s, %v", again, againErr, out, err)
		}
	}
}
