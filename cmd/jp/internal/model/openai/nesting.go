package openai

// nesting follows a JSON value that comes in pieces. To parse all of it again at each piece takes
// the square of its length.
type nesting struct {
	depth         int
	text, escaped bool // within a string; after its backslash
	begun         bool
}

func (n *nesting) take(piece string) {
	for i := range len(piece) {
		b := piece[i]
		n.begun = n.begun || b > ' '
		switch {
		case n.escaped:
			n.escaped = false
		case b == '\\':
			n.escaped = n.text
		case b == '"':
			n.text = !n.text
		case n.text:
		case b == '{', b == '[':
			n.depth++
		case b == '}', b == ']':
			n.depth--
		}
	}
}

// complete reports whether nothing that follows can belong to the value, if it is JSON.
func (n *nesting) complete() bool { return n.begun && !n.text && n.depth <= 0 }
