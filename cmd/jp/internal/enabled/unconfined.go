package enabled

import (
	"path/filepath"
	"slices"
	"strings"

	"jp/cmd/jp/internal/workspace"
	"jp/profiles"
	"jp/tools"
	"jp/tools/files"
	"jp/tools/proc"
)

// OffByUser reports whether the user's own config.toml lets the tool d run without a sandbox for a
// sub-agent, and returns that tool and the path of its program. It does if it defines the same
// tool, with the same program, arguments and variables, and sandbox = "off". The tool gets the
// permissions of the user's definition at most.
//
// A sub-agent's stored config does not say who wrote it. It need not: "off" in a workspace or a
// profile has no effect, and a definition with another command is another tool. A program in the
// workspace never counts, wherever its name was found.
func OffByUser(ws *workspace.Workspace, environ []string, d tools.Definition) (own tools.Definition, program string, ok bool) {
	if !d.Local() || d.Sandbox != tools.SandboxOff {
		return own, "", false
	}
	if program, ok = outsideProgram(ws, environ, d); !ok {
		return own, "", false
	}
	src := ws.SourcesOf(nil) // a file of the workspace is not the user's word

	// Nor is a variable.
	src.Environ = slices.DeleteFunc(slices.Clone(src.Environ), func(e string) bool { return strings.HasPrefix(e, "JP_") })
	r, err := profiles.Resolve(src, nil, nil)
	if err != nil {
		return own, "", false // a broken config allows nothing
	}
	if _, ok := r.Tools[d.Name]; !ok {
		return own, "", false
	}
	own, err = Define(d.Name, r, nil)
	return own, program, err == nil && own.Sandbox == tools.SandboxOff && own.Authority() != "" && own.Authority() == d.Authority()
}

// outsideProgram returns the path of the program that d runs, by the present PATH. ok reports
// whether it is outside the workspace and reached through no link in the workspace.
func outsideProgram(w *workspace.Workspace, environ []string, d tools.Definition) (path string, ok bool) {
	path, err := proc.LookPath(d.Command.Program, proc.Environ(environ, append(proc.ToolEnv(), d.Env...)...))
	if err != nil || !filepath.IsAbs(path) {
		return "", false
	}
	ws, err := w.Root()
	if err != nil {
		return path, true // no workspace
	}
	if ws, err = filepath.EvalSymlinks(ws); err != nil {
		return "", false
	}
	// Follows every link, but refuses one in the workspace.
	real, err := files.Links{Workspace: ws, Closed: []string{"/"}}.Resolve(path)
	if err != nil {
		return "", false
	}
	in, err := filepath.Rel(ws, real)
	return path, err == nil && (in == ".." || strings.HasPrefix(in, "../"))
}
