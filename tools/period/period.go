// Package period reads durations as people write them.
package period

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Parse reads Go's durations and, before them, weeks and days: 90s, 1h30m, 7d, 2w, 1d12h.
func Parse(s string) (time.Duration, error) {
	bad := fmt.Errorf("%q is not a duration such as 90s, 1h30m or 7d", s)
	rest, total := s, time.Duration(0)
	for _, unit := range []struct {
		letter byte
		length time.Duration
	}{{'w', 7 * 24 * time.Hour}, {'d', 24 * time.Hour}} {
		digits := strings.TrimLeft(rest, "0123456789")
		if digits == rest || digits == "" || digits[0] != unit.letter {
			continue
		}
		n, err := strconv.ParseInt(rest[:len(rest)-len(digits)], 10, 32)
		if err != nil || n > int64(1<<62/unit.length) {
			return 0, bad
		}
		total += time.Duration(n) * unit.length
		rest = digits[1:]
	}
	if rest != "" || s == "" {
		d, err := time.ParseDuration(rest)
		if err != nil || d < 0 && rest != s {
			return 0, bad
		}
		total += d
	}
	return total, nil
}
