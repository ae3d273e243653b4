package term

import "testing"

// TestPickKeys: keys mean the same however the terminal cuts them, and what is no key of the list
// does nothing.
func TestPickKeys(t *testing.T) {
	for _, tt := range []struct {
		keys  string
		late  bool
		query string
		at    int
		end   pickEnd
	}{
		{"\x1b[B\x1bOB\x0e\x10", false, "", 2, pickGoesOn},
		{"\x1b[6~", false, "", 2, pickGoesOn},
		{"\x1b[F\x1b[H", false, "", 0, pickGoesOn},
		{"\x1b[F", false, "", 3, pickGoesOn},
		{"\x1b[A", false, "", 0, pickGoesOn},
		{"CAT 猫\x1b[1;5C\x1bx\x01\xff\u202e", false, "CAT 猫", 0, pickGoesOn},
		{"cat 猫\x7f", false, "cat ", 0, pickGoesOn},
		{"cat  猫\x17", false, "cat  ", 0, pickGoesOn},
		{"cat  \x17", false, "", 0, pickGoesOn},
		{"cat\x15\x7f\x0e", false, "", 1, pickGoesOn},
		{"none\r", false, "none", 0, pickGoesOn},
		{"jp-c4\r", false, "jp-c4", 0, pickTake},
		{"\x1b", false, "", 0, pickGoesOn},
		{"\x1b", true, "", 0, pickLeave},
		{"\x1b\x1b", false, "", 0, pickLeave},
		{"\x03\r", false, "", 0, pickLeave},
	} {
		for cut := 1; cut <= len(tt.keys); cut++ {
			p := picker{page: 2, List: List{Choices: []Choice{{"jp-c1", "cat 猫"}, {"jp-c2", "Cat\x1b[2J"}, {"jp-c3", ""}, {"jp-c4", "dog"}}}}
			p.filter()
			end := p.typed([]byte(tt.keys[:cut]), false)
			if end == pickGoesOn {
				end = p.typed([]byte(tt.keys[cut:]), tt.late)
			}
			if p.query != tt.query || p.at != tt.at || end != tt.end {
				t.Errorf("%q cut at %d: query %q, mark %d, end %d, want %q, %d, %d", tt.keys, cut, p.query, p.at, end, tt.query, tt.at, tt.end)
			}
		}
	}
}
