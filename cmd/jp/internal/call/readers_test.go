package call

import (
	"context"
	"errors"
	"io"
	"sync"
	"testing"
)

// TestReaders runs commands that read, each of which has its stdin from one that comes after all of
// them.
func TestReaders(t *testing.T) {
	places := make(Readers, MaxReaders)
	var all sync.WaitGroup
	run := func(stdin io.Reader, do func(io.Reader) error) {
		all.Go(func() {
			err := places.Run(t.Context(), stdin, func(stdin io.Reader) error {
				err := do(stdin)
				if len(places) == 0 {
					t.Error("it has no place")
				}
				return err
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	var from []*io.PipeWriter
	for range 4 * MaxReaders {
		stdin, stdout := io.Pipe()
		from = append(from, stdout)
		run(stdin, func(stdin io.Reader) error {
			_, err := io.Copy(io.Discard, stdin)
			return err
		})
	}
	for _, stdout := range from {
		_, _ = stdout.Write([]byte("x")) // it waits for more now
	}
	for _, stdout := range from {
		run(nil, func(io.Reader) error { return stdout.Close() })
	}
	all.Wait()
	if len(places) != 0 {
		t.Errorf("%d places are held", len(places))
	}

	for range MaxReaders {
		places <- struct{}{}
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("Ctrl-C")
	cancel(why)
	if err := places.Run(ctx, nil, nil); err != why {
		t.Errorf("Run = %v", err)
	}
}
