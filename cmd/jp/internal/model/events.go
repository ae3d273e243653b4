package model

import (
	"bufio"
	"bytes"
	"io"
)

// startsEvents reports whether a body begins as an event stream does, and as no JSON does.
func startsEvents(r *bufio.Reader) bool {
	b, _ := r.Peek(len("event:")) // what there is
	return bytes.HasPrefix(b, []byte("event:")) || bytes.HasPrefix(b, []byte("data:")) || bytes.HasPrefix(b, []byte(":"))
}

// eventLines reads an event stream in the form that the decoders of both vendors' SDKs take, which know less than the standard
// allows: each line ends in a line feed alone, and there are no data lines without data.
type eventLines struct {
	from io.Reader

	line   []byte         // beginning of what may become an empty data line; nil = it is none
	inside bool           // in the rest of another line
	cr     bool           // the last byte was a carriage return
	out    []byte         // to be handed out
	buf    [32 << 10]byte // the decoders look through an unfinished line again after each read
	err    error
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

// empty are the data lines that say nothing.
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
		if n := len(e.line); n < len("data:") { // else it is left out
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

// flush hands out what turned out to be no empty data line.
func (e *eventLines) flush() {
	e.out = append(e.out, e.line...)
	e.line = e.line[:0]
}
