package db

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"go.etcd.io/bbolt"
	bolterrors "go.etcd.io/bbolt/errors"

	"jp/convstore/internal/file"
)

// openBase opens the store in dir as another process would.
func openBase(t *testing.T, dir string) Base {
	t.Helper()
	f, err := Open(dir, Options{Version: 1, Busy: func(err error) error { return err }})
	if err != nil {
		t.Fatal(err)
	}
	f.slot.idle = time.Hour
	return f
}

// lastMark writes a mark and returns those that were there before.
func lastMark(t *testing.T, f *Base, mark string) (before []string) {
	t.Helper()
	if err := f.Write(t.Context(), func(tx *Tx) error {
		before = nil
		if err := tx.Prefixed(Meta, []byte("mark"), func(k, _ []byte) error {
			before = append(before, string(k[len("mark"):]))
			return nil
		}); err != nil {
			return err
		}
		return tx.Put(Meta, []byte("mark"+mark), []byte(mark))
	}); err != nil {
		t.Fatal(err)
	}
	return before
}

// opened returns the database that a session uses.
func opened(t *testing.T, f *Base, write bool) (db *bbolt.DB) {
	t.Helper()
	if err := f.Session(t.Context(), write, func(h *Handle) error { db = h.db; return nil }); err != nil {
		t.Fatal(err)
	}
	return db
}

// TestKept: a session goes on with the open file of the one before, if nobody has changed anything.
func TestKept(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	f := openBase(t, dir)
	lastMark(t, &f, "a")
	kept := opened(t, &f, true)
	if opened(t, &f, true) != kept || opened(t, &f, false) != kept {
		t.Error("opened again, though nobody has written")
	}

	other := openBase(t, dir)
	opened(t, &other, false)
	if opened(t, &f, true) != kept {
		t.Error("opened again, though the other has only read")
	}
	if had := lastMark(t, &other, "b"); len(had) != 1 {
		t.Errorf("the other sees %q", had)
	}
	if had := lastMark(t, &f, "c"); len(had) != 2 {
		t.Errorf("after the other has written: %q", had)
	}
	if had := lastMark(t, &other, "d"); len(had) != 3 {
		t.Errorf("the other sees %q", had)
	}
	kept = opened(t, &f, true)

	// A write that failed in another process can leave the file longer.
	if info, err := os.Stat(f.StorePath()); err != nil || os.Truncate(f.StorePath(), info.Size()+1<<20) != nil {
		t.Fatal("not truncated", err)
	}
	if opened(t, &f, true) == kept {
		t.Error("not opened again, though the file is longer")
	}

	reader := openBase(t, dir)
	read := opened(t, &reader, false)
	if opened(t, &reader, false) != read || opened(t, &reader, true) == read {
		t.Error("a file that was opened to be read is not kept, or is written")
	}

	failed := errors.New("failed")
	kept = opened(t, &f, true)
	if err := f.Session(t.Context(), true, func(*Handle) error { return failed }); err != failed {
		t.Error(err)
	}
	if opened(t, &f, true) == kept {
		t.Error("not opened again after a session that failed")
	}
}

// TestKeptOfAnotherFile: a file in the place of the kept one is opened, and one that is gone is
// missed.
func TestKeptOfAnotherFile(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "store")
	f := openBase(t, dir)
	lastMark(t, &f, "a")
	other := openBase(t, filepath.Join(t.TempDir(), "store"))
	lastMark(t, &other, "x")
	lastMark(t, &other, "y")
	if err := os.Rename(other.StorePath(), f.StorePath()); err != nil {
		t.Fatal(err)
	}
	if had := lastMark(t, &f, "b"); len(had) != 2 {
		t.Errorf("in the other file: %q", had)
	}
	if err := os.Remove(f.StorePath()); err != nil {
		t.Fatal(err)
	}
	if err := f.Write(t.Context(), func(*Tx) error { return nil }); !errors.Is(err, file.ErrGone) {
		t.Errorf("without the file: %v", err)
	}
}

// TestKeptOfOlderCopy: where an older copy was written into the file, the number of the next
// commit, and the pages that it names, can be those of a commit that the copy does not have. The
// free pages are others.
func TestKeptOfOlderCopy(t *testing.T) {
	f := openBase(t, filepath.Join(t.TempDir(), "store"))
	put := func(f *Base, from, to int, value string) {
		t.Helper()
		if err := f.Write(t.Context(), func(tx *Tx) error {
			for i := from; i < to; i++ {
				if err := tx.Put(Meta, fmt.Appendf(nil, "mark%04d", i), fmt.Appendf(nil, "%0100s", value)); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	put(&f, 0, 2000, "a")
	put(&f, 5, 6, "b")
	older, err := os.ReadFile(f.StorePath())
	if err != nil {
		t.Fatal(err)
	}
	put(&f, 0, 1, "c")
	if err := os.Chtimes(f.StorePath(), time.Time{}, time.Unix(1, 0)); err != nil { // so long ago
		t.Fatal(err)
	}
	opened(t, &f, true)
	if err := os.WriteFile(f.StorePath(), older, 0o600); err != nil {
		t.Fatal(err)
	}
	other := openBase(t, f.Dir)
	put(&other, 1990, 1991, "d")
	for i := 1000; i < 1200; i += 20 {
		put(&f, i, i+1, "e")
	}
	if err := f.Session(t.Context(), false, func(h *Handle) error { return f.CheckPages(h.File) }); err != nil {
		t.Error(err)
	}
}

// TestKeptOfNothing: a session that has done its work succeeds, also if the file cannot be read
// afterwards.
func TestKeptOfNothing(t *testing.T) {
	f := openBase(t, filepath.Join(t.TempDir(), "store"))
	lastMark(t, &f, "1")
	if err := f.Session(t.Context(), false, func(*Handle) error { return os.Truncate(f.StorePath(), 0) }); err != nil {
		t.Error(err)
	}
	if f.slot.kept != nil {
		t.Error("the file is kept")
	}
}

// TestKeptIsClosed: the file is closed when it is not used.
func TestKeptIsClosed(t *testing.T) {
	f := openBase(t, filepath.Join(t.TempDir(), "store"))
	f.slot.idle = 1
	for db := opened(t, &f, true); ; runtime.Gosched() {
		tx, err := db.Begin(false)
		if errors.Is(err, bolterrors.ErrDatabaseNotOpen) {
			return
		}
		if err := errors.Join(err, tx.Rollback()); err != nil {
			t.Fatal(err)
		}
	}
}

// TestTurns: of the sessions of a process that would wait for one another at the lock, each gets
// the handle of the one before, in the order in which they came; one that gives up is left out.
// Those that read do not wait for one another.
func TestTurns(t *testing.T) {
	f := openBase(t, filepath.Join(t.TempDir(), "store"))
	kept := opened(t, &f, true)
	queued := func(n int) {
		for have := -1; have != n; runtime.Gosched() {
			f.slot.mu.Lock()
			have = len(f.slot.waiting)
			f.slot.mu.Unlock()
		}
	}
	var order []string
	var all sync.WaitGroup
	session := func(name string, write bool) {
		all.Go(func() {
			if err := f.Session(context.Background(), write, func(h *Handle) error {
				if h.db != kept {
					t.Errorf("%s has opened the file again", name)
				}
				order = append(order, name)
				return nil
			}); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
	}
	if err := f.Session(t.Context(), false, func(*Handle) error {
		if opened(t, &f, false) == kept {
			t.Error("two sessions that read have one handle")
		}
		session("write", true)
		queued(1)
		ctx, cancel := context.WithCancel(t.Context())
		gaveUp := make(chan error)
		go func() { gaveUp <- f.Session(ctx, true, func(*Handle) error { return nil }) }()
		queued(2)
		session("write again", true)
		queued(3)
		cancel()
		if err := <-gaveUp; !errors.Is(err, context.Canceled) {
			t.Errorf("gave up: %v", err)
		}
		queued(2)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	if err := f.Session(t.Context(), true, func(*Handle) error {
		session("read", false)
		queued(1)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	if want := []string{"write", "write again", "read"}; !slices.Equal(order, want) {
		t.Errorf("order %q, want %q", order, want)
	}
}
