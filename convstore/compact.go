package convstore

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"jp/convstore/internal/db"
	"jp/convstore/internal/file"
)

// Space is the size of the store's file in bytes. A file that was once full never shrinks by
// itself: what was removed from it is used again by what comes.
type Space = db.Space

// Space returns the size of the store's file, zero when there is none.
func (s *Store) Space(ctx context.Context) (space Space, err error) {
	err = s.f.Session(ctx, false, func(h *db.Handle) error {
		space, err = s.f.Space(h.File)
		return err
	})
	if err == file.ErrAbsent {
		err = nil
	}
	return space, err
}

// Compact writes the store anew without its free space, and returns its size before and after;
// where the new file would not be smaller, the old one stays, and the two are the same. Others wait
// meanwhile, as for a long transaction, and find the new file afterwards. Whenever it fails or is
// killed, the file is as it was; a damaged file is refused. What was written is compared with the
// old file, entry by entry, before it takes its place.
func (s *Store) Compact(ctx context.Context) (before, after Space, err error) {
	if s.f.ReadOnly {
		return before, after, ErrReadOnly
	}
	if _, err := os.Lstat(s.Path()); errors.Is(err, fs.ErrNotExist) {
		return before, after, nil
	}
	s.f.Freed.Store(true) // it is about to be mended
	// Nothing is written before the pages have been found sound: bbolt would take new pages from a
	// freelist that may name pages in use.
	if err := s.f.Session(ctx, false, func(h *db.Handle) error { return s.f.CheckPages(h.File) }); err != nil {
		return before, after, err
	}
	// What is of another version is migrated or refused here.
	if err := s.f.read(ctx, func(*tx) error { return nil }); err != nil {
		return before, after, err
	}
	// What an import has left is no part of the store.
	if err := s.f.sweepImports(ctx); err != nil {
		return before, after, err
	}
	err = s.f.Session(ctx, true, func(h *db.Handle) error {
		if before, err = s.f.Space(h.File); err != nil {
			return err
		}
		if err := s.f.CheckPages(h.File); err != nil {
			return err
		}
		after, err = s.f.Rewrite(ctx, h, before)
		return err
	})
	return before, after, err
}

// Backup copies the store, as it is at one moment, to a file that must not exist: complete and
// flushed, or not at all. Writers wait for no longer than it takes to read the store once, see
// file.Folder.CopyTo. The pages of the copy have been checked when it gets its name. An error that
// wraps fs.ErrExist says that there is such a file, ErrNoStore that there is no store yet.
func (s *Store) Backup(ctx context.Context, path string) error { return s.f.Backup(ctx, path) }
