package convstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// slotsProgram takes slots of the tree of a root and keeps them until its input ends.
func slotsProgram(args []string) error {
	s, root, err := programStore(args)
	if err != nil {
		return err
	}
	scope := Scope{View: View{f: s.f, root: root}}
	n, err := strconv.Atoi(args[2])
	if err != nil {
		return err
	}
	slots := scope.Slots(root, n)
	for range n {
		if _, err := slots.Take(context.Background(), nil); err != nil {
			return err
		}
		fmt.Println("took")
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}

// slotsOf returns the slots of a new store's root as another process would have them at each call.
func slotsOf(t *testing.T) (dir string, root ID, slots func(n int) *Slots) {
	dir = filepath.Join(memoryDir(t), "store")
	s := openStoreIn(t, dir, Options{})
	root = mustCreate(t, s, New{}).ID
	scope, err := s.Below(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	return dir, root, func(n int) *Slots { return scope.Slots(root, n) }
}

func mustTake(t *testing.T, s *Slots) *Slot {
	t.Helper()
	p, err := s.Take(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// taking takes a slot in a goroutine and returns once it waits for it.
func taking(t *testing.T, ctx context.Context, s *Slots) <-chan error {
	t.Helper()
	queued, done := make(chan struct{}), make(chan error, 1)
	go func() {
		p, err := s.Take(ctx, func() { close(queued) })
		if err == nil {
			err = p.Release()
		}
		done <- err
	}()
	select {
	case <-queued:
	case err := <-done:
		t.Fatalf("Take returned %v without waiting", err)
	}
	return done
}

func TestSlotsCap(t *testing.T) {
	const n, takers, rounds = 3, 12, 20
	_, _, slots := slotsOf(t)
	var at, most atomic.Int32
	var all sync.WaitGroup
	for range takers {
		s := slots(n)
		for range 2 { // two goroutines of one process
			all.Go(func() {
				for range rounds {
					p, err := s.Take(t.Context(), nil)
					if err != nil {
						t.Error(err)
						return
					}
					now := at.Add(1)
					for {
						seen := most.Load()
						if now <= seen || most.CompareAndSwap(seen, now) {
							break
						}
					}
					at.Add(-1)
					if err := p.Release(); err != nil {
						t.Error(err)
					}
				}
			})
		}
	}
	all.Wait()
	if got := most.Load(); got > n || got < 1 {
		t.Errorf("%d slots were taken at the same time, want at most %d", got, n)
	}
}

func TestSlotsOfKilledProcess(t *testing.T) {
	dir, root, slots := slotsOf(t)
	p := start(t, "slots", nil, dir, root.String(), "2")
	p.expect("took")
	p.expect("took")
	done := taking(t, t.Context(), slots(2))
	p.kill()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

func TestSlotsCancelled(t *testing.T) {
	_, _, slots := slotsOf(t)
	held := mustTake(t, slots(1))
	gone := errors.New("gone")
	first, cancelFirst := context.WithCancelCause(t.Context())
	second, cancelSecond := context.WithCancelCause(t.Context())
	third, cancelThird := context.WithCancelCause(t.Context())
	s := slots(1)
	atHead := taking(t, first, s)
	behind := taking(t, second, s)      // in the line of its process
	other := taking(t, third, slots(1)) // in that of all processes
	last := taking(t, t.Context(), slots(1))
	cancelSecond(gone)
	if err := <-behind; err != gone {
		t.Errorf("Take = %v, want the cause", err)
	}
	cancelThird(gone)
	if err := <-other; err != gone {
		t.Errorf("Take = %v, want the cause", err)
	}
	cancelFirst(gone)
	if err := <-atHead; err != gone {
		t.Errorf("Take = %v, want the cause", err)
	}
	if _, err := slots(1).Take(first, nil); err != gone {
		t.Errorf("Take with an ended context = %v, want the cause", err)
	}
	if err := held.Release(); err != nil {
		t.Fatal(err)
	}
	if err := <-last; err != nil { // those who gave up are in nobody's way
		t.Fatal(err)
	}
}

// TestSlotsDeaf: who does not hear that it is queued keeps nobody waiting, and has no slot after its end.
func TestSlotsDeaf(t *testing.T) {
	_, _, slots := slotsOf(t)
	s := slots(2)
	held := []*Slot{mustTake(t, s), mustTake(t, s)}
	queued, listens, deaf := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	ended, end := context.WithCancelCause(t.Context())
	go func() {
		_, err := s.Take(ended, func() {
			close(queued)
			<-listens
		})
		deaf <- err
	}()
	<-queued
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	other := taking(t, ctx, s)
	for _, p := range held {
		if err := p.Release(); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-other; err != nil {
		t.Errorf("Take behind who does not listen = %v", err)
	}
	cause := errors.New("enough")
	end(cause)
	close(listens)
	if err := <-deaf; err != cause {
		t.Errorf("Take of who has ended before it listened = %v, want %v", err, cause)
	}
	mustTake(t, s)
}

func TestSlotsOfTwoTrees(t *testing.T) {
	dir, root, slots := slotsOf(t)
	held := mustTake(t, slots(1))
	other := Scope{View: View{f: openStoreIn(t, dir, Options{}).f}}.Slots(root+1, 1)
	beside := mustTake(t, other)
	for _, p := range []*Slot{held, beside} {
		if err := p.Release(); err != nil {
			t.Fatal(err)
		}
	}
}
