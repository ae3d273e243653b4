package tomldoc

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"jp/tools/jsondoc"
)

// ParseJSON reads one JSON value into the values of a [Tree]. nulls says whether it may hold nulls.
// Repeated keys, empty keys and nesting deeper than [MaxNesting] are errors.
func ParseJSON(data []byte, nulls bool) (any, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("not UTF-8 text")
	}
	v, err := jsondoc.Decode(data)
	if err != nil {
		return nil, err
	}
	if key, twice := jsondoc.RepeatedKey(data); twice {
		return nil, fmt.Errorf("key %s is there twice", QuotePart(key))
	}
	return fromJSON(v, nulls, 0)
}

// fromJSON turns what jsondoc decodes into values of a tree, in place.
func fromJSON(v any, nulls bool, depth int) (_ any, err error) {
	if depth > MaxNesting {
		return nil, ErrNesting
	}
	switch v := v.(type) {
	case nil:
		if !nulls {
			return nil, errors.New("null is no value of a setting")
		}
	case json.Number:
		return Number(v.String())
	case []any:
		for i := range v {
			if v[i], err = fromJSON(v[i], nulls, depth+1); err != nil {
				return nil, err
			}
		}
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			if k == "" {
				return nil, ErrEmptyKey
			}
			if v[k], err = fromJSON(v[k], nulls, depth+1); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

// Number reads a number as TOML does: with a point or an exponent it is a float, else a whole
// number.
func Number(s string) (any, error) {
	if !strings.ContainsAny(s, ".eE") {
		if n, err := strconv.ParseInt(s, 10, 64); err == nil {
			return n, nil
		}
		return nil, errors.New("number is out of range")
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return nil, errors.New("number is out of range")
	}
	return f, nil
}
