package file

import (
	"path/filepath"
	"testing"
	"time"
)

// empty returns the folder of a store that nobody has written to.
func empty(t *testing.T) Folder {
	t.Helper()
	f, err := Open(filepath.Join(t.TempDir(), "store"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.makeDir(); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestStops: a request counts whether it came before the run listens or after, and only while
// somebody holds it.
func TestStops(t *testing.T) {
	for _, early := range []bool{false, true} {
		f := empty(t)
		const id = 17
		run, err := f.TakeRun(id)
		if err != nil {
			t.Fatal(err)
		}
		stops := f.NewStops()
		listen := func() {
			off, err := stops.On(id, func() { _ = run.Drop() })
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(off)
		}
		if !early {
			listen()
		}
		asked := make(chan error)
		go func() {
			_, err := f.Stop(t.Context(), id, time.Minute, func() error { return nil })
			asked <- err
		}()
		for early {
			requests, err := f.probe(stopsName)
			if err != nil {
				t.Fatal(err)
			}
			held, err := requests.Held(id)
			requests.Close()
			if err != nil {
				t.Fatal(err)
			}
			if held {
				listen()
				break
			}
		}
		if err := <-asked; err != nil {
			t.Error(err)
		}
		again, err := f.TakeRun(id)
		if err != nil {
			t.Fatal(err)
		}
		off, err := stops.On(id, func() { t.Error("asked, although nobody asks any more") })
		if err != nil {
			t.Fatal(err)
		}
		off()
		_ = again.Drop()
	}
}

// TestStopsOne: a request ends one run. What the process runs next in the conversation, as soon as
// off has returned, is not asked.
func TestStopsOne(t *testing.T) {
	f := empty(t)
	const id = 17
	stops := f.NewStops()
	run := func(asked func(end func())) (end func()) {
		lock, err := f.TakeRun(id)
		if err != nil {
			t.Error(err)
			return func() {}
		}
		ready := make(chan bool)
		var off func()
		end = func() {
			<-ready
			_ = lock.Drop()
			off()
		}
		if off, err = stops.On(id, func() { asked(end) }); err != nil {
			t.Error(err)
		}
		close(ready)
		return end
	}
	next := make(chan func(), 1)
	run(func(end func()) {
		end()
		next <- run(func(end func()) {
			t.Error("the next run was asked too")
			end()
		})
	})
	if ran, err := f.Stop(t.Context(), id, time.Minute, func() error { return nil }); !ran || err != nil {
		t.Errorf("Stop = %v, %v, want true", ran, err)
	}
	(<-next)()
}
