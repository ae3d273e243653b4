// Jp is a command-line assistant whose sub-agents are operating-system processes.
package main

import (
	"context"
	"os"
	"runtime/debug"

	"golang.org/x/sys/unix"

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

// lasting returns a standard stream under another number. Where nobody reads descriptor 1 or 2 any
// more, os.File ends the process, and what was begun would not be settled; at another number it
// returns an error. To catch SIGPIPE does the same, but in two more threads and many switches.
//
// The numbers below 10 are for what is handed over. Where it was not, as in a tool whose program
// closed the socket of its call, a stdout that is a socket must not stand in its place.
func lasting(number uintptr, f *os.File) *os.File {
	fd, err := unix.FcntlInt(number, unix.F_DUPFD_CLOEXEC, 10)
	if err != nil {
		return f
	}
	return os.NewFile(uintptr(fd), f.Name())
}

// run is main without the guard, for tests that run this program under its name.
func run() int {
	proc.Conceal()
	debug.SetMaxStack(maxStack)
	if os.Getenv("GOTRACEBACK") == "" {
		debug.SetTraceback("crash") // else Go's runtime ends a process with 2, which says that nothing was done
	}
	dir, err := os.Getwd()
	if err != nil {
		dir = "" // it was removed: a command that needs one says so
	}
	return cli.Main(context.Background(), cli.Env{
		Args: os.Args, Stdin: os.Stdin, Stdout: lasting(1, os.Stdout), Stderr: lasting(2, os.Stderr), Environ: os.Environ(), Dir: dir,
		Exit: os.Exit,
	})
}
