package cli

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"

	"jp/cmd/jp/internal/exit"
	"jp/convstore"
	"jp/profiles"
	"jp/tools"
	"jp/tools/fs"
)

// places is what was found out about where jp works. Everything is looked up when it is first asked for.
type places struct {
	workspace string
	machine   *profiles.Config // machine settings, from the last config that was resolved
	userFiles []string         // the files of the user's own config and folders of its profiles, from the same
	growing   []fs.Growing     // where its patterns look for more files
	store     *convstore.Store
	vanishing atomic.Pointer[vanishingDir] // of the store of a run with --no-persist
	none      bool                         // the command says NONE: a broken config of the user's is a warning
}

// reset notes whether the directives of the command hold NONE.
func (p *places) reset(ds []profiles.Directive) {
	p.none = slices.ContainsFunc(ds, func(d profiles.Directive) bool { return d.Text == "NONE" })
}

// workspace returns the folder that holds .jp: at or above --workspace, else the working directory. The error for none wraps
// profiles.ErrNoWorkspace.
func (a *app) workspace() (string, error) {
	if a.guest != nil {
		return "", errGuest()
	}
	if a.places.workspace == "" {
		start := a.con.Env.Dir
		if start == "" && !a.con.Globals.Workspace.Set {
			return "", exit.NotFoundf("working directory: it is gone")
		}
		if w := a.con.Globals.Workspace; w.Set {
			if w.Value == "" {
				return "", exit.Usagef("--workspace: the path is empty")
			}
			start = a.con.Abs(w.Value)
			if info, err := os.Stat(start); err != nil || !info.IsDir() {
				return "", exit.NotFoundf("workspace %s: not a folder", start)
			}
		}
		root, err := profiles.FindWorkspace(start)
		if err != nil {
			return "", err
		}
		a.places.workspace = root
	}
	return a.places.workspace, nil
}

// config resolves the config of this workspace: the implicit layers, src.Stored if there is one, ds in order, then specific
// flags. Its warnings go to stderr.
func (a *app) config(src profiles.Sources, ds, flags []profiles.Directive) (*profiles.Resolved, error) {
	r, err := a.resolve(src, ds, flags)
	if err != nil {
		return nil, err
	}
	a.know(r)
	for _, w := range r.Warnings {
		a.con.Warn("%s", w)
	}
	return r, nil
}

// know keeps what r says about this machine.
func (a *app) know(r *profiles.Resolved) {
	p := &a.places
	a.con.LogDefault = r.Config.Log.File
	p.machine, p.userFiles, p.growing = &r.Config, slices.Clone(r.UserFolders), nil
	for _, pattern := range r.UserPatterns {
		p.growing = append(p.growing, fs.Growing{Dir: pattern.Dir, Match: pattern.Match})
	}
	for _, l := range r.Layers {
		if l.Kind == profiles.UserLayer && filepath.IsAbs(l.File) {
			p.userFiles = append(p.userFiles, l.File)
		}
	}
}

// machine returns the settings of this machine alone. They never come from a workspace, so a broken one does not keep
// anybody from their conversations.
func (a *app) machine() (*profiles.Config, error) {
	if a.guest != nil {
		return nil, errGuest()
	}
	if a.places.machine == nil {
		src := a.userSources()
		var ds []profiles.Directive
		if a.places.none {
			ds = []profiles.Directive{{Flag: "--cfg", Text: "NONE"}}
		}
		r, err := profiles.Resolve(src, ds, nil)
		if err != nil {
			return nil, err
		}
		a.know(r)
	}
	return a.places.machine, nil
}

// store returns the workspace's store. Nothing is opened or made before it is used.
func (a *app) store(context.Context) (*convstore.Store, error) {
	if a.guest != nil {
		return nil, errGuest()
	}
	if a.places.store != nil {
		return a.places.store, nil
	}
	root, err := a.workspace()
	if err != nil {
		return nil, err
	}
	st, err := a.storeOf(root)
	if err != nil {
		return nil, err
	}
	a.places.store = st
	return st, nil
}

// storeOf returns the store of the workspace at root.
func (a *app) storeOf(root string) (*convstore.Store, error) {
	env := convstore.Env{Get: a.con.Getenv, Notice: func(s string) { a.con.Note("%s", s) }}
	if a.con.Getenv("JP_STORE") == "" {
		// With JP_STORE the user's config is not needed, and a child of a run must not stumble over it.
		m, err := a.machine()
		if err != nil {
			return nil, err
		}
		env.Override = m.Store.Path
	}
	dir, err := convstore.Locate(env, root)
	if err != nil {
		return nil, err
	}
	return convstore.Open(dir, convstore.Options{ReadOnly: a.con.Globals.NoPersist, Deadline: a.patience, Patient: a.subagent, Notice: env.Notice, Workspace: root})
}

// persist refuses a command that does nothing but write when writing was ruled out.
func (a *app) persist(command string) error {
	if a.con.Globals.NoPersist {
		return exit.Usagef("%s: --no-persist leaves nothing to do", command)
	}
	return nil
}

// sources says where config comes from for a command line with these directives. The workspace is part of it only behind the
// gate. With NONE, which loads nothing of a workspace by itself, an untrusted one is left out without a question.
func (a *app) sources(ctx context.Context, ds []profiles.Directive) (profiles.Sources, error) {
	src := a.userSources()
	if withNone(ds) {
		if a.trust.PassUnasked(ctx) != nil {
			src.Workspace = a.places.workspace
		}
		return src, nil
	}
	files, err := a.trust.Pass(ctx)
	if err != nil {
		return src, err
	}
	src.Workspace = a.places.workspace
	src.Instructions = files.Instructions()
	return src, nil
}

func withNone(ds []profiles.Directive) bool {
	for _, d := range ds {
		if d.Text == "NONE" {
			return true
		}
	}
	return false
}

// userSources is everything but the workspace.
func (a *app) userSources() profiles.Sources {
	return profiles.Sources{
		UserDir: profiles.UserDir(a.con.Env.Environ), Dir: cmp.Or(a.con.Env.Dir, a.places.workspace), Environ: a.con.Env.Environ,
		Reserved: tools.EmbeddedNames(), NearModel: nearModel,
	}
}

// resolve is profiles.Resolve, held to what passed the gate: a file of .jp that was exchanged since, or that never passed, is
// refused.
func (a *app) resolve(src profiles.Sources, ds, flags []profiles.Directive) (*profiles.Resolved, error) {
	r, err := profiles.Resolve(src, ds, flags)
	if err != nil {
		return nil, err
	}
	return r, a.trust.Hold(a.places.workspace, r, a.trust.Passed())
}

// trustRecords is the folder of the records of trust for the workspace at root: that of its store.
func (a *app) trustRecords(ctx context.Context, root string) (dir string, err error) {
	var st *convstore.Store
	if root == a.places.workspace {
		st, err = a.store(ctx)
	} else {
		st, err = a.storeOf(root)
	}
	if err != nil {
		return "", err
	}
	return filepath.Dir(st.Path()), nil
}
