//go:build !linux

package worker

import "time"

var began = time.Now()

// sinceBoot is a clock that goes on while the machine is suspended, as far as the wall clock is not
// set back.
func sinceBoot() time.Duration {
	return max(time.Since(began), time.Now().Round(0).Sub(began.Round(0)))
}
