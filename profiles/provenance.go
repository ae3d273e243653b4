package profiles

import (
	"maps"
	"slices"

	"jp/profiles/tomldoc"
)

// Origin returns the layers that set key or something below it, in order; the last one that was not
// dropped counts. It is empty for a key that is not set, and for a text that is not a key.
func (r *Resolved) Origin(key string) []Origin {
	parts, ok := tomldoc.SplitKey(key)
	if !ok {
		return nil
	}
	var list []Origin
	for _, a := range r.applied {
		v, ok := tomldoc.Lookup(a.tree, parts)
		if !ok {
			continue
		}
		if _, isTable := v.(map[string]any); isTable {
			v = nil
		}
		list = append(list, Origin{Position: a.position(parts), Kind: a.layer.Kind, Value: tomldoc.Clone(v), Dropped: a.dropped && !r.survives(parts)})
	}
	return list
}

// WrittenAt returns where the effective value of a key was written; the zero Position if no layer
// sets it.
func (r *Resolved) WrittenAt(key string) Position {
	for _, o := range slices.Backward(r.Origin(key)) {
		if !o.Dropped {
			return o.Position
		}
	}
	return Position{}
}

// survives reports whether the value at parts stays when its layer is dropped.
func (r *Resolved) survives(parts []string) bool {
	s := r.schema
	for _, p := range parts {
		if s = s.below(p); s == nil {
			return false
		}
	}
	return s.survives()
}

func (r *Resolved) isMachine(parts []string) bool {
	row, _, _ := r.schema.find(parts)
	return row != nil && row.class == machine
}

// Keys returns every setting with its value and origin, sorted by key: all that exist, with those
// at their defaults, and the leaves of tool tables.
func (r *Resolved) Keys() []Value {
	var list []Value
	var walk func(s *schema, v any, parts []string)
	walk = func(s *schema, v any, parts []string) {
		t, isTable := v.(map[string]any)
		if !isTable || len(t) == 0 {
			list = append(list, Value{Key: tomldoc.JoinKey(parts), Value: tomldoc.Clone(v), Machine: r.isMachine(parts), Origin: r.where(parts...)})
			return
		}
		for _, k := range sortedKeys(t) {
			walk(s, t[k], append(parts[:len(parts):len(parts)], k))
		}
	}
	for _, tree := range []map[string]any{r.plain, r.machine} {
		if len(tree) > 0 {
			walk(r.schema, tree, nil)
		}
	}
	if r.paths != nil {
		list = append(list, Value{Key: "config_load_paths", Value: tomldoc.Clone(r.paths), Origin: r.where("config_load_paths")})
	}
	if r.iniName != "" {
		list = append(list, Value{Key: specializationsKey, Value: r.iniName, Origin: r.where("delegation", "specializations")})
	}
	set := map[string]bool{}
	for _, v := range list {
		set[v.Key] = true
	}
	for _, s := range Settings() {
		parts, ok := tomldoc.SplitKey(s.Key) // not those with <x>
		if row, _, _ := r.schema.find(parts); ok && !set[s.Key] && (row.class != loader || row.key == "config_load_paths" || row.key == specializationsKey) {
			list = append(list, Value{Key: s.Key, Value: s.Default, Default: true, Machine: s.Machine})
		}
	}
	slices.SortFunc(list, func(a, b Value) int { return tomldoc.CompareKeys(a.Key, b.Key) })
	return list
}

// where returns the place of the value at parts, or of the nearest table around it that somebody
// wrote; zero when nobody wrote any of it.
func (r *Resolved) where(parts ...string) Position {
	for n := len(parts); n > 0; n-- {
		for _, a := range slices.Backward(r.applied) {
			if a.dropped && !r.survives(parts) {
				continue
			}
			if _, ok := tomldoc.Lookup(a.tree, parts[:n]); ok {
				return a.position(parts[:n])
			}
		}
	}
	return Position{}
}

// tools prepares the tables of tools for their decoder.
func (r *Resolved) tools() map[string]Table {
	tools := map[string]Table{}
	v, _ := tomldoc.Lookup(r.plain, []string{"conversation", "tools"})
	t, _ := v.(map[string]any)
	for name, v := range t {
		values, ok := v.(map[string]any)
		if !ok {
			continue // conversation.tools.parallel
		}
		tools[name] = Table{Values: tomldoc.CloneTable(values), Pos: func(key string) Position {
			parts, _ := tomldoc.SplitKey(key) // nil for "": the table itself
			return r.where(append([]string{"conversation", "tools", name}, parts...)...)
		}}
	}
	return tools
}

// Cut removes every tool but '*' that held does not name, from Tools and from what Stored returns,
// and returns the removed names, sorted. nil removes all. Nothing may read the Resolved at the same
// time.
func (r *Resolved) Cut(held []string) []string {
	var removed []string
	for _, name := range slices.Sorted(maps.Keys(r.Tools)) {
		if name != "*" && !slices.Contains(held, name) {
			delete(r.Tools, name)
			for _, tree := range []map[string]any{r.plain, r.kept} {
				v, _ := tomldoc.Lookup(tree, []string{"conversation", "tools"})
				t, _ := v.(map[string]any)
				delete(t, name)
			}
			removed = append(removed, name)
		}
	}
	return removed
}
