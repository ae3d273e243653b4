package running

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/subprocess"
	"jp/cmd/jp/internal/term"
	"jp/convstore"
)

// NewWait returns the command `jp wait`.
func NewWait(g *Group) *cli.Command {
	var timeout command.Maybe[time.Duration]
	return g.Tree.Command(command.Spec{
		Name: "wait", Slow: true, Summary: "wait until conversations have ended", Args: "ID...",
		About: "Waits until none of the conversations runs, and writes a line for each, in the order " +
			"of the arguments: id, status and reason.\n\n" +
			"The exit status is the one with which `jp query` ends like that: 0 if the last turn of " +
			"each ended well, 7 at a limit, 6 refused, 124 after a deadline, 130 cancelled, and 1 " +
			"for any other end, for a conversation without a turn, and if those that did not end well " +
			"ended differently.",
		Flags: []*command.Option{command.Duration(&timeout, "timeout", "DURATION", "wait at most that long; then the status is 124")},
		Min:   1, Max: -1,
		Exits:    []exit.Status{exit.NotFound, exit.Busy, exit.Refused, exit.Limit, exit.Deadline, exit.Interrupted},
		Examples: []string{"jp wait jp-c17543982411", "jp ps -F json | jq -r '.[].id' | jp wait --timeout 10m -"},
		Run:      func(ctx context.Context, args []string) error { return runWait(ctx, g, timeout, args) },
	})
}

func runWait(ctx context.Context, g *Group, timeout command.Maybe[time.Duration], words []string) error {
	if timeout.Set {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeoutCause(ctx, timeout.Value, &exit.Error{Code: "deadline", Status: exit.Deadline, Msg: "--timeout: the time is up", Err: context.DeadlineExceeded})
		defer cancel()
		g.Con.Within(timeout.Value)
	}
	st, err := g.WS.Store(ctx)
	if err != nil {
		return err
	}
	ids, err := g.WS.Targets(ctx, words)
	if err != nil {
		return err
	}
	for _, id := range ids { // before it waits
		if _, err := st.Get(ctx, id); err != nil {
			return err
		}
	}
	list := []ended{}
	status := exit.OK
	for _, id := range ids {
		c, err := st.Await(ctx, id)
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("conversation %s: has not ended: %w", id, err)
		}
		if err != nil {
			return errors.Join(g.writeEnded(list), err)
		}
		list = append(list, ended{c.ID, c.Status, c.Reason})
		switch s := subprocess.ExitOf(convstore.State(c.Status)); {
		case s == exit.OK || s == status:
		case status == exit.OK:
			status = s
		default:
			status = exit.Failed
		}
	}
	if err := g.writeEnded(list); errors.Is(err, term.ErrUnread) {
		return fmt.Errorf("%w: %w", context.Cause(ctx), err)
	} else if err != nil || status == exit.OK {
		return err
	}
	return exit.Quiet(status)
}
