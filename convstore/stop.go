package convstore

import (
	"context"
	"errors"
	"time"

	"jp/convstore/internal/file"
)

// ErrStopped is the cause of the end of a run that Store.Stop has asked to end.
var ErrStopped = errors.New("stopped by `jp stop`")

// OnStop calls f, once and from another goroutine, if Store.Stop asks for the end of this run before
// off is called.
func (l *Log) OnStop(f func()) (off func(), err error) { return l.f.stops.On(int64(l.id), f) }

// OnStop is Log.OnStop for the run of a delegation that was reserved.
func (s Scope) OnStop(r *Reservation, f func()) (off func(), err error) {
	return s.f.stops.On(int64(r.Child.ID), f)
}

// Stop asks the process that runs a conversation to end that run, and waits until it has ended. It
// reports false if nobody runs the conversation. It fails with a *BusyError if the run has not
// ended within that time, and with the errors of Get.
//
// It signals no process. It holds a lock of its own while it waits, and who runs the conversation
// looks for it. If the conversation is run again meanwhile, it asks that run too.
func (s *Store) Stop(ctx context.Context, id ID, within time.Duration) (ran bool, err error) {
	if s.f.ReadOnly {
		return false, ErrReadOnly
	}
	if _, err := s.Get(ctx, id); err != nil {
		return false, err
	}
	ran, err = s.f.Stop(ctx, int64(id), within)
	if err != nil {
		err = busy(err)
	}
	return ran, err
}

// Await waits until nobody runs a conversation, and returns it. It fails with the errors of Get.
func (s *Store) Await(ctx context.Context, id ID) (Conversation, error) {
	if _, err := s.Get(ctx, id); err != nil {
		return Conversation{}, err
	}
	if err := s.f.AwaitRun(ctx, int64(id)); err != nil {
		return Conversation{}, err
	}
	return s.Get(ctx, id)
}

// Running returns the conversations in view that somebody runs or has reserved, in the order in
// which they were made.
func (v View) Running(ctx context.Context) (list []Conversation, err error) {
	err = v.f.read(ctx, func(t *tx) error {
		list = nil
		if err := t.prepareStatus(); err != nil {
			return err
		}
		held, err := t.runs.All()
		if err != nil {
			return err
		}
		for _, n := range held {
			r, err := v.within(t, ID(n))
			if errors.As(err, new(*NotFoundError)) || errors.As(err, new(*ScopeError)) { // a claim, an import, or elsewhere
				continue
			}
			if err != nil {
				return err
			}
			c, err := t.conversation(ID(n), r)
			if err != nil {
				return err
			}
			list = append(list, c)
		}
		return nil
	})
	if err == file.ErrAbsent {
		err = nil
	}
	return list, err
}
