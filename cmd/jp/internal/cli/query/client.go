package query

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/run"
	"jp/cmd/jp/internal/show"
	"jp/cmd/jp/internal/stream"
	"jp/cmd/jp/internal/term"
	"jp/cmd/jp/internal/wording"
	"jp/convstore"
)

// A client is the program at the other end of `jp query --input-format stream-json --output-format
// stream-json`. It writes a line for each message and each control request, keeps stdin open while
// it reads the answers, and closes it when it is done. A message is one run, which ends in one
// result, whatever happens; the next one waits until then. Control requests are answered as they
// come.
type client struct {
	group *Group
	all   context.Context         // of all messages
	stop  context.CancelCauseFunc // ends all of them, as a signal does

	mu     sync.Mutex
	o      options                 // options of the next run
	begun  bool                    // a message was read, so Initialize would come too late
	line   int                     // number of the line that is read; used by read only
	spoken bool                    // a request was answered
	cancel context.CancelCauseFunc // cancels the present run; nil = none
	busy   bool                    // a message was taken that has no result yet
	fresh  bool                    // nothing was busy, and nothing waited, when the first of the queue was read
	early  bool                    // the first of the queue is interrupted before it is taken
	left   bool                    // nothing more is queued
	queue  []stream.Input
	waits  int           // size of the queue in bytes, roughly
	end    error         // reason why nothing more is read: io.EOF or an error
	news   chan struct{} // receives a value when the queue or end changed; holds one
	closed chan struct{} // closed when nothing more is read

	asked   int // number of questions sent to the client
	replies map[string]chan<- stream.Reply

	ran  bool           // whether a turn was begun
	paid show.Used      // by all runs
	last *stream.Result // result of the latest run, which has the total of paid; nil = none yet
	run  clientRun
}

// clientRun is the result of the run of a message.
type clientRun struct {
	in       stream.Input
	id       convstore.ID // conversation of the run; 0 = it has none
	answered bool         // its result was written
	begun    bool         // whether a turn was begun; if so, used has its usage
	used     convstore.Budget
}

// errInterrupted is the cause of a run that its client interrupts.
var errInterrupted = &exit.Error{Code: "interrupted", Status: exit.Interrupted, Msg: "interrupted by the client"}

var errWordsBeside = exit.Usagef("--input-format stream-json: the query is in the message on stdin, not in words")

// converse answers a client until it closes stdin. The exit status is that of its last message.
func (g *Group) converse(ctx context.Context, o options) error {
	if g.asking(&o, nil).asked() != "" {
		return errWordsBeside
	}
	c := &client{
		group: g, o: o, news: make(chan struct{}, 1), closed: make(chan struct{}), replies: map[string]chan<- stream.Reply{},
		paid: show.Used{},
	}
	ctx, stop := g.Env.Con.WithSignals(ctx, nil) // between two runs too
	defer stop()
	ctx, c.stop = context.WithCancelCause(ctx)
	defer c.stop(nil)
	if o.timeout.Set {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, o.timeout.Value, errTimeUp)
		defer cancel()
		c.o.timeout = command.Maybe[time.Duration]{}
	}
	defer g.Env.Con.IO.Bound(ctx)()
	c.all = ctx
	go c.read(g.Env.Con.IO.In)
	last := c.answerAll(ctx)
	if last != nil && c.ran {
		last = &exit.Next{Err: last} // no mistake at which nothing was done
	}
	return c.leave(ctx, last)
}

// answerAll answers messages until none can come or be answered any more. It returns the error of
// the last one.
func (c *client) answerAll(ctx context.Context) (last error) {
	for runs := 0; ; runs++ {
		run, in, err := c.next(ctx)
		switch {
		case errors.Is(err, io.EOF) && runs == 0 && !c.spoken:
			return exit.Usagef("stdin: %v", stream.ErrNoMessage)
		case errors.Is(err, io.EOF):
			return last
		}
		if last != nil {
			c.group.Env.Con.Fail(last)
		}
		switch {
		case errors.Is(err, errLongLine), errors.Is(err, errAhead): // it was probably a message
			return c.failed(err)
		case err != nil:
			return err
		case in.Bad != nil:
			last = c.failed(in.Bad)
		default:
			if c.run.id != 0 {
				if err := c.again(); err != nil {
					return c.failed(err)
				}
			}
			if last = c.answer(run, in); c.run.id == 0 && !c.unbegun(last) {
				return last
			}
		}
		if ctx.Err() != nil && errors.Is(last, term.ErrUnread) {
			return context.Cause(ctx)
		}
		if ctx.Err() != nil || errors.Is(last, term.ErrClosed) || errors.As(last, new(*console.SignalError)) {
			return last
		}
	}
}

// leave writes a result for each message that still waits when the client is answered no longer,
// because of last or the end of ctx. It returns the error of the last message.
func (c *client) leave(ctx context.Context, last error) error {
	c.mu.Lock()
	waiting := len(c.queue)
	c.left = true
	c.mu.Unlock()
	why := last
	if signal := (*console.SignalError)(nil); errors.As(last, &signal) {
		why = signal
	} else if ctx.Err() != nil {
		why = context.Cause(ctx)
	}
	if waiting == 0 {
		return last
	}
	if last != nil && !errors.Is(last, why) {
		c.group.Env.Con.Fail(last)
		last = nil
	}
	for range waiting {
		if err := c.writeFailed(fmt.Errorf("not begun: %w", why)); err != nil {
			return errors.Join(why, err)
		}
	}
	return cmp.Or(last, why)
}

// Reasons why a line of a client ends the input, although it is probably a message.
var (
	errLongLine = fmt.Errorf("a line has more than %d MiB", console.StdinMax>>20)
	errAhead    = fmt.Errorf("more than %d MiB of messages wait for their answers", console.StdinMax>>20)
)

// stdinError returns the error for what came on stdin.
func stdinError(where string, err error) error {
	failed := exit.Usagef("stdin: %s%v", where, err)
	failed.Err = err
	return failed
}

// read reads the lines of the client until stdin ends or a line is wrong. It may still wait for a
// line when jp ends.
func (c *client) read(in io.Reader) {
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, console.StdinMax)
	for c.line = 1; lines.Scan(); c.line++ {
		line := bytes.TrimSpace(lines.Bytes())
		if len(line) == 0 {
			continue
		}
		if err := c.take(line); err != nil {
			if !errors.Is(err, term.ErrUnread) && !errors.As(err, new(*term.OutError)) { // of its answer
				err = stdinError(c.at(), err)
			}
			c.close(err)
			return
		}
	}
	switch err := lines.Err(); {
	case errors.Is(err, bufio.ErrTooLong):
		c.close(stdinError("", errLongLine))
	case err != nil && !errors.Is(err, os.ErrClosed):
		c.close(fmt.Errorf("stdin: %w", err))
	default:
		c.close(io.EOF)
	}
}

func (c *client) at() string { return fmt.Sprintf("line %d: ", c.line) }

// take carries out a request, or queues a message. An error ends the input.
func (c *client) take(line []byte) error {
	in, err := stream.ReadInput(line)
	switch {
	case err != nil:
		return err
	case in.Control != nil:
		return c.control(*in.Control)
	case in.Reply != nil:
		c.replied(*in.Reply)
		return nil
	case in.Bad == nil && in.Text == "":
		return nil
	case in.Bad == nil:
		in.Text, in.Bad = run.Clean(in.Text)
	}
	if in.Bad != nil {
		in.Bad, in.Message = stdinError(c.at(), in.Bad), nil
	}
	in.Message = bytes.Clone(in.Message)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.begun = true
	w := weight(in)
	if c.left {
		return nil
	}
	if len(c.queue) > 0 && c.waits+w > console.StdinMax {
		return errAhead
	}
	if len(c.queue) == 0 {
		c.fresh = !c.busy
	}
	c.waits += w
	c.queue = append(c.queue, in)
	c.wake()
	return nil
}

// weight returns the size of a waiting message in bytes, roughly.
func weight(in stream.Input) int { return 256 + len(in.Text) + len(in.Message) }

func (c *client) close(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.end = err
	close(c.closed)
	c.wake()
}

// wake wakes next; c.mu is held.
func (c *client) wake() {
	select {
	case c.news <- struct{}{}:
	default:
	}
}

// next waits for a message and returns it with the context of its run, which Interrupt ends.
// Messages that were read before the input ended are answered first.
func (c *client) next(ctx context.Context) (context.Context, stream.Input, error) {
	for {
		if run, in, err := c.first(ctx); run != nil || err != nil {
			return run, in, err
		}
		select {
		case <-c.news:
		case <-ctx.Done():
			return nil, stream.Input{}, context.Cause(ctx)
		}
	}
}

// unbegun reports whether the run of a message was interrupted before it had a conversation. The
// messages that wait are answered all the same: the next one begins as this one would have.
func (c *client) unbegun(failed error) bool {
	return errors.Is(failed, errInterrupted) && !c.group.Env.Con.Globals.NoPersist && c.group.Env.Tape == nil
}

// first takes the message that has waited longest. If there is none it returns no context; if none
// will come, it returns the reason.
func (c *client) first(ctx context.Context) (context.Context, stream.Input, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queue) == 0 {
		return nil, stream.Input{}, c.end
	}
	in := c.queue[0]
	c.queue = c.queue[1:]
	c.waits -= weight(in)
	ctx, c.cancel = context.WithCancelCause(ctx)
	if c.early {
		c.cancel(errInterrupted)
	}
	c.busy, c.fresh, c.early = true, false, false
	return ctx, in, nil
}

// control answers a control request. An error ends the input.
func (c *client) control(r stream.Control) error {
	answer := stream.Answer{ID: r.ID}
	c.mu.Lock()
	c.spoken = true
	switch r.Subtype {
	case stream.Initialize:
		if answer.Err = c.start(r); answer.Err == nil {
			answer.Response = stream.NewInitialized()
		}
	case stream.Interrupt:
		answer.Response = c.interrupt(r.CancelQueued)
	case stream.SetPermissionMode:
		if answer.Err = permissionMode(r.Mode); answer.Err == nil {
			c.o.heads.mode = command.Given(r.Mode)
		}
	default:
		answer.Err = exit.Usagef("%s: is not supported here%s", r.Subtype, wording.Either(r.Subtype == "set_model", "; --model sets the model of the next run, with --resume", ""))
	}
	c.mu.Unlock()
	err := c.write(answer.Line())
	if r.Subtype == stream.Initialize && answer.Err != nil {
		return answer.Err // the client expects settings that later messages would not have
	}
	return err
}

// start applies the settings of Initialize; c.mu is held.
func (c *client) start(r stream.Control) error {
	switch {
	case r.Err != nil:
		return r.Err
	case c.begun:
		return errors.New("initialize: comes after a message")
	}
	s := r.Start
	if s.Schema != nil && !c.o.schema.Set {
		c.o.schema = command.Given(string(s.Schema))
	}
	if s.Prompt != "" {
		c.o.heads.prompts = append(c.o.heads.prompts, s.Prompt)
	}
	if s.Title != "" && c.o.fresh && !c.o.title.Set {
		c.o.title = command.Given(s.Title)
	}
	return nil
}

// interrupt stops the present run, if any, or that of a message which was read when nothing ran and
// is about to begin; c.mu is held. The result of the run comes when it has ended.
func (c *client) interrupt(queued bool) stream.Interrupted {
	switch {
	case c.fresh && len(c.queue) > 0 && !queued:
		c.early = true
	case c.cancel != nil:
		c.cancel(errInterrupted)
	}
	begins := 0 // messages in the queue that have a run already
	if c.early {
		begins = 1
	}
	ids := []string{}
	for _, in := range c.queue[begins:] {
		if in.UUID != "" {
			ids = append(ids, in.UUID)
		}
		if queued {
			c.waits -= weight(in)
		}
	}
	if queued {
		c.queue = c.queue[:begins:begins]
		return stream.Interrupted{StillQueued: []string{}, Cancelled: ids}
	}
	return stream.Interrupted{StillQueued: ids}
}

// again prepares the run of a further message, which continues the conversation of the first.
func (c *client) again() error {
	o := &c.o
	switch {
	case c.group.Env.Con.Globals.NoPersist:
		return exit.Usagef("stdin: with --no-persist jp answers one message: it keeps nothing that a second one could continue")
	case c.group.Env.Tape != nil:
		return exit.Usagef("stdin: with --record or --replay jp answers one message")
	}
	o.id, o.attach = command.Given(c.run.id.String()), nil
	o.fresh, o.fork, o.hidden = false, command.Maybe[int]{}, false
	o.tmp, o.title = command.Maybe[time.Duration]{}, command.Maybe[string]{}
	if !c.run.begun {
		return nil
	}
	if err := c.less("max-tokens", &o.maxTokens, c.run.used.Tokens); err != nil {
		return err
	}
	return c.less("max-cost", &o.maxCost, c.run.used.CostNano)
}

// less lowers a limit by what was used. It fails if the usage is unknown.
func (c *client) less(flag string, limit *command.Maybe[*int64], used *int64) error {
	switch {
	case limit.Value == nil:
	case used == nil:
		return exit.Refusedf("--%s: the last message has used an unknown amount, so no further message can start", flag)
	default:
		left := max(*limit.Value-*used, 0)
		limit.Value = &left
	}
	return nil
}

// account records the usage of the run of the message, however the run ended. Without a client it
// does nothing.
func (c *client) account(ctx context.Context, ag *run.Agent) {
	if c == nil {
		return
	}
	c.run.begun, c.ran = true, true
	var err error
	if c.run.used, err = ag.Used(ctx); err != nil {
		c.group.Env.Con.Warn("%v", err)
	}
}

// answer runs a message. If it fails before there is a result, answer writes one, because the
// client waits for it.
func (c *client) answer(ctx context.Context, in stream.Input) error {
	c.mu.Lock()
	o := c.o
	c.mu.Unlock()
	c.run = clientRun{in: in, id: c.run.id}
	o.composed, o.client = command.Given(in.Text), c
	err := c.group.ask(ctx, o)
	c.group.Env.Con.IO.Bound(c.all) // an interrupted run has left its own, which has ended
	cause := context.Cause(ctx)
	if err == nil || c.run.answered {
		c.over()
		return err
	}
	if cause != nil && errors.Is(err, context.Canceled) {
		err = cause
	}
	return c.failed(err)
}

// answered notes that the result of the run is about to be written. What the client writes when it
// has read that is not about this run.
func (c *client) answered(r *stream.Result) {
	c.run.answered, c.last = true, r
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy = false
}

// over notes that nothing runs which the client could interrupt.
func (c *client) over() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy = false
	if c.cancel != nil {
		c.cancel(nil)
		c.cancel = nil
	}
}

// failed ends a message that has no result yet, by one that says err. It returns err.
func (c *client) failed(err error) error {
	c.over()
	return errors.Join(err, c.writeFailed(err))
}

// writeFailed writes the result of a message that could not begin.
func (c *client) writeFailed(err error) error {
	id := c.run.id
	if id == 0 {
		id, _ = convstore.ParseID(c.o.id.Value) // a word such as newest names no session
	}
	session := id.String()
	r := show.Failed(session, err)
	if c.last != nil {
		r.TotalCostUSD, r.ModelUsage = c.last.TotalCostUSD, c.last.ModelUsage
	}
	return stream.NewWriter(console.Escaping{Writer: c.group.Env.Con.IO.Out}, &session).Write(r)
}

// oneMessage reads the one message of a client whose output format is not stream-json. It refuses a
// line that is not a message at once, because the client may wait for an answer before it closes
// stdin.
func (k *asking) oneMessage(ctx context.Context) (string, error) {
	type result struct {
		text string
		err  error
	}
	read := make(chan result, 1)
	go func() { // keeps waiting for stdin when ctx has ended
		var m stream.OneMessage
		lines := bufio.NewScanner(k.con.IO.In)
		lines.Buffer(nil, console.StdinMax)
		for lines.Scan() {
			if err := m.Add(lines.Bytes()); err != nil {
				read <- result{"", err}
				return
			}
		}
		text, err := m.Text()
		if failed := lines.Err(); errors.Is(failed, bufio.ErrTooLong) {
			err = errLongLine
		} else if failed != nil {
			err = failed
		}
		read <- result{text, err}
	}()
	select {
	case r := <-read:
		if r.err != nil {
			return "", exit.Usagef("stdin: %v", r.err)
		}
		return run.Clean(r.text)
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}
