// Package call carries command lines of a jp that runs inside a tool to the jp that the tool call is of.
//
// A tool with access.jp inherits one socket. It is not spoken on, since several processes hold it: a jp inside (Ask) writes
// one byte, and is sent one end of a connection of its own. Over that go frames:
//
//	jp inside -> owner   a  the arguments, once, first       owner -> jp inside   r  stdin is wanted
//	                     i  stdin; empty at its end                                o  stdout
//	                                                                               e  stderr
//	                                                                               x  the exit status, last
//
// The peer is not trusted: it may be any program of the tool's. Everything it can send is bounded, at most Lines connections
// are served at a time, nothing is sent before a command has ended but the wish for stdin, and all of it ends with the call. A
// byte that makes no sense ends the connection; one on the inherited socket ends that.
package call

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Bounds. A query is text for a model; what a tool may return is below MaxOutput by far.
const (
	Lines     = 8       // connections of one tool call served at a time; others wait
	MaxArgs   = 1 << 20 // bytes of arguments
	MaxInput  = 4 << 20 // bytes of stdin
	MaxOutput = 8 << 20 // bytes of stdout
	maxErrors = 1 << 20 // bytes of stderr
	maxChunk  = 64 << 10
)

// The kinds of frames: a byte, the length of the body in four (big endian), the body.
const (
	frameArgs   = 'a'
	frameInput  = 'i'
	frameWant   = 'r'
	frameOutput = 'o'
	frameErrors = 'e'
	frameExit   = 'x'
)

// limits of the bodies, in bytes.
func frameLimit(kind byte) int {
	switch kind {
	case frameArgs:
		return MaxArgs
	case frameInput, frameOutput, frameErrors:
		return maxChunk
	case frameExit:
		return 1
	}
	return 0
}

// A frameError is a peer that does not speak as it should.
type frameError struct{ msg string }

func (e *frameError) Error() string { return "line: " + e.msg }

func writeFrame(w io.Writer, kind byte, body []byte) error {
	b := make([]byte, 5, 5+len(body))
	b[0] = kind
	binary.BigEndian.PutUint32(b[1:], uint32(len(body)))
	_, err := w.Write(append(b, body...))
	return err
}

// readFrame reads one of the kinds that are allowed. io.EOF is the end between two frames.
func readFrame(r io.Reader, allowed string) (kind byte, body []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	kind = head[0]
	if strings.IndexByte(allowed, kind) < 0 {
		return 0, nil, &frameError{fmt.Sprintf("frame %q is not expected here", kind)}
	}
	n := binary.BigEndian.Uint32(head[1:])
	if int64(n) > int64(frameLimit(kind)) {
		return 0, nil, &frameError{fmt.Sprintf("frame %q of %d bytes is above the limit of %d", kind, n, frameLimit(kind))}
	}
	body = make([]byte, n)
	if _, err := io.ReadFull(r, body); err != nil {
		if errors.Is(err, io.EOF) {
			err = io.ErrUnexpectedEOF
		}
		return 0, nil, err
	}
	return kind, body, nil
}

// writeChunks sends text in frames of one kind.
func writeChunks(w io.Writer, kind byte, text []byte) error {
	for len(text) > 0 {
		n := min(len(text), maxChunk)
		if err := writeFrame(w, kind, text[:n]); err != nil {
			return err
		}
		text = text[n:]
	}
	return nil
}

// encodeArgs joins arguments, each with a NUL byte behind it, which none can hold.
func encodeArgs(args []string) ([]byte, error) {
	var b []byte
	for _, a := range args {
		if strings.IndexByte(a, 0) >= 0 {
			return nil, &frameError{"an argument holds a NUL byte"}
		}
		b = append(append(b, a...), 0)
	}
	if len(b) > MaxArgs {
		return nil, &frameError{fmt.Sprintf("the arguments are %d bytes, more than %d; text may come on stdin", len(b), MaxArgs)}
	}
	return b, nil
}

func decodeArgs(b []byte) ([]string, error) {
	if len(b) == 0 {
		return nil, nil
	}
	if b[len(b)-1] != 0 {
		return nil, &frameError{"the arguments are cut off"}
	}
	return strings.Split(string(b[:len(b)-1]), "\x00"), nil
}
