package files

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"strconv"
	"syscall"
)

// RemoveTree removes the folder name of parent with all that others have put into it, whatever its
// modes and links. However deep it is, few descriptors are open at a time and no path is long: a
// folder inside a folder that is not empty is moved up first. A pass without any removal fails: the
// error is its first one.
func RemoveTree(parent *os.Root, name string) error {
	for moved := 0; ; {
		progress := false
		err := eachEntry(parent, name, func(entry string) error {
			at := name + "/" + entry
			if parent.Remove(at) == nil {
				progress = true
				return nil
			}
			err := eachEntry(parent, at, func(below string) error {
				if parent.Remove(at+"/"+below) == nil {
					progress = true
					return nil
				}
				// Where the name is taken the next pass tries the next one.
				moved++
				err := moveUp(parent, at+"/"+below, name+"/"+strconv.Itoa(moved))
				progress = progress || err == nil
				return err
			})
			if err == nil {
				err = parent.Remove(at)
			}
			progress = progress || err == nil
			return err
		})
		if err == nil {
			err = parent.Remove(name)
		}
		if err == nil || !progress {
			return err
		}
	}
}

// moveUp renames a folder. To move one its owner must be able to write it.
func moveUp(root *os.Root, from, to string) error {
	err := root.Rename(from, to)
	if errors.Is(err, fs.ErrPermission) {
		if err = root.Chmod(from, 0o700); err == nil {
			err = root.Rename(from, to)
		}
	}
	return err
}

// eachEntry calls do with the names in the folder dir of root, even if its owner may not list or
// change it. It goes on after errors, and returns the first.
func eachEntry(root *os.Root, dir string, do func(name string) error) error {
	info, err := root.Lstat(dir)
	if err == nil && !info.IsDir() {
		err = &os.PathError{Op: "open", Path: dir, Err: syscall.ENOTDIR}
	}
	if err == nil && info.Mode().Perm()&0o700 != 0o700 {
		err = root.Chmod(dir, 0o700)
	}
	if err != nil {
		return err
	}
	// With "/." a FIFO cannot be opened.
	f, err := root.OpenFile(dir+"/.", os.O_RDONLY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	for {
		names, listing := f.Readdirnames(1024)
		for _, name := range names {
			if failed := do(name); err == nil {
				err = failed
			}
		}
		if listing != nil {
			if err == nil && listing != io.EOF {
				err = listing
			}
			return err
		}
	}
}
