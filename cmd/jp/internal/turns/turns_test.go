package turns

import (
	"testing"

	"jp/convstore"
)

func TestParseTurns(t *testing.T) {
	for s, want := range map[string]convstore.Range{
		"3": convstore.Turn(3), "2..4": {First: 2, Last: 4}, "2..": {First: 2}, "..4": {Last: 4}, "2..2": {First: 2, Last: 2}, "..": {},
	} {
		if got, err := parseTurns(s); err != nil || got != want {
			t.Errorf("parseTurns(%q) = %v, %v; want %v", s, got, err, want)
		}
	}
	for _, s := range []string{"", "0", "-1", "+1", "4..2", "1..2..3", "a", "1...2", "1-2", "0..2", "99999999999999999999"} {
		if got, err := parseTurns(s); err == nil {
			t.Errorf("parseTurns(%q) = %v, want an error", s, got)
		}
	}
}
