package otel

import (
	"math"
	"testing"
)

// FuzzRejected: whatever a collector answers, it is a number of spans or none.
func FuzzRejected(f *testing.F) {
	f.Add([]byte("\x0a\x04\x08\x01\x12\x00"), false)
	f.Add([]byte("\x0a\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"), false)
	f.Add([]byte("\x0d\x00\x00\x00\x00\x09\x00\x00\x00\x00\x00\x00\x00\x00\x0a\x02\x08\x05"), false)
	f.Add([]byte(`{"partialSuccess":{"rejectedSpans":"3"}}`), true)
	f.Add([]byte(`{"partialSuccess":{"rejectedSpans":-3}}`), true)
	f.Fuzz(func(t *testing.T, body []byte, asJSON bool) {
		if n := rejected(body, asJSON); n < 0 || n > math.MaxInt32 {
			t.Errorf("rejected(%q, %v) = %d", body, asJSON, n)
		}
	})
}
