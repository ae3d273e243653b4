package convstore

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"go.etcd.io/bbolt"

	"jp/convstore/internal/file"
)

// tx is one transaction. It lives as long as the function it is given to, and so
// does everything that bbolt returns from it.
type tx struct {
	f       *base
	b       *bbolt.Tx
	h       *handle
	now     time.Time
	buckets [bucketCount]*bbolt.Bucket
	roots   map[ID]ID // memo of rootOf
	runs    *file.RunProbe
	mine    map[ID]bool // run locks that count as the transaction's own, see takeAll

	migrated bool // the store was of an earlier schema
}

// errUnchanged makes write roll back and succeed: there was nothing to write.
var errUnchanged = errors.New("unchanged")

// damage is the panic by which a transaction says that the store lacks what
// every store has; guard turns it into a *DamagedError.
type damage struct{ error }

// read runs fn on the store as it is, or returns errAbsent. Nothing that fn is
// given may be kept.
func (f *base) read(ctx context.Context, fn func(*tx) error) error {
	err := f.readOnce(ctx, fn)
	var schema *SchemaError
	if errors.As(err, &schema) && schema.Have < schema.Want && !f.readOnly {
		if err := f.bring(ctx); err != nil {
			return err
		}
		return f.readOnce(ctx, fn)
	}
	return err
}

func (f *base) readOnce(ctx context.Context, fn func(*tx) error) error {
	return f.session(ctx, false, func(h *handle) error { return f.view(h, fn) })
}

// view runs fn in a read transaction of an open handle.
func (f *base) view(h *handle, fn func(*tx) error) error {
	b, err := h.db.Begin(false)
	if err != nil {
		return f.openError(err)
	}
	t := &tx{f: f, b: b, h: h, now: f.now().Round(0)}
	defer t.close()
	if have := t.schema(); have != schemaVersion {
		err = &SchemaError{Path: f.StorePath(), Have: have, Want: schemaVersion}
	} else {
		err = fn(t)
	}
	if rolled := b.Rollback(); err == nil {
		err = rolled
	}
	return err
}

// bring migrates a store from an earlier schema. It writes nothing where somebody else has done so.
func (f *base) bring(ctx context.Context) error {
	return f.write(ctx, func(t *tx) error {
		if !t.migrated {
			return errUnchanged
		}
		return nil
	})
}

// write runs fn and commits what it did, durably, or nothing when it fails.
func (f *base) write(ctx context.Context, fn func(*tx) error) error {
	if f.readOnly {
		return ErrReadOnly
	}
	return f.session(ctx, true, func(h *handle) error {
		b, err := h.db.Begin(true)
		if err != nil {
			return f.openError(err)
		}
		t := &tx{f: f, b: b, h: h, now: f.now().Round(0)}
		defer t.close()
		err = t.migrate(migrations, schemaVersion)
		if err == nil {
			err = fn(t)
		}
		if err != nil {
			if rolled := b.Rollback(); rolled != nil {
				err = errors.Join(err, rolled)
			}
			if err == errUnchanged {
				return nil
			}
			return err
		}
		if err := b.Commit(); err != nil {
			return f.commitError(err)
		}
		return nil
	})
}

// commitError returns the error for a commit that failed. One that failed for want of room has
// written nothing that counts. Where the disk fails, nobody knows what the last flush has done.
func (f *base) commitError(err error) error {
	if errors.Is(err, syscall.EIO) {
		return fmt.Errorf("store %s: it is not certain that this was written: %w", f.StorePath(), err)
	}
	return fmt.Errorf("store %s: nothing was written: %w", f.StorePath(), err)
}

// session opens the store for the length of use, which may panic: bbolt does on
// a corrupt page, and the kernel sends a signal for one that the file no longer
// has. Both become a *DamagedError; any other panic goes on, with the lock given
// up.
func (f *base) session(ctx context.Context, write bool, use func(*handle) error) (err error) {
	return f.guarded(func(h *handle) error { return f.open(ctx, write, h) }, use)
}

func (f *base) guarded(open, use func(*handle) error) (err error) {
	var h handle
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	orderly := false
	defer func() {
		if orderly {
			return
		}
		r := recover()
		h.abandon()
		if r == nil {
			return // the goroutine is ending
		}
		cause := damageOf(r)
		if cause == nil {
			panic(r)
		}
		err = &DamagedError{Path: f.StorePath(), Err: cause}
	}()
	if err := open(&h); err != nil {
		orderly = true
		return err
	}
	err = use(&h)
	closed := h.close()
	orderly = true
	if err == nil && closed != nil {
		err = f.SystemError(closed)
	}
	return err
}

// damageOf returns what a panic says about the store, or nil when the panic did
// not come from reading it. It is called by the deferred function that recovered
// it, while the stack below is still there.
func damageOf(r any) error {
	if d, ok := r.(damage); ok {
		return d.error
	}
	if _, ok := r.(interface{ Addr() uintptr }); ok {
		return errors.New("a page lies outside of the file")
	}
	pcs := make([]uintptr, 64)
	frames := runtime.CallersFrames(pcs[:runtime.Callers(2, pcs)])
	for thrown := false; ; {
		frame, more := frames.Next()
		switch {
		case frame.Function == "runtime.gopanic":
			thrown = true
		case !thrown || strings.HasPrefix(frame.Function, "runtime."):
		case strings.HasPrefix(frame.Function, "go.etcd.io/bbolt"):
			return fmt.Errorf("a page makes no sense: %v", r)
		default:
			return nil
		}
		if !more {
			return nil
		}
	}
}

// close lets go of what the transaction opened beside the store.
func (t *tx) close() {
	if t.runs != nil {
		t.runs.Close()
	}
}

// bucket returns one of the buckets that every store has.
func (t *tx) bucket(n bucketNumber) *bbolt.Bucket {
	if t.buckets[n] == nil {
		t.buckets[n] = t.b.Bucket([]byte(bucketNames[n]))
		if t.buckets[n] == nil {
			panic(damage{fmt.Errorf("bucket %s is missing", bucketNames[n])})
		}
		switch n {
		case bEvents, bEventIDs, bTurns:
			// Their keys come in order within a conversation: a page that is split has
			// seen most of what it will ever hold. bbolt would leave it half empty.
			t.buckets[n].FillPercent = 0.9
		}
	}
	return t.buckets[n]
}

// damaged returns the error for a record that is not as it must be.
func (t *tx) damaged(format string, args ...any) error {
	return &DamagedError{Path: t.f.StorePath(), Err: fmt.Errorf(format, args...)}
}

// put and drop are bbolt's Put and Delete with the store named in the error.
func (t *tx) put(n bucketNumber, key, value []byte) error {
	if err := t.bucket(n).Put(key, value); err != nil {
		return fmt.Errorf("store %s: %s: %w", t.f.StorePath(), bucketNames[n], err)
	}
	return nil
}

func (t *tx) drop(n bucketNumber, key []byte) error {
	if err := t.bucket(n).Delete(key); err != nil {
		return fmt.Errorf("store %s: %s: %w", t.f.StorePath(), bucketNames[n], err)
	}
	return nil
}

// prefixed calls fn for every entry whose key begins with prefix, in order,
// until fn fails. fn must not write to the bucket.
func (t *tx) prefixed(n bucketNumber, prefix []byte, fn func(k, v []byte) error) error {
	c := t.bucket(n).Cursor()
	for k, v := c.Seek(prefix); k != nil && bytes.HasPrefix(k, prefix); k, v = c.Next() {
		if err := fn(k, v); err != nil {
			return err
		}
	}
	return nil
}

// dropPrefixed removes every entry whose key begins with prefix.
func (t *tx) dropPrefixed(n bucketNumber, prefix []byte) error {
	// bbolt's cursor skips an entry after a delete, so the keys come first.
	var keys [][]byte
	c := t.bucket(n).Cursor()
	for k, _ := c.Seek(prefix); k != nil && bytes.HasPrefix(k, prefix); k, _ = c.Next() {
		keys = append(keys, k)
	}
	for _, k := range keys {
		if err := t.drop(n, k); err != nil {
			return err
		}
	}
	return nil
}
