package agent

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sort"
	"strings"

	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/wording"
	"jp/convstore"
)

// Compaction makes the thread of a conversation shorter. It only adds an event, which says what the
// thread leaves out from then on (see sent). No event is removed. First, old results are replaced
// by a line each. If that is not enough, a model writes a summary of all but the latest events, in
// a call like any other, with its bound and its cost.
//
// A loop compacts by itself between two calls of the model: when the next request would come near
// the window, and once in a turn when a provider rejects a request as too long.

// Compact says when a loop compacts by itself, and who writes the summaries.
type Compact struct {
	Off bool // whether it never compacts by itself
	// Writer returns the model that writes the summaries; nil = the one that is asked.
	Writer func(context.Context) (Writer, error)
}

// The reasons of a convstore.Compaction.
const (
	compactAsked    = "asked"
	compactWindow   = "window"
	compactProvider = "provider"
)

// NoteCompaction is the kind of the note that says why a conversation was not made shorter.
const NoteCompaction = "compaction"

// CompactOptions are a person's options for the compaction of a conversation.
type CompactOptions struct {
	Keep      int  // number of turns at the end that stay as they are
	ToolsOnly bool // whether no summary is written
	DryRun    bool // whether nothing is stored and no model is asked
	Own       bool // whether the conversation bounds itself: the limits of a turn that has ended are over
}

// ErrNothingToCompact is returned if the thread cannot leave anything out.
var ErrNothingToCompact = errors.New("there is nothing to compact")

// Shorten compacts the conversation between two turns. A turn that can be resumed stays as it is.
// Shorten returns what was stored. A dry run returns what would be stored, without a summary: After
// then counts one of the expected size.
func (l *Loop) Shorten(ctx context.Context, o CompactOptions) (c convstore.Compaction, usage convstore.ModelCall, err error) {
	h, err := readHistory(ctx, l.Log)
	if err != nil {
		return c, usage, err
	}
	start, end := LastTurn(h.events)
	keep := o.Keep
	if start >= 0 && end == nil {
		keep = max(keep, 1)
	}
	h.from = max(start, 0)
	at := len(h.events)
	if keep > 0 {
		at = window(h.events, keep-1)
		if keep == 1 {
			at = h.from
		}
	}
	k := l.newTurn(h, nil).compactor
	k.asker.free = o.Own && end != nil
	c = convstore.Compaction{Reason: compactAsked, Before: k.sized(), Results: k.old(at)}
	c.After = k.sized(c)
	summarize := !o.ToolsOnly && at > k.bare() && k.sized(k.covering(c, at, ".")) < c.After // else no summary is short enough
	switch {
	case !summarize && len(c.Results) == 0:
		return c, usage, ErrNothingToCompact
	case o.DryRun:
		if summarize {
			c = k.covering(c, at, expected(c.Before))
			c.After = k.sized(c)
		}
		c.Summary = ""
		return c, usage, nil
	}
	if !summarize {
		return c, usage, h.save(ctx, c)
	}
	stubs := c
	usage, err = k.summarize(ctx, &c, at)
	if none := (*AsideError)(nil); len(stubs.Results) > 0 && errors.As(err, &none) && none.Reason == notShorter {
		return stubs, usage, h.save(ctx, stubs)
	}
	return c, usage, err
}

// compactor holds the requests of a turn within the window. It stores compactions in the history,
// from which the next request is made.
type compactor struct {
	settings Compact
	history  *history
	asker    *asker // asks the writer of a summary: its own model, where settings has no Writer
	window   int    // number of earlier turns that the model is sent; 0 = all
	profile  string
	request  func(events []convstore.Event) model.Request // see turn.request
	note     func(context.Context, convstore.Note) error
	watch    func(convstore.Compaction) // nil = nobody

	limit   int64 // most estimated tokens of a request before it compacts; 0 = any
	retried bool  // whether a request that the provider found too long was made again
	stuck   bool  // whether no summary could be written
	noted   bool  // whether a note says that the thread could not be made shorter
}

// fit compacts before a request that would come near the window.
func (k *compactor) fit(ctx context.Context) error {
	if k.settings.Off || k.limit <= 0 || k.stuck {
		return nil
	}
	before := k.sized()
	if before <= k.limit {
		return nil
	}
	_, err := k.shorten(ctx, compactWindow, before, k.limit)
	return err
}

// tooLong compacts after a request that the provider found too long, once in a turn. It reports
// whether to ask again.
func (k *compactor) tooLong(ctx context.Context, req model.Request, err error) (bool, error) {
	var e *model.Error
	tooLong := errors.As(err, &e) && (e.Kind == model.KindContext || e.Kind == model.KindTooLarge && e.Status == 413)
	if !tooLong || k.settings.Off || k.retried {
		return false, nil
	}
	k.retried, k.stuck = true, false
	before := req.Estimate()
	k.limit = before / 4 * 3
	return k.shorten(ctx, compactProvider, before, k.limit)
}

// shorten leaves out old results until the request has at most three quarters of limit. Where that
// is not enough a summary is written, after which the request has about half of limit. shorten
// reports whether anything was left out. Where too little was, a note says why.
func (k *compactor) shorten(ctx context.Context, reason string, before, limit int64) (bool, error) {
	last := 0
	for i, begins := range beginnings(k.history.events) {
		if begins {
			last = i
		}
	}
	all := k.old(last)
	c := convstore.Compaction{Reason: reason, Before: before}
	n := sort.Search(len(all), func(n int) bool {
		c.Results = all[:n]
		return k.sized(c) <= limit/4*3
	})
	c.Results = all[:n]
	c.After = k.sized(c)
	if c.After <= limit/4*3 {
		return true, k.store(ctx, c)
	}
	var none *AsideError
	if at := k.summaryEnd(c, limit/2, last); at > 0 {
		short := c
		_, err := k.summarize(ctx, &short, at)
		if err == nil || !errors.As(err, &none) {
			return err == nil, err
		}
		k.stuck = true // no model is asked again in this turn
	} else {
		none = &AsideError{What: "summary", Reason: "what could be left out is too little"}
	}
	done := len(c.Results) > 0 && c.After < before
	if done {
		if err := k.store(ctx, c); err != nil {
			return false, err
		}
	}
	if k.noted {
		return done, nil
	}
	k.noted = true
	return done, k.note(ctx, convstore.Note{Kind: NoteCompaction, Text: fmt.Sprintf("the next request has about %d tokens: %v", wording.Either(done, c.After, before), none)})
}

// store stores a compaction, behind these events, and shows it.
func (k *compactor) store(ctx context.Context, c convstore.Compaction, before ...convstore.Body) error {
	if err := k.history.save(ctx, append(before, c)...); err != nil {
		return err
	}
	if k.watch != nil {
		k.watch(c)
	}
	return nil
}

// sized estimates the tokens of the next request after these further compactions.
func (k *compactor) sized(more ...convstore.Compaction) int64 {
	events := slices.Clone(k.history.events)
	for _, c := range more {
		events = append(events, convstore.Event{Turn: k.history.turn, Body: c})
	}
	return k.request(events).Estimate()
}

// old returns the calls before an event whose results are sent whole and are long enough for a
// stub, the oldest first.
func (k *compactor) old(before int) (calls []string) {
	s := choose(k.history.events, k.window)
	all := pairs(s.all, s.begins)
	for i := s.from; i < before; i++ {
		if p, ok := all[i]; ok && p.stubbable() && !isFetch(p.call.ID) && !s.short[p.call.ID] {
			calls = append(calls, p.call.ID)
		}
	}
	return calls
}

// bare returns the number of events at the beginning from which a new summary would gain nothing:
// those that the last summary covers, and events without a text after them.
func (k *compactor) bare() int {
	s := choose(k.history.events, k.window)
	for i, ev := range s.all[s.from:] {
		switch ev.Body.(type) {
		case convstore.UserMessage, convstore.Said, convstore.ToolCall:
			return s.from + i
		}
	}
	return len(s.all)
}

// covering returns c with a summary of the events before index at.
func (k *compactor) covering(c convstore.Compaction, at int, summary string) convstore.Compaction {
	c.Covered, c.Kept = count(k.history.events[:at]), count(k.history.events[at:])
	c.Summary = summary
	c.Conversations = k.conversations(context.Background(), at)
	return c
}

// expected returns a text as long as the summary of a thread of so many tokens would be.
func expected(tokens int64) string {
	return strings.Repeat("xxx", int(min(summaryTokens/4, tokens/8)))
}

// summaryEnd returns the index of the first event that a summary does not cover: the smallest
// index, at most last, with which the request has at most want tokens. If no index reaches that, it
// returns the largest possible one. It returns 0 if the request would not become shorter by a
// tenth.
func (k *compactor) summaryEnd(c convstore.Compaction, want int64, last int) int {
	begins := beginnings(k.history.events)
	var ends []int
	for i := k.bare() + 1; i <= last; i++ {
		if begins[i] {
			ends = append(ends, i)
		}
	}
	if len(ends) == 0 {
		return 0
	}
	listed := k.conversations(context.Background(), last)
	size := func(at int) int64 {
		c.Covered, c.Kept = count(k.history.events[:at]), count(k.history.events[at:])
		c.Summary, c.Conversations = expected(c.Before), listed
		return k.sized(c)
	}
	n := sort.Search(len(ends), func(n int) bool { return size(ends[n]) <= want })
	at := ends[min(n, len(ends)-1)]
	if size(at) > c.Before/10*9 {
		return 0
	}
	return at
}
