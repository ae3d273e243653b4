package running

import (
	"context"
	"slices"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/exit"
	"jp/convstore"
)

// NewStop returns the command `jp stop`.
func NewStop(g *Group) *cli.Command {
	return g.Tree.Command(command.Spec{
		Name: "stop", Slow: true, Summary: "stop what runs in a conversation and below it", Args: "ID...",
		About: "Stops the run of each conversation, and what runs below it, and waits until it has " +
			"ended. A root ends as by Ctrl-C. A sub-agent ends as cancelled: its caller gets that " +
			"result and goes on. What was said stays, and `jp query --id ID` resumes it.\n\n" +
			"Writes a line for each run that it stopped: id, status and, if it was not cancelled, the reason. A run that ended by " +
			"itself meanwhile has the status of its own end. If nothing runs, that is no error.",
		Min: 1, Max: -1,
		Exits:    []exit.Status{exit.NotFound, exit.Busy},
		Examples: []string{"jp stop jp-c17543982415", "jp ps -F json | jq -r '.[].id' | jp stop -"},
		Run:      func(ctx context.Context, args []string) error { return runStop(ctx, g, args) },
	})
}

// patience is how long a tree may take to end.
const patience = 30 * time.Second

func runStop(ctx context.Context, g *Group, words []string) error {
	if err := g.WS.Persist("stop"); err != nil {
		return err
	}
	st, err := g.WS.Store(ctx)
	if err != nil {
		return err
	}
	ids, err := g.WS.Targets(ctx, words)
	if err != nil {
		return err
	}
	views := make([]convstore.View, len(ids))
	for i, id := range ids { // before anything is stopped
		if views[i], err = st.Under(ctx, id); err != nil {
			return err
		}
	}
	list := []ended{}
	for i, id := range ids {
		stopped, err := stopTree(ctx, st, id, views[i])
		list = append(list, stopped...)
		if err != nil {
			return err
		}
		if len(stopped) == 0 {
			g.Con.Note("%s: nothing runs there", id)
		}
	}
	return g.writeEnded(list)
}

// stopTree stops the run of a conversation and all runs below it, from the top: a run stops what it
// has started itself. Only a person starts others there.
func stopTree(ctx context.Context, st *convstore.Store, id convstore.ID, below convstore.View) (list []ended, err error) {
	for {
		top, err := topmost(ctx, st, id, below)
		if err != nil || len(top) == 0 {
			return list, err
		}
		errs := make([]error, len(top))
		var all sync.WaitGroup
		for i := range top {
			all.Go(func() { _, errs[i] = st.Stop(ctx, top[i], patience) })
		}
		all.Wait()
		for i := range top {
			c, err := st.Get(ctx, top[i])
			if errs[i] != nil {
				return list, errs[i]
			}
			if err != nil {
				return list, err
			}
			if c.Status == convstore.Status(convstore.StateCancelled) {
				c.Reason = "" // it says by which signal
			}
			list = append(list, ended{c.ID, c.Status, c.Reason})
		}
	}
}

// topmost returns the conversation if it runs, and else what runs below it and was not called by
// something that runs.
func topmost(ctx context.Context, st *convstore.Store, id convstore.ID, below convstore.View) ([]convstore.ID, error) {
	c, err := st.Get(ctx, id)
	if err != nil || c.Status == convstore.StatusRunning || c.Status == convstore.StatusQueued {
		return []convstore.ID{id}, err
	}
	cs, err := below.Running(ctx)
	var ids, top []convstore.ID
	for _, c := range cs {
		ids = append(ids, c.ID)
	}
	for _, c := range cs {
		if !slices.Contains(ids, c.Parent) {
			top = append(top, c.ID)
		}
	}
	return top, err
}
