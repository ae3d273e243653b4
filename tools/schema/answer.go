package schema

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp/syntax"
	"strings"

	"jp/tools/brief"
	"jp/tools/jsondoc"
	"jp/tools/regex"
)

// Bounds of a Schema and of a value that is checked against it. With them a schema and an answer
// that are made to be slow together take seconds, not hours.
const (
	maxAnswerSchema = 64_000  // bytes
	maxAnswer       = 256_000 // bytes
	maxEnum         = 1000    // values of all enums of a schema together
)

// Answer is a JSON schema for a value that is not a tool's arguments: the answer of an agent. It
// loads nothing from outside itself. It is immutable and safe for concurrent use.
type Answer struct {
	json   json.RawMessage
	schema *Schema
}

// ParseAnswer reads a schema: one JSON object of at most 64 KB, nested at most 100 deep, without
// repeated keys. Its references are pointers into the schema itself.
func ParseAnswer(raw json.RawMessage) (*Answer, error) {
	if len(raw) > maxAnswerSchema {
		return nil, fmt.Errorf("is larger than %s", brief.Size(maxAnswerSchema))
	}
	v, err := jsondoc.Decode(raw)
	if err != nil {
		return nil, err
	}
	if key, ok := jsondoc.RepeatedKey(raw); ok {
		return nil, fmt.Errorf("has the key %s twice in one object", brief.Quote(key))
	}
	b := bounds{enums: maxEnum}
	if err := b.check(v, 0); err != nil {
		return nil, err
	}
	s, err := Parse(raw)
	if err != nil {
		return nil, err
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, raw); err != nil {
		return nil, err
	}
	return &Answer{json: jsondoc.Sound(compact.Bytes()), schema: s}, nil
}

// JSON returns the schema as it was written, without spaces and as [jsondoc.Sound] returns it: so it is
// the same when it was stored or sent. It is not to be changed.
func (s *Answer) JSON() json.RawMessage { return s.json }

// Check returns value as one JSON document with sorted keys, and what is wrong with it: a few
// problems in a fixed order, none when it matches. Nothing is coerced and no default is filled in:
// the document says what value says.
func (s *Answer) Check(value []byte) (json.RawMessage, []string) {
	if len(value) > maxAnswer {
		return nil, []string{"is larger than " + brief.Size(maxAnswer)}
	}
	v, err := jsondoc.Decode(value)
	if err != nil {
		return nil, []string{err.Error()}
	}
	out, problems := s.schema.accept(v)
	if len(problems) > 0 {
		return nil, problems
	}
	return out, nil
}

// bounds adds up what makes a schema slow: the states of all patterns, of which regex.MaxStates is
// the most, and the values of enums. Keywords count in any case and wherever they are, since any
// part of a schema may be referred to.
type bounds struct {
	states, values int
	enums          int // most values; 0 = any number
}

func (b *bounds) check(v any, depth int) error {
	if depth > maxSchemaAt {
		return errors.New("is nested too deep")
	}
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if err := b.keyword(k, e); err != nil {
				return err
			}
			if err := b.check(e, depth+1); err != nil {
				return err
			}
		}
	case []any:
		for _, e := range v {
			if err := b.check(e, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

func (b *bounds) keyword(k string, v any) error {
	switch v := v.(type) {
	case string:
		if strings.EqualFold(k, "pattern") {
			b.pattern(v)
		}
	case map[string]any:
		if strings.EqualFold(k, "patternProperties") {
			for p := range v {
				b.pattern(p)
			}
		}
	case []any:
		if strings.EqualFold(k, "enum") {
			b.values += len(v)
		}
	}
	switch {
	case b.states > regex.MaxStates:
		return errors.New("its patterns are too large")
	case b.enums > 0 && b.values > b.enums:
		return fmt.Errorf("its enums have more than %d values", b.enums)
	}
	return nil
}

// pattern counts a pattern. A text that is none is an error where it is used; elsewhere it may be a
// word like any other.
func (b *bounds) pattern(p string) {
	if re, err := syntax.Parse(p, syntax.Perl); err == nil {
		b.states = min(b.states+regex.States(re), regex.MaxStates+1)
	}
}
