package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp/syntax"
	"strings"
)

// Bounds of a Schema and of what is checked against it. They keep the time of a check in bounds: a schema and an answer that
// are made to be slow together take seconds, not hours.
const (
	maxAnswerSchema  = 64_000  // bytes
	maxAnswer        = 256_000 // bytes
	maxPatternStates = 4000    // of all patterns of a schema together
)

// Schema is a JSON schema for a value that is not a tool's arguments: the answer of an agent. It loads nothing from outside
// itself. It is immutable and safe for concurrent use.
type Schema struct {
	json   json.RawMessage
	schema *schema
}

// ParseSchema reads a schema: one JSON object of at most 64 KB, nested at most 100 deep, in which references are pointers
// into the schema itself.
func ParseSchema(raw json.RawMessage) (*Schema, error) {
	if len(raw) > maxAnswerSchema {
		return nil, fmt.Errorf("is larger than %s", sizeText(maxAnswerSchema))
	}
	v, err := decodeJSON(raw)
	if err != nil {
		return nil, err
	}
	states := 0
	if err := bounded(v, 0, &states); err != nil {
		return nil, err
	}
	s, err := parseSchema(raw)
	if err != nil {
		return nil, err
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		return nil, err
	}
	return &Schema{json: compact.Bytes(), schema: s}, nil
}

// JSON returns the schema as it was written, without spaces; not to be changed.
func (s *Schema) JSON() json.RawMessage { return s.json }

// Check returns value as one JSON document with sorted keys, and what is wrong with it: a few problems in a fixed order, none
// when it matches. Nothing is coerced and no default is filled in: what is returned says what value says.
func (s *Schema) Check(value []byte) (json.RawMessage, []string) {
	if len(value) > maxAnswer {
		return nil, []string{"is larger than " + sizeText(maxAnswer)}
	}
	v, err := decodeJSON(value)
	if err != nil {
		return nil, []string{err.Error()}
	}
	out, problems := s.schema.accept(v)
	if len(problems) > 0 {
		return nil, problems
	}
	return out, nil
}

// bounded refuses a schema that is nested too deep or whose patterns are too large. Any text under "pattern" counts as one,
// and so does any key under "patternProperties", in any case: the full validator reads them so.
func bounded(v any, depth int, states *int) error {
	if depth > maxSchemaAt {
		return errors.New("is nested too deep")
	}
	add := func(pattern string) error {
		re, err := syntax.Parse(pattern, syntax.Perl)
		if err != nil {
			return fmt.Errorf("pattern %s: %w", quoteShort(pattern), err)
		}
		if *states += statesOf(re); *states > maxPatternStates {
			return errors.New("its patterns are too large")
		}
		return nil
	}
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if p, ok := e.(string); ok && strings.EqualFold(k, "pattern") {
				if err := add(p); err != nil {
					return err
				}
			}
			if props, ok := e.(map[string]any); ok && strings.EqualFold(k, "patternProperties") {
				for p := range props {
					if err := add(p); err != nil {
						return err
					}
				}
			}
			if err := bounded(e, depth+1, states); err != nil {
				return err
			}
		}
	case []any:
		for _, e := range v {
			if err := bounded(e, depth+1, states); err != nil {
				return err
			}
		}
	}
	return nil
}

// statesOf is about how many steps a pattern compiles to, and never more than a little above the bound: repetitions multiply.
func statesOf(re *syntax.Regexp) int {
	n := 1 + len(re.Rune)/64
	if re.Op == syntax.OpLiteral {
		n = len(re.Rune)
	}
	for _, sub := range re.Sub {
		n = min(n+statesOf(sub), maxPatternStates+1)
	}
	if re.Op == syntax.OpRepeat {
		n = min(n*max(re.Min, re.Max, 1), maxPatternStates+1)
	}
	return n
}
