package otel

import (
	"encoding/binary"
	"math"
)

// The messages of OTLP, as opentelemetry/proto/{collector,trace,common,resource}/v1 number their
// fields:
//
//	ExportTraceServiceRequest  1 ResourceSpans
//	ResourceSpans              1 Resource {1 KeyValue}  2 ScopeSpans
//	ScopeSpans                 1 InstrumentationScope {1 name, 2 version}  2 Span
//	Span                       1 trace_id  2 span_id  3 trace_state  4 parent_span_id  5 name  6 kind  7 start  8 end (fixed64)
//	                           9 KeyValue  10 dropped attributes  11 Event  12 dropped events  15 Status  16 flags (fixed32)
//	Event                      1 time (fixed64)  2 name  3 KeyValue
//	Status                     2 message  3 code
//	KeyValue                   1 key  2 AnyValue {1 string, 2 bool, 3 int, 4 double, 5 ArrayValue {1 AnyValue}}
const (
	statusError   = 2
	flagHasRemote = 0x100 // bit of flags above the byte that TRACEPARENT has: flagRemote is valid
	flagRemote    = 0x200 // the parent is another process's
	scopeName     = "jp"
)

// flags are Span.flags.
func (s *Span) flags() uint32 {
	f := uint32(flagHasRemote)
	if s.link.sampled {
		f |= 1
	}
	if s.remote {
		f |= flagRemote
	}
	return f
}

// encode is a request.
func encode(set *settings, spans []*Span) []byte {
	return message(nil, 1, func(b []byte) []byte {
		b = message(b, 1, func(b []byte) []byte { return protoAttrs(b, 1, set.resource) })
		return message(b, 2, func(b []byte) []byte {
			b = message(b, 1, func(b []byte) []byte { return str(str(b, 1, scopeName), 2, set.scope) })
			for _, s := range spans {
				b = message(b, 2, s.proto)
			}
			return b
		})
	})
}

func (s *Span) proto(b []byte) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	b = str(b, 1, string(s.link.trace[:]))
	b = str(b, 2, string(s.link.span[:]))
	b = str(b, 3, s.link.state)
	if s.parent != (spanID{}) {
		b = str(b, 4, string(s.parent[:]))
	}
	b = str(b, 5, s.name)
	b = number(b, 6, uint64(s.kind))
	b = fixed64(b, 7, uint64(s.start))
	b = fixed64(b, 8, uint64(s.end))
	b = protoAttrs(b, 9, s.attrs)
	b = number(b, 10, uint64(s.droppedAttrs))
	for _, e := range s.events {
		b = message(b, 11, func(b []byte) []byte { return protoAttrs(str(fixed64(b, 1, uint64(e.at)), 2, e.name), 3, e.attrs) })
	}
	b = number(b, 12, uint64(s.droppedEvents))
	if s.failed {
		b = message(b, 15, func(b []byte) []byte { return number(str(b, 2, s.message), 3, statusError) })
	}
	return binary.LittleEndian.AppendUint32(tag(b, 16, 5), s.flags())
}

func protoAttrs(b []byte, field int, attrs []Attr) []byte {
	for _, a := range attrs {
		b = message(b, field, func(b []byte) []byte {
			return message(str(b, 1, a.key), 2, func(b []byte) []byte { return protoValue(b, a.value) })
		})
	}
	return b
}

// protoValue encodes an AnyValue, in which a zero is written too: the field says which type it is.
func protoValue(b []byte, value any) []byte {
	switch v := value.(type) {
	case string:
		b = append(binary.AppendUvarint(tag(b, 1, 2), uint64(len(v))), v...)
	case bool:
		n := uint64(0)
		if v {
			n = 1
		}
		b = binary.AppendUvarint(tag(b, 2, 0), n)
	case int64:
		b = binary.AppendUvarint(tag(b, 3, 0), uint64(v))
	case float64:
		b = binary.LittleEndian.AppendUint64(tag(b, 4, 1), math.Float64bits(v))
	case []string:
		b = message(b, 5, func(b []byte) []byte {
			for _, one := range v {
				b = message(b, 1, func(b []byte) []byte { return protoValue(b, one) })
			}
			return b
		})
	}
	return b
}

// tag begins a field: wire type 0 is a varint, 1 has 8 bytes, 2 a length, 5 has 4 bytes.
func tag(b []byte, field, wire int) []byte { return binary.AppendUvarint(b, uint64(field<<3|wire)) }

func message(b []byte, field int, build func([]byte) []byte) []byte {
	inner := build(nil)
	return append(binary.AppendUvarint(tag(b, field, 2), uint64(len(inner))), inner...)
}

func str(b []byte, field int, s string) []byte {
	if s == "" {
		return b
	}
	return append(binary.AppendUvarint(tag(b, field, 2), uint64(len(s))), s...)
}

func number(b []byte, field int, n uint64) []byte {
	if n == 0 {
		return b
	}
	return binary.AppendUvarint(tag(b, field, 0), n)
}

func fixed64(b []byte, field int, n uint64) []byte {
	return binary.LittleEndian.AppendUint64(tag(b, field, 1), n)
}

// rejected returns the number of spans that a collector rejected, by its answer to a successful
// request: ExportTraceServiceResponse {1 partial_success {1 rejected_spans}}. An answer that cannot
// be read counts as 0.
func rejected(body []byte) (n int) {
	fields(body, func(field int, _ uint64, partial []byte) {
		if field == 1 {
			fields(partial, func(field int, value uint64, _ []byte) {
				if field == 1 && value <= math.MaxInt32 {
					n = int(value)
				}
			})
		}
	})
	return n
}

// fields yields the fields of a message until one cannot be read.
func fields(b []byte, each func(field int, value uint64, bytes []byte)) {
	for len(b) > 0 {
		key, n := binary.Uvarint(b)
		if n <= 0 {
			return
		}
		b = b[n:]
		var value uint64
		var bytes []byte
		switch key & 7 {
		case 0, 2:
			if value, n = binary.Uvarint(b); n <= 0 {
				return
			}
			b = b[n:]
			if key&7 == 2 {
				if value > uint64(len(b)) {
					return
				}
				bytes, b = b[:value], b[value:]
			}
		case 1, 5:
			size := 8
			if key&7 == 5 {
				size = 4
			}
			if len(b) < size {
				return
			}
			b = b[size:]
		default:
			return
		}
		each(int(key>>3), value, bytes)
	}
}
