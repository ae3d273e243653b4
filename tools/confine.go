package tools

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"jp/tools/environ"
	"jp/tools/fs"
	"jp/tools/proc"
)

// confine changes spec so that it starts with only what access.fs, network and sandbox of the tool
// allow; files are further files that it must be able to read. It returns a refusal where the
// system cannot do that.
func (c command) confine(spec *proc.Spec, files []string) *Result {
	if c.def.Sandbox == SandboxOff {
		if c.env.Main || c.env.AllowOff {
			return nil
		}
		return refused("sandbox = %q: for a sub-agent only the user's own config can say so", SandboxOff)
	}
	box, can, err := c.env.Box(c.def)
	if err != nil {
		return refused("%v", err)
	}
	missing := strings.Join(box.Missing(can), ", ")
	switch {
	case !c.env.Main && !can.Files():
		return refused("a local tool of a sub-agent needs a sandbox: this system cannot enforce %s", missing)
	case missing != "" && c.env.Notice != nil:
		c.env.Notice("local tools run with less of a sandbox than they ask for: this system cannot enforce " + missing)
	}
	box.Read = append(box.Read, files...)
	spec.Confine = box
	return nil
}

// Box returns the confinement of a program by access.fs and network of def, as far as this system
// can enforce it. The sandbox mode of def counts only if it is "require". Of env, the fields Dir,
// Environ, Kept, Enforceable and Program count. The error says why there is no such confinement.
func (env CommandEnv) Box(def Definition) (*proc.Confine, proc.Report, error) {
	box := proc.System()
	exec, err := env.systemOnly(box.Exec)
	if err != nil {
		return nil, proc.Report{}, fmt.Errorf("sandbox: %w", err)
	}
	box.Exec = exec
	box.TmpDir, box.Network = true, def.Network == NetworkAny
	box.Require = def.Sandbox == SandboxRequire
	enforceable := proc.Enforceable
	if env.Enforceable != nil {
		enforceable = env.Enforceable
	}
	can := enforceable()
	if missing := box.Missing(can); box.Require && len(missing) > 0 {
		return nil, can, fmt.Errorf("sandbox = %q: this system cannot enforce %s", SandboxRequire, strings.Join(missing, ", "))
	}
	if env.Program != "" {
		box.Programs = append(box.Programs, env.Program)
	}
	if err := env.open(def, &box); err != nil {
		return nil, can, fmt.Errorf("access.fs: %w", err)
	}
	return &box, can, nil
}

// systemOnly returns those of dirs that belong to the system.
func (env CommandEnv) systemOnly(dirs []string) ([]string, error) {
	return fs.SystemOnly(dirs, slices.Concat(env.Deny, env.Elsewhere), environ.Value(env.Environ, "HOME"))
}

// rulesFor returns the rules of a tool that names no other files than given.
func rulesFor(given []fs.Rule) []fs.Rule {
	if given == nil {
		return []fs.Rule{{Path: ".", Mode: fs.ReadOnly}}
	}
	return given
}

// files returns what def opens in the workspace.
func (env CommandEnv) files(def Definition) (*fs.Files, error) {
	return fs.Open(fs.Env{Workspace: env.Dir, Kept: env.Kept}, rulesFor(def.Access.FS))
}

// CheckAccess says why no sandbox can be made of access.fs of def, which is a local tool. Of env,
// the same fields count as for [CommandEnv.Box].
func (env CommandEnv) CheckAccess(def Definition) error { return env.open(def, &proc.Confine{}) }

// open adds the rules of access.fs of def to box.
func (env CommandEnv) open(def Definition, box *proc.Confine) error {
	if env.Dir == "" {
		if len(def.Access.FS) > 0 {
			return errors.New("there is no workspace")
		}
		return nil
	}
	f, err := env.files(def)
	if errors.Is(err, os.ErrNotExist) {
		return nil // nothing is open, and no program starts there
	}
	if err != nil {
		return err
	}
	return f.Confine(box, environ.Value(env.Environ, "HOME"))
}

// noneAtTop explains a failure that surprises authors of tools: what a workspace that is open for
// writing still denies at its top.
const noneAtTop = "the sandbox lets nothing be made, renamed or removed in the workspace's top folder itself: name the folders that are written in access.fs"

// deniedAtTop reports whether a tool that wrote stderr may have met what noneAtTop explains.
func (c command) deniedAtTop(stderr string) bool {
	low := strings.ToLower(stderr)
	if c.def.Sandbox == SandboxOff || c.env.Dir == "" || !strings.Contains(low, "permission denied") && !strings.Contains(low, "eacces") {
		return false
	}
	f, err := c.env.files(c.def)
	return err == nil && f.OpensPart()
}

// OpensWhole reports whether the rules of d open the whole folder workspace for writing, .jp
// included. The path is absolute; see opensWhole.
func (d Definition) OpensWhole(workspace string) bool {
	f, err := fs.Open(fs.Env{Workspace: workspace}, rulesFor(d.Access.FS))
	return err == nil && f.OpensAll()
}
