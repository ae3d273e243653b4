package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// trustWait is how long a change of a trust record waits for another jp's, which takes milliseconds.
const trustWait = 10 * time.Second

// changeTrust replaces the record in file by what change makes of the present one (nil = none, or none that counts), as one
// step: no other jp changes it meanwhile. A file of its own is locked, since the record is replaced, and never removed.
func (a *app) changeTrust(ctx context.Context, file, canonical string, change func(now *trustRecord) trustRecord) error {
	unlock, err := lockTrust(ctx, file)
	if err != nil {
		return fmt.Errorf("trust record: %w", err)
	}
	defer unlock()
	now, _ := readTrust(file, canonical)
	r := change(now)
	r.Workspace, r.TrustedAt = canonical, time.Now().UTC().Truncate(time.Second)
	if err := writeTrust(file, r); err != nil {
		return fmt.Errorf("trust record: %w", err)
	}
	return nil
}

// lockTrust waits for the lock on the record in file and returns what gives it up.
func lockTrust(ctx context.Context, file string) (unlock func(), err error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return nil, err
	}
	const flags = os.O_RDWR | os.O_CREATE | syscall.O_NOFOLLOW | syscall.O_NONBLOCK
	lock, err := os.OpenFile(file+".lock", flags, 0o600)
	if err != nil {
		return nil, err
	}
	got := make(chan error, 1)
	go func() { // a blocked flock cannot be woken
		for {
			if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != syscall.EINTR {
				got <- os.NewSyscallError("flock", err)
				return
			}
		}
	}()
	ctx, cancel := context.WithTimeout(ctx, trustWait)
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
			<-got
			_ = lock.Close()
		}()
		if cause := context.Cause(ctx); !errors.Is(cause, context.DeadlineExceeded) {
			return nil, cause
		}
		return nil, (&failure{code: "busy", status: exitBusy, msg: "another jp is changing it"}).withHint("try again")
	}
}
