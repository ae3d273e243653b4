package convstore

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestCopyInPlace: where the folder was moved and a copy put in its place, nobody finds the run locks
// held. So the process that holds them does nothing there; it goes on when the folder is back. On other
// systems each run lock is a file of its own.
func TestCopyInPlace(t *testing.T) {
	dir := filepath.Join(memoryDir(t), "store")
	s, err := Open(dir, Options{})
	mustNot(t, err)
	c := mustCreate(t, s, New{})
	l := mustLock(t, s, c.ID)
	mustAppend(t, l, TurnStart{})
	mustNot(t, os.Rename(dir, dir+".away"))
	mustNot(t, os.CopyFS(dir, os.DirFS(dir+".away")))
	before := mustRead(t, s.Path())
	for what, call := range map[string]func() error{
		"Append": func() error { return l.Append(t.Context(), Event{Body: TurnEnd{State: StateOK}}) },
		"Get":    func() error { _, err := l.Get(t.Context()); return err },
		"Lock":   func() error { _, err := s.Lock(t.Context(), c.ID); return err },
	} {
		if err := call(); !errors.Is(err, ErrGone) || !bytes.Equal(before, mustRead(t, s.Path())) {
			t.Errorf("%s = %v, want ErrGone and nothing written", what, err)
		}
	}
	other, err := Open(dir, Options{})
	mustNot(t, err)
	mustAppend(t, mustLock(t, other, c.ID), TurnEnd{State: StateOK})
	mustNot(t, os.Rename(dir, dir+".copy"))
	mustNot(t, os.Rename(dir+".away", dir))
	mustAppend(t, l, TurnEnd{State: StateOK})
}
