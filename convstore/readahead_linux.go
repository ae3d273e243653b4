package convstore

import (
	"golang.org/x/sys/unix"
)

// readAhead asks for sequential read-ahead on the mapping. bbolt asks for random
// access, which makes a scan of a file that is not in memory ten times slower. It
// is advice: when it is not taken, nothing else is lost.
func (h *handle) readAhead() {
	if info, err := h.file.Stat(); err == nil {
		_, _, _ = unix.Syscall(unix.SYS_MADVISE, h.db.Info().Data, uintptr(info.Size()), unix.MADV_SEQUENTIAL)
	}
}
