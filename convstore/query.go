package convstore

import "fmt"

// Range chooses turns: First to Last, both counted from 1 and both included. A negative number
// counts from the end: -1 is the last turn. 0 leaves that side open. The zero Range is everything,
// with the events before the first turn.
//
// A Range that reaches beyond the existing turns is cut to them. A single turn that is asked for by
// number must exist.
type Range struct {
	First, Last int
	none        bool
}

// FirstTurns chooses the first n turns.
func FirstTurns(n int) Range { return Range{First: 1, Last: n}.orNone(n <= 0) }

// LastTurns chooses the last n turns.
func LastTurns(n int) Range { return Range{First: -n}.orNone(n <= 0) }

// Turn chooses one turn.
func Turn(n int) Range { return Range{First: n, Last: n}.orNone(n == 0) }

func (r Range) orNone(none bool) Range {
	if none {
		return Range{none: true}
	}
	return r
}

// String returns the range as a user would type it.
func (r Range) String() string {
	switch {
	case r.none:
		return "none"
	case r == Range{}:
		return "all"
	case r.First == r.Last:
		return fmt.Sprint(r.First)
	case r.First == 0:
		return fmt.Sprintf("..%d", r.Last)
	case r.Last == 0:
		return fmt.Sprintf("%d..", r.First)
	}
	return fmt.Sprintf("%d..%d", r.First, r.Last)
}

// Sort is an order of conversations.
type Sort uint8

// The orders of a listing. SortTree is preorder: each conversation before its children, siblings in
// the order of their creation.
const (
	SortTree Sort = iota
	SortCreated
	SortActivity
	SortTitle
	SortTurns
	SortCost // unknown costs last
)

// Filter chooses and orders conversations for a listing.
type Filter struct {
	Roots    bool // only conversations without a parent
	Children ID   // only the direct children of this conversation
	Hidden   bool // hidden ones too
	Archived bool // archived ones too

	// Labels that a conversation must have, with these values; "" matches any value.
	Labels map[string]string

	Sort       Sort
	Descending bool
	Limit      int // 0 = no limit
}
