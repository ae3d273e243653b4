package convstore

import (
	"context"
	"errors"
	"io/fs"
	"os"

	"jp/convstore/internal/db"
)

// Space is the size of the store's file in bytes. The file never shrinks by itself: new data takes
// the space of what was removed.
type Space = db.Space

// Space returns the size of the store's file, zero when there is none.
func (s *Store) Space(ctx context.Context) (space Space, err error) {
	err = s.f.Session(ctx, false, func(h *db.Handle) error {
		space, err = s.f.Space(h.File)
		return err
	})
	return space, present(err)
}

// Compact writes the store again without its free space, and returns its size before and after. If
// the new file would not be smaller, the old one stays and the two sizes are equal. Others wait
// meanwhile, as for a long transaction. If Compact fails or is killed, the file is as it was
// or, if only its folder could not be flushed, the new one. It fails on a damaged file. It compares
// the new file with the old one, entry by entry, before it replaces it.
func (s *Store) Compact(ctx context.Context) (before, after Space, err error) {
	if s.f.ReadOnly {
		return before, after, ErrReadOnly
	}
	if _, err := os.Lstat(s.Path()); errors.Is(err, fs.ErrNotExist) {
		return before, after, nil
	}
	s.f.Freed.Store(true) // no notice about free space: Compact is about to remove it
	// Nothing is written before the pages have been found sound: bbolt would take new pages from a
	// freelist that may name pages in use.
	if err := s.f.Session(ctx, false, func(h *db.Handle) error { return s.f.CheckPages(h.File) }); err != nil {
		return before, after, err
	}
	// This migrates an older store, and fails on a newer one.
	if err := s.f.read(ctx, func(*tx) error { return nil }); err != nil {
		return before, after, err
	}
	// The rest of an import that was cut off is not part of the store.
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
// flushed, or not at all. Writers wait only while the store is read once; see file.Folder.CopyTo.
// The pages of the copy are checked before it gets its name. The error wraps fs.ErrExist if the
// file exists, and ErrNoStore if there is no store yet.
func (s *Store) Backup(ctx context.Context, path string) error { return s.f.Backup(ctx, path) }
