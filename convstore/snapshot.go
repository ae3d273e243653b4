package convstore

import (
	"context"
	"errors"
	"hash/maphash"
	"io"
	"jp/convstore/internal/file"
	"jp/convstore/internal/page"
	"os"

	"go.etcd.io/bbolt"
)

// A copy of the store takes as long as the disk that it is written to. Writers do not wait for that:
// the file is copied while they write, and what they have changed meanwhile is copied again, until
// little is left. Then the file is read once more with the lock held, and compared by checksums with
// what was copied. The rest that still differs is kept in memory, and written when the lock is free.

const (
	snapshotChunk  = 256 << 10
	snapshotRest   = 64 << 20 // bytes that are kept in memory
	snapshotRounds = 5        // after which the lock is held while the rest is written
)

// snapshot is a copy of the store's file under way.
type snapshot struct {
	f    *base
	dst  *os.File
	src  os.FileInfo // the file that was copied so far
	seed maphash.Seed
	sums []uint64 // of the chunks that were copied
	rest []chunk
	size int64
}

type chunk struct {
	at   int64
	data []byte
}

// copyTo copies the store to an empty file, as it is at one moment. Locked calls what it is given with
// the store's file while its lock is held.
func (f *base) copyTo(ctx context.Context, dst *os.File, locked func(func(*os.File) error) error) error {
	s := snapshot{f: f, dst: dst, seed: maphash.MakeSeed()}
	for round := 0; ; round++ {
		if err := s.ahead(ctx); err != nil {
			return err
		}
		done := false
		err := locked(func(file *os.File) (err error) {
			info, err := file.Stat()
			if err != nil {
				return err
			}
			if !os.SameFile(info, s.src) { // compacted meanwhile
				s.sums = nil
				return nil
			}
			s.rest = s.rest[:0]
			most := int64(snapshotRest)
			if round >= snapshotRounds {
				most = 0
			}
			done, err = s.pass(ctx, file, func(c chunk) (more bool, err error) {
				if round >= snapshotRounds {
					return true, s.write(c)
				}
				s.rest = append(s.rest, c)
				most -= int64(len(c.data))
				return most > 0, nil
			})
			return err
		})
		if err != nil {
			return err
		}
		for _, c := range s.rest {
			if err := s.write(c); err != nil {
				return err
			}
		}
		s.rest = nil
		if done {
			return dst.Truncate(s.size)
		}
	}
}

// ahead copies what differs, while others write.
func (s *snapshot) ahead(ctx context.Context) error {
	src, err := file.OpenOwn(s.f.StorePath(), os.O_RDONLY)
	if errors.Is(err, os.ErrNotExist) {
		return file.ErrAbsent
	}
	if err != nil {
		return err
	}
	defer src.Close()
	info, err := src.Stat()
	if err != nil {
		return err
	}
	if s.src == nil || !os.SameFile(info, s.src) {
		s.src, s.sums = info, nil
	}
	_, err = s.pass(ctx, src, func(c chunk) (bool, error) { return true, s.write(c) })
	return err
}

// pass reads the file and gives the chunks that are not as they were copied to take, until that wants
// no more. It reports whether it came to the end.
func (s *snapshot) pass(ctx context.Context, file *os.File, take func(chunk) (more bool, err error)) (end bool, err error) {
	buf := make([]byte, snapshotChunk)
	for i := 0; ; i++ {
		if ctx.Err() != nil {
			return false, context.Cause(ctx)
		}
		at := int64(i) * snapshotChunk
		n, err := file.ReadAt(buf, at)
		if err != nil && err != io.EOF {
			return false, err
		}
		last := err == io.EOF
		if n > 0 {
			sum := maphash.Bytes(s.seed, buf[:n])
			if i == len(s.sums) {
				s.sums = append(s.sums, ^sum)
			}
			if s.sums[i] != sum {
				s.sums[i] = sum
				more, err := take(chunk{at, append([]byte(nil), buf[:n]...)})
				if err != nil || !more {
					return false, err
				}
			}
		}
		if last {
			s.size = at + int64(n)
			return true, nil
		}
	}
}

func (s *snapshot) write(c chunk) error {
	_, err := s.dst.WriteAt(c.data, c.at)
	return err
}

// soundly is the lock of a copy of a store whose pages bbolt takes.
func (f *base) soundly(ctx context.Context) func(func(*os.File) error) error {
	return func(use func(*os.File) error) error {
		return f.session(ctx, false, func(h *handle) error {
			// The schema is looked at, and bbolt has looked at its own pages.
			if err := f.view(h, func(*tx) error { return nil }); err != nil {
				return err
			}
			return use(h.file)
		})
	}
}

// anyhow is the lock of a copy of a store that may be damaged.
func (f *base) anyhow(ctx context.Context) func(func(*os.File) error) error {
	return func(use func(*os.File) error) error {
		file, err := f.acquire(ctx, false)
		if err != nil {
			return err
		}
		h := handle{file: file}
		defer h.abandon()
		return use(file)
	}
}

// aside makes a copy of the store that vanishes when it is closed, for whoever reads all of it. Where
// there is no room for one it says that others wait, and returns nil, as it does without a store.
func (f *base) aside(ctx context.Context, locked func(func(*os.File) error) error) (*os.File, error) {
	if _, err := os.Lstat(f.StorePath()); err != nil {
		return nil, nil // who takes the lock says what that means
	}
	copied, err := file.Unnamed(f.Dir)
	if err == nil {
		if err = f.copyTo(ctx, copied, locked); err == nil {
			return copied, nil
		}
		copied.Close()
	}
	var damaged *DamagedError
	var schema *SchemaError
	var busy *BusyError
	if err == file.ErrAbsent || ctx.Err() != nil || errors.Is(err, ErrGone) || errors.As(err, &damaged) || errors.As(err, &schema) || errors.As(err, &busy) {
		return nil, err
	}
	f.Notice("no copy of the store can be made beside it (" + file.Reason(err) + "): whoever wants to write waits until it is read")
	return nil, nil
}

// openCopy opens a copy of the store that nobody else has.
func (f *base) openCopy(file *os.File, h *handle) error {
	if _, err := page.Inspect(file); err != nil {
		return &DamagedError{Path: f.StorePath(), Err: err}
	}
	db, err := bbolt.Open(f.StorePath(), 0o600, &bbolt.Options{
		ReadOnly: true, NoStatistics: true,
		OpenFile: func(string, int, os.FileMode) (*os.File, error) {
			h.file = file
			return file, nil
		},
	})
	if err != nil {
		return f.openError(err)
	}
	h.db = db
	return nil
}
