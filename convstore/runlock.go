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
	file, err := f.tryRun(id)
	if err == errHeld {
		return nil, &BusyError{ID: id, Holder: f.runHolder(id)}
	}
	return file, err
}

// takeAll sees to it that none of several conversations runs while a write transaction removes or
// moves them, or fails with a *BusyError. To the transaction they count as free from then on.
//
// It takes no lock: a lock for each of many would have the kernel walk all of them each time. Who
// takes one of these locks before the commit has to wait for the store to see what has become of
// the conversation.
func (t *tx) takeAll(ids []ID) error {
	if err := t.prepareStatus(); err != nil {
		return err
	}
	for _, id := range ids {
		held, err := t.held(id)
		if err != nil {
			return err
		}
		if held {
			return &BusyError{ID: id, Holder: t.f.runHolder(id)}
		}
	}
	if t.mine == nil {
		t.mine = make(map[ID]bool, len(ids))
	}
	for _, id := range ids {
		t.mine[id] = true
	}
	return nil
}

// dropRun ends the hold on run locks that no other process goes on to use.
//
// Closing alone would not do. While any goroutine starts a process, there is for
// an instant a copy of every descriptor in that process, on its way to exec, and
// with it the lock.
func dropRun(file *os.File) error {
	return errors.Join(unlockRuns(file), file.Close())
}
