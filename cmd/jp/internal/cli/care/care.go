// Package care is the commands that look after jp and what it keeps, and run no model: init,
// doctor, store, usage, trace, trust, and those about the program itself: version, completion, man
// and help.
//
// A constructor makes each command from a Group, which says what all of them share; nothing is
// opened before a command runs. Complete is what the scripts of `jp completion` call: it answers
// somebody who is typing, so it asks nobody, waits for no lock and shows no error of a file.
package care

import (
	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/review"
	"jp/cmd/jp/internal/run"
	"jp/cmd/jp/internal/workspace"
)

// Group is what the commands share.
type Group struct {
	Con    *console.Console
	WS     *workspace.Workspace
	Env    *run.Env
	Tree   *command.Tree
	Review *review.Reviewer
}
