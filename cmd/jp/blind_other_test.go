//go:build !linux

package main

import (
	"fmt"
	"os"
)

// blind is for systems that have Landlock.
func blind() {
	fmt.Fprintln(os.Stderr, "blind: on Linux only")
	os.Exit(99)
}
