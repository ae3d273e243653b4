package profiles

import "slices"

// set puts a value at parts of a merged tree: tables merge, all else is replaced. The tree keeps nothing of v.
func set(tree map[string]any, parts []string, v any) {
	for _, p := range parts[:len(parts)-1] {
		next, ok := tree[p].(map[string]any)
		if !ok {
			next = map[string]any{}
			tree[p] = next
		}
		tree = next
	}
	last := parts[len(parts)-1]
	over, isTable := v.(map[string]any)
	under, wasTable := tree[last].(map[string]any)
	if !isTable || !wasTable {
		tree[last] = clone(v)
		return
	}
	// Only the tables of tools come here. A command is one thing: its program is not mixed with arguments that
	// another file meant for another program.
	for k, v := range over {
		if k == "command" {
			under[k] = clone(v)
		} else {
			set(under, []string{k}, v)
		}
	}
}

func lookup(tree map[string]any, parts []string) (any, bool) {
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

func clone(v any) any {
	switch v := v.(type) {
	case map[string]any:
		return cloneTable(v)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = clone(v[i])
		}
		return out
	}
	return v
}

func cloneTable(t map[string]any) map[string]any {
	out := make(map[string]any, len(t))
	for k, v := range t {
		out[k] = clone(v)
	}
	return out
}

// compareKeys orders dotted keys so that what is below a key follows it.
func compareKeys(a, b string) int {
	x, _ := splitKey(a)
	y, _ := splitKey(b)
	return slices.Compare(x, y)
}
