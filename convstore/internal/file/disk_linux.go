package file

import (
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

func (d *Disk) stat() error {
	var st unix.Statfs_t
	if err := unix.Statfs(d.Path, &st); err != nil {
		return os.NewSyscallError("statfs", err)
	}
	magic := uint32(st.Type)
	names := map[uint32]string{
		unix.EXT4_SUPER_MAGIC: "ext4", unix.XFS_SUPER_MAGIC: "xfs", unix.BTRFS_SUPER_MAGIC: "btrfs", unix.TMPFS_MAGIC: "tmpfs",
		unix.OVERLAYFS_SUPER_MAGIC: "overlay", unix.F2FS_SUPER_MAGIC: "f2fs", unix.RAMFS_MAGIC: "ramfs", 0x2fc12fc1: "zfs", 0xca451a4e: "bcachefs",
		fuseMagic: "fuse", unix.SQUASHFS_MAGIC: "squashfs", unix.MSDOS_SUPER_MAGIC: "vfat", 0x2011bab0: "exfat", 0x7366746e: "ntfs",
	}
	if d.FileSystem = names[magic]; d.FileSystem == "" {
		d.FileSystem = fmt.Sprintf("%#x", magic)
	}
	d.Memory = magic == unix.TMPFS_MAGIC || magic == unix.RAMFS_MAGIC
	if free := st.Bavail * uint64(st.Bsize); free <= math.MaxInt64 {
		d.Free = int64(free)
	} else {
		d.Free = math.MaxInt64
	}
	folder, err := os.Open(d.Path)
	if err != nil {
		return nil // no store can be there for another reason
	}
	defer folder.Close()
	// The kernel answers this also for a folder. To ask locks nothing.
	lock := unix.Flock_t{Type: unix.F_RDLCK, Len: 1}
	d.Locks = ofd(folder, unix.F_OFD_GETLK, &lock) == nil
	return nil
}
