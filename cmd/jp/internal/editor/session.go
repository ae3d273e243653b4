package editor

import (
	"context"
	"time"

	"jp/cmd/jp/internal/acp"
	"jp/cmd/jp/internal/agent"
	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/run"
	"jp/cmd/jp/internal/servers"
	"jp/cmd/jp/internal/show"
	"jp/cmd/jp/internal/wording"
	"jp/convstore"
)

// session is a conversation that an editor has open. It holds the run lock only while a prompt
// runs, so a person may continue the conversation from a shell between prompts.
type session struct {
	server  *server
	dir     string // folder of the editor's project
	id      convstore.ID
	home    string // store of its workspace
	title   string // title that the editor was sent last
	notices *notices
	servers map[string]servers.Server // servers that the editor has passed
	options sessionOptions

	reported bool // whether unused has reported
}

// ID returns the id of the conversation.
func (s *session) ID() string { return s.id.String() }

// Home returns the path of the conversation's store. An id is unique only in its store.
func (s *session) Home() string { return s.home }

// open returns an Env in the session's workspace, after a check that the user trusts it. The caller
// calls done.
func (s *session) open(ctx context.Context) (own *run.Env, done func(), err error) {
	own = s.server.at(s.dir, s.notices)
	con := own.Con
	closeLog := func() { _ = con.Log.Close() }
	defer func() {
		if err != nil {
			closeLog()
		}
	}()
	if err := s.server.within(own); err != nil {
		return nil, nil, err
	}
	own.Servers.Editor = s.servers
	store, err := own.WS.Store(ctx)
	if err == nil {
		_, err = own.WS.Gate.Pass(ctx)
	}
	switch {
	case err != nil:
		return nil, nil, err
	case s.home == "": // the session is new
		s.home = store.Path()
	case s.home != store.Path():
		return nil, nil, acp.Paramsf("session %s: %s is in another workspace now", s.id, s.dir)
	}
	return own, closeLog, nil
}

// begin makes a new conversation.
func (s *session) begin(ctx context.Context, setup acp.Setup) error {
	own, done, err := s.open(ctx)
	if err != nil {
		return err
	}
	defer done()
	o := s.server.o
	own.WS.SetDirectives(o.directives)
	req := run.Request{New: true, Unasked: true, Editor: true, Directives: o.directives, Role: o.role}
	req.UseModel(o.model.Value)
	if err := s.serversOf(ctx, own, setup); err != nil {
		return err
	}
	r, err := own.Open(ctx, nil, req)
	if err != nil {
		return err
	}
	defer r.Close(ctx)
	r.Keep()
	s.id = r.Conv.ID
	s.options.learn(ctx, own, r.Conv, r.Resolved)
	return nil
}

// load reads the conversation id. The session keeps no Env: an Env holds the files of its workspace.
func (s *session) load(ctx context.Context, id string, setup acp.Setup) (acp.Replay, error) {
	var err error
	if s.id, err = convstore.ParseID(id); err != nil {
		return nil, err
	}
	own, done, err := s.open(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := s.serversOf(ctx, own, setup); err != nil {
		return nil, err
	}
	conv, err := own.Stored(ctx, s.id, run.Request{})
	if err != nil {
		return nil, err
	}
	s.title = conv.Conv.Title
	s.options.learn(ctx, own, conv.Conv, conv.Resolved)
	return func(ctx context.Context, tell func(acp.Update)) error { return wireError(replay(ctx, own, conv, tell)) }, nil
}

// Prompt returns one turn.
func (s *session) Prompt(prompt []acp.Block) acp.Run {
	chosen := s.options.now()
	return func(ctx context.Context, client *acp.Client) (acp.StopReason, error) {
		s.notices.to(client.Note)
		defer s.notices.to(nil)
		stop, err := s.prompt(ctx, prompt, chosen, client)
		return stop, wireError(err)
	}
}

func (s *session) prompt(ctx context.Context, prompt []acp.Block, chosen choice, client *acp.Client) (acp.StopReason, error) {
	own, done, err := s.open(ctx)
	if err != nil {
		return "", err
	}
	defer done()
	host, closeHost := s.server.host()
	defer closeHost()
	defer own.Servers.Close()
	root, err := own.WS.Root()
	if err != nil {
		return "", err
	}
	v := &view{env: own, client: client, reply: convstore.NewEventID()}
	req := run.Request{ID: command.Given(s.id.String()), Asker: v}
	own.Servers.Approve = v.approve
	if req.Task, err = prompted(ctx, own.Con, root, prompt); err != nil {
		return "", err
	}
	s.options.apply(chosen, &req)
	r, err := own.Open(ctx, host, req)
	if err != nil {
		return "", err
	}
	v.run = r
	whole := ctx
	ctx, abandon := context.WithCancelCause(ctx)
	defer abandon(nil)
	defer r.OnStop(abandon)()
	defer r.Close(whole)
	ctx, cancel, _ := r.WithDeadline(ctx)
	defer cancel()
	defer context.AfterFunc(ctx, client.Insist)()
	defer func() {
		ctx, stop := convstore.Briefly(ctx)
		defer stop()
		if s.options.learn(ctx, own, r.Conv, r.Resolved) {
			client.Tell(acp.NewChosen(s.Options()))
		}
	}()
	ag, err := r.Agent(ctx)
	if err != nil {
		return "", err
	}
	if err := r.Surface(ctx); err != nil {
		return "", err
	}
	s.unused(own, ag.Loop.Tools.Set)
	v.agent = ag
	ag.Watch(v.delegation)
	ag.Loop.Watch, ag.Loop.Tools.Started = v.watch(), v.started
	out, err := ag.Turn(ctx)
	if err != nil {
		return "", err
	}
	s.options.applied(chosen)
	if left := r.Finish(ctx, out); left != nil {
		own.Con.Warn("%v", left)
	}
	r.Expire(ctx)
	ag.Name(ctx, out, nil)
	v.spent(ctx) // includes the cost of the title
	s.entitle(ctx, own, r, client)
	return stopped(ctx, own, r, out)
}

// entitle sends the editor the title of the conversation if it has changed.
func (s *session) entitle(ctx context.Context, own *run.Env, r *run.Run, client *acp.Client) {
	ctx, stop := convstore.Briefly(ctx)
	defer stop()
	conv, err := r.Log.Get(ctx)
	if err != nil {
		own.Con.Warn("%v", err)
		return
	}
	if conv.Title != s.title {
		s.title = conv.Title
		client.Tell(acp.NewInfo(conv.Title, conv.UpdatedAt.UTC().Format(time.RFC3339)))
	}
}

// stopped returns the protocol's reason why a turn ended. For a limit that the protocol does not
// know it returns max_tokens, and a notice has the reason.
func stopped(ctx context.Context, own *run.Env, r *run.Run, out agent.Outcome) (acp.StopReason, error) {
	switch out.State {
	case convstore.StateOK:
		return acp.EndTurn, nil
	case convstore.StateRefused:
		return acp.Refusal, nil
	case convstore.StateCancelled:
		return acp.Cancelled, nil
	case convstore.StatePartial, convstore.StateBudget:
		own.Con.Note("stopped at a limit: %s", out.Reason)
		return wording.Either(out.Limit == agent.LimitTurns, acp.MaxRequests, acp.MaxTokens), nil
	}
	return "", show.Failure(ctx, r.Conv.ID, r.WorkspaceFlag(), r.Again(), out)
}
