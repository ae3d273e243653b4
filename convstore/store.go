package convstore

import (
	"context"
	"os"
	"time"

	"jp/convstore/internal/db"
	"jp/convstore/internal/file"
)

// Options says how to open a store. The zero value works.
type Options struct {
	ReadOnly bool             // refuse every write with ErrReadOnly
	Deadline time.Duration    // how long to wait for the store's lock; 0 = 30 s. A Log and its Scope wait longer, see Lock
	Patient  bool             // wait as a Log does: this process is a run in a store that is there
	Now      func() time.Time // nil = time.Now
	Notice   func(string)     // told what a user should know, such as a migration; nil = dropped

	// Workspace is the folder whose conversations these are. The first write records it, so that
	// Locate recognises it when it was renamed. "" = none.
	Workspace string
}

// Store is what people do with conversations. The embedded View reads all of them. It is safe for
// concurrent use, and holds nothing open between calls: there is nothing to close.
type Store struct {
	View
}

// Open returns the store in the folder dir, after checking that it may be kept there; a *PlaceError
// says why not. It opens no file: the first write makes the folder and the file in it, and until
// then the store reads as empty.
//
// Any number of processes may share a store. One that wants to read waits for the one that writes,
// at most until Options.Deadline and then fails with a *BusyError.
func Open(dir string, o Options) (*Store, error) {
	in, err := db.Open(dir, db.Options{
		Options:  file.Options{Deadline: o.Deadline, Patient: o.Patient, Notice: o.Notice, Workspace: o.Workspace},
		ReadOnly: o.ReadOnly, Now: o.Now, Version: schemaVersion, Busy: busy,
	})
	if err != nil {
		return nil, err
	}
	return &Store{View{f: &base{in}}}, nil
}

// Path returns the path of the store's file. It need not exist.
func (s *Store) Path() string { return s.f.StorePath() }

// Writable returns nil when this user can write to the store, or make it where there is none yet,
// as far as permissions and the file system say. It writes nothing and waits for nobody.
func (s *Store) Writable() error {
	if s.f.ReadOnly {
		return ErrReadOnly
	}
	return s.f.Writable()
}

// Below returns the scope of parent, for delegating by hand. Unlike Log.Below it does not need the
// parent's run lock.
func (s *Store) Below(ctx context.Context, parent ID) (Scope, error) {
	if _, err := s.Get(ctx, parent); err != nil {
		return Scope{}, err
	}
	return Scope{View: View{f: s.f, root: parent, delegated: true}}, nil
}

// Lock takes the run lock of a conversation without waiting, and fails with a *BusyError when it
// runs already.
//
// The Log, and the Scope below it, wait for the store as long as their contexts live, since what a
// run has done was paid for; Options.Notice is told of a long wait. A context that cannot end is
// bounded by Options.Deadline.
func (s *Store) Lock(ctx context.Context, id ID) (*Log, error) {
	if s.f.ReadOnly {
		return nil, ErrReadOnly
	}
	if _, err := s.Get(ctx, id); err != nil {
		return nil, err
	}
	file, err := s.f.TakeRun(int64(id))
	if err != nil {
		return nil, err
	}
	return s.newLog(ctx, id, file, false)
}

// Adopt makes the Log of a child process from the descriptor it inherited, which must be the one
// that holds the run lock of id. The Log owns the file from then on, and closes it when Adopt
// fails.
func (s *Store) Adopt(ctx context.Context, id ID, file *os.File) (*Log, error) {
	if s.f.ReadOnly {
		return nil, ErrReadOnly
	}
	if err := s.f.AdoptRun(file, int64(id)); err != nil {
		file.Close()
		return nil, busy(err)
	}
	return s.newLog(ctx, id, file, true)
}

// newLog looks, under the lock, at what is there.
func (s *Store) newLog(ctx context.Context, id ID, file *os.File, shared bool) (*Log, error) {
	l := &Log{f: s.f.patiently(), id: id, lock: file, shared: shared}
	err := l.f.read(ctx, func(t *tx) error {
		r, err := t.Load(id)
		if err != nil {
			return err
		}
		l.blank.Store(r.Events == 0 && r.Call == nil)
		l.taken, err = t.Config(id)
		return err
	})
	if err != nil {
		file.Close()
		return nil, absent(err, id)
	}
	return l, nil
}

// Adopt makes the store of another workspace that of workspace, and returns its folder. The other
// one is gone, or took the store over from this one, see TakenError. From names the store's folder
// or the path that its workspace had. Conversations that workspace has already keep it from
// adopting others; an empty store of its own is moved aside. A *PlaceError says why not.
func Adopt(ctx context.Context, env Env, workspace, from string) (string, error) {
	return file.Adopt(env, workspace, from, func(dir string) (bool, error) {
		s, err := Open(dir, Options{ReadOnly: true})
		if err != nil {
			return false, err
		}
		some, err := s.List(ctx, Filter{Hidden: true, Archived: true, Limit: 1})
		return len(some) == 0, err
	})
}

// Leave gives the store that workspace lost up for good to the workspace that has it now. From is
// as for Adopt. It returns the folder in which workspace begins a store of its own, or a
// *PlaceError.
func Leave(env Env, workspace, from string) (string, error) { return file.Leave(env, workspace, from) }

// Outlast returns a context that ends half a minute after ctx has: in it what has been done is
// recorded, and read, also while a run is being stopped.
func Outlast(ctx context.Context) (context.Context, context.CancelFunc) {
	return file.Outlast(ctx, file.DefaultDeadline)
}
