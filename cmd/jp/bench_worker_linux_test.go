package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// BenchmarkWorkerOwnerKilled kills a jp batch whose 8 sub-agents wait for their models on a node,
// and says when the worker was gone, and when everything there was.
func BenchmarkWorkerOwnerKilled(b *testing.B) {
	const children = 8
	s := newShop(b, "1h")
	node := s.launcher("node", nil, "")
	var worker, all []time.Duration
	for b.Loop() {
		asked := len(s.server.Requests())
		owner := exec.Command(s.jp, "batch", "-q", "-c", "agent/r", "--parallel", strconv.Itoa(children), "--launcher", "node")
		owner.Dir, owner.Env, owner.Stdin = s.dir, s.env, strings.NewReader(strings.Repeat("\"part\"\n", children))
		if err := owner.Start(); err != nil {
			b.Fatal(err)
		}
		for end := time.Now().Add(time.Minute); len(s.server.Requests()) < asked+children; time.Sleep(5 * time.Millisecond) {
			if time.Now().After(end) {
				_ = owner.Process.Kill()
				b.Fatalf("%d of %d sub-agents have asked their models", len(s.server.Requests())-asked, children)
			}
		}
		watched := processesOf(b, node)
		if len(watched) != 1+children || !watched[0].worker {
			b.Fatalf("processes of %s: %+v", node, watched)
		}
		began := time.Now()
		if err := owner.Process.Kill(); err != nil {
			b.Fatal(err)
		}
		for _, p := range watched {
			fds := []unix.PollFd{{Fd: int32(p.fd), Events: unix.POLLIN}}
			for {
				n, err := unix.Poll(fds, int(time.Minute.Milliseconds()))
				if err == unix.EINTR {
					continue
				}
				if err != nil || n == 0 {
					b.Fatalf("%+v still runs: %v", p, err)
				}
				break
			}
			if p.worker {
				worker = append(worker, time.Since(began))
			}
			_ = unix.Close(p.fd)
		}
		all = append(all, time.Since(began))
		_ = owner.Wait() // killed
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(ms(median(worker)), "ms-worker")
	b.ReportMetric(ms(median(all)), "ms-all")
	b.ReportMetric(ms(slices.Max(all)), "ms-all-max")
	b.ReportMetric(1000, "ms-all-goal")
}

// watched is a process that is waited for.
type watched struct {
	fd     int
	pid    int
	worker bool
}

// processesOf returns the processes of a program, jp worker first.
func processesOf(b *testing.B, program string) (list []watched) {
	links, err := filepath.Glob("/proc/[0-9]*/exe")
	if err != nil {
		b.Fatal(err)
	}
	for _, link := range links {
		if exe, _ := os.Readlink(link); exe != program {
			continue
		}
		p := watched{}
		p.pid, _ = strconv.Atoi(filepath.Base(filepath.Dir(link)))
		args, err := os.ReadFile(filepath.Join(filepath.Dir(link), "cmdline"))
		if err == nil {
			p.fd, err = unix.PidfdOpen(p.pid, 0)
		}
		if err != nil {
			b.Fatal(err)
		}
		if p.worker = bytes.HasSuffix(args, []byte("\x00worker\x00")); p.worker {
			list = slices.Insert(list, 0, p)
		} else {
			list = append(list, p)
		}
	}
	return list
}
