package profiles

import (
	"cmp"
	"fmt"
	"strings"

	"jp/profiles/launch"
	"jp/profiles/tomldoc"
	"jp/tools/suggest"
)

// Launcher is one table of [launchers].
type Launcher = launch.Launcher

// FindLauncher returns the launcher of a name. The *Error says which there are.
func (c Config) FindLauncher(name string) (*Launcher, error) {
	if l := c.Launchers[name]; l != nil {
		return l, nil
	}
	names := sortedKeys(c.Launchers)
	hint := cmp.Or(suggest.Meant("did you mean %s?", name, names),
		fmt.Sprintf(`write a table [launchers.%s] with command = ["ssh", "-T", "HOST"] in your own config.toml`, name))
	there := cmp.Or(strings.Join(names, ", "), "none")
	return nil, &Error{Key: "launcher", Msg: fmt.Sprintf("there is no launcher %q: your config has %s", name, there), Hint: hint}
}

// RequireLauncher returns the launcher that the config names, nil if it names none. The *Error has
// the place of the name.
func (r *Resolved) RequireLauncher() (*Launcher, error) {
	if r.Config.Launcher == "" {
		return nil, nil
	}
	l, err := r.Config.FindLauncher(r.Config.Launcher)
	if e, ok := err.(*Error); ok {
		at := r.where("launcher")
		e.File, e.Line, e.Layer = at.File, at.Line, at.Layer
	}
	return l, err
}

// launchers checks the tables of [launchers], merged from all layers, and adds their defaults.
func (r *resolver) launchers() error {
	rows := table()
	for _, name := range sortedKeys(r.Config.Launchers) {
		l, at := r.Config.Launchers[name], []string{"launchers", name}
		for _, row := range rows {
			key, below := strings.CutPrefix(row.key, "launchers.<launcher>.")
			if _, ok := tomldoc.Lookup(r.machine, append(at, key)); below && !ok && row.def != nil {
				assign(row.field(&r.Config, at[1:]), row.def)
			}
		}
		if len(l.Command) == 0 {
			return r.failAt("command is missing", `write command = ["ssh", "-T", "HOST"]`, at...)
		}
		for i, line := range [][]string{l.Command, l.Stop} {
			if err := launch.CheckLine(line); err != nil {
				return r.failAt(err.Error(), "", append(at, []string{"command", "stop"}[i])...)
			}
		}
	}
	return nil
}

func launcher(field func(*Launcher) any) func(*Config, []string) any {
	return func(c *Config, names []string) any {
		if c.Launchers[names[0]] == nil {
			c.Launchers[names[0]] = &Launcher{}
		}
		return field(c.Launchers[names[0]])
	}
}
