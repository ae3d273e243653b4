package tools

// Define makes the definition of one tool that a [conversation.tools.<name>] table of a config enables. files are the tools that
// are defined in files of their own ([DecodeFiles]); pos is as for [Decode].
//
// A table changes the definition of its name, of files, else embedded. One that gives another source than that has, or the name
// of none, is a whole definition. What the table '*' says comes after: see WithDefaults. All errors are *DefinitionError.
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
