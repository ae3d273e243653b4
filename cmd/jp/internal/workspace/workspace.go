// Package workspace is where a command works: the folder that holds .jp, its store, the session,
// and the settings of this machine. Everything is looked up when it is first asked for: a command
// that needs no workspace reads no file.
package workspace

import (
	"cmp"
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/trust"
	"jp/convstore"
	"jp/profiles"
	"jp/tools"
	"jp/tools/fs"
	"jp/tools/proc"
	"jp/tools/vanishing"
)

// Workspace is where a command works: its workspace, the store of that, and the settings of this
// machine. Everything is looked up when it is first asked for, and belongs to it. It is not for
// concurrent use, except its gate.
type Workspace struct {
	Con  *console.Console
	Gate *trust.Gate

	// Within is all that a command line of a jp inside a tool can see: there is no workspace behind
	// it. Nil for all others.
	Within *convstore.Scope

	Patience time.Duration // for the store's lock; 0 = the store's own

	// Told is what the jp which started this sub-agent found by Reads. A sub-agent reads no config
	// file.
	Told fs.Kept

	Keys []string // names of variables that hold keys, from the same

	root      string
	settings  *profiles.Config // machine settings, from the last config that was resolved
	early     *profiles.Config // those of them that were read before a config was; nil = none were
	userFiles []string         // the files of the user's own config, and what else it reads, from the same
	growing   []fs.Growing     // folders and patterns of files that its config would read too
	extended  func() []string  // files that the user's profiles extend, looked up once
	st        *convstore.Store
	vanishing atomic.Pointer[vanishing.Dir] // of the store of a run with --no-persist
	none      bool                          // the command says NONE: a broken config of the user is a warning
}

// New returns where a command with this console works.
func New(con *console.Console) *Workspace {
	w := &Workspace{Con: con}
	w.extended = sync.OnceValue(w.profilesExtend)
	w.Gate = &trust.Gate{Con: con, Root: w.Root, Records: w.trustRecords}
	con.Last = w.removeVanishing
	con.Settings = func() { _, _ = w.Machine() } // an error is that of the command, if it needs them
	return w
}

// SetDirectives records whether the directives of the command have NONE.
func (w *Workspace) SetDirectives(ds []profiles.Directive) {
	w.none = WithNone(ds)
}

// Found returns the folder that holds .jp if Root has found it, else "".
func (w *Workspace) Found() string { return w.root }

// Opened returns the store if it was asked for, else nil.
func (w *Workspace) Opened() *convstore.Store { return w.st }

// UsesNone reports whether SetDirectives has found NONE.
func (w *Workspace) UsesNone() bool { return w.none }

// Root returns the folder that holds .jp: at or above --workspace, else the working directory. The
// error for none wraps profiles.ErrNoWorkspace.
func (w *Workspace) Root() (string, error) {
	if w.Con.InTool {
		return "", ErrInTool()
	}
	if w.root == "" {
		start := w.Con.Env.Dir
		if start == "" && !w.Con.Globals.Workspace.Set {
			return "", exit.NotFoundf("working directory: it is gone")
		}
		if named := w.Con.Globals.Workspace; named.Set {
			if named.Value == "" {
				return "", exit.Usagef("--workspace: the path is empty")
			}
			start = w.Con.Abs(named.Value)
			if info, err := os.Stat(start); err != nil || !info.IsDir() {
				return "", exit.NotFoundf("workspace %s: not a folder", start)
			}
		}
		root, err := profiles.FindWorkspace(start)
		if err != nil {
			return "", err
		}
		w.root = root
	}
	return w.root, nil
}

// Config resolves the config of this workspace: the implicit layers, src.Stored if there is one, ds
// in order, then specific flags. Its warnings go to stderr.
func (w *Workspace) Config(src profiles.Sources, ds, flags []profiles.Directive) (*profiles.Resolved, error) {
	r, err := profiles.Resolve(src, ds, flags)
	if err == nil {
		err = w.heeded(ds, &r.Config)
	}
	if err != nil {
		return nil, err
	}
	w.know(r)
	for _, text := range r.Warnings {
		w.Con.Warn("%s", text)
	}
	return r, nil
}

// heeded returns an error where directives, which resolve to c, change what was read before them.
func (w *Workspace) heeded(ds []profiles.Directive, c *profiles.Config) error {
	if w.early == nil {
		return nil
	}
	for _, key := range profiles.MachineKeys(ds) {
		var was, is string
		switch key {
		case "store.path":
			was, is = w.early.Store.Path, c.Store.Path
		case "editor.cmd":
			was, is = w.early.Editor.Cmd, c.Editor.Cmd
		case "conversation.default":
			was, is = w.early.Conversation.Default, c.Conversation.Default
		}
		if was != is {
			return exit.Usagef("--cfg: %s is read before it", key).WithHint("set it in your config.toml: `jp config set --user %s=...`", key)
		}
	}
	return nil
}

// know stores what r says about this machine.
func (w *Workspace) know(r *profiles.Resolved) {
	w.Con.LogDefault, w.Con.PagerDefault = r.Config.Log.File, r.Config.Pager.Cmd
	w.settings, w.userFiles, w.growing = &r.Config, slices.Concat(r.UserReads, w.Told.Sealed), slices.Clone(w.Told.Growing)
	w.extended = sync.OnceValue(w.profilesExtend)
	for _, pattern := range r.UserPatterns {
		w.growing = append(w.growing, fs.Growing{Dir: pattern.Dir, Match: pattern.Match})
	}
}

// Machine returns the settings of this machine alone. They never come from a workspace, so a broken
// workspace does not keep anybody from their conversations.
func (w *Workspace) Machine() (*profiles.Config, error) {
	if w.Con.InTool {
		return nil, ErrInTool()
	}
	if w.settings == nil {
		src := w.UserSources()
		var ds []profiles.Directive
		if w.none {
			ds = []profiles.Directive{{Flag: "--cfg", Text: "NONE"}}
		}
		r, err := profiles.Resolve(src, ds, nil)
		if err != nil {
			return nil, err
		}
		w.know(r)
		w.early = w.settings
	}
	return w.settings, nil
}

// Store returns the workspace's store. Nothing is opened or made before it is used.
func (w *Workspace) Store(context.Context) (*convstore.Store, error) {
	if w.Con.InTool {
		return nil, ErrInTool()
	}
	if w.Gate.Delegated {
		return nil, errors.New("a sub-agent has no store")
	}
	if w.st != nil {
		return w.st, nil
	}
	root, err := w.Root()
	if err != nil {
		return nil, err
	}
	st, err := w.storeOf(root)
	if err != nil {
		return nil, err
	}
	w.st = st
	return st, nil
}

// FindStore finds out where the store is, so that Kept has its folder.
func (w *Workspace) FindStore(ctx context.Context) error {
	if w.callersStore() != "" {
		return nil
	}
	_, err := w.Store(ctx)
	return err
}

// storeOf returns the store of the workspace at root.
func (w *Workspace) storeOf(root string) (*convstore.Store, error) {
	env := convstore.Env{Get: w.Con.Getenv, Notice: func(s string) { w.Con.Note("%s", s) }}
	if w.Con.Getenv("JP_STORE") == "" {
		// With JP_STORE the user's config is not needed, and so a mistake in it does no harm.
		m, err := w.Machine()
		if err != nil {
			return nil, err
		}
		env.Override = m.Store.Path
	}
	dir, err := convstore.Locate(env, root)
	if err != nil {
		return nil, err
	}
	return convstore.Open(dir, convstore.Options{ReadOnly: w.Con.Globals.NoPersist, Deadline: w.Patience, Notice: env.Notice, Workspace: root})
}

// Persist refuses a command that only writes, with --no-persist.
func (w *Workspace) Persist(command string) error {
	if w.Con.Globals.NoPersist {
		return exit.Usagef("%s: does nothing with --no-persist", command)
	}
	return nil
}

// Sources returns the sources of config for a command line with these directives. The workspace is
// one of them only behind the gate. With NONE, which by itself loads nothing of a workspace, an
// untrusted one is left out without a question.
func (w *Workspace) Sources(ctx context.Context, ds []profiles.Directive) (profiles.Sources, error) {
	if WithNone(ds) {
		return w.SourcesOf(w.Gate.PassUnasked(ctx)), nil
	}
	files, err := w.Gate.Pass(ctx)
	src := w.SourcesOf(files)
	if err != nil {
		return src, err
	}
	src.Instructions = files.Instructions()
	return src, nil
}

// WithNone reports whether NONE is among the directives.
func WithNone(ds []profiles.Directive) bool {
	return slices.ContainsFunc(ds, func(d profiles.Directive) bool { return d.Text == "NONE" })
}

// UnderNone returns the directives that load one profile and nothing else.
func UnderNone(arg string) []profiles.Directive {
	ds := []profiles.Directive{{Flag: "--cfg", Text: "NONE"}}
	if arg != "" {
		ds = append(ds, profiles.Directive{Flag: "--cfg", Text: arg})
	}
	return ds
}

// SourcesOf are the sources of config with these files of a workspace, which need not be the
// command's. With nil nothing of the workspace is read, whoever names it.
func (w *Workspace) SourcesOf(files *trust.Files) profiles.Sources {
	src := w.UserSources()
	if files != nil {
		src.Workspace, src.Files = files.Root, files.FS()
	} else {
		src.Workspace, _ = w.Root() // without a workspace there is nothing to keep from anybody
	}
	return src
}

// UserSources are the sources outside of any workspace. A file of a workspace that the user's own
// config extends is the user's word with them.
func (w *Workspace) UserSources() profiles.Sources {
	return profiles.Sources{
		UserDir: profiles.UserDir(w.Con.Env.Environ), Dir: cmp.Or(w.Con.Env.Dir, w.root), Environ: w.Con.Env.Environ,
		Reserved: tools.EmbeddedNames(), NearModel: model.Near,
	}
}

// StoredSources are the sources of the config of a sub-agent, which is all in what its owner stored.
// No config file is read, which may be changed and wrong meanwhile, or be that of another machine; nor
// a variable, which may say only a part of what such a file says.
func (w *Workspace) StoredSources(stored []byte) profiles.Sources {
	src := w.UserSources()
	src.UserDir, src.Stored, src.Environ = "", stored, proc.Environ(src.Environ, "HOME")
	return src
}

// trustRecords is the folder of the trust record for the workspace at root: that of its store.
func (w *Workspace) trustRecords(ctx context.Context, root string) (dir string, err error) {
	var st *convstore.Store
	if dir := w.callersStore(); dir != "" && root == w.root {
		return dir, nil
	}
	if root == w.root {
		st, err = w.Store(ctx)
	} else {
		st, err = w.storeOf(root)
	}
	if err != nil {
		return "", err
	}
	return filepath.Dir(st.Path()), nil
}

// callersStore returns the folder of the store that the jp which started this sub-agent has; "" =
// this process is no sub-agent. A sub-agent opens no store. It keeps that folder from its tools.
func (w *Workspace) callersStore() string {
	if !w.Gate.Delegated {
		return ""
	}
	return w.Con.Getenv("JP_STORE")
}

// ErrInTool is the error for something that a guest does not have. The list of verbs and flags lets
// no command get here.
func ErrInTool() error { return exit.Refusedf("a jp inside a tool has no workspace, store or config") }

// Relative shortens a path inside the workspace.
func (w *Workspace) Relative(place string) string {
	if root := w.Found(); root != "" {
		if rest, ok := strings.CutPrefix(place, root+string(filepath.Separator)); ok {
			return rest
		}
	}
	return place
}
