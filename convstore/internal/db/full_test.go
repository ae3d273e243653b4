package db

import (
	"context"
	"errors"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"jp/convstore/internal/file"
)

// fullLine is a line on a disk that has no room but for the session "small".
type fullLine struct {
	*line
	patient Base // of a run: it waits for room
	full    atomic.Bool
	tried   chan string // the new sessions of each commit that failed, as long as there is room
	notices chan string
}

func newFullLine(t *testing.T, pause time.Duration) *fullLine {
	t.Helper()
	l := &fullLine{line: newLine(t), tried: make(chan string, 1000), notices: make(chan string, 10)}
	l.full.Store(true)
	l.f.queue.pause = pause
	l.f.queue.commit = func(b *bbolt.Tx) error {
		var keys []string
		_ = b.Bucket([]byte(BucketNames[Sessions])).ForEach(func(k, _ []byte) error {
			if key := string(k); key != "first" && key != "small" {
				keys = append(keys, key)
			}
			return nil
		})
		if !l.full.Load() || len(keys) == 0 {
			return b.Commit()
		}
		_ = b.Rollback()
		select {
		case l.tried <- strings.Join(keys, " "):
		default:
		}
		return &os.PathError{Op: "write", Path: "store", Err: unix.ENOSPC}
	}
	l.patient = l.f
	l.patient.Patient, l.patient.Notice = true, func(text string) { l.notices <- text }
	return l
}

// writes is write for a Base.
func (l *fullLine) writes(f *Base, ctx context.Context, fn func(*Tx) error) <-chan error {
	l.t.Helper()
	err := make(chan error, 1)
	l.begin(func() { err <- f.Write(ctx, fn) })
	return err
}

// late is begin for a write that comes while the first group is committed. It is called before
// l.free.
func (l *fullLine) late(write func()) {
	commit := l.f.queue.commit
	begin := sync.OnceFunc(func() {
		l.begun = 0
		l.begin(write)
	})
	l.f.queue.commit = func(b *bbolt.Tx) error { begin(); return commit(b) }
}

// TestFullDisk: what runs write waits for room on the disk, and is told once. What others write,
// what begins a turn and what was stopped fails.
func TestFullDisk(t *testing.T) {
	l := newFullLine(t, 20*time.Millisecond)
	run, stop := context.WithCancel(t.Context())
	defer stop()
	lasting, end := file.Outlast(run, time.Hour)
	defer end()
	begins, end := file.Beginning(run, false)
	defer end()
	goesOn, end := file.Beginning(t.Context(), true)
	defer end()
	waits := map[string]<-chan error{
		"a": l.writes(&l.patient, t.Context(), put("a")), "b": l.writes(&l.patient, goesOn, put("b")),
	}
	stopped := l.writes(&l.patient, lasting, put("stopped"))
	fails := map[string]<-chan error{
		"begins":    l.writes(&l.patient, begins, put("begins")),
		"endless":   l.writes(&l.patient, context.Background(), put("endless")),
		"impatient": l.writes(&l.f, t.Context(), put("impatient")),
	}
	l.free()
	for name, err := range fails {
		if err := <-err; !errors.Is(err, unix.ENOSPC) {
			t.Errorf("%s: %v, want %v", name, err, unix.ENOSPC)
		}
	}
	stop()
	if err := <-stopped; !errors.Is(err, unix.ENOSPC) {
		t.Errorf("stopped: %v, want %v", err, unix.ENOSPC)
	}
	if text := <-l.notices; text != "the disk is full: waiting for space" {
		t.Errorf("notice %q", text)
	}
	for <-l.tried != "a b" { // those that wait, together
	}
	l.full.Store(false)
	for name, err := range waits {
		if err := <-err; err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	l.run()
	if got := l.keys(); len(got) != 3 || !got["a"] || !got["b"] {
		t.Errorf("stored: %v", got)
	}
	if len(l.notices) > 0 {
		t.Errorf("another notice: %q", <-l.notices)
	}
	if !l.f.queue.full.IsZero() {
		t.Error("the disk still counts as full")
	}
}

// TestFullDiskOthers: no write waits for one that waits for room, not even where nobody reads what
// it says.
func TestFullDiskOthers(t *testing.T) {
	l := newFullLine(t, time.Hour)
	read := make(chan struct{})
	l.patient.Notice = func(text string) { l.notices <- text; <-read }
	run, stop := context.WithCancel(t.Context())
	waits := l.writes(&l.patient, run, put("waits"))
	small := l.writes(&l.patient, t.Context(), put("small"))
	first, second := l.writes(&l.f, t.Context(), put("first")), l.writes(&l.f, t.Context(), put("second"))
	l.free()
	<-l.notices
	if err := errors.Join(<-small, <-first); err != nil {
		t.Error(err)
	}
	if err := <-second; !errors.Is(err, unix.ENOSPC) {
		t.Errorf("one that does not wait: %v", err)
	}
	if err := l.f.Write(t.Context(), put("small")); err != nil {
		t.Errorf("one that came later: %v", err)
	}
	close(read)
	stop()
	if err := <-waits; !errors.Is(err, unix.ENOSPC) {
		t.Errorf("the one that was stopped: %v", err)
	}
}

// TestFullDiskGone: runs that wait for room are tried together, and each learns that the store is
// gone.
func TestFullDiskGone(t *testing.T) {
	l := newFullLine(t, 20*time.Millisecond)
	a := l.writes(&l.patient, t.Context(), put("a"))
	b := make(chan error, 1)
	l.late(func() { b <- l.patient.Write(t.Context(), put("b")) })
	l.free()
	for together := 0; together < 2; {
		if <-l.tried == "a b" {
			together++
		}
	}
	if err := os.Rename(l.f.Dir, l.f.Dir+"-moved"); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]<-chan error{"a": a, "b": b} {
		if err := <-err; err == nil || errors.Is(err, unix.ENOSPC) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := l.f.Write(t.Context(), put("small")); err == nil {
		t.Error("a write after it succeeded")
	}
}

// TestFullDiskStop: a run is stopped on a full disk while somebody has the store. The other goes on.
func TestFullDiskStop(t *testing.T) {
	l := newFullLine(t, time.Millisecond)
	run, stop := context.WithCancel(t.Context())
	a := l.writes(&l.patient, run, put("a"))
	b := make(chan error, 1)
	l.late(func() { b <- l.patient.Write(t.Context(), put("b")) })
	l.free()
	<-l.notices
	reads, done := make(chan struct{}), make(chan struct{})
	l.wait.Go(func() {
		if err := l.f.Session(context.Background(), false, func(*Handle) error { close(reads); <-done; return nil }); err != nil {
			t.Error(err)
		}
	})
	<-reads
	stop()
	l.full.Store(false)
	if err := <-a; !errors.Is(err, unix.ENOSPC) {
		t.Errorf("the one that was stopped: %v", err)
	}
	close(done)
	if err := <-b; err != nil {
		t.Errorf("the other: %v", err)
	}
	if got := l.keys(); got["a"] || !got["b"] {
		t.Errorf("stored: %v", got)
	}
}

// TestFullDiskPanic: a function panics that came while a run learned that the disk is full.
func TestFullDiskPanic(t *testing.T) {
	l := newFullLine(t, time.Millisecond)
	waits := l.writes(&l.patient, t.Context(), put("waits"))
	panicked := make(chan any, 1)
	l.late(func() {
		defer func() { panicked <- recover() }()
		_ = l.f.Write(t.Context(), func(*Tx) error { panic("a mistake") })
	})
	l.free()
	if got := <-panicked; got != "a mistake" {
		t.Errorf("recovered %v", got)
	}
	l.full.Store(false)
	if err := <-waits; err != nil {
		t.Error(err)
	}
}
