package term

import (
	"slices"
	"testing"
)

func TestHang(t *testing.T) {
	for _, tt := range []struct {
		head, text string
		width      int
		want       []string
	}{
		{"name  ", "one  two", 14, []string{"name  one  two"}},
		{"name  ", "one two three", 12, []string{"name  one", "   two three"}},
		{"name  ", "much-too-wide two", 12, []string{"name  much-too-wide", "   two"}},
		{"name  ", "", 3, []string{"name  "}},
		{"", "", 3, []string{""}},
		{"", "猫 猫 猫", 6, []string{"猫 猫", "   猫"}},
		{"名  ", "猫猫猫猫ab猫cde", 8, []string{"名  猫猫", "   猫猫", "   ab猫", "   cde"}},
		{"名  ", "a 👨\u200d👩猫猫 b", 7, []string{"名  a", "   👨\u200d👩猫", "   猫 b"}},
	} {
		if got := Hang(tt.head, tt.text, tt.width, 3); !slices.Equal(got, tt.want) {
			t.Errorf("Hang(%q, %q, %d) = %q, want %q", tt.head, tt.text, tt.width, got, tt.want)
		}
	}
}
