package query

import (
	"strings"
	"testing"
)

// TestClientAhead: the messages that wait have a limit. If none waits, the next message may be as
// large as a line.
func TestClientAhead(t *testing.T) {
	c := &client{news: make(chan struct{}, 1)}
	take := func(size int) string {
		err := c.take([]byte(`{"type":"user","message":{"role":"user","content":"` + strings.Repeat("x", size) + `"}}`))
		if err != nil {
			return err.Error()
		}
		return ""
	}
	const ahead = "more than 16 MiB of messages wait for their answers"
	if got := take(15 << 20); got != "" {
		t.Errorf("a large message: %q", got)
	}
	if got := take(5 << 20); got != ahead {
		t.Errorf("a message behind a large one: %q, want %q", got, ahead)
	}
	for n := range 3 {
		if _, in, err := c.first(t.Context()); err != nil || len(in.Text) != []int{15, 5, 5}[n]<<20 {
			t.Fatalf("message %d: %d bytes, %v", n+1, len(in.Text), err)
		}
		if got := take(5 << 20); got != "" {
			t.Errorf("a message when none waits: %q", got)
		}
	}
	c.interrupt(true)
	n := 0
	for ; n < 1<<20; n++ {
		if got := take(1); got != "" {
			if got != ahead {
				t.Error(got)
			}
			break
		}
	}
	if n < 20_000 || n > 1<<16 {
		t.Errorf("%d small messages wait", n)
	}
}
