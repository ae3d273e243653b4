package otel_test

import (
	"context"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	trace "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"pgregory.net/rapid"

	"jp/cmd/jp/internal/otel"
	"jp/cmd/jp/internal/test/otlp"
)

// patience is for what must happen and takes as long as it takes.
const patience = 2 * time.Minute

// eventually waits until something holds.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !holds(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no sign of %s", what)
		}
	}
}

// tracer is one that sends to url.
func tracer(t interface{ Errorf(string, ...any) }, url string, more ...string) *otel.Tracer {
	return &otel.Tracer{
		Env: environ(append([]string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + url}, more...)), Version: "1.0", PID: 7,
		Warn: func(text string) { t.Errorf("told: %s", text) },
	}
}

func environ(entries []string) func(string) string {
	return func(name string) string {
		for _, e := range slices.Backward(entries) {
			if k, v, _ := strings.Cut(e, "="); k == name {
				return v
			}
		}
		return ""
	}
}

// finish closes a tracer with time enough.
func finish(tr *otel.Tracer) error {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	return tr.Close(ctx)
}

// once records one span and closes.
func once(tr *otel.Tracer) error {
	_, s := otel.Start(tr.Into(context.Background()), "one", otel.Internal)
	s.End()
	return finish(tr)
}

func TestNothingAsked(t *testing.T) {
	ctx, s := otel.Start(context.Background(), "one", otel.Internal, otel.Str("a", "b"))
	s.Set(otel.Int("a", 1))
	s.Share(otel.Int("a", 1))
	s.Event("e")
	s.Fail("error", "m")
	s.Add(otel.Int("a", 1))
	s.End()
	if s != nil || otel.Current(ctx) != nil || s.Environ() != nil || s.Capturing() {
		t.Errorf("a context that is not traced gives a span: %v", s)
	}
	if n := testing.AllocsPerRun(100, func() { otel.Current(context.Background()).Event("e") }); n != 0 {
		t.Errorf("an event of no span allocates %v times", n)
	}
	for _, env := range [][]string{
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "OTEL_SDK_DISABLED=true"},
		{"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:1", "OTEL_TRACES_EXPORTER=none"},
	} {
		tr := &otel.Tracer{Env: environ(env)}
		if _, s := otel.Start(tr.Into(context.Background()), "one", otel.Internal); s != nil {
			t.Errorf("%q: a span", env)
		}
		if err := finish(tr); err != nil {
			t.Errorf("%q: %v", env, err)
		}
	}
	var none *otel.Tracer
	if err := finish(none); err != nil || none.Into(context.Background()) != context.Background() {
		t.Errorf("a nil tracer: %v", err)
	}
}

func TestTree(t *testing.T) {
	c := otlp.New(nil)
	defer c.Close()
	const caller = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
	tr := tracer(t, c.URL, "TRACEPARENT="+caller, "TRACESTATE=vendor=1", "OTEL_RESOURCE_ATTRIBUTES=team=red")
	ctx, top := otel.Start(tr.Into(context.Background()), "top", otel.Internal)
	top.Share(otel.Str("shared", "yes"))
	_, below := otel.Start(ctx, "below", otel.Client, otel.Int("n", -3), otel.Strs("list", "a", "b"), otel.Float("f", 0.5), otel.Bool("b", false))
	below.Event("happened", otel.Str("what", "it"), otel.Str("empty", ""))
	below.Fail("first", "secret words")
	below.Fail("second", "")
	below.Set(otel.Str("shared", "own"))
	below.End()
	below.Set(otel.Str("late", "x"))
	below.End()
	env := below.Environ()
	top.End()
	if err := finish(tr); err != nil {
		t.Fatal(err)
	}
	spans := c.Spans()
	if len(spans) != 2 {
		t.Fatalf("%d spans, want 2: %+v", len(spans), spans)
	}
	b, a := spans[0], spans[1]
	if want := []string{"TRACEPARENT=00-" + b.Trace + "-" + b.ID + "-01", "TRACESTATE=vendor=1"}; !slices.Equal(env, want) {
		t.Errorf("Environ() = %q, want %q", env, want)
	}
	if a.Start > b.Start || b.Start > b.End || b.End > a.End || len(b.Events) != 1 || b.Events[0].Time < b.Start || b.Events[0].Time > b.End {
		t.Errorf("times: %d [%d %+v %d] %d", a.Start, b.Start, b.Events, b.End, a.End)
	}
	if b.Parent != a.ID || b.ID == a.ID || len(b.ID) != 16 {
		t.Errorf("span %s below %s, want it below %s", b.ID, b.Parent, a.ID)
	}
	a.Start, a.End, a.ID, b.Start, b.End, b.ID, b.Parent, b.Events[0].Time = 0, 0, "", 0, 0, "", "", 0
	resource := map[string]any{
		"service.name": "jp", "service.version": "1.0", "process.pid": int64(7), "telemetry.sdk.name": "jp",
		"telemetry.sdk.language": "go", "telemetry.sdk.version": "1.0", "team": "red",
	}
	const id = "4bf92f3577b34da6a3ce929d0e0e4736"
	want := []otlp.Span{{
		Trace: id, State: "vendor=1", Name: "below", Kind: trace.Span_SPAN_KIND_CLIENT, Flags: 0x101, Failed: true, Resource: resource,
		Attrs:  map[string]any{"n": int64(-3), "list": []any{"a", "b"}, "f": 0.5, "b": false, "shared": "own", "error.type": "first"},
		Events: []otlp.Event{{Name: "happened", Attrs: map[string]any{"what": "it"}}},
	}, {
		Trace: id, Parent: "00f067aa0ba902b7", State: "vendor=1", Name: "top", Kind: trace.Span_SPAN_KIND_INTERNAL, Flags: 0x301,
		Resource: resource, Attrs: map[string]any{"shared": "yes"},
	}}
	if got := []otlp.Span{b, a}; !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// TestUnsampled: what is not recorded hands on that it is not.
func TestUnsampled(t *testing.T) {
	c := otlp.New(nil)
	defer c.Close()
	tr := tracer(t, c.URL, "OTEL_TRACES_SAMPLER=always_off")
	ctx, top := otel.Start(tr.Into(context.Background()), "top", otel.Internal)
	_, below := otel.Start(ctx, "below", otel.Internal)
	below.Event("e")
	below.End()
	top.End()
	if err := finish(tr); err != nil || len(c.Requests()) != 0 {
		t.Errorf("Close: %v, %d requests, want none", err, len(c.Requests()))
	}
	parent := below.Environ()[0]
	if want := strings.TrimSuffix(top.Environ()[0], "-00")[:len("TRACEPARENT=00-")+32]; !strings.HasPrefix(parent, want) || !strings.HasSuffix(parent, "-00") {
		t.Errorf("Environ() = %s, want %s...-00", parent, want)
	}
}

// TestEncoding: whatever a span holds, OpenTelemetry's own decoder reads the same.
func TestEncoding(t *testing.T) {
	c := otlp.New(nil)
	defer c.Close()
	rapid.Check(t, func(t *rapid.T) {
		var attrs []otel.Attr
		want := map[string]any{}
		for range rapid.IntRange(0, 5).Draw(t, "attributes") {
			key := rapid.String().Draw(t, "key")
			var a otel.Attr
			var value any
			switch rapid.IntRange(0, 4).Draw(t, "type") {
			case 0:
				text := rapid.String().Draw(t, "text")
				if a, value = otel.Str(key, text), text; text == "" {
					continue
				}
			case 1:
				n := rapid.Int64().Draw(t, "n")
				a, value = otel.Int(key, n), n
			case 2:
				f := rapid.Float64().Draw(t, "f")
				a, value = otel.Float(key, f), f
			case 3:
				b := rapid.Bool().Draw(t, "b")
				a, value = otel.Bool(key, b), b
			default:
				list, texts := []any{}, rapid.SliceOfN(rapid.String(), 0, 3).Draw(t, "list")
				for _, text := range texts {
					list = append(list, text)
				}
				a, value = otel.Strs(key, texts...), list
			}
			if attrs = append(attrs, a); key != "" {
				want[key] = value
			}
		}
		name := rapid.StringN(0, 64, 256).Draw(t, "name")
		kind := rapid.SampledFrom([]otel.Kind{otel.Internal, otel.Client}).Draw(t, "kind")
		said := rapid.String().Draw(t, "said")
		fails := rapid.Bool().Draw(t, "fails")
		more := rapid.SampledFrom([]string{"OTEL_EXPORTER_OTLP_COMPRESSION=gzip", "OTEL_EXPORTER_OTLP_COMPRESSION=none"}).Draw(t, "compression")
		from := len(c.Spans())
		tr := tracer(t, c.URL, more, "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT=true")
		_, s := otel.Start(tr.Into(context.Background()), name, kind, attrs...)
		s.Event("happened")
		if fails {
			s.Fail("kind", said)
			want["error.type"] = "kind"
		}
		s.End()
		if err := finish(tr); err != nil {
			t.Fatal(err)
		}
		if r := c.Requests()[len(c.Requests())-1]; r.Err != nil {
			t.Fatalf("%v in %q", r.Err, r.Body)
		}
		spans := c.Spans()[from:]
		if len(spans) != 1 {
			t.Fatalf("%d spans, want 1", len(spans))
		}
		got := spans[0]
		if got.End < got.Start || len(got.ID) != 16 || len(got.Trace) != 32 || got.Name != name || int32(got.Kind) != int32(kind) ||
			len(got.Events) != 1 || got.Failed != fails || fails && got.Message != said {
			t.Errorf("%+v", got)
		}
		if a, b := fmt.Sprintf("%#v", got.Attrs), fmt.Sprintf("%#v", want); a != b { // %#v, since NaN is no number
			t.Errorf("got  %s\nwant %s", a, b)
		}
	})
}

// TestBounds: what is too much for one span is cut or counted, and what waits to be sent does not
// grow without end.
func TestBounds(t *testing.T) {
	block := make(chan struct{})
	c := otlp.New(func(w http.ResponseWriter, r *http.Request) bool { <-block; return false })
	defer c.Close()
	tr := tracer(t, c.URL)
	ctx := tr.Into(context.Background())
	_, s := otel.Start(ctx, strings.Repeat("é", 40_000), otel.Internal)
	for i := range 600 {
		s.Set(otel.Int(fmt.Sprint(i), 1))
		s.Event("e")
	}
	s.Set(otel.Str("0", "\xff"+strings.Repeat("x", 70_000)))
	s.End()
	const more = 3000
	for range more {
		_, s := otel.Start(ctx, "more", otel.Internal)
		s.End()
	}
	close(block)
	err := finish(tr)
	var lost *otel.LostError
	got := c.Spans()
	if !errors.As(err, &lost) || lost.Spans+len(got) != more+1 || len(got) < 2048 || len(got) > 2048+512 {
		t.Fatalf("Close() = %v with %d spans sent, want 2048 of %d and the first request, and the others counted", err, len(got), more+1)
	}
	if want := fmt.Sprintf("%d spans were not sent to %s/v1/traces: too many waited to be sent", lost.Spans, c.URL); err.Error() != want {
		t.Errorf("Close() = %q, want %q", err, want)
	}
	first := got[0]
	if text, _ := first.Attrs["0"].(string); len(first.Name) != 256 || len(first.Attrs) != 128 || len(first.Events) != 512 ||
		len(text) != 64<<10 || !strings.HasPrefix(text, "\uFFFDxxx") {
		t.Errorf("name of %d bytes, %d attributes, %d events, a text of %d bytes", len(first.Name), len(first.Attrs), len(first.Events), len(text))
	}
	for _, r := range c.Requests() {
		if len(r.Body) > 3<<20 {
			t.Errorf("a request of %d bytes", len(r.Body))
		}
	}
}

func TestAnswers(t *testing.T) {
	for _, tt := range []struct {
		name   string
		answer func(w http.ResponseWriter)
		want   string // of Close; URL stands for the collector's
		posts  int
	}{
		{"ok", func(w http.ResponseWriter) {}, "", 1},
		{"ok with a body that makes no sense", func(w http.ResponseWriter) { _, _ = w.Write([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff")) }, "", 1},
		{"ok with a body without end", func(w http.ResponseWriter) { _, _ = w.Write(make([]byte, 1<<20)) }, "", 1},
		{"partial", func(w http.ResponseWriter) { _, _ = w.Write([]byte("\x0a\x04\x08\x01\x12\x00")) }, "1 span was not sent to URL: it did not take them", 1},
		{"more than there were", func(w http.ResponseWriter) { _, _ = w.Write([]byte("\x0a\x02\x08\x63")) }, "1 span was not sent to URL: it did not take them", 1},
		{"a message alone", func(w http.ResponseWriter) { _, _ = w.Write([]byte("\x0a\x04\x12\x02hm")) }, "", 1},
		{"no key", func(w http.ResponseWriter) { w.WriteHeader(401) }, "1 span was not sent to URL: it answered 401 Unauthorized", 1},
		{"not here", func(w http.ResponseWriter) { w.WriteHeader(404) }, "1 span was not sent to URL: it answered 404 Not Found", 1},
		{"busy", func(w http.ResponseWriter) { w.Header().Set("Retry-After", "1000000"); w.WriteHeader(503) },
			"1 span was not sent to URL: it answered 503 Service Unavailable", 2}, // at once, and at the end
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := otlp.New(func(w http.ResponseWriter, _ *http.Request) bool { tt.answer(w); return true })
			defer c.Close()
			tr := tracer(t, c.URL)
			_, s := otel.Start(tr.Into(context.Background()), "one", otel.Internal)
			s.End()
			eventually(t, "a request before the end", func() bool { return len(c.Requests()) > 0 })
			got := ""
			if err := finish(tr); err != nil {
				got = strings.ReplaceAll(err.Error(), c.URL+"/v1/traces", "URL")
			}
			if got != tt.want || len(c.Requests()) != tt.posts {
				t.Errorf("Close() = %q after %d requests, want %q after %d", got, len(c.Requests()), tt.want, tt.posts)
			}
			if again := finish(tr); again != nil {
				t.Errorf("a second Close() = %v", again)
			}
		})
	}
}

// TestRedirect: the headers go to the endpoint and nowhere else.
func TestRedirect(t *testing.T) {
	elsewhere := otlp.New(nil)
	defer elsewhere.Close()
	for _, code := range []int{301, 302, 303, 307, 308} {
		c := httptest.NewServer(http.RedirectHandler(elsewhere.URL+"/v1/traces", code))
		err := once(tracer(t, c.URL, "OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20secret"))
		want := fmt.Sprintf("1 span was not sent to %s/v1/traces: it redirects (%d), where the headers would go along", c.URL, code)
		if err == nil || err.Error() != want {
			t.Errorf("%d: %v, want %s", code, err, want)
		}
		c.Close()
	}
	if n := len(elsewhere.Requests()); n != 0 {
		t.Errorf("%d requests went elsewhere", n)
	}
}

// TestProtocol: HTTP/2 is not spoken, in which a collector can hold up what reads and closes its
// answer.
func TestProtocol(t *testing.T) {
	spoken := ""
	c := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { spoken = r.Proto }))
	c.EnableHTTP2 = true
	c.StartTLS()
	defer c.Close()
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := once(tracer(t, c.URL, "OTEL_EXPORTER_OTLP_CERTIFICATE="+ca)); spoken != "HTTP/1.1" || err != nil {
		t.Errorf("the collector heard %s, %v, want HTTP/1.1", spoken, err)
	}
}

// TestHeaders: each request has them, and the body's own.
func TestHeaders(t *testing.T) {
	c := otlp.New(nil)
	defer c.Close()
	if err := once(tracer(t, c.URL+"/base/", "OTEL_EXPORTER_OTLP_HEADERS=authorization=Bearer%20secret,x-tenant=me")); err != nil {
		t.Fatal(err)
	}
	r := c.Requests()[0]
	for name, want := range map[string]string{
		"Authorization": "Bearer secret", "X-Tenant": "me", "Content-Type": "application/x-protobuf", "User-Agent": "jp/1.0", "Accept-Encoding": "", "Idempotency-Key": "",
	} {
		if got := r.Header.Get(name); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
	if r.Path != "/base/v1/traces" {
		t.Errorf("path %s", r.Path)
	}
}

// TestGone: where nobody answers, other processes are told to send nothing, and the end says what
// was lost.
func TestGone(t *testing.T) {
	tr := tracer(t, "http://127.0.0.1:1") // the port of a server that was closed may be another test's by now
	ctx, top := otel.Start(tr.Into(context.Background()), "top", otel.Internal)
	if n := len(top.Environ()); n != 2 {
		t.Errorf("Environ() = %q before anything was sent", top.Environ())
	}
	_, s := otel.Start(ctx, "one", otel.Internal)
	s.End()
	eventually(t, "that nobody answers", func() bool { return len(top.Environ()) == 3 })
	if got := top.Environ()[2]; got != "OTEL_SDK_DISABLED=true" {
		t.Errorf("Environ() tells %s", got)
	}
	top.End()
	err := finish(tr)
	var lost *otel.LostError
	if !errors.As(err, &lost) || lost.Spans != 2 || !strings.HasSuffix(err.Error(), "connect: connection refused") {
		t.Errorf("Close() = %v", err)
	}
}

// mute is a collector that takes requests, tells came of each and never answers.
func mute(t *testing.T) (c *httptest.Server, came chan struct{}) {
	came, quit := make(chan struct{}, 4), make(chan struct{})
	c = httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		came <- struct{}{}
		<-quit
	}))
	t.Cleanup(c.Close)
	t.Cleanup(func() { close(quit) })
	return c, came
}

// TestHangs: a collector that takes a request and never answers holds nobody beyond the context of
// Close.
func TestHangs(t *testing.T) {
	c, came := mute(t)
	tr := tracer(t, c.URL)
	_, s := otel.Start(tr.Into(context.Background()), "one", otel.Internal)
	s.End()
	<-came
	ctx, cancel := context.WithCancel(context.Background())
	closed := make(chan error)
	go func() { closed <- tr.Close(ctx) }()
	cancel()
	select {
	case err := <-closed:
		if want := "1 span was not sent to " + c.URL + "/v1/traces: it did not answer in time"; err == nil || err.Error() != want {
			t.Errorf("Close() = %v, want %s", err, want)
		}
	case <-time.After(patience):
		t.Fatal("Close() does not return")
	}
}

// TestUnanswered: who begins sub-agents before any span was sent finds out that a collector does
// not answer, and tells them; lost is nothing by that.
func TestUnanswered(t *testing.T) {
	c, came := mute(t)
	tr := tracer(t, c.URL)
	_, s := otel.Start(tr.Into(context.Background()), "one", otel.Internal)
	if got := s.Environ(); len(got) != 2 {
		t.Errorf("Environ() at first = %q", got)
	}
	<-came
	eventually(t, "that nobody answers", func() bool { return len(s.Environ()) == 3 })
	if got := s.Environ()[2]; got != "OTEL_SDK_DISABLED=true" {
		t.Errorf("Environ() tells %s", got)
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	if err := tr.Close(over); err != nil {
		t.Errorf("Close() = %v", err)
	}
}

// TestSlow: a request ends after the time of OTEL_EXPORTER_OTLP_TIMEOUT.
func TestSlow(t *testing.T) {
	quit := make(chan struct{})
	c := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-quit }))
	defer c.Close()
	defer close(quit)
	err := once(tracer(t, c.URL, "OTEL_EXPORTER_OTLP_TIMEOUT=20"))
	if want := "1 span was not sent to " + c.URL + "/v1/traces: it did not answer in time"; err == nil || err.Error() != want {
		t.Errorf("Close() = %v, want %s", err, want)
	}
}

// TestRecovers: what could not be sent is sent once the collector takes it again.
func TestRecovers(t *testing.T) {
	var mu sync.Mutex
	well := false
	c := otlp.New(func(w http.ResponseWriter, _ *http.Request) bool {
		mu.Lock()
		defer mu.Unlock()
		if !well {
			w.WriteHeader(http.StatusBadGateway)
		}
		return !well
	})
	defer c.Close()
	tr := tracer(t, c.URL)
	ctx := tr.Into(context.Background())
	for i := range 3 {
		_, s := otel.Start(ctx, fmt.Sprint(i), otel.Internal)
		s.End()
	}
	eventually(t, "a request before the end", func() bool { return len(c.Requests()) > 0 })
	mu.Lock()
	well = true
	mu.Unlock()
	if err := finish(tr); err != nil {
		t.Fatal(err)
	}
	names := ""
	for _, s := range c.Spans() {
		names += s.Name
	}
	if names != "012" {
		t.Errorf("received %q, want 012", names)
	}
}
