//go:build !linux

package gate

import (
	"time"

	"golang.org/x/sys/unix"
)

// now is a clock that all processes share and nobody can set: the time since the system started.
func now() time.Duration { return clock(unix.CLOCK_MONOTONIC) }

// boot cannot identify a run of the system here: a time of an earlier run may hold a request back,
// for at most Most.
func boot() string { return "" }
