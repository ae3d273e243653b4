package file

import (
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// networkMagic returns the name of a file system, by its magic number, if its files are not on this
// machine or its shared mappings and locks do not work as on a local disk; otherwise "".
func networkMagic(magic uint32) string {
	switch magic {
	case 0x6969:
		return "nfs"
	case 0x517b:
		return "smb"
	case 0xfe534d42:
		return "smb2"
	case 0xff534d42:
		return "cifs"
	case 0x73757245:
		return "coda"
	case 0x5346414f:
		return "afs"
	case 0x6b414653:
		return "kafs"
	case 0x01021997:
		return "9p"
	case 0x564c:
		return "ncp"
	case 0x0bd00bd0:
		return "lustre"
	case 0x00c36400:
		return "ceph"
	case 0x47504653:
		return "gpfs"
	case 0x19830326:
		return "beegfs"
	case 0xaad7aaea:
		return "panfs"
	case 0x786f4256:
		return "vboxsf"
	}
	return ""
}

const fuseMagic = 0x65735546

// networkKind returns the name of the network file system that a path is on, or "" for a local one.
func networkKind(path string) (string, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return "", err
	}
	if uint32(st.Type) == fuseMagic {
		mounts, err := os.ReadFile("/proc/self/mountinfo")
		return fuseKind(string(mounts), path), err
	}
	return networkMagic(uint32(st.Type)), nil
}

// fuseKind returns the kind of the FUSE mount that a path is on, from the contents of mountinfo, or
// "" if that kind is known to be local.
func fuseKind(mounts, path string) string {
	kind, longest := "fuse", -1
	for line := range strings.Lines(mounts) {
		// 36 35 98:0 / /mnt rw,noatime shared:1 - fuse.sshfs host:/dir rw
		before, after, ok := strings.Cut(line, " - ")
		fields, types := strings.Fields(before), strings.Fields(after)
		if !ok || len(fields) < 5 || len(types) == 0 {
			continue
		}
		mount := unescapeMount(fields[4])
		if rel, err := filepath.Rel(mount, path); err != nil || rel == ".." || strings.HasPrefix(rel, "../") {
			continue
		}
		if len(mount) >= longest {
			kind, longest = types[0], len(mount)
		}
	}
	switch strings.TrimPrefix(kind, "fuse.") {
	case "gocryptfs", "encfs", "ecryptfs", "cryfs", "mergerfs", "bindfs", "fuseblk", "ntfs-3g", "portal", "squashfuse", "unionfs", "fuse-overlayfs":
		return ""
	}
	return kind
}

func unescapeMount(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}

// identify returns the identity of a workspace's .jp folder.
func identify(workspace string) (identity, error) {
	path := filepath.Join(workspace, ".jp")
	var st unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_INO|unix.STATX_BTIME, &st); err != nil {
		return identity{}, &os.PathError{Op: "statx", Path: path, Err: err}
	}
	id := identity{Dev: unix.Mkdev(st.Dev_major, st.Dev_minor), Ino: st.Ino}
	if st.Mask&unix.STATX_BTIME != 0 {
		id.Born = st.Btime.Sec*1e9 + int64(st.Btime.Nsec)
	}
	return id, nil
}
