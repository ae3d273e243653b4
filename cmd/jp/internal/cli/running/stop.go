package running

import (
	"context"
	"errors"
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
		About: "Stops the run of each conversation, with all sub-agents below it but no forks, and waits " +
			"until it has ended. A root ends as by Ctrl-C. A sub-agent ends as cancelled: its caller gets that " +
			"result and goes on, also with queries that waited for the same sub-agent. What was said stays: `jp query --id ID` resumes it, and `jp batch --resume ID` " +
			"a batch. `jp batch` and `jp mcp serve` that delegate for one of them with --root-id end first.\n\n" +
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
	scopes := make([]convstore.Scope, len(ids))
	trees := map[convstore.ID][]int{} // indexes in ids
	for i, id := range ids {          // before anything is stopped
		c, err := st.Get(ctx, id)
		if err == nil {
			scopes[i], err = st.Below(ctx, id)
		}
		if err != nil {
			return err
		}
		trees[c.Root] = append(trees[c.Root], i)
	}
	list := make([][]ended, len(ids))
	anything := make([]bool, len(ids))
	failed := make([]error, len(ids))
	var all sync.WaitGroup
	for _, tree := range trees { // none waits for another
		all.Go(func() {
			for _, i := range tree {
				list[i], anything[i], failed[i] = stopTree(ctx, g, st, ids[i], scopes[i])
			}
		})
	}
	all.Wait()
	stopped := []ended{}
	for i, id := range ids {
		stopped = append(stopped, list[i]...)
		if failed[i] == nil && !anything[i] {
			g.Con.Note("%s: nothing runs there", id)
		}
	}
	return errors.Join(g.writeEnded(stopped), errors.Join(failed...))
}

// stopTree stops the run of a conversation and all runs below it, from the top: a run stops what it
// has started itself. Only a person starts others there. A run that begins in a conversation after
// the one that was stopped there goes on: it was not meant. stopTree returns the runs that it
// stopped, and whether it stopped anything.
//
// Commands that delegate for one of these conversations are stopped before what they have started:
// otherwise they would start the next.
func stopTree(ctx context.Context, g *Group, st *convstore.Store, id convstore.ID, below convstore.Scope) (list []ended, anything bool, err error) {
	done := map[convstore.ID]bool{} // stopped once
	for {
		top, err := topmost(ctx, st, id, below, done)
		if err != nil {
			return list, anything, err
		}
		stands, err := st.Stands()
		if err != nil {
			return list, anything, err
		}
		stands = slices.DeleteFunc(stands, func(at convstore.ID) bool {
			_, outside := below.Get(ctx, at)
			return at != id && outside != nil
		})
		if len(top)+len(stands) == 0 {
			return list, anything, nil
		}
		anything = true
		_, errs := stopAll(ctx, st, stands)
		for i, err := range errs {
			if err != nil {
				return list, anything, err
			}
			g.Con.Note("%s: what delegated for it has ended", stands[i])
		}
		queued := map[convstore.ID]int{} // turns of those that have not begun
		for _, at := range top {
			if c, err := st.Get(ctx, at); err == nil && c.Status == convstore.StatusQueued {
				queued[at] = c.Turns
			}
		}
		var failed error
		cs, errs := stopAll(ctx, st, top)
		for i, err := range errs {
			c := cs[i]
			done[top[i]] = true
			gone := errors.As(err, new(*convstore.NotFoundError))
			if turns, was := queued[top[i]]; gone || err == nil && was && c.Turns == turns && c.Status != convstore.Status(convstore.StateCancelled) {
				g.Con.Note("%s: stopped before it began", top[i])
				if gone && top[i] == id {
					return list, anything, nil
				}
				continue
			}
			if err != nil {
				failed = errors.Join(failed, err)
				continue
			}
			if c.Status == convstore.Status(convstore.StateCancelled) {
				c.Reason = "" // it says by which signal
			}
			list = append(list, ended{c.ID, c.Status, c.Reason})
		}
		if failed != nil {
			return list, anything, failed
		}
	}
}

// stopAll stops conversations at the same time, and returns them as they were then.
func stopAll(ctx context.Context, st *convstore.Store, ids []convstore.ID) ([]convstore.Conversation, []error) {
	cs, errs := make([]convstore.Conversation, len(ids)), make([]error, len(ids))
	var all sync.WaitGroup
	for i := range ids {
		all.Go(func() { cs[i], _, errs[i] = st.Stop(ctx, ids[i], patience) })
	}
	all.Wait()
	return cs, errs
}

// topmost returns the conversation if it runs, and else what runs below it and was not called by
// something that runs. What was done before it leaves out.
func topmost(ctx context.Context, st *convstore.Store, id convstore.ID, below convstore.Scope, done map[convstore.ID]bool) ([]convstore.ID, error) {
	c, err := st.Get(ctx, id)
	runs := c.Status == convstore.StatusRunning || c.Status == convstore.StatusQueued
	if err != nil || runs && !done[id] {
		return []convstore.ID{id}, err
	}
	cs, err := below.Running(ctx)
	var ids, top []convstore.ID
	if runs {
		ids = append(ids, id)
	}
	for _, c := range cs {
		ids = append(ids, c.ID)
	}
	for _, c := range cs {
		if !slices.Contains(ids, c.Parent) && !done[c.ID] {
			top = append(top, c.ID)
		}
	}
	return top, err
}
