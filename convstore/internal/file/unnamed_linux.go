package file

import (
	"errors"
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
