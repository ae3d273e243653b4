package convstore

import (
	"errors"
	"os"
)

// Run locks. Holding its run lock makes a process the run of a conversation: it
// guards the event stream. The lock belongs to an open file description, and so
// stays with whoever inherits the descriptor until the last copy of it is closed;
// the kernel sees to that for a process that dies. The files that carry the locks
// are never unlinked, so that no two processes ever lock different files of one
// name.

// errHeld says that somebody else holds a run lock.
var errHeld = errors.New("run lock: held")

// takeRun takes the run lock of one conversation without waiting, or fails with
// a *BusyError.
func (f *folder) takeRun(id ID) (*os.File, error) {
	files, _, err := f.takeRuns(id)
	if err == errHeld {
		return nil, &BusyError{ID: id, Holder: f.runHolder(id)}
	}
	if err != nil {
		return nil, err
	}
	return files[0], nil
}

// takeAll takes the run locks of several conversations for a removal, or fails
// with a *BusyError. To the transaction what it holds itself counts as free.
//
// The locks may be let go before the commit: who takes one in between still has
// to wait for the store to see whether the conversation is there.
func (t *tx) takeAll(ids []ID) (release func(), err error) {
	files, busy, err := t.f.takeRuns(ids...)
	if err == errHeld {
		return nil, &BusyError{ID: busy, Holder: t.f.runHolder(busy)}
	}
	if err != nil {
		return nil, err
	}
	if t.mine == nil {
		t.mine = make(map[ID]bool, len(ids))
	}
	for _, id := range ids {
		t.mine[id] = true
	}
	return func() {
		for _, file := range files {
			_ = dropRun(file)
		}
	}, nil
}

// dropRun ends the hold on run locks that no other process goes on to use.
//
// Closing alone would not do. While any goroutine starts a process, there is for
// an instant a copy of every descriptor in that process, on its way to exec, and
// with it the lock.
func dropRun(file *os.File) error {
	return errors.Join(unlockRuns(file), file.Close())
}
