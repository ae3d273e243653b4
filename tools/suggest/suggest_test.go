package suggest

import (
	"strings"
	"testing"
)

func TestClosest(t *testing.T) {
	tests := []struct {
		word       string
		candidates []string
		want       string
	}{
		{"modle", []string{"model", "name"}, "model"},
		{"Model", []string{"model"}, "model"},
		{"reseacher", []string{"researcher", "reviewer"}, "researcher"},
		{"abc", []string{"xyz"}, ""},
		{"a", []string{"b"}, ""},
		{"a", []string{"ab"}, ""},
		{"ls", []string{"rm", "lsx"}, "lsx"},
		{"ab", []string{"ax", "aa"}, "aa"},
		{"", []string{"a"}, ""},
		{"abc", nil, ""},
		{strings.Repeat("a", 65), []string{strings.Repeat("a", 64)}, ""},
		{strings.Repeat("a", 64), []string{strings.Repeat("a", 65)}, ""},
		{strings.Repeat("a", 64), []string{strings.Repeat("a", 63)}, strings.Repeat("a", 63)},
		{"größe", []string{"grosse", "große"}, "große"},
	}
	for _, tt := range tests {
		if got := Closest(tt.word, tt.candidates); got != tt.want {
			t.Errorf("Closest(%q, %q) = %q, want %q", tt.word, tt.candidates, got, tt.want)
		}
	}
	for _, tt := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"ab", "ba", 1}, {"kitten", "sitting", 3}, {"ca", "abc", 3}, {"abcd", "acbd", 1}} {
		if got := distance([]rune(tt.a), []rune(tt.b)); got != tt.want {
			t.Errorf("distance(%q, %q) = %d, want %d", tt.a, tt.b, got, tt.want)
		}
	}
}
