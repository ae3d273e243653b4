package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/acp"
	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/record"
	"jp/cmd/jp/internal/run"
	"jp/cmd/jp/internal/version"
	"jp/cmd/jp/internal/wording"
	"jp/cmd/jp/internal/workspace"
	"jp/convstore"
	"jp/profiles"
	"jp/tools/files"
	"jp/tools/proc"
)

// acpOptions are the flags of jp acp.
type acpOptions struct {
	directives []profiles.Directive
	model      command.Maybe[string]
	role       string
}

func newACPCommand(a *app) *cli.Command {
	var o acpOptions
	return a.tree.Command(command.Spec{
		Name: "acp", Summary: "serve an editor that speaks the Agent Client Protocol",
		About: "Speaks the Agent Client Protocol, version 1, on stdin and stdout until stdin ends: editors such as Zed, Neovim and Emacs start it " +
			"and drive conversations. A session is a conversation of the workspace at or above its folder, which has to be trusted. " +
			"Tools that ask are asked about in the editor, sub-agents are shown as they work, and what the editor cancels is stopped " +
			"with everything below it. Warnings and the log go to stderr.\n\n" +
			"The flags are for sessions that begin; one that is taken up keeps its own config. --workspace keeps all sessions " +
			"within that workspace. docs/acp.md has the settings of editors.",
		Flags: append(workspace.ConfigFlags(&o.directives),
			command.String(&o.model, "model", "MODEL", "the model: provider/model or an alias").Alias("m"),
			command.Choice(&o.role, "role", "ROLE", run.PersonRoles(), "what tools a session may hold at most: main (everything), scheduled (what can run with nobody there), synthesis (only reading)"),
		),
		Exits:    []exit.Status{exit.NotFound, exit.Refused, exit.Hangup, exit.Interrupted, exit.Terminated},
		Examples: []string{"jp acp", "jp acp --cfg agent/researcher", "jp acp -w ~/src/project"},
		Run:      func(ctx context.Context, _ []string) error { return runACP(ctx, a, o) },
	})
}

func runACP(ctx context.Context, a *app, o acpOptions) error {
	if err := a.ws.Persist("acp"); err != nil {
		return err
	}
	if err := record.Refuse(a.con, "acp"); err != nil {
		return err
	}
	a.con.Globals.NonInteractive = true // stdin and stdout are the editor's, and it is asked
	if w := &a.con.Globals.Workspace; w.Set {
		if _, err := a.ws.Root(); err != nil {
			return err
		}
		w.Value = a.con.Abs(w.Value)
	}
	if a.con.IO.InTTY {
		a.con.Note("acp: stdin is a terminal; an editor starts this and speaks JSON-RPC to it, one message a line (Ctrl-D ends it)")
	}
	s := &acpServer{app: a, o: o, hosts: map[*proc.Host]bool{}}
	ctx, stop := a.con.WithSignals(ctx, s.kill)
	defer stop()
	ctx, leave := context.WithCancelCause(ctx)
	defer leave(nil)
	a.con.IO.Bound(ctx)
	return acp.Serve(ctx, leave, s, acp.Options{
		Info: acp.Implementation{Name: "jp", Title: "jp", Version: version.Version}, Log: a.con.Verbosef,
	}, a.con.IO.In, console.Escaping{Writer: a.con.IO.Out})
}

// acpServer serves one editor. Each session, and each prompt, is worked on by an app of its own: sessions stand in different
// workspaces, and config and trust are looked at anew.
type acpServer struct {
	app *app
	o   acpOptions

	mu     sync.Mutex
	killed bool
	hosts  map[*proc.Host]bool // of the prompts under way
}

// kill ends all processes at once.
func (s *acpServer) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.killed = true
	for h := range s.hosts {
		h.Kill()
	}
}

// host returns a host for the processes of one prompt, and what closes it.
func (s *acpServer) host() (h *proc.Host, done func()) {
	h = proc.NewHost(proc.Options{})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hosts[h] = true
	if s.killed {
		h.Kill()
	}
	return h, func() {
		if err := h.Close(); err != nil {
			s.app.con.Warn("%v", err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.hosts, h)
	}
}

// at is jp in a folder of the editor's, with nobody at its streams. What it has to say beside the answer goes to say.
func (s *acpServer) at(dir string, say io.Writer) *app {
	env := s.app.con.Env
	env.Dir, env.Stdin, env.Stdout, env.Stderr = dir, nil, nil, say
	own := newAppAt(console.New(env))
	own.con.Globals = s.app.con.Globals
	own.con.IO = own.con.OpenIO()
	return own
}

// within refuses a folder that is not there, or outside of the workspace that the flag names.
func (s *acpServer) within(own *app) error {
	if _, err := os.Stat(own.con.Env.Dir); err != nil {
		var path *os.PathError
		if errors.As(err, &path) {
			err = path.Err
		}
		return acp.Paramsf("cwd: %s: %v", own.con.Env.Dir, err)
	}
	root, err := own.ws.Root()
	if err != nil || !s.app.con.Globals.Workspace.Set {
		return err
	}
	dir, err := filepath.EvalSymlinks(own.con.Env.Dir)
	if err == nil {
		root, err = filepath.EvalSymlinks(root)
	}
	if err != nil {
		return acp.Paramsf("cwd: %v", err)
	}
	if !files.Inside(root, dir) {
		return acp.Paramsf("cwd: %s is not in %s, which --workspace names", own.con.Env.Dir, root)
	}
	return nil
}

// New makes the conversation of a session: hidden, and expiring unless it is asked something.
func (s *acpServer) New(ctx context.Context, setup acp.Setup) (acp.Session, error) {
	n := &acpSession{server: s, dir: setup.Dir, notices: &notices{also: s.app.con.IO.Err}}
	return n, acpError(n.begin(ctx, setup))
}

// Load takes up a conversation.
func (s *acpServer) Load(ctx context.Context, id string, setup acp.Setup) (acp.Session, error) {
	n := &acpSession{server: s, dir: setup.Dir, notices: &notices{also: s.app.con.IO.Err}}
	return n, acpError(n.load(ctx, id, setup))
}

// acpPage is how many conversations one page of a list has at most.
const acpPage = 50

// List lists the conversations of a workspace, the latest first. The cursor is how many were listed before. An editor that names no
// folder is told of those where jp was started, if that is a workspace.
func (s *acpServer) List(ctx context.Context, dir, cursor string) (acp.Page, error) {
	page, err := s.list(ctx, dir, cursor)
	return page, acpError(err)
}

func (s *acpServer) list(ctx context.Context, dir, cursor string) (page acp.Page, err error) {
	from := 0
	if cursor != "" {
		if from, err = strconv.Atoi(cursor); err != nil || from < 0 || from > 1<<30 {
			return page, acp.Paramsf("cursor: is not one of this list")
		}
	}
	own := s.at(wording.Either(dir == "", s.app.con.Env.Dir, dir), s.app.con.IO.Err)
	defer func() { _ = own.con.Log.Close() }()
	if err := s.within(own); dir == "" && errors.Is(err, profiles.ErrNoWorkspace) {
		return page, nil
	} else if err != nil {
		return page, err
	}
	store, err := own.ws.Store(ctx)
	if err != nil {
		return page, err
	}
	all, err := store.List(ctx, convstore.Filter{Sort: convstore.SortActivity, Descending: true, Limit: from + acpPage + 1})
	if err != nil {
		return page, err
	}
	if len(all) > from+acpPage {
		all, page.Next = all[:from+acpPage], strconv.Itoa(from+acpPage)
	}
	for _, c := range all[min(from, len(all)):] {
		if c.Link == convstore.DelegationLink || c.Turns == 0 {
			continue
		}
		page.Sessions = append(page.Sessions, acp.Listed{
			ID: c.ID.String(), Dir: wording.Either(dir == "", own.ws.Found(), dir), Title: c.Title, UpdatedAt: c.UpdatedAt.UTC().Format(time.RFC3339),
		})
	}
	return page, nil
}

// acpError is an error as an editor meets it: in the words of the command line, and with what a program can tell it by.
func acpError(err error) error {
	var known *acp.Error
	if err == nil || errors.As(err, &known) {
		return err
	}
	r := console.Explain(err)
	e := &acp.Error{Code: acp.CodeInternal, Message: r.Message, Data: map[string]any{"code": r.Code, "hint": r.Hint, "exit": int(r.Status)}}
	if r.Code == "not_found" {
		e.Code = acp.CodeNotFound
	}
	if r.Hint != "" {
		e.Message += "\nhint: " + r.Hint
	}
	return e
}

// notices is where the apps of a session say what they have to say, a line at a time: to jp's stderr, and to the editor while a
// prompt is under way. Before that it is kept for the first one.
type notices struct {
	also io.Writer

	mu   sync.Mutex
	tell func(acp.Severity, string)
	kept []string
}

// maxKept bounds the lines that are kept; all of them are on stderr.
const maxKept = 256

func (n *notices) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, _ = n.also.Write(p)
	for line := range strings.Lines(string(p)) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "jp: ")
		switch {
		case line == "":
		case n.tell != nil:
			n.say(line)
		case len(n.kept) < maxKept:
			n.kept = append(n.kept, line)
		}
	}
	return len(p), nil
}

// say tells the editor a line.
func (n *notices) say(line string) {
	if text, ok := strings.CutPrefix(line, "warning: "); ok {
		n.tell(acp.Warning, text)
		return
	}
	n.tell(acp.Information, line)
}

// to has notices told to the editor, or, with nil, kept.
func (n *notices) to(tell func(acp.Severity, string)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.tell = tell; tell == nil {
		return
	}
	for _, line := range n.kept {
		n.say(line)
	}
	n.kept = nil
}
