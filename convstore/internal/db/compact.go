package db

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"go.etcd.io/bbolt"
	"golang.org/x/sys/unix"

	"jp/convstore/internal/file"
	"jp/convstore/internal/page"
)

// Space is the size of the store's file in bytes. The file never shrinks by itself: new data takes
// the space of what was removed.
type Space struct {
	Size int64
	Free int64 // part of Size that Compact would give back
}

// Worth reports whether it is worth while to compact: at least a quarter of the file, and 4 MiB,
// are free.
func (s Space) Worth() bool { return s.Free >= 4<<20 && s.Free >= s.Size/4 }

// Space returns the size of an open file.
func (f *Base) Space(file *os.File) (Space, error) {
	info, err := file.Stat()
	if err != nil {
		return Space{}, f.SystemError(err)
	}
	p, err := page.Open(file, info.Size())
	if err != nil {
		return Space{}, f.openError(err)
	}
	return Space{Size: info.Size(), Free: p.FreeBytes()}, nil
}

// compactBatch is the size in bytes of one transaction of the new file.
const compactBatch = 16 << 20

// Rewrite copies the store entry by entry, and replaces it by the copy if that is smaller.
func (f *Base) Rewrite(ctx context.Context, h *Handle, before Space) (after Space, err error) {
	unfinished := f.Path(file.SmallerName)
	if err := os.Remove(unfinished); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return after, f.SystemError(err)
	}
	renamed := false
	defer func() {
		if !renamed { // otherwise another process may be compacting again
			_ = os.Remove(unfinished)
		}
	}()
	db, err := bbolt.Open(unfinished, 0o600, &bbolt.Options{
		NoStatistics: true, NoSync: true, NoGrowSync: true, // Sync below flushes it once
		OpenFile: func(path string, flag int, mode os.FileMode) (*os.File, error) {
			return os.OpenFile(path, flag|os.O_EXCL|unix.O_NOFOLLOW, mode)
		},
	})
	if err != nil {
		return after, f.SystemError(err)
	}
	err = f.copyInto(ctx, db, h)
	if closed := db.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return after, fmt.Errorf("store %s: not compacted, and as it was: %w", f.StorePath(), err)
	}
	made, err := file.OpenOwn(unfinished, os.O_RDWR)
	if err != nil {
		return after, f.SystemError(err)
	}
	defer made.Close()
	if err := trim(made); err != nil {
		return after, f.SystemError(err)
	}
	if after, err = f.Space(made); err != nil {
		return after, err
	}
	if after.Size >= before.Size {
		return before, nil
	}
	if err := made.Sync(); err != nil {
		return after, f.SystemError(err)
	}
	// Whoever comes after the rename locks the new file, and must not write to it before the folder is
	// flushed: a power cut could bring the old file back.
	if err := file.Flock(made, unix.LOCK_EX); err != nil {
		return after, f.SystemError(os.NewSyscallError("flock", err))
	}
	if err := os.Rename(unfinished, f.StorePath()); err != nil {
		return after, f.SystemError(err)
	}
	renamed = true
	return after, file.SyncDir(f.Dir)
}

// trim cuts the file off after its last page in use.
func trim(file *os.File) error {
	info, err := file.Stat()
	if err != nil {
		return err
	}
	p, err := page.Open(file, info.Size())
	if err != nil {
		return err
	}
	return file.Truncate(p.Bytes())
}

// copyInto copies all entries of the store into an empty file, and compares the two.
func (f *Base) copyInto(ctx context.Context, dst *bbolt.DB, h *Handle) error {
	src, err := h.db.Begin(false)
	if err != nil {
		return err
	}
	defer func() { _ = src.Rollback() }()
	if err := src.ForEach(func(name []byte, from *bbolt.Bucket) error { return copyBucket(ctx, dst, name, from) }); err != nil {
		return err
	}
	return dst.View(func(copied *bbolt.Tx) error { return sameContent(ctx, src, copied) })
}

// copyBucket copies one bucket, in transactions of a bounded size.
func copyBucket(ctx context.Context, dst *bbolt.DB, name []byte, from *bbolt.Bucket) error {
	c := from.Cursor()
	k, v := c.First()
	for first := true; first || k != nil; first = false {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err := dst.Update(func(t *bbolt.Tx) error {
			to, err := t.CreateBucketIfNotExists(name)
			if err != nil {
				return err
			}
			to.FillPercent = 0.9 // the keys come in order
			if err := to.SetSequence(from.Sequence()); err != nil {
				return err
			}
			for size := 0; k != nil && size < compactBatch; k, v = c.Next() {
				if v == nil {
					return fmt.Errorf("bucket %s: holds a bucket %q", name, k)
				}
				if err := to.Put(k, v); err != nil {
					return err
				}
				size += len(k) + len(v)
			}
			return nil
		}); err != nil {
			return err
		}
	}
	return nil
}

var errCopyDiffers = errors.New("the copy differs from the store")

// sameContent compares two files entry by entry.
func sameContent(ctx context.Context, a, b *bbolt.Tx) error {
	buckets := 0
	if err := b.ForEach(func([]byte, *bbolt.Bucket) error { buckets--; return nil }); err != nil {
		return err
	}
	if err := a.ForEach(func(name []byte, of *bbolt.Bucket) error {
		buckets++
		to := b.Bucket(name)
		if to == nil || to.Sequence() != of.Sequence() {
			return errCopyDiffers
		}
		ca, cb := of.Cursor(), to.Cursor()
		ka, va := ca.First()
		kb, vb := cb.First()
		for n := 0; ka != nil || kb != nil; n++ {
			if !bytes.Equal(ka, kb) || !bytes.Equal(va, vb) {
				return errCopyDiffers
			}
			if n%1024 == 0 && ctx.Err() != nil {
				return context.Cause(ctx)
			}
			ka, va = ca.Next()
			kb, vb = cb.Next()
		}
		return nil
	}); err != nil {
		return err
	}
	if buckets != 0 {
		return errCopyDiffers
	}
	return nil
}

// Backup copies the store, as it is at one moment, to a file that must not exist: complete and
// flushed, or not at all. Writers wait only while the store is read once; see file.Folder.CopyTo.
// The pages of the copy are checked before it gets its name. The error wraps fs.ErrExist if the
// file exists, and ErrNoStore if there is no store yet.
func (f *Base) Backup(ctx context.Context, path string) (err error) {
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("backup %s: %w", path, fs.ErrExist)
	}
	tmp, name, err := file.Nameless(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if at := (*fs.PathError)(nil); errors.As(err, &at) {
		err = at.Err // without the name of the temporary file
	}
	if err != nil {
		return backupError(path, err)
	}
	named := false
	defer func() {
		tmp.Close()
		if !named && tmp.Name() != filepath.Dir(path) {
			_ = os.Remove(tmp.Name())
		}
	}()
	err = f.CopyTo(ctx, tmp, f.LockSound(ctx))
	switch {
	case err == file.ErrAbsent:
		return fmt.Errorf("%s: %w", f.StorePath(), ErrNoStore)
	case err != nil:
		return backupError(path, err)
	}
	if err := f.CheckPages(tmp); err != nil {
		return err
	}
	if err := tmp.Sync(); err != nil {
		return backupError(path, err)
	}
	if err := name(path); err != nil {
		return backupError(path, err)
	}
	named = true
	return file.SyncDir(filepath.Dir(path))
}

func backupError(path string, err error) error {
	if errors.As(err, new(*DamagedError)) || errors.As(err, new(*SchemaError)) || errors.As(err, new(*file.BusyError)) {
		return err
	}
	return fmt.Errorf("backup %s: nothing was written: %w", path, err)
}
