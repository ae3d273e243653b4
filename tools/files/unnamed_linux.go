package files

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Unnamed makes a file without a name in an open folder. It vanishes with its last descriptor, even
// if the process is killed, unless LinkUnnamed names it. The error is errors.ErrUnsupported if the
// system has no such files, or could not name them.
func Unnamed(folder *os.File, mode fs.FileMode) (*os.File, error) {
	fd, err := unix.Openat(int(folder.Fd()), ".", unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, uint32(mode.Perm()))
	if err != nil {
		return nil, errors.ErrUnsupported // if it is another error, making a file with a name returns it
	}
	f := os.NewFile(uintptr(fd), folder.Name())
	if unix.Access(byDescriptor(f), unix.F_OK) != nil {
		_ = f.Close()
		return nil, errors.ErrUnsupported
	}
	return f, nil
}

// LinkUnnamed gives a file that Unnamed made a name in an open folder and syncs the file; nil = name
// is a path. It replaces no file: if there is one, the error is fs.ErrExist.
func LinkUnnamed(f, folder *os.File, name string) error {
	at := unix.AT_FDCWD
	if folder != nil {
		at = int(folder.Fd())
	}
	if err := unix.Linkat(unix.AT_FDCWD, byDescriptor(f), at, name, unix.AT_SYMLINK_FOLLOW); err != nil {
		return os.NewSyscallError("link", err)
	}
	err := f.Sync() // btrfs before Linux 6.16 syncs no file that has no name, and returns no error
	if err != nil {
		_ = unix.Unlinkat(at, name, 0)
	}
	return err
}

func byDescriptor(f *os.File) string { return fmt.Sprintf("/proc/self/fd/%d", f.Fd()) }
