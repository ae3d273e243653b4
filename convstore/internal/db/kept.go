package db

import (
	"os"
	"runtime"
	"sync"

	"jp/convstore/internal/file"
)

// keeper holds the handle of an earlier session, open but not locked, for the next one. To open a
// file takes longer than most transactions: bbolt reads its free pages, and each page that is read
// is mapped again. Other processes do not notice a kept handle.
//
// It is used again only if the file is still that of the store and in the same state. Then nobody
// has committed meanwhile, and all that bbolt remembers of the file still holds.
type keeper struct{ slot *slot }

// slot is what the cleanup of a keeper needs.
type slot struct {
	mu   sync.Mutex
	kept *Handle
}

// newKeeper returns a keeper whose handle is closed when nobody can use it any more.
func newKeeper() *keeper {
	k := &keeper{new(slot)}
	runtime.AddCleanup(k, func(s *slot) { s.take().drop() }, k.slot)
	return k
}

// take returns the kept handle, which is the caller's from now on, or nil.
func (s *slot) take() *Handle {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.kept
	s.kept = nil
	return h
}

// keep unlocks a handle and keeps it. If there is one already, it keeps that which can write.
func (s *slot) keep(h *Handle) {
	var err error
	h.state, err = stateOf(h)
	if err != nil || file.Unlock(h.File) != nil {
		h.drop()
		return
	}
	s.mu.Lock()
	if s.kept == nil || h.write && !s.kept.write {
		h, s.kept = s.kept, h
	}
	s.mu.Unlock()
	h.drop()
}

// takeFor returns the kept handle if a session of this kind can use it.
func (s *slot) takeFor(write bool) *Handle {
	h := s.take()
	if h != nil && write && !h.write {
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
// before, and a file that grew without a commit has another size.
type state struct {
	size  int64
	metas [2][pageHeader + metaSize]byte
}

// Lengths in bbolt's file format (go.etcd.io/bbolt/internal/common, page.go and meta.go).
const (
	pageHeader = 16
	metaSize   = 64
)

// stateOf returns the state of a locked file.
func stateOf(h *Handle) (s state, err error) {
	var info os.FileInfo
	if info, err = h.File.Stat(); err != nil {
		return s, err
	}
	s.size = info.Size()
	for i := range s.metas {
		if _, err = h.File.ReadAt(s.metas[i][:], int64(i*h.db.Info().PageSize)); err != nil {
			return s, err
		}
	}
	return s, nil
}
