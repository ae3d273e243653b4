package profiles

import (
	"slices"

	"jp/profiles/kinds"
	"jp/profiles/tomldoc"
)

// Brought is a value in force that files of the workspace give.
type Brought struct {
	Value
	Own any // value without them: that of the user's own config or of a variable, else the default
}

// ofWorkspace reports whether a file of the workspace gives d.
func (d *document) ofWorkspace() bool { return d.from.key() != "" }

// ofPerson reports whether d is the word of a person for one command: a variable, a flag, or a file
// that is not the workspace's.
func (d *document) ofPerson() bool {
	switch d.layer.Kind {
	case EnvLayer, AssignLayer, FlagLayer, FileLayer:
		return !d.ofWorkspace()
	}
	return false
}

// Brought returns the values in force that files of the workspace give, sorted by key, and the
// defaults that are in force because such a file drops the user's own config. Machine and loader
// settings are not among them, nor is what a stored config gives, but for tools that it disables:
// see Brings.
func (r *Resolved) Brought() []Brought {
	var list []Brought
	drops := false
	for _, a := range r.applied {
		of := a.ofWorkspace()
		if a.dropped || !of && a.layer.Kind != StoredLayer {
			continue
		}
		drops = drops || a.layer.Kind == ResetLayer
		r.leaves(a.tree, func(row *setting, parts []string) {
			v, ok := tomldoc.Lookup(r.plain, parts)
			if ok && r.giver(parts) == a && (of || row.kind == kinds.Table && a.keeps(parts[2])) {
				list = append(list, Brought{Value{Key: tomldoc.JoinKey(parts), Value: tomldoc.Clone(v), Origin: a.position(parts)}, r.own(row, parts)})
			}
		})
	}
	for _, a := range r.applied {
		if !drops || r.none || a.layer.Kind != UserLayer {
			continue
		}
		r.leaves(a.tree, func(row *setting, parts []string) {
			if _, ok := tomldoc.Lookup(r.plain, parts); !ok && row.kind != kinds.Table {
				list = append(list, Brought{Value{Key: tomldoc.JoinKey(parts), Value: row.def, Default: true}, r.own(row, parts)})
			}
		})
	}
	slices.SortStableFunc(list, func(a, b Brought) int { return tomldoc.CompareKeys(a.Key, b.Key) })
	return slices.CompactFunc(list, func(a, b Brought) bool { return a.Key == b.Key })
}

// leaves calls f for each value of a tree that is a setting of a conversation.
func (r *Resolved) leaves(tree map[string]any, f func(row *setting, parts []string)) {
	var walk func(v any, parts []string)
	walk = func(v any, parts []string) {
		if t, ok := v.(map[string]any); ok && len(t) > 0 {
			for _, k := range sortedKeys(t) {
				walk(t[k], append(parts[:len(parts):len(parts)], k))
			}
			return
		}
		if row, _, _ := r.schema.find(parts); row != nil && row.class == stored && (row.kind != kinds.Table || len(parts) > 3) {
			f(row, parts)
		}
	}
	walk(tree, nil)
}

// giver is the last layer that sets parts; nil = none.
func (r *Resolved) giver(parts []string) *applied {
	for _, a := range slices.Backward(r.applied) {
		if !a.dropped {
			if _, ok := tomldoc.Lookup(a.tree, parts); ok {
				return a
			}
		}
	}
	return nil
}

// own is the value of a setting without files of the workspace and without the command line.
func (r *Resolved) own(row *setting, parts []string) any {
	if !r.none {
		for _, a := range slices.Backward(r.applied) {
			if kind := a.layer.Kind; a.ofWorkspace() || kind != UserLayer && kind != EnvLayer {
				continue
			}
			if v, ok := tomldoc.Lookup(a.tree, parts); ok {
				return tomldoc.Clone(v)
			}
		}
	}
	if row.kind == kinds.Table { // of a tool's table
		return nil
	}
	return row.def
}

// Brings reports whether files of the workspace have a say about a tool, in its own table or
// in that of all tools. A stored config says of the tools that it enables, or gives to sub-agents,
// what was right when it was stored; of others it may say what files of the workspace said.
func (r *Resolved) Brings(tool string) bool {
	return slices.ContainsFunc(r.applied, func(a *applied) bool {
		return slices.ContainsFunc([]string{tool, "*"}, func(name string) bool {
			_, ok := a.table(name)
			return ok && (a.ofWorkspace() || a.keeps(name))
		})
	})
}

// Claims reports whether neither a file of the workspace nor a stored config alone enables a tool.
func (r *Resolved) Claims(tool string) bool {
	return slices.ContainsFunc(r.applied, func(a *applied) bool {
		table, ok := a.table(tool)
		return ok && table["enable"] != false && !a.ofWorkspace() && a.layer.Kind != StoredLayer
	})
}

// table is what a layer that counts says about a tool.
func (a *applied) table(tool string) (map[string]any, bool) {
	v, ok := tomldoc.Lookup(a.tree, []string{"conversation", "tools", tool})
	table, _ := v.(map[string]any)
	return table, ok && !a.dropped
}

// keeps reports whether a is a stored config that holds the table of a tool and gives it to nobody.
func (a *applied) keeps(tool string) bool {
	if a.layer.Kind != StoredLayer {
		return false
	}
	v, _ := tomldoc.Lookup(a.tree, []string{"delegation", "llm_query", "tools"})
	lent, _ := v.([]any)
	table, ok := a.table(tool)
	return ok && table["enable"] == false && !slices.Contains(lent, any(tool))
}

// Unflagged returns the tables of a tool and of all tools ("*") as they would be without the words
// of a person for one command: variables, flags, and files that are not the workspace's. Such a
// word stays if a file of the workspace says more about the tool afterwards: what it was meant for
// may be something else then.
func (r *Resolved) Unflagged(tool string) map[string]Table {
	last := -1
	for i, a := range r.applied {
		_, own := a.table(tool)
		_, all := a.table("*")
		if (own || all) && a.ofWorkspace() {
			last = i
		}
	}
	tools := map[string]Table{}
	for _, name := range []string{tool, "*"} {
		tree := map[string]any{}
		for i, a := range r.applied {
			if table, ok := a.table(name); ok && (i < last || !a.ofPerson()) {
				tomldoc.Merge(tree, []string{name}, table)
			}
		}
		if values, ok := tree[name].(map[string]any); ok {
			tools[name] = Table{Values: values, Pos: r.Tools[name].Pos}
		}
	}
	return tools
}
