package tomldoc

import (
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"time"
)

// Tree decodes a document into a tree of map[string]any, []any, string, bool, int64 and float64,
// and returns the positions of its keys. Every error is an *Error. If the text is no TOML, it has a
// cause; if the error is about a value, it has the value's key.
func Tree(data []byte) (map[string]any, *Mark, error) {
	var raw map[string]any
	_, marks, err := Decode(data, &raw)
	if err != nil {
		return nil, nil, err
	}
	v, err := plain(raw, nil, marks)
	if err != nil {
		return nil, nil, err
	}
	return v.(map[string]any), marks, nil
}

// plain reduces decoded values to those of a tree: no key takes dates, and JSON has no infinities.
func plain(v any, parts []string, marks *Mark) (any, error) {
	refuse := func(msg string) (any, error) {
		return nil, &Error{Line: marks.At(parts), Key: JoinKey(parts), Msg: msg}
	}
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for _, k := range slices.Sorted(maps.Keys(v)) {
			p, err := plain(v[k], append(parts[:len(parts):len(parts)], k), marks)
			if err != nil {
				return nil, err
			}
			out[k] = p
		}
		return out, nil
	case []map[string]any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = v[i]
		}
		return plain(list, parts, marks)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			p, err := plain(v[i], append(parts[:len(parts):len(parts)], strconv.Itoa(i)), marks)
			if err != nil {
				return nil, err
			}
			out[i] = p
		}
		return out, nil
	case float64:
		if math.IsInf(v, 0) || math.IsNaN(v) {
			return refuse("must be a finite number")
		}
		return v, nil
	case string, bool, int64:
		return v, nil
	case time.Time:
		return refuse("must not be a date: no setting takes one; write it in quotes")
	}
	return refuse(fmt.Sprintf("has a value of unknown type %T", v))
}

// Merge puts a value at parts of a merged tree: tables merge, all else is replaced. The tree shares
// nothing with v.
func Merge(tree map[string]any, parts []string, v any) {
	for _, p := range parts[:len(parts)-1] {
		next, ok := tree[p].(map[string]any)
		if !ok {
			next = map[string]any{}
			tree[p] = next
		}
		tree = next
	}
	// Only the table of a tool is a table. Its command is one thing: its program is not mixed with
	// arguments that another file meant for another program.
	merge(tree, parts[len(parts)-1], v, "command")
}

// merge puts a value at a key. The key whole of a table is replaced even if it is a table.
func merge(tree map[string]any, key string, v any, whole string) {
	over, isTable := v.(map[string]any)
	under, wasTable := tree[key].(map[string]any)
	if !isTable || !wasTable {
		tree[key] = Clone(v)
		return
	}
	for k, v := range over {
		if k == whole {
			under[k] = Clone(v)
		} else {
			merge(under, k, v, "")
		}
	}
}

// Lookup returns the value at parts, and whether there is one.
func Lookup(tree map[string]any, parts []string) (any, bool) {
	var v any = tree
	for _, p := range parts {
		t, _ := v.(map[string]any)
		below, ok := t[p]
		if !ok {
			return nil, false
		}
		v = below
	}
	return v, true
}

// Clone returns a copy of a value, with the elements of lists and tables.
func Clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		return CloneTable(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = Clone(v[i])
		}
		return out
	}
	return v
}

// CloneTable returns a copy of a table, with its elements.
func CloneTable(t map[string]any) map[string]any {
	out := make(map[string]any, len(t))
	for k, v := range t {
		out[k] = Clone(v)
	}
	return out
}

// CompareKeys orders dotted keys so that what is below a key follows it.
func CompareKeys(a, b string) int {
	x, _ := SplitKey(a)
	y, _ := SplitKey(b)
	return slices.Compare(x, y)
}
