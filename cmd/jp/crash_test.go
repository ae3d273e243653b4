package main

import (
	"bufio"
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"jp/cmd/jp/internal/cli"
	"jp/cmd/jp/internal/wire"
	"jp/tools/proc"
)

// fallen is a jp that Go's runtime ends, as where it gets no thread or no memory.
func fallen() {
	run()
	panic("after " + os.Args[1])
}

// crash is jp that kills itself at the point of a delegation which $JP_CRASH_AT names ("settled 3" is
// the third delegation that comes to that point), and hangs at the point which $JP_HANG_AT names,
// after it has made the file hung in TMPDIR, until that file is gone. There it has half a second to
// end when its time is up, and makes the file heard once a signal has reached it. Until then a
// second signal could come as one with the first, or before it.
func crash() {
	temp := os.Getenv("TMPDIR")
	if os.Getenv("JP_HANG_AT") != "" {
		heard := make(chan os.Signal, 1)
		signal.Notify(heard, syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT)
		go func() {
			<-heard
			_ = os.WriteFile(filepath.Join(temp, "heard"), nil, 0o600)
		}()
	}
	at, nth, _ := strings.Cut(os.Getenv("JP_CRASH_AT"), " ")
	n, _ := strconv.ParseInt(nth, 10, 64) // 0 = the first time
	var times atomic.Int64
	os.Exit(checked(func(point string) {
		if point == at && times.Add(1) >= n {
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
		if point == os.Getenv("JP_HANG_AT") {
			hung := filepath.Join(temp, "hung")
			_ = os.WriteFile(hung, nil, 0o600)
			for {
				if _, err := os.Lstat(hung); err != nil {
					return
				}
				time.Sleep(10 * time.Millisecond)
			}
		}
	}))
}

// checked is run with a function for checkpoints.
func checked(checkpoint func(point string)) int {
	proc.Conceal()
	dir, err := os.Getwd()
	if err != nil {
		os.Exit(1)
	}
	return cli.Main(context.Background(), cli.Env{
		Args: os.Args, Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Environ: os.Environ(), Dir: dir,
		Exit: os.Exit, EndWithin: time.Second / 2, Checkpoint: checkpoint,
	})
}

// killAt returns a checkpoint that kills this process at a frame of a wire, and true, where the
// file plan says so: "root 7" is the seventh frame of the jp that a person started, "leaf 7" that
// of a sub-agent that is new under the profile leaf, "jp-c5 7" that of the one that runs jp-c5. The
// file is gone when the process is killed.
func killAt(plan string) (checkpoint func(string), ok bool) {
	text, err := os.ReadFile(plan)
	who, number, _ := strings.Cut(string(text), " ")
	n, _ := strconv.Atoi(number)
	args := strings.Join(os.Args, " ")
	meant := who == "root" || strings.Contains(args, "agent/"+who) || slices.Contains(os.Args, "--id="+who)
	if err != nil || who == "root" == strings.Contains(args, "--root-id=") || !meant {
		return nil, false
	}
	var frames atomic.Int64
	return func(point string) {
		if (point == wire.Sent || point == wire.Received) && int(frames.Add(1)) == n {
			_ = os.Remove(plan)
			_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
			select {}
		}
	}, true
}

// jp is the program itself. As a sub-agent in whose TMPDIR a file "deaf" stands, it does nothing
// and hears no signal. One in whose TMPDIR a file "lingers" stands when it begins keeps its run
// lock after its turn, until that file is gone.
func jp() {
	child := slices.ContainsFunc(os.Args, func(arg string) bool { return strings.HasPrefix(arg, "--root-id=") })
	if _, err := os.Lstat(filepath.Join(os.Getenv("TMPDIR"), "deaf")); child && err == nil {
		signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
		for {
			time.Sleep(time.Hour)
		}
	}
	if kill, ok := killAt(filepath.Join(os.Getenv("TMPDIR"), "kill")); ok {
		os.Exit(checked(kill))
	}
	if _, err := os.Lstat(filepath.Join(os.Getenv("TMPDIR"), "nostore")); child && err == nil {
		_ = os.Setenv("JP_STORE", filepath.Join(os.Getenv("TMPDIR"), "none"))
	}
	if says, err := os.ReadFile(filepath.Join(os.Getenv("TMPDIR"), "hostile")); err == nil && strings.Contains(strings.Join(os.Args, " "), "agent/hostile") {
		os.Exit(hostile(says))
	}
	linger := func() {}
	if _, err := os.Lstat(filepath.Join(os.Getenv("TMPDIR"), "lingers")); child && err == nil {
		linger = lingers()
	}
	status := run()
	linger()
	os.Exit(status)
}

// hostile is a sub-agent that says these lines, each as soon as the one before it is answered, and
// writes the answers into the file "answers". Its exit status says that all is well.
func hostile(says []byte) int {
	for item := range strings.SplitSeq(os.Getenv("JP_PROC"), ",") {
		number, ok := strings.CutPrefix(item, "wire=")
		if !ok {
			continue
		}
		fd, _ := strconv.Atoi(number)
		owner := os.NewFile(uintptr(fd), "wire")
		in := bufio.NewReader(owner)
		answers, _ := in.ReadString('\n') // the start
		for line := range strings.Lines(string(says)) {
			if _, err := owner.WriteString(line); err != nil {
				break
			}
			answer, err := in.ReadString('\n')
			for err == nil && !strings.HasPrefix(answer, `{"answer"`) {
				answer, err = in.ReadString('\n')
			}
			if answers += answer; err != nil {
				break
			}
		}
		_ = os.WriteFile(filepath.Join(os.Getenv("TMPDIR"), "answers"), []byte(answers), 0o600)
	}
	return 0
}

// lingers keeps what locks the run of this process and returns a function that waits until the file
// "lingers" is gone, as a run whose tools do not end. When the parent is gone the run stops as at
// SIGTERM, but the process does not end by itself.
func lingers() func() {
	for item := range strings.SplitSeq(os.Getenv("JP_PROC"), ",") {
		number, ok := strings.CutPrefix(item, "death=")
		if !ok {
			continue
		}
		death, _ := strconv.Atoi(number)
		was, err := unix.FcntlInt(uintptr(death), unix.F_DUPFD_CLOEXEC, 100)
		if err != nil {
			os.Exit(1)
		}
		var pipe [2]int
		_ = syscall.Pipe(pipe[:])
		_ = syscall.Close(death)
		if got, err := unix.FcntlInt(uintptr(pipe[0]), unix.F_DUPFD, death); err != nil || got != death {
			os.Exit(1)
		}
		signal.Notify(make(chan os.Signal, 1), syscall.SIGTERM) // or it would end a run that has ended
		go func() {
			_, _ = syscall.Read(was, make([]byte, 1))
			_ = syscall.Kill(os.Getpid(), syscall.SIGTERM)
		}()
	}
	fds, _ := filepath.Glob("/proc/self/fd/*")
	for _, link := range fds {
		if to, _ := os.Readlink(link); filepath.Base(to) == "runs" {
			fd, _ := strconv.Atoi(filepath.Base(link))
			if _, err := syscall.Dup(fd); err != nil {
				os.Exit(1)
			}
		}
	}
	return func() {
		for {
			if _, err := os.Lstat(filepath.Join(os.Getenv("TMPDIR"), "lingers")); err != nil {
				return
			}
			time.Sleep(2 * time.Millisecond)
		}
	}
}
