package convstore

import "slices"

// State is how a turn or a delegation ended. The zero State means that it has not ended.
type State string

// The terminal states, best to worst.
const (
	StateOK        State = "ok"
	StatePartial   State = "partial"
	StateEmpty     State = "empty"
	StateRefused   State = "refused"
	StateBudget    State = "budget"
	StateTimeout   State = "timeout"
	StateCancelled State = "cancelled"
	StateError     State = "error"
	StateKilled    State = "killed"
	StateLost      State = "lost"
)

// States returns the terminal states, best to worst.
func States() []State {
	return []State{
		StateOK, StatePartial, StateEmpty, StateRefused, StateBudget,
		StateTimeout, StateCancelled, StateError, StateKilled, StateLost,
	}
}

// Terminal reports whether s is one of the terminal states.
func (s State) Terminal() bool { return slices.Contains(States(), s) }

// Worse returns the worse of two states. The zero State is better than all others. A state that
// this version does not know is worse than all others.
func (s State) Worse(t State) State {
	if t.badness() > s.badness() {
		return t
	}
	return s
}

func (s State) badness() int {
	if s == "" {
		return -1
	}
	if i := slices.Index(States(), s); i >= 0 {
		return i
	}
	return len(States())
}

// Status is what a conversation is doing. It is never stored: it is computed from the run lock and
// the record whenever the conversation is read.
type Status string

// A conversation's status is one of these or, when its last turn has ended and it is not running,
// that turn's State.
const (
	StatusNew         Status = "new"         // no turn yet
	StatusQueued      Status = "queued"      // reserved by a delegation that has not begun
	StatusRunning     Status = "running"     // its run lock is held
	StatusInterrupted Status = "interrupted" // a turn is open, the run lock is free
	StatusLost        Status = "lost"        // the same for a delegated conversation; or its run ended before it began a turn
)
