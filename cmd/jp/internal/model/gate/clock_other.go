//go:build !linux

package gate

import (
	"time"

	"golang.org/x/sys/unix"
)

// now is a clock that all processes share and nobody can set: the time since the system started.
func now() time.Duration { return clock(unix.CLOCK_MONOTONIC) }

// boot cannot tell one run of the system from the next here: a time of an earlier one may hold somebody back, for Most
// at most.
func boot() string { return "" }
