package file

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestSlotsReleasedDespiteCopies: a slot is free at once, also while a process that is being
// started has a copy of its descriptor, and whoever waits for it is woken.
func TestSlotsReleasedDespiteCopies(t *testing.T) {
	f := empty(t)
	slot, err := f.Slots(1, 1).Take(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	copied, err := unix.Dup(int(slot.of.held.file.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(copied)
	queued, taken := make(chan struct{}), make(chan error)
	go func() {
		_, err := f.Slots(1, 1).Take(t.Context(), func() { close(queued) })
		taken <- err
	}()
	<-queued
	if err := slot.Release(); err != nil {
		t.Fatal(err)
	}
	if err := <-taken; err != nil {
		t.Fatal(err)
	}
}
