package db

import (
	"context"
	"errors"
	"time"

	"jp/convstore/internal/file"
)

// A run writes what was paid for. If the disk is full, its write is tried again every pause. It waits
// outside of the queue, in the goroutine of its caller: so nobody in the queue waits for room. All
// wait for the same moments, and are tried in one group.

const (
	defaultPause = time.Second
	roomDeadline = 10 * time.Minute
)

// writeWithRoom is Write.
func (f *Base) writeWithRoom(ctx context.Context, fn func(*Tx) error) error {
	w := &write{fn: fn}
	err := f.write(ctx, w)
	if !w.full {
		return err
	}
	stop := file.Room(ctx, f.Patient)
	if stop == nil {
		return err
	}
	q := f.queue
	since, first := q.fill()
	if first {
		f.Notice("the disk is full: waiting for space")
	}
	for w.full && time.Since(since) < roomDeadline {
		select {
		case <-time.After(q.pause - time.Since(since)%q.pause):
		case <-stop:
			return err
		case <-ctx.Done():
			return err
		}
		w = &write{fn: fn}
		again := f.write(ctx, w)
		if cause := context.Cause(ctx); cause != nil && errors.Is(again, cause) { // stopped in the queue
			return err
		}
		err = again
	}
	return err
}

// fill returns since when the disk has been full for a run that waits, and whether that is news.
func (q *queue) fill() (since time.Time, first bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if first = q.full.IsZero(); first {
		q.full = time.Now()
	}
	return q.full, first
}
