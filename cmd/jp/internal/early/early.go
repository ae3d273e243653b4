// Package early does what must come before anything else is initialised: it puts off libraries,
// makes room for the stack of the first goroutine, and has the heap grow in large pages.
//
// To be so early, the package imports as little as it can: packages are initialised in the order of
// their import paths as soon as those that they import are.
package early

import "jp/tools/later"

func init() {
	later.PutOff()
	largePages()
	grow(-1)
}

// grow has a frame of 48 KiB, for which the runtime makes room when it is called. It uses the frame
// only if i is not negative, so that no memory is touched.
//
// Without it the stack begins with 2 KiB and is copied at each doubling, while it is deep: the
// runtime then walks the frames and looks them up in tables that nothing else reads.
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
