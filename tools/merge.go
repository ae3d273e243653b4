package tools

// Define makes the definition of one tool that a [conversation.tools.<name>] table of a config
// enables. files are the tools that have files of their own ([DecodeFiles]); pos is as for
// [Decode].
//
// A table changes the embedded definition of its name, or else the one in files. A file takes the
// place of an embedded definition only where the table gives its source: the name of a tool that jp
// brings along means that tool, whatever a workspace has in its files. A table is a whole
// definition if there is no definition of its name, or if the table gives another source. The table
// '*' is applied later: see WithDefaults. All errors are *DefinitionError.
func Define(name string, table map[string]any, pos func(key string) string, files map[string]Definition) (Definition, error) {
	if base, _, found := changed(name, table, files); found {
		return Overlay(base, table, pos)
	}
	def, err := Decode(name, table, pos)
	if err == nil {
		err = checkSource(def, pos)
	}
	return def, err
}

// changed returns the definition that a table changes, and whether it is one of files.
func changed(name string, table map[string]any, files map[string]Definition) (base Definition, file, found bool) {
	source, given := table[keySource].(string)
	base, found = Embedded(name)
	if !found || given && base.Declared() != source {
		base, found = files[name]
		file = found
	}
	found = found && (!given || base.Declared() == source)
	return base, file && found, found
}

// FromFile reports whether the definition that Define makes of a table is one of files, changed by
// the table.
func FromFile(name string, table map[string]any, files map[string]Definition) bool {
	if _, ok := files[name]; !ok {
		return false
	}
	_, file, _ := changed(name, table, files)
	return file
}
