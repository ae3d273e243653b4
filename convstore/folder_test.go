package convstore

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"jp/convstore/internal/file"
)

// TestWriterIsNotStarved keeps a reader in the store while a writer waits. A reader that comes
// later has to wait behind the writer.
func TestWriterIsNotStarved(t *testing.T) {
	dir := filepath.Join(memoryDir(t), "store")
	s := openStoreIn(t, dir, Options{})
	c := mustCreate(t, s, New{})
	reader, err := file.OpenOwn(s.Path(), os.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Flock(reader, unix.LOCK_SH|unix.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	// Beside a reader there is room for another one, but not for a writer.
	if _, err := s.Get(t.Context(), c.ID); err != nil {
		t.Fatal(err)
	}
	wrote := make(chan error)
	go func() {
		_, err := s.Create(t.Context(), New{})
		wrote <- err
	}()
	awaitGate(t, s)
	late, err := Open(dir, Options{Deadline: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	_, err = late.Get(t.Context(), c.ID)
	if _, ok := errors.AsType[*BusyError](err); !ok {
		t.Errorf("a late reader went past the writer: %v", err)
	}
	if err := errors.Join(file.Flock(reader, unix.LOCK_UN), reader.Close()); err != nil {
		t.Fatal(err)
	}
	if err := <-wrote; err != nil {
		t.Error(err)
	}
}

// awaitGate returns when somebody stands in the gate, and so waits for the lock of the file, which
// the test holds.
func awaitGate(t *testing.T, s *Store) {
	t.Helper()
	gate, err := file.OpenOwn(s.f.Path(file.GateName), os.O_RDONLY)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = gate.Close() }()
	for file.Flock(gate, unix.LOCK_EX|unix.LOCK_NB) == nil {
		if err := file.Flock(gate, unix.LOCK_UN); err != nil {
			t.Fatal(err)
		}
		runtime.Gosched()
	}
}

// TestReplacedFile puts another store in the place of one that somebody waits for. Whoever waited
// gets the one that is there then.
func TestReplacedFile(t *testing.T) {
	s, other := openStore(t), openStore(t)
	mustCreate(t, s, New{Title: "old"})
	mustCreate(t, other, New{Title: "new"})
	old, err := file.OpenOwn(s.Path(), os.O_RDWR)
	if err != nil {
		t.Fatal(err)
	}
	if err := file.Flock(old, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	read := make(chan []Conversation)
	go func() {
		list, err := s.List(t.Context(), Filter{})
		if err != nil {
			t.Error(err)
		}
		read <- list
	}()
	awaitGate(t, s)
	copied := s.Path() + ".copy"
	if err := errors.Join(os.WriteFile(copied, mustRead(t, other.Path()), 0o600), os.Rename(copied, s.Path()), file.Flock(old, unix.LOCK_UN), old.Close()); err != nil {
		t.Fatal(err)
	}
	if list := <-read; len(list) != 1 || list[0].Title != "new" {
		t.Errorf("List = %+v, want what is there now", list)
	}
}

// TestUnfinishedStore finds what a process left that died while it made a store.
func TestUnfinishedStore(t *testing.T) {
	dir := filepath.Join(memoryDir(t), "store")
	if err := errors.Join(os.Mkdir(dir, 0o700), os.WriteFile(filepath.Join(dir, file.UnfinishedName), []byte("half a store"), 0o600)); err != nil {
		t.Fatal(err)
	}
	s := openStoreIn(t, dir, Options{})
	if list := mustList(t, s.View, Filter{}); len(list) != 0 {
		t.Errorf("List = %v, want none", list)
	}
	mustCreate(t, s, New{})
	if _, err := os.Stat(filepath.Join(dir, file.UnfinishedName)); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("it is still there: %v", err)
	}
}

// TestModes makes sure that nobody else may read what is kept.
func TestModes(t *testing.T) {
	old := unix.Umask(0)
	defer unix.Umask(old)
	s := openStore(t)
	mustLock(t, s, mustCreate(t, s, New{}).ID)
	dir := filepath.Dir(s.Path())
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the folder has mode %v, %v", info.Mode(), err)
	}
	for _, path := range filesIn(t, dir) {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v, %v", path, info.Mode(), err)
		}
	}
}

// TestRunLocks takes locks here and there, alone and several at once, and asks who runs, one by one
// and all together.
func TestRunLocks(t *testing.T) {
	s := openStore(t)
	mustCreate(t, s, New{})
	held := []ID{1, 2, 3, 500, 501, 17636174891, 1<<62 + 1, 1<<63 - 1}
	var locks []*file.RunLock
	for _, id := range held {
		lock, err := s.f.TakeRun(int64(id))
		if err != nil {
			t.Fatal(err)
		}
		locks = append(locks, lock)
	}
	free := []ID{4, 499, 502, 17636174890, 1 << 62}
	check := func(probe *file.RunProbe, want bool, ids ...ID) {
		t.Helper()
		for _, id := range ids {
			if got, err := probe.Held(int64(id)); got != want || err != nil {
				t.Errorf("held(%d) = %v, %v, want %v", id, got, err, want)
			}
		}
	}
	for _, all := range []bool{false, true} {
		probe, err := s.f.ProbeRuns()
		if err != nil {
			t.Fatal(err)
		}
		if all {
			if err := probe.ReadAll(); err != nil {
				t.Fatal(err)
			}
		}
		check(probe, true, held...)
		check(probe, false, free...)
		probe.Close()
	}
	if _, err := s.f.TakeRun(500); busyID(err) != 500 {
		t.Errorf("takeRun of one that is held: %v", err)
	}
	if err := s.f.write(t.Context(), func(tx *tx) error { return tx.requireIdle([]ID{4, 499, 500, 502}) }); busyID(err) != 500 {
		t.Errorf("requireIdle with one that is held: %v", err)
	}
	for _, lock := range locks {
		if err := lock.Drop(); err != nil {
			t.Fatal(err)
		}
	}
	probe, err := s.f.ProbeRuns()
	if err != nil {
		t.Fatal(err)
	}
	defer probe.Close()
	check(probe, false, slices.Concat(held, free)...)
}

// TestTakeOver continues, by hand, a child whose run was left unsettled. The end of that delegation
// is not taken for the end of the new turn, and not put off until the caller has a word: what the
// run had used is charged now.
func TestTakeOver(t *testing.T) {
	for _, callerLives := range []bool{false, true} {
		t.Run(fmt.Sprint("caller lives ", callerLives), func(t *testing.T) {
			s := openStore(t)
			root := mustCreate(t, s, New{})
			l := mustLock(t, s, root.ID)
			rs, err := l.Below().Reserve(t.Context(), admit(Child{Call: "a"}))
			if err != nil {
				t.Fatal(err)
			}
			if err := rs[0].Release(); err != nil {
				t.Fatal(err)
			}
			if !callerLives {
				_ = l.Close()
			}
			child := mustLock(t, s, rs[0].Child.ID)
			mustAppend(t, child, TurnStart{})
			if _, err := l.Below().Settle(t.Context(), rs[0], Outcome{State: StateKilled}); err != nil {
				t.Fatal(err)
			}
			ds, err := s.Delegations(t.Context(), root.ID)
			if err != nil || ds[0].State != StateLost {
				t.Errorf("Delegations = %+v, %v, want lost: the first settlement stands", ds, err)
			}
			if events := mustEvents(t, s.View, child.ID(), Range{}); len(events) != 1 {
				t.Errorf("events of the child: %+v", events)
			}
			if got := mustGet(t, s.View, child.ID()).Status; got != StatusRunning {
				t.Errorf("the child is %q, want running", got)
			}
		})
	}
}

// TestMissingStoreIsTold: where there was a store and there is none, whoever asks for it is told,
// before a new one is made.
func TestMissingStoreIsTold(t *testing.T) {
	workspace := memoryDir(t)
	if err := os.Mkdir(filepath.Join(workspace, ".jp"), 0o700); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(memoryDir(t), "store")
	var notices []string
	open := func() *Store {
		notices = nil
		return openStoreIn(t, dir, Options{Workspace: workspace, Notice: func(text string) { notices = append(notices, text) }})
	}
	s := open()
	mustList(t, s.View, Filter{})
	mustCreate(t, s, New{})
	if len(notices) > 0 {
		t.Errorf("the first store: notices %q, want none", notices)
	}
	// a killed Compact leaves its file, and says nothing about the first store
	if err := os.Rename(s.Path(), s.f.Path(file.SmallerName)); err != nil {
		t.Fatal(err)
	}
	want := []string{fmt.Sprintf("store %s: is gone; there was one, as workspace.json beside it says (of %s). The next query begins a new one", s.Path(), workspace)}
	s = open()
	mustList(t, s.View, Filter{})
	mustList(t, s.View, Filter{})
	if !slices.Equal(notices, want) {
		t.Errorf("a reader's notices = %q, want %q", notices, want)
	}
	s = open()
	mustCreate(t, s, New{})
	if !slices.Equal(notices, want) {
		t.Errorf("a writer's notices = %q, want %q", notices, want)
	}
	s = open()
	mustCreate(t, s, New{})
	if len(notices) > 0 {
		t.Errorf("afterwards: notices %q, want none", notices)
	}
	// what a process leaves that is killed while it makes the first store
	if err := os.Rename(s.Path(), s.f.Unfinished()); err != nil {
		t.Fatal(err)
	}
	s = open()
	mustList(t, s.View, Filter{})
	mustCreate(t, s, New{})
	if len(notices) > 0 {
		t.Errorf("where there was never one: notices %q, want none", notices)
	}
}
