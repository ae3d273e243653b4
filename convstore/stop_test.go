package convstore

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"
)

// TestStop: a stop reaches the run that it names, and no other.
func TestStop(t *testing.T) {
	s := openStore(t)
	a, b, idle := mustCreate(t, s, New{}).ID, mustCreate(t, s, New{}).ID, mustCreate(t, s, New{}).ID
	first, second := mustLock(t, s, a), mustLock(t, s, b)
	off, err := second.OnStop(func() { t.Error("the other run was asked too") })
	if err != nil {
		t.Fatal(err)
	}
	defer off()
	if off, err = first.OnStop(func() { _ = first.Close() }); err != nil {
		t.Fatal(err)
	}
	defer off()
	if _, ran, err := s.Stop(t.Context(), a, time.Minute); !ran || err != nil {
		t.Errorf("Stop = %v, %v, want true", ran, err)
	}
	if _, ran, err := s.Stop(t.Context(), idle, time.Minute); ran || err != nil {
		t.Errorf("Stop of a conversation that nobody runs = %v, %v, want false", ran, err)
	}
	mustLock(t, s, idle)
	_, _, err = s.Stop(t.Context(), idle, time.Millisecond)
	if busy := (*BusyError)(nil); !errors.As(err, &busy) || busy.ID != idle {
		t.Errorf("Stop of a run that does not listen = %v, want a *BusyError", err)
	}
	_, _, err = s.Stop(t.Context(), idle+100, time.Minute)
	checkError[*NotFoundError](t, "Stop", err, &NotFoundError{ID: idle + 100})
}

// TestRunning: what runs, and no claim.
func TestRunning(t *testing.T) {
	s := openStore(t)
	a := mustCreate(t, s, New{}).ID
	mustCreate(t, s, New{})
	log := mustLock(t, s, a)
	if claim, err := s.Claim(t.Context(), a, "work"); err != nil {
		t.Fatal(err)
	} else {
		defer claim.Close()
	}
	got, err := s.Running(t.Context())
	if err != nil || len(got) != 1 || got[0].ID != a {
		t.Errorf("Running = %v, %v, want %s", got, err, a)
	}
	ended := make(chan error)
	go func() {
		_, err := s.Await(context.Background(), a)
		ended <- err
	}()
	_ = log.Close()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if got, err := s.Running(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("Running = %v, %v, want none", got, err)
	}
}

// TestStand: a stop reaches all who stand for a conversation, and nobody else.
func TestStand(t *testing.T) {
	s := openStore(t)
	a, b := mustCreate(t, s, New{}).ID, mustCreate(t, s, New{}).ID
	stand := func(id ID, stop func(end func() error)) func() error {
		scope, err := s.Below(t.Context(), id)
		if err != nil {
			t.Fatal(err)
		}
		end := make(chan func() error, 1)
		e, err := scope.Stand(func() { stop(<-end) })
		if err != nil {
			t.Fatal(err)
		}
		end <- e
		return e
	}
	for range 2 {
		stand(a, func(end func() error) { _ = end() })
	}
	other := stand(b, func(func() error) { t.Error("the stand for another conversation was asked too") })
	if got, err := s.Stands(); err != nil || !slices.Equal(got, []ID{a, b}) {
		t.Errorf("Stands = %v, %v, want %v", got, err, []ID{a, b})
	}
	if got, err := s.Running(t.Context()); err != nil || len(got) != 0 {
		t.Errorf("Running = %v, %v, want none", got, err)
	}
	if _, ran, err := s.Stop(t.Context(), a, time.Minute); ran || err != nil {
		t.Errorf("Stop = %v, %v, want false", ran, err)
	}
	if got, err := s.Stands(); err != nil || !slices.Equal(got, []ID{b}) {
		t.Errorf("Stands = %v, %v, want %v", got, err, []ID{b})
	}
	if err := other(); err != nil {
		t.Error(err)
	}
	stand(a, func(func() error) {})
	_, _, err := s.Stop(t.Context(), a, time.Millisecond)
	if busy := (*BusyError)(nil); !errors.As(err, &busy) || busy.ID != a {
		t.Errorf("Stop of a stand that does not end = %v, want a *BusyError of %s", err, a)
	}
}
