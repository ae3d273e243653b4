package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/big"
	"strings"
)

// decodeJSON reads one JSON value, with numbers as they are written.
func decodeJSON(b []byte) (any, error) {
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

// keyTwice is the first key that an object of b, which is JSON, has twice.
func keyTwice(b []byte) (twice string, ok bool) {
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

// encodeJSON writes v with sorted keys and without escapes for HTML.
func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// maxExponent bounds the numbers that are computed with: 1e999999999 is short
// to write and long to hold.
const maxExponent = 400

// ratOf is the exact value of a JSON number.
func ratOf(v any) (*big.Rat, error) {
	n, ok := v.(json.Number)
	if !ok {
		return nil, errors.New("want a number")
	}
	s := n.String()
	if len(s) > maxExponent {
		return nil, errors.New("the number is out of range")
	}
	if _, exp, ok := strings.Cut(strings.ToLower(s), "e"); ok {
		exp = strings.TrimLeft(strings.TrimLeft(exp, "+-"), "0")
		if len(exp) > 3 || len(exp) == 3 && exp > fmt.Sprint(maxExponent) {
			return nil, errors.New("the number is out of range")
		}
	}
	r, ok := new(big.Rat).SetString(s)
	if !ok {
		return nil, errors.New("want a number")
	}
	return r, nil
}

// ratText is r in the shortest decimal form.
func ratText(r *big.Rat) string {
	if r.IsInt() {
		return r.Num().String()
	}
	return strings.TrimRight(r.FloatString(10), "0")
}

func countOf(v any) (int, error) {
	r, err := ratOf(v)
	if err != nil || !r.IsInt() || r.Sign() < 0 || !r.Num().IsInt64() {
		return 0, errors.New("want a count")
	}
	return int(r.Num().Int64()), nil
}

func stringList(v any) ([]string, error) {
	list, ok := v.([]any)
	if !ok {
		return nil, errors.New("want a list of strings")
	}
	out := make([]string, len(list))
	for i, e := range list {
		if out[i], ok = e.(string); !ok {
			return nil, errors.New("want a list of strings")
		}
	}
	return out, nil
}

// keyOf is the same for values that JSON schema takes for equal, as 1.0 and 1, and for no others.
func keyOf(v any) (string, bool) {
	b, err := encodeJSON(canonical(v))
	return string(b), err == nil
}

// canonical is v with every number in one spelling.
func canonical(v any) any {
	switch v := v.(type) {
	case json.Number:
		if r, err := ratOf(v); err == nil {
			return map[string]any{"\x00number": r.RatString()}
		}
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = canonical(e)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = canonical(e)
		}
		return out
	}
	return v
}

// cloneJSON copies what may be changed in v.
func cloneJSON(v any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = cloneJSON(e)
		}
		return out
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			out[k] = cloneJSON(e)
		}
		return out
	}
	return v
}
