package otel

import (
	"math"
	"testing"
)

// FuzzRejected: whatever a collector answers, it is a number of spans or none.
func FuzzRejected(f *testing.F) {
	f.Add([]byte("\x0a\x04\x08\x01\x12\x00"))
	f.Add([]byte("\x0a\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01"))
	f.Add([]byte("\x0d\x00\x00\x00\x00\x09\x00\x00\x00\x00\x00\x00\x00\x00\x0a\x02\x08\x05"))
	f.Fuzz(func(t *testing.T, body []byte) {
		if n := rejected(body); n < 0 || n > math.MaxInt32 {
			t.Errorf("rejected(%q) = %d", body, n)
		}
	})
}
