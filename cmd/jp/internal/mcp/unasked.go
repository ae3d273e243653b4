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

// Bounds of what a server says by itself.
const (
	maxUnasked = 20_000 // messages since the last call; there is one answer to each
	maxReplies = 64     // to requests of its own, that it has not read
	maxAsked   = 1000   // requests since the last call of one behind an address, which is answered by requests
	maxID      = 256    // bytes of the id of such a request
)

const (
	methodPing        = "ping"
	methodListChanged = "notifications/tools/list_changed"
)

// bounds is what a server may still say, and how it went wrong. Its methods may be called at the same time.
type bounds struct {
	messages, asked atomic.Int64
	mu              sync.Mutex
	broken          error         // the first fault
	over            chan struct{} // closed with it
}

func newBounds() *bounds { return &bounds{over: make(chan struct{})} }

// renew is for every call.
func (b *bounds) renew() {
	b.messages.Store(0)
	b.asked.Store(0)
}

// said counts n more, of which limit are for maxUnasked messages. After a fault it returns that.
func (b *bounds) said(n, limit int) error {
	if err := b.err(); err != nil {
		return err
	}
	if b.messages.Add(int64(n)) > int64(limit) {
		return b.fault(fmt.Errorf("it sent more than %d messages that nobody asked for", maxUnasked))
	}
	return nil
}

// fault keeps err as the reason for the end of the connection, and returns it.
func (b *bounds) fault(err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.broken == nil {
		b.broken = err
		close(b.over)
	}
	return err
}

// err is the first fault, nil when there was none.
func (b *bounds) err() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.broken
}

// why is err in words, "" when there was none.
func (b *bounds) why() string {
	if err := b.err(); err != nil {
		return cleanText(err.Error())
	}
	return ""
}

// answering lets the answers of a program through to the SDK, and deals itself with what the program tells and asks unasked: the
// SDK would keep all of that, in a queue without bounds, and hold a goroutine for each request until the program reads its answer.
type answering struct {
	sdk.Transport
	bounds *bounds
	// stale reports whether it is known already that the list of tools has changed.
	stale func() bool
}

func (a answering) Connect(ctx context.Context) (sdk.Connection, error) {
	c, err := a.Transport.Connect(ctx)
	if err != nil {
		return nil, err
	}
	f := &answers{Connection: c, bounds: a.bounds, stale: a.stale, replies: make(chan *jsonrpc.Response, maxReplies), done: make(chan struct{})}
	go f.reply()
	return f, nil
}

type answers struct {
	sdk.Connection
	bounds  *bounds
	stale   func() bool
	replies chan *jsonrpc.Response
	once    sync.Once
	done    chan struct{} // closed when the connection is
}

func (f *answers) Close() error {
	f.once.Do(func() { close(f.done) })
	return f.Connection.Close()
}

// Read returns the next answer, or that the list of tools has changed.
func (f *answers) Read(ctx context.Context) (jsonrpc.Message, error) {
	for {
		msg, err := f.Connection.Read(ctx)
		if err != nil {
			if ended := errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.ErrClosedPipe) || ctx.Err() != nil; !ended {
				err = f.bounds.fault(fmt.Errorf("it wrote something on stdout that is no message: %w", err))
			}
			return nil, err
		}
		if err := f.bounds.said(1, maxUnasked); err != nil {
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
		case req.Method == methodListChanged && !f.stale():
			return msg, nil
		}
	}
}

// refuse has a request of the server answered. A ping is the only one that nobody refuses.
func (f *answers) refuse(req *jsonrpc.Request) error {
	if id, ok := req.ID.Raw().(string); ok && len(id) > maxID {
		return f.bounds.fault(fmt.Errorf("it sent a request with an id of %d bytes", len(id)))
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

// errRequest refuses what a server may ask of a client: sampling, elicitation, roots and whatever there will be.
var errRequest = &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "requests of a server are refused"}

// reply writes the answers to the server's requests.
func (f *answers) reply() {
	for {
		select {
		case r := <-f.replies:
			if f.Connection.Write(context.Background(), r) != nil {
				return // whoever reads hears of it
			}
		case <-f.done:
			return
		}
	}
}

// refuseRequests does the same for a server behind an address, whose messages the SDK reads by itself: too many requests end the
// connection.
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
