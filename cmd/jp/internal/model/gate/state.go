package gate

import (
	"encoding/json"
	"time"
)

// Bounds that a gate has, whatever its file says.
const (
	// Most is the longest that a gate holds one request back, in its line and before its turn
	// together.
	Most = 2 * time.Minute

	firstLeast, firstMost = 50 * time.Millisecond, 2 * time.Second // spacing after the first limit
	longest               = 30 * time.Second                       // spacing at most
	// spacing below which the gate opens
	shortest = 10 * time.Millisecond
)

// state is what the processes share: the file of a gate. Times are of the shared clock, see now.
// The zero state is an open gate.
type state struct {
	Boot     string        `json:"boot"`     // run of the system that the times belong to
	Closed   time.Duration `json:"closed"`   // time of the latest limit that changed the state
	Next     time.Duration `json:"next"`     // time when the next request may be sent
	Interval time.Duration `json:"interval"` // time from one request to the next; 0 = open
	Tried    bool          `json:"tried"`    // whether an interval was too short already
}

// recordSize is the length of a state on disk: one write, always the same bytes.
const recordSize = 192

// parse reads a state as it is at now. A file that was written before the system started again, is
// from the future, or is not ours is an open gate. So is one that nobody has used for two minutes.
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

// record returns the bytes of the state in its file, none for an open gate.
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

// wait returns how long the next request has to wait, at most Most.
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

// limited notes that a request which was sent at sent has met a limit. No request is sent before
// the pause is over, and then one by one. Of several requests that were on their way together only
// the first changes the interval; else each would double it.
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

// heard notes that a request which was sent at sent is being answered: the interval becomes
// shorter, until the gate is open.
func (s state) heard(sent time.Duration) state {
	if s.open() || sent < s.Closed {
		return s
	}
	closer := s.Interval / 10
	if s.Tried {
		closer = s.Interval / 30 // it is about right
	}
	if s.Interval -= closer; s.Interval < shortest {
		return state{}
	}
	return s
}
