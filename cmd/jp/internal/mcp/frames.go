package mcp

import (
	"bytes"
	"fmt"
	"io"
	"regexp"
	"sync"

	"jp/tools/jsondoc"
)

// maxDrained is how many bytes are read of a message that is too large. A larger one ends the
// server.
const maxDrained = 16 * maxMessage

// frames is the output of a server, line by line. An answer that is larger than a message may be is
// read to its end and replaced by an error for its call, so that the server can go on.
type frames struct {
	io.ReadCloser
	line []byte // beginning of the current line, at most maxMessage bytes
	tail []byte // end of the rest of the current line
	size int    // bytes of the current line
	out  []byte // bytes to return
	err  error  // error to return after out

	values int  // of the lines before, as far as they may be of one message with the current line
	open   bool // whether the last of them ends within a message
}

func (f *frames) Read(p []byte) (int, error) {
	buf := make([]byte, 32<<10)
	for len(f.out) == 0 {
		if f.err != nil {
			return 0, f.err
		}
		n, err := f.ReadCloser.Read(buf)
		f.take(buf[:n])
		if f.err = err; err != nil { // the reader decides about a last line without an end
			if f.follow(f.line, jsondoc.Values(f.line)) {
				f.line = f.line[:1]
			}
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
			f.out, f.line = append(f.out, f.line...), nil // the reader fails on it
		}
		b = rest
	}
}

// tailBytes is enough for the end of a message, after its result.
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

// end puts the line into out, or the error that replaces it.
func (f *frames) end() {
	line := f.line
	n := jsondoc.Values(line)
	many := f.follow(line, n)
	switch {
	case f.size > maxMessage && len(f.line) > 0:
		if id := answered(line[:tailBytes], f.tail); id != nil {
			line = tooLarge(id)
		}
	case n > jsondoc.MaxValues:
		if id := answered(line[:tailBytes], line[len(line)-tailBytes:]); id != nil {
			line = tooMany(id)
		} else {
			line = line[:1] // the reader fails on it
		}
	case many:
		line = []byte("?") // the reader fails on it
	}
	f.out = append(append(f.out, line...), '\n')
	f.line, f.tail, f.size = nil, nil, 0
}

// follow counts the n values of a line with those before it of the same message, and reports
// whether these are too many: the reader takes messages of several lines, though the protocol has
// none.
func (f *frames) follow(line []byte, n int) bool {
	line = bytes.TrimSpace(line)
	if len(line) == 0 {
		return false
	}
	if !f.open && !bytes.ContainsRune([]byte(",:]}"), rune(line[0])) {
		f.values = 0
	}
	f.values += n
	f.open = !bytes.ContainsRune([]byte("]}"), rune(line[len(line)-1]))
	return f.values > jsondoc.MaxValues
}

// tooLarge replaces an answer that is larger than a message may be.
func tooLarge(id []byte) []byte {
	return failed(id, fmt.Sprintf("the result is larger than %d MB", maxMessage>>20))
}

// tooMany replaces an answer of more values than a message may have.
func tooMany(id []byte) []byte {
	return failed(id, fmt.Sprintf("the result has more than %d values", jsondoc.MaxValues))
}

// failed is an error in place of an answer.
func failed(id []byte, why string) []byte {
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32000,"message":%q}}`, id, why)
}

// The beginning of an answer, with its id before its result, and the end of one, with its id after
// it. No string inside a result can look like either.
var (
	mayAnswer = once(`^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"(?:id|result)"\s*:`)
	idAtStart = once(`^\s*\{\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d+)\s*,`)
	idAtEnd   = once(`\}\s*,\s*(?:"jsonrpc"\s*:\s*"2\.0"\s*,\s*)?"id"\s*:\s*(\d+)\s*(?:,\s*"jsonrpc"\s*:\s*"2\.0"\s*)?\}\s*$`)
)

// once compiles a pattern at its first use, because else every process would do it at its start.
func once(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}

// answered returns the id in an answer, of which only the beginning and the end are there; nil =
// none.
func answered(head, tail []byte) []byte {
	for _, m := range [][][]byte{idAtStart().FindSubmatch(head), idAtEnd().FindSubmatch(tail)} {
		if m != nil {
			return m[1]
		}
	}
	return nil
}
