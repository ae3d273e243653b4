//go:build linux && !amd64 && !arm64

package proc

// auditArch is 0: no filter was made for this processor.
const auditArch = 0

var refusedHere, watches []uint32
