package tools

// KeyLines finds the line of each key in the TOML text of a definition that
// has been decoded: by dotted path, with [n] for the elements of lists.
func KeyLines(src []byte) map[string]int { return keyLines(src) }
