package mcp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"jp/tools/jsondoc"
)

// lineConn is the connection to a client that writes one message a line. Read returns
// a *jsonrpc.Error for a line that is no message, and may be called again: the transport of the SDK
// ends there.
type lineConn struct {
	in     chan read
	closed chan struct{}
	close  sync.Once
	mu     sync.Mutex // one line is written at a time
	out    io.Writer
}

// read is a message that was read, or the reason why none was.
type read struct {
	msg jsonrpc.Message
	err error
}

// newLineConn begins to read. It may keep waiting for in after Close.
func newLineConn(in io.Reader, out io.Writer) *lineConn {
	c := &lineConn{in: make(chan read), closed: make(chan struct{}), out: out}
	go c.readLines(bufio.NewReaderSize(in, 32<<10))
	return c
}

func (c *lineConn) readLines(in *bufio.Reader) {
	for {
		line, long, err := readLine(in)
		var list []read
		switch line = bytes.TrimSpace(line); {
		case long:
			list = []read{{err: invalidf("a message is longer than %d MB", maxMessage>>20)}}
		case len(line) > 0:
			list = decodeLine(line)
		}
		if err != nil {
			list = append(list, read{err: err})
		}
		for _, r := range list {
			select {
			case c.in <- r:
			case <-c.closed:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// readLine returns the next line, or nothing of one that is longer than a message may be.
func readLine(in *bufio.Reader) (line []byte, long bool, err error) {
	for {
		part, err := in.ReadSlice('\n')
		if long = long || len(line)+len(part) > maxMessage; long {
			line = nil
		} else {
			line = append(line, part...)
		}
		if !errors.Is(err, bufio.ErrBufferFull) {
			return line, long, err
		}
	}
}

// maxBatch bounds the messages of a batch.
const maxBatch = 1024

// decodeLine returns the message in a line. Earlier versions of the protocol have batches: each
// message of one is answered by itself.
func decodeLine(line []byte) (list []read) {
	var batch []json.RawMessage
	switch {
	case jsondoc.Crowded(line, jsondoc.MaxValues):
		return []read{{err: invalidf("a message has more than %d values", jsondoc.MaxValues)}}
	case !json.Valid(line):
		return []read{{err: &jsonrpc.Error{Code: jsonrpc.CodeParseError, Message: "the line is no JSON"}}}
	case line[0] != '[':
		batch = []json.RawMessage{line}
	case json.Unmarshal(line, &batch) != nil || len(batch) == 0:
		return []read{{err: invalidf("a batch without messages")}}
	case len(batch) > maxBatch:
		return []read{{err: invalidf("a batch of more than %d messages", maxBatch)}}
	}
	for _, raw := range batch {
		msg, err := jsonrpc.DecodeMessage(raw)
		if err != nil {
			err = invalidf("no message of JSON-RPC: %v", jsondoc.Explain(err))
		} else if r, ok := msg.(*jsonrpc.Request); ok && longID(r) {
			err = invalidf("id: want at most %d bytes", maxID)
		}
		list = append(list, read{msg, err})
	}
	return list
}

func invalidf(format string, args ...any) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: fmt.Sprintf(format, args...)}
}

func (c *lineConn) Read(ctx context.Context) (jsonrpc.Message, error) {
	select {
	case r := <-c.in:
		return r.msg, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-c.closed:
		return nil, io.EOF
	}
}

func (c *lineConn) Write(ctx context.Context, msg jsonrpc.Message) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	line, err := jsonrpc.EncodeMessage(msg)
	if r, ok := msg.(*jsonrpc.Response); ok && !r.ID.IsValid() { // the SDK leaves the id out
		line, err = json.Marshal(struct {
			Version string  `json:"jsonrpc"`
			ID      *string `json:"id"`
			Error   error   `json:"error"`
		}{"2.0", nil, r.Error})
	}
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	_, err = c.out.Write(append(line, '\n'))
	return err
}

// Close leaves the streams open, because they belong to the process.
func (c *lineConn) Close() error {
	c.close.Do(func() { close(c.closed) })
	return nil
}

func (*lineConn) SessionID() string { return "" }
