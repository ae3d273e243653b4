package term

import "golang.org/x/sys/unix"

// setLock locks bytes of a file for who has opened it, or fails.
const setLock = unix.F_OFD_SETLK

// flushInput drops what was typed and not read yet.
func flushInput(fd int) error { return unix.IoctlSetInt(fd, unix.TCFLSH, unix.TCIFLUSH) }

// returnEarly makes reads of a raw terminal return nothing if nothing is typed for a tenth of a
// second, for a terminal whose reads cannot have a deadline.
func returnEarly(fd int) error { return setReturnEarly(fd, unix.TCGETS, unix.TCSETS) }
