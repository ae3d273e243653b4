package attach

import (
	"context"
	"io"
	"os"
	"syscall"
)

// Schema reads the file of an answer's schema, at most 1 MiB. If it is a pipe, it waits until
// somebody writes. When ctx ends it returns, but its goroutine keeps waiting.
func (r *Reader) Schema(ctx context.Context, path string) ([]byte, error) {
	at, name, done, err := r.place(path)
	if err != nil {
		return nil, err
	}
	type result struct {
		b   []byte
		err error
	}
	read := make(chan result, 1)
	go func() {
		defer done()
		f, err := at.OpenFile(name, os.O_RDONLY|syscall.O_NOCTTY, 0)
		if err != nil {
			read <- result{nil, err}
			return
		}
		defer f.Close()
		b, err := io.ReadAll(io.LimitReader(f, 1<<20)) // a larger schema is refused later
		read <- result{b, err}
	}()
	select {
	case r := <-read:
		return r.b, r.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
