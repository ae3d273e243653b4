package acp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
)

// session is a Session with the prompt that runs.
type session struct {
	Session
	cancel context.CancelCauseFunc // cancels the prompt; nil = none runs
	done   chan struct{}           // closed when it has ended
	before chan struct{}           // closed when all messages so far have set or taken options; nil = there was none
}

// queued gives a message that sets options, or a prompt that takes them, its turn after those before
// it: in calls f then, or when ctx has ended. The next one's turn comes after f, and after until; nil =
// at once. c.mu is held.
func (s *session) queued(ctx context.Context) (in func(f func(), until <-chan struct{})) {
	before, own := s.before, make(chan struct{})
	s.before = own
	if before == nil {
		before = make(chan struct{})
		close(before)
	}
	return func(f func(), until <-chan struct{}) {
		defer func() {
			go func() {
				<-before // f may have come before its turn
				if until != nil {
					<-until
				}
				close(own)
			}()
		}()
		select {
		case <-before:
		case <-ctx.Done():
		}
		f()
	}
}

// check returns the error of a Setup that is not valid.
func (s *Setup) check() error {
	switch {
	case s.Dir == "":
		return Paramsf("cwd: is missing")
	case !filepath.IsAbs(s.Dir) || strings.ContainsRune(s.Dir, 0):
		return Paramsf("cwd: %q is not an absolute path", clip(s.Dir))
	case len(s.More) > 0:
		return Paramsf("additionalDirectories: a session has one folder, cwd")
	}
	return nil
}

func (c *conn) newSession(ctx context.Context, raw json.RawMessage) (func() (any, error), error) {
	var p Setup
	if err := params(raw, &p); err != nil {
		return nil, err
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	return func() (any, error) {
		for {
			if err := c.room(""); err != nil {
				return nil, err
			}
			s, err := c.agent.New(ctx, p)
			switch err := c.keep(s, err); {
			case err == nil:
				return map[string]any{"sessionId": s.ID(), "configOptions": s.Options()}, nil
			case !errors.Is(err, errElsewhere):
				return nil, err
			}
			// The next one has another id. This one expires.
		}
	}, nil
}

func (c *conn) loadSession(ctx context.Context, raw json.RawMessage, shown bool) (func() (any, error), error) {
	var p struct {
		ID string `json:"sessionId"`
		Setup
	}
	if err := params(raw, &p); err != nil {
		return nil, err
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	return func() (any, error) {
		if err := c.room(p.ID); err != nil {
			return nil, err
		}
		s, replay, err := c.agent.Load(ctx, p.ID, p.Setup)
		if err == nil {
			err = c.vacant(s)
		}
		if err == nil && shown {
			err = replay(ctx, func(u Update) { c.tell(p.ID, u) })
		}
		if err := c.keep(s, err); err != nil {
			return nil, err
		}
		return map[string]any{"configOptions": s.Options()}, nil
	}, nil
}

// room reserves room for a session, which keep uses or gives back. id is the id of a session to
// load; "" = a new one.
func (c *conn) room(id string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.sessions)+c.opening >= maxSessions {
		return requestf("%d sessions are open; session/close ends one", maxSessions)
	}
	if err := c.idle(id); err != nil {
		return err
	}
	c.opening++
	return nil
}

// idle returns an error if a prompt of the session runs. c.mu is held.
func (c *conn) idle(id string) error {
	if s := c.sessions[id]; s != nil && s.cancel != nil {
		return requestf("session %s: a prompt is under way; wait for its end, or cancel it", id)
	}
	return nil
}

// errElsewhere is wrapped if a session with the same ID is open.
var errElsewhere = errors.New("is open in another place under the same id; session/close ends that one")

// vacant returns an error if another session has the ID: the client could not distinguish them.
func (c *conn) vacant(s Session) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.only(s)
}

// only does the same. c.mu is held.
func (c *conn) only(s Session) error {
	if open := c.sessions[s.ID()]; open != nil && open.Home() != s.Home() {
		return fmt.Errorf("session %s: %w", s.ID(), errElsewhere)
	}
	return c.idle(s.ID())
}

// keep stores a session in the room that was reserved, or gives that back for err. A session that
// is loaded again replaces the earlier one.
func (c *conn) keep(s Session, err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opening--
	if err == nil {
		err = c.only(s)
	}
	if err == nil {
		c.sessions[s.ID()] = &session{Session: s}
	}
	return err
}

func (c *conn) listSessions(ctx context.Context, raw json.RawMessage) (func() (any, error), error) {
	var p struct {
		Dir    string `json:"cwd"`
		Cursor string `json:"cursor"`
	}
	if raw != nil {
		if err := params(raw, &p); err != nil {
			return nil, err
		}
	}
	if p.Dir != "" {
		if err := (&Setup{Dir: p.Dir}).check(); err != nil {
			return nil, err
		}
	}
	return func() (any, error) {
		page, err := c.agent.List(ctx, p.Dir, p.Cursor)
		if page.Sessions == nil {
			page.Sessions = []Listed{}
		}
		return page, err
	}, nil
}

// named returns the session that a message names. c.mu is held.
func (c *conn) named(raw json.RawMessage, into any, id *string) (*session, error) {
	if err := params(raw, into); err != nil {
		return nil, err
	}
	s := c.sessions[*id]
	if s == nil {
		return nil, &Error{Code: CodeNotFound, Message: fmt.Sprintf("session %q: is not open here; session/new begins one, session/load takes one up", clip(*id))}
	}
	return s, nil
}

func (c *conn) prompt(ctx context.Context, raw json.RawMessage) (func() (any, error), error) {
	var p struct {
		ID     string  `json:"sessionId"`
		Prompt []Block `json:"prompt"`
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s, err := c.named(raw, &p, &p.ID)
	if err != nil {
		return nil, err
	}
	if err := c.idle(p.ID); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	done := make(chan struct{})
	s.cancel, s.done = cancel, done
	in := s.queued(ctx)
	return func() (any, error) {
		client := &Client{conn: c, session: p.ID, ended: make(chan struct{})}
		defer func() {
			client.close()
			c.mu.Lock()
			s.cancel = nil
			c.mu.Unlock()
			close(done)
			cancel(nil)
		}()
		defer context.AfterFunc(ctx, client.Insist)()
		var run Run
		in(func() { run = s.Prompt(p.Prompt) }, nil)
		stop, err := run(ctx, client)
		if ctx.Err() != nil { // whatever the result is
			if err != nil {
				c.options.Log("session %s: cancelled: %v", p.ID, err)
			}
			stop, err = Cancelled, nil
		}
		return map[string]StopReason{"stopReason": stop}, err
	}, nil
}

// set sets an option of a session, and returns all options.
func (c *conn) set(ctx context.Context, raw json.RawMessage) (func() (any, error), error) {
	var p struct {
		ID     string `json:"sessionId"`
		Option string `json:"configId"`
		Value  string `json:"value"`
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s, err := c.named(raw, &p, &p.ID)
	if err != nil {
		return nil, err
	}
	in := s.queued(ctx)
	return func() (any, error) {
		var options []ConfigOption
		var err error
		in(func() {
			if err = context.Cause(ctx); err == nil {
				err = s.change(ctx, p.Option, p.Value)
			}
			options = s.Options()
		}, ctx.Done()) // it ends when the answer is written: the last one is what holds
		return map[string]any{"configOptions": options}, err
	}, nil
}

// change sets an option to one of its values.
func (s *session) change(ctx context.Context, id, value string) error {
	options := s.Options()
	i := slices.IndexFunc(options, func(o ConfigOption) bool { return o.ID == id })
	if i < 0 {
		return Paramsf("configId: %q is no option", clip(id))
	}
	if !slices.ContainsFunc(options[i].Values, func(v ConfigValue) bool { return v.Value == value }) {
		return Paramsf("value: %q is none of %s", clip(value), id)
	}
	return s.Set(ctx, id, value)
}

// cancelPrompt stops the prompt of a session, if one runs.
func (c *conn) cancelPrompt(raw json.RawMessage) error {
	var p struct {
		ID string `json:"sessionId"`
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s, err := c.named(raw, &p, &p.ID)
	if err == nil && s.cancel != nil {
		s.cancel(errCancelled)
	}
	return err
}

func (c *conn) closeSession(ctx context.Context, raw json.RawMessage) (func() (any, error), error) {
	var p struct {
		ID string `json:"sessionId"`
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s, err := c.named(raw, &p, &p.ID)
	if err != nil {
		return nil, err
	}
	delete(c.sessions, p.ID)
	if s.cancel != nil {
		s.cancel(errCancelled)
	}
	done := s.done
	return func() (any, error) {
		if done != nil {
			<-done
		}
		return struct{}{}, nil
	}, nil
}
