package tools

// Define makes the definition of one tool that a [conversation.tools.<name>] table of a config
// enables. files are the tools that have files of their own ([DecodeFiles]); pos is as for
// [Decode].
//
// A table changes the definition of the same name in files, or else the embedded one. A table is a
// whole definition if there is no such definition, or if the table gives another source. The table
// '*' is applied later: see WithDefaults. All errors are *DefinitionError.
func Define(name string, table map[string]any, pos func(key string) string, files map[string]Definition) (Definition, error) {
	source, given := table[keySource].(string)
	base, known := files[name]
	if !known || given && base.Declared() != source {
		base, known = Embedded(name)
	}
	if known && (!given || base.Declared() == source) {
		return Overlay(base, table, pos)
	}
	def, err := Decode(name, table, pos)
	if err == nil {
		err = CheckSource(def, pos)
	}
	return def, err
}
