package schema

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"strings"

	"jp/tools/jsondoc"
)

// maxExponent bounds the numbers that are computed with: 1e999999999 is short to write and long to
// hold.
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

// keyOf returns the same key for values that JSON schema regards as equal, such as 1.0 and 1, and
// for no others.
func keyOf(v any) (string, bool) {
	b, err := jsondoc.Encode(canonical(v))
	return string(b), err == nil
}

// canonical is v with every number in one spelling.
func canonical(v any) any {
	if r, err := ratOf(v); err == nil {
		return map[string]any{"\x00number": r.RatString()}
	}
	return jsondoc.Each(v, canonical)
}

// clone copies the parts of v that may be changed.
func clone(v any) any { return jsondoc.Each(v, clone) }
