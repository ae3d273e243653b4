package file

import (
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// Unnamed makes a file without a name in a folder. The file vanishes with its last descriptor, even
// if the process is killed.
func Unnamed(dir string) (*os.File, error) {
	fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600)
	if err == nil {
		return os.NewFile(uintptr(fd), ""), nil
	}
	if !errors.Is(err, unix.EOPNOTSUPP) && !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EINVAL) {
		return nil, &os.PathError{Op: "open", Path: dir, Err: err}
	}
	return unlinked(dir) // the file system has no such files
}

// Nameless is Unnamed for a file that gets a name when name is called. If the system has no such
// files, it has a temporary name, which stays if the process is killed.
func Nameless(dir, pattern string) (file *os.File, name func(path string) error, err error) {
	if fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_RDWR|unix.O_CLOEXEC, 0o600); err == nil {
		if at := fmt.Sprintf("/proc/self/fd/%d", fd); unix.Access(at, unix.F_OK) == nil {
			return os.NewFile(uintptr(fd), dir), func(path string) error {
				return os.NewSyscallError("link", unix.Linkat(unix.AT_FDCWD, at, unix.AT_FDCWD, path, unix.AT_SYMLINK_FOLLOW))
			}, nil
		}
		_ = unix.Close(fd)
	}
	return named(dir, pattern)
}
