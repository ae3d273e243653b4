package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestHungRunEnds: whatever hangs in jp itself, a second signal and --timeout end it with their status, and nothing is left
// running. The next run settles what it left, and goes on.
func TestHungRunEnds(t *testing.T) {
	for _, tt := range []struct {
		point   string
		signals []syscall.Signal
		args    []string
		busy    bool // so is the store
		exit    int
		says    string
	}{
		{"reserved", []syscall.Signal{syscall.SIGINT, syscall.SIGINT}, nil, false, 130, "ended by SIGINT"},
		{"running", []syscall.Signal{syscall.SIGTERM, syscall.SIGINT}, nil, true, 143, "ended by SIGTERM"},
		{"ended", []syscall.Signal{syscall.SIGHUP, syscall.SIGHUP}, nil, false, 129, "ended by SIGHUP"},
		{"ended", []syscall.Signal{syscall.SIGQUIT, syscall.SIGQUIT}, nil, false, 131, "ended by SIGQUIT"},
		{"settled", nil, []string{"--timeout", "2s"}, true, 124, "--timeout: the time is up"},
	} {
		t.Run(tt.point, func(t *testing.T) {
			t.Parallel()
			s := killSite(t)
			cmd, out := s.start([]string{"JP_HANG_AT=" + tt.point}, append([]string{"jp-crash", "query", "--new", "quick"}, tt.args...)...)
			made := func(name string) func() bool {
				return func() bool {
					_, err := os.Lstat(filepath.Join(s.home, name))
					return err == nil
				}
			}
			s.eventually("the hanging run", made("hung"))
			free := func() {}
			if tt.busy {
				free = s.lock()
			}
			for i, sig := range tt.signals {
				if err := cmd.Process.Signal(sig); err != nil {
					t.Fatal(err)
				}
				if i == 0 {
					s.eventually("the first signal", made("heard"))
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
