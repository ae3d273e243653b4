package convstore

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"jp/convstore/internal/file"
)

// ClaimError says that another process, or another part of this one, holds a claim.
type ClaimError struct {
	ID     ID
	Name   string
	Holder string // process that holds it; "" = not known
}

func (e *ClaimError) Error() string {
	msg := fmt.Sprintf("conversation %s: %s: busy", e.ID, e.Name)
	if e.Holder != "" {
		msg += ": held by " + file.HeldBy(e.Holder, false)
	}
	return msg
}

// Claim takes a lock on something about a conversation that name names, without waiting: work that
// only one process may do, and that is no run of the conversation. It fails with a *ClaimError if
// the lock is held. Close frees it, or the kernel with the process; no child inherits it.
//
// It is a run lock of an id that no conversation made here has: ids are dates, and these are far
// above them.
func (s *Store) Claim(ctx context.Context, of ID, name string) (io.Closer, error) {
	if s.f.ReadOnly {
		return nil, ErrReadOnly
	}
	if _, err := s.Get(ctx, of); err != nil {
		return nil, err
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "%s %s", of, name))
	lock, err := s.f.TakeRun(int64(1<<62 | binary.BigEndian.Uint64(sum[:])>>2))
	if held, ok := errors.AsType[*BusyError](err); ok {
		return nil, &ClaimError{ID: of, Name: name, Holder: held.Holder}
	}
	if err != nil {
		return nil, err
	}
	return &claim{lock}, nil
}

type claim struct{ lock *file.RunLock }

func (c *claim) Close() error { return c.lock.Drop() }
