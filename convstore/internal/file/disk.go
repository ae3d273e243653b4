package file

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Disk describes the file system of a folder, as far as it matters to a store.
type Disk struct {
	Path       string `json:"path"`        // nearest folder that exists
	FileSystem string `json:"file_system"` // ext4, tmpfs, ...; a number if the name is not known
	Network    bool   `json:"network"`     // a store must not be on it
	Memory     bool   `json:"memory"`      // its files are lost when the machine restarts
	Free       int64  `json:"free"`        // bytes that this user can write
	Locks      bool   `json:"locks"`       // open file description locks work; otherwise each run lock is a file
}

// roomNeeded is the free space below which a disk counts as full, in bytes.
const roomNeeded = 16 << 20

// Full reports whether so little is free that a query may not be stored.
func (d Disk) Full() bool { return d.Free < roomNeeded }

// DiskOf returns the Disk of dir, which need not exist. It writes nothing.
func DiskOf(dir string) (Disk, error) {
	_, exists, err := resolve(dir)
	if err != nil {
		return Disk{Path: dir}, &PlaceError{Path: dir, Reason: Reason(err)}
	}
	d := Disk{Path: exists}
	kind, err := networkKind(exists)
	if err == nil {
		d.Network = kind != ""
		err = d.stat()
	}
	if err != nil {
		return d, &PlaceError{Path: dir, Reason: Reason(err)}
	}
	if d.Network {
		d.FileSystem = kind
	}
	return d, nil
}

// Writable returns nil if permissions, the file system and what is free on it let this user write to
// the store, or make it if there is none yet. It writes nothing and does not wait.
func (f *Folder) Writable() error {
	for _, name := range []string{StoreName, RunsName, GateName} {
		path := f.Path(name)
		err := unix.Access(path, unix.W_OK)
		if errors.Is(err, fs.ErrNotExist) {
			if _, path, err = resolve(filepath.Dir(path)); err == nil {
				err = unix.Access(path, unix.W_OK|unix.X_OK)
			}
		}
		if err != nil {
			return fmt.Errorf("store %s: nothing can be written: %s: %w", f.StorePath(), path, err)
		}
	}
	_, exists, err := resolve(f.Dir)
	if err != nil {
		return err
	}
	dir, err := os.Open(exists)
	if err != nil {
		return nil // a folder that cannot be read can be written to
	}
	defer dir.Close()
	if free, known := f.DiskFree(dir); known && free < roomNeeded {
		return fmt.Errorf("store %s: only %d KiB are free", f.StorePath(), free>>10)
	}
	return nil
}
