// Package show is what a run looks like: text for a person, JSON, or lines for a program
// (docs/headless.md).
//
// A Show is made before the run is opened, because the run waits and asks through it. Begin gives
// it the run and its agent. A run does not depend on how it is shown.
package show

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"jp/cmd/jp/internal/agent"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/markdown"
	"jp/cmd/jp/internal/run"
	"jp/cmd/jp/internal/stream"
	"jp/cmd/jp/internal/term"
	"jp/cmd/jp/internal/toolcall"
	"jp/cmd/jp/internal/turns"
	"jp/cmd/jp/internal/wording"
	"jp/convstore"
	"jp/tools"
	"jp/tools/brief"
	"jp/tools/unseen"
)

// Show is what a person or a program sees of a run. As text, the answer goes to stdout. On a
// terminal, and with Options.Words, it is printed as it comes, by the word. Otherwise it is printed
// whole at the end, so that a pipe never gets half an answer, or text between tool calls, and a
// reply that breaks can be asked for again. What was printed is never asked for again.
type Show struct {
	con   *console.Console
	o     Options
	run   *run.Run       // nil before begin
	agent *run.Agent     // nil before begin
	tree  *term.Tree     // tree of sub-agents; nil = not shown
	lines *stream.Writer // writer of stream-json; nil = another format

	live  *answer // shows the text of the message that is coming; nil = it is printed whole at the end
	said  bool    // a part of the message that is coming was printed
	shown bool    // the latest message was printed as it came
	errMu sync.Mutex
	err   error // first error of stdout

	Unstored bool // the answer is nowhere but on stdout

	thoughts *thoughts // reasoning; nil = not shown

	turn    int           // number of this turn
	parts   *stream.Parts // parts of the message that is coming, for a client; nil = not wanted
	replies int           // number of replies of the model
	asking  time.Duration // time that the replies took
	stopped *string       // reason why the last reply ended; nil = it was cut off, or there was none

	rowsMu sync.Mutex
	rows   map[string]bool // calls that the tree of sub-agents shows
}

// Options says what is shown, and to whom.
type Options struct {
	Partial bool // show parts of a message as they come
	Words   bool // print the words of all messages as they come, also where stdout is no terminal; not JSON
	Asks    bool // a client answers questions about tools
	Client  *Client
	// Unread ends the run: a line could not be written, and nobody reads those that would come.
	Unread context.CancelCauseFunc
}

// Client is a program that reads the lines of several runs; nil = there is none.
type Client struct {
	Message  stream.Input // message that this run answers
	Replay   bool         // write Message again
	Paid     Used         // by the runs before; Result adds this one
	Begun    func(convstore.ID)
	Answered func(*stream.Result)
}

func New(con *console.Console, o Options) *Show {
	return &Show{con: con, o: o}
}

// Aside runs f while nothing else writes to the terminal.
func (s *Show) Aside(f func()) { s.tree.Around(f) }

// Begin shows a run whose turn begins; resume reports whether an open turn is resumed.
func (s *Show) Begin(r *run.Run, ag *run.Agent, resume bool) {
	s.run, s.agent = r, ag
	people, quiet := !s.con.JSON(), s.con.Globals.Quiet
	if s.con.Format() == console.FormatStream {
		s.lines = stream.NewWriter(console.Escaping{Writer: s.con.IO.Out}, session(s.con, r.Conv.ID.String()))
	}
	if people && !quiet {
		// The spinner runs until the model sends something. A question of a tool comes later.
		s.con.IO, s.con.Progress = s.con.IO.Progress("waiting for "+ag.Loop.Models[0].Model, term.ProgressOptions{})
	}
	if people && (s.con.IO.OutTTY || s.o.Words) {
		s.live = newAnswer(s)
	}
	if people && !quiet {
		s.tree = term.NewTree(s.con.IO, term.TreeOptions{})
		s.con.Tree = s.tree
	}
	ag.Watch(s.delegation)
	ag.Loop.Watch = s.watch()
	s.start(r.Conv, resume)
	if c := r.Conv; c.Turns > 0 {
		s.beside(fmt.Sprintf("%s, turn %d (--new begins another): %s, %s, %s tokens", c.ID, s.turn, c.Title, ag.Loop.Models[0].Model, term.Count(c.Usage.Tokens())))
	}
}

// beside shows a line about the run to who watches it on a terminal.
func (s *Show) beside(line string) {
	if s.tree != nil {
		s.tree.Around(func() { dim(s.con.IO, line) })
	}
}

// dim writes a line beside the answer, if a terminal shows it.
func dim(io *term.IO, line string) {
	if !io.ErrTTY {
		return
	}
	line = term.Line(line)
	if io.Width > 1 {
		line = term.Cut(line, io.Width-1, io.UTF8)
	}
	if io.ErrColor {
		line = "\x1b[2m" + line + "\x1b[0m"
	}
	fmt.Fprintln(io.Err, line)
}

// Titling returns what shows that a model is asked for a title; nil if nothing is shown.
func (s *Show) Titling() func() (end func()) {
	if s.tree == nil {
		return nil
	}
	return func() func() {
		s.con.IO, s.con.Progress = s.con.IO.Progress("finding a title; Ctrl-C skips it", term.ProgressOptions{})
		return s.con.Progress.End
	}
}

// start opens the stream.
func (s *Show) start(c convstore.Conversation, resume bool) {
	s.turn = c.Turns + 1
	if resume && (c.Status == convstore.StatusInterrupted || c.Status == convstore.StatusLost) {
		s.turn = c.Turns // the open turn is resumed
	}
	if s.lines == nil {
		return
	}
	if s.o.Client != nil {
		s.o.Client.Begun(c.ID)
	}
	set := s.agent.Loop.Tools.Set
	init := &stream.Init{
		ConversationID: c.ID.String(), Turn: s.turn, Model: s.model(), Profile: s.run.Conv.Profile, Tools: set.Names(),
		Surroundings: &stream.Surroundings{
			CWD: s.con.Env.Dir, MCPServers: serversOf(set), PermissionMode: wording.Either(s.con.Interactive() || s.o.Asks, stream.ModeDefault, stream.ModeDontAsk), SlashCommands: []string{},
			APIKeySource: wording.Either(s.agent.Info.KeyEnv == "", "none", wording.Either(s.agent.Info.KeyEnv == "ANTHROPIC_API_KEY", s.agent.Info.KeyEnv, "user")),
			OutputStyle:  stream.OutputStyle, Skills: []string{}, Plugins: []struct{}{},
		},
	}
	for _, skill := range s.agent.Skills {
		init.Skills = append(init.Skills, skill.Name)
	}
	if s.o.Client != nil {
		init.Capabilities = []string{"interrupt_receipt_v1", "interrupt_cancel_queued_v1"}
	}
	s.write(init)
	if s.o.Client != nil && s.o.Client.Replay {
		s.write(stream.NewReplay(s.o.Client.Message))
	}
}

// serversOf returns the MCP servers that the tools of a set belong to.
func serversOf(set tools.Set) []stream.ServerStatus {
	list := []stream.ServerStatus{}
	for t := range set.All() {
		if name, ok := t.MCP(); ok && !slices.Contains(list, stream.ServerStatus{Name: name, Status: "pending"}) {
			list = append(list, stream.ServerStatus{Name: name, Status: "pending"})
		}
	}
	return list
}

// Stop stops the spinner and the tree.
func (s *Show) Stop() {
	s.thoughts.end()
	s.con.Progress.End()
	s.live.end()
	s.tree.Close()
}

// write writes a line from any goroutine.
func (s *Show) write(l stream.Line) {
	err := s.lines.Write(l)
	s.failed(err)
	s.unread(err)
}

// failed keeps the first error of stdout.
func (s *Show) failed(err error) {
	s.errMu.Lock()
	defer s.errMu.Unlock()
	if s.err == nil {
		s.err = err
	}
}

// watch receives the events of the agent loop.
func (s *Show) watch() agent.Watch {
	w := agent.Watch{Message: s.message, Call: s.call, Result: s.toolResult, Note: s.remark, Compacted: s.compacted}
	if s.o.Partial && s.lines != nil {
		s.parts = &stream.Parts{Model: s.model(), Write: s.write, NewID: convstore.NewEventID}
		w.Text = s.parts.Text
	}
	if s.live != nil {
		w.Text = func(delta string) {
			s.con.Progress.End()
			s.thoughts.end()
			s.said = s.said || delta != ""
			s.live.add(delta)
		}
	}
	if s.run.Resolved.Config.Style.Reasoning == "full" && !s.con.Globals.Quiet && !s.con.JSON() {
		s.thoughts = &thoughts{Show: s}
		w.Reasoning = func(delta string) {
			s.con.Progress.End()
			s.thoughts.add(delta)
		}
	}
	return w
}

func (s *Show) put(text string) {
	_, err := io.WriteString(s.con.IO.Out, text)
	s.failed(err)
	if s.o.Words {
		s.unread(err)
	}
}

// unread ends the run if an error of stdout says that nobody reads it any more.
func (s *Show) unread(err error) {
	if errors.Is(err, term.ErrClosed) || errors.As(err, new(*term.OutError)) {
		s.o.Unread(err)
	}
}

func (s *Show) message(m agent.Message) {
	s.con.Progress.End()
	s.thoughts.end()
	s.live.end()
	s.shown, s.said = s.said, false
	s.replies++
	s.asking += m.Took
	message := s.apiMessage(m)
	if s.parts != nil {
		s.parts.End(&message)
	}
	if s.lines != nil {
		s.write(&stream.Assistant{ConversationID: s.run.Conv.ID.String(), Text: m.Text, Usage: Usage(m.Usage), CostUSD: USD(m.Cost), Message: &message})
	}
}

func (s *Show) call(c convstore.ToolCall) {
	s.con.Progress.End()
	if s.lines != nil {
		l := s.toolCall(c)
		s.write(&l)
		return
	}
	if s.tree == nil || !s.run.Resolved.Config.Style.ShowToolCall || c.Source == tools.SourceDelegation {
		return
	}
	width := 100
	if s.con.IO.Width > 20 {
		width = s.con.IO.Width - 2
	}
	what := c.Name + " " + brief.Prefix(string(c.Arguments), 16*width)
	if changesFile(c) { // what changes is in the question, and its result says what has changed
		what = toolcall.Title(c)
	}
	line := term.Cut(unseen.Fold(unseen.Spell(what)), width, s.con.IO.UTF8)
	s.tree.Around(func() { _, _ = io.WriteString(s.con.IO.Err, "· "+line+"\n") })
}

func (s *Show) toolResult(c convstore.ToolCall, r convstore.ToolResult, took time.Duration) {
	if s.lines != nil {
		l := &stream.ToolResult{ConversationID: s.run.Conv.ID.String(), ID: c.ID, Name: c.Name, Text: r.Text, IsError: r.IsError, DurationMS: took.Milliseconds()}
		s.write(l)
		s.write(stream.NewUser(l))
		return
	}
	line, _, _ := strings.Cut(r.Text, "\n")
	switch {
	case s.tree == nil:
	case r.IsError && !s.hasRow(c.ID):
		s.con.Note("%s: %s", c.Name, term.Cut(term.Line(failed(c, r.Text)), 240, s.con.IO.UTF8))
	case !r.IsError && changesFile(c):
		s.beside(line)
	}
}

// failed says to a person why a call failed. A signal is named once, when the run ends.
func failed(c convstore.ToolCall, text string) string {
	text = turns.Failed(text)
	before, _, signalled := strings.Cut(text, ": ended by SIG")
	switch {
	case signalled && strings.HasSuffix(before, "before it ran"):
		return "not run"
	case signalled && strings.HasSuffix(before, "may have run") && c.Source == tools.SourceInteractive:
		return "no answer"
	case signalled && strings.HasSuffix(before, "may have run"):
		return "stopped while it ran"
	}
	return text
}

func changesFile(c convstore.ToolCall) bool {
	return c.Source == tools.SourceBuiltin && tools.ChangesFile(c.Name)
}

// remark prints a note about something that the loop did by itself.
func (s *Show) remark(n convstore.Note) {
	s.agent.LogNote(n)
	if s.tree != nil {
		line, _, _ := strings.Cut(n.Text, "\n")
		s.con.Note("%s", line)
	}
}

// compacted shows that the conversation was compacted.
func (s *Show) compacted(c convstore.Compaction) {
	if s.lines != nil {
		s.write(&stream.Compaction{
			ConversationID: s.run.Conv.ID.String(), Reason: c.Reason, Results: len(c.Results), Summary: c.Summary != "",
			TokensBefore: c.Before, TokensAfter: c.After,
		})
		return
	}
	if s.tree != nil {
		s.con.Note("%s", turns.Compacted(c))
	}
}

// delegation shows news of a sub-agent. The Delegator calls it from any goroutine.
func (s *Show) delegation(d *stream.Delegation) {
	if s.lines != nil {
		s.write(d)
		return
	}
	call, _, _ := strings.Cut(d.CallID, "#") // items of a batch are numbered
	s.rowsMu.Lock()
	if s.rows == nil {
		s.rows = map[string]bool{}
	}
	s.rows[call] = true
	s.rowsMu.Unlock()
	s.tree.Update(d)
}

// hasRow reports whether the tree shows the end of a call.
func (s *Show) hasRow(call string) bool {
	s.rowsMu.Lock()
	defer s.rowsMu.Unlock()
	return s.rows[call]
}

// Broken writes the result of a run that has no outcome. A reader of JSON waits for a result.
func (s *Show) Broken(err error) error {
	if !s.con.JSON() {
		return nil
	}
	r := Failed(s.run.Conv.ID.String(), err)
	r.Turn, r.Model, r.DurationMS = s.turn, s.model(), time.Since(s.run.Began).Milliseconds()
	if s.o.Client != nil {
		s.total(r, Used{s.model(): {Model: s.model()}}) // nobody knows what it has used
	}
	return s.last(r)
}

// last writes the result, which is the last line.
func (s *Show) last(r *stream.Result) error {
	if r.Status != string(convstore.StateOK) && r.Status != string(convstore.StatePartial) && !s.Unstored {
		r.Said, r.Result = r.Result, "" // half of a reply that failed is not an answer
	}
	r.NumTurns, r.DurationAPIMS, r.StopReason = s.replies, s.asking.Milliseconds(), s.stopped
	if c := s.o.Client; c != nil {
		c.Answered(r)
	}
	switch {
	case s.lines != nil:
		s.failed(s.lines.Write(r)) // there is no run to end any more
	case s.con.JSON():
		return WriteResult(s.con, r)
	case s.live != nil && s.shown:
	case r.Result != "" && s.con.Pretty() && r.Structured == nil:
		s.put(markdown.Render(r.Result, s.con.Style()))
	case r.Result != "":
		text := s.con.IO.Text(r.Result)
		if !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		s.put(text)
	}
	return s.err
}

func Usage(u convstore.Usage) stream.Usage {
	return stream.Usage{InputTokens: u.Input, OutputTokens: u.Output, CacheReadTokens: u.CacheRead, CacheWriteTokens: u.CacheWrite}
}

func USD(nano *int64) *stream.USD {
	if nano == nil {
		return nil
	}
	u := stream.USD(*nano)
	return &u
}
