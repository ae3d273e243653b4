package worker

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"jp/cmd/jp/internal/subprocess"
	"jp/convstore"
)

// TestStopped stops processes of a node with SIGSTOP while a tool runs there. What goes on ends the
// tool by itself, before the owner takes it for gone.
func TestStopped(t *testing.T) {
	const worker, agent, guard, tool = 0, 1, 2, 3
	for name, stopped := range map[string][]int{
		"worker":                  {worker},
		"worker and agent":        {worker, agent},
		"worker and guard":        {worker, guard},
		"worker, guard and tool":  {worker, guard, tool},
		"worker, agent and tool":  {worker, agent, tool},
		"all of it, for too long": {worker, agent, guard, tool},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := pool(t, "apart", func(o *Options) { o.Launcher.Lease = 2 * time.Second })
			var all [4]int
			ended := -1 // descriptor that shows the end of the tool
			j := newJob(t, "tool")
			out := onText("\n", func() {
				var err error
				if _, err = fmt.Sscan(j.stdout.String(), &all[worker], &all[agent], &all[guard], &all[tool]); err == nil {
					ended, err = unix.PidfdOpen(all[tool], 0)
				}
				if err != nil {
					t.Errorf("%q: %v", &j.stdout, err)
				}
				for _, i := range stopped {
					if err := syscall.Kill(all[i], syscall.SIGSTOP); err != nil {
						t.Error(err)
					}
				}
			})
			j.Stdout = io.MultiWriter(&j.stdout, out)
			exit, err := p.Run(t.Context(), j.Job)
			var end *subprocess.EndError
			if !errors.As(err, &end) || end.State != convstore.StateLost || exit.Cause != nil || end.Hold != 0 {
				t.Errorf("Run = %+v, %v", exit, err)
			}
			if ended < 0 {
				t.Fatalf("the tool has not begun: %q", &j.stdout)
			}
			if len(stopped) == len(all) {
				for _, pid := range all {
					_ = syscall.Kill(pid, syscall.SIGCONT)
				}
				fds := []unix.PollFd{{Fd: int32(ended), Events: unix.POLLIN}}
				for _, err := unix.Poll(fds, -1); err == unix.EINTR; {
					_, err = unix.Poll(fds, -1)
				}
			}
			if err := unix.PidfdSendSignal(ended, 0, nil, 0); err != unix.ESRCH && !over(all[tool]) {
				t.Errorf("the tool goes on: %v", err)
			}
			_ = unix.Close(ended)
			_ = syscall.Kill(all[worker], syscall.SIGCONT)
		})
	}
}

// over reports whether a process has ended, though nobody may have collected it.
func over(pid int) bool {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	return err != nil || strings.Contains(string(b), "\nState:\tZ")
}
