package worker

import (
	"time"

	"golang.org/x/sys/unix"
)

// sinceBoot is a clock that goes on while the machine is suspended.
func sinceBoot() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		panic("clock: " + err.Error()) // of every Linux since 2.6.39
	}
	return time.Duration(ts.Nano())
}
