// Package care has the commands that look after jp and its data, and run no model: init, doctor,
// store, usage, trace and trust, and those about the program itself: version, completion, man and
// help.
//
// A constructor makes each command from a Group, which has what all of them share. Nothing is
// opened before a command runs. The scripts of `jp completion` call Complete while a person types.
// So it asks no question, waits for no lock and ignores errors of files.
package care

import (
	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/review"
	"jp/cmd/jp/internal/run"
	"jp/cmd/jp/internal/workspace"
)

// Group has what the commands share.
type Group struct {
	Con    *console.Console
	WS     *workspace.Workspace
	Env    *run.Env
	Tree   *command.Tree
	Review *review.Reviewer
}
