// Package tomldoc decodes TOML from people and from repositories that nobody vouches for, and says
// on which line each key is.
//
// [Decode] is the way in: github.com/BurntSushi/toml decodes, after a reader of our own has looked
// at the same bytes. That reader finds the positions, which the decoder does not give, and refuses
// text that would cost the decoder minutes, its stack or a panic. A fuzz test holds the two
// together: a text that the decoder accepts has a [Mark] for every key and item, and nothing more.
//
// [Tree] decodes into a tree of plain values, which [Merge], [Lookup] and [Clone] work on;
// [ParseJSON] makes such values too. [JoinKey] and [SplitKey] are the text form of keys. [Splice]
// and [Format] edit a text in place; [String], [Lines] and [Inline] write values.
//
// The functions are safe for concurrent use; a [Mark] is not while keys are added.
package tomldoc

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/BurntSushi/toml"
)

// Error is what is wrong with a text.
type Error struct {
	Line int    // from 1; 0 = unknown
	Key  string // last key that the decoder has read; "" = unknown
	Msg  string // without line and key, on one line
	Err  error  // of the decoder; nil when it was not asked
}

func (e *Error) Error() string {
	if e.Line == 0 {
		return e.Text()
	}
	return fmt.Sprintf("line %d: %s", e.Line, e.Text())
}

// Text is the error without its line.
func (e *Error) Text() string {
	if e.Key == "" {
		return e.Msg
	}
	return e.Key + ": " + e.Msg
}

// Unwrap returns the cause, nil when there is none.
func (e *Error) Unwrap() error { return e.Err }

// Decode decodes a TOML document into v, as toml.Decode does, and returns the positions of its
// keys. Every error is an *Error. Bytes that are not UTF-8, keys deeper than MaxNesting and empty
// keys are errors.
func Decode(data []byte, v any) (md toml.MetaData, marks *Mark, err error) {
	for rest, line := data, 1; len(rest) > 0; {
		r, n := utf8.DecodeRune(rest)
		switch {
		case r == utf8.RuneError && n == 1:
			return md, nil, &Error{Line: line, Msg: "not UTF-8 text"}
		case r == '\n':
			line++
		}
		rest = rest[n:]
	}
	marks, err = locate(string(data))
	if err != nil {
		return md, nil, err
	}
	// The decoder panics when it detects a bug of its own; hostile bytes must not end the program.
	defer func() {
		if r := recover(); r != nil {
			cause := fmt.Errorf("the decoder fails: %v", r)
			marks, err = nil, &Error{Msg: OneLine(cause.Error()), Err: cause}
		}
	}()
	if md, err = toml.Decode(string(data), v); err != nil {
		return md, nil, Explain(err)
	}
	return md, marks, nil
}

// mistyped matches the decoder's errors about a value of a wrong type, for which it has no Go type.
var mistyped = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^toml: (?:line (\d+) )?(?:\(last key "([^"]*)"\): )?((?s).*)$`)
})

// Explain turns an error of the decoder into an *Error.
func Explain(err error) *Error {
	if pe, ok := errors.AsType[toml.ParseError](err); ok {
		return &Error{Line: max(pe.Position.Line, 1), Key: pe.LastKey, Msg: OneLine(pe.Message), Err: err}
	}
	m := mistyped().FindStringSubmatch(err.Error())
	if m == nil {
		return &Error{Msg: OneLine(err.Error()), Err: err}
	}
	line, _ := strconv.Atoi(m[1]) // digits or nothing
	return &Error{Line: line, Key: m[2], Msg: OneLine(m[3]), Err: err}
}

// OneLine makes a message of a decoder part of one of ours: on one line, of at most 203 bytes.
func OneLine(s string) string {
	s = strings.Join(strings.Fields(s), " ")
	if len(s) > 200 {
		s = strings.ToValidUTF8(s[:200], "") + "..."
	}
	return s
}
