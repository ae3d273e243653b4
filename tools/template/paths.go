package template

import "fmt"

// ArgumentOf returns the parameter that a value comes from, "" if it comes from none. p may be nil.
func ArgumentOf(p *Path) string {
	if p != nil && len(p.Keys) >= 3 && p.Keys[0] == "tool" && p.Keys[1] == "arguments" {
		return p.Keys[2]
	}
	return ""
}

// LastKey is the name of a value in messages. p is nil for literal text, which cannot be wrong: it
// was checked when it was parsed.
func LastKey(p *Path) string {
	if p == nil {
		return ""
	}
	return p.Keys[len(p.Keys)-1]
}

// ValueError is the error for an argument value that a command cannot take. It is a mistake of the
// model, not of the author.
type ValueError struct {
	Argument string
	Msg      string
}

func (e *ValueError) Error() string { return fmt.Sprintf("argument %q %s", e.Argument, e.Msg) }
