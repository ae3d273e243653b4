// Package db runs transactions on the file of a store: a bbolt file in a folder that many processes
// share. It knows the buckets and their keys, but not what the values mean.
//
// A Base keeps no file open. Its Session waits for the lock, opens the file, calls one function,
// and closes the file. If bbolt panics on a corrupt page, Session returns a *DamagedError. View
// runs a transaction in an open session, Write a session with one transaction.
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

// Tx is one transaction. It is valid until the function that it is passed to returns, and so is
// everything that bbolt returns from it.
type Tx struct {
	F    *Base
	Bolt *bbolt.Tx
	Now  time.Time // when it began

	h       *Handle
	buckets [bucketCount]*bbolt.Bucket
}

// ErrUnchanged makes Write roll back and succeed: there was nothing to write.
var ErrUnchanged = errors.New("unchanged")

// damage is the panic of a transaction that misses a part that every store has. Guarded turns it
// into a *DamagedError.
type damage struct{ error }

// View runs fn in a read transaction of an open handle. It fails with a *SchemaError if the schema
// of the file is not Options.Version.
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

// Write runs fn in a write transaction and commits it durably. If fn fails, nothing is changed.
// Write does not check the schema: fn migrates.
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

// commitError returns the error for a commit that failed. If the disk is full, nothing of the
// commit is valid. If the disk fails, it is not known whether the last flush succeeded.
func (f *Base) commitError(err error) error {
	if errors.Is(err, syscall.EIO) {
		return fmt.Errorf("store %s: it is not certain that this was written: %w", f.StorePath(), err)
	}
	return fmt.Errorf("store %s: nothing was written: %w", f.StorePath(), err)
}

// Session opens the store, calls use, and closes the store. On a corrupt page bbolt panics, and on
// a page that the file no longer has the kernel sends a signal. Session returns a *DamagedError for
// both. It passes on any other panic and releases the lock.
func (f *Base) Session(ctx context.Context, write bool, use func(*Handle) error) (err error) {
	return f.Guarded(func(h *Handle) error { return f.open(ctx, write, h) }, use)
}

// Guarded is Session for a file that the function open opens.
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

// damageOf returns the damage of the store that caused a panic, or nil if the panic did not come
// from reading the store. The deferred function that recovered must call it, since it reads the
// stack of the panic.
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

// Schema returns the schema version of the file. It panics with damage on a bbolt file that is not
// a store.
func (t *Tx) Schema() int {
	meta := t.Bolt.Bucket([]byte(BucketNames[Meta]))
	if meta == nil {
		panic(damage{fmt.Errorf("a bbolt file, but not a store")})
	}
	v := meta.Get([]byte(SchemaKey))
	if len(v) != 8 || v[0] != 0 || v[1] != 0 || v[2] != 0 || v[3] != 0 {
		panic(damage{fmt.Errorf("meta: no schema version")})
	}
	return int(binary.BigEndian.Uint64(v))
}

// MakeBucket creates a bucket that a store of an earlier schema may not have.
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
			// Within a conversation their keys are added in order, so a page that is split gets few
			// more entries. By default bbolt would leave it half empty.
			t.buckets[n].FillPercent = 0.9
		}
	}
	return t.buckets[n]
}

// Damaged returns the error for an invalid record.
func (t *Tx) Damaged(format string, args ...any) error {
	return &DamagedError{Path: t.F.StorePath(), Err: fmt.Errorf(format, args...)}
}

// Put is bbolt's Put, with the name of the store in the error.
func (t *Tx) Put(n BucketNumber, key, value []byte) error {
	if err := t.Bucket(n).Put(key, value); err != nil {
		return fmt.Errorf("store %s: %s: %w", t.F.StorePath(), BucketNames[n], err)
	}
	return nil
}

// Drop is bbolt's Delete, with the name of the store in the error.
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
	// bbolt's cursor skips an entry after a delete, so the keys are collected first.
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

// MapPages calls use with the pages of the file.
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
