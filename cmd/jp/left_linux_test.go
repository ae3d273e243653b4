package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"jp/convstore"
)

// linger makes sub-agents that begin from now on keep their run lock after their turn, until end is
// called.
func (s *site) linger() (end func()) {
	s.t.Helper()
	path := filepath.Join(s.home, "lingers")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		s.t.Fatal(err)
	}
	end = func() { _ = os.Remove(path) }
	s.t.Cleanup(end)
	return end
}

// subAgents lists the conversations of sub-agents.
func (s *site) subAgents() (list []convstore.Conversation) {
	s.t.Helper()
	return slices.DeleteFunc(s.conversations(), func(c convstore.Conversation) bool { return c.Link != convstore.DelegationLink })
}

// leave waits until a sub-agent has stored the end of its turn, and kills what started it.
func (s *site) leave(cmd *exec.Cmd) {
	s.t.Helper()
	s.eventually("the end of a turn", func() bool {
		list := s.subAgents()
		return len(list) == 1 && slices.ContainsFunc(s.events(list[0].ID), func(ev convstore.Event) bool {
			_, ok := ev.Body.(convstore.TurnEnd)
			return ok
		})
	})
	if err := cmd.Process.Kill(); err != nil {
		s.t.Fatal(err)
	}
	_ = cmd.Wait()
}

// waits starts jp and returns when it says that it waits for a sub-agent, or has begun another one,
// with a function that waits for its end.
func (s *site) waits(argv ...string) (cmd *exec.Cmd, end func() (out string, status int)) {
	s.t.Helper()
	path := filepath.Join(s.t.TempDir(), "out")
	file, err := os.Create(path)
	if err != nil {
		s.t.Fatal(err)
	}
	defer file.Close()
	cmd = &exec.Cmd{Path: "/proc/self/exe", Args: append([]string{"jp"}, argv...), Dir: s.dir, Env: s.environ(), Stdout: file, Stderr: file}
	cmd.Stdin = s.input()
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	read := func() string {
		text, err := os.ReadFile(path)
		if err != nil {
			s.t.Fatal(err)
		}
		return string(text)
	}
	had := len(s.subAgents())
	s.eventually("the wait", func() bool { return strings.Contains(read(), "waiting for jp-c") || len(s.subAgents()) > had })
	return cmd, func() (string, int) {
		_ = cmd.Wait()
		return read(), cmd.ProcessState.ExitCode()
	}
}

// TestBatchResumedWhileItsSubAgentEnds: the answer of a sub-agent that has ended its turn and still
// runs is not paid again.
func TestBatchResumedWhileItsSubAgentEnds(t *testing.T) {
	for _, on := range []string{"its own", "a root"} {
		t.Run(on, func(t *testing.T) {
			s := killSite(t)
			batch := []string{"batch", "-c", "agent/child"}
			if on == "a root" {
				if out, code := s.jp("query", "--new", "hello"); code != 0 {
					t.Fatal(out)
				}
				batch = append(batch, "--root-id", s.conversations()[0].ID.String())
			}
			if err := os.WriteFile(filepath.Join(s.dir, "none.jsonl"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			s.stdin = "\"quick one\"\n"
			end := s.linger()
			cmd, _ := s.start(nil, append([]string{"jp"}, batch...)...)
			s.leave(cmd)
			batch = append(batch, "--resume", "none.jsonl")
			_, over := s.waits(batch...)
			if out, code := s.jp(batch...); code != 5 {
				t.Errorf("resumed twice at the same time: %d %s, want 5", code, out)
			}
			end()
			out, code := over()
			if list := rows(t, out); code != 0 || len(list) != 1 || list[0].Status != "ok" || list[0].Text != "quick answer" {
				t.Errorf("resumed: %d %s", code, out)
			}
			if n := len(s.subAgents()); n != 1 {
				t.Errorf("%d sub-agents were paid, want 1\n%s", n, out)
			}
		})
	}
}

// TestTurnResumedWhileItsSubAgentEnds: nor when a model has called it. Ctrl-C ends the wait and
// leaves the turn as it was.
func TestTurnResumedWhileItsSubAgentEnds(t *testing.T) {
	s := killSite(t)
	end := s.linger()
	cmd, _ := s.start(nil, "jp", "query", "--new", "quick")
	s.leave(cmd)
	root := s.all()["quick"].ID.String()
	cmd, over := s.waits("query", "--id", root)
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if out, code := over(); code != 130 {
		t.Errorf("stopped while it waited: %d %s, want 130", code, out)
	}
	_, over = s.waits("query", "--id", root)
	end()
	if out, code := over(); code != 0 || !strings.Contains(out, "after all") {
		t.Errorf("resumed: %d %s", code, out)
	}
	if n := len(s.subAgents()); n != 1 {
		t.Errorf("%d sub-agents were paid, want 1", n)
	}
	id, err := convstore.ParseID(root)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, ev := range s.events(id) {
		if r, ok := ev.Body.(convstore.ToolResult); ok {
			got = append(got, r.Text)
		}
	}
	if len(got) != 1 || !strings.Contains(got[0], `status="ok"`) || !strings.Contains(got[0], "quick answer") {
		t.Errorf("results = %q", got)
	}
}

// TestBatchResumedWhileItsSubAgentWorks: a sub-agent that loses its batch in the middle of its turn
// ends, and only then it goes on.
func TestBatchResumedWhileItsSubAgentWorks(t *testing.T) {
	s := killSite(t)
	if err := os.WriteFile(filepath.Join(s.dir, "none.jsonl"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.stdin = "\"escape\"\n"
	end := s.linger()
	cmd, _ := s.start(nil, "jp", "batch", "-c", "agent/child")
	s.loose()
	if err := os.WriteFile(filepath.Join(s.dir, "escape.sh"), []byte("exit 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	_, over := s.waits("batch", "-c", "agent/child", "--resume", "none.jsonl")
	if n := len(s.subAgents()); n != 1 {
		t.Errorf("%d sub-agents while the first has not ended, want 1", n)
	}
	end()
	out, code := over()
	if list := rows(t, out); code != 0 || len(list) != 1 || list[0].Status != "ok" || list[0].Text != "back again" {
		t.Errorf("resumed: %d %s", code, out)
	}
	if c := s.all()["escape"]; len(s.subAgents()) != 1 || c.Status != "ok" || c.Turns != 2 {
		t.Errorf("%d sub-agents, the last %s after %d turns, want 1, ok and 2", len(s.subAgents()), c.Status, c.Turns)
	}
}

// TestBatchOfARootResumedWhileItRuns: a batch that works on behalf of a conversation is not gone on
// with before it has ended.
func TestBatchOfARootResumedWhileItRuns(t *testing.T) {
	s := killSite(t)
	if out, code := s.jp("query", "--new", "hello"); code != 0 {
		t.Fatal(out)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "none.jsonl"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	batch := []string{"batch", "-q", "-c", "agent/child", "--root-id", s.conversations()[0].ID.String()}
	s.stdin = "\"quick one\"\n\"escape\"\n"
	cmd, _ := s.start(nil, append([]string{"jp"}, batch...)...)
	s.loose()
	batch = append(batch, "--resume", "none.jsonl")
	if out, code := s.jp(batch...); code != 5 || !strings.Contains(out, ": busy: held by process ") {
		t.Errorf("resumed while it runs: %d %s, want 5", code, out)
	}
	if n := len(s.subAgents()); n != 2 {
		t.Errorf("%d sub-agents, want 2", n)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "escape.sh"), []byte("exit 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	for range 2 { // the second finds all of it
		out, code := s.jp(batch...)
		if list := rows(t, out); code != 0 || len(list) != 2 || list[0].Text != "quick answer" || list[1].Text != "back again" {
			t.Errorf("resumed: %d %s", code, out)
		}
		if n := len(s.subAgents()); n != 2 {
			t.Errorf("%d sub-agents, want 2", n)
		}
	}
}

// TestBatchOfARootStoppedWhileItWaits: `jp stop` ends a batch on behalf of a conversation also
// before it has begun a sub-agent there.
func TestBatchOfARootStoppedWhileItWaits(t *testing.T) {
	s := killSite(t)
	if out, code := s.jp("query", "--new", "hello"); code != 0 {
		t.Fatal(out)
	}
	root := s.conversations()[0].ID.String()
	batch := []string{"batch", "-c", "agent/child", "--root-id", root}
	s.stdin = "\"quick one\"\n\"quick two\"\n"
	end := s.linger()
	cmd, _ := s.start(nil, append([]string{"jp", "batch", "--parallel", "1"}, batch[1:]...)...)
	s.leave(cmd)
	_, over := s.waits(append(batch, "--resume", root)...)
	stop, said := s.start(nil, "jp", "stop", root)
	ended := make(chan struct{})
	var out string
	var code int
	go func() {
		defer close(ended)
		out, code = over()
	}()
	select {
	case <-ended:
	case <-time.After(patience):
		t.Error("the batch goes on waiting")
	}
	end()
	<-ended
	if err := stop.Wait(); err != nil {
		t.Errorf("jp stop: %v %s", err, said)
	}
	if n := len(s.subAgents()); code == 0 || !strings.Contains(out, "stopped") || n != 1 {
		t.Errorf("stopped while it waited: %d %s, %d sub-agents, want 1", code, out, n)
	}
}

// TestBatchCountsAPartThatEndsLater: what a sub-agent of another part has used counts, where it ends
// while the batch waits for one of its own.
func TestBatchCountsAPartThatEndsLater(t *testing.T) {
	s := newSite(t, map[string]string{
		".jp/config.toml": treeConfig, ".jp/config/agent/child.toml": childProfile, "main.toml": "[[rule]]\ntext = \"x\"\n",
		"child.toml": "[[rule]]\ntext = \"fine\"\nusage = { input = 40000, output = 0 }\n",
	})
	end := s.linger()
	s.stdin = "\"a\"\n\"b\"\n"
	var parts strings.Builder
	for n, shard := range []string{"1/2", "2/2"} {
		cmd, _ := s.start(nil, "jp", "batch", "-q", "-c", "agent/child", "--shard", shard)
		s.eventually("the end of a turn", func() bool {
			ended := 0
			for _, c := range s.subAgents() {
				for _, ev := range s.events(c.ID) {
					if _, ok := ev.Body.(convstore.TurnEnd); ok {
						ended++
					}
				}
			}
			return ended > n
		})
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
	}
	for _, c := range s.subAgents() {
		fmt.Fprintf(&parts, "{\"conversation_id\":%q,\"status\":\"lost\"}\n", c.ID)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "parts"), []byte(parts.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	s.stdin += "\"c\"\n"
	_, over := s.waits("batch", "-c", "agent/child", "--total-budget", "80000", "--resume", "parts")
	end()
	out, code := over()
	if list := rows(t, out); code != 7 || len(list) != 3 || list[0].Status != "ok" || list[1].Status != "ok" || list[2].Status != "refused" {
		t.Errorf("resumed: %d %s", code, out)
	}
	if n := len(s.subAgents()); n != 2 {
		t.Errorf("%d sub-agents were paid, want 2", n)
	}
}
