package db

import (
	"os"
	"slices"
	"sync"
	"time"

	"jp/convstore/internal/file"
)

// slot keeps the handle of an earlier session, open but not locked, for the next one. To open a
// file takes longer than most transactions: bbolt reads its free pages, and each page that is read
// is mapped again. Other processes do not notice a kept handle. It is closed when it was not used
// for a while: a file that was replaced or removed keeps its space on the disk, and its disk stays
// mounted.
//
// It is used again only if the file is still that of the store and in the same state. Then nobody
// has committed meanwhile, and all that bbolt remembers of the file still holds.
//
// One session at a time has the handle. Where sessions of this process would wait for one another
// at the lock of the file, they wait here, in the order in which they came.
type slot struct {
	idle time.Duration // how long a handle is kept

	mu      sync.Mutex
	kept    *Handle
	timer   *time.Timer // closes kept; nil before the first is kept
	lent    bool
	writes  bool // the session that has the handle does
	waiting []*waiter
}

// defaultIdle is longer than most pauses between the transactions of an owner that is at work, and
// short where a server opens the store again for each request.
const defaultIdle = 100 * time.Millisecond

// waiter is a session that waits for the handle.
type waiter struct {
	writes bool
	turn   chan struct{} // is closed when it has the handle
}

// lend gives a session its turn with the kept handle, which may be nil, until it gives it back. A
// session that reads beside another one that reads has no turn: it opens the file for itself. lend
// returns false when the wait ends before.
func (s *slot) lend(wait *file.Wait, writes bool) (h *Handle, turn, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case !s.lent:
		s.lent, s.writes = true, writes
	case !writes && !s.writes:
		return nil, false, true
	default:
		w := &waiter{writes: writes, turn: make(chan struct{})}
		s.waiting = append(s.waiting, w)
		s.mu.Unlock()
		select {
		case <-w.turn:
		case <-wait.Done():
		}
		s.mu.Lock()
		if i := slices.Index(s.waiting, w); i >= 0 {
			s.waiting = slices.Delete(s.waiting, i, i+1)
			return nil, false, false
		}
	}
	if s.timer != nil {
		s.timer.Stop()
	}
	h, s.kept = s.kept, nil
	return h, true, true
}

// give takes back what was lent: the handle, or nil if it is closed.
func (s *slot) give(h *Handle) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.kept = h
	if s.lent = len(s.waiting) > 0; s.lent {
		next := s.waiting[0]
		s.waiting, s.writes = s.waiting[1:], next.writes
		close(next.turn)
	} else if s.timer == nil {
		s.timer = time.AfterFunc(s.idle, s.close)
	} else {
		s.timer.Reset(s.idle)
	}
}

// close closes the handle, unless a session has it.
func (s *slot) close() {
	s.mu.Lock()
	h := s.kept
	s.kept = nil
	s.mu.Unlock()
	h.drop()
}

// keep unlocks a handle for another session and returns it, or nil if it had to close it.
func (h *Handle) keep() *Handle {
	var err error
	if h.state, err = stateOf(h); err != nil || file.Unlock(h.File) != nil {
		h.drop()
		return nil
	}
	return h
}

// fits reports whether a kept handle that is locked again is as good as one that is opened now.
func (h *Handle) fits() bool {
	now, err := stateOf(h)
	return err == nil && now == h.state
}

// drop closes a handle that may be nil.
func (h *Handle) drop() {
	if h != nil {
		_ = h.close()
	}
}

// state tells two states of a file apart: each commit writes a meta with a number that none had
// before, and a file that grew without a commit has another size. The time is for a file into which
// an older copy was written: its next commits can have the same numbers, with other free pages.
type state struct {
	size     int64
	modified int64
	metas    [2][pageHeader + metaSize]byte
}

// Lengths in bbolt's file format (go.etcd.io/bbolt/internal/common, page.go and meta.go).
const (
	pageHeader = 16
	metaSize   = 64
)

// stateOf returns the state of a locked file. It reads nothing that is mapped: what a session has
// done counts also where the file cannot be read any more.
func stateOf(h *Handle) (s state, err error) {
	var info os.FileInfo
	if info, err = h.File.Stat(); err != nil {
		return s, err
	}
	s.size, s.modified = info.Size(), info.ModTime().UnixNano()
	for i := range s.metas {
		if _, err = h.File.ReadAt(s.metas[i][:], int64(i*h.page)); err != nil {
			return s, err
		}
	}
	return s, nil
}
