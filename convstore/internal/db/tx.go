// Package db runs transactions on the file of a store: a bbolt file in a folder that many processes
// share. It knows the buckets and their keys, but not what the values mean.
//
// A Base locks no file between its sessions. Its Session waits for the lock, opens the file or goes
// on with the one of the session before, calls one function, and unlocks the file. If bbolt panics
// on a corrupt page, Session returns a *DamagedError. View runs a transaction in an open session,
// Write a session with one transaction.
package db

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"go.etcd.io/bbolt"

	"jp/convstore/internal/file"
	"jp/convstore/internal/page"
)

// Tx is one transaction. It is valid until the function that it is passed to returns, and so is
// everything that bbolt returns from it.
type Tx struct {
	F    *Base
	Bolt *bbolt.Tx
	Now  time.Time // when it began

	h       *Handle
	paths   *page.Paths
	buckets [bucketCount]Bucket
	wrote   int // bytes that were put or dropped
	undo    []func()
	after   []func()
}

// Undo has fn called if what this run of the function has written is not kept: if the function
// fails, is to be run again, or cannot be committed.
func (t *Tx) Undo(fn func()) { t.undo = append(t.undo, fn) }

// After has fn called once this run of the function has been committed.
func (t *Tx) After(fn func()) { t.after = append(t.after, fn) }

// undone calls the functions of Undo, the last one first.
func (t *Tx) undone() {
	for _, fn := range slices.Backward(t.undo) {
		fn()
	}
	t.undo, t.after = nil, nil
}

// TakeRun is Base.TakeRun that frees the lock again if what this run has written is not kept.
func (t *Tx) TakeRun(id int64) (*file.RunLock, error) {
	lock, err := t.F.TakeRun(id)
	if err == nil {
		t.Undo(func() { _ = lock.Drop() })
	}
	return lock, err
}

// ErrUnchanged makes Write roll back and succeed: there was nothing to write.
var ErrUnchanged = errors.New("unchanged")

// damage is the panic of a transaction that misses a part that every store has. Guarded turns it
// into a *DamagedError.
type damage struct{ error }

// View runs fn in a read transaction of an open handle. It fails with a *SchemaError if the schema
// of the file is not Options.Version or, if the Base is ReadOnly, one from Options.Reads on.
func (f *Base) View(h *Handle, fn func(*Tx) error) error {
	b, err := h.db.Begin(false)
	if err != nil {
		return f.openError(err)
	}
	t := &Tx{F: f, Bolt: b, h: h, paths: h.paths(b), Now: f.Now().Round(0)}
	if have := t.Schema(); have > f.version || have < f.reads {
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
//
// Calls that overlap in this process share a transaction and its flush, see group.go. So fn can be
// run more than once, in another goroutine, one run after the other; only the last run counts. What
// fn sets outside of the transaction it must set again in each run, or take back with Tx.Undo. fn
// must not call Write, nor wait for a mutex that somebody holds who calls Write.
func (f *Base) Write(ctx context.Context, fn func(*Tx) error) error {
	return f.writeWithRoom(ctx, fn)
}

// WriteOnce is Write for a function that must not be run again. It shares its transaction with no
// other.
func (f *Base) WriteOnce(ctx context.Context, fn func(*Tx) error) error {
	return f.write(ctx, &write{fn: fn, alone: true, once: true})
}

// commitError returns the error for a commit that failed. Nothing of it is valid before its meta is written. If
// only the flush of that failed, others read it, and it may be gone after a power cut. The commit may be valid, too,
// if the disk fails.
func (f *Base) commitError(err error, maybe bool) error {
	if maybe {
		return fmt.Errorf("store %s: it is not certain that this was written: %w", f.StorePath(), err)
	}
	return fmt.Errorf("store %s: nothing was written: %w", f.StorePath(), err)
}

// Session opens the store, calls use, and closes the store. On a corrupt page bbolt panics, and on
// a page that the file no longer has the kernel sends a signal. Session returns a *DamagedError for
// both. It passes on any other panic and releases the lock.
func (f *Base) Session(ctx context.Context, write bool, use func(*Handle) error) (err error) {
	return f.Guarded(func(h *Handle) error { return f.open(f.Wait(ctx), write, h) }, use)
}

// Guarded is Session for a file that the function open opens.
func (f *Base) Guarded(open, use func(*Handle) error) (err error) {
	var h Handle
	var kept *Handle
	defer func() {
		if h.from != nil {
			h.from.give(kept)
		}
	}()
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
		err = f.openError(cause)
	}()
	if err := open(&h); err != nil {
		orderly = true
		return err
	}
	err = use(&h)
	if orderly = err == nil && h.from != nil; orderly {
		kept = h.keep()
		return nil
	}
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
	t.wrote++
	_, err := t.Bolt.CreateBucketIfNotExists([]byte(BucketNames[n]))
	return err
}

// Damaged returns the error for an invalid record.
func (t *Tx) Damaged(format string, args ...any) error {
	return &DamagedError{Path: t.F.StorePath(), Err: fmt.Errorf(format, args...)}
}

// Put is bbolt's Put, with the name of the store in the error.
func (t *Tx) Put(n BucketNumber, key, value []byte) error {
	t.wrote += len(key) + len(value)
	if err := t.Bucket(n).changing(key, false).Put(key, value); err != nil {
		return fmt.Errorf("store %s: %s: %w", t.F.StorePath(), BucketNames[n], err)
	}
	return nil
}

// Add is Put for a key that the bucket does not have. It fails with a *DamagedError if it has the
// key: what says that the key is free is older than the entry, which Put would overwrite.
func (t *Tx) Add(n BucketNumber, key, value []byte) error {
	if t.Bucket(n).Get(key) != nil {
		return t.Damaged("%s: %x is there already", BucketNames[n], key)
	}
	return t.Put(n, key, value)
}

// Drop is bbolt's Delete, with the name of the store in the error.
func (t *Tx) Drop(n BucketNumber, key []byte) error {
	t.wrote += len(key)
	if err := t.Bucket(n).changing(key, true).Delete(key); err != nil {
		return fmt.Errorf("store %s: %s: %w", t.F.StorePath(), BucketNames[n], err)
	}
	return nil
}

// NextNumber adds one to the sequence of a bucket and returns it. It fails with a *DamagedError if the
// bucket has an entry of prefix and that number: the sequence is older than the entry.
func (t *Tx) NextNumber(n BucketNumber, prefix []byte) (uint64, error) {
	t.wrote += 8
	number, err := t.Bucket(n).changing(nil, false).NextSequence() // changes the page where the bucket begins
	if err != nil {
		return 0, fmt.Errorf("store %s: %s: %w", t.F.StorePath(), BucketNames[n], err)
	}
	if t.Bucket(n).Get(append(bytes.Clone(prefix), Key(number)...)) != nil {
		return 0, t.Damaged("%s: number %d is there already", BucketNames[n], number)
	}
	return number, nil
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

// DropPrefixed removes every entry whose key begins with one of the prefixes.
//
// All keys are collected first. bbolt's cursor skips an entry after a delete, and looks for the next
// one in each leaf that this transaction has emptied.
func (t *Tx) DropPrefixed(n BucketNumber, prefixes ...[]byte) error {
	var keys [][]byte
	for _, prefix := range prefixes {
		if err := t.Prefixed(n, prefix, func(k, _ []byte) error { keys = append(keys, k); return nil }); err != nil {
			return err
		}
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
