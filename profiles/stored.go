package profiles

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
)

// Stored is the canonical JSON (sorted keys, no insignificant space) of all settings that were set, machine
// and loader settings left out: what a new conversation stores. Resolving it again gives the same bytes.
func (r *Resolved) Stored() []byte { return canonical(r.plain) }

// Delta returns what turns the config old into new, both as Resolved.Stored gave them: a JSON merge patch (RFC
// 7396) in canonical form, nil when they are equal. Nil stands for an empty config. A config has no nulls, so the
// patch is exact.
func Delta(old, new []byte) (json.RawMessage, error) {
	from, err := storedTable(old)
	if err != nil {
		return nil, err
	}
	to, err := storedTable(new)
	if err != nil {
		return nil, err
	}
	patch := difference(from, to)
	if len(patch) == 0 {
		return nil, nil
	}
	return canonical(patch), nil
}

// Apply returns the stored config that delta makes of old. Nil stands for an empty config and for no change.
func Apply(old []byte, delta json.RawMessage) ([]byte, error) {
	tree, err := storedTable(old)
	if err != nil {
		return nil, err
	}
	if delta == nil {
		return canonical(tree), nil
	}
	v, err := parseJSON(delta, true)
	if err != nil {
		return nil, &Error{Layer: "config delta", Msg: err.Error(), Err: err}
	}
	patch, ok := v.(map[string]any)
	if !ok {
		return nil, &Error{Layer: "config delta", Msg: "must be a table, not " + nameKind(v)}
	}
	return canonical(patched(tree, patch)), nil
}

func storedTable(data []byte) (map[string]any, error) {
	if data == nil {
		return map[string]any{}, nil
	}
	v, err := parseJSON(data, false)
	if err != nil {
		return nil, &Error{Layer: "stored config", Msg: err.Error(), Err: err}
	}
	t, ok := v.(map[string]any)
	if !ok {
		return nil, &Error{Layer: "stored config", Msg: "must be a table, not " + nameKind(v)}
	}
	return t, nil
}

// difference is the merge patch from one table to another; nil stands for null.
func difference(from, to map[string]any) map[string]any {
	patch := map[string]any{}
	for k := range from {
		if _, stays := to[k]; !stays {
			patch[k] = nil
		}
	}
	for k, v := range to {
		was, had := from[k]
		before, wasTable := was.(map[string]any)
		after, isTable := v.(map[string]any)
		switch {
		case had && wasTable && isTable:
			if below := difference(before, after); len(below) > 0 {
				patch[k] = below
			}
		case !had || !bytes.Equal(canonical(was), canonical(v)):
			patch[k] = v
		}
	}
	return patch
}

func patched(tree, patch map[string]any) map[string]any {
	for k, v := range patch {
		switch v := v.(type) {
		case nil:
			delete(tree, k)
		case map[string]any:
			below, ok := tree[k].(map[string]any)
			if !ok {
				below = map[string]any{}
			}
			tree[k] = patched(below, v)
		default:
			tree[k] = v
		}
	}
	return tree
}

// canonical writes a tree as JSON with sorted keys. A float keeps a point or an exponent, so that it is read back as
// a float.
func canonical(v any) []byte { return appendCanonical(nil, v) }

func appendCanonical(b []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(b, "null"...)
	case bool:
		return strconv.AppendBool(b, v)
	case int64:
		return strconv.AppendInt(b, v, 10)
	case float64:
		s := strconv.FormatFloat(v, 'g', -1, 64)
		if !strings.ContainsAny(s, ".e") {
			s += ".0"
		}
		return append(b, s...)
	case []any:
		b = append(b, '[')
		for i, item := range v {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendCanonical(b, item)
		}
		return append(b, ']')
	case map[string]any:
		b = append(b, '{')
		for i, k := range sortedKeys(v) {
			if i > 0 {
				b = append(b, ',')
			}
			b = appendCanonical(b, k)
			b = append(b, ':')
			b = appendCanonical(b, v[k])
		}
		return append(b, '}')
	}
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // a string, which cannot fail
	return append(b, bytes.TrimSuffix(buf.Bytes(), []byte("\n"))...)
}
