package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/delegate"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/mcp"
	"jp/cmd/jp/internal/record"
	"jp/cmd/jp/internal/rule"
	"jp/cmd/jp/internal/run"
	"jp/cmd/jp/internal/spans"
	"jp/cmd/jp/internal/stream"
	"jp/cmd/jp/internal/term"
	"jp/cmd/jp/internal/version"
	"jp/cmd/jp/internal/wording"
	"jp/cmd/jp/internal/workspace"
	"jp/convstore"
	"jp/profiles"
	"jp/profiles/role"
	"jp/tools"
	"jp/tools/brief"
)

// serveOptions are the flags of jp mcp serve.
type serveOptions struct {
	rootID command.Maybe[string]
	title  command.Maybe[string]
	wait   command.Maybe[time.Duration]
}

func newServe(g *Group) *cli.Command {
	var o serveOptions
	return g.Tree.Command(command.Spec{
		Name: "serve", Summary: "serve as an MCP server: let another agent delegate",
		About: "Speaks the Model Context Protocol on stdin and stdout until stdin ends. The client " +
			"gets jp_query and jp_batch_query with the profiles of delegation.profiles, tools " +
			"that list, print and search sub-conversations, and their transcripts as resources " +
			"(jp://conversation/ID). All of it is below one conversation: a new one, or ID of " +
			"--root-id, within its limits. A call that asks for progress gets news of its " +
			"sub-agents. If a call is cancelled, or the client ends, its sub-agents are stopped.",
		Flags: []*command.Option{
			command.String(&o.rootID, "root-id", "ID", "delegate on behalf of ID, within its limits"),
			command.Text(&o.title, "title", "TEXT", "title of the new conversation"),
			run.WaitFlag(&o.wait),
		},
		Exits:    []exit.Status{exit.NotFound, exit.Busy, exit.Refused, exit.Hangup, exit.Interrupted, exit.Quit, exit.Terminated},
		Examples: []string{"jp mcp serve", "jp mcp serve --root-id jp-c17543982411"},
		Run:      func(ctx context.Context, _ []string) error { return g.serve(ctx, o) },
	})
}

func (g *Group) serve(ctx context.Context, o serveOptions) error {
	if err := g.Env.WS.Persist("mcp serve"); err != nil {
		return err
	}
	if err := record.Refuse(g.Env.Con, "mcp serve"); err != nil {
		return err
	}
	if o.rootID.Set && o.title.Set {
		return command.ErrMixed("--root-id", "--title")
	}
	g.Env.WaitFor(o.wait.Value)
	g.Env.Con.Globals.NonInteractive = true // the client has stdin and stdout
	return g.Env.Delegating(ctx, func(ctx context.Context, s *run.Session) error {
		serving := &service{env: g.Env, session: s, telling: map[string]func(string){}}
		if err := serving.open(ctx, o); err != nil {
			return errors.Join(err, serving.end(ctx, err))
		}
		failed := mcp.Service{
			Version: version.Version, Instructions: delegate.Guidance, Tools: serving.d.Set(), ReadOnly: serving.readOnly(ctx), Call: serving.call, Texts: serving.texts, Read: serving.read,
			Bound: func(ctx context.Context) { g.Env.Con.IO.Bound(ctx) }, Template: conversationURI + "{id}",
		}.Run(ctx, g.Env.Con.IO.In, g.Env.Con.IO.Out)
		if errors.Is(failed, term.ErrUnread) {
			failed = nil // the client has ended, and does not want the rest
		}
		if cause := context.Cause(ctx); cause != nil {
			failed = cause
		}
		return errors.Join(failed, serving.end(ctx, failed))
	})
}

// conversationURI is the prefix of the address of a transcript.
const conversationURI = "jp://conversation/"

// service is one run of jp mcp serve.
type service struct {
	env     *run.Env
	session *run.Session
	d       *delegate.Delegator

	profiles []string // profiles that a client may name

	mu      sync.Mutex
	telling map[string]func(string) // functions that send progress, by id of the running call
}

// open finds or makes the conversation that all calls are below.
func (s *service) open(ctx context.Context, o serveOptions) error {
	cfg := s.session.Resolved.Config
	if !cfg.Delegation.Enabled {
		return exit.Refusedf("delegation.enabled: is false").WithHint("`jp config show` says where it is set")
	}
	names := []string{"jp_query", "jp_batch_query"}
	caller := rule.Caller{Tools: names, Limits: rule.LimitsOf(cfg, s.env.WaitLimit)}
	var scope convstore.Scope
	if o.rootID.Set {
		root, err := s.env.WS.Target(ctx, o.rootID.Value)
		if err != nil {
			return err
		}
		st, err := s.session.StandFor(ctx, root)
		if err != nil {
			return err
		}
		scope, caller = st.Scope, st.Caller
	} else {
		if len(cfg.Delegation.Profiles) == 0 {
			return exit.Refusedf("delegation.profiles: names no profile to delegate to").WithHint("list some profiles in .jp/config.toml; `jp profile ls` shows them")
		}
		// The service is one turn. The limits of a session bound its calls.
		l := &caller.Limits
		l.Share = 1 // there is no main agent to keep a share for
		l.MaxPerTurn = 10 * max(l.MaxChildren, 1)
		const about = "an MCP client"
		n := convstore.New{Title: cmp.Or(o.title.Value, about), Hidden: true}
		if err := s.session.Begin(ctx, n, about, rule.SessionLimits(cfg, *l)); err != nil {
			return err
		}
		s.session.Unused = true
		s.env.Con.Note("serving below %s", s.session.Conv.ID)
		scope = s.session.Log.Below()
	}
	s.profiles = caller.Limits.Profiles
	opt := s.session.Delegation(scope)
	opt.Limits, opt.Lanes = caller.Limits, caller.Limits.MaxParallel
	var err error
	if s.d, err = delegate.New(opt, func(funcs delegate.Funcs) (tools.Set, error) { return armed(caller, funcs) }); err == nil {
		s.d.Watch(s.watch)
	}
	return err
}

// armed returns the tools of the service: those of the caller that delegate, and those that read
// conversations.
func armed(caller rule.Caller, funcs delegate.Funcs) (tools.Set, error) {
	var set []tools.Tool
	for _, name := range []string{"jp_query", "jp_batch_query", "jp_conversation_list", "jp_conversation_print", "jp_conversation_grep"} {
		def, ok := tools.Embedded(name)
		if !ok || def.Source == tools.SourceDelegation && !slices.Contains(caller.Tools, name) {
			continue
		}
		var err error
		switch name {
		case "jp_query":
			def, err = def.WithEnum("config", caller.Limits.Profiles)
		case "jp_batch_query":
			def, err = def.WithEnum("queries.config", caller.Limits.Profiles)
		}
		if err != nil {
			return tools.Set{}, err
		}
		f, _ := funcs(name)
		set = append(set, tools.Tool{Definition: def, Func: f})
	}
	return tools.NewSet(set...)
}

// readOnly returns a function that reports whether a tool changes nothing. Tools that read
// conversations change nothing. Tools that delegate change nothing if the tools of every profile
// only read files and conversations. A profile that cannot be resolved counts as one that changes
// something.
func (s *service) readOnly(ctx context.Context) func(tools.Tool) bool {
	delegations := !slices.ContainsFunc(s.profiles, func(name string) bool { return !s.onlyReads(ctx, name) })
	return func(t tools.Tool) bool {
		return t.Source == tools.SourceConversation || t.Source == tools.SourceDelegation && delegations
	}
}

func (s *service) onlyReads(ctx context.Context, profile string) bool {
	reading, err := role.Tools(role.Synthesis)
	if err != nil {
		return false
	}
	src, err := s.env.WS.Sources(ctx, nil)
	if err != nil {
		return false
	}
	found, err := profiles.Find(src, profile)
	if err != nil {
		return false
	}
	r, err := profiles.Resolve(src, workspace.UnderNone(found.Arg), nil)
	if err != nil {
		return false
	}
	defs, err := s.env.Definitions(ctx, r)
	return err == nil && !slices.ContainsFunc(defs, func(d tools.Definition) bool { return !reading.Matches(d.Name, d.Source) })
}

// call runs one call of the client. Calls need no permission: who started the server gave it.
func (s *service) call(ctx context.Context, name string, args json.RawMessage, tell func(string)) tools.Result {
	id := "mcp-" + convstore.NewEventID()
	s.mu.Lock()
	s.telling[id] = tell
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.telling, id)
		s.mu.Unlock()
	}()
	yes := tools.Decision{Allow: true}
	run := tools.Executor{
		Set:    s.d.Set(),
		Around: spans.CallOf(s.d.Scope().Caller()),
		Permit: func(ctx context.Context, t tools.Tool, _ tools.Call) (tools.Decision, error) {
			if t.Source == tools.SourceDelegation {
				return yes, s.show(ctx)
			}
			return yes, nil
		},
		Deliver: func(context.Context, tools.Tool, tools.Call, tools.Result) (tools.Decision, error) { return yes, nil },
	}
	var result tools.Result
	for _, r := range run.Run(ctx, []tools.Call{{ID: id, Name: name, Arguments: args}}) {
		result = r
	}
	return result
}

// show makes the conversation that open made one that a person finds. Clients start their servers for
// each session, and most of them call none.
func (s *service) show(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.session.Unused {
		return nil
	}
	err := s.session.Store.Edit(ctx, s.session.Conv.ID, func(c *convstore.Conversation) error {
		c.Hidden = false
		return nil
	})
	s.session.Unused = err != nil
	return err
}

// watch sends the progress of a delegation to the call that it belongs to.
func (s *service) watch(d *stream.Delegation) {
	call, _, _ := strings.Cut(d.CallID, "#") // items of a batch are numbered
	s.mu.Lock()
	tell := s.telling[call]
	s.mu.Unlock()
	if tell == nil {
		return
	}
	tell(d.Text())
}

// texts lists the conversations of the subtree.
func (s *service) texts(ctx context.Context) ([]mcp.Text, error) {
	convs, err := s.d.Scope().List(ctx, convstore.Filter{Hidden: true})
	if err != nil {
		return nil, err
	}
	list := make([]mcp.Text, len(convs))
	for i, c := range convs {
		list[i] = mcp.Text{URI: conversationURI + c.ID.String(), Name: c.ID.String(), Title: c.Title}
	}
	return list, nil
}

// read returns the transcript of one of them as the tool prints it, but with a larger limit than a
// tool's result has.
func (s *service) read(ctx context.Context, uri string) (string, error) {
	word, ok := strings.CutPrefix(uri, conversationURI)
	if !ok {
		return "", fmt.Errorf("%s: want %sID", uri, conversationURI)
	}
	id, err := convstore.ParseID(word)
	if err != nil {
		return "", err
	}
	text, size, err := s.d.Transcript(ctx, id, tools.DefaultBatchBytes)
	switch {
	case err != nil:
		return "", err
	case size == 0:
		return id.String() + " holds nothing yet", nil
	case size > len(text):
		text = brief.Prefix(text, tools.DefaultBatchBytes-1)
		return fmt.Sprintf("%s\n[%d of %d bytes are cut here; jp conversation print %s shows them]", text, size-len(text), size, id), nil
	}
	return text, nil
}

// end ends the turn of the conversation that open made, if any.
func (s *service) end(ctx context.Context, failed error) error {
	calls := 0
	if s.d != nil { // else it could not be opened
		calls = s.d.Calls()
	}
	return s.session.Conclude(ctx, wording.Plural(calls, "sub-agent call")+" for an MCP client", run.EndOf(ctx, failed, convstore.TurnEnd{State: convstore.StateOK}))
}
