package mcp

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	mcptest "jp/cmd/jp/internal/test/mcp"
	"jp/tools/proc"
)

// TestMain is also the servers that the tests start: the test binary again, with the kind of server
// as its argument.
func TestMain(m *testing.M) {
	proc.Guard(os.Args)
	if len(os.Args) == 3 && os.Args[1] == "server" {
		mcptest.Serve(os.Args[2])
		return
	}
	os.Exit(m.Run())
}

// self is the entry of a server of that kind.
func self(kind string) Server {
	return Server{Name: "s", Command: proc.Self(), Args: []string{"server", kind}}
}

// open returns a client of s that is closed when the test ends, and the processes below it with it.
func open(t *testing.T, s Server, o Options) *Client {
	t.Helper()
	host := proc.NewHost(proc.Options{})
	o.Host = host
	if o.Environ == nil {
		o.Environ = []string{"PATH=/usr/bin:/bin", "TOKEN=t0p", "ANTHROPIC_API_KEY=sk", "SECRET=s"}
	}
	c := NewClient(s, o)
	t.Cleanup(func() {
		c.Close()
		if err := host.Close(); err != nil {
			t.Errorf("left behind: %v", err)
		}
	})
	return c
}

// call lists the tools and calls one with a text.
func call(t *testing.T, c *Client, name, text string) (string, bool) {
	t.Helper()
	list, _, err := c.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tool, ok := find(list, name)
	if !ok {
		t.Fatalf("no tool %s among %v", name, list)
	}
	args, _ := json.Marshal(map[string]string{"text": text})
	r, err := c.Call(t.Context(), tool, args)
	if err != nil {
		t.Fatal(err)
	}
	return r.Text, r.IsError
}

func TestCall(t *testing.T) {
	s := self("plain")
	s.Env = map[string]string{"GIVEN": "${TOKEN}-${NONE:-none}"}
	c := open(t, s, Options{})
	for _, tt := range []struct {
		tool, text, want string
		isError          bool
	}{
		{"echo", "hello", "hello", false},
		{"env", "", "PATH=/usr/bin:/bin\nGIVEN=t0p-none\nJP_CALL_FD=none", false},
		{"fail", "", "no such[2J thing", true},
		{"media", "", "a[2Jbc\n[left out: an image, image/png, 3 bytes]\n[resource file:///x]\nin it", false},
		{"ask", "", "roots refused: true, elicitation refused: true", false},
	} {
		if got, isError := call(t, c, tt.tool, tt.text); got != tt.want || isError != tt.isError {
			t.Errorf("%s = %q, %v, want %q, %v", tt.tool, got, isError, tt.want, tt.isError)
		}
	}
}

// TestHTTPProtocol: HTTP/2 is not spoken, in which calls share a connection that may be dead.
func TestHTTPProtocol(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Proto) }))
	srv.EnableHTTP2 = true
	srv.StartTLS()
	defer srv.Close()
	to, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	c := newCarrier(to, nil, newBounds())
	c.next.TLSClientConfig = &tls.Config{RootCAs: x509.NewCertPool()}
	c.next.TLSClientConfig.RootCAs.AddCert(srv.Certificate())
	resp, err := (&http.Client{Transport: c}).Post(srv.URL, "application/json", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if got, err := io.ReadAll(resp.Body); string(got) != "HTTP/1.1" || err != nil {
		t.Errorf("the server was asked over %s, %v, want HTTP/1.1", got, err)
	}
}

func TestHTTP(t *testing.T) {
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return mcptest.New("plain") }, nil)
	var expired, broken atomic.Bool
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case broken.Load():
			http.Error(w, "sorry", http.StatusInternalServerError)
		case expired.Load():
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == "/away":
			http.Redirect(w, r, "/mcp", http.StatusTemporaryRedirect)
		case r.Header.Get("Authorization") != "Bearer t0p":
			http.Error(w, "who are you?", http.StatusUnauthorized)
		default:
			handler.ServeHTTP(w, r)
		}
	}))
	defer srv.Close()
	s := Server{Name: "s", URL: srv.URL + "/mcp", Headers: map[string]string{"Authorization": "Bearer ${TOKEN}"}}
	c := open(t, s, Options{})
	for _, text := range []string{"one", "two"} { // the second after the handshake's time is over
		if got, isError := call(t, c, "echo", text); got != text || isError {
			t.Errorf("echo = %q, %v", got, isError)
		}
	}
	const signIn = `it answers "401 Unauthorized": headers = { Authorization = "Bearer ${NAME}" } in its entry sends the token in the variable NAME; ` +
		`jp cannot sign in by itself (OAuth)`
	list, _, err := c.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	echo, _ := find(list, "echo")
	for _, tt := range []struct {
		fails *atomic.Bool
		want  string
	}{
		{&broken, `MCP server s: calling "tools/call": rejected by transport: sending "tools/call": Internal Server Error`},
		{&expired, "MCP server s: " + signIn},
	} {
		tt.fails.Store(true)
		if r, err := c.Call(t.Context(), echo, json.RawMessage(`{"text":""}`)); err != nil || r.Text != tt.want || !r.IsError {
			t.Errorf("a call = %+v, %v, want %s", r, err, tt.want)
		}
		tt.fails.Store(false)
	}
	c.Close()

	s.Headers = nil
	if _, _, err := open(t, s, Options{}).List(t.Context()); err == nil || err.Error() != "MCP server s: "+signIn {
		t.Errorf("without the header: %v", err)
	}
	s.URL, s.Headers = srv.URL+"/away", map[string]string{"Authorization": "Bearer ${TOKEN}"}
	if _, _, err := open(t, s, Options{}).List(t.Context()); err == nil || !strings.Contains(err.Error(), "it redirects to another server") {
		t.Errorf("a redirect: %v", err)
	}
}

// A variable in the path or query of an address is mostly a token. What goes wrong there reaches
// models, logs and the store.
func TestAddressHidden(t *testing.T) {
	const token = "s3cr3t t0k3n"
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return mcptest.New("plain") }, nil)
	var fail, away atomic.Bool
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path != "/of/"+token || r.URL.RawQuery != "key=s3cr3t+t0k3n&a=b":
			t.Errorf("asked for %s", r.URL)
		case away.Load():
			http.Redirect(w, r, "/of/"+token+"/now", http.StatusTemporaryRedirect)
		case fail.Load():
			panic(http.ErrAbortHandler)
		}
		handler.ServeHTTP(w, r)
	}))
	defer srv.Close()
	s := Server{Name: "s", URL: srv.URL + "/of/${IN_PATH}?key=${IN_QUERY}&a=b"}
	o := Options{Environ: []string{"IN_PATH=s3cr3t%20t0k3n", "IN_QUERY=s3cr3t+t0k3n"}}
	check := func(when, text string) {
		if text == "" || strings.Contains(text, "s3cr3t") {
			t.Errorf("%s: %q", when, text)
		}
	}
	c := open(t, s, o)
	if got, isError := call(t, c, "echo", "one"); got != "one" || isError {
		t.Fatalf("echo = %q, %v", got, isError)
	}
	list, _, err := c.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	echo, _ := find(list, "echo")
	fail.Store(true)
	r, err := c.Call(t.Context(), echo, json.RawMessage(`{"text":"two"}`))
	check("a call that breaks off", fmt.Sprint(r.Text, err))
	c.Close()
	away.Store(true)
	_, _, err = open(t, s, o).List(t.Context())
	check("a redirect", fmt.Sprint(err))
	srv.CloseClientConnections()
	srv.Close()
	_, _, err = open(t, s, o).List(t.Context())
	check("nobody there", fmt.Sprint(err))
}

// What is read whole is bounded, whatever kind it says it is; events may go on as long as each is
// small.
func TestBounded(t *testing.T) {
	for _, tt := range []struct {
		kind   string
		status int
		want   bool
	}{
		{"application/json", 200, true}, {"", 200, true}, {"text/event-stream", 400, true}, {"text/event-stream", 404, true},
		{"text/event-stream", 200, false}, {"Text/Event-Stream ; charset=utf-8", 200, false},
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = []string{tt.kind}
			w.WriteHeader(tt.status)
			for range 9 { // MiB
				_, _ = w.Write(make([]byte, 1<<20))
			}
		}))
		to, err := url.Parse(srv.URL)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := (&http.Client{Transport: newCarrier(to, nil, newBounds())}).Post(srv.URL, "application/json", nil)
		if err != nil {
			t.Fatal(err)
		}
		n, err := io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		srv.Close()
		if bound := err != nil && n == maxMessage+1; bound != tt.want {
			t.Errorf("%d %s: %d bytes, %v, want bounded %v", tt.status, tt.kind, n, err, tt.want)
		}
	}
}

// TestUnhurried: a server does not say that its stream is to be taken up again without a pause.
func TestUnhurried(t *testing.T) {
	for body, want := range map[string]string{
		"id: 1\nretry: 1\n\ndata: {}\n\n":             "id: 1\n\ndata: {}\n\n",
		"retry:+1\r\nid: 1\r\n\r\n":                   "id: 1\r\n\r\n",
		"id: 1\nretry: 1000\n\n":                      "id: 1\nretry: 1000\n\n",
		"id: 1\nretry: 1500\nretry: 999":              "id: 1\nretry: 1500\n",
		"retry: soon\ndata: retry: 1\n\nretry: 0\n\n": "retry: soon\ndata: retry: 1\n\n\n",
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, body)
		}))
		to, err := url.Parse(srv.URL)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := (&http.Client{Transport: newCarrier(to, nil, newBounds())}).Post(srv.URL, "application/json", nil)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		srv.Close()
		if string(got) != want || err != nil {
			t.Errorf("%q is read as %q, %v, want %q", body, got, err, want)
		}
	}
}

// A server that dies is an error of that call; it is started once more, and no more.
func TestDeath(t *testing.T) {
	c := open(t, self("plain"), Options{})
	const died = "MCP server s died during the call, which may have had its effect: exit status 4\nstderr, last lines:\nout of memory"
	for range starts {
		if got, isError := call(t, c, "echo", "alive"); got != "alive" || isError {
			t.Fatalf("echo = %q, %v", got, isError)
		}
		if got, isError := call(t, c, "die", ""); got != died || !isError {
			t.Fatalf("die = %q, %v, want %q", got, isError, died)
		}
	}
	_, _, err := c.List(t.Context())
	const want = "MCP server s has died 2 times and is not started again in this run: exit status 4\nstderr, last lines:\nout of memory"
	if err == nil || err.Error() != want {
		t.Errorf("after that: %v, want %s", err, want)
	}
}

// A server of an older protocol may ignore the first question of today's handshake.
func TestIgnoresDiscover(t *testing.T) {
	if got, isError := call(t, open(t, self("raw-old"), Options{Patience: 8 * time.Second}), "echo", "x"); got != "right" || isError {
		t.Errorf("echo = %q, %v", got, isError)
	}
}

// TestNews: a change of the list that a server has told of before its answer holds for the next call,
// although it has said that the list holds for longer.
func TestNews(t *testing.T) {
	c := open(t, self("raw-news"), Options{})
	for n := range 300 {
		if got, isError := call(t, c, fmt.Sprintf("echo%d", n), "x"); got != "right" || isError {
			t.Fatalf("call %d: %q, %v", n, got, isError)
		}
	}
}

// A call that is given up leaves the server to others.
func TestGiveUp(t *testing.T) {
	c := open(t, self("plain"), Options{})
	list, _, err := c.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	hang, _ := find(list, "hang")
	enough := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	time.AfterFunc(20*time.Millisecond, func() { cancel(enough) })
	if _, err := c.Call(ctx, hang, json.RawMessage(`{"text":""}`)); !errors.Is(err, enough) {
		t.Errorf("hang: %v", err)
	}
	if got, _ := call(t, c, "echo", "still here"); got != "still here" || c.begun != 1 {
		t.Errorf("echo = %q after %d starts", got, c.begun)
	}
}

// TestGiveUpWaiting: a call that does not wait for the start of its server, or for its new list of
// tools, leaves both to others.
func TestGiveUpWaiting(t *testing.T) {
	gate := filepath.Join(t.TempDir(), "gate")
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	s := self("raw-gated")
	s.Env = map[string]string{"GATE": gate}
	c := open(t, s, Options{})
	// reached waits until the server is about to list its tools. It goes on when the pipe is closed.
	reached := func() *os.File {
		t.Helper()
		f, err := os.OpenFile(gate, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	enough := errors.New("enough")
	giveUp := func(when string) (pipe *os.File) {
		t.Helper()
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan error, 1)
		go func() {
			_, err := c.Call(ctx, Tool{Name: "echo"}, nil)
			done <- err
		}()
		pipe = reached()
		cancel(enough)
		if err := <-done; !errors.Is(err, enough) {
			t.Errorf("%s: %v", when, err)
		}
		for range starts { // these come to nothing that is new
			ctx, cancel := context.WithTimeoutCause(t.Context(), 10*time.Millisecond, enough)
			if _, err := c.Call(ctx, Tool{Name: "echo"}, nil); !errors.Is(err, enough) {
				t.Errorf("%s, again: %v", when, err)
			}
			cancel()
		}
		return pipe
	}
	pipe := giveUp("a call during the start")
	var first *session
	for range 2 {
		if err := pipe.Close(); err != nil {
			t.Fatal(err)
		}
		if got, isError := call(t, c, "echo", "x"); got != "right" || isError || c.begun != 1 || first != nil && c.live != first {
			t.Errorf("echo = %q, %v, %d starts, another server: %v", got, isError, c.begun, c.live != first)
		}
		first = c.live
		pipe = giveUp("a call while it lists its tools again")
	}
	done := make(chan error, 1)
	go func() {
		_, _, err := c.List(t.Context())
		done <- err
	}()
	c.Close() // does not wait for the server
	if err := <-done; err == nil || err.Error() != "MCP server s: closed" {
		t.Errorf("List while it is closed: %v", err)
	}
	if err := pipe.Close(); err != nil {
		t.Fatal(err)
	}
}

func TestUnfitServers(t *testing.T) {
	for kind, want := range map[string]string{
		"mute":    "MCP server s: no answer within 300ms",
		"deaf":    "MCP server s: no answer within 300ms",
		"gone":    "MCP server s: exit status 3\nstderr, last lines:\nno [31mlicence[0m",
		"huge":    "MCP server s: its list of tools is too long: at most 512 tools and 2 MiB",
		"garbage": "MCP server s: it wrote something on stdout that is not a message: invalid character 'h' in literal true (expecting 'r')",
	} {
		t.Run(kind, func(t *testing.T) {
			o := Options{}
			if kind == "mute" || kind == "deaf" {
				o.Patience = 300 * time.Millisecond
			}
			_, _, err := open(t, self(kind), o).List(t.Context())
			if err == nil || err.Error() != want {
				t.Errorf("List = %v, want %s", err, want)
			}
		})
	}
	s := self("plain")
	s.Command = "no-such-program"
	if _, _, err := open(t, s, Options{}).List(t.Context()); err == nil || !strings.Contains(err.Error(), "no such file") {
		t.Errorf("no program: %v", err)
	}
}

func TestOddTools(t *testing.T) {
	list, unfit, err := open(t, self("odd"), Options{}).List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range list {
		names = append(names, tool.Name)
	}
	if want := []string{"echo", "painted"}; !slices.Equal(names, want) {
		t.Errorf("tools = %q, want %q", names, want)
	}
	painted, _ := find(list, "painted")
	if painted.Description != "a[2Jbc" || string(painted.Schema) != `{"properties":{"p":{"description":"[31mred","type":"string"}},"type":"object"}` {
		t.Errorf("painted = %q, %s", painted.Description, painted.Schema)
	}
	slices.Sort(unfit)
	want := []string{
		"a tool with a name that is no name", "big: a schema of 65570 bytes, more than 65536",
		"deep: a schema more than 32 levels deep", "long: a description of 19999 bytes, more than 8192",
	}
	if !slices.Equal(unfit, want) {
		t.Errorf("unfit = %q, want %q", unfit, want)
	}
}

// A tool that changes while its server runs is not called any more.
func TestChanged(t *testing.T) {
	c := open(t, self("plain"), Options{})
	list, _, err := c.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	echo, _ := find(list, "echo")
	if got, _ := call(t, c, "change", ""); got != "changed" {
		t.Fatal(got)
	}
	deadline := time.Now().Add(10 * time.Second)
	for { // until the server's notice has come
		r, err := c.Call(t.Context(), echo, json.RawMessage(`{"text":"x"}`))
		if err != nil {
			t.Fatal(err)
		}
		if r.Refused {
			const want = "MCP server s: its tool echo is not as it was approved; a person has to look at it: jp mcp approve s"
			if r.Text != want {
				t.Errorf("echo = %q, want %q", r.Text, want)
			}
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("a changed tool is called")
		}
	}
	if r, _ := c.Call(t.Context(), Tool{Name: "nothing"}, nil); !r.Refused {
		t.Errorf("a tool that is gone = %+v", r)
	}
}

func TestVariables(t *testing.T) {
	s := self("plain")
	s.Env = map[string]string{"A": "${SECRET}", "B": "$HOME ${TOKEN:-x}"}
	if got := strings.Join(s.Variables(), " "); got != "SECRET TOKEN" {
		t.Errorf("Variables = %s", got)
	}
	refuse := func(name string) string {
		if name == "SECRET" {
			return "is a key"
		}
		return ""
	}
	if _, _, err := open(t, s, Options{Refuse: refuse}).List(t.Context()); err == nil || err.Error() != "MCP server s: variable SECRET is a key" {
		t.Errorf("a key: %v", err)
	}
	s.Env = map[string]string{"A": "${UNSET}"}
	if _, _, err := open(t, s, Options{}).List(t.Context()); err == nil || err.Error() != "MCP server s: variable UNSET is not set" {
		t.Errorf("unset: %v", err)
	}
}

func TestParseFile(t *testing.T) {
	got, err := ParseFile([]byte("\ufeff"+`{"mcpServers":{
		"ok":{"command":"./x","args":["a b"],"env":{"A":"${A}"}}, "web":{"type":"http","url":"https://x/mcp","headers":{"Authorization":"Bearer ${T}"}},
		"none":{}, "both":{"command":"x","url":"http://x"}, "sse":{"type":"sse","url":"http://x"}, "a b":{"command":"x"},
		"jp":{"command":"x","env":{"JP_STORE":"y"}}, "open":{"command":"x","args":["${A"]}, "host":{"url":"http://x","headers":{"Host":"y"}},
		"wrong":{"command":7},"--yes":{"command":"x"},
		"off":{"command":"x","disabled":true}, "on":{"command":"x","disabled":false,"cwd":"/w/"}, "there":{"command":"x","cwd":"sub"}}}`), "/w")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"ok": "", "web": "", "none": "has neither a command nor a url", "both": "has a command and a url: one of them",
		"sse": "type sse is not supported: it is superseded by http", "a b": "the name of a server has at most 64 letters, digits, _ and, not first, -",
		"jp": `env: "JP_STORE" is no variable that it may be given`, "open": `"${A": want ${NAME} or ${NAME:-text}`,
		"host": `headers: "Host" is no header that can be set`,
		"off":  "disabled = true", "on": "", "there": "cwd is not supported: a server runs in the folder of the workspace",
		"wrong": "command: want a string, not a number", "--yes": "the name of a server has at most 64 letters, digits, _ and, not first, -",
	}
	for name, msg := range want {
		e, ok := got[name]
		if text := errorText(e.Err); !ok || text != msg {
			t.Errorf("%s: %q, want %q", name, text, msg)
		}
	}
	if len(got) != len(want) {
		t.Errorf("%d entries, want %d", len(got), len(want))
	}
	if s := got["ok"].Server; s.Address() != `./x "a b"` || s.Dir != "/w" || s.Digest() == got["web"].Server.Digest() {
		t.Errorf("ok = %+v, %s", s, s.Address())
	}
	if _, err := ParseFile([]byte(`[]`), "/w"); err == nil {
		t.Error("a list is a file of servers")
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestChangesBeside: a server changes its tools while others are called.
func TestChangesBeside(t *testing.T) {
	c := open(t, self("plain"), Options{})
	if _, _, err := c.List(t.Context()); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	defer all.Wait()
	for range 4 {
		all.Go(func() {
			for range 200 {
				if r, err := c.Call(t.Context(), Tool{Name: "nothing"}, nil); err != nil || !r.Refused {
					t.Errorf("a tool that is not there = %+v, %v", r, err)
				}
				time.Sleep(time.Millisecond)
			}
		})
	}
	for range 20 {
		if got, _ := call(t, c, "change", ""); got != "changed" {
			t.Error(got)
		}
	}
}
