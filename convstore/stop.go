package convstore

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"time"

	"jp/convstore/internal/file"
)

// ErrStopped is the cause of the end of a run that Store.Stop has asked to end.
var ErrStopped = errors.New("stopped by `jp stop`")

// OnStop calls f, once and from another goroutine, if Store.Stop asks for the end of this run
// before off is called.
func (l *Log) OnStop(f func()) (off func(), err error) { return l.f.stops.On(int64(l.id), f) }

// OnStop is Log.OnStop for the run of a delegation that was reserved.
func (s Scope) OnStop(r *Reservation, f func()) (off func(), err error) {
	return s.f.stops.On(int64(r.Child.ID), f)
}

// Stop asks the process that runs a conversation to end that run, and those that stand for the
// conversation to end, and waits until they have. It reports false if nobody runs the conversation.
// It fails with a *BusyError if they have not ended within that time, and with the errors of Get.
//
// It signals no process. It holds a lock of its own while it waits, and who runs the conversation
// looks for it. Before that process runs it again, Stop reads what it returns.
func (s *Store) Stop(ctx context.Context, id ID, within time.Duration) (c Conversation, ran bool, err error) {
	if s.f.ReadOnly {
		return c, false, ErrReadOnly
	}
	read := func() (err error) { c, err = s.Get(ctx, id); return err }
	if err := read(); err != nil {
		return c, false, err
	}
	held, err := s.f.HeldRuns()
	if err != nil {
		return c, false, err
	}
	stands := standsAmong(held)
	errs := make([]error, len(stands[id]))
	var all sync.WaitGroup
	for i, number := range stands[id] {
		all.Go(func() { _, errs[i] = s.f.Stop(ctx, number, within, func() error { return nil }) })
	}
	ran, err = s.f.Stop(ctx, int64(id), within, read)
	all.Wait()
	err = cmp.Or(err, errors.Join(errs...))
	if busy, ok := errors.AsType[*file.BusyError](err); ok {
		err = &BusyError{ID: id, Holder: busy.Holder, Waited: busy.Waited}
	}
	return c, ran, err
}

// A stand is a lock in the file of run locks, on a number far above the ids of conversations and
// below those of claims: a part that all stands have, the conversation, and the place among the
// stands for it.
const (
	standNumbers = 1 << 61
	standPlaces  = 1 << 16
)

// Stand says that this process delegates on behalf of the caller, which it does not run, until end
// is called. It calls stop, once and from another goroutine, if Store.Stop asks for the end of
// that.
func (s Scope) Stand(stop func()) (end func() error, err error) {
	first := standNumbers + int64(s.root)%(standNumbers/standPlaces)*standPlaces
	for number := first; number < first+standPlaces; number++ {
		lock, err := s.f.TakeRun(number)
		if errors.As(err, new(*BusyError)) {
			continue // another process stands for it too
		}
		if err != nil {
			return nil, err
		}
		off, err := s.f.stops.On(number, stop)
		if err != nil {
			return nil, errors.Join(err, lock.Drop())
		}
		return func() error {
			defer off()
			return lock.Drop()
		}, nil
	}
	return nil, &BusyError{ID: s.root}
}

// Stands returns the conversations that processes stand for, in order.
func (s *Store) Stands() ([]ID, error) {
	held, err := s.f.HeldRuns()
	return slices.Sorted(maps.Keys(standsAmong(held))), err
}

// standsAmong returns the stands among the numbers of locks, by the conversation.
func standsAmong(held []int64) map[ID][]int64 {
	stands := make(map[ID][]int64)
	for _, number := range held {
		if id := worksFor(number); id != ID(number) {
			stands[id] = append(stands[id], number)
		}
	}
	return stands
}

// worksFor returns the conversation that the holder of a lock stands for, else the one that it runs.
func worksFor(number int64) ID {
	if number >= standNumbers && number < 2*standNumbers {
		return ID((number - standNumbers) / standPlaces)
	}
	return ID(number)
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
			if errors.As(err, new(*NotFoundError)) || errors.As(err, new(*ScopeError)) { // a claim, a stand, an import, or elsewhere
				continue
			}
			if err != nil {
				return err
			}
			if list, err = t.appendConversation(list, ID(n), r); err != nil {
				return err
			}
		}
		return nil
	})
	return list, present(err)
}
