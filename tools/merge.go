package tools

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"jp/tools/suggest"
)

// Definitions makes the definitions of all tools that config tables enable, in
// the order of their names. tables are the [conversation.tools.<name>] tables
// by name, '*' included; pos tells "file:line" of a key of one, or "", and may
// be nil; files are the tools defined in files of their own ([LoadDir]).
//
// A table with a command is a whole definition. Any other changes the one of
// its name: of files, else embedded. '*' holds where neither says anything.
// When some are broken, the others are returned beside an error that joins one for each.
func Definitions(tables map[string]map[string]any, pos func(tool, key string) string, files map[string]Definition) ([]Definition, error) {
	at := func(tool string) func(string) string {
		if pos == nil {
			return nil
		}
		return func(key string) string { return pos(tool, key) }
	}
	var out []Definition
	var all []error
	for _, name := range slices.Sorted(maps.Keys(tables)) {
		if name == "*" || !Enabled(tables[name]) {
			continue
		}
		def, err := definition(name, tables[name], at(name), files)
		if star, ok := tables["*"]; ok && err == nil {
			if def, err = def.WithDefaults(star, at("*")); err != nil {
				return nil, err // the same for each
			}
		}
		if err != nil {
			all = append(all, err)
			continue
		}
		out = append(out, def)
	}
	return out, errors.Join(all...)
}

// definition makes the definition that one table enables.
func definition(name string, table map[string]any, pos func(string) string, files map[string]Definition) (Definition, error) {
	base, known := files[name]
	if !known {
		base, known = Embedded(name)
	}
	_, hasCommand := table[keyCommand]
	_, hasSource := table[keySource]
	switch {
	case hasCommand || !known && hasSource:
		return Decode(name, table, pos)
	case known:
		return Overlay(base, table, pos)
	}
	err := newDecoder(name, table, pos).errorf("", "is not defined: no built-in tool has this name, no file in .jp/tools, and the table has no command")
	if c := suggest.Closest(name, append(slices.Collect(maps.Keys(files)), EmbeddedNames()...)); c != "" {
		err.Hint = fmt.Sprintf("did you mean %q?", c)
	}
	return Definition{}, err
}
