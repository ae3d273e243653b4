package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"jp/tools"
	"jp/tools/jsondoc"
)

// served is a Service with n texts and no tools.
func served(n int) Service {
	return Service{
		Version: "1", Template: "jp://conversation/{id}",
		Call: func(context.Context, string, json.RawMessage, func(string)) tools.Result { return tools.Result{} },
		Texts: func(context.Context) ([]Text, error) {
			var list []Text
			for i := range n {
				list = append(list, Text{URI: fmt.Sprintf("jp://conversation/jp-c%d", i), Name: fmt.Sprint(i)})
			}
			return list, nil
		},
		Read: func(context.Context, string) (string, error) { return "", errors.New("not found") },
	}
}

// run serves over pipes and returns the client's ends and what Run returns.
func run(t *testing.T, s Service) (in io.WriteCloser, out io.ReadCloser, ended chan error) {
	t.Helper()
	return runUntil(t.Context(), t, s)
}

// runUntil is run that ctx ends.
func runUntil(ctx context.Context, t *testing.T, s Service) (in io.WriteCloser, out io.ReadCloser, ended chan error) {
	t.Helper()
	theirIn, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	ended = make(chan error, 1)
	go func() {
		err := s.Run(ctx, theirIn, theirOut)
		_ = theirOut.Close()
		ended <- err
	}()
	t.Cleanup(func() {
		for _, f := range []io.Closer{in, out, theirIn, theirOut} {
			_ = f.Close()
		}
	})
	return in, out, ended
}

// The list of texts comes in pages, each text once, and is nobody else's.
func TestServePages(t *testing.T) {
	in, out, ended := run(t, served(2*maxPage+1))
	c, err := sdk.NewClient(&sdk.Implementation{Name: "t"}, nil).Connect(t.Context(), &sdk.IOTransport{Reader: out, Writer: in}, &sdk.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	if err != nil {
		t.Fatal(err)
	}
	var sizes []int
	seen := map[string]bool{}
	for cursor := ""; ; {
		r, err := c.ListResources(t.Context(), &sdk.ListResourcesParams{Cursor: cursor})
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range r.Resources {
			if seen[text.URI] {
				t.Errorf("%s comes twice", text.URI)
			}
			seen[text.URI] = true
		}
		if r.CacheScope != "private" {
			t.Errorf("scope %q", r.CacheScope)
		}
		sizes = append(sizes, len(r.Resources))
		if cursor = r.NextCursor; cursor == "" {
			break
		}
	}
	if want := []int{maxPage, maxPage, 1}; !slices.Equal(sizes, want) {
		t.Errorf("pages of %v, want %v", sizes, want)
	}
	var e *jsonrpc.Error
	if _, err := c.ListResources(t.Context(), &sdk.ListResourcesParams{Cursor: "jp://conversation/gone"}); !errors.As(err, &e) || e.Code != jsonrpc.CodeInvalidParams {
		t.Errorf("a cursor to nothing: %v", err)
	}
	if err := c.Subscribe(t.Context(), &sdk.SubscribeParams{URI: "jp://conversation/jp-c1"}); !errors.As(err, &e) || e.Code != jsonrpc.CodeMethodNotFound {
		t.Errorf("subscribe: %v", err)
	}
	_ = c.Close()
	if err := <-ended; err != nil {
		t.Errorf("Run = %v", err)
	}
}

// listing is a Service with one tool, whose calls are carried out by call.
func listing(t *testing.T, call func(ctx context.Context, args json.RawMessage) tools.Result) Service {
	t.Helper()
	s := served(0)
	def, ok := tools.Embedded("jp_conversation_list")
	if !ok {
		t.Fatal("no jp_conversation_list")
	}
	var err error
	if s.Tools, err = tools.NewSet(tools.Tool{Definition: def, Func: func(context.Context, tools.Call) (tools.Result, error) { return tools.Result{}, nil }}); err != nil {
		t.Fatal(err)
	}
	s.Call = func(ctx context.Context, _ string, args json.RawMessage, _ func(string)) tools.Result {
		return call(ctx, args)
	}
	return s
}

// A line that is no message, half a line at the end and an id that is under way are answered, and
// the server goes on.
func TestServeBadLines(t *testing.T) {
	release := make(chan struct{})
	in, out, ended := run(t, listing(t, func(ctx context.Context, _ json.RawMessage) tools.Result {
		<-release
		return tools.Result{Text: "done"}
	}))
	dec := json.NewDecoder(out)
	const call = `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"jp_conversation_list","arguments":{}}}`
	ping := func(id string) string { return `{"jsonrpc":"2.0","id":` + id + `,"method":"ping"}` }
	for _, tt := range []struct {
		line string
		want []string // id, error code and message of each answer
	}{
		{`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`, []string{"0 0 "}},
		{`{"jsonrpc":"2.0","method":"notifications/initialized"}`, nil},
		{"nonsense", []string{"null -32700 the line is no JSON"}},
		{"\n  \r", nil},
		{"7", []string{"null -32600 no message of JSON-RPC: "}},
		{`{"jsonrpc":"1.0","id":1,"method":"ping"}`, []string{"null -32600 no message of JSON-RPC: "}},
		{`{"jsonrpc":"2.0","id":{},"method":"ping"}`, []string{"null -32600 no message of JSON-RPC: "}},
		{`{"jsonrpc":"2.0"}`, []string{"null -32600 no message of JSON-RPC: "}},
		{`[]`, []string{"null -32600 a batch without messages"}},
		{"[" + strings.Repeat("{},", maxBatch) + "{}]", []string{"null -32600 a batch of more than 1024 messages"}},
		{"[" + ping("1") + ",1," + ping(`"b"`) + "]", []string{`"b" 0 `, "1 0 ", "null -32600 no message of JSON-RPC: "}},
		{strings.Repeat("x", maxMessage+1), []string{"null -32600 a message is longer than 8 MB"}},
		{call + "\n" + call, []string{"null -32600 id 7: a request with this id is under way"}},
		{ping(`"` + strings.Repeat("x", maxID+1) + `"`), []string{"null -32600 id: want at most 256 bytes"}},
		{`{"x":[` + strings.Repeat("{},", jsondoc.MaxValues) + "{}]}", []string{"null -32600 a message has more than 262144 values"}},
		{ping("8"), []string{"8 0 "}},
	} {
		go func() { _, _ = io.WriteString(in, tt.line+"\n") }()
		var got []string
		for range tt.want {
			var m struct {
				ID    json.RawMessage
				Error struct {
					Code    int
					Message string
				}
			}
			if err := dec.Decode(&m); err != nil {
				t.Fatalf("%.100s: %v", tt.line, err)
			}
			if at, _, ok := strings.Cut(m.Error.Message, ": "); ok && strings.HasPrefix(at, "no message") {
				m.Error.Message = at + ": "
			}
			got = append(got, fmt.Sprintf("%s %d %s", m.ID, m.Error.Code, m.Error.Message))
		}
		slices.Sort(got)
		if !slices.Equal(got, tt.want) {
			t.Errorf("%.100s: answers %q, want %q", tt.line, got, tt.want)
		}
	}
	close(release)
	var answer struct{ ID int }
	if err := dec.Decode(&answer); err != nil || answer.ID != 7 {
		t.Errorf("answer to %d, %v, want one to 7", answer.ID, err)
	}
	_, _ = io.WriteString(in, `{"jsonrpc":"2.0","id":9,"method":"tools/ca`)
	_ = in.Close()
	rest, _ := io.ReadAll(io.MultiReader(dec.Buffered(), out))
	if want := `{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"the line is no JSON"}}`; strings.TrimSpace(string(rest)) != want {
		t.Errorf("at the end came %s, want %s", rest, want)
	}
	if err := <-ended; err != nil {
		t.Errorf("Run = %v", err)
	}
}

// A client that asks without end is refused beyond what may be under way, by number and by size,
// and served again afterwards.
func TestServeFlood(t *testing.T) {
	for name, test := range map[string]struct{ filler, most int }{
		"many":  {0, maxRequests},
		"large": {maxMessage / 2, 2*maxUnderWay/maxMessage - 1}, // and some bytes around each
	} {
		t.Run(name, func(t *testing.T) {
			release := make(chan struct{})
			in, out, ended := run(t, listing(t, func(ctx context.Context, _ json.RawMessage) tools.Result {
				<-release
				return tools.Result{Text: "done"}
			}))
			filler := strings.Repeat("x", test.filler)
			go func() {
				for _, line := range []string{
					`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`,
					`{"jsonrpc":"2.0","method":"notifications/initialized"}`, `{"jsonrpc":"2.0","method":"notifications/initialized"}`,
				} {
					_, _ = io.WriteString(in, line+"\n")
				}
			}()
			dec := json.NewDecoder(out)
			next := func() (id int, refused string) {
				t.Helper()
				var m struct {
					ID    int
					Error struct{ Message string }
				}
				if err := dec.Decode(&m); err != nil {
					t.Fatal(err)
				}
				return m.ID, m.Error.Message
			}
			if id, _ := next(); id != 0 {
				t.Fatalf("the first answer is to %d", id)
			}
			ask := func(id int) {
				_, _ = fmt.Fprintf(in, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"jp_conversation_list","arguments":{"x":"%s"}}}`+"\n", id, filler)
			}
			go func() {
				for id := 1; id <= test.most+3; id++ {
					ask(id)
				}
			}()
			for id := test.most + 1; id <= test.most+3; id++ { // nothing else is answered before
				if got, refused := next(); got != id || !strings.Contains(refused, "under way; wait for one of them") {
					t.Errorf("answer to %d: %q, want a refusal of %d", got, refused, id)
				}
			}
			go func() { _, _ = io.WriteString(in, `{"jsonrpc":"2.0","id":500,"method":"ping"}`+"\n") }()
			if id, refused := next(); id != 500 || refused != "" {
				t.Errorf("answer to %d: %q, want that jp is there", id, refused)
			}
			close(release)
			for range test.most {
				if id, refused := next(); id > test.most || refused != "" {
					t.Errorf("answer to %d: %q", id, refused)
				}
			}
			go ask(999)
			if id, refused := next(); id != 999 || refused != "" {
				t.Errorf("answer to %d: %q", id, refused)
			}
			_ = in.Close()
			if err := <-ended; err != nil {
				t.Errorf("Run = %v", err)
			}
		})
	}
}

// A client that asks without end and reads nothing is left, whether its calls go on or have ended.
func TestServeUnread(t *testing.T) {
	for name, f := range map[string]func(context.Context){"go on": func(ctx context.Context) { <-ctx.Done() }, "ended": func(context.Context) {}} {
		t.Run(name, func(t *testing.T) { serveUnread(t, f) })
	}
}

// serveUnread asks without end for calls that are carried out by f.
func serveUnread(t *testing.T, f func(context.Context)) {
	var taken atomic.Int32
	s := listing(t, func(ctx context.Context, _ json.RawMessage) tools.Result {
		taken.Add(1)
		f(ctx)
		return tools.Result{Text: strings.Repeat("x", 16<<10)} // a pipe holds few of them
	})
	left := make(chan error, 1)
	s.Bound = func(ctx context.Context) {
		context.AfterFunc(ctx, func() { left <- context.Cause(ctx) })
	}
	in, out, ended := run(t, s)
	go func() {
		_, _ = io.WriteString(in, `{"jsonrpc":"2.0","id":"a","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`+"\n"+
			`{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
		for i := 0; ; i++ {
			if _, err := fmt.Fprintf(in, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"jp_conversation_list","arguments":{}}}`+"\n", i); err != nil {
				return
			}
		}
	}()
	if err := <-left; err == nil || !strings.Contains(err.Error(), "reads no answers") {
		t.Errorf("left for %v", err)
	}
	_ = out.Close() // as a write is that need not wait
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "reads no answers") {
		t.Errorf("Run = %v", err)
	}
	if n := taken.Load(); n > 3*maxRequests {
		t.Errorf("%d calls were taken, and no answer was read", n)
	}
}

// A call that the client has cancelled is not answered: the client does not know it any more. All
// others are.
func TestServeCancelled(t *testing.T) {
	begun := make(chan bool, 2)
	in, out, ended := run(t, listing(t, func(ctx context.Context, _ json.RawMessage) tools.Result {
		begun <- true
		<-ctx.Done()
		return tools.Result{Text: "stopped"}
	}))
	say := func(line string) {
		t.Helper()
		if _, err := io.WriteString(in, line+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	say(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	say(`{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"jp_conversation_list","arguments":{}}}`)
	say(`{"jsonrpc":"2.0","id":"3","method":"tools/call","params":{"name":"jp_conversation_list","arguments":{}}}`)
	<-begun
	<-begun
	say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`)
	say(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":99}}`)
	say(`{"jsonrpc":"2.0","id":4,"method":"ping"}`)
	var ids []string
	for dec := json.NewDecoder(out); ; {
		var m struct{ ID json.RawMessage }
		if err := dec.Decode(&m); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if ids = append(ids, string(m.ID)); string(m.ID) == "4" {
			_ = in.Close() // all calls end
		}
	}
	if err := <-ended; err != nil {
		t.Errorf("Run = %v", err)
	}
	if slices.Contains(ids, "2") || !slices.Contains(ids, "1") || !slices.Contains(ids, "4") {
		t.Errorf("answers to %v, want none to 2", ids)
	}
}

// Whatever a client has asked for ends when jp is stopped, with the cause of that.
func TestServeStopped(t *testing.T) {
	why := errors.New("SIGTERM")
	for _, request := range []string{
		`"tools/call","params":{"name":"jp_conversation_list","arguments":{}}`,
		`"resources/list"`,
		`"resources/read","params":{"uri":"jp://conversation/jp-c1"}`,
	} {
		ctx, stop := context.WithCancelCause(t.Context())
		begun, cause := make(chan bool), make(chan error, 1)
		hang := func(ctx context.Context) {
			close(begun)
			<-ctx.Done()
			cause <- context.Cause(ctx)
		}
		s := listing(t, func(ctx context.Context, _ json.RawMessage) tools.Result {
			hang(ctx)
			return tools.Result{}
		})
		s.Texts = func(ctx context.Context) ([]Text, error) {
			hang(ctx)
			return nil, nil
		}
		s.Read = func(ctx context.Context, _ string) (string, error) {
			hang(ctx)
			return "", nil
		}
		in, _, ended := runUntil(ctx, t, s)
		if _, err := io.WriteString(in, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`+"\n"+
			`{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"+`{"jsonrpc":"2.0","id":2,"method":`+request+"}\n"); err != nil {
			t.Fatal(err)
		}
		<-begun
		stop(why)
		<-ended
		if got := <-cause; got != why {
			t.Errorf("%s: ended by %v", request, got)
		}
	}
}

// A client that asked for progress and reads nothing holds up no call: each has slots that others
// wait for. What it then reads is in order, and before the answer.
func TestServeProgressUnread(t *testing.T) {
	const many = 5000 // more than a pipe holds
	said := make(chan struct{})
	s := listing(t, nil)
	s.Call = func(_ context.Context, _ string, _ json.RawMessage, tell func(string)) tools.Result {
		for range many {
			tell(strings.Repeat("x", 100))
		}
		close(said)
		return tools.Result{Text: "done"}
	}
	in, out, ended := run(t, s)
	dec := json.NewDecoder(out)
	var m struct {
		ID     int
		Method string
		Params struct{ Progress int }
	}
	_, _ = io.WriteString(in, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`+"\n")
	if err := dec.Decode(&m); err != nil {
		t.Fatal(err)
	}
	_, _ = io.WriteString(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"+
		`{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"jp_conversation_list","arguments":{},"_meta":{"progressToken":"p"}}}`+"\n")
	<-said
	n := 0
	for m.ID != 7 {
		m.Method = ""
		if err := dec.Decode(&m); err != nil {
			t.Fatal(err)
		}
		if m.Method != "" {
			if n++; m.Params.Progress != n {
				t.Fatalf("progress %d, want %d", m.Params.Progress, n)
			}
		}
	}
	if n < maxTold || n >= many {
		t.Errorf("%d reports, want at least %d and not all %d", n, maxTold, many)
	}
	_ = in.Close()
	if err := <-ended; err != nil {
		t.Errorf("Run = %v", err)
	}
}
