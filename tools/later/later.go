// Package later initialises libraries when they are first needed, and not when the program starts:
// their tables and patterns would take a fifth of the time of a start, and few processes of jp use
// one of them.
//
// Go initialises each package of a program before main. What it has to do for one is in a variable
// of that package (runtime.initTask), which ends up in the program as "PATH..inittask": how far it
// is, the number of functions, and the functions. PutOff says there that they have run. Need runs
// them.
//
// That is no promise of Go. Built by a Go that it was not tried with, the package puts nothing off.
//
// Who uses one of these libraries calls Need first, also where another library uses it. A library
// with which the initialisation of another package begins cannot be put off.
package later

import (
	"sync"
	"unsafe"
)

// A Library is packages that are initialised together.
type Library struct {
	tasks []*task
	left  []*task // what was put off
	once  sync.Once
}

// The libraries.
var (
	Markdown = &Library{tasks: markdown}
	Schema   = &Library{tasks: schema}
	YAML     = &Library{tasks: yaml}
	MCP      = &Library{tasks: mcp} // with what only it uses; it uses Schema, too
	INI      = &Library{tasks: ini}
	Width    = &Library{tasks: width}
	Shell    = &Library{tasks: shell} // what its parser imports for its printer
)

// task is the head of a runtime.initTask. The functions follow.
type task struct{ state, functions uint32 }

const (
	waits = 0 // states of a task
	done  = 2
)

// PutOff is for the initialisation of a program, before that of the libraries: what has begun is
// not put off. A program that does not have a library has no functions of it.
func PutOff() {
	for _, l := range []*Library{Markdown, Schema, YAML, MCP, INI, Width, Shell} {
		l.putOff()
	}
}

func (l *Library) putOff() {
	for _, t := range l.tasks {
		if t.state == waits {
			t.state = done
			l.left = append(l.left, t)
		}
	}
}

// Need initialises what was put off of the library.
func (l *Library) Need() {
	l.once.Do(func() {
		for _, t := range l.left {
			t.run()
		}
	})
}

func (t *task) run() {
	first := unsafe.Add(unsafe.Pointer(t), unsafe.Sizeof(*t))
	for i := range t.functions {
		code := unsafe.Add(first, uintptr(i)*unsafe.Sizeof(first)) // a func is a pointer to where its code is
		(*(*func())(unsafe.Pointer(&code)))()
	}
}
