package proc

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

// System calls of this processor only, for refusedAlways and for what watches folders.
var (
	refusedHere = []uint32{unix.SYS_IOPL, unix.SYS_IOPERM}
	watches     = []uint32{unix.SYS_INOTIFY_INIT, unix.SYS_INOTIFY_INIT1}
)
