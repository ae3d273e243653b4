package worker

import (
	"context"
	"time"

	"jp/convstore"
)

// Report is what is known of a node.
type Report struct {
	Host      string
	Build     string        // version of jp there
	Lacks     []string      // what its sandbox cannot enforce
	Launch    time.Duration // from the start of the launcher to the first line of the node
	RoundTrip time.Duration // from the word to go to what the node says then
}

// Probe starts a launcher once, goes through its first lines, and ends it. The error is a
// *delegate.EndError, or the cause of ctx.
func Probe(ctx context.Context, o Options) (r Report, err error) {
	p := NewPool(o)
	defer context.AfterFunc(ctx, p.end)()
	c := newConn(p)
	begun := sinceBoot()
	done, _, err := c.launch()
	if err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return r, err
	}
	defer done()
	r = Report{Host: c.host, Build: plain(c.hello.Build, 100), Launch: c.heard - begun}
	for _, what := range c.hello.Lacks {
		r.Lacks = append(r.Lacks, plain(what, maxText))
	}
	if _, err := c.lines.next(); err != nil {
		return r, p.failed(convstore.StateError, "%s answers no more: %v", c.host, err)
	}
	r.RoundTrip = sinceBoot() - c.answered
	return r, c.lines.write(message{verb: verbBye})
}
