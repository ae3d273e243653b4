package proc

import (
	"testing"
	"time"
)

// TestLeaseStaysOver extends a lease in time and too late.
func TestLeaseStaysOver(t *testing.T) {
	for _, tt := range []struct {
		until time.Duration
		over  bool
	}{{SinceBoot() + time.Hour, false}, {SinceBoot() - 1, true}} {
		l, err := NewLease(t.TempDir(), tt.until)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		err = l.Extend(SinceBoot() + 2*time.Hour)
		shared := leased(l.shared.Fd())
		if err != nil || l.Over() != tt.over || (shared.until() < SinceBoot()) != tt.over || (shared.until() == tt.until) != tt.over {
			t.Errorf("after Extend: %v, over %v, until %v, want over %v", err, l.Over(), shared.until(), tt.over)
		}
	}
}
