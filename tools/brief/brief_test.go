package brief

import "testing"

func TestSize(t *testing.T) {
	for n, want := range map[int]string{0: "0 B", 999: "999 B", 1000: "1 KB", 1023: "1 KB", 1100: "1.1 KB", 256_000: "256 KB", 256_999: "256 KB", 623_999: "623 KB", 1_999_999: "1.9 MB", 2_000_000: "2 MB", 5_000_000_000: "5 GB"} {
		if got := Size(n); got != want {
			t.Errorf("Size(%d) = %s, want %s", n, got, want)
		}
	}
}

func TestShorten(t *testing.T) {
	for _, tt := range []struct {
		s            string
		n            int
		prefix, want string
	}{
		{"", 0, "", ""},
		{"abc", 3, "abc", "abc"},
		{"abc", 2, "ab", "ab..."},
		{"a\u20acb", 3, "a", "a..."},
		{"a\u20acb", 4, "a\u20ac", "a\u20ac..."},
		{"\x80\x80", 1, "", "..."}, // begins in the middle of a rune
		{"abc", -1, "", "..."},
	} {
		if got := Prefix(tt.s, tt.n); got != tt.prefix {
			t.Errorf("Prefix(%q, %d) = %q, want %q", tt.s, tt.n, got, tt.prefix)
		}
		if got := Shorten(tt.s, tt.n); got != tt.want {
			t.Errorf("Shorten(%q, %d) = %q, want %q", tt.s, tt.n, got, tt.want)
		}
	}
}

func TestRanges(t *testing.T) {
	for want, numbers := range map[string][]int{"": nil, "4": {4}, "1-3, 7": {1, 2, 3, 7}, "1, 3-4": {1, 3, 4}} {
		if got := Ranges(numbers); got != want {
			t.Errorf("Ranges(%v) = %q, want %q", numbers, got, want)
		}
	}
}
