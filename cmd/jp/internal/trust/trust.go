// Package trust is the gate before everything that a workspace brings along.
//
// A workspace is code: its config names models, gives tools commands and lets them run unattended.
// Until a person has trusted it, in its present state, nothing of it is loaded. A Gate is the only
// way to its bytes. It returns Files, whose content was read while it was checked. Package profiles
// reads a workspace through Files.FS and in no other way, so what is resolved is what was trusted,
// whatever has become of the files since. Nothing outside of this package opens a file in the .jp
// of a workspace, but for those that write one for a person; a test of package main names them.
package trust

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/wording"
	"jp/tools"
	"jp/tools/brief"
)

// Gate is the way to the files of one workspace. It remembers what has passed, so that nobody is
// asked twice. Its exported fields are set before it is used; then it is safe for concurrent use.
type Gate struct {
	Con *console.Console

	// Root finds the workspace. Records returns the folder of the trust record for the workspace at
	// root.
	Root    func() (string, error)
	Records func(ctx context.Context, root string) (string, error)

	// Page is what a person sees who is asked for trust: its text, laid out for width columns, and
	// what it shows. Nil shows nothing.
	Page pageFunc

	// Diff is what such a person sees of the changes since the last trust. Nil shows nothing.
	Diff func(ctx context.Context, j Judgement, width int) (string, error)

	Delegated bool // process of a sub-agent, whose caller has passed the gate and has the store: see Tools
	TakesNone bool // the refused command would run with --cfg NONE

	mu     sync.Mutex
	passed *Files // nil = nothing did
	shown  *Shown // what was shown of passed; nil = all of it may run
	state  string // state of the workspace, see Judgement.state
	err    error  // the refusal
}

// Judgement is what is known of a workspace's trust.
type Judgement struct {
	Files   *Files
	Record  *Record  // nil = never trusted
	Changes []Change // differences from the record
	Path    string   // of the record
	real    string   // canonical path of the workspace
	env     bool     // JP_TRUST_WORKSPACE says to trust it
	none    bool     // the refused command would run with --cfg NONE
	said    string   // what JP_TRUST_WORKSPACE says in place of 1
}

// OK reports whether the workspace may be loaded. A workspace that brings nothing along needs no
// trust.
func (j Judgement) OK() bool {
	return j.env || j.Record != nil && j.Record.Shown != nil && len(j.Changes) == 0 || len(j.Files.Stamps) == 0
}

// shown is what was shown of a workspace that may be loaded; nil = all of it may run, because a
// variable says so, or there is nothing.
func (j Judgement) shown() *Shown {
	if j.env || j.Record == nil || len(j.Files.Stamps) == 0 {
		return nil
	}
	return j.Record.Shown
}

// state names the state of the record that a workspace has that may be loaded; "" = none.
func (j Judgement) state() string {
	if j.shown() == nil {
		return ""
	}
	return digest(j.Record.Files)
}

// Status is OK in words.
func (j Judgement) Status() string {
	switch {
	case j.OK():
		return "trusted"
	case j.Record != nil:
		return "changed"
	}
	return "untrusted"
}

// Judge compares the workspace with its record. It asks nobody.
func (g *Gate) Judge(ctx context.Context, root string) (Judgement, error) {
	j := Judgement{env: g.ByEnv(), none: g.TakesNone, said: g.Con.Getenv(Variable)}
	if err := j.fit(root); err != nil {
		return j, err
	}
	var err error
	if j.Files, err = look(root); err != nil {
		return j, err
	}
	if j.Path, j.real, err = g.RecordPath(ctx, root); err != nil {
		if j.env {
			return j, nil // without a home there is no record, and none is needed
		}
		return j, err
	}
	var complaint string
	if j.Record, complaint = readRecord(j.Path, j.real); complaint != "" {
		g.Con.Warn("%s", complaint)
	}
	trusted := map[string]string{}
	if j.Record != nil {
		j.Record = j.Record.at(j.Files.Stamps)
		trusted = j.Record.trusted(j.Files.Stamps)
	}
	j.Changes = Changes(trusted, j.Files.Stamps)
	return j, nil
}

// Variable is the variable that replaces the question. It is 1 for CI, where a checkout is trusted
// as it is. none keeps jp away from the workspace's files without a question: the sub-agents of a
// run that works without them get it. Other sub-agents get the digest of the state that their
// caller uses. Of all states in the record only that one counts for them.
const Variable = "JP_TRUST_WORKSPACE"

func (g *Gate) ByEnv() bool { return g.Con.Getenv(Variable) == "1" }

func (g *Gate) WithheldByEnv() bool { return g.Con.Getenv(Variable) == "none" }

// ForChild returns Variable with its value for a sub-agent; "" = it has nothing to say, because the
// workspace brings nothing along.
func (g *Gate) ForChild() string {
	switch {
	case g.ByEnv():
		return Variable + "=1"
	case g.Withheld():
		return Variable + "=none"
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return wording.Either(g.state == "", "", Variable+"="+g.state)
}

// Withheld reports whether no file of the workspace may be used: none has passed. A delegated run
// uses what its caller has passed.
func (g *Gate) Withheld() bool { return g.WithheldByEnv() || g.Passed() == nil && !g.Delegated }

// fit refuses a .jp that does not belong to the user: one that someone else made in a folder above,
// such as /tmp, or a link to that of another workspace. root may work in checkouts of others where
// JP_TRUST_WORKSPACE says so, as containers do.
func (j Judgement) fit(root string) error {
	jp := filepath.Join(root, ".jp")
	info, err := os.Lstat(jp)
	if err != nil {
		return fmt.Errorf("workspace %s: %w", root, err)
	}
	refuse := func(format string, args ...any) error {
		return exit.Refusedf("workspace %s: cannot be trusted: %s", root, fmt.Sprintf(format, args...))
	}
	me := os.Geteuid()
	switch {
	case info.Mode()&os.ModeSymlink != 0:
		return refuse(".jp is a symbolic link")
	case owner(info) != me && !(me == 0 && j.env):
		return refuse(".jp belongs to someone else (user %d)", owner(info))
	case info.Mode().Perm()&0o002 != 0:
		return refuse("everyone may write to .jp (mode %04o)", info.Mode().Perm())
	}
	return nil
}

// Pass is the gate. On a terminal it shows what an untrusted or changed workspace would allow, and
// asks; otherwise it refuses.
func (g *Gate) Pass(ctx context.Context) (*Files, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.passed != nil || g.err != nil {
		return g.passed, g.err
	}
	root, err := g.Root()
	if err != nil {
		return nil, err
	}
	j, err := g.Judge(ctx, root)
	if err == nil && !j.OK() {
		j, err = g.again(ctx, root, j)
	}
	if err == nil && g.WithheldByEnv() {
		err = (&exit.Error{Code: "untrusted", Status: exit.Refused, Msg: fmt.Sprintf("workspace %s: not used: %s=none", root, Variable)}).
			WithHint("unset %s%s", Variable, wording.Either(j.none, "; --cfg NONE works with it", ""))
	} else if err == nil && !j.OK() {
		err = g.Ask(ctx, &j)
	}
	if err != nil {
		g.err = err
		return nil, err
	}
	g.passed, g.shown, g.state = j.Files, j.shown(), j.state()
	return g.passed, nil
}

// again judges a workspace that differs from its record once more, when no other jp is about to
// write to it.
func (g *Gate) again(ctx context.Context, root string, j Judgement) (Judgement, error) {
	lock := j.Path + ".lock"
	if _, err := os.Stat(lock); j.Path == "" || err != nil {
		return j, nil // no jp has written to it
	}
	unlock, err := LockFile(ctx, lock)
	if err != nil {
		return j, fmt.Errorf("trust record: %w", err)
	}
	defer unlock()
	return g.Judge(ctx, root)
}

// PassUnasked is the gate without a question: nil when the workspace is not trusted, or not found,
// and for a sub-agent, which gets what has passed the gate of its root.
func (g *Gate) PassUnasked(ctx context.Context) *Files {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.passed == nil && g.err == nil && !g.WithheldByEnv() && !g.Delegated {
		if root, err := g.Root(); err == nil {
			if j, err := g.Judge(ctx, root); err == nil && j.OK() {
				g.passed, g.shown, g.state = j.Files, j.shown(), j.state()
			}
		}
	}
	return g.passed
}

// Shown returns what was shown of the files that have passed. all is true if everything may run: no
// file has passed, or nothing needs to be shown.
func (g *Gate) Shown() (shown Shown, all bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.passed == nil || g.shown == nil {
		return Shown{}, true
	}
	return *g.shown, false
}

// Passed returns what has passed; nil = nothing.
func (g *Gate) Passed() *Files {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.passed
}

// MCPServers returns the bytes of .mcp.json, nil where they may not be used.
func (g *Gate) MCPServers() []byte {
	passed := g.Passed()
	if passed == nil {
		return nil
	}
	return passed.Data[MCPFile]
}

// DefinedTools names the file of each definition in .jp/tools, for a workspace that is trusted
// already.
func (g *Gate) DefinedTools() map[string]string {
	passed := g.Passed()
	if passed == nil {
		return nil
	}
	return passed.DefinedIn()
}

// Ask asks for trust and records it, also in j. The error is a refusal if nobody can answer, or if
// the answer is no.
func (g *Gate) Ask(ctx context.Context, j *Judgement) error {
	tty, err := g.Con.Terminal()
	if console.Nobody(err) {
		return j.Refusal()
	}
	if err != nil {
		return err
	}
	defer func() { _ = tty.Close() }()
	text, shown, err := g.Page(ctx, *j, tty.Width())
	if err != nil {
		return err
	}
	var diff func() (string, error)
	if j.Record != nil && g.Diff != nil {
		diff = func() (string, error) { return g.Diff(ctx, *j, tty.Width()) }
	}
	yes, err := console.Confirm(ctx, tty, text, "Trust this workspace?", diff)
	if err != nil {
		return err
	}
	if !yes {
		return j.Refusal()
	}
	return g.Record(ctx, j, shown)
}

// Differs says in words what is between the workspace and its record. What is only new was never
// trusted.
func (j Judgement) Differs() string {
	changed := slices.ContainsFunc(j.Changes, func(c Change) bool { return c.State != "new" })
	switch {
	case j.OK():
		return "trusted"
	case j.Record == nil:
		return "not trusted"
	case changed || len(j.Changes) == 0:
		return "not as it was trusted"
	}
	return "not trusted yet"
}

// Refusal returns the error that says why the workspace is not trusted, or is not any more.
func (j Judgement) Refusal() error {
	why, hint := j.Differs(), "`jp trust` shows what it would allow and asks"
	switch {
	case j.Record == nil:
	case j.Record.Shown == nil:
		why = "was trusted by an earlier jp, which did not record what it had shown"
	case len(j.Changes) == 0: // asked again, about more of the same files
		why = "nothing more was trusted"
	default:
		why += ": " + listed(j.Changes)
		hint = "`jp trust` shows what differs and asks"
	}
	if j.said != "" {
		hint = Variable + "=1, not " + brief.Quote(j.said) + ", trusts it without a question; " + hint
	}
	return (&exit.Error{Code: "untrusted", Status: exit.Refused, Msg: fmt.Sprintf("workspace %s: %s", j.Files.Root, why)}).
		WithHint("%s%s", hint, wording.Either(j.none, "; --cfg NONE works without it", ""))
}

// Record records what j saw and what a person was shown of it, and nothing else, also in j.
// States that were trusted before, even meanwhile, stay trusted as they were. If the state is not trusted
// any more that j was compared with, the error is a refusal: what the person was not shown,
// because that state had it, counts for nothing then.
func (g *Gate) Record(ctx context.Context, j *Judgement, shown Shown) error {
	return g.change(ctx, j.Path, j.real, func(now *Record) (Record, contents, error) {
		if j.Record != nil && j.Record.Shown != nil && !now.remembers(j.Record.State) {
			return Record{}, nil, exit.Refusedf("workspace %s: trust was taken back while the question was open", j.Files.Root).
				WithHint("`jp trust` shows what it would allow and asks")
		}
		if now == nil {
			now = &Record{}
		}
		next := now.then(State{Files: maps.Clone(j.Files.Stamps), Shown: &shown})
		j.Record, j.Changes = &next, nil
		return next, j.Files.contents(), nil
	})
}

// Written adds to the record what jp itself has just written for a person, by slash path below
// root, and nothing else: files that were there before stay trusted or untrusted.
func (g *Gate) Written(ctx context.Context, root string, files map[string][]byte) error {
	return g.Write(ctx, root, files, nil)
}

// Write is Written together with the writing: write replaces the files, as one step with the
// record. A reader of both holds the lock or reads again, see again. The record says beforehand
// what is written. So if jp is killed meanwhile, the workspace is trusted as it was before or as it
// was meant to be. What the page shows after the writing and did not show before is the word of the
// person; of a jp that was killed it has to be shown.
func (g *Gate) Write(ctx context.Context, root string, files map[string][]byte, write func() error) error {
	return g.write(ctx, root, files, write, g.Page)
}

// Rewrite is Write for files that say the same afterwards.
func (g *Gate) Rewrite(ctx context.Context, root string, files map[string][]byte, write func() error) error {
	return g.write(ctx, root, files, write, nil)
}

func (g *Gate) write(ctx context.Context, root string, files map[string][]byte, write func() error, page pageFunc) error {
	file, canonical, err := g.RecordPath(ctx, root)
	if err != nil {
		return err
	}
	return g.change(ctx, file, canonical, func(now *Record) (Record, contents, error) {
		there, err := look(root)
		if err != nil {
			return Record{}, nil, err
		}
		next := Record{Workspace: canonical, State: State{Files: map[string]string{}, Shown: &Shown{Page: map[string][]string{}}}}
		if now != nil {
			next = *now
			if at := now.at(there.Stamps); len(Changes(at.trusted(there.Stamps), there.Stamps)) == 0 {
				next = *at
			}
			next.Workspace, next.Files = canonical, next.trusted(there.Stamps)
		}
		next.Writing = map[string]string{}
		for name, data := range files {
			next.Writing[name] = DataStamp(data)
		}
		was := maps.Clone(next.Files)
		if write == nil { // they are written already
			maps.DeleteFunc(was, func(key, _ string) bool { _, now := files[key]; return now })
		}
		before, err := shows(ctx, page, root, was)
		if err != nil {
			return next, nil, err
		}
		if write != nil {
			if err := writeRecord(file, next); err != nil {
				return next, nil, err
			}
			if err := write(); err != nil {
				next.Writing = nil
				_ = writeRecord(file, next) // otherwise what was announced stays trusted, in case it appears
				return next, nil, err
			}
		}
		state := State{Files: maps.Clone(next.Files), Shown: next.Shown}
		maps.Copy(state.Files, next.Writing)
		after, err := shows(context.WithoutCancel(ctx), page, root, state.Files)
		if err == nil && state.Shown != nil {
			sum := state.Shown.Plus(before, after)
			state.Shown = &sum
		}
		present := there.contents()
		for _, data := range files {
			present.add(data)
		}
		return next.then(state), present, err
	})
}

// pageFunc is the type of Gate.Page.
type pageFunc = func(ctx context.Context, j Judgement, width int) (text string, shown Shown, err error)

// shows returns what a page of the workspace at root would show if it had only those of its
// files that have these stamps. No other file has a say in what a person is taken to have seen.
// Without a page that is nothing.
func shows(ctx context.Context, page pageFunc, root string, stamps map[string]string) (Shown, error) {
	if page == nil {
		return Shown{}, nil
	}
	c, err := look(root)
	if err != nil {
		return Shown{}, err
	}
	for key, stamp := range c.Stamps {
		if stamps[key] != stamp {
			delete(c.Stamps, key)
			delete(c.Data, key)
			delete(c.nodes, key)
		}
	}
	_, shown, err := page(ctx, Judgement{Files: c}, 0)
	return shown, err
}

// Exchanged is the error for a file that is no longer as it passed the gate, for who is about to
// replace it.
func Exchanged(file string) error {
	return (&exit.Error{Code: "untrusted", Status: exit.Refused, Msg: fmt.Sprintf("%s: changed while jp was running", file)}).
		WithHint("`jp trust` shows what it allows now")
}

// Tools are the definitions of .jp/tools that may be used: those that passed the gate. A delegated
// run reads no other file of the workspace, since its config is the one that its trusted caller has
// stored. It asks nobody, and is refused when a definition differs from the trusted one.
func (g *Gate) Tools(ctx context.Context) (map[string]tools.Definition, error) {
	passed := g.Passed()
	if passed == nil && g.Delegated && !g.WithheldByEnv() {
		root, err := g.Root()
		if err != nil {
			return nil, err
		}
		j := Judgement{env: g.ByEnv()}
		if err := j.fit(root); err != nil {
			return nil, err
		}
		if j.Files, err = lookTools(root, !j.env); err != nil {
			return nil, err
		}
		if len(j.Files.Stamps)+len(j.Files.left) > 0 && !j.env {
			if j.Path, j.real, err = g.RecordPath(ctx, root); err != nil {
				return nil, err
			}
			if j.Record, _ = readRecord(j.Path, j.real); j.Record != nil {
				j.Record = j.Record.of(g.Con.Getenv(Variable))
			}
			if j.Record != nil {
				if slices.ContainsFunc(slices.Collect(maps.Keys(j.Record.Files)), editorFile) { // they counted for the caller, too
					if j.Files, err = lookTools(root, false); err != nil {
						return nil, err
					}
				}
				j.Changes = Changes(sub(j.Record.trusted(j.Files.Stamps), ".jp/tools"), j.Files.Stamps)
			}
			if !j.OK() {
				return nil, j.Refusal()
			}
		}
		passed = j.Files
	}
	if passed == nil {
		return nil, nil
	}
	return passed.Tools()
}
