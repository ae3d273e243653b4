package term

import (
	"context"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"jp/tools/files"
)

// Person is who sits at a terminal, while nobody else asks there: see [TTY.Alone].
type Person struct{ tty *TTY }

// turnTick is how often a process looks whether the question of another one is over.
const turnTick = 50 * time.Millisecond

// Alone calls f when neither this process nor another one of its process group asks at the terminal.
// While one does, no other shows a question: what is typed goes to any process that reads, and so a
// person would answer a question that is not the one on the screen. All that one question takes
// belongs in one call. f must not call Alone.
//
// A process of another group has its own turn: that group is not in the foreground, and may be
// suspended at a question. The error is ErrNobody where ours is no more, the cause of ctx when it
// ends, else that of f.
func (t *TTY) Alone(ctx context.Context, f func(*Person) error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	free, err := t.turn(ctx)
	if err != nil {
		return err
	}
	defer free()
	return f(&Person{t})
}

// turn waits for the lock of our process group. Where there can be no such lock, nobody waits.
func (t *TTY) turn(ctx context.Context) (free func(), err error) {
	for {
		free, taken := lockTurn(t.turns, unix.F_WRLCK)
		if !taken {
			return free, nil
		}
		select {
		case <-time.After(turnTick):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		if !t.Foreground() {
			return nil, ErrNobody
		}
	}
}

// unasked calls draw, which moves the cursor, unless a process of our group asks at the terminal, or
// our group is in its background, where another one may ask: it would write over the question. None
// begins to ask meanwhile. It reports whether it called draw.
func (s *IO) unasked(draw func()) bool {
	if behindOthers(s.errFile) || behindOthers(s.outFile) {
		return false
	}
	free, taken := lockTurn(s.turns, unix.F_RDLCK)
	if taken {
		return false
	}
	defer free()
	draw()
	return true
}

// behindOthers reports whether f is our terminal and another process group, which we can see, is in
// its foreground.
func behindOthers(f *os.File) bool {
	if f == nil {
		return false
	}
	group, err := unix.IoctlGetInt(int(f.Fd()), unix.TIOCGPGRP)
	return err == nil && group != 0 && group != unix.Getpgrp()
}

// lockTurn takes the lock of our process group in a file: alone to ask, with others to draw. taken
// says that another one has it. Where there can be no such lock, everyone gets it.
func lockTurn(path string, kind int16) (free func(), taken bool) {
	if path == "" || os.MkdirAll(filepath.Dir(path), 0o700) != nil {
		return func() {}, false
	}
	file, _, err := files.OpenRegular(files.Disk{}, path, os.O_RDWR|os.O_CREATE, files.NoLink)
	if err != nil {
		return func() {}, false
	}
	lock := &unix.Flock_t{Type: kind, Whence: unix.SEEK_SET, Start: group(), Len: 1}
	for err = unix.EINTR; err == unix.EINTR; {
		err = unix.FcntlFlock(file.Fd(), setLock, lock)
	}
	if err == unix.EAGAIN || err == unix.EACCES {
		_ = file.Close()
		return nil, true
	}
	return func() { _ = file.Close() }, false
}

// group is a number of our process group that no group of another container has.
func group() int64 {
	space := uint64(0)
	if info, err := os.Stat("/proc/self/ns/pid"); err == nil {
		if s, ok := info.Sys().(*syscall.Stat_t); ok {
			space = uint64(s.Ino) & 0x7fffffff
		}
	}
	return int64(space<<32 | uint64(uint32(unix.Getpgrp())))
}
