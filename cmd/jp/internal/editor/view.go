package editor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"jp/cmd/jp/internal/acp"
	"jp/cmd/jp/internal/agent"
	"jp/cmd/jp/internal/enabled"
	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/run"
	"jp/cmd/jp/internal/stream"
	"jp/cmd/jp/internal/term"
	"jp/cmd/jp/internal/toolcall"
	"jp/cmd/jp/internal/turns"
	"jp/cmd/jp/internal/wording"
	"jp/convstore"
	"jp/convstore/amount"
	"jp/convstore/usage"
	"jp/tools"
	"jp/tools/brief"
)

// view shows a turn to an editor, and asks its user. It is the run.Asker of the turn.
type view struct {
	env    *run.Env // Env of the prompt
	client *acp.Client
	run    *run.Run   // nil before it is open
	agent  *run.Agent // nil before there is one
	reply  string     // event id for the next reply, before it is stored
	used   int64      // tokens of the latest request and its reply

	mu    sync.Mutex
	below map[string]*subagent // sub-agents, by conversation
	calls map[string][]string  // their conversations, by call of this turn, in the order they came
}

// subagent is the line that shows a sub-agent.
type subagent struct {
	call  string // call of this turn that it works for, at any depth
	depth int    // number of sub-agents between it and the call
	line  string
}

// watch returns the functions that the loop calls.
func (v *view) watch() agent.Watch {
	return agent.Watch{
		Text:      func(delta string) { v.say(acp.ByAgent, delta) },
		Reasoning: func(delta string) { v.say(acp.InThought, delta) },
		Message:   v.replied,
		Call:      func(c convstore.ToolCall) { v.client.Tell(callShown(v.run.Root, c)) },
		Result: func(c convstore.ToolCall, r convstore.ToolResult, _ time.Duration) {
			v.client.Tell(answered(r))
		},
		Note:      v.remark,
		Compacted: func(c convstore.Compaction) { v.client.Tell(compacted(convstore.NewEventID(), c)) },
	}
}

// remark shows a note about what the loop did by itself.
func (v *view) remark(n convstore.Note) {
	v.agent.LogNote(n)
	line, _, _ := strings.Cut(n.Text, "\n")
	v.env.Con.Note("%s", line)
}

func (v *view) say(kind acp.ChunkKind, text string) {
	if text != "" {
		v.client.Tell(acp.Chunk{Kind: kind, Content: acp.Text(text), Message: messageID(v.reply, kind)})
	}
}

// replied is called after each reply.
func (v *view) replied(m agent.Message) {
	u := m.Usage
	v.used = u.Input + u.CacheRead + u.CacheWrite + u.Output
	v.filled("")
	v.reply = convstore.NewEventID()
}

// filled sends the editor how full the model's window is, if its size is known.
func (v *view) filled(usd json.Number) {
	info, err := model.Lookup(v.agent.Loop.Models[0].Model, v.run.Providers())
	if size := cmp.Or(v.run.Resolved.Config.Conversation.Compact.Window, info.Window); err == nil && size > 0 && v.used > 0 {
		v.client.Tell(acp.NewUsage(v.used, int64(size), usd))
	}
}

// spent sends that again, with the cost of the conversation and everything below it so far.
func (v *view) spent(ctx context.Context) {
	ctx, stop := convstore.Briefly(ctx)
	defer stop()
	all, err := usage.Spent(ctx, v.run.Store.View, v.run.Conv.ID)
	if err != nil {
		v.env.Con.Warn("%v", err)
		return
	}
	var sum int64
	for _, c := range all.Charges {
		switch {
		case c.Replayed: // nothing was paid
		case c.CostNano == nil:
			return // the cost is unknown
		default:
			sum = amount.Sum(sum, *c.CostNano)
		}
	}
	b, err := stream.USD(sum).MarshalJSON()
	if err == nil {
		v.filled(json.Number(b))
	}
}

// messageID returns the id of the message of an event. The model's reasoning is a separate message.
func messageID(event string, kind acp.ChunkKind) string {
	return event + wording.Either(kind == acp.InThought, "-thought", "")
}

// compacted returns the update that shows a compaction.
func compacted(id string, c convstore.Compaction) acp.Compaction {
	return acp.Compaction{ID: id, Text: turns.Compacted(c), Summary: c.Summary}
}

// started is called when a call begins to run.
func (v *view) started(c tools.Call) {
	v.client.Tell(acp.ToolCall{Kind: acp.Change, ID: c.ID, Status: acp.InProgress})
}

// answered returns the update that shows the result of a call.
func answered(r convstore.ToolResult) acp.ToolCall {
	c := acp.ToolCall{Kind: acp.Change, ID: r.ID, Status: wording.Either(r.IsError, acp.Failed, acp.Completed)}
	if r.Text != "" {
		c.Content = []acp.CallContent{shownText(r.Text)}
	}
	return c
}

// shownText returns a text as the content of a call, cut if it is long.
func shownText(text string) acp.CallContent {
	if len(text) > toolcall.MaxShown {
		text = fmt.Sprintf("%s\n[cut here: the first %d KiB of %d; jp conversation print shows all]", brief.Prefix(text, toolcall.MaxShown), toolcall.MaxShown>>10, len(text)>>10)
	}
	return acp.TextContent(text)
}

// callShown returns the update that shows a call before it runs.
func callShown(root string, c convstore.ToolCall) acp.ToolCall {
	t := acp.ToolCall{
		Kind: acp.NewCall, ID: c.ID, Name: c.Name, Title: toolcall.Title(c), ToolKind: acp.KindOther, Status: acp.Pending, Input: rawInput(c.Arguments),
	}
	if len(c.Arguments) > toolcall.MaxShown {
		t.Input, t.Content = nil, []acp.CallContent{shownText(string(c.Arguments))}
		return t
	}
	if c.Source == tools.SourceLocal {
		t.ToolKind = acp.KindExecute
	}
	args, ok := toolcall.ArgsOf(c)
	if !ok {
		return t
	}
	own := c.Source == tools.SourceBuiltin
	path := args.Path
	if path != "" && !filepath.IsAbs(path) {
		path = filepath.Join(root, path)
	}
	switch {
	case own && c.Name == "fs_read_file":
		t.ToolKind = acp.KindRead
	case own && (c.Name == "fs_list_files" || c.Name == "fs_grep_files"), c.Source == tools.SourceConversation && c.Name == "jp_conversation_grep":
		t.ToolKind = acp.KindSearch
	case own && c.Name == "fs_create_file":
		t.ToolKind = acp.KindEdit
		t.Content = []acp.CallContent{acp.DiffContent(path, nil, args.Content)}
	case own && c.Name == "fs_modify_file":
		t.ToolKind = acp.KindEdit
		for _, e := range args.Edits {
			t.Content = append(t.Content, acp.DiffContent(path, &e.Old, e.New))
		}
	case c.Source == tools.SourceConversation, own && c.Name == enabled.SkillTool:
		t.ToolKind = acp.KindRead
	}
	if own && args.Path != "" {
		t.Locations = []acp.Location{{Path: path, Line: args.Line}}
	}
	return t
}

// rawInput returns the arguments of a call: as JSON if they are valid, otherwise as text.
func rawInput(b json.RawMessage) any {
	switch {
	case len(b) == 0:
		return nil
	case json.Valid(b):
		return b
	}
	return string(b)
}

// callOf returns the call of a model that a delegation is for. Items of a batch and delegations of
// a tool are numbered behind it.
func callOf(delegation string) string {
	if i := strings.IndexAny(delegation, "#/"); i >= 0 {
		return delegation[:i]
	}
	return delegation
}

// delegation shows the progress of a sub-agent. The call that it works for has a line for each
// sub-agent, indented below its caller. The delegator calls it from any goroutine.
func (v *view) delegation(d *stream.Delegation) {
	if d.ConversationID == "" {
		return // the delegation was refused; the result of the call says so
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.below == nil {
		v.below, v.calls = map[string]*subagent{}, map[string][]string{}
	}
	b := v.below[d.ConversationID]
	if b == nil {
		b = &subagent{}
		v.below[d.ConversationID] = b
	}
	if up := v.below[d.ParentID]; up != nil {
		b.call, b.depth = up.call, up.depth+1
	} else {
		call := callOf(d.CallID)
		if b.call != call {
			b.call, b.depth = call, 0
		}
	}
	b.line = strings.Repeat("  ", b.depth) + "- " + d.Text()
	if d.Tokens > 0 {
		b.line += fmt.Sprintf(" (%s)", wording.Plural(int(d.Tokens), "token"))
	}
	ids := v.calls[b.call]
	if !slices.Contains(ids, d.ConversationID) {
		ids = append(ids, d.ConversationID)
		v.calls[b.call] = ids
	}
	lines := make([]string, len(ids))
	for i, id := range ids {
		lines[i] = v.below[id].line
	}
	v.client.Tell(acp.ToolCall{Kind: acp.Change, ID: b.call, Content: []acp.CallContent{acp.TextContent(strings.Join(lines, "\n"))}})
}

// The answers that the editor's user may choose.
const (
	allow       = "allow"
	allowTurn   = "allow-turn"
	allowAlways = "allow-always"
	deny        = "deny"
	denyTurn    = "deny-turn"
)

// Ask asks for permission; it is a tools.Prompter.
func (v *view) Ask(ctx context.Context, q tools.Question) (tools.Answer, error) {
	call := callShown(v.run.Root, toolcall.Asked(q))
	name := term.Line(q.Tool.Name)
	yes, no := "Run", "Do not run"
	once, turn := "it", name
	if q.Kind == tools.KindDeliver {
		yes, no = "Show the model", "Keep back"
		once, turn = "the result", "what "+name+" returns"
		call.Title, call.Status = toolcall.Line("give the model the result of", q.Text), acp.InProgress
		call.Content = nil
	}
	n, what := len(q.Detail), "result"
	if q.Kind == tools.KindRun { // each can be the longer one: the detail spells characters out, and counts spaces
		n, what = max(n, len(q.Call.Arguments)), "call"
	}
	switch {
	case n > toolcall.MaxShown:
		return tools.Answer{Choice: tools.DenyOnce, Reason: fmt.Sprintf("the %s is too long to be shown whole: %d KiB, more than %d", what, n>>10, toolcall.MaxShown>>10)}, nil
	case len(call.Content) == 0:
		call.Content = []acp.CallContent{shownText(q.Detail)}
	default: // a diff shows neither all arguments nor all characters
		if text := besideDiff(q); text != "" {
			call.Content = append(call.Content, acp.TextContent(text))
		}
	}
	const rest = " for the rest of this turn"
	options := []acp.Option{
		{ID: allow, Name: yes + " " + once, Kind: acp.AllowOnce},
		{ID: allowTurn, Name: yes + " " + turn + rest, Kind: acp.AllowAlways},
		{ID: deny, Name: no + " " + once, Kind: acp.RejectOnce},
		{ID: denyTurn, Name: no + " " + turn + rest, Kind: acp.RejectAlways},
	}
	if q.Always { // behind the narrower one: a key of the editor may take the first of a kind
		options = slices.Insert(options, 2, acp.Option{ID: allowAlways, Name: yes + " " + turn + " always in this conversation", Kind: acp.AllowAlways})
	}
	chosen, err := v.client.Permit(ctx, call, options)
	if errors.Is(err, acp.ErrUnable) {
		return tools.Answer{}, fmt.Errorf("%w: %w", tools.ErrNobody, err)
	}
	if errors.Is(err, acp.ErrAnswer) { // the user may have been asked, and did not say yes
		return tools.Answer{Choice: tools.DenyOnce, Reason: err.Error()}, nil
	}
	return tools.Answer{Choice: map[string]tools.Choice{
		allow: tools.AllowOnce, allowTurn: tools.AllowTurn, allowAlways: tools.AllowAlways, denyTurn: tools.DenyTurn,
	}[chosen]}, err
}

// besideDiff returns what the diff of a question does not show: other arguments, and invisible
// characters; "" = nothing.
func besideDiff(q tools.Question) string {
	var lines []string
	for line := range strings.SplitSeq(q.Detail, "\n") {
		if strings.HasPrefix(line, "overwrite = ") || strings.HasPrefix(line, "edit ") && strings.Contains(line, ", all = ") {
			lines = append(lines, line)
		}
	}
	if text := toolcall.Hidden(q.Call.Arguments); text != "" {
		lines = append(lines, text, q.Detail)
	}
	return strings.Join(lines, "\n")
}

// Question asks the editor's user a question of the model. Its errors are those of run.Asker.
func (v *view) Question(ctx context.Context, call, question string, options []string) (string, error) {
	shown := optionsShown(options)
	answer, err := v.client.Question(ctx, call, strings.TrimSpace(term.Clean(question)), shown)
	if i := slices.Index(shown, answer); i >= 0 {
		answer = options[i]
	}
	switch {
	case errors.Is(err, acp.ErrUnable), errors.Is(err, acp.ErrAnswer):
		return "", fmt.Errorf("%w: %w", term.ErrNobody, err)
	case err == nil && strings.TrimSpace(answer) == "":
		return "", io.EOF
	}
	return answer, err
}

// optionsShown returns the options of a question as they can be seen. They have numbers if some
// look the same, or like nothing.
func optionsShown(options []string) []string {
	shown, seen := make([]string, len(options)), map[string]bool{"": true}
	for i, o := range options {
		shown[i] = strings.TrimSpace(term.Line(o))
		seen[shown[i]] = true
	}
	if len(seen) <= len(options) {
		for i := range shown {
			shown[i] = fmt.Sprintf("%d) %s", i+1, shown[i])
		}
	}
	return shown
}
