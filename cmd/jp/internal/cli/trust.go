package cli

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/wording"
	"jp/profiles"
	"jp/tools"
	"jp/tools/unseen"
)

// A workspace is code: its config names models, gives tools commands and lets them run unattended. Until a person has trusted
// it, in the state it is in, nothing of it is loaded. There is one gate, trusted; what it returns is the only way to the
// workspace's files:
//
//   - sources names the workspace to package profiles only behind it, and resolve refuses a result made of files whose bytes
//     are not those that passed;
//   - definitions takes .jp/tools from the bytes that passed and from nowhere else.
//
// Without the gate there is no workspace: no path leads to its files by forgetting a check.

// trustGate is the way to the files of one workspace. It remembers what passed, so that nobody is asked twice. Its exported fields
// are set before it is used; then it is safe for concurrent use.
type trustGate struct {
	Con *console.Console

	// Root finds the workspace, and Records the folder where the record of the workspace at root is.
	Root    func() (string, error)
	Records func(ctx context.Context, root string) (string, error)

	// Page is what a person is shown who is asked for trust, laid out for width columns.
	Page func(j judgement, width int) (string, error)

	Delegated bool // this is the run of a sub-agent, whose caller has passed the gate: see toolFiles
	TakesNone bool // the command that is refused would run with --cfg NONE

	mu     sync.Mutex
	passed *contribution // nil = nothing did
	err    error         // the refusal
}

// judgement is what is known of a workspace's trust.
type judgement struct {
	files   *contribution
	record  *trustRecord // nil = never trusted
	changes []change     // against the record
	path    string       // of the record
	real    string       // canonical path of the workspace
	env     bool         // JP_TRUST_WORKSPACE says so
	none    bool         // the command that is refused would run with --cfg NONE
}

// ok reports whether the workspace may be loaded. One that brings nothing along needs nobody's trust.
func (j judgement) ok() bool {
	return j.env || j.record != nil && len(j.changes) == 0 || len(j.files.stamps) == 0
}

// status is ok in words.
func (j judgement) status() string {
	switch {
	case j.ok():
		return "trusted"
	case j.record != nil:
		return "changed"
	}
	return "untrusted"
}

// judge looks at the workspace and at its record. It asks nobody.
func (g *trustGate) judge(ctx context.Context, root string) (judgement, error) {
	j := judgement{env: g.trustByEnv(), none: g.TakesNone}
	if err := j.fit(root); err != nil {
		return j, err
	}
	var err error
	if j.files, err = contributed(root); err != nil {
		return j, err
	}
	if j.path, j.real, err = g.trustPath(ctx, root); err != nil {
		if j.env {
			return j, nil // without a home there is no record, and none is needed
		}
		return j, err
	}
	var complaint string
	if j.record, complaint = readTrust(j.path, j.real); complaint != "" {
		g.Con.Warn("%s", complaint)
	}
	trusted := map[string]string{}
	if j.record != nil {
		trusted = j.record.known(j.files.stamps)
	}
	j.changes = changes(trusted, j.files.stamps)
	return j, nil
}

// trustVar is 1 for CI, where what is checked out is trusted as it is. none keeps jp from the workspace's files without a
// question: the sub-agents of a run that works without them get it.
const trustVar = "JP_TRUST_WORKSPACE"

func (g *trustGate) trustByEnv() bool { return g.Con.Getenv(trustVar) == "1" }

func (g *trustGate) distrustByEnv() bool { return g.Con.Getenv(trustVar) == "none" }

// trustForChild is what the environment of a sub-agent says of trust; "" lets it look at the record.
func (g *trustGate) trustForChild() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case g.trustByEnv():
		return trustVar + "=1"
	case g.distrustByEnv(), g.passed == nil && !g.Delegated:
		return trustVar + "=none"
	}
	return ""
}

// fit refuses a .jp that is not the user's own: one that someone else made in a folder above, /tmp say, or a link to one that
// belongs to another workspace. Root may work in others' checkouts where JP_TRUST_WORKSPACE says so, as containers do.
func (j judgement) fit(root string) error {
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

// trusted is the gate. On a terminal it shows what an untrusted or changed workspace would allow and asks; otherwise it
// refuses.
func (g *trustGate) trusted(ctx context.Context) (*contribution, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.passed != nil || g.err != nil {
		return g.passed, g.err
	}
	root, err := g.Root()
	if err != nil {
		return nil, err
	}
	j, err := g.judge(ctx, root)
	if err == nil && !j.ok() {
		j, err = g.settled(ctx, root, j)
	}
	if err == nil && g.distrustByEnv() {
		err = (&exit.Error{Code: "untrusted", Status: exit.Refused, Msg: fmt.Sprintf("workspace %s: not used: %s=none", root, trustVar)}).
			WithHint("unset %s%s", trustVar, wording.Either(j.none, "; --cfg NONE works with it", ""))
	} else if err == nil && !j.ok() {
		err = g.askTrust(ctx, j)
	}
	if err != nil {
		g.err = err
		return nil, err
	}
	g.passed = j.files
	return g.passed, nil
}

// settled looks again at a workspace that is not as it was trusted, when no other jp is about to write to it.
func (g *trustGate) settled(ctx context.Context, root string, j judgement) (judgement, error) {
	lock := j.path + ".lock"
	if _, err := os.Stat(lock); j.path == "" || err != nil {
		return j, nil // no jp has written to it
	}
	unlock, err := lockFile(ctx, lock)
	if err != nil {
		return j, fmt.Errorf("trust record: %w", err)
	}
	defer unlock()
	return g.judge(ctx, root)
}

// trustedAlready is the gate without a question: nil when the workspace is not trusted, or not found.
func (g *trustGate) trustedAlready(ctx context.Context) *contribution {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.passed == nil && g.err == nil && !g.distrustByEnv() {
		if root, err := g.Root(); err == nil {
			if j, err := g.judge(ctx, root); err == nil && j.ok() {
				g.passed = j.files
			}
		}
	}
	return g.passed
}

// already returns what has passed, nil for nothing.
func (g *trustGate) already() *contribution {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.passed
}

// mcpFile returns the bytes of .mcp.json in the workspace at root that may be used, nil when there are none.
func (g *trustGate) mcpFile(root string) ([]byte, error) {
	passed := g.already()
	if passed == nil && g.Delegated && !g.distrustByEnv() {
		passed = &contribution{root: root, stamps: map[string]string{}, data: map[string][]byte{}}
		if err := passed.tree(root, "", mcpFile); err != nil {
			return nil, err
		}
	}
	if passed == nil {
		return nil, nil
	}
	return passed.data[mcpFile], nil
}

// definedTools names the file of each definition in .jp/tools, of a workspace that was trusted already.
func (g *trustGate) definedTools() map[string]string {
	passed := g.already()
	if passed == nil {
		return nil
	}
	return passed.definedIn()
}

// askTrust asks for trust and records it. The error is a refusal where nobody can answer, and for a no.
func (g *trustGate) askTrust(ctx context.Context, j judgement) error {
	tty, err := g.Con.Terminal()
	if console.Nobody(err) {
		return j.refusal()
	}
	if err != nil {
		return err
	}
	defer func() { _ = tty.Close() }()
	text, err := g.Page(j, tty.Width())
	if err != nil {
		return err
	}
	if err := tty.Show(text); err != nil {
		return err
	}
	answer, err := console.AskLine(ctx, tty, "Trust this workspace? [y/N] ")
	if err != nil {
		return err
	}
	if answer = strings.ToLower(answer); answer != "y" && answer != "yes" {
		return j.refusal()
	}
	return g.recordTrust(ctx, j)
}

// refusal says that the workspace is not trusted, and why not any more.
func (j judgement) refusal() error {
	hint := "`jp trust --show` tells what it would allow, `jp trust` allows it" + wording.Either(j.none, "; --cfg NONE works without it", "")
	if j.record == nil {
		return (&exit.Error{Code: "untrusted", Status: exit.Refused, Msg: fmt.Sprintf("workspace %s: not trusted", j.files.root)}).WithHint("%s", hint)
	}
	names := make([]string, 0, 4)
	for _, c := range j.changes[:min(len(j.changes), 3)] {
		names = append(names, unseen.Word(c.Path)+" ("+c.State+")")
	}
	if more := len(j.changes) - len(names); more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	msg := fmt.Sprintf("workspace %s: not as it was trusted: %s", j.files.root, strings.Join(names, ", "))
	return (&exit.Error{Code: "untrusted", Status: exit.Refused, Msg: msg}).WithHint("%s", hint)
}

// recordTrust records what j saw, and nothing that came up since. What another jp has trusted since, of what it wrote itself,
// stays trusted.
func (g *trustGate) recordTrust(ctx context.Context, j judgement) error {
	return g.changeTrust(ctx, j.path, j.real, func(now *trustRecord) (trustRecord, error) {
		stamps := maps.Clone(j.files.stamps)
		if now != nil && j.record != nil {
			for key, stamp := range now.Files {
				if j.record.Files[key] != stamp {
					stamps[key] = stamp
				}
			}
		}
		return trustRecord{Files: stamps}, nil
	})
}

// trustWritten adds to the record what jp itself has just written on a person's behalf, by slash path below root, and nothing
// else: files that were there before stay as trusted or untrusted as they were.
func (g *trustGate) trustWritten(ctx context.Context, root string, files map[string][]byte) error {
	return g.writeTrusted(ctx, root, files, nil)
}

// writeTrusted is trustWritten for files that write brings to where they belong, as one step with the record: whoever looks
// at both holds the lock or looks again, see settled. The record says beforehand what is written: a jp that is killed on the
// way leaves a workspace that is trusted as it was or as it was to be.
func (g *trustGate) writeTrusted(ctx context.Context, root string, files map[string][]byte, write func() error) error {
	file, canonical, err := g.trustPath(ctx, root)
	if err != nil {
		return err
	}
	return g.changeTrust(ctx, file, canonical, func(now *trustRecord) (trustRecord, error) {
		next := trustRecord{Workspace: canonical, Files: map[string]string{}, Writing: map[string]string{}}
		if now != nil {
			next.TrustedAt = now.TrustedAt
			maps.Copy(next.Files, now.Files)
			if len(now.Writing) > 0 { // one that was killed
				there, err := contributed(root)
				if err != nil {
					return next, err
				}
				next.Files = now.known(there.stamps)
			}
		}
		for name, data := range files {
			next.Writing[name] = dataStamp(data)
		}
		if write != nil {
			if err := writeTrust(file, next); err != nil {
				return next, err
			}
			if err := write(); err != nil {
				next.Writing = nil
				_ = writeTrust(file, next) // else what was asked for stays trusted, should it come
				return next, err
			}
		}
		maps.Copy(next.Files, next.Writing)
		next.Writing = nil
		return next, nil
	})
}

// hold refuses a config that was made of files of .jp other than those of c; nil allows none.
func (g *trustGate) hold(root string, r *profiles.Resolved, c *contribution) error {
	if root == "" {
		return nil
	}
	for _, l := range r.Layers {
		if !filepath.IsAbs(l.File) {
			continue // built in, or no file
		}
		key := inJP(root, l.File)
		if key == "" && l.Kind == profiles.INILayer {
			key = inSkills(root, l.File)
		}
		switch {
		case key == "":
		case c == nil:
			return (&exit.Error{Code: "untrusted", Status: exit.Refused, Msg: fmt.Sprintf("%s: the workspace is not trusted", l.File)}).
				WithHint("`jp trust --show` tells what it would allow, `jp trust` allows it")
		case !c.holds(key, l.SHA256):
			return exchanged(l.File)
		}
	}
	return nil
}

func exchanged(file string) error {
	return (&exit.Error{Code: "untrusted", Status: exit.Refused, Msg: fmt.Sprintf("%s: changed while jp was running", file)}).
		WithHint("`jp trust` shows what it allows now")
}

// toolFiles are the definitions of .jp/tools that may be used: those that passed the gate. A delegated run reads no other file
// of the workspace, its config is the one its trusted caller stored; it asks nobody, and is refused when a definition is not
// as it was trusted.
func (g *trustGate) toolFiles(ctx context.Context) (map[string]tools.Definition, error) {
	passed := g.already()
	if passed == nil && g.Delegated && !g.distrustByEnv() {
		root, err := g.Root()
		if err != nil {
			return nil, err
		}
		j := judgement{env: g.trustByEnv()}
		if err := j.fit(root); err != nil {
			return nil, err
		}
		if j.files, err = contributedTools(root); err != nil {
			return nil, err
		}
		if len(j.files.stamps) > 0 && !j.env {
			if j.path, j.real, err = g.trustPath(ctx, root); err != nil {
				return nil, err
			}
			if j.record, _ = readTrust(j.path, j.real); j.record != nil {
				j.changes = changes(sub(j.record.known(j.files.stamps), ".jp/tools"), j.files.stamps)
			}
			if !j.ok() {
				return nil, j.refusal()
			}
		}
		passed = j.files
	}
	if passed == nil {
		return nil, nil
	}
	return passed.tools()
}
