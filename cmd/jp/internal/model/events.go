package model

import (
	"bufio"
	"bytes"
	"io"
)

// startsEvents reports whether a body begins like an event stream, which no JSON does.
func startsEvents(r *bufio.Reader) bool {
	b, _ := r.Peek(len("event:")) // what there is
	return bytes.HasPrefix(b, []byte("event:")) || bytes.HasPrefix(b, []byte("data:")) || bytes.HasPrefix(b, []byte(":"))
}

// eventLines reads an event stream in the form that the decoders of both vendors' SDKs accept,
// which is less than the standard allows: each line ends in a line feed alone, and no data line is
// without data.
type eventLines struct {
	from io.Reader

	// beginning of a line that may be an empty data line; nil = the line is another one
	line   []byte
	inside bool   // whether the rest of another line follows
	cr     bool   // whether the last byte was a carriage return
	out    []byte // bytes to return
	// large, because the decoders scan an unfinished line again after each read
	buf [32 << 10]byte
	err error
}

func (e *eventLines) Read(p []byte) (int, error) {
	for len(e.out) == 0 {
		if e.err != nil {
			return 0, e.err
		}
		n, err := e.from.Read(e.buf[:])
		e.out = e.out[:0]
		for _, c := range e.buf[:n] {
			e.take(c)
		}
		if e.err = err; err != nil {
			e.flush()
		}
	}
	n := copy(p, e.out)
	e.out = e.out[n:]
	return n, nil
}

// empty are the data lines without data.
const empty = "data: "

func (e *eventLines) take(c byte) {
	if c == '\n' && e.cr {
		e.cr = false
		return
	}
	if e.cr = c == '\r'; e.cr {
		c = '\n'
	}
	switch {
	case c == '\n':
		if n := len(e.line); n < len("data:") { // otherwise it is left out
			e.flush()
			e.out = append(e.out, c)
		}
		e.line, e.inside = e.line[:0], false
	case e.inside:
		e.out = append(e.out, c)
	case len(e.line) < len(empty) && c == empty[len(e.line)]:
		e.line = append(e.line, c)
	default:
		e.flush()
		e.out = append(e.out, c)
		e.inside = true
	}
}

// flush returns what turned out not to be an empty data line.
func (e *eventLines) flush() {
	e.out = append(e.out, e.line...)
	e.line = e.line[:0]
}
