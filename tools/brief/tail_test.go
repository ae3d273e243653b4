package brief

import (
	"strings"
	"testing"
)

func TestTail(t *testing.T) {
	for _, tt := range []struct {
		pieces, want string
		cut          bool
	}{
		{"", "", false},
		{"ab|cd", "abcd", false},
		{"abcd|e", "bcde", true},
		{"abcde", "bcde", true},
		{"a|bcdefgh|i", "fghi", true},
		{"ab|cdef", "cdef", true},
		{"abc|def|ghi|", "fghi", true},
	} {
		w := &Tail{Keep: 4}
		for _, p := range strings.Split(tt.pieces, "|") {
			if n, err := w.Write([]byte(p)); n != len(p) || err != nil {
				t.Fatalf("Write(%q) = %d, %v", p, n, err)
			}
		}
		if got, cut := w.Bytes(); string(got) != tt.want || cut != tt.cut {
			t.Errorf("%s: Bytes = %q, %v, want %q, %v", tt.pieces, got, cut, tt.want, tt.cut)
		}
		if len(w.b) > 2*w.Keep {
			t.Errorf("%s: %d bytes are held", tt.pieces, len(w.b))
		}
	}
}
