package template

import "fmt"

// ArgumentOf returns the parameter that a value comes from, "" if from none. p may be nil.
func ArgumentOf(p *Path) string {
	if p != nil && len(p.Keys) >= 3 && p.Keys[0] == "tool" && p.Keys[1] == "arguments" {
		return p.Keys[2]
	}
	return ""
}

// LastKey is what a message calls a value. p is nil for literal text, which can
// not be wrong: it was checked when it was read.
func LastKey(p *Path) string {
	if p == nil {
		return ""
	}
	return p.Keys[len(p.Keys)-1]
}

// ValueError is an argument value that a command cannot take. It is the
// model's mistake, not the author's.
type ValueError struct {
	Argument string
	Msg      string
}

func (e *ValueError) Error() string { return fmt.Sprintf("argument %q %s", e.Argument, e.Msg) }
