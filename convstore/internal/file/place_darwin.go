package file

import (
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// networkKind returns the name of the network file system that a path is on, or "" for a local one.
func networkKind(path string) (string, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return "", err
	}
	if st.Flags&unix.MNT_LOCAL != 0 {
		return "", nil
	}
	return unix.ByteSliceToString(st.Fstypename[:]), nil
}

// identify returns the identity of a workspace's .jp folder.
func identify(workspace string) (identity, error) {
	path := filepath.Join(workspace, ".jp")
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return identity{}, &os.PathError{Op: "lstat", Path: path, Err: err}
	}
	return identity{Dev: uint64(st.Dev), Ino: st.Ino, Born: st.Btim.Nano()}, nil
}
