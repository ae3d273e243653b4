package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestHungRunEnds: whatever hangs in jp itself, a second signal and --timeout end it with their
// status, and nothing is left running. The next run settles what it left, and goes on.
func TestHungRunEnds(t *testing.T) {
	for _, tt := range []struct {
		point   string
		signals []syscall.Signal
		args    []string
		busy    bool // so is the store
		exit    int
		says    string
	}{
		{"reserved", []syscall.Signal{syscall.SIGINT, syscall.SIGHUP}, nil, false, 130, "ended by SIGINT"},
		{"running", []syscall.Signal{syscall.SIGTERM, syscall.SIGINT}, nil, true, 143, "ended by SIGTERM"},
		{"ended", []syscall.Signal{syscall.SIGHUP, syscall.SIGINT}, nil, false, 129, "ended by SIGHUP"},
		{"ended", []syscall.Signal{syscall.SIGQUIT, syscall.SIGQUIT}, nil, false, 131, "ended by SIGQUIT"},
		{"settled", nil, []string{"--timeout", "2s"}, true, 124, "--timeout: the time is up"},
	} {
		t.Run(tt.point, func(t *testing.T) {
			t.Parallel()
			s := killSite(t)
			cmd, out := s.start([]string{"JP_HANG_AT=" + tt.point}, append([]string{"jp-crash", "query", "--new", "quick"}, tt.args...)...)
			s.eventually("the hanging run", s.made("hung"))
			free := func() {}
			if tt.busy {
				free = s.lock()
			}
			for i, sig := range tt.signals {
				if err := cmd.Process.Signal(sig); err != nil {
					t.Fatal(err)
				}
				if i == 0 {
					s.eventually("the first signal", s.made("heard"))
				}
			}
			_ = cmd.Wait()
			free()
			if got := cmd.ProcessState.ExitCode(); got != tt.exit {
				t.Errorf("exit = %d, want %d\n%s", got, tt.exit, out)
			}
			if want := fmt.Sprintf("jp: %s, by force: something did not end\n", tt.says); !strings.HasSuffix(out.String(), want) {
				t.Errorf("stderr = %s, want %s at its end", out, want)
			}
			s.gone()
			root := s.all()["quick"]
			if out, code := s.jp("query", "--id", root.ID.String(), "--no-activate"); code != 0 {
				t.Errorf("going on = %d %s", code, out)
			}
			s.gone()
		})
	}
}

// TestStoppedBeforeItsProcess: a sub-agent that has a slot, and whose run is stopped before there
// is a process of it, was cancelled. It has not failed.
func TestStoppedBeforeItsProcess(t *testing.T) {
	s := killSite(t)
	path := filepath.Join(s.home, "lines")
	lines, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	cmd := &exec.Cmd{
		Path: "/proc/self/exe", Args: []string{"jp-crash", "query", "--new", "-F", "stream-json", "quick"}, Dir: s.dir,
		Env: append(s.environ(), "JP_HANG_AT=reserved"), Stdout: lines,
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines.Close()
	s.eventually("the hanging run", s.made("hung"))
	free := s.lock() // the wire needs the store
	if err := os.Remove(filepath.Join(s.home, "hung")); err != nil {
		t.Fatal(err)
	}
	s.eventually("a slot", func() bool {
		text, err := os.ReadFile(path)
		return err == nil && strings.Contains(string(text), `"phase":"started"`)
	})
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	s.eventually("the signal", s.made("heard"))
	free()
	_ = cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != 130 {
		t.Errorf("exit = %d, want 130", got)
	}
	all := s.all()
	if d := s.delegations(all["quick"].ID)[all["quick one"].ID.String()]; d.State != "cancelled" {
		t.Errorf("record = %s, want cancelled", dump(d))
	}
	if got := all["quick one"].Status; got != "cancelled" {
		t.Errorf("status = %s, want cancelled", got)
	}
}

// made returns whether a file of that name is in TMPDIR.
func (s *site) made(name string) func() bool {
	return func() bool {
		_, err := os.Lstat(filepath.Join(s.home, name))
		return err == nil
	}
}

// lock keeps everyone out of the store until free is called.
func (s *site) lock() (free func()) {
	s.t.Helper()
	path, code := s.jp("store", "path")
	if code != 0 {
		s.t.Fatal(path)
	}
	file, err := os.Open(strings.TrimSpace(path))
	if err != nil {
		s.t.Fatal(err)
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); err != nil {
		s.t.Fatal(err)
	}
	return func() { _ = file.Close() }
}
