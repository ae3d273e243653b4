// Package db runs transactions on the file of a store: a bbolt file in a folder that many processes
// share. It knows the buckets and their keys, and not what is in them.
//
// A Base opens nothing. Its Session waits for the lock, opens the file for the length of one
// function, and closes it. What bbolt panics with on a corrupt page is a *DamagedError there. View
// and Write run a transaction in such a session.
package db

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"syscall"
	"time"

	"go.etcd.io/bbolt"

	"jp/convstore/internal/page"
)

// Tx is one transaction. It lives as long as the function it is given to, and so does everything
// that bbolt returns from it.
type Tx struct {
	F    *Base
	Bolt *bbolt.Tx
	Now  time.Time // when it began

	h       *Handle
	buckets [bucketCount]*bbolt.Bucket
}

// ErrUnchanged makes Write roll back and succeed: there was nothing to write.
var ErrUnchanged = errors.New("unchanged")

// damage is the panic by which a transaction says that the store lacks what every store has;
// Guarded turns it into a *DamagedError.
type damage struct{ error }

// View runs fn in a read transaction of an open handle. It fails with a *SchemaError where the file
// has another schema than Options.Version.
func (f *Base) View(h *Handle, fn func(*Tx) error) error {
	b, err := h.db.Begin(false)
	if err != nil {
		return f.openError(err)
	}
	t := &Tx{F: f, Bolt: b, h: h, Now: f.Now().Round(0)}
	if have := t.Schema(); have != f.version {
		err = &SchemaError{Path: f.StorePath(), Have: have, Want: f.version}
	} else {
		err = fn(t)
	}
	if rolled := b.Rollback(); err == nil {
		err = rolled
	}
	return err
}

// Write runs fn and commits what it did, durably, or nothing when it fails. It does not look at the
// schema: fn migrates.
func (f *Base) Write(ctx context.Context, fn func(*Tx) error) error {
	if f.ReadOnly {
		return ErrReadOnly
	}
	return f.Session(ctx, true, func(h *Handle) error {
		b, err := h.db.Begin(true)
		if err != nil {
			return f.openError(err)
		}
		if err := fn(&Tx{F: f, Bolt: b, h: h, Now: f.Now().Round(0)}); err != nil {
			if rolled := b.Rollback(); rolled != nil {
				err = errors.Join(err, rolled)
			}
			if err == ErrUnchanged {
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
func (f *Base) commitError(err error) error {
	if errors.Is(err, syscall.EIO) {
		return fmt.Errorf("store %s: it is not certain that this was written: %w", f.StorePath(), err)
	}
	return fmt.Errorf("store %s: nothing was written: %w", f.StorePath(), err)
}

// Session opens the store for the length of use, which may panic: bbolt does on a corrupt page, and
// the kernel sends a signal for one that the file no longer has. Both become a *DamagedError; any
// other panic goes on, with the lock given up.
func (f *Base) Session(ctx context.Context, write bool, use func(*Handle) error) (err error) {
	return f.Guarded(func(h *Handle) error { return f.open(ctx, write, h) }, use)
}

// Guarded is Session of a file that open opens.
func (f *Base) Guarded(open, use func(*Handle) error) (err error) {
	var h Handle
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	orderly := false
	defer func() {
		if orderly {
			return
		}
		r := recover()
		h.Abandon()
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

// damageOf returns what a panic says about the store, or nil when the panic did not come from
// reading it. It is called by the deferred function that recovered it, while the stack below is
// still there.
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

// Schema returns the version that the file says it has. A file without one is somebody else's.
func (t *Tx) Schema() int {
	meta := t.Bolt.Bucket([]byte(BucketNames[Meta]))
	if meta == nil {
		panic(damage{fmt.Errorf("a bbolt file, but no store")})
	}
	v := meta.Get([]byte(SchemaKey))
	if len(v) != 8 || v[0] != 0 || v[1] != 0 || v[2] != 0 || v[3] != 0 {
		panic(damage{fmt.Errorf("meta: no schema version")})
	}
	return int(binary.BigEndian.Uint64(v))
}

// MakeBucket makes a bucket that a store of an earlier schema does not have.
func (t *Tx) MakeBucket(n BucketNumber) error {
	_, err := t.Bolt.CreateBucketIfNotExists([]byte(BucketNames[n]))
	return err
}

// Bucket returns one of the buckets that every store has.
func (t *Tx) Bucket(n BucketNumber) *bbolt.Bucket {
	if t.buckets[n] == nil {
		t.buckets[n] = t.Bolt.Bucket([]byte(BucketNames[n]))
		if t.buckets[n] == nil {
			panic(damage{fmt.Errorf("bucket %s is missing", BucketNames[n])})
		}
		switch n {
		case Events, EventIDs, Turns:
			// Their keys come in order within a conversation: a page that is split has seen most of
			// what it will ever hold. bbolt would leave it half empty.
			t.buckets[n].FillPercent = 0.9
		}
	}
	return t.buckets[n]
}

// Damaged returns the error for a record that is not as it must be.
func (t *Tx) Damaged(format string, args ...any) error {
	return &DamagedError{Path: t.F.StorePath(), Err: fmt.Errorf(format, args...)}
}

// Put is bbolt's Put with the store named in the error.
func (t *Tx) Put(n BucketNumber, key, value []byte) error {
	if err := t.Bucket(n).Put(key, value); err != nil {
		return fmt.Errorf("store %s: %s: %w", t.F.StorePath(), BucketNames[n], err)
	}
	return nil
}

// Drop is bbolt's Delete with the store named in the error.
func (t *Tx) Drop(n BucketNumber, key []byte) error {
	if err := t.Bucket(n).Delete(key); err != nil {
		return fmt.Errorf("store %s: %s: %w", t.F.StorePath(), BucketNames[n], err)
	}
	return nil
}

// Prefixed calls fn for every entry whose key begins with prefix, in order, until fn fails. fn must
// not write to the bucket.
func (t *Tx) Prefixed(n BucketNumber, prefix []byte, fn func(k, v []byte) error) error {
	c := t.Bucket(n).Cursor()
	for k, v := c.Seek(prefix); k != nil && bytes.HasPrefix(k, prefix); k, v = c.Next() {
		if err := fn(k, v); err != nil {
			return err
		}
	}
	return nil
}

// DropPrefixed removes every entry whose key begins with prefix.
func (t *Tx) DropPrefixed(n BucketNumber, prefix []byte) error {
	// bbolt's cursor skips an entry after a delete, so the keys come first.
	var keys [][]byte
	c := t.Bucket(n).Cursor()
	for k, _ := c.Seek(prefix); k != nil && bytes.HasPrefix(k, prefix); k, _ = c.Next() {
		keys = append(keys, k)
	}
	for _, k := range keys {
		if err := t.Drop(n, k); err != nil {
			return err
		}
	}
	return nil
}

// MapPages gives use the pages of the file.
func (t *Tx) MapPages(ms *page.Mappings, use func(*page.Map) error) error {
	info, err := t.h.File.Stat()
	if err != nil {
		return t.F.SystemError(err)
	}
	p, err := page.Open(t.h.File, info.Size())
	if err != nil {
		return t.Damaged("%w", err)
	}
	m, err := ms.Map(t.h.File, p)
	if err != nil {
		return t.F.SystemError(err)
	}
	defer m.Done()
	return use(m)
}
