package openai

import (
	"strings"
	"testing"
)

// TestThinkTags: however a reply is cut into pieces, thinking at its beginning is none of the
// answer.
func TestThinkTags(t *testing.T) {
	for _, tt := range []struct{ in, thought, said string }{
		{"<think>hm</think>yes", "hm", "yes"},
		{"\n<think>\nhm\n</think>\n\nyes\n", "\nhm\n", "yes\n"},
		{"<think></think>yes", "", "yes"},
		{"<think>a < b </thin </think>yes </think>", "a < b </thin ", "yes </think>"},
		{"<think>cut", "cut", ""},
		{"<think>cut</thi", "cut</thi", ""},
		{"no <think>word</think>", "", "no <think>word</think>"},
		{"<thinking>x", "", "<thinking>x"},
		{"<thi", "", "<thi"},
		{"  yes", "", "  yes"},
		{strings.Repeat(" ", mostBlank) + "<think>hm</think>yes", "hm", "yes"},
		{strings.Repeat(" ", mostBlank+1) + "<think>hm</think>", "", strings.Repeat(" ", mostBlank+1) + "<think>hm</think>"},
		{"", "", ""},
	} {
		for size := 1; size <= len(tt.in)+1; size++ {
			var tags thinkTags
			var thought, said strings.Builder
			add := func(a, b string) { thought.WriteString(a); said.WriteString(b) }
			for rest := tt.in; rest != ""; {
				n := min(size, len(rest))
				add(tags.take(rest[:n]))
				rest = rest[n:]
			}
			add(tags.end())
			if thought.String() != tt.thought || said.String() != tt.said {
				t.Errorf("%q by %d: thought %q, said %q, want %q, %q", tt.in, size, thought.String(), said.String(), tt.thought, tt.said)
			}
		}
	}
}
