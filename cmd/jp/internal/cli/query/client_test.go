package query

import (
	"context"
	"fmt"
	"maps"
	"slices"
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

// TestClientInterruptsEarly: an interrupt that comes before a message is taken is for that message,
// if nothing ran when it was read, and for no other.
func TestClientInterruptsEarly(t *testing.T) {
	for _, tt := range []struct {
		name           string
		does           string // a message m1 ...; i: interrupt, c: interrupt with cancel_queued, t: takes the next message, r: writes the result of a run, o: which is over
		said           string // for each interrupt what still waits and what was removed
		interrupted    string
		notInterrupted string
	}{
		{"one", "1 i t", "[]/[]", "m1", ""},
		{"others wait", "1 2 i t t", "[m2]/[]", "m1", "m2"},
		{"then the others removed", "1 2 i c 3 t t", "[m2]/[] []/[m2]", "m1", "m3"},
		{"all removed at once", "1 2 c 3 t", "[]/[m1 m2]", "", "m3"},
		{"twice", "1 i i 2 t t", "[]/[] []/[]", "m1", "m2"},
		{"while it runs", "1 t 2 i t", "[m2]/[]", "m1", "m2"},
		{"after a result", "1 t r 2 i o t", "[]/[]", "m2", "m1"},
		{"after a run", "1 t r o 2 3 i t t", "[m3]/[]", "m2", "m1 m3"},
		{"at the end of a run", "1 t 2 r o i t", "[m2]/[]", "", "m1 m2"},
		{"when all were removed", "1 t 2 c r 3 i o t", "[]/[m2] []/[]", "m1 m3", ""},
		{"nothing waits", "i 1 t", "[]/[]", "", "m1"},
	} {
		c := &client{news: make(chan struct{}, 1)}
		runs := map[string]context.Context{}
		var said []string
		for step := range strings.FieldsSeq(tt.does) {
			switch step {
			case "i", "c":
				r := c.interrupt(step == "c")
				said = append(said, fmt.Sprintf("%v/%v", r.StillQueued, r.Cancelled))
			case "r":
				c.answered(nil)
			case "o":
				c.over()
			case "t":
				c.over()
				ctx, in, err := c.first(t.Context())
				if err != nil || ctx == nil {
					t.Fatalf("%s: no message: %v", tt.name, err)
				}
				runs[in.UUID] = ctx
			default:
				line := fmt.Sprintf(`{"type":"user","uuid":"m%s","message":{"role":"user","content":"x"}}`, step)
				if err := c.take([]byte(line)); err != nil {
					t.Fatal(err)
				}
			}
		}
		var stopped, others []string
		for _, id := range slices.Sorted(maps.Keys(runs)) {
			if ctx := runs[id]; context.Cause(ctx) == errInterrupted {
				stopped = append(stopped, id)
			} else {
				others = append(others, id)
			}
		}
		if got := strings.Join(said, " "); got != tt.said || strings.Join(stopped, " ") != tt.interrupted || strings.Join(others, " ") != tt.notInterrupted {
			t.Errorf("%s: %q; interrupted %v and not %v; want %q; %s and not %s", tt.name, got, stopped, others, tt.said, tt.interrupted, tt.notInterrupted)
		}
		if len(c.queue) != 0 || c.waits != 0 {
			t.Errorf("%s: %d messages of %d bytes wait", tt.name, len(c.queue), c.waits)
		}
	}
}
