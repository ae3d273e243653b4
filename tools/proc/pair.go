package proc

import "os"

// Pair returns the two ends of a connected stream socket. ours is for this process: reads and
// writes on it end when it is closed, and have deadlines. theirs is for Spec.Socket, or to be sent
// to another process. Both are close-on-exec.
func Pair() (ours, theirs *os.File, err error) {
	a, b, err := socketpair()
	if err != nil {
		return nil, nil, err
	}
	if ours, err = pollable(a, "socket"); err != nil {
		closeFD(b)
		return nil, nil, err
	}
	return ours, os.NewFile(uintptr(b), "socket"), nil
}
