package gate

import (
	"bytes"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// now is a clock that all processes share and nobody can set: the time since the system started,
// time asleep included.
func now() time.Duration { return clock(unix.CLOCK_BOOTTIME) }

// boot identifies this run of the system. A time of one run means nothing in another.
func boot() string {
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil || len(b) > 64 {
		return "" // without it a time of an earlier run may hold a request back, for at most Most
	}
	return string(bytes.TrimSpace(b))
}
