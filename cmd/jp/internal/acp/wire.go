package acp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"jp/tools/jsondoc"
)

// MaxMessage bounds a message of a client, in bytes: the images of one prompt in base64, and some
// text.
const MaxMessage = 32 << 20

// Codes of JSON-RPC and of the protocol.
const (
	codeParse    = -32700 // not JSON
	codeRequest  = -32600 // not a request, or one that is refused now
	codeMethod   = -32601 // no such method
	CodeParams   = -32602 // wrong parameters
	CodeInternal = -32603 // everything else that went wrong
	CodeNotFound = -32002 // something that the request names does not exist
	codeGivenUp  = -32800 // the client cancelled the request
)

// Error is the answer to a request that failed.
type Error struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"`
}

func (e *Error) Error() string { return e.Message }

// Paramsf returns an error about the parameters of a request.
func Paramsf(format string, args ...any) *Error {
	return &Error{Code: CodeParams, Message: fmt.Sprintf(format, args...)}
}

func requestf(format string, args ...any) *Error {
	return &Error{Code: codeRequest, Message: fmt.Sprintf(format, args...)}
}

// asError converts any error to an answer.
func asError(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	return &Error{Code: CodeInternal, Message: err.Error()}
}

// message is one line of the client: a request, a notification (a request without ID), or the
// answer to one of our requests.
type message struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
	Result  json.RawMessage `json:"result"`
	Error   *Error          `json:"error"`
}

// request and response are what the agent sends.
type request struct {
	Version string `json:"jsonrpc"`
	ID      *int64 `json:"id,omitempty"` // nil = a notification
	Method  string `json:"method"`
	Params  any    `json:"params"`
}

type response struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  any             `json:"result"`
}

type failure struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Error   *Error          `json:"error"`
}

var null = json.RawMessage("null")

// decode parses one message. If the line is not a message, the error is the answer to it, and the
// id is the one to answer with.
func decode(line []byte) (m message, id json.RawMessage, bad *Error) {
	switch {
	case jsondoc.Crowded(line, jsondoc.MaxValues):
		return m, null, requestf("a message has more than %d values", jsondoc.MaxValues)
	case !json.Valid(line):
		return m, null, &Error{Code: codeParse, Message: "the line is no JSON"}
	case line[0] == '[':
		return m, null, requestf("a batch of requests is not taken: send one message a line")
	case line[0] != '{':
		return m, null, requestf("a message is a JSON object")
	}
	if err := json.Unmarshal(line, &m); err != nil {
		return m, null, requestf("no message of JSON-RPC: %s", jsondoc.Explain(err))
	}
	switch {
	case m.ID != nil && !validID(m.ID):
		return m, null, requestf("id: want a string of at most %d bytes or a whole number", maxID)
	case m.Version != "2.0":
		return m, or(m.ID, null), requestf("jsonrpc: want \"2.0\"")
	case m.Method == "" && m.ID == nil:
		return m, null, requestf("neither a method nor an id")
	}
	return m, m.ID, nil
}

// maxID is the longest id in bytes, as it is written.
const maxID = 256

// validID reports whether raw, which is JSON, is a string or a whole number.
func validID(raw json.RawMessage) bool {
	return len(raw) <= maxID && (raw[0] == '"' || len(bytes.Trim(raw, "-0123456789")) == 0)
}

func or(a, b json.RawMessage) json.RawMessage {
	if a != nil {
		return a
	}
	return b
}

// encode writes a message as one line.
func encode(m any) ([]byte, error) {
	b, err := jsondoc.Encode(m)
	if err != nil {
		return nil, err
	}
	return append(b, '\n'), nil
}

// errLong is the error for a line that is longer than MaxMessage. The line was skipped.
var errLong = fmt.Errorf("a message is longer than %d MiB", MaxMessage>>20)

// lines reads lines of at most most bytes.
type lines struct {
	r    *bufio.Reader
	most int
}

// next returns the next line that is not empty, without white space around it. The line is valid
// until the next call. After errLong, next continues with the following line.
func (l *lines) next() ([]byte, error) {
	for {
		var line []byte
		long := false
		for {
			part, err := l.r.ReadSlice('\n')
			if long = long || len(line)+len(part) > l.most; !long {
				line = append(line, part...)
			}
			if err == nil || errors.Is(err, io.EOF) && len(line) > 0 {
				break
			}
			if !errors.Is(err, bufio.ErrBufferFull) {
				return nil, err
			}
		}
		if long {
			return nil, errLong
		}
		if line = bytes.TrimSpace(line); len(line) > 0 {
			return line, nil
		}
	}
}
