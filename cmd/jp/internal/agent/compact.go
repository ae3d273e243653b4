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

// Compaction makes the thread of a conversation shorter. It only adds an event, which says what is left out of the thread from
// then on (see sent); what was said stays. Old results go first, told in one line each. Where that is not enough a model
// writes a summary of all but the latest; that call is one like others, with its bound and its cost.
//
// By itself it happens between two calls of the model: when the next request would come near the window, and once in a turn
// when a provider refuses a request as too long.

// Compact says when a loop compacts by itself, and who writes the summaries.
type Compact struct {
	Off    bool  // never by itself
	Limit  int64 // estimated tokens that a request may have; 0 = as many as the provider takes
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

// CompactOptions are how a person wants a conversation compacted.
type CompactOptions struct {
	Keep      int  // turns at the end that stay as they are
	ToolsOnly bool // write no summary
	DryRun    bool // store nothing and ask no model
}

// ErrNothingToCompact is returned where the thread holds nothing that could be left out.
var ErrNothingToCompact = errors.New("there is nothing to leave out")

// Shorten compacts the conversation between two turns. A turn that can go on stays as it is. It returns what was stored or,
// of a dry run, what would be: then with no summary, and After counts one of the expected size.
func (l *Loop) Shorten(ctx context.Context, o CompactOptions) (c convstore.Compaction, usage convstore.ModelCall, err error) {
	h, err := readHistory(ctx, l.Log)
	if err != nil {
		return c, usage, err
	}
	start, end := lastTurn(h.events)
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
	t := l.newTurn(h, nil)
	c = convstore.Compaction{Reason: compactAsked, Before: t.sized(), Results: t.old(at)}
	summarize := !o.ToolsOnly && at > t.bare()
	switch {
	case !summarize && len(c.Results) == 0:
		return c, usage, ErrNothingToCompact
	case o.DryRun:
		if summarize {
			c = t.covering(c, at)
		}
		c.After = t.sized(c)
		c.Summary = ""
		return c, usage, nil
	}
	if !summarize {
		c.After = t.sized(c)
		return c, usage, h.save(ctx, c)
	}
	if l.Limits != nil {
		if err := l.Log.Limit(ctx, *l.Limits); err != nil {
			return c, usage, err
		}
	}
	usage, err = t.summarize(ctx, &c, at)
	return c, usage, err
}

// fit compacts before a request that would come near the window.
func (t *turn) fit(ctx context.Context) error {
	if t.Compact.Off || t.limit <= 0 || t.stuck {
		return nil
	}
	before := t.sized()
	if before <= t.limit {
		return nil
	}
	_, err := t.shorten(ctx, compactWindow, before, t.limit)
	return err
}

// refused compacts after a request that the provider has found too long, once in a turn, and reports whether to ask again.
func (t *turn) refused(ctx context.Context, req model.Request, err error) (bool, error) {
	var e *model.Error
	tooLong := errors.As(err, &e) && (e.Kind == model.KindContext || e.Kind == model.KindTooLarge && e.Status == 413)
	if !tooLong || t.Compact.Off || t.retried {
		return false, nil
	}
	t.retried, t.stuck = true, false
	before := req.Estimate()
	t.limit = before / 4 * 3
	return t.shorten(ctx, compactProvider, before, t.limit)
}

// shorten leaves out old results until the request has three quarters of limit. Where that is not enough it has a summary
// written that leaves half of limit. It reports whether anything was left out; a note says why not.
func (t *turn) shorten(ctx context.Context, reason string, before, limit int64) (bool, error) {
	last := 0
	for i, begins := range beginnings(t.history.events) {
		if begins {
			last = i
		}
	}
	all := t.old(last)
	c := convstore.Compaction{Reason: reason, Before: before}
	n := sort.Search(len(all), func(n int) bool {
		c.Results = all[:n]
		return t.sized(c) <= limit/4*3
	})
	c.Results = all[:n]
	c.After = t.sized(c)
	if c.After <= limit/4*3 {
		return true, t.compacted(ctx, c)
	}
	var none *AsideError
	if at := t.place(c, limit/2, last); at > 0 {
		short := c
		_, err := t.summarize(ctx, &short, at)
		if err == nil || !errors.As(err, &none) {
			return err == nil, err
		}
		t.stuck = true // nobody is asked again in this turn
	} else {
		none = &AsideError{What: "summary", Reason: "what could be left out is too little"}
	}
	done := len(c.Results) > 0 && c.After < before
	if done {
		if err := t.compacted(ctx, c); err != nil {
			return false, err
		}
	}
	if t.told {
		return done, nil
	}
	t.told = true
	return done, t.note(ctx, convstore.Note{Kind: NoteCompaction, Text: fmt.Sprintf("the next request has about %d tokens: %v", wording.Either(done, c.After, before), none)})
}

// compacted stores a compaction, behind what was to be stored anyway, and tells of it.
func (t *turn) compacted(ctx context.Context, c convstore.Compaction, before ...convstore.Body) error {
	if err := t.history.save(ctx, append(before, c)...); err != nil {
		return err
	}
	if t.Watch.Compacted != nil {
		t.Watch.Compacted(c)
	}
	return nil
}

// sized estimates the next request, as it would be after further compactions.
func (t *turn) sized(more ...convstore.Compaction) int64 {
	was := t.history.events
	defer func() { t.history.events = was }()
	t.history.events = slices.Clone(was)
	for _, c := range more {
		t.history.events = append(t.history.events, convstore.Event{Turn: t.history.turn, Body: c})
	}
	return t.request().Estimate()
}

// old are the calls before an event whose results are sent whole and are long enough for a stub, the oldest first.
func (t *turn) old(before int) (calls []string) {
	s := choose(t.history.events, t.Window)
	results := resultsOf(t.history.events)
	for i := s.from; i < before; i++ {
		c, ok := s.all[i].Body.(convstore.ToolCall)
		if !ok || isFetch(c.ID) || s.short[c.ID] {
			continue
		}
		if r, ok := results[c.ID]; ok && stubbable(r) {
			calls = append(calls, c.ID)
		}
	}
	return calls
}

// bare is how many events from the beginning hold nothing that a summary could cover, beside what the last one covers.
func (t *turn) bare() int {
	s := choose(t.history.events, t.Window)
	for i, ev := range s.all[s.from:] {
		switch ev.Body.(type) {
		case convstore.UserMessage, convstore.AssistantMessage, convstore.Structured, convstore.ToolCall:
			return s.from + i
		}
	}
	return len(s.all)
}

// covering is c with a summary of what is before an event, to be estimated.
func (t *turn) covering(c convstore.Compaction, at int) convstore.Compaction {
	c.Covered, c.Kept = count(t.history.events[:at]), count(t.history.events[at:])
	c.Summary = expected(c.Before)
	c.Conversations = t.conversations(context.Background(), at)
	return c
}

// expected stands for a summary that is not written yet, of a thread of so many tokens.
func expected(tokens int64) string {
	return strings.Repeat("xxx", int(min(summaryTokens/4, tokens/8)))
}

// place finds where the events begin that a summary leaves: the earliest place, at most last, with which the request has at most
// want tokens. Where none has, it is last; 0 where the request would not become shorter by a tenth.
func (t *turn) place(c convstore.Compaction, want int64, last int) int {
	begins := beginnings(t.history.events)
	var places []int
	for i := t.bare() + 1; i <= last; i++ {
		if begins[i] {
			places = append(places, i)
		}
	}
	if len(places) == 0 {
		return 0
	}
	listed := t.conversations(context.Background(), last)
	size := func(at int) int64 {
		c.Covered, c.Kept = count(t.history.events[:at]), count(t.history.events[at:])
		c.Summary, c.Conversations = expected(c.Before), listed
		return t.sized(c)
	}
	n := sort.Search(len(places), func(n int) bool { return size(places[n]) <= want })
	at := places[min(n, len(places)-1)]
	if size(at) > c.Before/10*9 {
		return 0
	}
	return at
}
