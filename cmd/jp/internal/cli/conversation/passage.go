package conversation

import (
	"bufio"
	"context"
	"errors"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/workspace"
	"jp/convstore"
)

// passage is the part of one conversation to print: ranges of its turns, in order.
type passage struct {
	id     convstore.ID
	ranges []convstore.Range
}

// passages returns the passages that words name. A word is a conversation, whose turns the flags
// choose, or a line of a search (ID:TURN:SCOPE:m:TEXT), which chooses the turn of the hit. - reads
// such words from stdin, one a line. Every conversation and every turn comes once.
func (g *Group) passages(ctx context.Context, words []string, all convstore.Range) ([]passage, error) {
	var out []passage
	at := map[convstore.ID]int{}
	find := g.WS.Target
	add := func(word string, r convstore.Range) error {
		id, err := find(ctx, word)
		if err != nil {
			return err
		}
		if _, known := at[id]; !known {
			at[id] = len(out)
			out = append(out, passage{id: id})
		}
		p := &out[at[id]]
		if !slices.Contains(p.ranges, r) {
			p.ranges = append(p.ranges, r)
		}
		return nil
	}
	read := func(line string, words ...string) error {
		if id, turn, ok := readHit(line); ok {
			if all != (convstore.Range{}) {
				return exit.Usagef("print: lines of a search choose the turns, and so do --turn, --last and --first: give only one")
			}
			return add(id, turn)
		}
		for _, word := range words {
			if err := add(word, all); err != nil {
				return err
			}
		}
		return nil
	}
	for _, word := range words {
		if word != "-" {
			if err := read(word, word); err != nil {
				return nil, err
			}
			continue
		}
		find = g.WS.Exactly
		lines := bufio.NewScanner(g.Con.IO.In)
		lines.Buffer(nil, console.StdinMax)
		for lines.Scan() {
			ids, _, _ := strings.Cut(lines.Text(), "\t") // of a line of `jp c ls` the first
			if err := read(lines.Text(), strings.Fields(ids)...); err != nil {
				return nil, err
			}
		}
		if errors.Is(lines.Err(), bufio.ErrTooLong) {
			return nil, exit.Usagef("-: a line on stdin has more than %d MiB", console.StdinMax>>20)
		}
		if err := workspace.InputError(lines.Err()); err != nil {
			return nil, err
		}
	}
	for i := range out {
		out[i].sort()
	}
	return out, nil
}

// events iterates over the events of the passage, turn by turn.
func (p *passage) events(ctx context.Context, view convstore.View) iter.Seq2[convstore.Event, error] {
	return func(yield func(convstore.Event, error) bool) {
		for _, r := range p.ranges {
			for e, err := range view.Events(ctx, p.id, r) {
				if !yield(e, err) {
					return
				}
			}
		}
	}
}

// followEvery is how often a conversation that is followed is read again.
const followEvery = 200 * time.Millisecond

// eventsOf is events or, with follow, those events and all that come until the run has ended. It
// calls shown before it waits.
func (p *passage) eventsOf(ctx context.Context, view convstore.View, follow bool, shown func() error) iter.Seq2[convstore.Event, error] {
	if !follow {
		return p.events(ctx, view)
	}
	return func(yield func(convstore.Event, error) bool) {
		var last convstore.Event
		for {
			c, err := view.Get(ctx, p.id) // first, because a run stores its last events before it ends
			if err != nil {
				yield(last, err)
				return
			}
			if uint64(c.Events) > last.Seq {
				for e, err := range p.events(ctx, view) {
					if err == nil && e.Seq <= last.Seq {
						continue
					}
					if !yield(e, err) || err != nil {
						return
					}
					last = e
				}
				if last.Seq == 0 { // it begins behind what there is
					last.Seq, last.Turn = uint64(c.Events), max(c.Turns, 1)
				}
				p.ranges = []convstore.Range{{First: last.Turn}}
			}
			if c.Status != convstore.StatusRunning && c.Status != convstore.StatusQueued {
				return
			}
			if err := shown(); err != nil {
				yield(last, err)
				return
			}
			select {
			case <-time.After(followEvery):
			case <-ctx.Done():
				yield(last, context.Cause(ctx))
				return
			}
		}
	}
}

// sort puts the turns in order. A range of all turns replaces the others.
func (p *passage) sort() {
	if slices.Contains(p.ranges, convstore.Range{}) {
		p.ranges = []convstore.Range{{}}
		return
	}
	slices.SortFunc(p.ranges, func(a, b convstore.Range) int { return a.First - b.First })
}

// readHit reads a line that `conversation grep` wrote; the turn of a hit in a title is all turns.
func readHit(line string) (id string, turn convstore.Range, ok bool) {
	parts := strings.SplitN(line, ":", 5)
	if len(parts) < 5 || !slices.Contains(grepScopes(), parts[2]) || parts[3] != "m" && parts[3] != "c" {
		return "", turn, false
	}
	if parts[1] == ".." {
		return parts[0], turn, true
	}
	n, err := strconv.Atoi(parts[1])
	return parts[0], convstore.Turn(n), err == nil && n > 0
}
