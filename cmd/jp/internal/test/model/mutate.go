package model

import (
	"encoding/json"
	"iter"
	"maps"
	"slices"
)

// Mutations yields a JSON document once for each value in it and each kind of other value that
// could stand there instead, and once for each member that could be missing.
func Mutations(document string) iter.Seq[string] {
	return func(yield func(string) bool) {
		var root any
		if json.Unmarshal([]byte(document), &root) != nil {
			panic("not JSON: " + document)
		}
		emit := func() bool {
			text, err := json.Marshal(root)
			if err != nil {
				panic(err) // what was decoded can be encoded
			}
			return yield(string(text))
		}
		mutate(root, func(v any) { root = v }, nil, emit)
	}
}

// mutate goes through v, which put replaces and remove, unless it is nil, takes away.
func mutate(v any, put func(any), remove func(), emit func() bool) bool {
	for _, other := range []any{nil, true, -1e99, 5, "x", []any{}, []any{1}, map[string]any{}, map[string]any{"type": 1}} {
		put(other)
		if !emit() {
			return false
		}
	}
	if remove != nil {
		remove()
		if !emit() {
			return false
		}
	}
	put(v)
	switch v := v.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			if !mutate(v[key], func(e any) { v[key] = e }, func() { delete(v, key) }, emit) {
				return false
			}
		}
	case []any:
		for i := range v {
			if !mutate(v[i], func(e any) { v[i] = e }, nil, emit) {
				return false
			}
		}
	}
	return true
}
