package term

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"jp/cmd/jp/internal/stream"
)

// screen is as much of a terminal as a Tree needs: lines, cursor up, erase below.
type screen struct{ lines []string }

func (s *screen) Write(p []byte) (int, error) {
	text := string(p)
	for text != "" {
		if rest, ok := strings.CutPrefix(text, "\x1b["); ok {
			i := strings.IndexAny(rest, "ABCDEFGHJKm")
			if rest[i] == 'A' {
				n := 0
				for _, d := range rest[:i] {
					n = n*10 + int(d-'0')
				}
				s.lines = s.lines[:len(s.lines)-n]
			}
			text = rest[i+1:]
			continue
		}
		if rest, ok := strings.CutPrefix(text, "\r"); ok {
			text = rest
			continue
		}
		line, rest, _ := strings.Cut(text, "\n")
		if i := strings.Index(line, "\x1b["); i >= 0 {
			line, rest = line[:i], line[i:]+"\n"+rest
			panic("colour in a test without colours: " + line + rest)
		}
		s.lines = append(s.lines, line)
		text = rest
	}
	return len(p), nil
}

// print is what somebody else writes.
func (s *screen) print(line string) { s.lines = append(s.lines, line) }

func TestTreeOnATerminal(t *testing.T) {
	var s screen
	now := time.Unix(1000, 0)
	ticks := make(chan time.Time)
	io := &IO{Err: &s, ErrTTY: true, UTF8: true, Width: 60}
	tree := NewTree(io, TreeOptions{Now: func() time.Time { return now }, Tick: ticks})
	check := func(want ...string) {
		t.Helper()
		if got := strings.Join(s.lines, "\n"); got != strings.Join(want, "\n") {
			t.Errorf("screen:\n%s\nwant:\n%s", got, strings.Join(want, "\n"))
		}
	}
	tree.Update(&stream.Delegation{Phase: stream.Started, ConversationID: "jp-c2", ParentID: "jp-c1", CallID: "a", Profile: "agent/researcher"})
	check("└─ ● agent/researcher  started  0.0s")
	tree.Update(&stream.Delegation{Phase: stream.Queued, ConversationID: "jp-c3", ParentID: "jp-c1", CallID: "b", Profile: "agent/planner", Title: "evil\x1b[2J title"})
	now = now.Add(3 * time.Second)
	tree.Update(&stream.Delegation{Phase: stream.Running, ConversationID: "jp-c2", ParentID: "jp-c1", CallID: "a", Profile: "agent/researcher", Tool: "fs_read_file", Tokens: 1234, ElapsedMS: 3000})
	check(
		"├─ ● agent/researcher  running fs_read_file  1,234 tokens …",
		"└─ ○ agent/planner  queued  0.0s  evil title",
	)
	tree.Update(&stream.Delegation{Phase: stream.Started, ConversationID: "jp-c4", ParentID: "jp-c2", CallID: "c", Profile: "x"})
	tree.Update(&stream.Delegation{Phase: stream.Ended, ConversationID: "jp-c2", ParentID: "jp-c1", CallID: "a", Profile: "r", Status: "ok", Tokens: 9, ElapsedMS: 65000})
	check(
		"├─ ✓ r  ok  9 tokens  1m05s",
		"│  └─ ● x  started  0.0s",
		"└─ ○ agent/planner  queued  0.0s  evil title",
	)
	tree.Around(func() { s.print("a question") })
	check(
		"a question",
		"├─ ✓ r  ok  9 tokens  1m05s",
		"│  └─ ● x  started  0.0s",
		"└─ ○ agent/planner  queued  0.0s  evil title",
	)
	now = now.Add(2 * time.Second)
	ticks <- now
	ticks <- now // the first one has been drawn when the second is taken
	tree.Close()
	check(
		"a question",
		"├─ ✓ r  ok  9 tokens  1m05s",
		"│  └─ ● x  started  2.0s",
		"└─ ○ agent/planner  queued  0.0s  evil title",
	)
	tree.Update(&stream.Delegation{ConversationID: "late"})
	tree.Close()
	if len(s.lines) != 4 {
		t.Errorf("after Close: %q", s.lines)
	}
}

func TestTreeKeepsToTheScreen(t *testing.T) {
	var s screen
	tree := NewTree(&IO{Err: &s, ErrTTY: true, Height: 6, Width: 40}, TreeOptions{Tick: make(chan time.Time)})
	for i, phase := range []string{stream.Started, stream.Ended, stream.Ended, stream.Started, stream.Ended, stream.Ended} {
		tree.Update(&stream.Delegation{Phase: phase, ConversationID: string(rune('a' + i)), CallID: "c", Profile: string(rune('a' + i)), Status: "error", Reason: strings.Repeat("long ", 20)})
	}
	if n := len(s.lines); n != 4 || !strings.HasPrefix(s.lines[0], "|- * a") || s.lines[3] != "(+3 more)" {
		t.Errorf("six nodes on a screen of six lines:\n%s", strings.Join(s.lines, "\n"))
	}
	tree.Close()
	if n := len(s.lines); n != 6 {
		t.Errorf("after Close %d lines, want all 6", n)
	}
	for _, l := range s.lines {
		if Width(l) >= 40 {
			t.Errorf("line %q wraps", l)
		}
	}
}

// When every sub-agent has ended, their lines are left alone: text may follow them, and what comes then is a new tree.
func TestTreeLeavesWhatHasEnded(t *testing.T) {
	var s screen
	tree := NewTree(&IO{Err: &s, ErrTTY: true}, TreeOptions{Tick: make(chan time.Time)})
	d := stream.Delegation{Phase: stream.Started, ConversationID: "jp-c2", CallID: "a", Profile: "first"}
	tree.Update(&d)
	d.Phase, d.Status = stream.Ended, "ok"
	tree.Update(&d)
	s.print("the answer")
	tree.Update(&stream.Delegation{Phase: stream.Started, ConversationID: "jp-c3", CallID: "b", Profile: "second"})
	tree.Close()
	want := "`- + first  ok  0.0s\nthe answer\n`- * second  started  0.0s"
	if got := strings.Join(s.lines, "\n"); got != want {
		t.Errorf("screen:\n%s\nwant:\n%s", got, want)
	}
}

// TestTreeLeavesWhatEnded: once all have ended their lines stay, and what comes next stands below them.
func TestTreeLeavesWhatEnded(t *testing.T) {
	var s screen
	tree := NewTree(&IO{Err: &s, ErrTTY: true, Width: 40}, TreeOptions{Tick: make(chan time.Time)})
	tree.Update(&stream.Delegation{Phase: stream.Started, ConversationID: "a", CallID: "c", Profile: "a"})
	tree.Update(&stream.Delegation{Phase: stream.Ended, ConversationID: "a", CallID: "c", Profile: "a", Status: "ok"})
	tree.Around(func() { s.print("one line") })
	tree.Around(func() { s.print("another") })
	tree.Update(&stream.Delegation{Phase: stream.Started, ConversationID: "b", CallID: "d", Profile: "b"})
	tree.Close()
	want := []string{"`- + a  ok  0.0s", "one line", "another", "`- * b  started  0.0s"}
	if !slices.Equal(s.lines, want) {
		t.Errorf("screen = %q, want %q", s.lines, want)
	}
}

func TestTreeInALog(t *testing.T) {
	var b bytes.Buffer
	tree := NewTree(&IO{Err: &b}, TreeOptions{})
	d := stream.Delegation{Phase: stream.Started, ConversationID: "jp-c2", CallID: "a", Profile: "agent/researcher"}
	tree.Update(&d)
	d.Phase, d.Tool = stream.Running, "fs_grep_files"
	tree.Update(&d)
	tree.Update(&d) // no change, no line
	d.Tool, d.Tokens = "", 50
	tree.Update(&d)
	d.Phase, d.Status, d.Reason, d.ElapsedMS = stream.Ended, "partial", "max\nturns", 1500
	tree.Update(&d)
	tree.Close()
	want := `jp: agent/researcher jp-c2: started
jp: agent/researcher jp-c2: running fs_grep_files
jp: agent/researcher jp-c2: partial: max turns, 50 tokens, 1.5s
`
	if b.String() != want {
		t.Errorf("log:\n%s\nwant:\n%s", b.String(), want)
	}
	(*Tree)(nil).Update(&d)
	(*Tree)(nil).Around(func() {})
	(*Tree)(nil).Close()
}

func TestCountAndElapsed(t *testing.T) {
	for n, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 1234567: "1,234,567", -1000: "-1,000", -999: "-999"} {
		if got := Count(n); got != want {
			t.Errorf("Count(%d) = %s, want %s", n, got, want)
		}
	}
	for d, want := range map[time.Duration]string{
		0: "0.0s", 1990 * time.Millisecond: "1.9s", 59 * time.Second: "59s", 185 * time.Second: "3m05s", 2*time.Hour + 7*time.Minute: "2h07m",
	} {
		if got := Elapsed(d); got != want {
			t.Errorf("Elapsed(%v) = %s, want %s", d, got, want)
		}
	}
}
