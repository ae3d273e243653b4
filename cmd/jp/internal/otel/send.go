package otel

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"
)

// Bounds of what waits to be sent, and of one request.
const (
	maxQueued      = 2048
	maxQueuedBytes = 8 << 20
	maxBatch       = 512
	maxBatchBytes  = 2 << 20
	maxAnswer      = 64 << 10
)

// How long to wait after a successful request, so that several spans are sent together, and after a
// failed one.
const (
	pauseGood = time.Second
	pauseBad  = 5 * time.Second
	pauseMost = time.Minute
)

// slow is how long a request may take before sub-agents are started without tracing, because the
// collector does not answer.
const slow = time.Second

// queue holds spans that have ended until they are sent. The first span that ends is sent at once:
// so the connection is open, or has failed, before the run ends.
type queue struct {
	set    *settings
	ctx    context.Context // of requests; close ends it
	cancel context.CancelFunc
	wake   chan struct{} // holds one
	quit   chan struct{} // closed by close
	done   chan struct{} // closed when nothing is sent any more

	mu      sync.Mutex
	spans   []*Span
	bytes   int
	started bool      // run was, or nothing is to start it any more
	asking  bool      // an empty request is to find out whether the collector answers
	since   time.Time // start of the open request; zero = none
	closing bool      // close was called
	closed  bool      // nothing is taken any more
	lost    int
	cause   error         // of the latest loss
	why     error         // error of the last request; nil = it succeeded
	final   bool          // the last request was refused for good: spans are dropped for a while, and at the end
	rest    time.Duration // length of that while
}

// LostError says how many spans were not sent, and why.
type LostError struct {
	Spans int
	URL   string
	Err   error
}

func (e *LostError) Error() string {
	what := strconv.Itoa(e.Spans) + " spans were"
	if e.Spans == 1 {
		what = "1 span was"
	}
	return fmt.Sprintf("%s not sent to %s: %v", what, shownURL(e.URL), e.Err)
}

// shownURL is an address as messages show it: some collectors have a key in their path.
func shownURL(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "the collector"
	}
	if u.Path != "/v1/traces" {
		u.Path, u.RawPath = "/...", ""
	}
	return u.String()
}

// Unwrap returns the cause.
func (e *LostError) Unwrap() error { return e.Err }

func (q *queue) open(set *settings) {
	q.set, q.rest = set, pauseMost
	q.ctx, q.cancel = context.WithCancel(context.Background())
	q.wake, q.quit, q.done = make(chan struct{}, 1), make(chan struct{}), make(chan struct{})
}

// add takes over a span that has ended.
func (q *queue) add(s *Span) {
	size := s.size()
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.final:
		q.lost++
		return
	case q.closed || len(q.spans) >= maxQueued || q.bytes+size > maxQueuedBytes:
		q.lost++
		q.cause = errFull
		return
	}
	q.spans = append(q.spans, s)
	q.bytes += size
	if !q.started {
		q.started = true
		go q.run()
	}
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// failing reports whether the last request failed or has had no answer for long. If nothing was
// sent yet, it starts a request to find out, because otherwise each process below could wait for a
// collector that is not there.
func (q *queue) failing() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.started {
		q.started, q.asking = true, true
		go q.run()
		q.poke()
	}
	return q.why != nil || !q.since.IsZero() && time.Since(q.since) > slow
}

func (q *queue) run() {
	defer close(q.done)
	for {
		select {
		case <-q.wake:
		case <-q.quit:
			return
		}
		pause := q.flush(q.ctx)
		select {
		case <-time.After(pause):
			q.mu.Lock()
			q.final = false
			q.mu.Unlock()
		case <-q.quit:
			return
		}
	}
}

// flush sends what there is, until a request fails, and returns how long to wait before the next.
func (q *queue) flush(ctx context.Context) (pause time.Duration) {
	for {
		batch, any := q.take()
		if !any {
			return pauseGood
		}
		refused, err := q.set.post(ctx, batch)
		var e *postError
		again := errors.As(err, &e) && e.again
		q.mu.Lock()
		q.why, q.since = err, time.Time{}
		if refused > 0 {
			q.lost += refused
			q.cause = errRefused
		}
		switch {
		case again && !q.closed:
			q.spans = append(batch, q.spans...) // they fitted in before, so they may stay
			for _, s := range batch {
				q.bytes += s.size()
			}
		case err != nil:
			q.final = true
			q.lost += len(batch) + len(q.spans)
			q.cause = err
			q.spans, q.bytes = nil, 0
		}
		q.mu.Unlock()
		if err != nil {
			if !again {
				return q.rest
			}
			q.poke()
			return min(max(pauseBad, e.after), pauseMost)
		}
	}
}

// poke has run look again.
func (q *queue) poke() {
	select {
	case q.wake <- struct{}{}:
	default:
	}
}

// take removes what fits into one request, and reports whether there is one to be made.
func (q *queue) take() (batch []*Span, any bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	n, size := 0, 0
	for n < len(q.spans) && n < maxBatch {
		s := q.spans[n].size()
		if n > 0 && size+s > maxBatchBytes {
			break
		}
		size += s
		n++
	}
	batch = q.spans[:n:n]
	q.spans = q.spans[n:]
	q.bytes -= size
	if any = n > 0 || q.asking && !q.closed; any {
		q.asking, q.since = false, time.Now()
	}
	return batch, any
}

// close sends the rest as long as ctx lasts. Nothing is sent after it.
func (q *queue) close(ctx context.Context) error {
	defer q.cancel()
	q.mu.Lock()
	started, again := q.started, q.closing
	q.started, q.closing = true, true
	q.mu.Unlock()
	if again {
		return nil
	}
	if started {
		close(q.quit)
		defer context.AfterFunc(ctx, q.cancel)() // ends the open request
		<-q.done
	}
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.flush(ctx)
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.lost == 0 {
		return nil
	}
	return &LostError{Spans: q.lost, URL: q.set.url, Err: q.cause}
}

// postError is a request that failed.
type postError struct {
	text  string
	again bool          // it may go well later
	after time.Duration // wait that the collector asked for
	err   error
}

func (e *postError) Error() string { return e.text }

func (e *postError) Unwrap() error { return e.err }

// post sends one request. refused is the number of spans that the collector rejected although the
// request succeeded. The error is a *postError, and shows nothing of headers or of the answer.
func (s *settings) post(ctx context.Context, spans []*Span) (refused int, err error) {
	data := encode(s, spans)
	if s.gzip {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write(data) // into memory
		_ = z.Close()
		data = b.Bytes()
	}
	within, cancel := context.WithTimeoutCause(ctx, s.timeout, errSlow)
	defer cancel()
	req, err := http.NewRequestWithContext(within, http.MethodPost, s.url, bytes.NewReader(data))
	if err != nil {
		return 0, &postError{text: "not an address", err: err}
	}
	req.Header = s.headers.Clone()
	req.Header["Idempotency-Key"] = []string{} // not sent; for net/http it means that a connection that has gone stale is no failure
	resp, err := s.client.Do(req)
	if err != nil {
		if within.Err() != nil {
			err = context.Cause(within)
			if ctx.Err() != nil {
				err = errSlow // the run has ended meanwhile
			}
		}
		var u *url.Error
		if errors.As(err, &u) && u.Err != nil {
			err = u.Err // without the address, which is named anyway
		}
		return 0, &postError{text: err.Error(), again: true, err: err}
	}
	defer resp.Body.Close()
	answer, _ := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	switch code := resp.StatusCode; {
	case code >= 200 && code < 300:
		return min(rejected(answer), len(spans)), nil
	case code >= 300 && code < 400:
		return 0, &postError{text: fmt.Sprintf("it redirects (%d), where the headers would go along", code)}
	default:
		e := &postError{text: fmt.Sprintf("it answered %d %s", code, http.StatusText(code))}
		switch code {
		case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			e.again = true
			if n, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && n > 0 {
				e.after = time.Duration(min(n, 3600)) * time.Second
			}
		}
		return 0, e
	}
}

var (
	errSlow    = errors.New("it did not answer in time")
	errFull    = errors.New("too many waited to be sent")
	errRefused = errors.New("it did not take them")
)
