package workspace

import (
	"bufio"
	"fmt"
	"time"

	"jp/cmd/jp/internal/command"
	"jp/convstore"
	"jp/profiles"
)

// ConfigFlags are --cfg and --no-cfg: directives in the order of the command line.
func ConfigFlags(p *[]profiles.Directive) []*command.Option {
	add := func(text string) error {
		*p = append(*p, profiles.Directive{Flag: "--cfg", Text: text})
		return nil
	}
	return []*command.Option{
		command.Call("cfg", "X", "config directive: NONE, WORKSPACE, key=value, key:=json, a file, builtin:NAME or a profile's name; in order", add).
			Alias("config", "c"),
		command.Call("no-cfg", "", "the same as --cfg NONE", func(string) error { return add("NONE") }),
	}
}

// TargetFlag has an optional conversation.
func TargetFlag(p *command.Maybe[string], name, arg, usage string) *command.Option {
	return command.StringMaybe(p, name, arg, IsTarget, usage)
}

// DefaultTmp is how long a conversation lives that expires, if no time is given.
const DefaultTmp = 24 * time.Hour

// PrintIDs writes ids, one per line.
func (w *Workspace) PrintIDs(ids []convstore.ID) error {
	return w.Con.Text(func(out *bufio.Writer) error {
		for _, id := range ids {
			fmt.Fprintln(out, id)
		}
		return nil
	})
}
