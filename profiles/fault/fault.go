// Package fault has the one error for mistakes in files of config, agents and skills: where, at
// which key, what, and what to try. The packages below profiles that read such files return it, and
// profiles passes it on.
package fault

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"

	"jp/profiles/tomldoc"
)

// Error is every error of loading config. Its text is `file:line: key: message`. For what is in no
// file, the layer ("--cfg", "JP_CFG_ASSISTANT__MODEL", "stored config") takes the place of the
// file; unknown parts are left out. It does not repeat a value, except names of models and
// profiles, and what the TOML decoder quotes of a line that is not TOML.
type Error struct {
	File  string // absolute path, or builtin:<name>; "" when the value is in no file
	Line  int    // 1-based; 0 = unknown
	Layer string // named in place of File when that is ""
	Key   string // dotted, quoted where TOML quotes
	Msg   string // what is wrong, lowercase, without the subject
	Hint  string // what to try; "" = nothing to say
	Err   error  // cause, for errors.Is; its text is part of Msg already
}

func (e *Error) Error() string {
	var b strings.Builder
	if at := (Position{File: e.File, Line: e.Line, Layer: e.Layer}).String(); at != "" {
		b.WriteString(at)
		b.WriteString(": ")
	}
	if e.Key != "" {
		b.WriteString(e.Key)
		b.WriteString(": ")
	}
	b.WriteString(e.Msg)
	return b.String()
}

// Unwrap returns the cause, nil when there is none.
func (e *Error) Unwrap() error { return e.Err }

// OfTOML returns the *Error, without a file, for an error of tomldoc.
func OfTOML(err error) *Error {
	var bad *tomldoc.Error
	switch {
	case !errors.As(err, &bad):
		return &Error{Msg: err.Error(), Err: err}
	case bad.Err != nil:
		return &Error{Line: bad.Line, Msg: "not valid TOML: " + bad.Msg, Err: bad.Err}
	}
	return &Error{Line: bad.Line, Key: bad.Key, Msg: bad.Msg}
}

// Position says where a value was written. The zero Position is the program's defaults.
type Position struct {
	File  string `json:"file,omitempty"` // absolute path, or builtin:<name>
	Line  int    `json:"line,omitempty"` // 1-based; 0 = unknown
	Layer string `json:"layer"`          // as Layer.Name
}

// String is `file:line`, `file`, or the layer.
func (p Position) String() string {
	switch {
	case p.File != "" && p.Line > 0:
		return p.File + ":" + strconv.Itoa(p.Line)
	case p.File != "":
		return p.File
	}
	return p.Layer
}

// Sort puts the errors of one document in the order of its lines.
func Sort(errs []*Error) {
	slices.SortStableFunc(errs, func(a, b *Error) int {
		return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Key, b.Key))
	})
}
