package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// tapes lists what runs that record or replay have in the state folder.
func (s *site) tapes() []string {
	s.t.Helper()
	list, err := filepath.Glob(filepath.Join(s.home, "state", "jp", "tapes", "*"))
	if err != nil {
		s.t.Fatal(err)
	}
	return list
}

// files lists the names in the workspace that begin so, hidden ones too.
func (s *site) files(prefixes ...string) (list []string) {
	s.t.Helper()
	for _, prefix := range prefixes {
		found, err := filepath.Glob(filepath.Join(s.dir, prefix+"*"))
		if err != nil {
			s.t.Fatal(err)
		}
		list = append(list, found...)
	}
	return list
}

// TestRecordKilled: a recording that others make meanwhile takes nothing of one that runs, however
// old its folder looks. A run that was killed leaves no recording, whole or half, and nothing for
// the next one.
func TestRecordKilled(t *testing.T) {
	s := killSite(t)
	cmd, _ := s.start(nil, "jp", "query", "--new", "--record", "rec.toml", "child")
	s.loose()
	at := s.tapes()
	if len(at) != 1 {
		t.Fatalf("tapes = %q, want one", at)
	}
	old := time.Now().Add(-80 * 24 * time.Hour)
	if err := os.Chtimes(at[0], old, old); err != nil {
		t.Fatal(err)
	}
	if out, code := s.jp("query", "--new", "--record", "beside.toml", "plain"); code != 0 || !strings.Contains(out, "jp: recorded 1 reply of 1 run in beside.toml\n") {
		t.Errorf("beside it: %d %s", code, out)
	}
	if got := s.tapes(); !slices.Equal(got, at) {
		t.Errorf("tapes = %q, want %q: it is at work", got, at)
	}
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	s.gone()
	if got := s.files("rec.toml", ".rec.toml"); len(got) > 0 {
		t.Errorf("there is %q", got)
	}
	if out, code := s.jp("query", "--new", "--record", "rec.toml", "plain"); code != 0 {
		t.Errorf("the next one: %d %s", code, out)
	}
	if got := s.tapes(); len(got) > 0 {
		t.Errorf("tapes = %q, want none", got)
	}
	if out, code := s.jp("query", "--new", "--replay", "rec.toml", "plain"); code != 0 {
		t.Errorf("replay: %d %s", code, out)
	}
}

// TestRecordStopped: a run that was stopped leaves what was said by then, and the recording says
// so.
func TestRecordStopped(t *testing.T) {
	s := killSite(t)
	cmd, out := s.start(nil, "jp", "query", "--new", "--record", "rec.toml", "child")
	s.loose()
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	s.gone()
	if code := cmd.ProcessState.ExitCode(); code != 130 || !strings.Contains(out.String(), "jp: recorded 2 replies of 2 runs in rec.toml, up to where it was stopped\n") {
		t.Errorf("stopped: %d %s", code, out)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "escape.sh"), []byte("echo done\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const want = "jp: rec.toml: this run is not as recorded: sub-agent 1.1 (profile agent/child), round 2: there is no rule for it, " +
		"the last one is for round 1; when it was recorded, the run was stopped: ended by SIGINT\n"
	if out, code := s.jp("query", "--new", "--replay", "rec.toml", "child"); code != 1 || !strings.Contains(out, want) {
		t.Errorf("replay: %d %s, want 1 %s", code, out, want)
	}
	if got := s.tapes(); len(got) > 0 {
		t.Errorf("tapes = %q, want none", got)
	}
}
