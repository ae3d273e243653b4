package tools

import (
	"encoding/json"
	"fmt"
	"strings"

	"jp/tools/schema"
)

// ArgumentError is a call whose arguments do not fit the schema of its tool.
type ArgumentError struct {
	Tool     string
	Problems []string // what to mend, in order; at least one
}

func (e *ArgumentError) Error() string {
	return fmt.Sprintf("arguments of %s: %s", e.Tool, strings.Join(e.Problems, "; "))
}

// Validate checks arguments against the schema and returns them as one JSON object with sorted
// keys: strings that hold JSON coerced where the schema declares another type, null for an optional
// argument taken as not given, defaults filled in. Empty args are no arguments. The error is an
// *ArgumentError, with the same text for the same arguments.
func (d Definition) Validate(args json.RawMessage) (json.RawMessage, error) {
	return Tool{Definition: d}.validate(args)
}

// validate is Validate by the schema as a Set has read it.
func (t Tool) validate(args json.RawMessage) (json.RawMessage, error) {
	s := t.schema
	if s == nil {
		var err error
		if s, err = schema.Parse(t.Schema); err != nil {
			return nil, &ArgumentError{t.Name, []string{"the schema of the tool cannot be used: " + err.Error()}}
		}
	}
	out, problems := s.Arguments(args)
	if len(problems) > 0 {
		return nil, &ArgumentError{t.Name, problems}
	}
	return out, nil
}
