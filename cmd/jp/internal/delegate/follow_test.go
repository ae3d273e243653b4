package delegate

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"jp/cmd/jp/internal/stream"
)

// TestPace has a sub-agent say more of itself than anybody can read, and one call for what is
// refused: what is shown has a bound, and how it ended is shown.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var shown, longest int
		var last string
		watch := func(d *stream.Delegation) {
			shown++
			longest, last = max(longest, len(d.Reason), len(d.Tool)), d.Phase
		}
		f := &follower{watch: watch}
		for range 100 {
			for range 100 {
				f.line(&stream.ToolCall{Name: strings.Repeat("x", 2<<10)})
				f.line(&stream.Wait{Reason: strings.Repeat("x", 2<<10)})
			}
			time.Sleep(time.Second)
		}
		f.end("error", strings.Repeat("x", 2<<10))
		if want := 100 + 99*10 + 1; shown != want || longest != 1<<10 || last != stream.Ended {
			t.Errorf("%d lines were shown, the last one %s, with up to %d bytes of a reason, want %d, %s, %d", shown, last, longest, want, stream.Ended, 1<<10)
		}
		d := &Delegator{runner: &runner{watch: watch}}
		shown, longest = 0, 0
		for range 10_000 {
			d.showDenied(admission{err: errors.New(strings.Repeat("x", 2<<10))})
		}
		if shown != 100 || longest != 1<<10 {
			t.Errorf("%d refusals were shown, with up to %d bytes, want 100, %d", shown, longest, 1<<10)
		}
	})
}
