package search

import (
	"fmt"
	"time"

	"jp/convstore"
)

// Case says whether a search ignores upper and lower case.
type Case uint8

// SmartCase ignores case unless the pattern holds an upper-case letter.
const (
	SmartCase Case = iota
	IgnoreCase
	MatchCase
)

// Scope is a part of a conversation that can be searched, or a group of such parts.
type Scope string

// The parts, then the groups: ScopeChat is user, assistant, reasoning and structured, ScopeTool is
// tool-call and tool-result, ScopeAll is everything.
const (
	ScopeTitle      Scope = "title"
	ScopeUser       Scope = "user"
	ScopeAssistant  Scope = "assistant"
	ScopeReasoning  Scope = "reasoning"
	ScopeStructured Scope = "structured"
	ScopeToolCall   Scope = "tool-call"
	ScopeToolResult Scope = "tool-result"
	ScopeInquiry    Scope = "inquiry"

	ScopeChat Scope = "chat"
	ScopeTool Scope = "tool"
	ScopeAll  Scope = "all"
)

// Query is a search by lines. Patterns never match across a line break.
type Query struct {
	Pattern string
	Regexp  bool // in Go's syntax; otherwise Pattern is plain text
	AnySize bool // Pattern has no size limit, because a person wrote it; see package regex
	Case    Case

	Scopes   []Scope           // empty = all
	IDs      []convstore.ID    // only these; empty = all in the view
	Hidden   bool              // hidden conversations too; those in IDs always
	Archived bool              // archived conversations too; those in IDs always
	Labels   map[string]string // as in Filter

	Context    int // number of lines before and after a match
	MaxMatches int // most matches in one conversation; 0 = no limit
	Limit      int // most conversations with a match; 0 = no limit
}

// Match is one line that matches.
type Match struct {
	ID    convstore.ID
	Turn  int // 0 in the title and before the first turn
	Scope Scope
	Seq   uint64    // of the event, 0 in the title
	Time  time.Time // of the event; in the title, the conversation's last activity
	Title string    // of the conversation

	Line       int // number of the line in its event, from 1
	Text       string
	Submatches []Submatch // where in Text, in order, at least one and at most 10,000

	// Before and After are up to Query.Context lines around the match. No line is returned twice
	// for one event.
	Before, After []string
}

// Submatch is one occurrence of the pattern in a line.
type Submatch struct {
	Text       string
	Start, End int // byte offsets in the line
}

// PatternError says that a search pattern cannot be used.
type PatternError struct {
	Pattern string
	Err     error
}

func (e *PatternError) Error() string { return fmt.Sprintf("pattern %q: %v", e.Pattern, e.Err) }

// Unwrap returns what is wrong with the pattern.
func (e *PatternError) Unwrap() error { return e.Err }
