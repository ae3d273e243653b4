package gate

import (
	"encoding/json"
	"time"
)

// Bounds of what a gate does, whatever its file says.
const (
	// Most is the longest that a gate holds one request back, in its line and before its turn together.
	Most = 2 * time.Minute

	firstLeast, firstMost = 50 * time.Millisecond, 2 * time.Second // spacing after the first limit
	longest               = 30 * time.Second                       // spacing at most
	shortest              = 10 * time.Millisecond                  // spacing below which the gate opens
)

// state is what the processes share: the file of a gate. Times are of the shared clock, see now. The zero state is an
// open gate.
type state struct {
	Boot     string        `json:"boot"`     // the run of the system whose clock it is
	Closed   time.Duration `json:"closed"`   // when the latest limit was met that told something new
	Next     time.Duration `json:"next"`     // when the next request may be sent
	Interval time.Duration `json:"interval"` // from one request to the next; 0 = open
	Tried    bool          `json:"tried"`    // a spacing has been too close already
}

// recordSize is the length of a state on disk: one write, always the same bytes.
const recordSize = 192

// parse reads a state as it is at now. What makes no sense is an open gate: it was written before the system
// started anew, is from the future, or is none of ours. So is one that nobody has used for a while.
func parse(b []byte, boot string, now time.Duration) state {
	var s state
	switch {
	case json.Unmarshal(b, &s) != nil,
		s.Boot != boot,
		s.Closed < 0, s.Closed > now,
		s.Next < now-Most, s.Next > now+Most,
		s.Interval < shortest, s.Interval > longest:
		return state{}
	}
	return s
}

// record is the state as it is written; nothing for an open gate.
func (s state) record() []byte {
	if s.open() {
		return nil
	}
	b, err := json.Marshal(s)
	if err != nil || len(b) > recordSize {
		return nil // cannot be: numbers and an id of fixed length
	}
	for len(b) < recordSize-1 {
		b = append(b, ' ')
	}
	return append(b, '\n')
}

func (s state) open() bool { return s.Interval == 0 }

// wait is how long the next request is to be held back, at most Most.
func (s state) wait(now time.Duration) time.Duration {
	if s.open() {
		return 0
	}
	return min(max(s.Next-now, 0), Most)
}

// take notes that a request is sent now.
func (s state) take(now time.Duration) state {
	if !s.open() {
		s.Next = now + s.Interval
	}
	return s
}

// limited notes that a request which was sent at sent has met a limit: nobody goes before the pause is over, and then
// one by one. Of the requests that were under way together only the first tells anything of the spacing; the others
// would double it once for each.
func (s state) limited(now, sent, pause time.Duration, boot string) state {
	pause = min(max(pause, 0), Most)
	switch {
	case s.open():
		s = state{Boot: boot, Closed: now, Interval: min(max(pause/4, firstLeast), firstMost)}
	case sent >= s.Closed:
		s.Closed, s.Interval, s.Tried = now, min(2*s.Interval, longest), true
	}
	s.Next = max(s.Next, now+pause)
	return s
}

// heard notes that a request which was sent at sent is being answered: the next ones may come closer, until nothing of
// the limit is left.
func (s state) heard(sent time.Duration) state {
	if s.open() || sent < s.Closed {
		return s
	}
	closer := s.Interval / 10
	if s.Tried {
		closer = s.Interval / 30 // about right by now
	}
	if s.Interval -= closer; s.Interval < shortest {
		return state{}
	}
	return s
}
