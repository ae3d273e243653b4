package file

import (
	"math"
	"os"

	"golang.org/x/sys/unix"
)

func (d *Disk) stat() error {
	var st unix.Statfs_t
	if err := unix.Statfs(d.Path, &st); err != nil {
		return os.NewSyscallError("statfs", err)
	}
	d.FileSystem = unix.ByteSliceToString(st.Fstypename[:])
	d.Memory = d.FileSystem == "tmpfs"
	d.Free = int64(min(st.Bavail*uint64(st.Bsize), math.MaxInt64))
	return nil
}
