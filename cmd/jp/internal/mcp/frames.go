package mcp

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"sync"
)

// maxDrained bounds what is read of one message that is too large, in bytes. A larger one ends the server.
const maxDrained = 16 * maxMessage

// frames is the output of a server, line by line. An answer that is larger than a message may be is read to its end and
// replaced by an error for the call that it answers, so that the server need not be ended for it.
type frames struct {
	io.ReadCloser
	line []byte // of the present line, up to maxMessage bytes
	tail []byte // the end of what is behind it
	size int    // of the present line, in all
	out  []byte // is handed on
	err  error  // comes behind out
}

func (f *frames) Read(p []byte) (int, error) {
	buf := make([]byte, 32<<10)
	for len(f.out) == 0 {
		if f.err != nil {
			return 0, f.err
		}
		n, err := f.ReadCloser.Read(buf)
		f.take(buf[:n])
		if f.err = err; err != nil { // a last line without an end is for the reader to judge
			f.out = append(f.out, f.line...)
			f.line = nil
		}
	}
	n := copy(p, f.out)
	f.out = f.out[n:]
	return n, nil
}

func (f *frames) take(b []byte) {
	for len(b) > 0 {
		part, rest, ended := bytes.Cut(b, []byte("\n"))
		f.add(part)
		if ended {
			f.end()
		}
		if f.size > maxDrained || f.size > maxMessage && len(f.line) > 0 && !mayAnswer().Match(f.line[:tailBytes]) {
			f.out, f.line = append(f.out, f.line...), nil // the reader fails at it
		}
		b = rest
	}
}

// tailBytes are enough for the end of a message behind its result.
const tailBytes = 256

func (f *frames) add(part []byte) {
	f.size += len(part)
	if n := min(len(part), maxMessage+1-(f.size-len(part))); n > 0 {
		f.line = append(f.line, part[:n]...)
	}
	if f.size > maxMessage {
		f.tail = append(f.tail, part...)
		f.tail = bytes.Clone(f.tail[max(0, len(f.tail)-tailBytes):])
	}
}

// end hands the line on, or the error that stands for it.
func (f *frames) end() {
	line := f.line
	if f.size > maxMessage && len(f.line) > 0 {
		if id := answered(line[:tailBytes], f.tail); id != nil {
			line = tooLarge(id)
		}
	}
	f.out = append(append(f.out, line...), '\n')
	f.line, f.tail, f.size = nil, nil, 0
}

// tooLarge stands for an answer that is larger than a message may be.
func tooLarge(id []byte) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":"the result is larger than %d MB"}}`, id, maxMessage>>20)
}

// What begins an answer, and where its id is: before its result, or behind it. What is in a string of the result cannot look like either.
var (
	mayAnswer = once(`^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"(?:id|result)"\s*:`)
	idAtStart = once(`^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d+)\s*,`)
	idAtEnd   = once(`\}\s*,\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d+)\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$`)
)

// once compiles a pattern when it is first used: every process would pay for it at its start.
func once(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}

// answered returns the id in an answer of which there are only the beginning and the end; nil for none.
func answered(head, tail []byte) []byte {
	for _, m := range [][][]byte{idAtStart().FindSubmatch(head), idAtEnd().FindSubmatch(tail)} {
		if m != nil {
			return m[1]
		}
	}
	return nil
}
