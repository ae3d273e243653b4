package term

import "golang.org/x/sys/unix"

// flushInput throws away what was typed and not yet read; FREAD of <sys/fcntl.h> means the input side.
func flushInput(fd int) error { return unix.IoctlSetPointerInt(fd, unix.TIOCFLUSH, 1) }
