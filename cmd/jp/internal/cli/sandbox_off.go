package cli

import (
	"path/filepath"
	"slices"
	"strings"

	"jp/profiles"
	"jp/tools"
)

// offByUser reports whether the user's own config.toml lets the tool d run without a sandbox for a sub-agent, and returns that
// tool: leave to run is what it gives at most. It does when it defines the very same tool, what is run, with which arguments and variables, and says sandbox = "off" there. A sub-agent's
// stored config no longer tells who wrote it, and need not: a workspace or a profile that says "off" gets nothing by it, and one
// that gives the user's tool another command has another tool. A program that the workspace brings along is never meant.
func (a *app) offByUser(d tools.Definition) (own tools.Definition, ok bool) {
	if !d.Local() || d.Sandbox != tools.SandboxOff {
		return own, false
	}
	if p := d.Command.Program; strings.Contains(p, "/") && !filepath.IsAbs(p) {
		return own, false
	}
	src := a.userSources()
	src.Environ = slices.DeleteFunc(slices.Clone(src.Environ), func(e string) bool { return strings.HasPrefix(e, "JP_") }) // files only
	r, err := profiles.Resolve(src, nil, nil)
	if err != nil {
		return own, false // a broken config allows nothing
	}
	if _, ok := r.Tools[d.Name]; !ok {
		return own, false
	}
	own, err = defined(d.Name, r, nil)
	return own, err == nil && own.Sandbox == tools.SandboxOff && own.Authority() != "" && own.Authority() == d.Authority()
}
