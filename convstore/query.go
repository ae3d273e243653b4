package convstore

import (
	"fmt"
	"time"
)

// Range chooses turns: First to Last, both counted from 1 and both included. A
// negative number counts from the end, -1 being the last turn; 0 leaves that
// side open. The zero Range is everything, events before the first turn
// included.
//
// A Range that reaches beyond the turns there are is cut to them, except that a
// single turn asked for by number must exist.
type Range struct {
	First, Last int
	none        bool
}

// FirstTurns chooses the first n turns.
func FirstTurns(n int) Range {
	if n <= 0 {
		return Range{none: true}
	}
	return Range{First: 1, Last: n}
}

// LastTurns chooses the last n turns.
func LastTurns(n int) Range {
	if n <= 0 {
		return Range{none: true}
	}
	return Range{First: -n}
}

// Turn chooses one turn.
func Turn(n int) Range {
	if n == 0 {
		return Range{none: true}
	}
	return Range{First: n, Last: n}
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

// The orders of a listing. SortTree is preorder: each conversation before its
// children, siblings in the order of their creation.
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
	Roots    bool // only those without a parent
	Children ID   // only the direct children of this one
	Hidden   bool // hidden ones too
	Archived bool // archived ones too

	// Labels must all be there with these values; "" takes any value.
	Labels map[string]string

	Sort       Sort
	Descending bool
	Limit      int // 0 = no limit
}

// Case says how a search takes upper and lower case.
type Case uint8

// SmartCase ignores case unless the pattern holds an upper-case letter.
const (
	SmartCase Case = iota
	IgnoreCase
	MatchCase
)

// SearchScope is a part of a conversation that can be searched, or a group of
// such parts.
type SearchScope string

// The parts, then the groups: ScopeChat is user, assistant, reasoning and
// structured, ScopeTool is tool-call and tool-result, ScopeAll is everything.
const (
	ScopeTitle      SearchScope = "title"
	ScopeUser       SearchScope = "user"
	ScopeAssistant  SearchScope = "assistant"
	ScopeReasoning  SearchScope = "reasoning"
	ScopeStructured SearchScope = "structured"
	ScopeToolCall   SearchScope = "tool-call"
	ScopeToolResult SearchScope = "tool-result"
	ScopeInquiry    SearchScope = "inquiry"

	ScopeChat SearchScope = "chat"
	ScopeTool SearchScope = "tool"
	ScopeAll  SearchScope = "all"
)

// Query is a search by lines. Patterns never match across a line break.
type Query struct {
	Pattern string
	Regexp  bool // in Go's syntax; otherwise Pattern is plain text
	AnySize bool // a person wrote Pattern; else it is bounded as package regex says
	Case    Case

	Scopes   []SearchScope     // empty = all
	IDs      []ID              // only these; empty = all in the view
	Hidden   bool              // hidden conversations too; those in IDs always
	Archived bool              // archived conversations too; those in IDs always
	Labels   map[string]string // as in Filter

	Context    int // lines to give before and after
	MaxMatches int // in one conversation, 0 = no limit
	Limit      int // conversations with a match, 0 = no limit
}

// Match is one line that matches.
type Match struct {
	ID    ID
	Turn  int // 0 in the title and before the first turn
	Scope SearchScope
	Seq   uint64    // of the event, 0 in the title
	Time  time.Time // of the event; in the title, the conversation's last activity
	Title string    // of the conversation

	Line       int // number of the line in its event, from 1
	Text       string
	Submatches []Submatch // where in Text, in order, at least one and at most 10,000

	// Before and After are the lines around the match, as many as asked for and
	// there are. Between two matches of one event no line is given twice.
	Before, After []string
}

// Submatch is one occurrence of the pattern in a line.
type Submatch struct {
	Text       string
	Start, End int // byte offsets in the line
}
