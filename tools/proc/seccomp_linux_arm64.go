package proc

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_AARCH64

// System calls of this processor only, for refusedAlways and for what watches folders.
var (
	refusedHere []uint32
	watches     = []uint32{unix.SYS_INOTIFY_INIT1}
)
