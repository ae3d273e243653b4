package trust

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"jp/cmd/jp/internal/exit"
	"jp/tools/files"
)

// lockWait is how long a change of a trust record or a config file waits for another jp, whose
// change takes milliseconds.
const lockWait = 10 * time.Second

// LockFile waits for the lock file, which it makes and never removes, and returns the function that
// unlocks it.
func LockFile(ctx context.Context, file string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return nil, err
	}
	lock, _, err := files.OpenRegular(files.Disk{}, file, os.O_RDWR|os.O_CREATE, files.NoLink)
	if err != nil {
		return nil, err
	}
	got := make(chan error, 1)
	go func() { // a blocked flock cannot be woken
		defer close(got)
		for {
			if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != syscall.EINTR {
				got <- os.NewSyscallError("flock", err)
				return
			}
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	select {
	case err := <-got:
		if err != nil {
			_ = lock.Close()
			return nil, err
		}
		return func() { _ = lock.Close() }, nil
	case <-ctx.Done():
		go func() {
			for range got { // it may come late; then nobody wants it
			}
			_ = lock.Close()
		}()
		if cause := context.Cause(ctx); !errors.Is(cause, context.DeadlineExceeded) {
			return nil, cause
		}
		return nil, (&exit.Error{Code: "busy", Status: exit.Busy, Msg: "another jp is changing it"}).WithHint("try again")
	}
}
