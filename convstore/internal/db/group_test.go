package db

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"jp/convstore/internal/file"
	"jp/convstore/internal/page"
)

// line is a store whose writers wait: a writer holds the lock until let go.
type line struct {
	t     *testing.T
	f     Base
	begun int // writes that must be in the queue
	base  int // flushes before them
	wait  sync.WaitGroup
	free  func()
}

func newLine(t *testing.T) *line {
	t.Helper()
	f, err := Open(filepath.Join(t.TempDir(), "store"), Options{Version: 1, Busy: func(err error) error { return err }})
	if err != nil {
		t.Fatal(err)
	}
	l := &line{t: t, f: f}
	if err := f.Write(t.Context(), put("first")); err != nil {
		t.Fatal(err)
	}
	l.base = l.flushes()
	held, free := make(chan struct{}), make(chan struct{})
	l.wait.Go(func() {
		if err := f.Session(context.Background(), true, func(*Handle) error { close(held); <-free; return nil }); err != nil {
			t.Error(err)
		}
	})
	<-held
	l.free = sync.OnceFunc(func() { close(free) })
	t.Cleanup(l.run)
	return l
}

// write begins a write and waits until it is in the queue. The error comes in the channel.
func (l *line) write(ctx context.Context, fn func(*Tx) error) <-chan error {
	l.t.Helper()
	err := make(chan error, 1)
	l.begin(func() { err <- l.f.Write(ctx, fn) })
	return err
}

// begin is write with a function that writes.
func (l *line) begin(write func()) {
	l.wait.Go(write)
	l.begun++
	for have := 0; have != l.begun; runtime.Gosched() {
		l.f.queue.mu.Lock()
		have = len(l.f.queue.waiting)
		l.f.queue.mu.Unlock()
	}
}

// run lets all writes go on and waits for them.
func (l *line) run() {
	l.free()
	l.wait.Wait()
}

// flushes returns how many transactions were committed.
func (l *line) flushes() (n int) {
	l.t.Helper()
	if err := l.f.Session(l.t.Context(), false, func(h *Handle) error {
		return l.f.View(h, func(t *Tx) error { n = t.Bolt.ID(); return nil })
	}); err != nil {
		l.t.Fatal(err)
	}
	return n
}

// keys returns the sessions that are stored.
func (l *line) keys() map[string]bool {
	l.t.Helper()
	keys := map[string]bool{}
	if err := l.f.Session(l.t.Context(), false, func(h *Handle) error {
		return l.f.View(h, func(t *Tx) error {
			return t.Prefixed(Sessions, nil, func(k, _ []byte) error { keys[string(k)] = true; return nil })
		})
	}); err != nil {
		l.t.Fatal(err)
	}
	return keys
}

// locked reports whether somebody holds the lock of the store.
func (l *line) locked() bool {
	other, err := os.Open(l.f.StorePath())
	if err != nil {
		l.t.Error(err)
		return false
	}
	defer other.Close()
	return file.Flock(other, unix.LOCK_EX|unix.LOCK_NB) == unix.EWOULDBLOCK
}

func put(key string) func(*Tx) error {
	return func(t *Tx) error { return t.Put(Sessions, []byte(key), []byte{1}) }
}

// TestGroup: writes that wait together share a transaction and its flush, within the bounds of a
// group.
func TestGroup(t *testing.T) {
	for name, test := range map[string]struct{ writes, size, want int }{
		"one":       {groupMost, 1, 1},
		"functions": {groupMost + 1, 1, 2},
		"bytes":     {4, groupBytes / 2, 2},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLine(t)
			var acknowledged []<-chan error
			for i := range test.writes {
				acknowledged = append(acknowledged, l.write(t.Context(), func(tx *Tx) error {
					return tx.Put(Sessions, fmt.Append(nil, i), make([]byte, test.size))
				}))
			}
			l.run()
			for i, err := range acknowledged {
				if err := <-err; err != nil {
					t.Errorf("write %d: %v", i, err)
				}
			}
			if got := len(l.keys()); got != test.writes+1 {
				t.Errorf("%d keys are stored, want %d", got, test.writes+1)
			}
			if got := l.flushes() - l.base; got != test.want {
				t.Errorf("%d flushes for %d writes, want %d", got, test.writes, test.want)
			}
		})
	}
}

// TestGroupErrors: an error of one function does not touch the others, and what it did beside the
// store is taken back as often as its changes are, before anybody else gets the store.
func TestGroupErrors(t *testing.T) {
	l := newLine(t)
	refused := errors.New("refused")
	const writes = 60
	kinds := []string{"ok", "fails", "ok", "fails with changes", "unchanged", "ok", "unchanged with changes"}
	held := make([]int, writes) // only one function runs at a time
	var got []<-chan error
	for i := range writes {
		kind := kinds[i%len(kinds)]
		got = append(got, l.write(t.Context(), func(tx *Tx) error {
			held[i]++
			tx.Undo(func() {
				if held[i]--; !l.locked() {
					t.Errorf("%d: taken back too late", i)
				}
			})
			if kind == "ok" || strings.HasSuffix(kind, "changes") {
				if err := put(fmt.Sprint(i))(tx); err != nil {
					return err
				}
			}
			switch {
			case strings.HasPrefix(kind, "fails"):
				return refused
			case strings.HasPrefix(kind, "unchanged"):
				return ErrUnchanged
			}
			return nil
		}))
	}
	l.run()
	keys := l.keys()
	for i := range writes {
		kind := kinds[i%len(kinds)]
		var want error
		if strings.HasPrefix(kind, "fails") {
			want = refused
		}
		if err := <-got[i]; err != want {
			t.Errorf("%d, %s: %v, want %v", i, kind, err, want)
		}
		if stored := keys[fmt.Sprint(i)]; stored != (kind == "ok") {
			t.Errorf("%d, %s: stored: %t", i, kind, stored)
		}
		if wants := kind == "ok"; (held[i] == 1) != wants || held[i] != 0 && !wants {
			t.Errorf("%d, %s: held %d times", i, kind, held[i])
		}
	}
}

// TestGroupTruth: a function whose error comes from changes that were not kept runs again.
func TestGroupTruth(t *testing.T) {
	l := newLine(t)
	runs := 0
	fickle := l.write(t.Context(), func(tx *Tx) error {
		if runs++; runs > 1 {
			return ErrUnchanged
		}
		return put("once")(tx)
	})
	misled := l.write(t.Context(), func(tx *Tx) error {
		if tx.Bucket(Sessions).Get([]byte("once")) != nil {
			return errors.Join(put("misled")(tx), errors.New("once is there"))
		}
		return put("right")(tx)
	})
	l.run()
	if err := errors.Join(<-fickle, <-misled); err != nil {
		t.Error(err)
	}
	if keys := l.keys(); keys["once"] || keys["misled"] || !keys["right"] {
		t.Errorf("stored: %v", keys)
	}
}

// TestGroupUncommitted: if a group cannot be committed, each write finds out for itself.
func TestGroupUncommitted(t *testing.T) {
	l := newLine(t)
	before := l.write(t.Context(), put("before"))
	full := l.write(t.Context(), func(tx *Tx) error {
		return errors.Join(put("full")(tx), tx.h.File.Close()) // nothing can be written any more
	})
	after := l.write(t.Context(), put("after"))
	l.run()
	if err := errors.Join(<-before, <-after); err != nil {
		t.Error(err)
	}
	if err := <-full; err == nil || !strings.Contains(err.Error(), "nothing was written") {
		t.Errorf("the write that could not be committed: %v", err)
	}
	if keys := l.keys(); !keys["before"] || keys["full"] || !keys["after"] {
		t.Errorf("stored: %v", keys)
	}
}

// TestGroupPanic: a panic comes out in the goroutine of its caller, and the end of a goroutine in
// the middle of a group stops nobody else.
func TestGroupPanic(t *testing.T) {
	for name, leads := range map[string]bool{"leader": true, "another": false} {
		t.Run(name, func(t *testing.T) {
			l := newLine(t)
			var others []<-chan error
			other := func(key string) { others = append(others, l.write(t.Context(), put(key))) }
			if !leads {
				other("before")
			}
			var recovered any
			undone := 0
			l.begin(func() {
				defer func() { recovered = recover() }()
				_ = l.f.Write(t.Context(), func(tx *Tx) error {
					undone--
					tx.Undo(func() {
						if undone++; !l.locked() {
							t.Error("taken back too late")
						}
					})
					_ = put("panicked")(tx)
					panic("a mistake")
				})
			})
			other("after")
			l.run()
			if recovered != "a mistake" || undone != 0 {
				t.Errorf("recovered %v, %d undone", recovered, undone)
			}
			for _, err := range others {
				if err := <-err; err != nil {
					t.Error(err)
				}
			}
			if keys := l.keys(); keys["panicked"] || !keys["after"] || keys["before"] == leads {
				t.Errorf("stored: %v", keys)
			}
		})
	}
	t.Run("goexit", func(t *testing.T) {
		l := newLine(t)
		l.write(t.Context(), put("leader"))
		l.write(t.Context(), func(*Tx) error { runtime.Goexit(); return nil })
		after := l.write(t.Context(), put("after"))
		l.run()
		if err := <-after; err != nil || !l.keys()["after"] {
			t.Errorf("the write after it: %v", err)
		}
	})
}

// TestGroupPatience: who waits gives up by its own context and its own deadline, whoever leads.
func TestGroupPatience(t *testing.T) {
	l := newLine(t)
	hurried := l.f
	hurried.Deadline = time.Millisecond
	never := func(*Tx) error { t.Error("the function of a write that gave up ran"); return nil }
	gone := errors.New("the caller is gone")

	var busy *file.BusyError
	if err := hurried.Write(t.Context(), never); !errors.As(err, &busy) {
		t.Errorf("a leader that is in a hurry: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	leader := l.write(ctx, never)
	first := l.write(t.Context(), put("first to wait"))
	if err := hurried.Write(t.Context(), never); !errors.As(err, &busy) {
		t.Errorf("one that is in a hurry: %v", err)
	}
	ctx2, cancel2 := context.WithCancelCause(t.Context())
	waiter := l.write(ctx2, never)
	last := l.write(t.Context(), put("last"))
	cancel2(gone)
	if err := <-waiter; !errors.Is(err, gone) {
		t.Errorf("one whose context has ended: %v", err)
	}
	cancel(gone)
	if err := <-leader; !errors.Is(err, gone) {
		t.Errorf("the leader whose context has ended: %v", err)
	}
	l.run()
	if err := errors.Join(<-first, <-last); err != nil {
		t.Error(err)
	}
	if keys := l.keys(); !keys["first to wait"] || !keys["last"] {
		t.Errorf("stored: %v", keys)
	}
}

// TestGroupNotice: each that waits long gives its own notice.
func TestGroupNotice(t *testing.T) {
	l := newLine(t)
	noticed := make(chan string, 3)
	l.f.Remark, l.f.Notice = time.Millisecond, func(text string) { noticed <- text }
	for i := range cap(noticed) {
		l.write(t.Context(), put(fmt.Sprint(i)))
	}
	for range cap(noticed) {
		if text := <-noticed; !strings.HasPrefix(text, "the store is busy: waiting") {
			t.Errorf("notice: %s", text)
		}
	}
}

// TestWriteOnce: such a function shares its transaction with no other and runs once.
func TestWriteOnce(t *testing.T) {
	l := newLine(t)
	before := l.write(t.Context(), put("before"))
	runs := 0
	once := make(chan error, 1)
	l.begin(func() {
		once <- l.f.WriteOnce(t.Context(), func(tx *Tx) error { runs++; return put("once")(tx) })
	})
	failing := l.write(t.Context(), func(tx *Tx) error { return errors.Join(put("failing")(tx), ErrReadOnly) })
	l.run()
	if err := errors.Join(<-before, <-once); err != nil || runs != 1 {
		t.Errorf("ran %d times: %v", runs, err)
	}
	if err := <-failing; !errors.Is(err, ErrReadOnly) {
		t.Errorf("the failing one: %v", err)
	}
	if got := l.flushes() - l.base; got != 2 {
		t.Errorf("%d flushes, want 2", got)
	}
}

// TestCommitFails: only where its meta was not written it is said that nothing was.
func TestCommitFails(t *testing.T) {
	for name, test := range map[string]struct {
		written bool // the meta of the commit that fails
		want    string
	}{
		"before the meta": {false, "nothing was written"},
		"after it":        {true, "it is not certain that this was written"},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLine(t)
			l.run()
			err := l.f.WriteOnce(t.Context(), func(tx *Tx) error {
				if test.written {
					if err := nextMeta(tx.h); err != nil {
						return err
					}
				}
				tx.wrote++
				return tx.Bolt.Rollback() // and so Commit fails
			})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Write = %v, want %q", err, test.want)
			}
		})
	}
}

// nextMeta writes the meta of the next transaction, as a commit does last.
func nextMeta(h *Handle) error {
	size := int64(h.db.Info().PageSize)
	b := make([]byte, pageHeader+metaSize)
	p, err := page.Inspect(h.File)
	if err != nil {
		return err
	}
	if _, err := h.File.ReadAt(b, int64(p.Transaction%2)*size); err != nil {
		return err
	}
	meta, sum := b[pageHeader:], fnv.New64a()
	binary.NativeEndian.PutUint64(b, (p.Transaction+1)%2)
	binary.NativeEndian.PutUint64(meta[48:], p.Transaction+1)
	sum.Write(meta[:metaSize-8])
	binary.NativeEndian.PutUint64(meta[metaSize-8:], sum.Sum64())
	_, err = h.File.WriteAt(b, int64((p.Transaction+1)%2)*size)
	return err
}
