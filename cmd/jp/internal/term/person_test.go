package term

import (
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"jp/cmd/jp/internal/stream"
)

// TestDrawsOverNoQuestion: while another process asks, nothing moves the cursor into its question.
func TestDrawsOverNoQuestion(t *testing.T) {
	turns := filepath.Join(t.TempDir(), "state", "turns")
	var s screen
	streams := &IO{Out: &s, Err: &s, ErrTTY: true, OutTTY: true, Width: 40, turns: turns}
	now := func() time.Time { return time.Unix(0, 0) }
	tree := NewTree(streams, TreeOptions{Now: now, Tick: make(chan time.Time)})
	defer tree.Close()
	_, draft := streams.Draft()
	update := func(phase string) {
		tree.Update(&stream.Delegation{ConversationID: "1", Profile: "p", Phase: phase})
	}
	write := func(settled, open string) {
		if err := draft.Write(settled, open); err != nil {
			t.Error(err)
		}
	}
	update(stream.Started)
	write("", "one\n")
	free, taken := lockTurn(turns, unix.F_WRLCK)
	if taken {
		t.Fatal("somebody else asks")
	}
	s.print("jp: run rm (local)?")
	s.print("path = all")
	update(stream.Running)
	write("one\n", "two\n")
	write("", "two, three\n")
	tree.Around(func() {})
	draft.hide()
	free()
	write("two, three\n", "")
	draft.hide()
	update(stream.Running)
	want := []string{
		"`- * p  running  0.0s", "one", "jp: run rm (local)?", "path = all", "one", "two, three", "`- * p  running  0.0s",
	}
	wantLines(t, s.lines, want)
}

func wantLines(t *testing.T, got, want []string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("the screen has %q, want %q", got, want)
	}
	for i := range want {
		if got[i] != want[i] {
			t.Errorf("line %d is %q, want %q", i+1, got[i], want[i])
		}
	}
}
