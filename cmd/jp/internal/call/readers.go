package call

import (
	"context"
	"io"
)

// MaxReaders is the length of Readers.
const MaxReaders = 4

// Readers has one element for each call and command that reads conversations now. Each may keep what
// it reads, and there can be a thousand at once. nil = any number.
type Readers chan struct{}

// Run runs do when it has a place. While do waits for stdin it has none: that may come from another
// command. It must wait for nothing else that needs a place, so that nobody who has one waits for
// somebody who has none.
func (r Readers) Run(ctx context.Context, stdin io.Reader, do func(stdin io.Reader) error) error {
	if r == nil {
		return do(stdin)
	}
	select {
	case r <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-r }()
	return do(yielding{stdin, r})
}

// yielding is the stdin of who has a place.
type yielding struct {
	io.Reader
	places Readers
}

func (y yielding) Read(p []byte) (int, error) {
	<-y.places
	defer func() { y.places <- struct{}{} }()
	return y.Reader.Read(p)
}
