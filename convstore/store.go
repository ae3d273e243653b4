package convstore

import (
	"cmp"
	"context"
	"time"

	"jp/convstore/internal/db"
	"jp/convstore/internal/file"
)

// Options says how to open a store. The zero value works.
type Options struct {
	ReadOnly bool             // every write fails with ErrReadOnly
	Deadline time.Duration    // how long to wait for the store's lock; 0 = 30 s. A Log and its Scope wait longer, see Lock
	Now      func() time.Time // nil = time.Now
	Notice   func(string)     // called with what a user should know, for example a migration; nil = dropped

	// Workspace is the folder to which the conversations belong. The first write records it, so
	// that Locate finds the store after the folder was renamed. "" = none.
	Workspace string
}

// Store has the operations that people use. The embedded View reads all conversations. It is safe
// for concurrent use. It locks no file between calls and needs no Close: the file that it keeps
// open is closed a moment after the last call.
type Store struct {
	View
}

// Open returns the store in the folder dir. It fails with a *PlaceError if a store must not be
// there. It opens no file: the first write makes the folder and the file in it, and until then the
// store reads as empty.
//
// Any number of processes may share a store. A reader waits for a writer until Options.Deadline,
// and then fails with a *BusyError.
func Open(dir string, o Options) (*Store, error) {
	in, err := db.Open(dir, db.Options{
		Options:  file.Options{Deadline: o.Deadline, Notice: o.Notice, Workspace: o.Workspace},
		ReadOnly: o.ReadOnly, Now: o.Now, Version: schemaVersion, Reads: readsVersion, Busy: busy,
	})
	if err != nil {
		return nil, err
	}
	return &Store{View{f: &base{in, in.NewStops()}}}, nil
}

// Path returns the path of the store's file. It need not exist.
func (s *Store) Path() string { return s.f.StorePath() }

// Writable returns nil if permissions, the file system and what is free on it let this user write to
// the store, or make it if there is none yet. It writes nothing and does not wait.
func (s *Store) Writable() error {
	if s.f.ReadOnly {
		return ErrReadOnly
	}
	return s.f.Writable()
}

// Below returns the scope of parent, for a person who delegates. Unlike Log.Below it does not need
// the parent's run lock.
func (s *Store) Below(ctx context.Context, parent ID) (Scope, error) {
	if _, err := s.Get(ctx, parent); err != nil {
		return Scope{}, err
	}
	return Scope{View: View{f: s.f, root: parent, delegated: true}}, nil
}

// Lock takes the run lock of a conversation without waiting. It fails with a *BusyError if the
// conversation runs already.
//
// The Log and its Scope wait for the store until their contexts end, since what a run did was paid
// for and must be stored. Options.Notice is called about a long wait. With a context that cannot
// end they wait until Options.Deadline.
func (s *Store) Lock(ctx context.Context, id ID) (*Log, error) {
	if s.f.ReadOnly {
		return nil, ErrReadOnly
	}
	if _, err := s.Get(ctx, id); err != nil {
		return nil, err
	}
	lock, err := s.f.TakeRun(int64(id))
	if err != nil {
		return nil, err
	}
	l, err := s.newLog(ctx, id, lock, false)
	return l, (Scope{View: s.View}).settleAway(ctx, err)
}

// Log returns the Log of a run that was reserved, in the process that reserved it. It shares the
// run lock with the reservation: each keeps it if the other is ended.
func (s Scope) Log(ctx context.Context, r *Reservation) (*Log, error) {
	return (&Store{View{f: s.f}}).newLog(ctx, r.Child.ID, r.lock.Share(), true)
}

// newLog reads the state of the conversation, whose run lock is held, and returns its Log.
func (s *Store) newLog(ctx context.Context, id ID, lock *file.RunLock, shared bool) (*Log, error) {
	l := &Log{f: s.f.patiently(), id: id, lock: lock, shared: shared}
	err := l.f.read(ctx, func(t *tx) error {
		r, err := t.Load(id)
		if err != nil {
			return err
		}
		l.blank.Store(r.Events == 0 && r.Call == nil)
		l.foreign = r.Foreign
		if l.taken, err = t.Config(id); err != nil || !shared {
			return cmp.Or(err, t.away(id, r))
		}
		l.account, err = t.account(id, r)
		return err
	})
	if err != nil {
		_ = lock.Leave()
		return nil, absent(err, id)
	}
	return l, nil
}

// Adopt gives the store of another workspace to workspace, and returns the store's folder. From is
// the store's folder, or the path of its workspace. The other workspace must be gone, or must have
// taken the store from this one; see TakenError. If workspace has a store with conversations
// already, Adopt fails; an empty one is renamed. All these failures are a *PlaceError.
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

// Leave gives up a store that workspace lost: it belongs to the workspace that has it now. From is
// as for Adopt. Leave returns the folder of a new store for workspace, or a *PlaceError.
func Leave(env Env, workspace, from string) (string, error) { return file.Leave(env, workspace, from) }

// Briefly returns a context that ends shortly after ctx, for what may stay undone: who stops a run
// does not wait for a store that another process holds.
func Briefly(ctx context.Context) (context.Context, context.CancelFunc) {
	return file.Briefly(ctx)
}

// Outlast returns a context that ends half a minute after ctx. With it, the last events of a run
// that is being stopped can be stored and read.
func Outlast(ctx context.Context) (context.Context, context.CancelFunc) {
	return file.Outlast(ctx, file.DefaultDeadline)
}
