package gate

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const msec = time.Millisecond

// TestStateSpaces follows requests that meet a limit, wait and are answered again.
func TestStateSpaces(t *testing.T) {
	const now = time.Hour
	s := state{}.limited(now, now-1, 4*time.Second, "b")
	if got, want := s, (state{Boot: "b", Closed: now, Next: now + 4*time.Second, Interval: time.Second}); got != want {
		t.Fatalf("closed = %+v, want %+v", got, want)
	}
	// A limit that was met before that one was known moves the pause, not the spacing.
	late := s.limited(now+msec, now-1, 8*time.Second, "b")
	if late.Interval != s.Interval || late.Next != now+msec+8*time.Second {
		t.Errorf("late = %+v", late)
	}
	if early := s.limited(now+msec, now-1, time.Second, "b"); early.Next != s.Next {
		t.Errorf("a shorter pause = %+v, want Next %v", early, s.Next)
	}
	at := s.Next
	if got := s.take(at); got.Next != at+time.Second || got.wait(at) != time.Second {
		t.Errorf("taken = %+v", got)
	}
	if got := s.limited(at+msec, at, time.Second, "b"); got.Interval != 2*time.Second || got.Closed != at+msec {
		t.Errorf("limited again = %+v", got)
	}
	if got := s.heard(now - 1); got != s {
		t.Errorf("heard of an old request = %+v", got)
	}
	if got := s.heard(at); got.Interval != 900*msec {
		t.Errorf("heard = %+v", got)
	}
	n := 0
	for ; !s.open(); n++ {
		s = s.heard(at)
	}
	if n != 44 {
		t.Errorf("opens after %d answers, want 44", n)
	}
	if s.record() != nil || s.wait(now) != 0 || s.take(now) != s {
		t.Errorf("open = %+v", s)
	}
}

func TestParseIgnores(t *testing.T) {
	const now = time.Hour
	good := state{Boot: "b", Closed: now - 1, Next: now + time.Second, Interval: time.Second}
	if got := parse(good.record(), "b", now); got != good {
		t.Fatalf("parse(record) = %+v, want %+v", got, good)
	}
	for name, change := range map[string]func(*state){
		"another boot":           func(s *state) { s.Boot = "c" },
		"closed in the future":   func(s *state) { s.Closed = now + 1 },
		"closed before the boot": func(s *state) { s.Closed = -1 },
		"too far":                func(s *state) { s.Next = now + Most + 1 },
		"forgotten":              func(s *state) { s.Next = now - Most - 1 },
		"too slow":               func(s *state) { s.Interval = longest + 1 },
		"too fast":               func(s *state) { s.Interval = 1 },
		"backwards":              func(s *state) { s.Interval = -time.Second },
	} {
		s := good
		change(&s)
		if got := parse(s.record(), "b", now); got != (state{}) {
			t.Errorf("%s: %+v, want an open gate", name, got)
		}
	}
	for _, text := range []string{"", "{", "null", "[]", "\x00", `{"boot":"b","closed":1e99}`, `{"boot":"b","next":"x"}`} {
		if got := parse([]byte(text), "b", now); got != (state{}) {
			t.Errorf("parse(%q) = %+v, want an open gate", text, got)
		}
	}
}

// FuzzParse: whatever the file says, nobody waits for longer than Most, and what is kept is read
// again.
func FuzzParse(f *testing.F) {
	f.Add([]byte(`{"boot":"b","closed":1,"next":2000000000,"interval":1000000000}`), int64(time.Second))
	f.Add([]byte(`{"boot":"b","closed":0,"next":9223372036854775807,"interval":30000000000}`), int64(0))
	f.Fuzz(func(t *testing.T, b []byte, at int64) {
		now := time.Duration(at & (1<<62 - 1))
		s := parse(b, "b", now)
		if w := s.wait(now); w < 0 || w > Most {
			t.Errorf("wait = %v", w)
		}
		if s.open() {
			return
		}
		if again := parse(s.record(), "b", now); again != s {
			t.Errorf("parse(record) = %+v, want %+v", again, s)
		}
	})
}

// TestStateBounds: nothing that providers say, in any order, moves a gate out of its bounds.
func TestStateBounds(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Hour
		var s state
		for range rapid.IntRange(1, 50).Draw(t, "steps") {
			now += time.Duration(rapid.Int64Range(0, int64(time.Minute)).Draw(t, "passes"))
			sent := now - time.Duration(rapid.Int64Range(0, int64(time.Hour)).Draw(t, "ago"))
			switch rapid.IntRange(0, 2).Draw(t, "what") {
			case 0:
				s = s.limited(now, sent, time.Duration(rapid.Int64().Draw(t, "pause")), "b")
			case 1:
				s = s.heard(sent)
			case 2:
				if s.wait(now) == 0 {
					s = s.take(now)
				}
			}
			if w := s.wait(now); w < 0 || w > Most {
				t.Fatalf("wait = %v", w)
			}
			if read := parse(s.record(), "b", now); !s.open() && s.Next >= now-Most && read != s {
				t.Fatalf("not read again: %+v", s)
			}
		}
	})
}

// TestNoStorm simulates requests that come together at a server which answers so many in a second.
// Time is counted, not spent.
func TestNoStorm(t *testing.T) {
	const latency = 50 * msec
	for _, tt := range []struct{ requests, perSecond, refused int }{
		{32, 8, 24 + 4}, {32, 1, 31 + 6}, {256, 20, 236 + 20}, {256, 100, 156 + 60},
	} {
		var (
			s       state
			now     = time.Hour
			taken   []time.Duration
			refused int
			answers []func() // in the order of asking, each latency later
			when    []time.Duration
			waiting int
			tries   int
		)
		settle := func(until time.Duration) {
			for len(when) > 0 && when[0] <= until {
				now = when[0]
				answers[0]()
				answers, when = answers[1:], when[1:]
			}
			now = until
		}
		send := func() {
			tries++
			sent := now
			s = s.take(now)
			taken = slices.DeleteFunc(taken, func(at time.Duration) bool { return now-at >= time.Second })
			ok := len(taken) < tt.perSecond
			after := time.Second
			if ok {
				taken = append(taken, now)
			} else {
				after = taken[0] + time.Second - now
			}
			when = append(when, now+latency)
			answers = append(answers, func() {
				if ok {
					s = s.heard(sent)
					return
				}
				refused++
				waiting++
				s = s.limited(now, sent, after, "b")
			})
		}
		for range tt.requests {
			send()
		}
		for len(when) > 0 || waiting > 0 {
			if waiting == 0 {
				settle(when[0])
				continue
			}
			settle(now + s.wait(now))
			if s.wait(now) == 0 {
				waiting--
				send()
			}
		}
		ideal := time.Duration(tt.requests/tt.perSecond) * time.Second
		t.Logf("%d requests at %d a second: %d refused, took %v, ideal %v", tt.requests, tt.perSecond, refused, now-time.Hour, ideal)
		if refused > tt.refused || tries != tt.requests+refused {
			t.Errorf("%d requests at %d a second: %d refused, want at most %d", tt.requests, tt.perSecond, refused, tt.refused)
		}
		if took := now - time.Hour; took > 3*ideal+5*time.Second {
			t.Errorf("%d requests at %d a second took %v of simulated time", tt.requests, tt.perSecond, took)
		}
	}
}
