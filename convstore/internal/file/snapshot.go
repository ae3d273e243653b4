package file

import (
	"context"
	"errors"
	"hash/maphash"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// To write a copy of the store can take long, and writers do not wait for it. The file is copied
// while they write. What they changed meanwhile is copied again, until little is left. Then the
// file is read once more with the lock held, and compared with the copy by checksums. What still
// differs is held in memory, and written after the lock is released.

const (
	snapshotChunk  = 256 << 10
	snapshotRest   = 64 << 20 // bytes that may be held in memory
	snapshotSpare  = 32 << 20 // bytes that stay free, and an eighth of the store's size: it grows in steps of 16 MiB
	SnapshotRounds = 5        // number of rounds after which the rest is written with the lock held
)

// snapshot is an unfinished copy of the store's file.
type snapshot struct {
	f    *Folder
	dst  *os.File
	src  os.FileInfo // the file that was copied so far
	seed maphash.Seed
	sums []uint64 // checksums of the chunks that were copied
	rest []chunk
	size int64
}

type chunk struct {
	at   int64
	data []byte
}

// CopyTo copies the store to an empty file, as it is at one moment. The function locked locks the
// store and calls its argument with the store's file. Without room for the copy, and for what others
// write to the store meanwhile, it fails with unix.ENOSPC and has written nothing.
func (f *Folder) CopyTo(ctx context.Context, dst *os.File, locked func(func(*os.File) error) error) error {
	if !hasRoom(f.StorePath(), dst, f.DiskFree) {
		return unix.ENOSPC
	}
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
			if !os.SameFile(info, s.src) { // the store was compacted meanwhile
				s.sums = nil
				return nil
			}
			s.rest = s.rest[:0]
			most := int64(snapshotRest)
			if round >= SnapshotRounds {
				most = 0
			}
			done, err = s.pass(ctx, file, func(c chunk) (more bool, err error) {
				if round >= SnapshotRounds {
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

// hasRoom reports whether there is space for a copy of a store, and on the disk of the store for what
// others write, as far as that is known.
func hasRoom(store string, dst *os.File, diskFree func(*os.File) (uint64, bool)) bool {
	var from, at unix.Stat_t
	free, known := diskFree(dst)
	if !known || unix.Lstat(store, &from) != nil || unix.Fstat(int(dst.Fd()), &at) != nil {
		return true
	}
	need := uint64(from.Size)
	if at.Dev == from.Dev {
		need += need/8 + snapshotSpare
	}
	return free >= need
}

// diskFree returns how many bytes are free on the disk of a file, if that is known: some network file
// systems say that they have no blocks.
func diskFree(file *os.File) (free uint64, known bool) {
	var disk unix.Statfs_t
	if unix.Fstatfs(int(file.Fd()), &disk) != nil || disk.Blocks == 0 {
		return 0, false
	}
	return disk.Bavail * uint64(disk.Bsize), true
}

// ahead copies chunks that differ, while others write.
func (s *snapshot) ahead(ctx context.Context) error {
	src, err := OpenOwn(s.f.StorePath(), os.O_RDONLY)
	if errors.Is(err, os.ErrNotExist) {
		return ErrAbsent
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

// pass reads the file and calls take with each chunk that differs from the copy, until take returns
// false. It reports whether it read the whole file.
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
