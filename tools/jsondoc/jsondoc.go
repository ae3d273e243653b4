// Package jsondoc reads and writes JSON of strangers: one value and nothing behind it, numbers as they are written, keys that
// stand twice found, errors in words of JSON.
package jsondoc

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
)

// Decode reads one JSON value, with numbers as they are written.
func Decode(b []byte) (any, error) {
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, errors.New("not JSON: it ends in the middle")
		}
		return nil, fmt.Errorf("not JSON: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("not JSON: something follows the value")
	}
	return v, nil
}

// RepeatedKey returns the first key that an object of b, which is JSON, has twice.
func RepeatedKey(b []byte) (twice string, ok bool) {
	dec := json.NewDecoder(bytes.NewReader(b))
	var open []map[string]bool // keys of the objects around; nil for a list
	for key := false; ; {      // key: a string is one here
		t, err := dec.Token()
		if err != nil {
			return "", false // the end
		}
		switch v := t.(type) {
		case json.Delim:
			switch v {
			case '{':
				open = append(open, map[string]bool{})
			case '[':
				open = append(open, nil)
			default:
				open = open[:len(open)-1]
			}
			key = len(open) > 0 && open[len(open)-1] != nil
			continue
		case string:
			if key {
				in := open[len(open)-1]
				if in[v] {
					return v, true
				}
				in[v], key = true, false
				continue
			}
		}
		key = len(open) > 0 && open[len(open)-1] != nil
	}
}

// Encode writes v with sorted keys and without escapes for HTML.
func Encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Each returns a copy of v, which is as [Decode] makes it, with f of each element in the place of the element. What is no list
// and no object has none, and is returned as it is.
func Each(v any, f func(any) any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = f(e)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = f(e)
		}
		return out
	}
	return v
}

// Explain says what a JSON decoder did not like in words of JSON, where the
// standard ones name Go types: "servers.a: want a list, not a string". Errors of
// other kinds come back as they are.
func Explain(err error) error {
	var typed *json.UnmarshalTypeError
	if !errors.As(err, &typed) {
		return err
	}
	text := fmt.Sprintf("want %s, not %s", jsonKind(typed.Type), foundKind(typed.Value))
	if typed.Field != "" {
		text = typed.Field + ": " + text
	}
	return errors.New(text)
}

// jsonKind is the JSON that a Go type is decoded from.
func jsonKind(t reflect.Type) string {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return "a string"
	}
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Struct, reflect.Map:
		return "an object"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return "a string"
		}
		return "a list"
	}
	return "a whole number"
}

// foundKind is what UnmarshalTypeError.Value calls what stands there.
func foundKind(value string) string {
	switch value {
	case "array":
		return "a list"
	case "object":
		return "an object"
	case "bool":
		return "true or false"
	}
	if number, ok := strings.CutPrefix(value, "number "); ok {
		return number
	}
	return "a " + value
}
