package cli

import "strconv"

// Status is an exit status of jp. Scripts and parents branch on these: a status once published stays.
type Status int

// The exit statuses. exitTable says in words what each means; help and reference are made from it.
const (
	exitOK          Status = 0
	exitFailed      Status = 1
	exitUsage       Status = 2
	exitNotFound    Status = 3
	exitScope       Status = 4
	exitBusy        Status = 5
	exitRefused     Status = 6
	exitLimit       Status = 7
	exitProvider    Status = 8
	exitDeadline    Status = 124
	exitHangup      Status = 129
	exitInterrupted Status = 130
	exitClosed      Status = 141
	exitTerminated  Status = 143
)

// statusMeaning is one line of the table of exit statuses.
type statusMeaning struct {
	Status Status
	Text   string
}

// exitTable returns every exit status with its meaning, in order.
func exitTable() []statusMeaning {
	return []statusMeaning{
		{exitOK, "complete success, and nothing started is still running"},
		{exitFailed, "failed; for grep: no match"},
		{exitUsage, "usage, config or pattern error: nothing was done"},
		{exitNotFound, "conversation, profile, tool or workspace not found"},
		{exitScope, "outside the allowed subtree"},
		{exitBusy, "conversation or store busy past the deadline"},
		{exitRefused, "refused by policy (permission, depth, profile, sandbox)"},
		{exitLimit, "stopped at a budget or limit; what there is was printed and marked partial"},
		{exitProvider, "the model provider failed (auth, rate limit after retries, network)"},
		{exitDeadline, "deadline passed"},
		{exitHangup, "ended by SIGHUP"},
		{exitInterrupted, "ended by SIGINT (Ctrl-C)"},
		{exitClosed, "stdout was closed by its reader (everything was settled first)"},
		{exitTerminated, "ended by SIGTERM"},
	}
}

// meaning returns the words for s.
func (s Status) meaning() string {
	for _, m := range exitTable() {
		if m.Status == s {
			return m.Text
		}
	}
	return "status " + strconv.Itoa(int(s))
}
