package files

import (
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// kernelTypes are the file systems in which the kernel describes processes and itself, with their
// magic numbers. They hold no files of the user, /proc/self/environ holds keys, and what is written
// to them changes processes or the machine.
var kernelTypes = map[string]int64{
	"proc": unix.PROC_SUPER_MAGIC, "sysfs": unix.SYSFS_MAGIC, "debugfs": unix.DEBUGFS_MAGIC, "tracefs": unix.TRACEFS_MAGIC,
	"securityfs": unix.SECURITYFS_MAGIC, "selinuxfs": unix.SELINUX_MAGIC, "smackfs": unix.SMACK_MAGIC, "bpf": unix.BPF_FS_MAGIC,
	"cgroup": unix.CGROUP_SUPER_MAGIC, "cgroup2": unix.CGROUP2_SUPER_MAGIC, "resctrl": unix.RDTGROUP_SUPER_MAGIC,
	"efivarfs": unix.EFIVARFS_MAGIC, "pstore": unix.PSTOREFS_MAGIC, "nsfs": unix.NSFS_MAGIC, "xenfs": unix.XENFS_SUPER_MAGIC,
	"devpts": unix.DEVPTS_SUPER_MAGIC, "binfmt_misc": unix.BINFMTFS_MAGIC,
	// These have no name in linux/magic.h.
	"mqueue": 0x19800202, "configfs": 0x62656570, "fusectl": 0x65735543, "rpc_pipefs": 0x67596969, "nfsd": 0x6e667364,
}

// Mounts returns what is mounted where.
func Mounts() (l MountList, err error) {
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return l, err
	}
	// proc_pid_mountinfo(5): the third field is the device, the fourth what of it is mounted, the fifth
	// the folder, and the type comes after a lone dash.
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\043`, "#", `\134`, `\`)
	for line := range strings.Lines(string(data)) {
		before, source, _ := strings.Cut(line, " - ")
		kind, _, _ := strings.Cut(source, " ")
		if fields := strings.Fields(before); len(fields) >= 5 {
			m := mount{fields[2], unescape.Replace(fields[3]), unescape.Replace(fields[4])}
			if kernelTypes[kind] != 0 {
				l.Kernel = append(l.Kernel, m.at)
			}
			l.all = append(l.all, m)
		}
	}
	return l.shared(), nil
}

// OfKernel reports whether the folder root is in a file system like /proc and /sys.
func OfKernel(root *os.Root) (bool, error) {
	f, err := root.Open(".")
	if err != nil {
		return false, err
	}
	defer f.Close()
	var st unix.Statfs_t
	for {
		if err = unix.Fstatfs(int(f.Fd()), &st); err != unix.EINTR {
			break
		}
	}
	return slices.Contains(slices.Collect(maps.Values(kernelTypes)), int64(st.Type)), os.NewSyscallError("fstatfs", err)
}

// statNoLinks is os.Stat for a path that is to have no symbolic link, at any part of it.
func statNoLinks(path string) (fs.FileInfo, error) {
	f, err := openNoLinks(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return f.Stat()
}

// openNoLinks opens such a path to look at it, which needs no right to read it.
func openNoLinks(path string) (*os.File, error) {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS}
	for {
		fd, err := unix.Openat2(unix.AT_FDCWD, path, &how)
		switch err {
		case nil:
			return os.NewFile(uintptr(fd), path), nil
		case unix.EINTR, unix.EAGAIN:
		case unix.ENOSYS: // before Linux 5.6
			return openSame(path, unix.O_PATH)
		default:
			return nil, &os.PathError{Op: "open", Path: path, Err: err}
		}
	}
}
