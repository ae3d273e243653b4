package tools

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"jp/tools/proc"
)

// confine makes spec start inside what access.fs, network and sandbox of the
// tool say, where files are what it has to be able to read besides. It
// returns a refusal where that cannot be had.
func (c command) confine(spec *proc.Spec, files []string) *Result {
	if c.def.Sandbox == SandboxOff {
		if c.env.Main || c.env.AllowOff {
			return nil
		}
		return refused("sandbox = %q: for a sub-agent only the user's own config can say so", SandboxOff)
	}
	box := proc.System()
	box.TmpDir, box.Network = true, c.def.Network == NetworkAny
	box.Require = c.def.Sandbox == SandboxRequire

	enforceable := proc.Enforceable
	if c.env.Enforceable != nil {
		enforceable = c.env.Enforceable
	}
	can := enforceable()
	missing := strings.Join(box.Missing(can), ", ")
	switch {
	case box.Require && missing != "":
		return refused("sandbox = %q: this system cannot enforce %s", SandboxRequire, missing)
	case !c.env.Main && !can.Files():
		return refused("a local tool of a sub-agent needs a sandbox: this system cannot enforce %s", missing)
	case missing != "" && c.env.Notice != nil:
		c.env.Notice("local tools run with less of a sandbox than they ask for: this system cannot enforce " + missing)
	}
	for _, path := range files {
		path, err := filepath.EvalSymlinks(path)
		if err != nil {
			return refused("sandbox: %v", err)
		}
		box.Read = append(box.Read, path)
	}
	if err := c.open(&box); err != nil {
		return refused("access.fs: %v", err)
	}
	spec.Confine = &box
	return nil
}

// open adds the rules of access.fs to box.
func (c command) open(box *proc.Confine) error {
	if c.env.Dir == "" {
		if len(c.def.Access.FS) > 0 {
			return errors.New("there is no workspace")
		}
		return nil
	}
	f, err := newFiles(FSEnv{Workspace: c.env.Dir}, c.def, ReadOnly)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // nothing is open, and no program starts there
	}
	if err != nil {
		return err
	}
	for i, r := range f.rules {
		switch {
		case errors.Is(r.err, fs.ErrNotExist):
			continue // opens nothing
		case r.err != nil:
			return fmt.Errorf("%s: %w", visiblePath(r.given), r.err)
		}
		if f.ruleFor(r.path) != &f.rules[i] {
			continue // said twice: the last counts
		}
		// Nothing inside a folder that is open can be closed again.
		if over := f.writable(r.path); r.mode == ReadOnly && over != "" {
			return fmt.Errorf("%s is read-only inside %s, which is not: that cannot be enforced; name the folders that are written", f.shown(r.path), f.shown(over))
		}
		for _, dir := range c.env.Deny {
			if real, err := filepath.EvalSymlinks(dir); err == nil {
				dir = real
			}
			if within(r.path, dir) || within(dir, r.path) {
				return fmt.Errorf("%s covers %s, which no tool reaches", visiblePath(r.path), visiblePath(dir))
			}
		}
		if r.mode == ReadWrite {
			box.Write = append(box.Write, r.path)
		} else {
			box.Read = append(box.Read, r.path)
		}
	}
	return nil
}

// writable is the folder above path that a rule opens to be written, "" if none does.
func (f *files) writable(path string) string {
	for _, r := range f.rules {
		if r.err == nil && r.mode == ReadWrite && r.path != path && within(r.path, path) {
			return r.path
		}
	}
	return ""
}
