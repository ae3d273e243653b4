package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"jp/cmd/jp/internal/stream"
	"jp/convstore"
)

// deepSite has a tree of depth 2, root -> middle -> leaf, in which every level runs a tool. work is
// what the tool does.
func deepSite(t *testing.T, work string) *site {
	const tool = `
[conversation.tools.work]
source = "local"
description = "Works."
command = { program = "bash", args = ["work.sh"] }
run = "unattended"
detached = "auto"
timeout = "300s"
`
	const query = `
[conversation.tools.jp_query]
source = "delegation"
run = "unattended"
`
	profile := func(model, more string) string {
		return "[loader]\nreset = \"none\"\n[assistant]\nmodel = \"script/" + model + "\"\n" + tool + more
	}
	return newSite(t, map[string]string{
		".jp/config.toml":              "[assistant]\nmodel = \"script/root.toml\"\n" + tool + query + "[delegation]\nprofiles = [\"agent/middle\"]\nmax_depth = 2\n",
		".jp/config/agent/middle.toml": profile("middle.toml", query+"[delegation]\nprofiles = [\"agent/leaf\"]\nmax_depth = 1\n"),
		".jp/config/agent/leaf.toml":   profile("leaf.toml", ""),
		"work.sh":                      work,
		"root.toml": `
[[rule]]
round = 1
tool_calls = [
  { name = "work", arguments = {} },
  { name = "jp_query", arguments = { config = "agent/middle", query = "middle" } },
]
[[rule]]
round = 2
tool_calls = [{ name = "work", arguments = {} }]
[[rule]]
text = "the root is done"
`,
		"middle.toml": `
[[rule]]
round = 1
tool_calls = [
  { name = "jp_query", arguments = { config = "agent/leaf", query = "leaf" } },
  { name = "work", arguments = {} },
]
[[rule]]
text = "the middle is done"
`,
		"leaf.toml": `
[[rule]]
round = 1
tool_calls = [{ name = "work", arguments = {} }]
[[rule]]
text = "the leaf is done"
`,
	})
}

// crashed is a run in which a process was killed.
type crashed struct {
	root  convstore.ID
	lines []stream.Line // what the root said
	exit  *os.ProcessState
	who   string // the command line of the process that was killed; "" = nobody
}

// crash runs a tree and kills one of its processes when the root's n-th line comes. It returns when
// nothing of it runs any more.
func (s *site) crash(n, victim int) (c crashed) {
	s.t.Helper()
	cmd := &exec.Cmd{Path: "/proc/self/exe", Args: []string{"jp", "query", "--new", "-F", "stream-json", "go"}, Dir: s.dir, Env: s.environ()}
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	split := &stream.Splitter{Each: func(l stream.Line) {
		c.lines = append(c.lines, l)
		if init, ok := l.(*stream.Init); ok {
			c.root, _ = convstore.ParseID(init.ConversationID)
		}
		if len(c.lines) == n {
			all := s.processes()
			below := slices.DeleteFunc(slices.Clone(all), func(p string) bool { return strings.Contains(p, "--new") })
			if len(below) > 0 && victim%3 > 0 { // most of the time the root is one of many
				all = below
			}
			if len(all) > 0 {
				c.who = all[victim%len(all)]
				pid, _ := strconv.Atoi(strings.Fields(c.who)[0])
				_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended by itself just now
			}
		}
	}}
	if _, err := io.Copy(split, out); err != nil {
		s.t.Fatal(err)
	}
	_ = cmd.Wait()
	c.exit = cmd.ProcessState
	s.gone()
	return c
}

// events reads a conversation.
func (s *site) events(id convstore.ID) (list []convstore.Event) {
	s.t.Helper()
	for ev, err := range s.store.Events(s.t.Context(), id, convstore.Range{}) {
		if err != nil {
			s.t.Fatal(err)
		}
		list = append(list, ev)
	}
	return list
}

// delegations lists those below a root, by child. Nobody goes on with a child in these tests.
func (s *site) delegations(root convstore.ID) map[string]convstore.Delegation {
	s.t.Helper()
	list, err := s.store.Delegations(s.t.Context(), root)
	if err != nil {
		s.t.Fatal(err)
	}
	m := map[string]convstore.Delegation{}
	for _, d := range list {
		m[d.Child.String()] = d
	}
	return m
}

// unstored lists what the root has told and the store does not hold: each line is written after its
// event is stored.
func (s *site) unstored(c crashed) (missing []string) {
	stored := map[string]bool{}
	for _, ev := range s.events(c.root) {
		switch b := ev.Body.(type) {
		case convstore.ToolCall:
			stored["call "+b.ID] = true
		case convstore.ToolResult:
			stored["result "+b.ID+" "+b.Text] = true
		case convstore.AssistantMessage:
			stored["text "+b.Text] = true
		case convstore.TurnEnd:
			stored["end "+string(b.State)] = true
		}
	}
	for child, d := range s.delegations(c.root) {
		stored["delegation "+child+" "] = true
		stored["delegation "+child+" "+string(d.State)] = true
	}
	for _, l := range c.lines {
		what := ""
		switch l := l.(type) {
		case *stream.ToolCall:
			what = "call " + l.ID
		case *stream.ToolResult:
			what = "result " + l.ID + " " + l.Text
		case *stream.Assistant:
			if l.Text != "" {
				what = "text " + l.Text
			}
		case *stream.Delegation:
			what = "delegation " + l.ConversationID + " " + l.Status
		case *stream.Result:
			what = "end " + l.Status
		}
		if what != "" && !stored[what] {
			missing = append(missing, what)
		}
	}
	return missing
}

// TestKillAnyAtAnyMoment kills one process of a tree, whichever, at 50 moments: when the n-th line
// of its progress comes. Then nothing runs, nothing stays reserved, what was acknowledged is
// stored, every status is true at once, and the root goes on. $JP_TEST_SEED chooses other moments.
func TestKillAnyAtAnyMoment(t *testing.T) {
	const moments = 50
	seed := uint64(4)
	if v := os.Getenv("JP_TEST_SEED"); v != "" {
		var err error
		if seed, err = strconv.ParseUint(v, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	s := deepSite(t, "sleep 0.05 & echo worked; wait\n")
	whole := s.crash(-1, 0)
	if !whole.exit.Success() || len(whole.lines) < 20 {
		t.Fatalf("a run that nobody kills: %v, %d lines", whole.exit, len(whole.lines))
	}
	random := rand.New(rand.NewPCG(seed, 0))
	for i := range moments {
		c := s.crash(1+random.IntN(len(whole.lines)-1), random.IntN(1<<20))
		fail := func(format string, args ...any) {
			t.Helper()
			t.Errorf("moment %d, after line %d of %s, killed %q: %s", i, len(c.lines), c.root, c.who, fmt.Sprintf(format, args...))
		}
		t.Logf("moment %d: killed %.60q", i, c.who)
		if missing := s.unstored(c); len(missing) > 0 {
			fail("not stored: %q", missing)
		}
		before := s.events(c.root)

		root, err := s.store.Get(t.Context(), c.root)
		if err != nil {
			t.Fatal(err)
		}
		killed := c.exit.Sys().(syscall.WaitStatus).Signaled()
		switch {
		case !killed && (!c.exit.Success() || root.Status != "ok"):
			fail("the root lived, but ended with %v, status %s", c.exit, root.Status)
		case killed && root.Status == convstore.StatusNew && len(before) == 0: // before it had begun
		case killed && root.Status != convstore.StatusInterrupted && root.Status != "ok":
			fail("status of the root = %s", root.Status)
		}
		below, err := s.store.Below(t.Context(), c.root)
		if err != nil {
			t.Fatal(err)
		}
		list, err := below.List(t.Context(), convstore.Filter{Hidden: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, child := range list {
			if !convstore.State(child.Status).Terminal() {
				fail("status of %s = %s, though nothing runs", child.ID, child.Status)
			}
		}
		if root.Status == convstore.StatusInterrupted {
			if text, code := s.jp("query", "--id", c.root.String()); code != 0 || !strings.HasSuffix(text, "the root is done\n") {
				fail("going on: %d %s", code, text)
			}
		}
		after := s.events(c.root)
		if len(after) < len(before) || !reflect.DeepEqual(after[:len(before)], before) {
			fail("going on changed what was stored")
		}
		for _, d := range s.delegations(c.root) {
			if d.State == "" {
				fail("still reserved: %s", dump(d))
			}
		}
	}
}

// TestSignalsSettleDeepTree: the first signal settles a tree of depth 2, whatever its tools leave
// behind, and if they have to be killed. The second kills at once what does not listen.
func TestSignalsSettleDeepTree(t *testing.T) {
	const deaf = "trap '' INT TERM HUP\n" + escape + "\nwhile :; do sleep 1000.5; done"
	for _, tt := range []struct {
		name  string
		work  string
		times int
		want  []convstore.Status
	}{
		{"first", escape, 1, []convstore.Status{"cancelled"}},
		{"first, and tools do not listen", deaf, 1, []convstore.Status{"cancelled"}},
		{"second", deaf, 2, []convstore.Status{"cancelled", "killed", "lost"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := deepSite(t, tt.work)
			cmd, out := s.start(nil, "jp", "query", "--new", "root")
			s.eventually("the tools of three levels", func() bool { return len(s.running("sleep 1000.")) == 12 })
			for range tt.times {
				if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
					t.Fatal(err)
				}
			}
			_ = cmd.Wait()
			if got := cmd.ProcessState.ExitCode(); got != 130 {
				t.Errorf("exit = %d, want 130\n%s", got, out)
			}
			if p := s.processes(); len(p) != 0 {
				t.Errorf("left when jp had ended: %v", p)
			}
			all := s.all()
			for _, title := range []string{"root", "middle", "leaf"} {
				if got := all[title].Status; !slices.Contains(tt.want, got) {
					t.Errorf("status of the %s = %q, want one of %q", title, got, tt.want)
				}
			}
			for _, d := range s.delegations(all["root"].ID) {
				if d.State == "" {
					t.Errorf("still reserved: %s", dump(d))
				}
			}
		})
	}
}
