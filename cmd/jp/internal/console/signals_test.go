package console

import (
	"os"
	"syscall"
	"testing"
	"time"
)

func TestPresses(t *testing.T) {
	type signal struct {
		after time.Duration // since the one before
		s     os.Signal
		want  bool
	}
	for _, list := range [][]signal{
		{{0, syscall.SIGTERM, true}, {time.Millisecond, syscall.SIGTERM, false}, {sameWithin, syscall.SIGTERM, true}},
		{{0, syscall.SIGINT, true}, {sameWithin / 2, syscall.SIGINT, false}, {sameWithin / 2, syscall.SIGINT, true}},
		{{0, syscall.SIGINT, true}, {0, syscall.SIGTERM, true}},
		{{0, syscall.SIGQUIT, true}, {0, syscall.SIGQUIT, true}},
	} {
		var p presses
		now := time.Unix(1, 0)
		for i, e := range list {
			now = now.Add(e.after)
			if got := p.counts(e.s, now); got != e.want {
				t.Errorf("%v: number %d counts: %v, want %v", list, i, got, e.want)
			}
		}
	}
}
