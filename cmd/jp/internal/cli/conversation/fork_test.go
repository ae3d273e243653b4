package conversation

import (
	"testing"
	"time"
)

func TestParseTime(t *testing.T) {
	now := time.Date(2026, 5, 2, 12, 0, 0, 0, time.UTC)
	for s, want := range map[string]time.Time{
		"2026-05-01T10:00:00Z":      time.Date(2026, 5, 1, 10, 0, 0, 0, time.UTC),
		"2026-05-01T10:00:00+02:00": time.Date(2026, 5, 1, 8, 0, 0, 0, time.UTC),
		"2026-05-01":                time.Date(2026, 5, 1, 0, 0, 0, 0, time.Local),
		"2026-05-01 10:30":          time.Date(2026, 5, 1, 10, 30, 0, 0, time.Local),
		"2h":                        now.Add(-2 * time.Hour),
		"1d":                        now.Add(-24 * time.Hour),
	} {
		if got, err := parseTime(s, now); err != nil || !got.Equal(want) {
			t.Errorf("parseTime(%q) = %v, %v; want %v", s, got, err, want)
		}
	}
	for _, s := range []string{"", "yesterday", "2026-13-01", "-2h", "10:00"} {
		if got, err := parseTime(s, now); err == nil {
			t.Errorf("parseTime(%q) = %v, want an error", s, got)
		}
	}
}
