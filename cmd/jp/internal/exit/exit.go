// Package exit has the exit statuses of jp, in one table, and the errors that know theirs.
//
// A jp that runs a sub-agent reads the status of the sub-agent by the same table.
package exit

import (
	"fmt"
)

// Status is an exit status of jp. Scripts and parents branch on these: a published status never
// changes.
type Status int

// The exit statuses. Table says in words what each means; help and reference are made from it.
const (
	OK          Status = 0
	Failed      Status = 1
	Usage       Status = 2
	NotFound    Status = 3
	Scope       Status = 4
	Busy        Status = 5
	Refused     Status = 6
	Limit       Status = 7
	Provider    Status = 8
	Deadline    Status = 124
	Hangup      Status = 129
	Interrupted Status = 130
	Quit        Status = 131
	Closed      Status = 141
	Terminated  Status = 143
)

// Meaning is one line of the table of exit statuses.
type Meaning struct {
	Status Status
	Text   string
}

// Table returns every exit status with its meaning, in order.
func Table() []Meaning {
	return []Meaning{
		{OK, "complete success, and nothing started is still running"},
		{Failed, "failed; for grep: no match"},
		{Usage, "usage, config or pattern error: nothing was done"},
		{NotFound, "conversation, profile, tool or workspace not found"},
		{Scope, "outside the allowed subtree"},
		{Busy, "conversation or store was in use until the deadline"},
		{Refused, "refused by policy (permission, depth, profile, sandbox)"},
		{Limit, "stopped at a budget or limit; the partial answer was printed and marked"},
		{Provider, "the model provider failed (auth, rate limit after retries, network)"},
		{Deadline, "deadline passed"},
		{Hangup, "ended by SIGHUP"},
		{Interrupted, "ended by SIGINT (Ctrl-C)"},
		{Quit, `ended by SIGQUIT (Ctrl-\)`},
		{Closed, "stdout was closed by its reader (the run was ended in order first)"},
		{Terminated, "ended by SIGTERM"},
	}
}

// Error is an error of the command layer itself: it knows its kind, its exit status and what to
// try. Errors of other packages get theirs from console.Explain.
type Error struct {
	Code   string // kind, as JSON shows it
	Status Status
	Msg    string // subject first; "" = no message, the status is enough (grep without a match)
	Hint   string
	Err    error
}

func (f *Error) Error() string { return f.Msg }
func (f *Error) Unwrap() error { return f.Err }

// WithHint says what to try.
func (f *Error) WithHint(format string, args ...any) *Error {
	f.Hint = fmt.Sprintf(format, args...)
	return f
}

// Next is the error of something that was begun, with how it goes on. It is all that Err is, but a mistake of use
// is a failure: something was done.
type Next struct {
	Err  error
	Hint string // "" = it does not go on
}

func (n *Next) Error() string { return n.Err.Error() }
func (n *Next) Unwrap() error { return n.Err }

// Usagef returns the error for a mistake on the command line.
func Usagef(format string, args ...any) *Error {
	return &Error{Code: "usage", Status: Usage, Msg: fmt.Sprintf(format, args...)}
}

// NotFoundf returns the error for something that is not there.
func NotFoundf(format string, args ...any) *Error {
	return &Error{Code: "not_found", Status: NotFound, Msg: fmt.Sprintf(format, args...)}
}

// Refusedf returns the error for what policy does not allow.
func Refusedf(format string, args ...any) *Error {
	return &Error{Code: "refused", Status: Refused, Msg: fmt.Sprintf(format, args...)}
}

// Quiet returns an error with a status and no message.
func Quiet(s Status) error { return &Error{Code: "none", Status: s} }
