package model

import (
	"context"
	"errors"
	"iter"
	"sync/atomic"

	"jp/convstore"
)

// Count returns s with the usage of every reply, in one part before its Stop or its error. Where
// the provider reports no usage, or only that of the beginning, the usage is estimated, and the
// part says so.
//
// What is charged depends on how far the request came:
//
//   - A request that was not sent, or that the provider rejected (a status of 300 and above), used
//     nothing.
//   - A request that was sent used at least its input: only the provider knows what it did with a
//     request whose answer nobody waited for.
//   - A reply that broke off used at least the output that came, arguments of unfinished calls and
//     encrypted reasoning included.
func Count(s Stream) Stream {
	return func(ctx context.Context, r Request) iter.Seq2[Part, error] {
		return func(yield func(Part, error) bool) {
			c := counter{request: r}
			for p, err := range s(context.WithValue(ctx, progressKey{}, &c.progress), r) {
				switch {
				case err != nil:
					if u, ok := c.used(err); !ok || yield(u, nil) {
						yield(Part{}, err)
					}
					return
				case p.Usage != nil:
					c.reported = p
					continue
				case p.Stop != "":
					if u, _ := c.used(nil); !yield(u, nil) {
						return
					}
				}
				c.hear(p)
				if !yield(p, nil) {
					return
				}
			}
		}
	}
}

// counter follows one reply.
type counter struct {
	request  Request
	progress progress
	reported Part // of the usage

	said   int64 // bytes of text and reasoning
	pieces int64 // bytes of calls, as they came in pieces
	calls  int64 // and whole
}

func (c *counter) hear(p Part) {
	c.said += int64(len(p.Text) + len(p.ReasoningDelta))
	c.pieces += int64(len(p.CallDelta))
	if p.Call != nil {
		c.calls += int64(len(p.Call.Name) + len(p.Call.Arguments))
	}
}

// used returns the usage of a reply that ended, with err or well, and reports whether anything was
// used.
func (c *counter) used(err error) (Part, bool) {
	u := convstore.Usage{}
	if c.reported.Usage != nil {
		u = *c.reported.Usage
	}
	output := c.said + max(c.pieces, c.calls)
	if c.progress.answered.Load() {
		output += c.progress.hidden.Load()
	}
	if err == nil && !c.reported.Estimated && u.Input+u.CacheRead+u.CacheWrite > 0 && (u.Output > 0 || output == 0) {
		// the count of a whole reply is exact, unless input or output is missing
		return c.reported, true
	}
	if err != nil && u == (convstore.Usage{}) && output == 0 && !c.progress.billed(err) {
		return Part{}, false
	}
	p := Part{Usage: &u, Cost: c.reported.Cost, Estimated: c.reported.Estimated}
	if u.Input+u.CacheRead+u.CacheWrite == 0 {
		u.Input, p.Estimated = c.request.Estimate(), true
		if most := c.request.MaxInput; most > 0 {
			u.Input = min(u.Input, most)
		}
	}
	n := output/3 + 1
	if most := int64(c.request.MaxTokens); most > 0 && output <= most*longToken { // else the server did not keep it
		n = min(n, most)
	}
	if u.Output < n && (err == nil || output > 0) {
		u.Output, p.Estimated = n, true
	}
	return p, true
}

// longToken is how many bytes a token has at most, on the average of a reply.
const longToken = 8

// progress is how far a request came. Its sender sets it, from any goroutine.
type progress struct {
	sent, answered atomic.Bool
	hidden         atomic.Int64 // bytes of output that were in no part
}

type progressKey struct{}

// Sent reports to a Count above that the request was sent.
func Sent(ctx context.Context) {
	if p, ok := ctx.Value(progressKey{}).(*progress); ok {
		p.sent.Store(true)
	}
}

// Hidden reports to a Count above that bytes of output came which are in no part, or only in one
// that waits for the end of the reply.
func Hidden(ctx context.Context, bytes int) {
	if p, ok := ctx.Value(progressKey{}).(*progress); ok {
		p.hidden.Add(int64(bytes))
	}
}

// answered reports to a Count above that the reply has begun.
func answered(ctx context.Context) {
	if p, ok := ctx.Value(progressKey{}).(*progress); ok {
		p.answered.Store(true)
	}
}

// billed reports whether a request that only returned err may have cost something.
func (p *progress) billed(err error) bool {
	var e *Error
	if errors.As(err, &e) && e.Kind == KindContext { // rejected, also where a stream says so
		return false
	}
	if p.answered.Load() {
		return true
	}
	if !p.sent.Load() || e != nil && e.Status != 0 {
		return false
	}
	if e == nil {
		return true // the end of the run
	}
	switch e.Kind {
	case KindStream, KindIdle, KindNetwork:
		return true
	}
	return false
}
