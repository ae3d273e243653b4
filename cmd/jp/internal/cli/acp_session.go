package cli

import (
	"context"
	"time"

	"jp/cmd/jp/internal/acp"
	"jp/cmd/jp/internal/agent"
	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/servers"
	"jp/cmd/jp/internal/wording"
	"jp/convstore"
)

// acpSession is a conversation that an editor has open. Its run lock is held while a prompt is under way, and only then: a person may
// go on with it from a shell in between.
type acpSession struct {
	server  *acpServer
	dir     string // of the editor's project
	id      convstore.ID
	home    string // the store of its workspace
	fresh   bool   // was not asked anything when it was opened, nor since
	replay  func(context.Context, func(acp.Update)) error
	title   string // that the editor knows
	notices *notices
	servers map[string]servers.Server // that the editor brings along
	told    bool                      // which of these are not used
	options acpOptionsOf
}

// acpLeft is how long a conversation that nobody asked anything stays hidden before it expires. Clients begin a session in one
// process and prompt it in another.
const acpLeft = 30 * 24 * time.Hour

// untouched reports whether a session began the conversation and nobody has asked anything in it.
func untouched(c convstore.Conversation) bool {
	return c.Turns == 0 && c.Hidden && !c.ExpiresAt.IsZero() && c.ExpiresAt.Sub(c.CreatedAt).Round(time.Minute) == acpLeft
}

// ID is the id of the conversation.
func (s *acpSession) ID() string { return s.id.String() }

// Home is the store of the conversation: ids are those of one workspace.
func (s *acpSession) Home() string { return s.home }

// Replay tells the editor all that was said in a conversation that was loaded.
func (s *acpSession) Replay(ctx context.Context, tell func(acp.Update)) error {
	return acpError(s.replay(ctx, tell))
}

// open is a run in the session's workspace. Whoever gets it calls leave.
func (s *acpSession) open(ctx context.Context) (q *query, leave func(), err error) {
	own := s.server.at(s.dir, s.notices)
	closeLog := func() { _ = own.con.Log.Close() }
	defer func() {
		if err != nil {
			closeLog()
		}
	}()
	if err := s.server.within(own); err != nil {
		return nil, nil, err
	}
	own.env.Servers.Editor = s.servers
	q, err = own.place(ctx, nil)
	switch {
	case err != nil:
		return nil, nil, err
	case s.home == "": // at the start
		s.home = q.store.Path()
	case s.home != q.store.Path():
		return nil, nil, acp.Paramsf("session %s: %s leads to another workspace by now", s.id, s.dir)
	}
	return q, closeLog, nil
}

// take is open with the conversation at hand.
func (s *acpSession) take(ctx context.Context) (q *query, leave func(), err error) {
	if q, leave, err = s.open(ctx); err != nil {
		return nil, nil, err
	}
	if q.conv, err = q.store.Get(ctx, s.id); err != nil {
		leave()
		return nil, nil, err
	}
	return q, leave, nil
}

// begin makes the conversation.
func (s *acpSession) begin(ctx context.Context, setup acp.Setup) error {
	q, leave, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer leave()
	o := s.server.o
	q.app.ws.SetDirectives(o.directives)
	q.o = queryOptions{
		fresh: true, hidden: true, tmp: command.Given(acpLeft), noActivate: true,
		directives: o.directives, model: o.model, role: o.role,
	}
	if err := s.serversOf(ctx, q, setup); err != nil {
		return err
	}
	defer q.close(ctx)
	if err := q.create(ctx, ""); err != nil {
		return err
	}
	s.id, s.fresh = q.conv.ID, true
	s.options.learn(ctx, q)
	return nil
}

// load takes up the conversation id.
func (s *acpSession) load(ctx context.Context, id string, setup acp.Setup) error {
	var err error
	if s.id, err = convstore.ParseID(id); err != nil {
		return err
	}
	q, leave, err := s.take(ctx)
	if err != nil {
		return err
	}
	defer leave()
	s.title, s.fresh = q.conv.Title, untouched(q.conv)
	if err := s.serversOf(ctx, q, setup); err != nil {
		return err
	}
	if err := q.asStored(ctx); err != nil {
		return err
	}
	s.options.learn(ctx, q)
	s.replay = q.replay
	return nil
}

// Prompt runs one turn.
func (s *acpSession) Prompt(ctx context.Context, prompt []acp.Block, client *acp.Client) (acp.StopReason, error) {
	s.notices.to(client.Note)
	defer s.notices.to(nil)
	stop, err := s.prompt(ctx, prompt, client)
	return stop, acpError(err)
}

func (s *acpSession) prompt(ctx context.Context, prompt []acp.Block, client *acp.Client) (acp.StopReason, error) {
	q, leave, err := s.open(ctx)
	if err != nil {
		return "", err
	}
	defer leave()
	host, done := s.server.host()
	defer done()
	defer q.app.env.Servers.Close()
	q.host = host
	t, err := q.prompted(ctx, prompt)
	if err != nil {
		return "", err
	}
	q.o = queryOptions{id: command.Given(s.id.String()), noActivate: true}
	chosen := s.options.apply(&q.o)
	defer q.close(ctx)
	if err := q.open(ctx, t.text, nil); err != nil {
		return "", err
	}
	s.options.applied(chosen)
	if g := q.conv.Grant; g != nil && q.hand != nil {
		var cancel context.CancelFunc
		if ctx, cancel = withGrant(ctx, *g); cancel != nil {
			defer cancel()
		}
	}
	show := &acpShow{query: q, client: client, reply: convstore.NewEventID()}
	defer func() {
		if s.options.learn(context.WithoutCancel(ctx), q) {
			client.Tell(acp.NewChosen(s.Options()))
		}
	}()
	q.asks, q.app.env.Servers.Approve = show, show.approve
	loop, d, err := q.assemble(ctx)
	if err != nil {
		return "", err
	}
	if s.fresh || untouched(q.conv) {
		if err := q.store.Edit(ctx, s.id, func(c *convstore.Conversation) error {
			c.Hidden, c.ExpiresAt = false, time.Time{}
			return nil
		}); err != nil {
			return "", err
		}
	}
	s.fresh = false
	if err := q.unarchive(ctx); err != nil {
		return "", err
	}
	s.unused(q, loop.Tools.Set)
	show.loop = loop
	d.Watch, loop.Watch, loop.Tools.Started = show.delegation, show.watch(), show.started
	out, err := q.turn(ctx, loop, t)
	if err != nil {
		return "", err
	}
	if left := q.finish(ctx, out); left != nil {
		q.app.con.Warn("%v", left)
	}
	q.expire(ctx)
	q.name(ctx, loop, out)
	show.spent(ctx) // with what the title has cost
	s.entitle(ctx, q, client)
	return q.stopped(ctx, out)
}

// entitle tells the editor the title of the conversation, once it has one.
func (s *acpSession) entitle(ctx context.Context, q *query, client *acp.Client) {
	conv, err := q.log.Get(context.WithoutCancel(ctx))
	if err != nil {
		q.app.con.Warn("%v", err)
		return
	}
	if conv.Title != s.title {
		s.title = conv.Title
		client.Tell(acp.NewInfo(conv.Title, conv.UpdatedAt.UTC().Format(time.RFC3339)))
	}
}

// stopped is how a turn ended, in the protocol's words. It has few: what was stopped at another limit than those it knows is
// told as max_tokens, and the reason as a notice.
func (q *query) stopped(ctx context.Context, out agent.Outcome) (acp.StopReason, error) {
	switch out.State {
	case convstore.StateOK:
		return acp.EndTurn, nil
	case convstore.StateRefused:
		return acp.Refusal, nil
	case convstore.StateCancelled:
		return acp.Cancelled, nil
	case convstore.StatePartial, convstore.StateBudget:
		q.app.con.Note("stopped at a limit: %s", out.Reason)
		return wording.Either(out.Limit == agent.LimitTurns, acp.MaxRequests, acp.MaxTokens), nil
	}
	return "", outcomeError(ctx, q.conv.ID, q.again(), out)
}
