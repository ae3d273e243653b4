package later

import (
	"testing"
	"unsafe"
)

var ran int

func count() { ran++ }

// TestNeed puts off a task with two functions, and leaves one as it is that has run.
func TestNeed(t *testing.T) {
	f := count
	code := **(**uintptr)(unsafe.Pointer(&f))
	type whole struct {
		task
		functions [2]uintptr
	}
	waiting := &whole{task{waits, 2}, [2]uintptr{code, code}}
	run := &whole{task{done, 2}, [2]uintptr{code, code}}
	l := &Library{tasks: []*task{&waiting.task, &run.task}}
	l.putOff()
	if waiting.state != done || ran != 0 {
		t.Errorf("put off: state %d, %d functions ran", waiting.state, ran)
	}
	l.Need()
	l.Need()
	if ran != 2 {
		t.Errorf("%d functions ran, want 2", ran)
	}
}
