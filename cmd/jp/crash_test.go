package main

import (
	"context"
	"os"
	"syscall"

	"jp/cmd/jp/internal/cli"
)

// crash is jp that kills itself at the point of a delegation which $JP_CRASH_AT names.
func crash() {
	dir, err := os.Getwd()
	if err != nil {
		os.Exit(1)
	}
	os.Exit(cli.Main(context.Background(), cli.Env{
		Args: os.Args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Environ: os.Environ(), Dir: dir,
		Checkpoint: func(point string) {
			if point == os.Getenv("JP_CRASH_AT") {
				_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
				select {}
			}
		},
	}))
}
