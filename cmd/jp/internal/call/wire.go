// Package call passes command lines of a jp that runs inside a tool to the jp that runs the tool.
//
// A tool with access.jp inherits one socket, which several processes of it may hold. So a jp inside
// (Ask) only writes one byte to it, and gets one end of a connection of its own. On that connection
// frames are sent:
//
//	jp inside -> owner   a  the arguments, once, first       owner -> jp inside   r  stdin is wanted
//	                     i  stdin; empty at its end                                o  stdout
//	                                                                               e  stderr
//	                                                                               x  the exit status, last
//
// The peer is not trusted: it may be any program of the tool. Everything that it can send is
// bounded, for one command and for all commands of a call together. At most Lines connections are
// served at a time. Before a command has ended nothing but the wish for stdin is sent. All
// connections end with the call. An invalid byte ends the connection; on the inherited socket it
// ends the service.
package call

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Bounds. A query is text for a model; what a tool may return is much less than MaxOutput. A
// command that waits for a slot of a sub-agent keeps little, so Lines is above the usual
// delegation.max_parallel.
const (
	Lines     = 64        // connections of one tool call served at a time; others wait
	maxSum    = 112 << 20 // bytes that all commands of one tool call keep
	MaxArgs   = 1 << 20   // bytes of arguments
	MaxInput  = 4 << 20   // bytes of stdin
	MaxOutput = 8 << 20   // bytes of stdout
	maxErrors = 1 << 20   // bytes of stderr
	maxChunk  = 64 << 10
)

// The kinds of frames. A frame is one byte for its kind, four for the length of its body (big
// endian), and the body.
const (
	frameArgs   = 'a'
	frameInput  = 'i'
	frameWant   = 'r'
	frameOutput = 'o'
	frameErrors = 'e'
	frameExit   = 'x'
)

// limits are the most bytes of a body, by kind.
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

// A frameError says that the peer broke the protocol.
type frameError struct{ msg string }

func (e *frameError) Error() string { return "line: " + e.msg }

func writeFrame(w io.Writer, kind byte, body []byte) error {
	b := make([]byte, 5, 5+len(body))
	b[0] = kind
	binary.BigEndian.PutUint32(b[1:], uint32(len(body)))
	_, err := w.Write(append(b, body...))
	return err
}

// readFrame reads a frame of one of the kinds that are allowed. io.EOF means that the peer ended
// between two frames.
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

// encodeArgs joins arguments, each with a NUL byte behind it, which no argument can have in it.
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
