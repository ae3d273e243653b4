// Package delta has stored configs of conversations as tables, and what turns one into another.
package delta

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"

	"jp/profiles/fault"
	"jp/profiles/kinds"
	"jp/profiles/tomldoc"
)

// Between returns what turns the config old into new, both as profiles.Resolved.Stored has returned them: a
// JSON merge patch (RFC 7396) in canonical form, nil when they are equal. A nil config is an empty
// one. A config has no nulls, so the patch is exact.
func Between(old, new []byte) (json.RawMessage, error) {
	from, err := Table(old)
	if err != nil {
		return nil, err
	}
	to, err := Table(new)
	if err != nil {
		return nil, err
	}
	patch := difference(from, to)
	if len(patch) == 0 {
		return nil, nil
	}
	return tomldoc.Canonical(patch), nil
}

// Table returns a stored config as a table. A nil config is an empty one. The error is a
// *fault.Error.
func Table(data []byte) (map[string]any, error) {
	if data == nil {
		return map[string]any{}, nil
	}
	v, err := tomldoc.ParseJSON(data, false)
	if err != nil {
		return nil, &fault.Error{Layer: "stored config", Msg: err.Error(), Err: err}
	}
	t, ok := v.(map[string]any)
	if !ok {
		return nil, &fault.Error{Layer: "stored config", Msg: "must be a table, not " + kinds.NameOf(v)}
	}
	return t, nil
}

// Settings lists the settings in a patch of Between in the order of their keys, as --cfg writes them. A
// value that is longer than a line is left out. One that is gone is named.
func Settings(patch json.RawMessage) []string {
	const line = 60
	v, err := tomldoc.ParseJSON(patch, true)
	table, ok := v.(map[string]any)
	if err != nil || !ok {
		return nil
	}
	var list []string
	var walk func(prefix string, at map[string]any)
	walk = func(prefix string, at map[string]any) {
		for _, k := range slices.Sorted(maps.Keys(at)) {
			key := prefix + tomldoc.JoinKey([]string{k})
			if below, ok := at[k].(map[string]any); ok && len(below) > 0 {
				walk(key+".", below)
				continue
			}
			text, isText := at[k].(string)
			if at[k] == nil {
				key = "without " + key
			} else if value := ":=" + string(tomldoc.Canonical(at[k])); isText && len(text) < line {
				key += "=" + text
			} else if len(value) < line {
				key += value
			}
			list = append(list, key)
		}
	}
	walk("", table)
	return list
}

// ModelBack returns the patch that gives the config after the model of the config before, and the
// config that comes of it. The patch is nil if the model is the same, or before has none.
func ModelBack(before, after []byte) (patch json.RawMessage, config []byte, err error) {
	model := []string{"assistant", "model"}
	from, err := Table(before)
	if err != nil {
		return nil, nil, err
	}
	to, err := Table(after)
	if err != nil {
		return nil, nil, err
	}
	was, had := tomldoc.Lookup(from, model)
	if is, _ := tomldoc.Lookup(to, model); !had || bytes.Equal(tomldoc.Canonical(was), tomldoc.Canonical(is)) {
		return nil, nil, nil
	}
	tomldoc.Merge(to, model, was)
	back := map[string]any{}
	tomldoc.Merge(back, model, was)
	return tomldoc.Canonical(back), tomldoc.Canonical(to), nil
}

// difference is the merge patch from one table to another; nil is its null.
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
		case !had || !bytes.Equal(tomldoc.Canonical(was), tomldoc.Canonical(v)):
			patch[k] = v
		}
	}
	return patch
}
