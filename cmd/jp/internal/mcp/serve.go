package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"jp/tools"
)

// Service is jp as an MCP server: tools to call, and texts to read. Its functions may be called at the same time.
type Service struct {
	Version      string
	Instructions string // for the client's model
	Tools        tools.Set
	// ReadOnly reports of a tool whether nothing changes through it but what jp itself keeps. A client may run such calls at the
	// same time. nil = none is.
	ReadOnly func(tools.Tool) bool
	// Call carries out one call. tell says how it goes, in a few words, and may be called from any goroutine until Call returns.
	// When the client cancels the call, ctx ends.
	Call func(ctx context.Context, name string, args json.RawMessage, tell func(string)) tools.Result
	// Texts lists what can be read now, Read returns one.
	Texts func(ctx context.Context) ([]Text, error)
	Read  func(ctx context.Context, uri string) (string, error)
	// Bound is told the context that ends when the client says nothing any more: writes to it need not wait for it from then on. nil
	// waits.
	Bound func(context.Context)
	// Template is the form of the addresses, as RFC 6570 has it.
	Template string
}

// Text is something that can be read.
type Text struct {
	URI, Name, Title string
}

const plainText = "text/plain"

// maxPage is how many texts one page of their list has.
const maxPage = 200

// Run serves one client, which writes to in and reads from out, until in ends or ctx does. It returns when every call has; those
// that still run are cancelled.
func (s Service) Run(ctx context.Context, in io.Reader, out io.Writer) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	left, leave := context.WithCancelCause(ctx) // its client has gone
	defer leave(nil)
	if s.Bound != nil {
		s.Bound(left)
	}
	server := sdk.NewServer(&sdk.Implementation{Name: "jp", Version: s.Version}, &sdk.ServerOptions{
		Instructions: s.Instructions, PageSize: maxTools,
		Capabilities: &sdk.ServerCapabilities{Tools: &sdk.ToolCapabilities{}, Resources: &sdk.ResourceCapabilities{}},
		SetCacheable: func(_ context.Context, _ sdk.Request, c *sdk.Cacheable) { c.CacheScope = cacheScope },
	})
	for t := range s.Tools.All() {
		tool := &sdk.Tool{Name: t.Name, Description: t.Description, InputSchema: t.Schema}
		if s.ReadOnly != nil && s.ReadOnly(t) {
			tool.Annotations = &sdk.ToolAnnotations{ReadOnlyHint: true}
		}
		server.AddTool(tool, func(asked context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
			asked, stop := context.WithCancelCause(asked)
			defer stop(nil)
			defer context.AfterFunc(left, func() { stop(context.Cause(left)) })()
			result := s.Call(asked, r.Params.Name, r.Params.Arguments, progress(asked, r))
			return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: result.Text}}, IsError: result.IsError}, nil
		})
	}
	server.AddResourceTemplate(&sdk.ResourceTemplate{Name: "conversation", Title: "Transcript of a sub-conversation", URITemplate: s.Template, MIMEType: plainText},
		func(ctx context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
			text, err := s.Read(ctx, r.Params.URI)
			if err != nil {
				return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: err.Error()}
			}
			return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{URI: r.Params.URI, MIMEType: plainText, Text: text}}}, nil
		})
	server.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, req sdk.Request) (sdk.Result, error) {
			if method != "resources/list" {
				return next(ctx, method, req)
			}
			p, _ := req.GetParams().(*sdk.ListResourcesParams)
			if p == nil {
				p = &sdk.ListResourcesParams{}
			}
			return s.list(ctx, p.Cursor)
		}
	})
	// The SDK lets what runs come to its end when its input ends; nobody waits for that.
	client := input{in, func() { leave(errors.New("the MCP client has gone")) }}
	return server.Run(ctx, dropping{&sdk.IOTransport{Reader: client, Writer: quietCloser{out}, MaxLineLength: maxMessage}})
}

// dropping keeps the answers to calls from the client that it has cancelled: it does not know them any more.
type dropping struct{ sdk.Transport }

func (d dropping) Connect(ctx context.Context) (sdk.Connection, error) {
	c, err := d.Transport.Connect(ctx)
	return &undropped{Connection: c, calls: map[jsonrpc.ID]bool{}}, err
}

type undropped struct {
	sdk.Connection
	mu    sync.Mutex
	calls map[jsonrpc.ID]bool // calls without an answer yet; true = cancelled
}

func (c *undropped) Read(ctx context.Context) (jsonrpc.Message, error) {
	msg, err := c.Connection.Read(ctx)
	r, ok := msg.(*jsonrpc.Request)
	if err != nil || !ok {
		return msg, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var cancelled struct {
		RequestID any `json:"requestId"`
	}
	switch {
	case r.IsCall():
		c.calls[r.ID] = false
	case r.Method == "notifications/cancelled" && json.Unmarshal(r.Params, &cancelled) == nil:
		if id, err := jsonrpc.MakeID(cancelled.RequestID); err == nil {
			if _, open := c.calls[id]; open {
				c.calls[id] = true
			}
		}
	}
	return msg, nil
}

func (c *undropped) Write(ctx context.Context, msg jsonrpc.Message) error {
	if r, ok := msg.(*jsonrpc.Response); ok {
		c.mu.Lock()
		cancelled := c.calls[r.ID]
		delete(c.calls, r.ID)
		c.mu.Unlock()
		if cancelled {
			return nil
		}
	}
	return c.Connection.Write(ctx, msg)
}

// input tells its end. Closing it leaves the stream open: it is the process's own.
type input struct {
	io.Reader
	ended func()
}

func (i input) Read(p []byte) (int, error) {
	n, err := i.Reader.Read(p)
	if err != nil {
		i.ended()
	}
	return n, err
}

func (input) Close() error { return nil }

// cacheScope keeps what one person's agents said from being kept for others.
const cacheScope = "private"

// list returns the page of texts behind cursor, which is the address of the last one before it.
func (s Service) list(ctx context.Context, cursor string) (sdk.Result, error) {
	texts, err := s.Texts(ctx)
	if err != nil {
		return nil, fmt.Errorf("resources: %w", err)
	}
	if cursor != "" {
		at := slices.IndexFunc(texts, func(t Text) bool { return t.URI == cursor })
		if at < 0 {
			return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "cursor: it leads to nothing, or not any more; list from the beginning"}
		}
		texts = texts[at+1:]
	}
	r := &sdk.ListResourcesResult{Resources: []*sdk.Resource{}, Cacheable: sdk.Cacheable{CacheScope: cacheScope}}
	if len(texts) > maxPage {
		texts = texts[:maxPage]
		r.NextCursor = texts[maxPage-1].URI
	}
	for _, t := range texts {
		r.Resources = append(r.Resources, &sdk.Resource{URI: t.URI, Name: t.Name, Title: t.Title, MIMEType: plainText})
	}
	return r, nil
}

// progress tells the client how a call goes, where it asked to be told.
func progress(ctx context.Context, r *sdk.CallToolRequest) func(string) {
	token := r.Params.GetProgressToken()
	if token == nil {
		return func(string) {}
	}
	var n atomic.Int64
	return func(text string) {
		// A client that does not listen is no reason to stop the work.
		_ = r.Session.NotifyProgress(ctx, &sdk.ProgressNotificationParams{ProgressToken: token, Progress: float64(n.Add(1)), Message: text})
	}
}

// quietCloser leaves the stream open, too.
type quietCloser struct{ io.Writer }

func (quietCloser) Close() error { return nil }
