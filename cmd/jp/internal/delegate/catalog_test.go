package delegate

import (
	"testing"
	"time"
)

// TestParseTimeout: a line of a batch and a call say a time as a flag and the config do.
func TestParseTimeout(t *testing.T) {
	for in, want := range map[string]time.Duration{"": 0, "90s": 90 * time.Second, "1d": 24 * time.Hour, "1w1h": 169 * time.Hour, "0s": -1, "-1s": -1, "soon": -1} {
		got, err := ParseTimeout(in)
		if (err != nil) != (want < 0) || err == nil && got != want {
			t.Errorf("ParseTimeout(%q) = %v, %v, want %v", in, got, err, want)
		}
	}
}
