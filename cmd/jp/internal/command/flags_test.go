package command

import (
	"testing"
	"time"
)

func TestParseDuration(t *testing.T) {
	for s, want := range map[string]time.Duration{
		"90s": 90 * time.Second, "1h30m": 90 * time.Minute, "7d": 7 * 24 * time.Hour, "2w": 14 * 24 * time.Hour,
		"1w1d1h": 193 * time.Hour, "1.5h": 90 * time.Minute,
	} {
		if got, err := ParseDuration(s); err != nil || got != want {
			t.Errorf("parseDuration(%q) = %v, %v; want %v", s, got, err, want)
		}
	}
	for _, s := range []string{"", "0", "0s", "-1h", "d", "1", "1y", "1d1w", "999999999999d", "99999999w", "1h ", "1.5d", "292471208677d9h"} {
		if got, err := ParseDuration(s); err == nil {
			t.Errorf("parseDuration(%q) = %v, want an error", s, got)
		}
	}
}
