package editor

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"jp/cmd/jp/internal/acp"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/run"
	"jp/cmd/jp/internal/wording"
	"jp/convstore"
	"jp/profiles"
	"jp/tools/files"
	"jp/tools/proc"
)

// server serves one editor.
type server struct {
	env       *run.Env // Env of `jp acp` itself
	sessionAt func(*console.Console) *run.Env
	o         options

	mu     sync.Mutex
	killed bool
	hosts  map[*proc.Host]bool // hosts of the prompts that run
}

// kill kills all processes.
func (s *server) kill() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.killed = true
	for h := range s.hosts {
		h.Kill()
	}
}

// host returns a host for the processes of one prompt; done closes it.
func (s *server) host() (h *proc.Host, done func()) {
	h = proc.NewHost(proc.Options{})
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hosts[h] = true
	if s.killed {
		h.Kill()
	}
	return h, func() {
		if err := h.Close(); err != nil {
			s.env.Con.Warn("%v", err)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.hosts, h)
	}
}

// at returns an Env in the folder dir. Its stderr is say.
func (s *server) at(dir string, say io.Writer) *run.Env {
	env := s.env.Con.Env
	env.Dir, env.Stdin, env.Stdout, env.Stderr = dir, nil, nil, say
	own := s.sessionAt(console.New(env))
	own.WaitFor(s.o.wait.Value)
	own.Con.Globals = s.env.Con.Globals
	own.Con.IO = own.Con.OpenIO()
	return own
}

// within returns an error if the folder of own does not exist, or is outside of the workspace that
// --workspace names.
func (s *server) within(own *run.Env) error {
	if _, err := os.Stat(own.Con.Env.Dir); err != nil {
		if path, ok := errors.AsType[*os.PathError](err); ok {
			err = path.Err
		}
		return acp.Paramsf("cwd: %s: %v", own.Con.Env.Dir, err)
	}
	root, err := own.WS.Root()
	if err != nil || !s.env.Con.Globals.Workspace.Set {
		return err
	}
	dir, err := filepath.EvalSymlinks(own.Con.Env.Dir)
	if err == nil {
		root, err = filepath.EvalSymlinks(root)
	}
	if err != nil {
		return acp.Paramsf("cwd: %v", err)
	}
	if !files.Within(root, dir) {
		return acp.Paramsf("cwd: %s is not in %s, which --workspace names", own.Con.Env.Dir, root)
	}
	return nil
}

// New makes a session with a new conversation, which is hidden, and expires if it gets no prompt.
func (s *server) New(ctx context.Context, setup acp.Setup) (acp.Session, error) {
	n := &session{server: s, dir: setup.Dir, notices: &notices{also: s.env.Con.IO.Err}}
	return n, wireError(n.begin(ctx, setup))
}

// Load makes a session of a conversation that exists.
func (s *server) Load(ctx context.Context, id string, setup acp.Setup) (acp.Session, acp.Replay, error) {
	n := &session{server: s, dir: setup.Dir, notices: &notices{also: s.env.Con.IO.Err}}
	replay, err := n.load(ctx, id, setup)
	return n, replay, wireError(err)
}

// pageSize bounds the number of conversations on one page of a list.
const pageSize = 50

// List returns a page of the conversations of a workspace, the latest first. The cursor is the
// number of conversations on the pages before. If the editor names no folder, the workspace is the
// one in which jp was started, if any.
func (s *server) List(ctx context.Context, dir, cursor string) (acp.Page, error) {
	page, err := s.list(ctx, dir, cursor)
	return page, wireError(err)
}

func (s *server) list(ctx context.Context, dir, cursor string) (page acp.Page, err error) {
	from := 0
	if cursor != "" {
		if from, err = strconv.Atoi(cursor); err != nil || from < 0 || from > 1<<30 {
			return page, acp.Paramsf("cursor: does not belong to this list")
		}
	}
	own := s.at(wording.Either(dir == "", s.env.Con.Env.Dir, dir), s.env.Con.IO.Err)
	defer func() { _ = own.Con.Log.Close() }()
	if err := s.within(own); dir == "" && errors.Is(err, profiles.ErrNoWorkspace) {
		return page, nil
	} else if err != nil {
		return page, err
	}
	store, err := own.WS.Store(ctx)
	if err != nil {
		return page, err
	}
	all, err := store.List(ctx, convstore.Filter{Sort: convstore.SortActivity, Descending: true, Limit: from + pageSize + 1})
	if err != nil {
		return page, err
	}
	if len(all) > from+pageSize {
		all, page.Next = all[:from+pageSize], strconv.Itoa(from+pageSize)
	}
	for _, c := range all[min(from, len(all)):] {
		if c.Link == convstore.DelegationLink || c.Turns == 0 {
			continue
		}
		page.Sessions = append(page.Sessions, acp.Listed{
			ID: c.ID.String(), Dir: wording.Either(dir == "", own.WS.Found(), dir), Title: c.Title, UpdatedAt: c.UpdatedAt.UTC().Format(time.RFC3339),
		})
	}
	return page, nil
}

// wireError returns an error for the wire, with the message and the hint that the command line
// prints, and with the code and exit status as data.
func wireError(err error) error {
	if err == nil || errors.As(err, new(*acp.Error)) {
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
