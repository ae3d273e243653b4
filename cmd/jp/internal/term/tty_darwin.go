package term

import "golang.org/x/sys/unix"

// setLock locks bytes of a file for this process, or fails.
const setLock = unix.F_SETLK

// flushInput drops what was typed and not read yet. FREAD of <sys/fcntl.h> means the input side.
func flushInput(fd int) error { return unix.IoctlSetPointerInt(fd, unix.TIOCFLUSH, 1) }

// returnEarly makes reads of a raw terminal return nothing if nothing is typed for a tenth of a
// second. Such a read cannot have a deadline: kqueue does not know /dev/tty.
func returnEarly(fd int) error { return setReturnEarly(fd, unix.TIOCGETA, unix.TIOCSETA) }
