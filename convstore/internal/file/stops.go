package file

import (
	"context"
	"sync"
	"time"
)

// Stops is how one process asks another to end a run. Who asks holds a lock: the one of the
// conversation in the file of stops. Who runs it looks at that file. So a request names no process,
// needs no process that listens, and is gone with the process that asks. Nobody asks for it who
// may not write into the store's folder.
//
// The file is looked at again and again. A notification would come sooner, but to close an inotify
// instance takes the kernel some 10 ms, which would be half of a short run.
//
// Stops has the runs of this process. Safe for concurrent use.
type Stops struct {
	f *Folder

	mu       sync.Mutex
	runs     map[*stoppable]struct{}
	requests *RunProbe          // nil while nothing is watched
	end      context.CancelFunc // ends the goroutine that watches, which closes requests
}

// stoppable is a run of this process.
type stoppable struct {
	id  int64
	ask func() // nil = it was asked to end
}

// NewStops returns the Stops of this process. It watches nothing before there is a run.
func (f *Folder) NewStops() *Stops {
	return &Stops{f: f, runs: map[*stoppable]struct{}{}}
}

// stopPoll is how often the requests are read.
const stopPoll = 100 * time.Millisecond

// seenIn bounds how long an end waits for those who asked for it, who may be suspended. They look
// each runPoll.
const seenIn = 2 * time.Second

// On calls ask, once and from another goroutine, if somebody asks for the end of the run of a
// conversation before off is called. A request that was there before counts.
//
// Call off when the run lock is free. It returns when those who asked have seen that, so that what
// this process runs next in the conversation is not taken for what they meant.
func (s *Stops) On(id int64, ask func()) (off func(), err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.requests == nil {
		if err := s.f.makeStops(); err != nil { // nobody can watch a file that is not there
			return nil, s.f.SystemError(err)
		}
		all, err := s.f.probe(stopsName)
		if err != nil {
			return nil, err
		}
		if s.requests, err = s.f.probe(stopsName); err != nil {
			all.Close()
			return nil, err
		}
		var ctx context.Context
		ctx, s.end = context.WithCancel(context.Background())
		go s.watch(ctx, s.requests, all)
	}
	r := &stoppable{id, ask}
	s.runs[r] = struct{}{}
	s.pass(r, s.requests)
	return func() {
		for late := time.Now().Add(seenIn); s.asked(r) && time.Now().Before(late); {
			time.Sleep(runPoll / 4)
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		delete(s.runs, r)
		if len(s.runs) == 0 && s.requests != nil {
			s.end()
			s.requests = nil
		}
	}, nil
}

// asked reports whether somebody asks for the end of a run.
func (s *Stops) asked(r *stoppable) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, on := s.runs[r]; !on {
		return false
	}
	held, err := s.requests.Held(r.id)
	return err == nil && held
}

// watch passes requests on until ctx ends. It reads all of them at once, with a probe of its own,
// because 10,000 runs can wait for their turn, and mostly nobody asks for the end of any. It closes
// both probes.
func (s *Stops) watch(ctx context.Context, requests, all *RunProbe) {
	defer requests.Close()
	defer all.Close()
	for pause(ctx, stopPoll) == nil {
		s.mu.Lock()
		if all.ReadAll() == nil {
			for r := range s.runs {
				s.pass(r, all)
			}
		}
		s.mu.Unlock()
	}
}

// pass asks a run to end if there is a request for it.
func (s *Stops) pass(r *stoppable, requests *RunProbe) {
	if r.ask == nil {
		return
	}
	if held, err := requests.Held(r.id); err == nil && held {
		go r.ask()
		r.ask = nil
	}
}

// Stop asks for the end of the run of a conversation, and waits for it. Then it calls ended, before
// the process that ran it can run it again. It reports false if nobody runs it. With a *BusyError the
// run has not ended after within.
func (f *Folder) Stop(ctx context.Context, id int64, within time.Duration, ended func() error) (ran bool, err error) {
	limit, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var request *RunLock
	defer func() {
		if request != nil {
			_ = request.Drop()
		}
	}()
	err = f.awaitRun(limit, id, func() error {
		ran = true
		if request != nil {
			return nil
		}
		var err error
		if request, err = f.take(f.stops, id); err == errHeld { // somebody else asks for it, now
			return nil
		}
		return err
	})
	if err != nil && limit.Err() != nil && ctx.Err() == nil {
		err = &BusyError{Run: id, Holder: f.RunHolder(id), Waited: within}
	}
	if err == nil {
		err = ended()
	}
	return ran, err
}

// AwaitRun waits until nobody holds the run lock of a conversation.
func (f *Folder) AwaitRun(ctx context.Context, id int64) error {
	return f.awaitRun(ctx, id, func() error { return nil })
}

// runPoll is how often a wait for the end of a run looks. Nobody is told of it who is not its
// parent.
const runPoll = 20 * time.Millisecond

// awaitRun is AwaitRun that calls held each time it finds the lock held.
func (f *Folder) awaitRun(ctx context.Context, id int64, held func() error) error {
	for {
		probe, err := f.ProbeRuns()
		if err != nil {
			return err
		}
		is, err := probe.Held(id)
		probe.Close()
		if err != nil || !is {
			return err
		}
		if err := held(); err != nil {
			return err
		}
		if err := pause(ctx, runPoll); err != nil {
			return err
		}
	}
}
