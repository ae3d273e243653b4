package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"jp/convstore"
)

// slowSite is a workspace whose sub-agents and main agent hang where their query says "slow", until quick.
func slowSite(t *testing.T) *site {
	const slow = "[[rule]]\nquery = \"slow\"\nhang = true\n[[rule]]\ntext = \"%\"\n"
	return newSite(t, map[string]string{
		".jp/config.toml":             treeConfig,
		".jp/config/agent/child.toml": "[loader]\nreset = \"none\"\n[assistant]\nmodel = \"script/child.toml\"\n",
		"main.toml":                   strings.ReplaceAll(slow, "%", "main says"),
		"child.toml":                  strings.ReplaceAll(slow, "%", "child says"),
	})
}

// quick lets sub-agents hang no longer.
func (s *site) quick() {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, "child.toml"), []byte("[[rule]]\ntext = \"child says\"\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// killed starts jp, and kills it when the conversation with this title has asked its model.
func (s *site) killed(title string, argv ...string) {
	s.t.Helper()
	cmd, _ := s.start(nil, append([]string{"jp"}, argv...)...)
	s.asks(title)
	if err := cmd.Process.Kill(); err != nil {
		s.t.Fatal(err)
	}
	_ = cmd.Wait()
	s.eventually("the end of its sub-agents", func() bool { return s.all()[title].Status != convstore.StatusRunning })
}

// asks waits until the conversation with this title has asked its model.
func (s *site) asks(title string) {
	s.t.Helper()
	s.eventually("the call of "+title, func() bool {
		c, ok := s.all()[title]
		if !ok {
			return false
		}
		a, err := s.store.Account(s.t.Context(), c.ID)
		return err == nil && a.Call != convstore.Spend{}
	})
}

// TestKilledByHandWhileItsRootRuns: the grant of a person's run that was killed is free again while its
// root runs on.
func TestKilledByHandWhileItsRootRuns(t *testing.T) {
	s := slowSite(t)
	s.start(nil, "jp", "query", "--new", "--title", "root", "slow")
	s.asks("root")
	root := s.all()["root"].ID
	s.killed("slow child", "query", "--id", "new", "--root-id", root.String(), "--config", "agent/child", "slow child")
	if out, code := s.jp("query", "--new", "other"); code != 0 {
		t.Fatal(out)
	}
	a, err := s.store.Account(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	if left := *a.Open.CostNano; left != 0 {
		t.Errorf("%d nano-dollars are reserved, and nothing runs below %s", left, root)
	}
}

// TestTurnWithoutAnAgentIsNotResumed: the turn of a batch or of a server of MCP that was killed or stopped is not
// taken up by the main model.
func TestTurnWithoutAnAgentIsNotResumed(t *testing.T) {
	for _, tt := range []struct{ name, status, hint string }{
		{"batch killed", "interrupted", "jp batch --resume %"},
		{"batch stopped", "cancelled", "jp batch --resume %"},
		{"mcp killed", "interrupted", "words"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := slowSite(t)
			switch tt.name {
			case "batch killed":
				s.stdin = "\"a\"\n\"slow one\"\n\"slow two\"\n"
				s.killed("slow one", "batch", "--title", "top", "-c", "agent/child", "--parallel", "1")
			case "batch stopped":
				s.stdin = "\"slow one\"\n"
				cmd, _ := s.start(nil, "jp", "batch", "--title", "top", "-c", "agent/child")
				s.asks("slow one")
				s.signal(syscall.SIGINT, cmd.Process.Pid)
				_ = cmd.Wait()
			case "mcp killed":
				c := serveMCP(s, "--title", "top")
				go func() {
					_, _ = c.ask(t.Context(), "jp_query", map[string]any{"config": "agent/child", "query": "slow one"})
				}()
				s.asks("slow one")
				s.signal(syscall.SIGKILL, c.cmd.Process.Pid)
				s.eventually("the end of the server", func() bool { return s.all()["top"].Status != convstore.StatusRunning })
			}
			s.stdin = ""
			top := s.all()["top"]
			out, code := s.jp("query", "--id", top.ID.String())
			if hint := strings.ReplaceAll(tt.hint, "%", top.ID.String()); code != 2 || !strings.Contains(out, "hint: ") || !strings.Contains(out, hint) {
				t.Errorf("resumed: %d %s, want 2 and a hint with %q", code, out, hint)
			}
			if got := s.all()["top"]; string(got.Status) != tt.status || got.Events != top.Events {
				t.Errorf("status %s, %d events, want %s and %d", got.Status, got.Events, tt.status, top.Events)
			}
			if out, code := s.jp("query", "--id", top.ID.String(), "well?"); code != 0 || !strings.Contains(out, "main says") {
				t.Errorf("asked: %d %s", code, out)
			}
		})
	}
}

// TestKilledServerKeepsNothing: what expires below a server of MCP goes although its turn stays open.
func TestKilledServerKeepsNothing(t *testing.T) {
	s := slowSite(t)
	config := strings.Replace(treeConfig, "[delegation]", "[delegation]\nexpire = \"1s\"", 1)
	if err := os.WriteFile(filepath.Join(s.dir, ".jp/config.toml"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	c := serveMCP(s, "--title", "top")
	if _, err := c.ask(t.Context(), "jp_query", map[string]any{"config": "agent/child", "query": "fine"}); err != nil {
		t.Fatal(err)
	}
	goes := func() bool {
		if out, code := s.jp("query", "--new", "other"); code != 0 {
			t.Fatal(out)
		}
		_, stays := s.all()["fine"]
		return !stays
	}
	due := s.all()["fine"].ExpiresAt.Add(time.Second) // the store keeps whole seconds
	s.eventually("the time", func() bool { return time.Now().After(due) })
	if goes() {
		t.Error("gone while the server ran")
	}
	s.signal(syscall.SIGKILL, c.cmd.Process.Pid)
	s.eventually("the removal", goes)
}

// TestKilledBatchEnds: --resume with other lines, or with some of them, leaves a killed batch as it is. Where a person
// has finished its last line, --resume with all lines ends it well.
func TestKilledBatchEnds(t *testing.T) {
	const begun = "\"a\"\n\"slow one\"\n"
	for _, tt := range []struct {
		name  string
		piped bool
		rest  string
		turns int
	}{
		{"file", false, "", 1},
		{"pipe", true, "", 1},
		{"a line that never began", false, "\"never\"\n", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := slowSite(t)
			s.piped, s.stdin = tt.piped, begun+tt.rest
			s.killed("slow one", "batch", "--title", "top", "-c", "agent/child", "--parallel", "1")
			resume := func(lines string, status int, ended convstore.Status, turns int) {
				t.Helper()
				s.stdin = lines
				out, code := s.jp("batch", "-c", "agent/child", "--resume", s.all()["top"].ID.String())
				if code != status || code == 0 && len(rows(t, out)) != strings.Count(lines, "\n") {
					t.Errorf("resumed with %q: %d %s, want %d", lines, code, out, status)
				}
				if got := s.all()["top"]; got.Status != ended || got.Turns != turns {
					t.Errorf("resumed with %q it is %s: %s, with %d turns, want %s and %d", lines, got.Status, got.Reason, got.Turns, ended, turns)
				}
			}
			resume("\"of another batch\"\n", 2, convstore.StatusInterrupted, 1)
			resume("\"a\"\n", 0, convstore.StatusInterrupted, 1)
			s.quick()
			s.stdin = ""
			if out, code := s.jp("query", "--id", s.all()["slow one"].ID.String()); code != 0 {
				t.Fatal(out)
			}
			resume("\"a\"\n", 0, convstore.StatusInterrupted, 1)
			if tt.rest != "" {
				resume(begun, 0, convstore.StatusInterrupted, 1)
			}
			for range 2 {
				resume(begun+tt.rest, 0, "ok", tt.turns)
			}
		})
	}
}
