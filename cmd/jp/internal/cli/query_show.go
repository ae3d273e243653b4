package cli

import (
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"jp/cmd/jp/internal/agent"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/markdown"
	"jp/cmd/jp/internal/stream"
	"jp/cmd/jp/internal/term"
	"jp/cmd/jp/internal/turns"
	"jp/cmd/jp/internal/wording"
	"jp/convstore"
	"jp/profiles"
	"jp/tools"
	"jp/tools/brief"
	"jp/tools/unseen"
)

// show is what a person or a program sees of a run. In text the answer goes to stdout: on a terminal as it is said, laid out
// block by block; else whole at the end, so that a pipe never gets the first half of a run that failed or what was said between tool calls.
type show struct {
	query *query
	loop  *agent.Loop
	text  *markdown.Stream // of the message that is coming
	live  bool             // stdout is a terminal, text goes out as it comes
	said  bool             // something of the message that is coming was shown live
	shown bool             // the latest message was shown live
	err   error

	unstored bool // the answer is nowhere but on stdout

	thoughts *thoughts // nil when they are not shown

	turn    int           // number of this turn
	parts   *stream.Parts // of the message that is coming, as its client reads them; nil = it does not
	replies int           // of the model
	asking  time.Duration // what they took
	stopped *string       // why the last one ended; nil = it was cut off, or there was none

	rowsMu sync.Mutex
	rows   map[string]bool // calls that the tree shows
}

func (q *query) show(loop *agent.Loop) *show {
	s := &show{query: q, loop: loop, text: markdown.NewStream(q.app.con.Style()), live: q.app.con.Pretty() && q.app.con.IO.OutTTY}
	if q.app.con.Format() == console.FormatStream {
		q.lines = stream.NewWriter(console.Escaping{Writer: q.app.con.IO.Out}, q.conv.ID.String())
	} else if !q.app.con.Globals.Quiet && !q.app.con.JSON() {
		// Until the first sign of life. A question of a tool comes after one.
		q.app.con.IO, q.app.con.Progress = q.app.con.IO.Progress("waiting for "+loop.Model, term.ProgressOptions{})
		q.tree = term.NewTree(q.app.con.IO, term.TreeOptions{})
	}
	return s
}

// start opens the stream.
func (s *show) start(c convstore.Conversation, resume bool) {
	s.turn = c.Turns + 1
	if resume && (c.Status == convstore.StatusInterrupted || c.Status == convstore.StatusLost) {
		s.turn = c.Turns // the open turn goes on
	}
	if s.query.lines == nil {
		return
	}
	if s.query.o.client != nil {
		s.query.o.client.run.id = c.ID
	}
	set := s.loop.Tools.Set
	init := &stream.Init{
		ConversationID: c.ID.String(), Turn: s.turn, Model: s.loop.Model, Profile: s.query.conv.Profile, Tools: set.Names(),
		CWD: s.query.app.con.Env.Dir, MCPServers: serversOf(set), PermissionMode: wording.Either(s.query.app.con.Interactive() || s.query.asks != nil && s.query.o.heads.mode.Value != modeDontAsk, modeDefault, modeDontAsk), SlashCommands: []string{},
		APIKeySource: wording.Either(s.query.info.KeyEnv == "", "none", wording.Either(s.query.info.KeyEnv == "ANTHROPIC_API_KEY", s.query.info.KeyEnv, "user")),
		OutputStyle:  stream.OutputStyle, Skills: []string{}, Plugins: []struct{}{},
	}
	for _, skill := range s.query.offered {
		init.Skills = append(init.Skills, skill.Name)
	}
	if s.query.o.client != nil {
		init.Capabilities = []string{"interrupt_receipt_v1", "interrupt_cancel_queued_v1"}
	}
	s.write(init)
	if s.query.o.heads.replayUsers {
		s.write(stream.NewReplay(s.query.o.client.run.in))
	}
}

// servers.Parse are the MCP servers that tools of a set are of.
func serversOf(set tools.Set) []stream.ServerStatus {
	list := []stream.ServerStatus{}
	for t := range set.All() {
		if name, ok := t.MCP(); ok && !slices.Contains(list, stream.ServerStatus{Name: name, Status: "pending"}) {
			list = append(list, stream.ServerStatus{Name: name, Status: "pending"})
		}
	}
	return list
}

// stop ends everything that moves.
func (s *show) stop() {
	s.thoughts.end()
	s.query.app.con.Progress.End()
	s.flow(s.text.Flush())
	s.query.tree.Close()
}

func (s *show) write(l stream.Line) {
	if err := s.query.lines.Write(l); err != nil && s.err == nil {
		s.err = err
	}
}

// watch is told by the loop.
func (s *show) watch() agent.Watch {
	w := agent.Watch{Message: s.message, Call: s.call, Result: s.toolResult, Note: s.remark, Compacted: s.compacted}
	if s.query.o.heads.partial && s.query.lines != nil {
		s.parts = &stream.Parts{Model: s.loop.Model, Write: s.write, NewID: convstore.NewEventID}
		w.Text = s.parts.Text
	}
	if s.live {
		w.Text = func(delta string) {
			s.thoughts.end()
			s.query.app.con.Progress.End()
			s.said = s.said || delta != ""
			s.flow(s.text.Write(delta))
		}
	}
	if s.query.resolved.Config.Style.Reasoning == "full" && !s.query.app.con.Globals.Quiet && !s.query.app.con.JSON() {
		s.thoughts = &thoughts{show: s}
		w.Reasoning = func(delta string) {
			s.query.app.con.Progress.End()
			s.thoughts.add(delta)
		}
	}
	return w
}

func (s *show) put(text string) {
	if _, err := io.WriteString(s.query.app.con.IO.Out, text); err != nil && s.err == nil {
		s.err = err
	}
}

// flow shows a part of the answer as it is said.
func (s *show) flow(text string) {
	if text != "" {
		s.query.tree.Around(func() { s.put(text) })
	}
}

func (s *show) message(m agent.Message) {
	s.query.app.con.Progress.End()
	s.thoughts.end()
	s.flow(s.text.Flush())
	s.shown, s.said = s.said, false
	s.replies++
	s.asking += m.Took
	message := s.apiMessage(m)
	if s.parts != nil {
		s.parts.End(&message)
	}
	if s.query.lines != nil {
		s.write(&stream.Assistant{ConversationID: s.query.conv.ID.String(), Text: m.Text, Usage: usage(m.Usage), CostUSD: usd(m.Cost), Message: message})
	}
}

func (s *show) call(c convstore.ToolCall) {
	s.query.app.con.Progress.End()
	if s.query.lines != nil {
		l := s.toolCall(c)
		s.write(&l)
		return
	}
	if s.query.tree == nil || !s.query.resolved.Config.Style.ShowToolCall || c.Source == "delegation" {
		return
	}
	width := 100
	if s.query.app.con.IO.Width > 20 {
		width = s.query.app.con.IO.Width - 2
	}
	line := term.Cut(unseen.Fold(unseen.Spell(c.Name+" "+brief.Prefix(string(c.Arguments), 16*width))), width, s.query.app.con.IO.UTF8)
	s.query.tree.Around(func() { _, _ = io.WriteString(s.query.app.con.IO.Err, "· "+line+"\n") })
}

func (s *show) toolResult(c convstore.ToolCall, r convstore.ToolResult, took time.Duration) {
	if s.query.lines != nil {
		l := &stream.ToolResult{ConversationID: s.query.conv.ID.String(), ID: c.ID, Name: c.Name, Text: r.Text, IsError: r.IsError, DurationMS: took.Milliseconds()}
		s.write(l)
		if !s.query.delegated { // its caller knows our own lines
			s.write(stream.NewUser(l))
		}
		return
	}
	if s.query.tree != nil && r.IsError && !s.hasRow(c.ID) {
		line, _, _ := strings.Cut(r.Text, "\n")
		s.query.tree.Around(func() {
			s.query.app.con.Note("%s: %s", c.Name, term.Cut(term.Line(line), 160, s.query.app.con.IO.UTF8))
		})
	}
}

// remark is what the loop did unasked.
func (s *show) remark(n convstore.Note) {
	s.query.logNote(s.loop, n)
	if s.query.tree != nil {
		line, _, _ := strings.Cut(n.Text, "\n")
		s.query.tree.Around(func() { s.query.app.con.Note("%s", line) })
	}
}

// logNote logs what became of the tools of a turn that folds late results in.
func (q *query) logNote(loop *agent.Loop, n convstore.Note) {
	if n.Kind == agent.NoteSynthesis {
		held := loop.Synthesis.Tools.Len()
		q.app.con.Logger().Info("tools", "conversation", q.conv.ID, "role", profiles.RoleSynthesis, "allowed", held, "denied", loop.Tools.Set.Len()-held)
	}
}

// compacted is told when what is old was left out.
func (s *show) compacted(c convstore.Compaction) {
	if s.query.lines != nil {
		s.write(&stream.Compaction{
			ConversationID: s.query.conv.ID.String(), Reason: c.Reason, Results: len(c.Results), Summary: c.Summary != "",
			TokensBefore: c.Before, TokensAfter: c.After,
		})
		return
	}
	if s.query.tree != nil {
		s.query.tree.Around(func() { s.query.app.con.Note("%s", turns.Compacted(c)) })
	}
}

// delegation is told by the delegator, from any goroutine.
func (s *show) delegation(d *stream.Delegation) {
	if s.query.lines != nil {
		_ = s.query.lines.Write(d) // the writer keeps its first error, and the result meets it
		return
	}
	call, _, _ := strings.Cut(d.CallID, "#") // items of a batch are numbered
	s.rowsMu.Lock()
	if s.rows == nil {
		s.rows = map[string]bool{}
	}
	s.rows[call] = true
	s.rowsMu.Unlock()
	s.query.tree.Update(d)
}

// hasRow reports whether the tree shows what became of a call.
func (s *show) hasRow(call string) bool {
	s.rowsMu.Lock()
	defer s.rowsMu.Unlock()
	return s.rows[call]
}

// broken writes the last word of a run that has no outcome. Whoever reads JSON waits for one.
func (s *show) broken(err error) error {
	if !s.query.app.con.JSON() {
		return nil
	}
	r := failedResult(s.query.conv.ID.String(), err)
	r.Turn, r.Model, r.DurationMS = s.turn, s.loop.Model, time.Since(s.query.began).Milliseconds()
	return s.result(r)
}

// result writes the last word.
func (s *show) result(r *stream.Result) error {
	if r.Status != string(convstore.StateOK) && r.Status != string(convstore.StatePartial) && !s.unstored {
		r.Said, r.Result = r.Result, "" // half of a reply that failed is no answer
	}
	r.NumTurns, r.DurationAPIMS, r.StopReason = s.replies, s.asking.Milliseconds(), s.stopped
	if c := s.query.o.client; c != nil {
		c.run.answered = true
	}
	switch {
	case s.query.lines != nil:
		s.write(r)
	case s.query.app.con.JSON():
		return s.query.app.resultDocument(r)
	case s.live && s.shown:
	case r.Result != "" && s.query.app.con.Pretty() && r.Structured == nil:
		s.put(markdown.Render(r.Result, s.query.app.con.Style()))
	case r.Result != "":
		text := s.query.app.con.IO.Text(r.Result)
		if !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		s.put(text)
	}
	return s.err
}

func usage(u convstore.Usage) stream.Usage {
	return stream.Usage{InputTokens: u.Input, OutputTokens: u.Output, CacheReadTokens: u.CacheRead, CacheWriteTokens: u.CacheWrite}
}

func usd(nano *int64) *stream.USD {
	if nano == nil {
		return nil
	}
	u := stream.USD(*nano)
	return &u
}
