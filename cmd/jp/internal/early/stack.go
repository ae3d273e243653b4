// Package stack gives the first goroutine a stack that is large enough for all initialisation and
// most commands. Otherwise the stack begins with 2 KiB and is copied at each doubling, while it is
// deep: the runtime then walks the frames and looks them up in tables that nothing else reads.
//
// To be the first, the package imports nothing: packages are initialised in the order of their
// import paths as soon as those that they import are.
package stack

func init() { grow(-1) }

// grow has a frame of 48 KiB, for which the runtime makes room when it is called. It uses the frame
// only if i is not negative, so that no memory is touched.
//
//go:noinline
func grow(i int) byte {
	if i < 0 {
		return 0
	}
	var frame [48 << 10]byte
	frame[i]++
	return frame[i/2]
}
