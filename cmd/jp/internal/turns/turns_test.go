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

// TestFailed: the end of a sub-agent is said in words, whatever else failed as it says itself.
func TestFailed(t *testing.T) {
	for text, want := range map[string]string{
		"<response conversation_id=\"jp-c7\" status=\"lost\" reason=\"a &lt;b&gt; c\" tokens=\"1\" calls=\"1\">\n</response>": "jp-c7: lost, a <b> c",
		"<response conversation_id=\"jp-c7\" status=\"empty\" tokens=\"1\" calls=\"1\">\n</response>":                         "jp-c7: empty",
		"error: no such file\nmore": "error: no such file",
		"<response>":                "<response>",
	} {
		if got := Failed(text); got != want {
			t.Errorf("Failed(%q) = %q, want %q", text, got, want)
		}
	}
}
