// Package otel sends spans to an OpenTelemetry collector, over OTLP/HTTP (send.go, encode.go) as
// the variables OTEL_* say (settings.go). Package spans decides what the spans are.
//
//	Tracer.Into(ctx) ... Start(ctx) -> Span -> End -> queue, bounded -> one goroutine, one POST at a time -> collector
//	                                                             Close: what is left, within the time of its context
//
// It does not use OpenTelemetry's SDK, whose packages would slow down the start of each process.
// Here nothing runs before the first span. A context carries the Tracer, and below a span that
// span; Start in a context with neither returns a nil *Span, which takes every call and does
// nothing. So code that records spans need not ask whether tracing is on.
//
// Nothing here fails or delays a run: spans that cannot be sent are dropped and counted, and Close
// returns how many there were.
package otel

import (
	"context"
	"crypto/rand"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Tracer makes the traces of one process. Fields are set before its first span. A nil Tracer
// records nothing.
type Tracer struct {
	Env     func(name string) string // the environment
	Version string                   // of this program
	PID     int                      // of this process
	Warn    func(text string)        // called at the first span with settings that cannot be followed; nil = not called

	once  sync.Once
	set   *settings // nil = nothing is recorded
	base  time.Time // what all times of this process are counted from: a clock that is set back does not turn them round
	queue queue
}

// Asked reports whether the environment asks for traces. It is fast.
func Asked(env func(string) string) bool {
	return env(varEndpoint) != "" || env(varTracesEndpoint) != "" || env(varExporter) != ""
}

// Plan is what would become of a trace, by the environment alone.
type Plan struct {
	URL      string   `json:"url"`      // address of the collector; "" = nothing is sent
	Content  bool     `json:"content"`  // with queries, answers, arguments and results
	Problems []string `json:"problems"` // settings that cannot be followed
}

// Look reads the environment and makes no connection.
func Look(env func(string) string) Plan {
	set, problems := readSettings(env, "", 0)
	p := Plan{Problems: append([]string{}, problems...)}
	if set != nil {
		p.URL, p.Content = set.url, set.content
	}
	return p
}

type contextKey struct{}

// Into returns a context in which Start begins spans of t.
func (t *Tracer) Into(ctx context.Context) context.Context {
	if t == nil {
		return ctx
	}
	return context.WithValue(ctx, contextKey{}, t)
}

// With returns a context in which Start begins spans below s; for a nil s it is ctx.
func With(ctx context.Context, s *Span) context.Context {
	if s == nil {
		return ctx
	}
	return context.WithValue(ctx, contextKey{}, s)
}

// Current returns the span of the context; nil = none.
func Current(ctx context.Context) *Span {
	s, _ := ctx.Value(contextKey{}).(*Span)
	return s
}

// Traced reports whether Start may begin a span in ctx. Where it reports false, attributes need not
// be made.
func Traced(ctx context.Context) bool { return ctx.Value(contextKey{}) != nil }

// Start begins a span below the span of the context, else below the one that TRACEPARENT names,
// else at the top of a new trace. The returned context has the new span. The caller must end it.
func Start(ctx context.Context, name string, kind Kind, attrs ...Attr) (context.Context, *Span) {
	var s *Span
	switch at := ctx.Value(contextKey{}).(type) {
	case *Span:
		s = &Span{tracer: at.tracer, link: at.link, parent: at.link.span}
		at.mu.Lock()
		s.shared = at.shared[:len(at.shared):len(at.shared)]
		at.mu.Unlock()
		s.link.span = newSpanID()
	case *Tracer:
		at.once.Do(at.open)
		if at.set == nil {
			return ctx, nil
		}
		caller, called := parseLink(at.Env("TRACEPARENT"), at.Env("TRACESTATE"))
		s = &Span{tracer: at, link: caller, parent: caller.span, remote: called}
		if !called {
			_, _ = rand.Read(s.link.trace[:]) // it never fails
		}
		s.link.span = newSpanID()
		s.link.sampled = at.set.sample(caller, called, s.link.trace)
	default:
		return ctx, nil
	}
	s.name, s.kind, s.start = cut(text(name), maxName), kind, s.tracer.now()
	s.Set(s.shared...)
	s.Set(attrs...)
	return With(ctx, s), s
}

// open reads the settings.
func (t *Tracer) open() {
	t.base = time.Now()
	set, warnings := readSettings(t.Env, t.Version, t.PID)
	t.set = set
	for _, w := range warnings {
		if t.Warn != nil {
			t.Warn(w)
		}
	}
	if set != nil {
		t.queue.open(set)
	}
}

// now is nanoseconds since 1970.
func (t *Tracer) now() int64 { return t.base.UnixNano() + int64(time.Since(t.base)) }

// Close sends what has ended and was not sent yet, as long as ctx lasts. The error is a *LostError.
// Spans that end later are lost.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	t.once.Do(func() {}) // spans that begin later are not recorded
	if t.set == nil {
		return nil
	}
	return t.queue.close(ctx)
}

// Kind is a span's kind, as OTLP numbers it.
type Kind int

const (
	Internal Kind = 1
	Client   Kind = 3 // a request to another program
)

// Bounds of one span. Texts are cut, events and attributes beyond are counted.
const (
	maxName   = 256      // bytes
	maxText   = 64 << 10 // bytes
	maxEvents = 512      // of a call that delegates 100 tasks there are three for each
	maxAttrs  = 128
)

// Span is something that takes time. All methods are safe for concurrent use, and do nothing on a
// nil Span.
type Span struct {
	tracer *Tracer
	link   link   // its own
	parent spanID // zero = none
	remote bool   // the parent is another process's
	name   string
	kind   Kind
	start  int64

	mu            sync.Mutex
	end           int64 // 0 = not ended
	attrs         []Attr
	shared        []Attr
	events        []event
	droppedAttrs  int
	droppedEvents int
	failed        bool
	message       string
}

type event struct {
	at    int64
	name  string
	attrs []Attr
}

// Attr is one attribute. The zero value is left out.
type Attr struct {
	key   string
	value any // string, int64, float64, bool or []string
}

// Str is a text, left out when it is empty.
func Str(key, value string) Attr {
	if value == "" {
		return Attr{}
	}
	return Attr{key, text(value)}
}

// Int is a number.
func Int(key string, value int64) Attr { return Attr{key, value} }

// Float is a number with a fraction.
func Float(key string, value float64) Attr { return Attr{key, value} }

// Bool is a truth.
func Bool(key string, value bool) Attr { return Attr{key, value} }

// Strs is a list of texts.
func Strs(key string, values ...string) Attr {
	list := make([]string, len(values))
	for i, v := range values {
		list[i] = text(v)
	}
	return Attr{key, list}
}

// text makes a text fit to be sent: valid and not too long.
func text(s string) string { return cut(strings.ToValidUTF8(s, "\uFFFD"), maxText) }

// cut shortens a valid text to at most n bytes, at a rune.
func cut(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// records reports whether s is one that is sent.
func (s *Span) records() bool { return s != nil && s.link.sampled }

// change locks s for a change. It reports false, and does not, where s is not sent or has ended.
func (s *Span) change() bool {
	if !s.records() {
		return false
	}
	s.mu.Lock()
	if s.end != 0 {
		s.mu.Unlock()
		return false
	}
	return true
}

// Set sets attributes; the last value of a key counts.
func (s *Span) Set(attrs ...Attr) {
	if !s.change() {
		return
	}
	defer s.mu.Unlock()
	for _, a := range attrs {
		s.set(a)
	}
}

func (s *Span) set(a Attr) {
	if a.key == "" {
		return
	}
	for i := range s.attrs {
		if s.attrs[i].key == a.key {
			s.attrs[i] = a
			return
		}
	}
	if len(s.attrs) == maxAttrs {
		s.droppedAttrs++
		return
	}
	s.attrs = append(s.attrs, a)
}

// Add sets those of attrs whose keys s does not have yet.
func (s *Span) Add(attrs ...Attr) {
	if !s.change() {
		return
	}
	defer s.mu.Unlock()
	for _, a := range attrs {
		if !slices.ContainsFunc(s.attrs, func(b Attr) bool { return b.key == a.key }) {
			s.set(a)
		}
	}
}

// Share sets attributes of s and of every span that begins below it from now on in this process.
func (s *Span) Share(attrs ...Attr) {
	if !s.change() {
		return
	}
	defer s.mu.Unlock()
	for _, a := range attrs {
		s.set(a)
	}
	s.shared = append(s.shared[:len(s.shared):len(s.shared)], attrs...)
}

// Event records that something happened now.
func (s *Span) Event(name string, attrs ...Attr) {
	if !s.records() {
		return
	}
	e := event{at: s.tracer.now(), name: text(name)}
	for _, a := range attrs {
		if a.key != "" {
			e.attrs = append(e.attrs, a)
		}
	}
	if !s.change() {
		return
	}
	defer s.mu.Unlock()
	if len(s.events) == maxEvents {
		s.droppedEvents++
		return
	}
	s.events = append(s.events, e)
}

// Fail records that s ends in an error. The kind is one of a few words. The message is content, and
// is recorded only if content is captured. Of several calls the first counts.
func (s *Span) Fail(kind, message string) {
	if !s.change() {
		return
	}
	defer s.mu.Unlock()
	if s.failed {
		return
	}
	s.failed = true
	if s.tracer.set.content {
		s.message = cut(text(message), 4<<10)
	}
	s.set(Str("error.type", kind))
}

// End ends s and queues it. Only the first call counts.
func (s *Span) End() {
	if !s.change() {
		return
	}
	s.end = s.tracer.now()
	s.mu.Unlock()
	s.tracer.queue.add(s)
}

// Capturing reports whether content may be recorded: queries, answers, arguments and results.
func (s *Span) Capturing() bool { return s.records() && s.tracer.set.content }

// Environ returns the variables with which the spans of another process are below s. If the
// collector does not answer, they turn off the spans of that process, so that not every process
// waits for the collector.
func (s *Span) Environ() []string {
	if s == nil {
		return nil
	}
	env := []string{"TRACEPARENT=" + s.link.String(), "TRACESTATE=" + s.link.state}
	if s.records() && s.tracer.queue.failing() {
		env = append(env, varDisabled+"=true")
	}
	return env
}

// size is about what s, which has ended, takes in a request.
func (s *Span) size() int {
	n := 200 + len(s.name) + len(s.message)
	add := func(attrs []Attr) {
		for _, a := range attrs {
			n += 16 + len(a.key)
			switch v := a.value.(type) {
			case string:
				n += len(v)
			case []string:
				for _, one := range v {
					n += len(one)
				}
			}
		}
	}
	add(s.attrs)
	for _, e := range s.events {
		n += 16 + len(e.name)
		add(e.attrs)
	}
	return n
}
