package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Bounds of what a server sends without being asked.
const (
	maxUnasked = 20_000 // messages since the last call; there is one answer to each call
	maxReplies = 64     // answers to its requests that it has not read
	// requests since the last call, of a server with an address: each answer is a request
	maxAsked = 1000
	maxID    = 256 // bytes of the id of a request
)

const (
	methodPing        = "ping"
	methodCall        = "tools/call"
	methodListChanged = "notifications/tools/list_changed"
)

// bounds counts what a server may still send, and remembers its first fault. Safe for concurrent
// use.
type bounds struct {
	messages, asked atomic.Int64
	missing         atomic.Bool // whether the server does not know the session any more
	mu              sync.Mutex
	broken          error         // first fault; nil = none
	over            chan struct{} // closed at the first fault
}

func newBounds() *bounds { return &bounds{over: make(chan struct{})} }

// renew sets the counts back, at every call.
func (b *bounds) renew() {
	b.messages.Store(0)
	b.asked.Store(0)
}

// said counts n more messages. After a fault it returns the fault.
func (b *bounds) said(n int) error {
	if err := b.err(); err != nil {
		return err
	}
	if b.messages.Add(int64(n)) > maxUnasked {
		return b.fault(fmt.Errorf("it sent more than %d messages that nobody asked for", maxUnasked))
	}
	return nil
}

// fault remembers err as the reason why the connection ends, and returns it.
func (b *bounds) fault(err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.broken == nil {
		b.broken = err
		close(b.over)
	}
	return err
}

// err returns the first fault, nil for none.
func (b *bounds) err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.broken
}

// why returns the text of the first fault, "" for none.
func (b *bounds) why() string {
	if err := b.err(); err != nil {
		return cleanText(err.Error())
	}
	return ""
}

// answering passes the answers of a program to the SDK. It handles notifications and requests of
// the program itself: the SDK would queue them without bounds, and hold a goroutine for each
// request until the program reads the answer.
type answering struct {
	sdk.Transport
	bounds *bounds
	// changed is set when the program says that its list of tools has changed, before the next
	// message is read: the SDK would say it at some time after the answers that follow.
	changed *atomic.Bool
}

func (a answering) Connect(ctx context.Context) (sdk.Connection, error) {
	c, err := a.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	f := &answers{Connection: c, bounds: a.bounds, changed: a.changed, replies: make(chan *jsonrpc.Response, maxReplies), done: make(chan struct{})}
	go f.reply()
	return f, nil
}

type answers struct {
	sdk.Connection
	bounds  *bounds
	changed *atomic.Bool
	replies chan *jsonrpc.Response
	once    sync.Once
	done    chan struct{} // closed with the connection
}

func (f *answers) Close() error {
	f.once.Do(func() { close(f.done) })
	return f.Connection.Close()
}

// Read returns the next answer.
func (f *answers) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		msg, err := f.Connection.Read(ctx)
		if err != nil {
			if ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.ErrClosedPipe) || ctx.Err() != nil; !ended {
				err = f.bounds.fault(fmt.Errorf("it wrote something on stdout that is not a message: %w", err))
			}
			return nil, err
		}
		if err := f.bounds.said(1); err != nil {
			return nil, err
		}
		req, unasked := msg.(*jsonrpc.Request)
		switch {
		case !unasked:
			return msg, nil
		case req.IsCall():
			if err := f.refuse(req); err != nil {
				return nil, err
			}
		case req.Method == methodListChanged:
			f.changed.Store(true)
		}
	}
}

// longID reports whether the id of a request is longer than an answer to it may repeat.
func longID(req *jsonrpc.Request) bool {
	id, ok := req.ID.Raw().(string)
	return ok && len(id) > maxID
}

// refuse answers a request of the server with a refusal. Only a ping gets a real answer.
func (f *answers) refuse(req *jsonrpc.Request) error {
	if longID(req) {
		return f.bounds.fault(fmt.Errorf("it sent a request with an id of more than %d bytes", maxID))
	}
	r := &jsonrpc.Response{ID: req.ID, Result: json.RawMessage("{}")}
	if req.Method != methodPing {
		r.Result, r.Error = nil, errRequest
	}
	select {
	case f.replies <- r:
		return nil
	default:
		return f.bounds.fault(fmt.Errorf("it sent requests and read no answer to %d of them", maxReplies))
	}
}

// errRequest refuses what a server may ask of a client: sampling, elicitation, roots, and future
// requests.
var errRequest = &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "requests of a server are refused"}

// reply writes the answers to the server's requests.
func (f *answers) reply() {
	for {
		select {
		case r := <-f.replies:
			if f.Connection.Write(context.Background(), r) != nil {
				return // the reader gets the error
			}
		case <-f.done:
			return
		}
	}
}

// refuseRequests does the same for a server with an address, whose messages the SDK reads itself:
// too many requests end the connection.
func refuseRequests(b *bounds) sdk.Middleware {
	return func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			if strings.HasPrefix(method, "notifications/") {
				return next(ctx, method, req)
			}
			if b.asked.Add(1) > maxAsked {
				_ = b.fault(fmt.Errorf("it sent more than %d requests that nobody asked for", maxAsked))
			} else if method == methodPing {
				return next(ctx, method, req)
			}
			return nil, errRequest
		}
	}
}
