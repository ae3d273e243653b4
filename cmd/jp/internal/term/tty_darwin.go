package term

import "golang.org/x/sys/unix"

// flushInput drops what was typed and not read yet. FREAD of <sys/fcntl.h> means the input side.
func flushInput(fd int) error { return unix.IoctlSetPointerInt(fd, unix.TIOCFLUSH, 1) }
