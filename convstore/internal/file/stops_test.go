package file

import (
	"path/filepath"
	"testing"
	"time"
)

// TestStops: a request counts whether it came before the run listens or after, and only while
// somebody holds it.
func TestStops(t *testing.T) {
	for _, early := range []bool{false, true} {
		f, err := Open(filepath.Join(t.TempDir(), "store"), Options{})
		if err != nil {
			t.Fatal(err)
		}
		if err := f.makeDir(); err != nil {
			t.Fatal(err)
		}
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
			_, err := f.Stop(t.Context(), id, time.Minute)
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
