package show

import (
	"testing"

	"jp/convstore"
)

// TestFailed: what Ctrl-C did to a call, in words for a person.
func TestFailed(t *testing.T) {
	for _, tt := range []struct{ source, text, want string }{
		{"local", "error: interrupted, may have run: ended by SIGINT", "stopped while it ran"},
		{"interactive", "error: interrupted, may have run: ended by SIGINT", "no answer"},
		{"builtin", "error: cancelled before it ran: ended by SIGTERM", "not run"},
		{"local", "error: interrupted, may have run: the time is up", "error: interrupted, may have run: the time is up"},
		{"local", "error: exit 1: ended by SIGINT", "error: exit 1: ended by SIGINT"},
	} {
		if got := failed(convstore.ToolCall{Source: tt.source}, tt.text); got != tt.want {
			t.Errorf("failed(%s, %q) = %q, want %q", tt.source, tt.text, got, tt.want)
		}
	}
}
