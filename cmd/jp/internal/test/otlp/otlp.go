// Package otlp is a trace collector for tests: an HTTP server on loopback that takes OTLP in
// protobuf and decodes it with OpenTelemetry's own types.
package otlp

import (
	"compress/gzip"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"

	common "go.opentelemetry.io/proto/slim/otlp/common/v1"
	trace "go.opentelemetry.io/proto/slim/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// Span is a span that was received. Attribute values are string, bool, int64, float64 or []any of
// these.
type Span struct {
	Trace, ID, Parent string // hexadecimal; Parent is "" at the top
	State             string // tracestate
	Name              string
	Kind              trace.Span_SpanKind
	Start, End        uint64 // nanoseconds since 1970
	Flags             uint32
	Attrs             map[string]any
	Events            []Event
	Failed            bool   // the status is an error
	Message           string // of the status
	Resource          map[string]any
}

// Event is an event of a span.
type Event struct {
	Time  uint64
	Name  string
	Attrs map[string]any
}

// Request is a request that came.
type Request struct {
	Path   string
	Header http.Header
	Body   []byte // not compressed
	Err    error  // why it is no OTLP
}

// Collector is the server. It is safe for concurrent use.
type Collector struct {
	*httptest.Server

	mu       sync.Mutex
	spans    []Span
	requests []Request
}

// New starts a collector. answer, unless nil, answers a request instead, which is then recorded
// without its spans where it reports true. The caller closes the collector.
func New(answer func(w http.ResponseWriter, r *http.Request) bool) *Collector {
	c := &Collector{}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		req := Request{Path: r.URL.Path, Header: r.Header.Clone()}
		var body io.Reader = r.Body
		if r.Header.Get("Content-Encoding") == "gzip" {
			if body, req.Err = gzip.NewReader(r.Body); req.Err != nil {
				body = r.Body
			}
		}
		var err error
		if req.Body, err = io.ReadAll(body); err != nil {
			req.Err = err
		}
		answered := answer != nil && answer(w, r)
		spans, err := decode(r.Header.Get("Content-Type"), req.Body)
		if req.Err == nil {
			req.Err = err
		}
		c.mu.Lock()
		c.requests = append(c.requests, req)
		if !answered {
			c.spans = append(c.spans, spans...)
		}
		c.mu.Unlock()
		if !answered && req.Err != nil {
			http.Error(w, req.Err.Error(), http.StatusBadRequest)
		}
	}))
	return c
}

// Spans are those that came so far.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.spans)
}

// Requests are those that came so far.
func (c *Collector) Requests() []Request {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.requests)
}

func decode(kind string, body []byte) ([]Span, error) {
	var data trace.TracesData // on the wire an ExportTraceServiceRequest is the same
	if kind != "application/x-protobuf" {
		return nil, fmt.Errorf("content type %q", kind)
	}
	if err := proto.Unmarshal(body, &data); err != nil {
		return nil, err
	}
	var list []Span
	for _, r := range data.ResourceSpans {
		for _, scope := range r.ScopeSpans {
			for _, s := range scope.Spans {
				one := Span{
					Trace: hex.EncodeToString(s.TraceId), ID: hex.EncodeToString(s.SpanId), Parent: hex.EncodeToString(s.ParentSpanId),
					State: s.TraceState, Name: s.Name, Kind: s.Kind, Start: s.StartTimeUnixNano, End: s.EndTimeUnixNano, Flags: s.Flags,
					Attrs: attrs(s.Attributes), Resource: attrs(r.Resource.GetAttributes()),
					Failed: s.Status.GetCode() == trace.Status_STATUS_CODE_ERROR, Message: s.Status.GetMessage(),
				}
				for _, e := range s.Events {
					one.Events = append(one.Events, Event{Time: e.TimeUnixNano, Name: e.Name, Attrs: attrs(e.Attributes)})
				}
				list = append(list, one)
			}
		}
	}
	return list, nil
}

func attrs(list []*common.KeyValue) map[string]any {
	m := map[string]any{}
	for _, kv := range list {
		m[kv.Key] = value(kv.Value)
	}
	return m
}

func value(v *common.AnyValue) any {
	switch v := v.GetValue().(type) {
	case *common.AnyValue_StringValue:
		return v.StringValue
	case *common.AnyValue_BoolValue:
		return v.BoolValue
	case *common.AnyValue_IntValue:
		return v.IntValue
	case *common.AnyValue_DoubleValue:
		return v.DoubleValue
	case *common.AnyValue_ArrayValue:
		list := []any{}
		for _, one := range v.ArrayValue.GetValues() {
			list = append(list, value(one))
		}
		return list
	}
	return nil
}
