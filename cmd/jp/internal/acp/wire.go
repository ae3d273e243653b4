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

// MaxMessage is the longest message that is taken from a client, in bytes: what the images of one prompt may be in base64, and
// some text.
const MaxMessage = 32 << 20

// Codes of JSON-RPC and of the protocol.
const (
	codeParse    = -32700 // no JSON
	codeRequest  = -32600 // no request, or one that cannot be taken now
	codeMethod   = -32601 // no such method
	CodeParams   = -32602 // wrong parameters
	CodeInternal = -32603 // everything else that went wrong
	CodeNotFound = -32002 // what the request names is not there
	codeGivenUp  = -32800 // the client cancelled the request
)

// Error is the answer to a request that cannot be carried out.
type Error struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    any    `json:"data,omitempty"`
}

func (e *Error) Error() string { return e.Message }

// Paramsf says what is wrong with what a client sent along.
func Paramsf(format string, args ...any) *Error {
	return &Error{Code: CodeParams, Message: fmt.Sprintf(format, args...)}
}

func requestf(format string, args ...any) *Error {
	return &Error{Code: codeRequest, Message: fmt.Sprintf(format, args...)}
}

// asError makes an answer of any error.
func asError(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Code: CodeInternal, Message: err.Error()}
}

// message is one line of the client: a request, a notification (a request without ID) or the answer to a request of ours.
type message struct {
	Version string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id,omitempty"`
	Method  string          `json:"method"`
	Params  json.RawMessage `json:"params"`
	Result  json.RawMessage `json:"result"`
	Error   *Error          `json:"error"`
}

// request and response are what goes out.
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

// decode reads one message. The error is the answer to one that is none, with the id that goes with it.
func decode(line []byte) (m message, id json.RawMessage, bad *Error) {
	switch {
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
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(m); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// errLong is a line that is longer than MaxMessage. It was passed over.
var errLong = fmt.Errorf("a message is longer than %d MiB", MaxMessage>>20)

// lines reads lines of at most most bytes.
type lines struct {
	r    *bufio.Reader
	most int
}

// next returns the next line that is not empty, without white space around it; the caller's until the next call. After errLong it
// goes on behind that line.
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
