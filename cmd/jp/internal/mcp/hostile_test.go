package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"runtime"
	"runtime/metrics"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"jp/tools/jsondoc"
)

// What a server does in the handshake and in its list, beside what TestUnfitServers has.
func TestHostileStart(t *testing.T) {
	for way, want := range map[string]string{
		"two":     "MCP server s: it lists two tools echo",
		"pages":   "MCP server s: its list of tools has more than 64 pages",
		"version": `MCP server s: unsupported protocol version: "1066-10-14"`,
		"nothing": `MCP server s: unsupported protocol version: ""`,
	} {
		t.Run(way, func(t *testing.T) {
			_, _, err := open(t, self("raw-"+way), Options{Patience: 20 * time.Second}).List(t.Context())
			if errorText(err) != want {
				t.Errorf("List = %v, want %s", err, want)
			}
		})
	}
}

// What a server answers a call with, and what it does besides. A second call follows where the
// first leaves a server to call.
func TestHostileCall(t *testing.T) {
	const died = "MCP server s was ended during the call, which may have had its effect: "
	for way, tt := range map[string]struct {
		want    string
		isError bool
		ended   bool
	}{
		"twice":     {want: "first"},
		"ids":       {want: "for you"},
		"types":     {want: "MCP server s: its answer is no result of a tool", isError: true},
		"null":      {},
		"kinds":     {want: "MCP server s: its answer is no result of a tool", isError: true},
		"error":     {want: "MCP server s: no[31m such thing", isError: true},
		"batch":     {want: "in a list"},
		"pings":     {want: "500 answers"},
		"asks":      {want: "roots/list -32601, sampling/createMessage -32601, elicitation/create -32601, tools/call -32601, nonsense -32601"},
		"changes":   {want: "changed"},
		"large":     {want: "MCP server s: the result is larger than 8 MB", isError: true},
		"large-end": {want: "MCP server s: the result is larger than 8 MB", isError: true},
		"line":      {want: died + "it wrote something on stdout that is not a message: inbound JSON-RPC frame exceeded the configured maximum line length", isError: true, ended: true},
		"stray":     {want: died + "it wrote something on stdout that is not a message: invalid character 'd' looking for beginning of value", isError: true, ended: true},
		"requests":  {want: died + "it sent requests and read no answer to 64 of them", isError: true, ended: true},
		"ids-large": {want: died + "it sent a request with an id of more than 256 bytes", isError: true, ended: true},
	} {
		t.Run(way, func(t *testing.T) {
			c := open(t, self("raw-"+way), Options{})
			for call2 := range 2 {
				got, isError := call(t, c, "echo", "x")
				if got != tt.want || isError != tt.isError {
					t.Errorf("echo = %q, %v, want %q, %v", got, isError, tt.want, tt.isError)
				}
				if want := 1 + call2; !tt.ended && c.begun != 1 || tt.ended && c.begun != want {
					t.Errorf("%d starts after %d calls", c.begun, call2+1)
				}
			}
		})
	}
}

// A server that goes on talking keeps nothing of jp's memory, while it is called and after that.
func TestFloodMemory(t *testing.T) {
	for _, way := range []string{"notes", "after"} {
		t.Run(way, func(t *testing.T) {
			c := open(t, self("raw-"+way), Options{})
			if _, _, err := c.List(t.Context()); err != nil {
				t.Fatal(err)
			}
			s := c.live
			got, _ := call(t, c, "echo", "x")
			if want := map[string]string{
				"notes": "MCP server s was ended during the call, which may have had its effect: it sent more than 20000 messages that nobody asked for",
				"after": "right",
			}[way]; got != want {
				t.Errorf("echo = %q, want %q", got, want)
			}
			// Without garbage, of which a busy machine has more. What is allocated during a cycle counts as
			// live, and doubles the room of the next one, unless cycles are as short as they can be.
			live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
			peak := uint64(0)
			for look, done := time.Tick(5*time.Millisecond), false; !done; {
				select {
				case <-s.gone:
					done = true
				case <-look:
				}
				runtime.GC()
				metrics.Read(live)
				peak = max(peak, live[0].Value.Uint64())
			}
			if !strings.Contains(s.left(), "it sent more than 20000 messages that nobody asked for") {
				t.Errorf("ended: %s", s.left())
			}
			if peak > 40<<20 { // of 80 MB that it sent
				t.Errorf("%d MiB of memory", peak>>20)
			}
		})
	}
}

// What a server says on stderr is told as a person can read it, and not without end.
func TestStderr(t *testing.T) {
	var told []string
	c := open(t, self("raw-loud"), Options{Tell: func(line string) { told = append(told, line) }})
	if _, _, err := c.List(t.Context()); err != nil {
		t.Fatal(err)
	}
	c.Close()
	if len(told) != maxLines+1 || told[0] != "[31mwarning[0m: no licence" || told[maxLines] != "(more is left out)" {
		t.Errorf("%d lines, %q ... %q", len(told), told[0], told[len(told)-1])
	}
	var lines lines
	lines.emit = func(line string) { told = append(told, line) }
	told = nil
	for _, p := range []string{"a", "b\n\n \nc\x1b[2J\n", strings.Repeat("z", 2*maxLine) + "\nlast"} {
		if n, err := lines.Write([]byte(p)); n != len(p) || err != nil {
			t.Errorf("Write = %d, %v", n, err)
		}
	}
	lines.end()
	if want := "ab|c[2J|" + strings.Repeat("z", maxLine) + "|last"; strings.Join(told, "|") != want {
		t.Errorf("told %q", told)
	}
}

// A server behind an address that goes on talking is left, too.
func TestHTTPFlood(t *testing.T) {
	const died = "MCP server s was ended during the call, which may have had its effect: "
	for name, tt := range map[string]struct {
		event string
		times int
		want  string
	}{
		"notes":    {`{"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}`, 1 << 40, died + "it sent more than 20000 messages that nobody asked for"},
		"requests": {`{"jsonrpc":"2.0","id":ID,"method":"ping"}`, 2 * maxAsked, died + "it sent more than 1000 requests that nobody asked for"},
	} {
		t.Run(name, func(t *testing.T) {
			c := openHTTP(t, func(w http.ResponseWriter, r *http.Request, _ json.RawMessage) {
				w.Header().Set("Content-Type", "text/event-stream")
				for i := range tt.times {
					if _, err := fmt.Fprintf(w, "event: message\ndata: %s\n\n", strings.Replace(tt.event, "ID", strconv.Itoa(i), 1)); err != nil {
						return
					}
				}
				w.(http.Flusher).Flush()
				<-r.Context().Done()
			})
			if got, isError := call(t, c, "echo", "x"); got != tt.want || !isError {
				t.Errorf("echo = %q, %v, want %q", got, isError, tt.want)
			}
		})
	}
}

// An answer over HTTP of too many values is an error of that call, and only of it.
func TestHTTPMany(t *testing.T) {
	for name, tt := range map[string]struct {
		status              int
		kind, before, after string
	}{
		"body":                   {200, "application/json", "", ""},
		"body of another status": {201, "application/json", "", ""},
		"event":                  {200, "text/event-stream", "event: message\ndata: ", "\n\n"},
		"event without an end":   {200, "text/event-stream", "data: ", ""},
		"event behind a remark":  {200, "text/event-stream", ": \"\\\ndata: ", "\n\n"},
	} {
		t.Run(name, func(t *testing.T) {
			values := "1"
			c := openHTTP(t, func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
				w.Header().Set("Content-Type", tt.kind)
				w.WriteHeader(tt.status)
				fmt.Fprintf(w, `%s{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"x"}],"_meta":{"v":[%s]}}}%s`, tt.before, id, values, tt.after)
			})
			values = strings.Repeat("1,", jsondoc.MaxValues) + "1"
			if got, isError := call(t, c, "echo", "x"); got != "MCP server s: the result has more than 262144 values" || !isError {
				t.Errorf("echo = %q, %v", got, isError)
			}
			values = "1"
			if got, isError := call(t, c, "echo", "x"); got != "x" || isError {
				t.Errorf("the call after it: %q, %v", got, isError)
			}
		})
	}
}

// A call that the server refuses is an error of that call, as often as it happens: the token may not
// be for this tool.
func TestHTTPRefused(t *testing.T) {
	for status, why := range map[int]string{401: `it answers "401 Unauthorized": `, 403: `it answers "403 Forbidden": `, 307: "it redirects to another server, and "} {
		refused := true
		c := openHTTP(t, func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
			if refused {
				w.Header().Set("Location", "http://127.0.0.1:1/")
				w.WriteHeader(status)
				return
			}
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"right"}]}}`, id)
		})
		for range starts + 1 {
			if got, isError := call(t, c, "echo", "x"); !strings.HasPrefix(got, "MCP server s: "+why) || !isError {
				t.Errorf("%d: echo = %q, %v, want %s...", status, got, isError, why)
			}
		}
		refused = false
		if got, isError := call(t, c, "echo", "x"); got != "right" || isError || c.begun != 1 {
			t.Errorf("%d: the call after it: %q, %v, %d starts", status, got, isError, c.begun)
		}
	}
}

// An answer may be written over as many lines of one event as it has values.
func TestHTTPLines(t *testing.T) {
	c := openHTTP(t, func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprintf(w, "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"right\"}],\"_meta\":{\"v\":[\n", id)
		fmt.Fprint(w, strings.Repeat("data: 1,\n", 3*maxUnasked), "data: 1]}}}\n\n")
	})
	if got, isError := call(t, c, "echo", "x"); got != "right" || isError {
		t.Errorf("echo = %q, %v", got, isError)
	}
}

// An answer over HTTP that is too large is an error of that call, and only of it.
func TestHTTPLarge(t *testing.T) {
	for name, tt := range map[string]struct{ kind, before, after string }{
		"body":         {"application/json", "", ""},
		"event":        {"text/event-stream", "event: message\ndata: ", "\n\n"},
		"second event": {"text/event-stream", `data: {"jsonrpc":"2.0","method":"notifications/message","params":{"level":"info","data":"x"}}` + "\r\n\r\nid: 7\r\ndata: ", "\r\n\r\n"},
	} {
		t.Run(name, func(t *testing.T) {
			size := 0
			c := openHTTP(t, func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
				w.Header().Set("Content-Type", tt.kind)
				fmt.Fprintf(w, `%s{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%s"}]}}%s`, tt.before, id, strings.Repeat("x", size), tt.after)
			})
			for _, tt := range []struct {
				size int
				want string
			}{
				{1, "x"}, {maxMessage, "MCP server s: the result is larger than 8 MB"}, {2, "xx"}, {maxMessage - 1000, strings.Repeat("x", maxMessage-1000)},
			} {
				size = tt.size
				got, isError := call(t, c, "echo", "x")
				if got != tt.want || isError != (size == maxMessage) {
					t.Errorf("echo of %d bytes = %d bytes, %q, %v", size, len(got), got[:min(len(got), 200)], isError)
				}
			}
			if c.begun != 1 {
				t.Errorf("%d connections", c.begun)
			}
		})
	}
}

// A server at an address may end a session at any time, and says so by 404. The next one begins, as
// often as that happens, and only what was not taken is asked again.
func TestHTTPSessionEnds(t *testing.T) {
	for _, body := range []string{"", `{"jsonrpc":"2.0","error":{"code":-32001,"message":"Session not found"},"id":null}`} {
		var mu sync.Mutex
		calls, ended := 0, map[string]bool{}
		c := openHTTP(t, func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
			mu.Lock()
			defer mu.Unlock()
			if session := r.Header.Get("Mcp-Session-Id"); ended[session] {
				w.WriteHeader(http.StatusNotFound)
				_, _ = w.Write([]byte(body))
			} else {
				ended[session] = true
				calls++
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"right"}]}}`, id)
			}
		})
		for range 4 {
			if got, isError := call(t, c, "echo", "x"); got != "right" || isError {
				t.Errorf("404 with %q: echo = %q, %v", body, got, isError)
			}
		}
		if calls != 4 || c.begun != 1 {
			t.Errorf("404 with %q: %d calls taken, %d starts", body, calls, c.begun)
		}
	}
}

// A call that is given up while its answer comes ends no session.
func TestHTTPGivenUp(t *testing.T) {
	for _, kind := range []string{"application/json", "text/event-stream"} {
		giveUp := func() {}
		c := openHTTP(t, func(w http.ResponseWriter, r *http.Request, id json.RawMessage) {
			w.Header().Set("Content-Type", kind)
			if giveUp == nil {
				fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"right"}]}}`, id)
				return
			}
			_, _ = w.Write(bytes.Repeat([]byte(" "), maxMessage/8*7)) // more than fits before it is read
			giveUp()
			<-r.Context().Done()
		})
		for range starts {
			ctx, cancel := context.WithCancel(t.Context())
			giveUp = cancel
			if _, err := c.Call(ctx, Tool{Name: "echo", Schema: json.RawMessage(`{"type":"object"}`)}, json.RawMessage("{}")); !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %v", kind, err)
			}
		}
		kind, giveUp = "application/json", nil
		if got, isError := call(t, c, "echo", "x"); got != "right" || isError || c.begun != 1 {
			t.Errorf("%s: echo = %q, %v, %d starts", kind, got, isError, c.begun)
		}
	}
}

// A call that the server has taken is not repeated when another one meets the end of the session.
func TestHTTPSessionEndsBeside(t *testing.T) {
	var calls atomic.Int64
	begun, other := make(chan struct{}), make(chan struct{})
	c := openHTTP(t, func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
		switch calls.Add(1) {
		case 1:
			close(begun)
			<-other
		case 2:
			w.WriteHeader(http.StatusNotFound)
			return
		}
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"right"}]}}`, id)
	})
	first := make(chan string)
	go func() {
		got, _ := call(t, c, "echo", "x")
		first <- got
	}()
	<-begun
	if got, isError := call(t, c, "echo", "x"); got != "right" || isError {
		t.Errorf("echo = %q, %v", got, isError)
	}
	close(other)
	if got, want := <-first, "MCP server s died during the call, which may have had its effect: "; !strings.HasPrefix(got, want) {
		t.Errorf("the first call: %q, want %s...", got, want)
	}
	if calls := calls.Load(); calls != 3 || c.begun != 1 {
		t.Errorf("%d calls, %d starts", calls, c.begun)
	}
}

// TestLoneSurrogate: half of a character that an escape names is U+FFFD, and the escape behind it
// is still read. The SDK's JSON library decides that.
func TestLoneSurrogate(t *testing.T) {
	for escaped, want := range map[string]string{
		`\ud800\n.`: "\uFFFD\n.", `\udc00\n.`: "\uFFFD\n.", `\ud800\"`: "\uFFFD\"", `\ud800\\n`: "\uFFFD\\n", `\ud800\u0041`: "\uFFFDA",
		`\ud800\ud83d\ude00`: "\uFFFD😀", `\ud83d\n\ude00`: "\uFFFD\n\uFFFD",
	} {
		c := openHTTP(t, func(w http.ResponseWriter, _ *http.Request, id json.RawMessage) {
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%s"}]}}`, id, escaped)
		})
		if got, isError := call(t, c, "echo", "x"); got != want || isError {
			t.Errorf("echo of %s = %q, %v, want %q", escaped, got, isError, want)
		}
	}
}

// openHTTP opens a server behind an address that answers calls of its tool echo as answer does, and
// takes nothing but messages: nobody may listen to it.
func openHTTP(t *testing.T, answer func(http.ResponseWriter, *http.Request, json.RawMessage)) *Client {
	t.Helper()
	sessions := 0
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
		}
		_ = json.NewDecoder(r.Body).Decode(&m)
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.Method == http.MethodDelete: // of the session
		case r.Method != http.MethodPost:
			t.Errorf("it gets a %s", r.Method)
		case m.Method == "initialize":
			sessions++
			w.Header().Set("Mcp-Session-Id", strconv.Itoa(sessions))
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","capabilities":{"tools":{"listChanged":true}},"serverInfo":{"name":"raw","version":"1"}}}`, m.ID)
		case m.Method == "tools/list":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"tools":[{"name":"echo","inputSchema":{"type":"object"}}]}}`, m.ID)
		case m.Method == "tools/call":
			answer(w, r, m.ID)
		case m.ID != nil && m.Method != "":
			fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32601,"message":"no such method"}}`, m.ID)
		default:
			w.WriteHeader(http.StatusAccepted)
		}
	}))
	t.Cleanup(srv.Close)
	c := open(t, Server{Name: "s", URL: srv.URL}, Options{})
	t.Cleanup(c.Close) // before the server, which waits for who is connected
	return c
}
