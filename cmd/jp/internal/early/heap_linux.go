package early

import (
	"syscall"
	"unsafe"
)

const (
	largePage = 2 << 20  // bytes that Linux maps at once on most machines
	growth    = 4 << 20  // bytes by which Go's heap grows, at a multiple of that (runtime, mheap.grow)
	pad       = 40 << 10 // bytes of an object that gets pages of its own
	padsMost  = 2 * largePage / pad
	agentVar  = "JP_PROC"        // is set for a sub-agent, see package proc
	fewVar    = "JP_LARGE_PAGES" // is set for one of few
)

var object []byte // so that it is on the heap

// largePages asks for large pages for the next 2 to 4 MiB of the heap. A process of jp touches
// about 2 MiB of it: that is one page fault in place of 400, each of which takes a microsecond, and
// another fifth of one when the process ends.
//
// Linux maps a large page only where it has mapped nothing yet. So objects that nobody uses,
// and that are not touched, fill the heap up to the next large page.
//
// A sub-agent of many gets none: where a thousand live, each page is cold memory, and to clear 2 MiB
// of it takes longer than the faults.
func largePages() {
	if _, agent := syscall.Getenv(agentVar); agent {
		if _, few := syscall.Getenv(fewVar); !few {
			return
		}
	}
	from := address()
	next := (from + largePage - 1) &^ (largePage - 1)
	for range padsMost {
		if at := address(); at >= next && at < next+largePage {
			end := (next + growth) &^ (growth - 1)
			_, _, _ = syscall.Syscall(syscall.SYS_MADVISE, next, end-next, syscall.MADV_HUGEPAGE) // else as without it
			break
		}
	}
	object = nil
}

// address allocates an object and returns where it is.
func address() uintptr {
	object = make([]byte, pad)
	return uintptr(unsafe.Pointer(unsafe.SliceData(object)))
}
