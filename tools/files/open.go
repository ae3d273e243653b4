package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// Reading are the flags that open a file for reading and never wait: without O_NONBLOCK opening a
// FIFO waits for a writer, without O_NOCTTY a terminal could become that of the process.
const Reading = os.O_RDONLY | syscall.O_NONBLOCK | syscall.O_NOCTTY

// Reasons why a file is not opened; each is wrapped by an *fs.PathError.
var (
	ErrFolder  = errors.New("is a folder, not a file")
	ErrSpecial = errors.New("is not a regular file")
	ErrLink    = errors.New("is a symbolic link")
	ErrOwner   = errors.New("belongs to someone else")
)

// LargeError is the error for a file of more than Limit bytes.
type LargeError struct{ Limit int }

func (e *LargeError) Error() string {
	if e.Limit >= 4<<20 {
		return fmt.Sprintf("larger than %d MiB", e.Limit>>20)
	}
	return fmt.Sprintf("larger than %d KiB", e.Limit>>10)
}

// Rules say what else a regular file must be.
type Rules uint8

const (
	NoLink Rules = 1 << iota // the last element of its name is no symbolic link
	Own                      // it belongs to the user of this process
)

// A Place is where names are looked up: [Disk], or an [os.Root], whose names never lead out of it.
type Place interface {
	Stat(name string) (fs.FileInfo, error)
	Lstat(name string) (fs.FileInfo, error)
	OpenFile(name string, flag int, perm fs.FileMode) (*os.File, error)
}

// Disk is all that the process can reach.
type Disk struct{}

// Stat is os.Stat.
func (Disk) Stat(name string) (fs.FileInfo, error) { return os.Stat(name) }

// Lstat is os.Lstat.
func (Disk) Lstat(name string) (fs.FileInfo, error) { return os.Lstat(name) }

// OpenFile is os.OpenFile.
func (Disk) OpenFile(name string, flag int, perm fs.FileMode) (*os.File, error) {
	return os.OpenFile(name, flag, perm)
}

// OpenRegular opens a regular file, and never waits, whatever is there instead. flag is as for
// os.OpenFile; with os.O_CREATE only the user of this process can read a new file. Every error is
// an *fs.PathError.
func OpenRegular(at Place, name string, flag int, rules Rules) (*os.File, fs.FileInfo, error) {
	look := at.Stat
	if rules&NoLink != 0 {
		look, flag = at.Lstat, flag|syscall.O_NOFOLLOW
	}
	// The file is looked at before it is opened, since opening a device can have effects, and again
	// afterwards, since it may have been exchanged in between.
	info, err := look(name)
	switch {
	case err == nil:
		if err := Check(info, rules); err != nil {
			return nil, nil, &fs.PathError{Op: "open", Path: name, Err: err}
		}
	case flag&os.O_CREATE == 0 || !errors.Is(err, fs.ErrNotExist):
		return nil, nil, err
	}
	file, err := at.OpenFile(name, flag|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0o600)
	if err != nil {
		if rules&NoLink != 0 && errors.Is(err, syscall.ELOOP) {
			err = &fs.PathError{Op: "open", Path: name, Err: ErrLink}
		}
		return nil, nil, err
	}
	if info, err = file.Stat(); err == nil {
		if bad := Check(info, rules); bad != nil {
			err = &fs.PathError{Op: "open", Path: name, Err: bad}
		}
	}
	if err != nil {
		_ = file.Close()
		return nil, nil, err
	}
	return file, info, nil
}

// Check returns why a file is not opened by these rules.
func Check(info fs.FileInfo, rules Rules) error {
	switch {
	case info.IsDir():
		return ErrFolder
	case info.Mode()&fs.ModeSymlink != 0:
		return ErrLink
	case !info.Mode().IsRegular():
		return ErrSpecial
	}
	if st, ok := info.Sys().(*syscall.Stat_t); rules&Own != 0 && (!ok || st.Uid != uint32(os.Geteuid())) {
		return ErrOwner
	}
	return nil
}

// ReadRegular returns the bytes of a regular file, which may have at most limit, and its info.
// Every error is an *fs.PathError; the one for a larger file wraps a *LargeError.
func ReadRegular(at Place, name string, limit int, rules Rules) ([]byte, fs.FileInfo, error) {
	file, info, err := OpenRegular(at, name, os.O_RDONLY, rules)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = file.Close() }()
	data, err := io.ReadAll(io.LimitReader(file, int64(limit)+1))
	if err != nil {
		return nil, nil, err
	}
	if len(data) > limit {
		return nil, nil, &fs.PathError{Op: "read", Path: name, Err: &LargeError{limit}}
	}
	return data, info, nil
}

// ReadFS is ReadRegular for a file of an fs.FS.
func ReadFS(fsys fs.FS, name string, limit int) ([]byte, fs.FileInfo, error) {
	fit := func(info fs.FileInfo) error {
		if err := Check(info, 0); err != nil {
			return &fs.PathError{Op: "open", Path: name, Err: err}
		}
		return nil
	}
	info, err := fs.Stat(fsys, name)
	if err == nil {
		err = fit(info)
	}
	if err != nil {
		return nil, nil, err
	}
	file, err := fsys.Open(name)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = file.Close() }()
	if info, err = file.Stat(); err != nil {
		return nil, nil, err
	}
	if err := fit(info); err != nil {
		return nil, nil, err
	}
	large := &fs.PathError{Op: "read", Path: name, Err: &LargeError{limit}}
	if info.Size() > int64(limit) {
		return nil, nil, large
	}
	data, err := io.ReadAll(io.LimitReader(file, int64(limit)+1))
	if err != nil {
		return nil, nil, err
	}
	if len(data) > limit {
		return nil, nil, large
	}
	return data, info, nil
}

// Outside reports whether err says that a name leads out of its [os.Root], for which package os has
// no sentinel.
func Outside(err error) bool { return strings.Contains(err.Error(), "escapes from parent") }

// Reason strips the operation and the path from an error of package os, for messages that name the
// path already.
func Reason(err error) error {
	var path *fs.PathError
	var link *os.LinkError
	switch {
	case errors.As(err, &path):
		return path.Err
	case errors.As(err, &link):
		return link.Err
	}
	return err
}

// Kind names what a file is: "a file", "a folder", "a FIFO".
func Kind(m fs.FileMode) string {
	switch {
	case m.IsRegular():
		return "a file"
	case m.IsDir():
		return "a folder"
	case m&fs.ModeSymlink != 0:
		return "a symbolic link"
	case m&fs.ModeNamedPipe != 0:
		return "a FIFO"
	case m&fs.ModeSocket != 0:
		return "a socket"
	case m&fs.ModeDevice != 0:
		return "a device"
	}
	return "something else"
}
