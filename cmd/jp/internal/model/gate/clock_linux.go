package gate

import (
	"bytes"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// now is a clock that all processes share and nobody can set: the time since the system started, time asleep included.
func now() time.Duration { return clock(unix.CLOCK_BOOTTIME) }

// boot tells one run of the system from the next, for whose clock a time means nothing.
func boot() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil || len(b) > 64 {
		return "" // without it a time of an earlier run may hold somebody back, for Most at most
	}
	return string(bytes.TrimSpace(b))
}
