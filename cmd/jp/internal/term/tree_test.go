package term

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"jp/cmd/jp/internal/stream"
)

// screen is as much of a terminal as a Tree needs: lines, and the cursor going up, which here
// erases what it passes.
type screen struct{ lines []string }

func (s *screen) Write(p []byte) (int, error) {
	text := strings.NewReplacer("\x1b[K", "", "\x1b[2K", "", "\x1b[?7l", "", "\x1b[?7h", "").Replace(string(p))
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

// TestTreeCallOrder: sub-agents of one caller stand in the order of the calls, whichever begins
// first.
func TestTreeCallOrder(t *testing.T) {
	var s screen
	tree := NewTree(&IO{Err: &s, ErrTTY: true, Width: 60}, TreeOptions{Now: func() time.Time { return time.Unix(0, 0) }, Tick: make(chan time.Time)})
	for _, d := range []stream.Delegation{
		{ConversationID: "3", Title: "three", Place: 3}, {ConversationID: "1", Title: "one", Place: 1},
		{ConversationID: "12", ParentID: "1", Title: "below two", Place: 2}, {ConversationID: "2", Title: "two", Place: 2},
		{ConversationID: "11", ParentID: "1", Title: "below one", Place: 1}, {ConversationID: "9", Title: "no place"},
	} {
		d.Phase, d.Profile = stream.Running, "p"
		tree.Update(&d)
	}
	var got []string
	for _, line := range s.lines {
		got = append(got, line[strings.LastIndex(line, "  ")+2:])
	}
	if want := []string{"one", "below one", "below two", "two", "three", "no place"}; !slices.Equal(got, want) {
		t.Errorf("rows %q, want %q", got, want)
	}
	tree.Close()
}

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
	check("└─ ● agent/researcher  running  0.0s")
	tree.Update(&stream.Delegation{Phase: stream.Queued, ConversationID: "jp-c3", ParentID: "jp-c1", CallID: "b", Profile: "agent/planner", Title: "evil\x1b[2J title"})
	now = now.Add(3 * time.Second)
	tree.Update(&stream.Delegation{Phase: stream.Running, ConversationID: "jp-c2", ParentID: "jp-c1", CallID: "a", Profile: "agent/researcher", Tool: "fs_read_file", Tokens: 1234, ElapsedMS: 3000})
	check(
		"├─ ● agent/researcher  running fs_read_file  1,234 tokens …",
		"└─ ○ agent/planner  queued  3.0s  evil title",
	)
	tree.Update(&stream.Delegation{Phase: stream.Started, ConversationID: "jp-c4", ParentID: "jp-c2", CallID: "c", Profile: "x"})
	tree.Update(&stream.Delegation{Phase: stream.Ended, ConversationID: "jp-c2", ParentID: "jp-c1", CallID: "a", Profile: "r", Status: "ok", Tokens: 9, ElapsedMS: 65000})
	check(
		"├─ ✓ r  ok  9 tokens  1m05s",
		"│  └─ ● x  running  0.0s",
		"└─ ○ agent/planner  queued  3.0s  evil title",
	)
	fmt.Fprintln(tree.Above(io).Err, "a question")
	check(
		"a question",
		"├─ ✓ r  ok  9 tokens  1m05s",
		"│  └─ ● x  running  0.0s",
		"└─ ○ agent/planner  queued  3.0s  evil title",
	)
	now = now.Add(2 * time.Second)
	ticks <- now
	ticks <- now // the first one has been drawn when the second is taken
	tree.Close()
	check(
		"a question",
		"├─ ✓ r  ok  9 tokens  1m05s",
		"│  └─ ● x  running  2.0s",
		"└─ ○ agent/planner  queued  5.0s  evil title",
	)
	tree.Update(&stream.Delegation{ConversationID: "late"})
	tree.Close()
	if len(s.lines) != 4 {
		t.Errorf("after Close: %q", s.lines)
	}
}

// TestTreeAfterAStop: what the shell has written while we were stopped stays, and the tree stands
// below it.
func TestTreeAfterAStop(t *testing.T) {
	var s screen
	ticks := make(chan time.Time)
	tree := NewTree(&IO{Err: &s, ErrTTY: true, Width: 60}, TreeOptions{Now: func() time.Time { return time.Unix(1000, 0) }, Tick: ticks})
	tree.Update(&stream.Delegation{Phase: stream.Running, ConversationID: "jp-c2", Profile: "p"})
	const line = "`- * p  running  0.0s"
	tree.screen.Lock()
	s.print("$ fg")
	tree.screen.Unlock()
	if err := syscall.Kill(syscall.Getpid(), syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	missed := func() bool {
		tree.screen.Lock()
		defer tree.screen.Unlock()
		return tree.missed
	}
	for !missed() {
		time.Sleep(time.Millisecond)
	}
	ticks <- time.Time{}
	tree.Close()
	if want := []string{line, "$ fg", line}; !slices.Equal(s.lines, want) {
		t.Errorf("screen %q, want %q", s.lines, want)
	}
}

// However many sub-agents there are, the tree is no longer than the screen: what runs or failed
// comes first, with what it is below, and a line says what the others do. That holds when all have
// ended too.
func TestTreeKeepsToTheScreen(t *testing.T) {
	var s screen
	io := &IO{Err: &s, ErrTTY: true, Height: 8, Width: 50}
	tree := NewTree(io, TreeOptions{Now: func() time.Time { return time.Unix(1000, 0) }, Tick: make(chan time.Time)})
	update := func(id, parent, phase, status string) {
		tree.Update(&stream.Delegation{Phase: phase, ConversationID: id, ParentID: parent, CallID: "c", Profile: id, Status: status})
	}
	check := func(want ...string) {
		t.Helper()
		if !slices.Equal(s.lines, want) {
			t.Errorf("screen:\n%s\nwant:\n%s", strings.Join(s.lines, "\n"), strings.Join(want, "\n"))
		}
	}
	for i := range 32 {
		update(fmt.Sprintf("a%02d", i), "", stream.Queued, "")
	}
	check("|- . a27  queued  0.0s", "|- . a28  queued  0.0s", "|- . a29  queued  0.0s", "|- . a30  queued  0.0s", "`- . a31  queued  0.0s", "(+27 more: 27 queued)")
	update("a03", "", stream.Ended, "ok")
	update("a05", "", stream.Ended, "timeout")
	update("a07", "", stream.Started, "")
	update("b", "a07", stream.Running, "")
	check("|- x a05  timeout  0.0s", "|- * a07  running  0.0s", "|  `- * b  running  0.0s", "|- . a30  queued  0.0s", "`- . a31  queued  0.0s",
		"(+28 more: 27 queued, 1 ok)")
	update("b", "a07", stream.Ended, "ok")
	for i := range 32 {
		if i != 3 && i != 5 {
			update(fmt.Sprintf("a%02d", i), "", stream.Ended, "ok")
		}
	}
	check("|- x a05  timeout  0.0s", "|- + a07  ok  0.0s", "|  `- + b  ok  0.0s", "|- + a30  ok  0.0s", "`- + a31  ok  0.0s", "(+28 more: 28 ok)")
	tree.Close()
	if len(s.lines) != 6 {
		t.Errorf("after Close %d lines, want 6", len(s.lines))
	}
}

// A screen that became narrower has broken the drawn lines up: they are found all the same.
func TestTreeOnANarrowedScreen(t *testing.T) {
	var b bytes.Buffer
	io := &IO{Err: &b, ErrTTY: true, UTF8: true, Width: 60}
	tree := NewTree(io, TreeOptions{Now: func() time.Time { return time.Unix(1000, 0) }, Tick: make(chan time.Time)})
	d := stream.Delegation{Phase: stream.Started, ConversationID: "a", CallID: "c", Profile: "agent", Title: "宽字符的标题宽字符的标题宽字符的标题宽字符的标题"}
	tree.Update(&d)
	if got, want := b.String(), "\x1b[?7l\x1b[2K└─ ● agent  running  0.0s  宽字符的标题宽字符的标题宽字符…\x1b[?7h\n"; got != want {
		t.Errorf("drawn %q, want %q", got, want)
	}
	b.Reset()
	io.Width = 25 // 58 columns take three rows of these
	tree.Update(&d)
	if got, want := b.String(), "\x1b[3A\r\x1b[J\x1b[?7l\x1b[2K└─ ● agent  宽字符的标…\x1b[?7h\n"; got != want {
		t.Errorf("drawn %q, want %q", got, want)
	}
	tree.Close()
}

// When every sub-agent has ended, their lines are left alone: text may follow them, and what comes
// then is a new tree. The task is what differs from row to row: on a narrow screen the others give
// way.
func TestTreeNarrow(t *testing.T) {
	for _, tt := range []struct {
		width int
		want  string
	}{
		{0, "└─ ● agent/researcher  running fs_grep_files  12,345 tokens  3.0s  SUBTASK-1 reads the parser"},
		{81, "└─ ● agent/researcher  running fs_grep_files  3.0s  SUBTASK-1 reads the parser"},
		{72, "└─ ● agent/researcher  running fs_grep_files  SUBTASK-1 reads the parser"},
		{61, "└─ ● researcher  running fs_grep_files  SUBTASK-1 reads the …"},
		{40, "└─ ● researcher  running  SUBTASK-1 rea…"},
		{20, "└─ ● researc…  SUBT…"},
	} {
		tree := NewTree(&IO{Err: new(bytes.Buffer), ErrTTY: true, UTF8: true}, TreeOptions{Now: func() time.Time { return time.Unix(1000, 0) }, Tick: make(chan time.Time)})
		tree.Update(&stream.Delegation{
			Phase: stream.Running, Tool: "fs_grep_files", ConversationID: "a", CallID: "c", Profile: "agent/researcher", Tokens: 12345, ElapsedMS: 3000,
			Title: "SUBTASK-1 reads the parser",
		})
		width := tt.width
		if width > 0 {
			width++ // the last column stays free
		}
		if got := tree.lines(width, 24); len(got) != 1 || got[0].text != tt.want {
			t.Errorf("%d columns: %+v, want %q", tt.width, got, tt.want)
		}
		tree.Close()
	}
}

// TestTreeRefusedFirst: a call that is refused before another one of the reply begins stands in its
// place, and stays where it is when text comes.
func TestTreeRefusedFirst(t *testing.T) {
	var s screen
	tree := NewTree(&IO{Err: &s, ErrTTY: true, Width: 40}, TreeOptions{Tick: make(chan time.Time)})
	refused := stream.Delegation{Phase: stream.Ended, CallID: "c2", Profile: "b", Status: "refused", Place: 2}
	tree.Update(&refused)
	d := stream.Delegation{Phase: stream.Started, ConversationID: "a", CallID: "c1", Profile: "a", Place: 1}
	tree.Update(&d)
	d.Phase, d.Status = stream.Ended, "ok"
	tree.Update(&d)
	refused.CallID = "c3"
	tree.Update(&refused)
	tree.Around(func() { s.print("one line") })
	refused.CallID = "c4"
	tree.Update(&refused)
	tree.Close()
	want := []string{"|- + a  ok  0.0s", "`- x b  refused", "`- x b  refused", "one line", "`- x b  refused"}
	if !slices.Equal(s.lines, want) {
		t.Errorf("screen = %q, want %q", s.lines, want)
	}
}

// TestTreeManyRefused: equal refusals have one row where there is no room for all, and hide nobody who
// works or waits.
func TestTreeManyRefused(t *testing.T) {
	tree := NewTree(&IO{Err: new(bytes.Buffer), ErrTTY: true, UTF8: true}, TreeOptions{Tick: make(chan time.Time)})
	for i := range 30 {
		d := stream.Delegation{Phase: stream.Ended, CallID: fmt.Sprint(i), Profile: "agent/r", Status: "refused", Reason: "5 of 5 are used", Title: fmt.Sprint("Task ", i+1)}
		if i < 3 {
			d = stream.Delegation{Phase: []string{stream.Running, stream.Waiting, stream.Queued}[i], CallID: d.CallID, ConversationID: d.CallID, Profile: d.Profile, Reason: "stream", Title: d.Title}
		}
		tree.order = append(tree.order, &node{last: d, at: time.Now().Add(-5 * time.Second)})
	}
	var got []string
	for _, l := range tree.lines(100, 24) {
		got = append(got, l.text)
	}
	want := []string{
		"├─ ● agent/r  running  5.0s  Task 1",
		"├─ ● agent/r  waiting: the reply broke off  5.0s  Task 2",
		"├─ ○ agent/r  queued  5.0s  Task 3",
		"└─ ✗ 27 × agent/r  refused: 5 of 5 are used  Task 4 … Task 30",
	}
	if !slices.Equal(got, want) {
		t.Errorf("lines = %q, want %q", got, want)
	}
	for _, l := range tree.lines(100, 5) {
		got = append(got, l.text)
	}
	if rest := got[len(got)-1]; rest != "(+28 more: 1 queued, 27 refused)" {
		t.Errorf("the last line is %q", rest)
	}
}

// TestTreeManyRefusedTitles: a row for equal refusals has the whole title of the first and of the last, whatever they hold.
func TestTreeManyRefusedTitles(t *testing.T) {
	tree := NewTree(&IO{Err: new(bytes.Buffer), ErrTTY: true, UTF8: true}, TreeOptions{Tick: make(chan time.Time)})
	for _, title := range []string{"Read a … b", "Read c", "", "Read d … e", "Read f … g"} {
		d := stream.Delegation{Phase: stream.Ended, Profile: "agent/r", Status: "refused", Title: title}
		tree.order = append(tree.order, &node{last: d})
	}
	const want = "└─ ✗ 5 × agent/r  refused  Read a … b … Read f … g"
	if got := tree.lines(100, 5); len(got) != 1 || got[0].text != want {
		t.Errorf("lines = %v, want %q", got, want)
	}
}

// TestTreeReason: the beginning of a reason stays in a row with a long task.
func TestTreeReason(t *testing.T) {
	for width, want := range map[int]string{
		110: "└─ ✗ agent/researcher  refused: 5 of 5 sub-agent calls of this turn are used  SUBTASK-1 reads the parser",
		80:  "└─ ✗ researcher  refused: 5 of 5 sub-agent calls of…  SUBTASK-1 reads the pars…",
		60:  "└─ ✗ researcher  refused: 5 of 5 sub-a…  SUBTASK-1 reads t…",
		48:  "└─ ✗ researcher  refused  SUBTASK-1 reads the …",
	} {
		tree := NewTree(&IO{Err: new(bytes.Buffer), ErrTTY: true, UTF8: true}, TreeOptions{Tick: make(chan time.Time)})
		n := &node{last: stream.Delegation{
			Phase: stream.Ended, Profile: "agent/researcher", Status: "refused", Reason: "5 of 5 sub-agent calls of this turn are used", Title: "SUBTASK-1 reads the parser",
		}}
		tree.order = []*node{n}
		if got := tree.lines(width, 24); len(got) != 1 || got[0].text != want {
			t.Errorf("%d columns: %+v, want %q", width, got, want)
		}
	}
}

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
	want := "`- + first  ok  0.0s\nthe answer\n`- * second  running  0.0s"
	if got := strings.Join(s.lines, "\n"); got != want {
		t.Errorf("screen:\n%s\nwant:\n%s", got, want)
	}
}

// TestTreeLeavesWhatEnded: once all have ended their lines stay, and what comes next stands below
// them.
func TestTreeLeavesWhatEnded(t *testing.T) {
	var s screen
	tree := NewTree(&IO{Err: &s, ErrTTY: true, Width: 40}, TreeOptions{Tick: make(chan time.Time)})
	tree.Update(&stream.Delegation{Phase: stream.Started, ConversationID: "a", CallID: "c", Profile: "a"})
	tree.Update(&stream.Delegation{Phase: stream.Ended, ConversationID: "a", CallID: "c", Profile: "a", Status: "ok"})
	tree.Around(func() { s.print("one line") })
	tree.Around(func() { s.print("another") })
	tree.Update(&stream.Delegation{Phase: stream.Started, ConversationID: "b", CallID: "d", Profile: "b"})
	tree.Close()
	want := []string{"`- + a  ok  0.0s", "one line", "another", "`- * b  running  0.0s"}
	if !slices.Equal(s.lines, want) {
		t.Errorf("screen = %q, want %q", s.lines, want)
	}
}

func TestTreeInALog(t *testing.T) {
	var b bytes.Buffer
	tree := NewTree(&IO{Err: &b}, TreeOptions{})
	d := stream.Delegation{Phase: stream.Started, ConversationID: "jp-c2", CallID: "a", Profile: "agent/researcher"}
	tree.Update(&d)
	d.Phase, d.Tool = stream.Running, "fs_grep_files\x1b["
	tree.Update(&d)
	tree.Update(&d) // no change, no line
	d.Tool, d.Tokens = "", 50
	tree.Update(&d)
	d.Phase, d.Status, d.Reason, d.ElapsedMS = stream.Ended, "partial", "max\nturns\x1b[", 1500 // the sequence has no end here
	tree.Update(&d)
	tree.Update(&stream.Delegation{Phase: stream.Ended, CallID: "b", Status: "error", Reason: "query is missing"}) // names no profile
	tree.Close()
	want := `jp: agent/researcher jp-c2: started
jp: agent/researcher jp-c2: running fs_grep_files
jp: agent/researcher jp-c2: partial: max turns, 50 tokens, 1.5s
jp: a delegation: error: query is missing
`
	if b.String() != want {
		t.Errorf("log:\n%s\nwant:\n%s", b.String(), want)
	}
	(*Tree)(nil).Update(&d)
	(*Tree)(nil).Around(func() {})
	(*Tree)(nil).Close()
	tree = NewTree(&IO{Err: new(bytes.Buffer)}, TreeOptions{})
	for i := range 100 { // of sub-agents that were refused, which are any number
		tree.Update(&stream.Delegation{Phase: stream.Ended, CallID: fmt.Sprint(i), Status: "refused"})
	}
	if n := len(tree.nodes) + len(tree.order); n > 0 {
		t.Errorf("%d nodes are kept of what has ended", n)
	}
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

// TestTreeLongAsked: news of sub-agents that change for a long time while somebody has the screen are
// bounded. How each of them ended is told.
func TestTreeLongAsked(t *testing.T) {
	var b bytes.Buffer
	tree := NewTree(&IO{Err: &b}, TreeOptions{})
	const changes = 6000
	tree.Around(func() {
		d := stream.Delegation{ConversationID: "jp-c2", Profile: "p", Phase: stream.Running}
		for i := range changes {
			d.Tool = fmt.Sprintf("tool_%0200d", i)
			tree.Update(&d)
		}
		d.Phase, d.Status = stream.Ended, "ok"
		tree.Update(&d)
		tree.Update(&stream.Delegation{Phase: stream.Ended, CallID: "b", Status: "refused"})
	})
	tree.Update(&stream.Delegation{ConversationID: "jp-c3", Profile: "p", Phase: stream.Started})
	tree.Close()
	lines := strings.Split(b.String(), "\n")
	const rest = 4
	shown := len(lines) - rest
	want := []string{fmt.Sprintf("jp: changes of sub-agents that are not shown here: %s", Count(int64(changes+1-shown))),
		"jp: p jp-c2: ok, 0 tokens, 0.0s", "jp: p jp-c3: started", ""}
	if got := lines[shown:]; !slices.Equal(got, want) {
		t.Errorf("the end is %q, want %q", got, want)
	}
	if n := len(strings.Join(lines[:shown], "\n")); n > textsMax || n < textsMax-300 {
		t.Errorf("%d bytes of news were kept, want %d", n, textsMax)
	}
}

// TestTreeWhileAsked: who tells of sub-agents, or writes above the tree, goes on while somebody else
// has the screen. What they say is shown afterwards.
func TestTreeWhileAsked(t *testing.T) {
	for name, tt := range map[string]struct {
		dumb bool
		want []string
	}{
		"drawn": {false, []string{"jp: run ls?", "a note", "`- + p  ok  0.0s"}},
		"plain": {true, []string{"jp: p a: started", "jp: run ls?", "jp: p a: running", "a note", "jp: p a: ok, 0 tokens, 0.0s"}},
	} {
		t.Run(name, func(t *testing.T) {
			var s screen
			streams := &IO{Err: &s, ErrTTY: true, Width: 60, Dumb: tt.dumb}
			tree := NewTree(streams, TreeOptions{Tick: make(chan time.Time)})
			d := stream.Delegation{ConversationID: "a", Profile: "p", Phase: stream.Started}
			tree.Update(&d)
			tree.Around(func() {
				s.print("jp: run ls?")
				d.Phase = stream.Running
				tree.Update(&d)
				fmt.Fprintln(tree.Above(streams).Err, "a note")
				d.Phase, d.Status = stream.Ended, "ok"
				tree.Update(&d)
			})
			tree.Close()
			if !slices.Equal(s.lines, tt.want) {
				t.Errorf("screen = %q, want %q", s.lines, tt.want)
			}
		})
	}
}
