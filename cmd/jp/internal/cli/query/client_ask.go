package query

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/stream"
	"jp/cmd/jp/internal/term"
	"jp/cmd/jp/internal/toolcall"
	"jp/tools"
	"jp/tools/brief"
	"jp/tools/unseen"
)

// promptStdio is the one value of --permission-prompt-tool: the client at stdin and stdout answers.
const promptStdio = "stdio"

// clientAsker asks a client whether calls may run. It is the asker of a run.
type clientAsker struct {
	client *client
}

// Ask asks whether a call may run; it is a tools.Prompter. The protocol cannot ask whether a model
// may see a result. The client answers yes or no for this call. If it adds a rule that allows all
// calls of this tool in the session, the conversation keeps that; other rules are ignored. If it
// changes the arguments, the answer is no.
func (a clientAsker) Ask(ctx context.Context, q tools.Question) (tools.Answer, error) {
	no := func(format string, args ...any) (tools.Answer, error) {
		return tools.Answer{Choice: tools.DenyOnce, Reason: fmt.Sprintf(format, args...)}, nil
	}
	if q.Kind != tools.KindRun {
		return tools.Answer{}, tools.ErrNobody
	}
	if n := len(q.Call.Arguments); n > toolcall.MaxShown {
		return no("the call is too long to be shown whole: %d KiB, more than %d", n>>10, toolcall.MaxShown>>10)
	}
	p := stream.Permission{Tool: q.Call.Name, Call: q.Call.ID, Input: q.Call.Arguments, Description: toolcall.Hidden(q.Call.Arguments), Always: q.Always}
	p.Title = toolcall.Title(toolcall.Asked(q))
	if !json.Valid(p.Input) || !strings.HasPrefix(strings.TrimSpace(string(p.Input)), "{") {
		return no("its arguments are not a JSON object")
	}
	r, err := a.client.permit(ctx, p)
	switch {
	case err != nil:
		return tools.Answer{}, err
	case r.Err != nil:
		return no("%s", unseen.Strip(brief.Prefix(r.Err.Error(), maxReason)))
	case r.Interrupt:
		a.client.stopRun()
		return tools.Answer{}, errInterrupted
	case !r.Allow:
		return no("%s", strings.TrimSpace(unseen.Strip(brief.Prefix(r.Reason, maxReason))))
	case !r.Same(p.Input):
		return no("the client changed the arguments; a call runs unchanged or not at all")
	}
	if q.Always && slices.Contains(r.Always, q.Call.Name) {
		return tools.Answer{Choice: tools.AllowAlways}, nil
	}
	return tools.Answer{Choice: tools.AllowOnce}, nil
}

// maxReason bounds the reason of a no, in bytes.
const maxReason = 4 << 10

// Question is the question of ask_user. The protocol has no request for it.
func (a clientAsker) Question(context.Context, string, string, []string) (string, error) {
	return "", term.ErrNobody
}

// permit asks the client and waits for its reply. The error wraps tools.ErrNobody if the client was
// not asked. If the client closes stdin without an answer, the answer is no.
func (c *client) permit(ctx context.Context, p stream.Permission) (stream.Reply, error) {
	reply := make(chan stream.Reply, 1)
	c.mu.Lock()
	if c.end != nil || c.o.heads.mode.Value == stream.ModeDontAsk {
		c.mu.Unlock()
		return stream.Reply{}, fmt.Errorf("%w: the client cannot be asked", tools.ErrNobody)
	}
	c.asked++
	p.ID = fmt.Sprintf("jp-%d", c.asked)
	c.replies[p.ID] = reply
	c.mu.Unlock()
	defer func() {
		c.mu.Lock()
		delete(c.replies, p.ID)
		c.mu.Unlock()
	}()
	if err := c.write(p.Line()); err != nil {
		return stream.Reply{}, err
	}
	select {
	case r := <-reply:
		return r, nil
	case <-c.closed:
		select {
		case r := <-reply: // its last line
			return r, nil
		default:
			return stream.Reply{Err: errors.New("the client has closed stdin")}, nil
		}
	case <-ctx.Done():
		if err := c.write(stream.Withdrawn(p.ID)); err != nil {
			return stream.Reply{}, err
		}
		return stream.Reply{}, context.Cause(ctx)
	}
}

// replied passes a reply to the question that waits for it. It ignores a reply that comes too late.
func (c *client) replied(r stream.Reply) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if reply := c.replies[r.ID]; reply != nil {
		delete(c.replies, r.ID)
		reply <- r
	}
}

// stopRun stops the present run.
func (c *client) stopRun() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.interrupt(false)
}

// write writes a line for the client.
func (c *client) write(line []byte, err error) error {
	if err == nil {
		_, err = console.Escaping{Writer: c.group.Env.Con.IO.Out}.Write(line)
	}
	return err
}
