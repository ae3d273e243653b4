package workspace

import (
	"maps"
	"os"
	"path/filepath"
	"slices"

	"jp/tools"
	"jp/tools/proc"
)

// CommandEnv is what local tools run in. extra joins what their templates may name. A nil host
// starts nothing.
func (w *Workspace) CommandEnv(host *proc.Host, extra map[string]any) tools.CommandEnv {
	ws, _ := w.Root()
	context := map[string]any{"workspace": ws, "action": "run", "conversation_id": ""}
	maps.Copy(context, extra)
	secrets := w.Keys
	if m, err := w.Machine(); err == nil {
		secrets = slices.Concat(secrets, m.Providers.Keys())
	}
	return tools.CommandEnv{
		Host: host, Dir: ws, Environ: w.Con.Env.Environ, Context: context, Secrets: secrets,
		Notice: tools.Once(func(text string) { w.Con.Warn("%s", text) }), Kept: w.Kept(), Program: OwnProgram(),
	}
}

// OwnProgram is the file of this program, "" when it is unknown.
func OwnProgram() string {
	program, err := os.Executable()
	if err == nil {
		program, err = filepath.EvalSymlinks(program)
	}
	if err != nil {
		return ""
	}
	return program
}
