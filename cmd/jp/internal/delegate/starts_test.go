package delegate

import (
	"context"
	"testing"
)

func TestStarts(t *testing.T) {
	var s starts
	ended := s.begin(t.Context())
	if len(s.permits) != 1 {
		t.Fatalf("begin() took %d permits, want 1", len(s.permits))
	}
	s.begin(t.Context())
	ended()
	ended()
	if len(s.permits) > 1 {
		t.Errorf("a start that ended holds a permit still: %d taken", len(s.permits))
	}

	// Who is stopped while it waits gets none, and gives none back.
	stopped, stop := context.WithCancel(t.Context())
	stop()
	for len(s.permits) < cap(s.permits) {
		s.permits <- struct{}{}
	}
	s.begin(stopped)()
	if len(s.permits) < cap(s.permits)-1 { // the second start may have run out of patience
		t.Errorf("%d of %d permits are taken after a start that was stopped", len(s.permits), cap(s.permits))
	}

	// Starts that never come to their models keep nobody back for ever.
	var hung starts
	for range 3 * max(1, cap(s.permits)) {
		hung.begin(t.Context())
	}
}
