package tools

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"jp/tools/brief"
	"jp/tools/fs"
	"jp/tools/period"
	"jp/tools/suggest"
)

func (d *decoder) str(key string, v any) string {
	s, ok := v.(string)
	switch {
	case !ok:
		d.fail(key, "want a string, not %s", typeName(v))
	case strings.ContainsRune(s, 0):
		d.fail(key, "holds a NUL byte")
	}
	return s
}

func (d *decoder) boolean(key string, v any) bool {
	b, ok := v.(bool)
	if !ok {
		d.fail(key, "want true or false, not %s", typeName(v))
	}
	return b
}

// choice reads one of a few words.
func choice[T ~string](d *decoder, key string, v any, of ...T) T {
	s, ok := v.(string)
	if !ok || !slices.Contains(of, T(s)) {
		words := make([]string, len(of))
		for i, w := range of {
			words[i] = string(w)
		}
		got := typeName(v)
		hint := ""
		if ok {
			got = strconv.Quote(s)
			hint = suggest.Meant("did you mean %q?", s, words)
		}
		d.failHint(key, hint, "want %s, not %s", brief.Or(words), got)
	}
	return T(s)
}

// strs reads a list of strings.
func (d *decoder) strs(key string, v any) []string {
	list, ok := listOf(v)
	if !ok {
		d.fail(key, "want a list of strings, not %s", typeName(v))
	}
	out := make([]string, 0, len(list))
	for i, e := range list {
		out = append(out, d.str(fmt.Sprintf("%s[%d]", key, i), e))
	}
	return out
}

// sub reads a table and refuses keys that it may not have.
func (d *decoder) sub(key string, v any, keys ...string) map[string]any {
	t, ok := v.(map[string]any)
	if !ok {
		d.fail(key, "want a table, not %s", typeName(v))
		return nil
	}
	d.checkKeys(key, t, layer{keys: keys})
	return t
}

func (d *decoder) duration(key string, v any) time.Duration {
	s, ok := v.(string)
	t, err := period.Parse(s)
	switch {
	case !ok:
		d.fail(key, `want a duration such as "60s", not %s`, typeName(v))
	case err != nil:
		d.fail(key, `want a duration such as "60s", not %q`, s)
	case t <= 0 || t > 24*time.Hour:
		d.fail(key, "want a duration above 0 and at most 24h, not %q", s)
	}
	return t
}

// size reads a number of bytes or a text such as "256KB" (1000 bytes) or "256KiB" (1024 bytes).
func (d *decoder) size(key string, v any) int {
	n, isInt := intOf(v)
	if s, ok := v.(string); ok {
		number := strings.TrimRight(s, "BKMGikb ")
		unit := map[string]int64{"": 1, "B": 1, "KB": 1e3, "MB": 1e6, "KiB": 1 << 10, "MiB": 1 << 20}[strings.TrimSpace(s[len(number):])]
		m, err := strconv.ParseInt(number, 10, 32)
		n, isInt = m*unit, err == nil && unit > 0
		if !isInt {
			d.fail(key, `want a size such as "256KB", not %q`, s)
		}
	}
	switch {
	case !isInt:
		d.fail(key, `want a size such as "256KB", not %s`, typeName(v))
	case n < fs.SmallResult || n > DefaultBatchBytes:
		d.fail(key, "want at least %d bytes and at most %s, the bound of all results of one reply", fs.SmallResult, brief.Size(DefaultBatchBytes))
	}
	return int(n)
}

// intOf is an integer as the decoders of TOML and JSON make it.
func intOf(v any) (int64, bool) {
	switch v := v.(type) {
	case int64:
		return v, true
	case int:
		return int64(v), true
	case float64:
		if v == math.Trunc(v) && math.Abs(v) < 1<<53 {
			return int64(v), true
		}
	case json.Number:
		n, err := v.Int64()
		return n, err == nil
	}
	return 0, false
}

// listOf is a list as the decoders of TOML and JSON make it.
func listOf(v any) ([]any, bool) {
	switch v := v.(type) {
	case []any:
		return v, true
	case []map[string]any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = e
		}
		return out, true
	case []string:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = e
		}
		return out, true
	}
	return nil, false
}

// plainValue is v in the types of JSON: maps, lists, strings, numbers as json.Number, booleans and
// null.
func plainValue(v any) (any, error) {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, e := range v {
			p, err := plainValue(e)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", k, err)
			}
			out[k] = p
		}
		return out, nil
	case string, bool, nil, json.Number:
		return v, nil
	case int64:
		return json.Number(strconv.FormatInt(v, 10)), nil
	case int:
		return json.Number(strconv.Itoa(v)), nil
	case float64:
		b, err := json.Marshal(v)
		if err != nil {
			return nil, errors.New("want a finite number")
		}
		return json.Number(b), nil
	case time.Time:
		return v.Format(time.RFC3339Nano), nil
	}
	if list, ok := listOf(v); ok {
		out := make([]any, len(list))
		for i, e := range list {
			p, err := plainValue(e)
			if err != nil {
				return nil, fmt.Errorf("[%d]: %w", i, err)
			}
			out[i] = p
		}
		return out, nil
	}
	return nil, fmt.Errorf("want text, numbers, lists and tables, not %s", typeName(v))
}

// typeName is what people call the type of a TOML or JSON value.
func typeName(v any) string {
	if _, ok := listOf(v); ok {
		return "a list"
	}
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case int, int64:
		return "an integer"
	case float64, json.Number:
		return "a number"
	case map[string]any:
		return "a table"
	case time.Time:
		return "a date"
	}
	return fmt.Sprintf("a %T", v)
}
