// Jp is a command-line assistant whose sub-agents are operating-system processes.
package main

import (
	"context"
	"os"
	"runtime/debug"

	"jp/cmd/jp/internal/cli"
	_ "jp/cmd/jp/internal/early"
	"jp/tools/proc"
)

func main() {
	proc.Guard(os.Args)
	os.Exit(run())
}

// maxStack bounds what a recursion without end takes, in bytes. There is one that nothing else ends:
// bbolt follows a branch that a lost write left where a leaf should be, and that leads back to itself.
const maxStack = 64 << 20

// run is main without the guard, for tests that run this program under its name.
func run() int {
	proc.Conceal()
	debug.SetMaxStack(maxStack)
	dir, err := os.Getwd()
	if err != nil {
		dir = "" // it was removed: a command that needs one says so
	}
	return cli.Main(context.Background(), cli.Env{
		Args: os.Args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Environ: os.Environ(), Dir: dir,
		Exit: os.Exit,
	})
}
