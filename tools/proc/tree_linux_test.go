package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"syscall"
	"testing"
	"time"
)

// TestHostileTools runs tools that try to leave something behind or to get rid of their guard.
func TestHostileTools(t *testing.T) {
	const done = `until [ -e $DONE ]; do sleep 0.01; done; exit 0`
	for _, tt := range []struct {
		name, script string
		lost         bool // the guard dies
		hangs        bool // only the end of the context ends it
	}{
		{name: "leaves everything", script: stayers() + "exit 0"},
		{name: "kills its guard", script: stayers() + "kill -9 $PPID; sleep 1000", lost: true},
		{name: "terminates its guard", script: stayers() + "kill -HUP $PPID; kill -INT $PPID; kill -QUIT $PPID; kill -TERM $PPID; exit 0"},
		{name: "stops its guard and ends", script: stayers() + "kill -STOP $PPID; exit 0", hangs: true},
		{name: "stops its guard and stays", script: stayers() + "kill -STOP $PPID; " + hard(), hangs: true},
		{name: "background kills the guard later", script: "(trap '' HUP; sleep 0.02; kill -9 $PPID; sleep 1000) & sleep 1000", lost: true},
		{name: "stops itself", script: stayers() + "kill -STOP $$", hangs: true},
		// 15 levels, each waiting for the one below.
		{name: "chain", script: `f() { if [ $1 -gt 0 ]; then f $(($1-1)) & wait; else >$DONE; sleep 1000; fi; }; f 15 & ` + done},
		{name: "chain with sessions", script: `export LEFT=12; setsid sh -c "$SELF" & ` + done},
		// 255 processes that are still forking when they are swept.
		{name: "bomb", script: `b() { [ $1 -gt 0 ] && { b $(($1-1)) & b $(($1-1)) & }; sleep 1000; }; b 7 & exit 0`},
		{name: "bomb, guard killed", script: `b() { [ $1 -gt 0 ] && { b $(($1-1)) & b $(($1-1)) & }; sleep 1000; }; b 7 & kill -9 $PPID; sleep 1000`, lost: true},
		{name: "bomb in sessions", script: `b() { [ $1 -gt 0 ] && { b $(($1-1)) & b $(($1-1)) & }; exec setsid sleep 1000; }; b 7 & exit 0`},
		// A process that is never the same one for long: each forks the next and ends.
		{name: "runners", script: `r() { r & }; r & r & r & r & sleep 0.05; exit 0`},
		{name: "runners, guard killed", script: `r() { r & }; r & r & r & r & sleep 0.05; kill -9 $PPID; sleep 1000`, lost: true},
		{name: "runners that wake each other", script: `r() { kill -CONT 0; r & }; r & r & r & r & sleep 0.05; exit 0`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := host(t)
			env, entry := mark(t)
			ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
			defer cancel()
			if tt.hangs {
				cancel()
				ctx, cancel = context.WithTimeout(t.Context(), 300*time.Millisecond)
				defer cancel()
			}
			// SELF is a shell that has a child in a session of its own, and so on.
			spec := sh(append(env, "DONE="+t.TempDir()+"/done", `SELF=sleep 1000 & LEFT=$((LEFT-1))
				if [ $LEFT = 0 ]; then >$DONE; else setsid sh -c "$SELF" & fi; wait`), tt.script)
			spec.Grace = 10 * time.Millisecond
			exit, err := h.Run(ctx, spec)
			if left := marked(t, entry); len(left) > 0 {
				t.Errorf("running when Run returned: %v", left)
			}
			var lost *GuardError
			switch {
			case err != nil:
				t.Errorf("Run() = %+v, %v", exit, err)
			case tt.lost && (!errors.As(exit.Cause, &lost) || !lost.Launched):
				t.Errorf("Run() = %+v, want a *GuardError", exit)
			case tt.hangs && exit.Cause != context.DeadlineExceeded:
				t.Errorf("Run() = %+v, want cause %v", exit, context.DeadlineExceeded)
			case !tt.lost && !tt.hangs && (exit.Code != 0 || exit.Cause != nil):
				t.Errorf("Run() = %+v, want success", exit)
			}
		})
	}
}

// TestAgentLeaves has an agent killed whose tools are in full swing.
func TestAgentLeaves(t *testing.T) {
	h := host(t)
	env, entry := mark(t)
	var agent int
	spec := Spec{Kind: Agent, Args: []string{"jp", "as-tree", "1", hard()}, Env: env}
	pid := make(chan int, 1)
	spec.Started = func(p int) { pid <- p }
	spec.Stdout = onText("ready\n", func() {
		agent = <-pid
		kill(agent, syscall.SIGKILL)
	})
	exit, err := h.Run(t.Context(), spec)
	if left := marked(t, entry); len(left) > 0 {
		t.Errorf("running when Run returned: %v", left)
	}
	if err != nil || exit.Signal != syscall.SIGKILL || exit.Cause != nil {
		t.Errorf("Run() = %+v, %v, want signal %v", exit, err, syscall.SIGKILL)
	}
}

// TestNeighbours sweeps for one run while others go on undisturbed, of this Host and another.
func TestNeighbours(t *testing.T) {
	h, other := host(t), host(t)
	env, entry := mark(t)
	results := make(chan error)
	n := 0
	start := func(h *Host, spec Spec, code int) {
		n++
		go func() {
			exit, err := h.Run(t.Context(), spec)
			if err == nil && exit.Code != code {
				err = fmt.Errorf("%v: %+v, want code %d", spec.Args, exit, code)
			}
			results <- err
		}()
	}
	for range 6 {
		start(h, sh(env, "sleep 0.2; exit 3"), 3)
		start(other, sh(env, "sleep 0.2; exit 3"), 3)
		start(h, Spec{Kind: Agent, Args: []string{"jp", "as-tree", "0", "sleep 0.2; exit 3"}, Env: env}, 3)
		start(h, sh(env, "sleep 1000 & kill -9 $PPID"), -1)
		start(other, sh(env, "setsid sleep 1000 & kill -9 $PPID"), -1)
	}
	for range n {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if left := marked(t, entry); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestCloseSweeps has Close end what came to this process without a run.
func TestCloseSweeps(t *testing.T) {
	h := NewHost(Options{})
	env, entry := mark(t)
	if _, err := h.Run(t.Context(), sh(env, "exit 0")); err != nil {
		t.Fatal(err)
	}
	cmd := &exec.Cmd{Path: "/bin/sh", Args: []string{"sh", "-c", "setsid sleep 1000 & exit 0"}, Env: env}
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	wait(t, "the orphan", func() bool { return len(marked(t, entry)) == 1 })
	if err := h.Close(); err != nil {
		t.Errorf("Close() = %v", err)
	}
	if left := marked(t, entry); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestOrphansCollected has a tool make orphans that end by themselves: its guard collects them.
func TestOrphansCollected(t *testing.T) {
	h := host(t)
	env, entry := mark(t)
	spec := sh(env, "i=0; while [ $i -lt 20 ]; do (sh -c : & ); i=$((i+1)); done; echo ready; exec sleep 1000")
	ready := make(chan struct{})
	pid := make(chan int, 1)
	spec.Started = func(p int) { pid <- p }
	spec.Stdout = onText("ready\n", func() { close(ready) })
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = h.Run(ctx, spec)
	}()
	<-ready
	tool := <-pid
	_, guard, _ := look(tool)
	wait(t, "the guard to have one child", func() bool {
		kids, err := new(view).children(guard)
		return err == nil && len(kids) == 1 && kids[0] == tool
	})
	cancel()
	<-ended
	waitGone(t, nil, entry)
}

// TestViews compares the kernel's lists of children with a scan of all processes.
func TestViews(t *testing.T) {
	h := host(t)
	env, _ := mark(t)
	spec := sh(env, "(sleep 1000 & sleep 1000 & sleep 1000) & sleep 1000 & (setsid sleep 1000 &) ; echo ready; exec sleep 1000")
	ready := make(chan struct{})
	spec.Stdout = onText("ready\n", func() { close(ready) })
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = h.Run(ctx, spec)
	}()
	defer func() {
		cancel()
		<-ended
	}()
	<-ready
	var list func(v *view, pid int) []int
	list = func(v *view, pid int) (pids []int) {
		kids, err := v.children(pid)
		if err != nil {
			t.Error(err)
		}
		for _, k := range kids {
			pids = append(append(pids, k), list(v, k)...)
		}
		slices.Sort(pids)
		return pids
	}
	wait(t, "both views to show the same 7", func() bool { // guard, tool, 5 sleeps
		a, b := list(&view{}, os.Getpid()), list(&view{scan: true}, os.Getpid())
		return len(a) == 7 && slices.Equal(a, b)
	})
}

// TestEnd has one call end a tree to its leaves, without the help of orphans coming up.
func TestEnd(t *testing.T) {
	env, entry := mark(t)
	cmd := &exec.Cmd{Path: "/bin/sh", Args: []string{"sh", "-c", "(setsid sh -c 'sleep 1000 & wait' & wait) & wait"}, Env: env}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var tree []process
	wait(t, "the leaf", func() bool {
		tree = below(t, cmd.Process.Pid)
		return slices.ContainsFunc(tree, func(p process) bool { return p.name == "sleep" })
	})
	if denied := end([]int{cmd.Process.Pid}); len(denied) > 0 || len(tree) < 4 {
		t.Errorf("end(%v) refused for %v", tree, denied)
	}
	waitGone(t, tree, entry)
	_ = cmd.Wait() // it was killed
	if denied := end([]int{cmd.Process.Pid}); len(denied) > 0 {
		t.Errorf("end() of what is gone refused for %v", denied)
	}
}

func TestNoSuchProcess(t *testing.T) {
	var v view
	if kids, err := v.children(1 << 29); err != nil || len(kids) != 0 {
		t.Errorf("children of nobody = %v, %v, want none", kids, err)
	}
	if p := v.parent(1 << 29); p != 0 {
		t.Errorf("parent of nobody = %d, want 0", p)
	}
	if p := v.parent(os.Getpid()); p != os.Getppid() {
		t.Errorf("parent of self = %d, want %d", p, os.Getppid())
	}
	if err := v.signal(member{1 << 29, 1}, syscall.SIGCONT); err != syscall.ESRCH {
		t.Errorf("signal to nobody = %v, want %v", err, syscall.ESRCH)
	}
	// The right number with the wrong parent is another process.
	if err := v.signal(member{os.Getpid(), 1 << 29}, syscall.SIGKILL); err != syscall.ESRCH {
		t.Errorf("signal to a stranger = %v, want %v", err, syscall.ESRCH)
	}
}
