package acp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// scripted is an Agent whose sessions do what the text of a prompt says.
type scripted struct {
	made *atomic.Int32
}

func (a scripted) New(_ context.Context, s Setup) (Session, error) {
	if s.Dir == "/gone" {
		return nil, &Error{Code: CodeNotFound, Message: "no such folder", Data: 7}
	}
	if s.Dir == "/full" { // has used up some ids that are in use elsewhere
		return scriptedSession{a, fmt.Sprintf("s/%c", 'a'+a.made.Add(1)-1), s.Dir}, nil
	}
	return scriptedSession{a, "s" + s.Dir, "/a"}, nil
}

func (a scripted) Load(_ context.Context, id string, s Setup) (Session, Replay, error) {
	return scriptedSession{a, id, s.Dir}, func(_ context.Context, tell func(Update)) error {
		tell(Chunk{Kind: ByUser, Content: Text("before"), Message: "m"})
		return nil
	}, nil
}

func (a scripted) List(context.Context, string, string) (Page, error) { return Page{}, nil }

type scriptedSession struct {
	agent scripted
	id    string
	home  string
}

func (s scriptedSession) ID() string   { return s.id }
func (s scriptedSession) Home() string { return s.home }

func (s scriptedSession) Options() []ConfigOption {
	return []ConfigOption{{ID: "o", Name: "O", Type: "select", Current: "a", Values: []ConfigValue{{Value: "a", Name: "A"}}}}
}

func (s scriptedSession) Set(context.Context, string, string) error {
	return errors.New("cannot be set")
}

func (s scriptedSession) Prompt(prompt []Block) Run {
	return func(ctx context.Context, c *Client) (StopReason, error) { return say(ctx, prompt, c) }
}

func say(ctx context.Context, prompt []Block, c *Client) (StopReason, error) {
	switch word := prompt[0].Text; word {
	case "say":
		c.Note(Warning, "careful")
		c.Note(Information, "<by the way>")
		c.Tell(Compaction{ID: "c", Text: "shorter now", Summary: "sum"})
		c.Tell(ToolCall{Kind: Change, ID: "t", Status: Completed})
		c.Tell(NewUsage(1, 2, "0.5"))
		c.Tell(NewInfo("title", ""))
	case "wait":
		<-ctx.Done()
		return EndTurn, fmt.Errorf("stopped: %w", context.Cause(ctx))
	case "stopped":
		go c.Insist()
		c.Tell(NewInfo("title", ""))
		<-ctx.Done()
	case "tell":
		c.Tell(NewInfo("title", ""))
	case "stopped before it tells":
		go c.Insist()
		time.Sleep(time.Minute)
		c.Tell(NewInfo("title", ""))
		<-ctx.Done()
	case "panic":
		panic("at the disco")
	case "permit":
		id, err := c.Permit(ctx, ToolCall{Kind: NewCall, ID: "t", Title: "T"}, []Option{{ID: "yes", Name: "Yes", Kind: AllowOnce}})
		c.Tell(Chunk{Kind: ByAgent, Content: Text(fmt.Sprintf("%q %v", id, err))})
	case "question":
		answer, err := c.Question(ctx, "t", "why?", nil)
		c.Tell(Chunk{Kind: ByAgent, Content: Text(fmt.Sprintf("%q %v", answer, err))})
	}
	return EndTurn, nil
}

// peer is a client on the other end of a connection.
type peer struct {
	t    *testing.T
	conn net.Conn
	in   *bufio.Reader
	done chan error
	a    scripted
}

// connect serves a client that says what it can do.
func connect(t *testing.T, can string) *peer {
	t.Helper()
	ours, theirs := net.Pipe()
	p := &peer{t: t, conn: theirs, in: bufio.NewReader(theirs), done: make(chan error, 1), a: scripted{new(atomic.Int32)}}
	ctx, cancel := context.WithCancelCause(t.Context())
	go func() {
		p.done <- Serve(ctx, cancel, p.a, Options{Info: Implementation{Name: "x", Version: "1"}, Log: func(string, ...any) {}}, ours, ours)
		ours.Close()
	}()
	p.say(`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":` + can + `}}`)
	if line := p.line(); !strings.Contains(line, `"protocolVersion":1`) {
		t.Fatal(line)
	}
	p.say(`{"jsonrpc":"2.0","id":0,"method":"session/new","params":{"cwd":"/a"}}`)
	if got, want := p.line(), `{"jsonrpc":"2.0","id":0,"result":{"configOptions":[{"id":"o","name":"O","type":"select","currentValue":"a","options":[{"value":"a","name":"A"}]}],"sessionId":"s/a"}}`; got != want {
		t.Fatalf("session/new = %s\nwant          %s", got, want)
	}
	return p
}

func (p *peer) say(line string) {
	p.t.Helper()
	if _, err := io.WriteString(p.conn, line+"\n"); err != nil {
		p.t.Fatal(err)
	}
}

func (p *peer) line() string {
	p.t.Helper()
	line, err := p.in.ReadString('\n')
	if err != nil {
		p.t.Fatal(err)
	}
	return strings.TrimSuffix(line, "\n")
}

// expect reads lines. What stands before them in each goes without saying.
func (p *peer) expect(want ...string) {
	p.t.Helper()
	for _, w := range want {
		got := strings.TrimPrefix(p.line(), `{"jsonrpc":"2.0",`)
		got = strings.Replace(got, `"method":"session/update","params":{"sessionId":"s/a","update":`, "", 1)
		if got != w {
			p.t.Errorf("line = %s\nwant   %s", got, w)
		}
	}
}

// expectAll reads lines in any order.
func (p *peer) expectAll(want ...string) {
	p.t.Helper()
	var got []string
	for range want {
		got = append(got, strings.TrimPrefix(p.line(), `{"jsonrpc":"2.0",`))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		p.t.Errorf("lines = %q, want %q", got, want)
	}
}

func prompt(id int, word string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"session/prompt","params":{"sessionId":"s/a","prompt":[{"type":"text","text":%q}]}}`, id, word)
}

// end closes the connection and waits for Serve.
func (p *peer) end() {
	p.t.Helper()
	p.conn.Close()
	if err := <-p.done; err != nil {
		p.t.Errorf("Serve = %v", err)
	}
}

// TestForms: what a client does not know is told in a form that it does.
func TestForms(t *testing.T) {
	rest := []string{
		`{"sessionUpdate":"tool_call_update","toolCallId":"t","status":"completed"}}}`,
		`{"sessionUpdate":"usage_update","used":1,"size":2,"cost":{"amount":0.5,"currency":"USD"}}}}`,
		`{"sessionUpdate":"session_info_update","title":"title"}}}`,
		`"id":1,"result":{"stopReason":"end_turn"}}`,
	}
	p := connect(t, `{}`)
	p.say(prompt(1, "say"))
	p.expect(append([]string{
		`{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"jp: warning: careful\n"}}}}`,
		`{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"jp: <by the way>\n"}}}}`,
		`{"sessionUpdate":"agent_thought_chunk","content":{"type":"text","text":"jp: shorter now\n"}}}}`,
	}, rest...)...)
	p.say(prompt(2, "question"))
	p.expect(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"\"\" the client cannot ask its user"}}}}`, `"id":2,"result":{"stopReason":"end_turn"}}`)
	p.end()

	p = connect(t, `{"session":{"notices":{},"compaction":{}},"elicitation":{"form":null}}`)
	p.say(prompt(1, "say"))
	p.expect(append([]string{
		`{"sessionUpdate":"notice","severity":"warning","title":"careful"}}}`,
		`{"sessionUpdate":"notice","severity":"info","title":"<by the way>"}}}`,
		`{"sessionUpdate":"compaction_update","compactionId":"c","status":"completed","summary":[{"type":"text","text":"sum"}]}}}`,
	}, rest...)...)
	p.say(prompt(2, "question"))
	p.expect(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"\"\" the client cannot ask its user"}}}}`, `"id":2,"result":{"stopReason":"end_turn"}}`)
	p.end()
}

func TestAnswers(t *testing.T) {
	p := connect(t, `{"elicitation":{"form":{}}}`)
	n := 0
	for _, tt := range []struct{ word, answer, want string }{
		{"permit", `"result":{"outcome":{"outcome":"selected","optionId":"yes"}}`, `\"yes\" \u003cnil\u003e`},
		{"permit", `"result":{"outcome":{"outcome":"cancelled"}}`, `\"\" \u003cnil\u003e`},
		{"permit", `"result":{"outcome":{"outcome":"selected","optionId":"no"}}`, `\"\" the client's answer is none: it chose \"no\", which is no option`},
		{"permit", `"result":{}`, `\"\" the client's answer is none: its outcome is \"\"`},
		{"permit", `"result":[]`, `\"\" the client's answer is none: want an object, not a list`},
		{"permit", `"error":{"code":-32601,"message":"what?"}`, `\"\" the client cannot ask its user: what?`},
		{"permit", `"error":{"code":-32603,"message":"crashed"}`, `\"\" the client's answer is none: crashed`},
		{"question", `"result":{"action":"accept","content":{"answer":"so"}}`, `\"so\" \u003cnil\u003e`},
		{"question", `"result":{"action":"decline"}`, `\"\" \u003cnil\u003e`},
	} {
		n++
		p.say(prompt(n, tt.word))
		if asked := p.line(); !strings.Contains(asked, fmt.Sprintf(`"id":%d,"method":"`, n)) {
			t.Fatal(asked)
		}
		p.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,%s}`, n, tt.answer))
		p.expect(fmt.Sprintf(`{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"%s"}}}}`, strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(tt.want)),
			fmt.Sprintf(`"id":%d,"result":{"stopReason":"end_turn"}}`, n))
	}
	p.end()
}

// TestStops: what is cancelled, in whatever way, is answered as that; a panic and an error are
// answers of their own request.
func TestStops(t *testing.T) {
	p := connect(t, `{}`)
	p.say(prompt(1, "wait"))
	p.say(`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s/a"}}`)
	p.expect(`"id":1,"result":{"stopReason":"cancelled"}}`)
	p.say(prompt(2, "wait"))
	p.say(`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":2}}`)
	p.expect(`"id":2,"result":{"stopReason":"cancelled"}}`)
	p.say(prompt(3, "wait"))
	p.say(prompt(4, "say"))
	p.expect(`"id":4,"error":{"code":-32600,"message":"session s/a: a prompt is under way; wait for its end, or cancel it"}}`)
	p.say(`{"jsonrpc":"2.0","id":5,"method":"session/load","params":{"sessionId":"s/a","cwd":"/a"}}`)
	p.expect(`"id":5,"error":{"code":-32600,"message":"session s/a: a prompt is under way; wait for its end, or cancel it"}}`)
	p.say(`{"jsonrpc":"2.0","id":6,"method":"session/close","params":{"sessionId":"s/a"}}`)
	both := []string{p.line(), p.line()} // in any order
	slices.Sort(both)
	if want := []string{`{"jsonrpc":"2.0","id":3,"result":{"stopReason":"cancelled"}}`, `{"jsonrpc":"2.0","id":6,"result":{}}`}; !slices.Equal(both, want) {
		t.Errorf("lines = %q, want %q", both, want)
	}
	p.say(`{"jsonrpc":"2.0","id":7,"method":"session/load","params":{"sessionId":"s/a","cwd":"/a"}}`)
	p.expect(`{"sessionUpdate":"user_message_chunk","content":{"type":"text","text":"before"},"messageId":"m"}}}`,
		`"id":7,"result":{"configOptions":[{"id":"o","name":"O","type":"select","currentValue":"a","options":[{"value":"a","name":"A"}]}]}}`)
	p.say(prompt(8, "panic"))
	p.expect(`"id":8,"error":{"code":-32603,"message":"internal error: at the disco"}}`)
	p.say(`{"jsonrpc":"2.0","id":9,"method":"session/set_config_option","params":{"sessionId":"s/a","configId":"o","value":"a"}}`)
	p.expect(`"id":9,"error":{"code":-32603,"message":"cannot be set"}}`)
	p.say(`{"jsonrpc":"2.0","id":10,"method":"session/new","params":{"cwd":"/gone"}}`)
	p.expect(`"id":10,"error":{"code":-32002,"message":"no such folder","data":7}}`)
	p.end()
}

// slow is an Agent whose sessions take as many seconds to set an option as its value says.
type slow struct{ scripted }

type slowSession struct {
	scriptedSession
	set *atomic.Value
}

func (a slow) New(context.Context, Setup) (Session, error) {
	s := slowSession{scriptedSession{a.scripted, "s", "/"}, new(atomic.Value)}
	s.set.Store("0s")
	return s, nil
}

func (s slowSession) Options() []ConfigOption {
	return []ConfigOption{{ID: "o", Current: s.set.Load().(string), Values: []ConfigValue{{Value: "1s"}, {Value: "2s"}, {Value: "3s"}}}}
}

func (s slowSession) Set(_ context.Context, _, value string) error {
	d, err := time.ParseDuration(value)
	time.Sleep(d)
	s.set.Store(value)
	return err
}

func (s slowSession) Prompt([]Block) Run {
	with := s.set.Load().(string)
	return func(_ context.Context, c *Client) (StopReason, error) {
		time.Sleep(time.Hour)
		c.Tell(NewInfo(with, ""))
		return EndTurn, nil
	}
}

// TestOrder: a prompt has the options that were set before it was sent, and no later ones, although
// the client waits for no answer.
func TestOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ours, theirs := net.Pipe()
		ctx, cancel := context.WithCancelCause(t.Context())
		done := make(chan error, 1)
		go func() {
			done <- Serve(ctx, cancel, slow{}, Options{Log: t.Logf}, ours, ours)
			ours.Close()
		}()
		answers := make(chan string)
		go func() {
			all, _ := io.ReadAll(theirs)
			answers <- string(all)
		}()
		for _, line := range []string{
			`"id":1,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}`,
			`"id":2,"method":"session/new","params":{"cwd":"/"}`,
			"",
			`"id":3,"method":"session/set_config_option","params":{"sessionId":"s","configId":"o","value":"4s"}`,
			`"id":4,"method":"session/set_config_option","params":{"sessionId":"s","configId":"o","value":"2s"}`,
			`"id":5,"method":"session/set_config_option","params":{"sessionId":"s","configId":"o","value":"1s"}`,
			`"id":6,"method":"session/prompt","params":{"sessionId":"s","prompt":[{"type":"text","text":"x"}]}`,
			`"id":7,"method":"session/set_config_option","params":{"sessionId":"s","configId":"o","value":"3s"}`,
			`"id":8,"method":"session/set_config_option","params":{"sessionId":"s","configId":"o","value":"2s"}`,
			`"method":"$/cancel_request","params":{"requestId":7}`,
		} {
			if line == "" {
				synctest.Wait()
				continue
			}
			if _, err := io.WriteString(theirs, `{"jsonrpc":"2.0",`+line+"}\n"); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(2 * time.Hour)
		_ = theirs.SetReadDeadline(time.Now())
		got := <-answers
		for want, n := range map[string]int{
			`"id":3,"error":{"code":-32602`: 1,
			`"title":"1s"`:                  1, // of the prompt
			`"currentValue":"1s"`:           1, // 5
			`"currentValue":"2s"`:           2, // 4 and 8
			`"currentValue":"3s"`:           0,
			`"id":7,"error":{"code":-32800`: 1,
			`"stopReason":"end_turn"`:       1,
		} {
			if strings.Count(got, want) != n {
				t.Errorf("%d times %s, want %d times, in\n%s", strings.Count(got, want), want, n, got)
			}
		}
		theirs.Close()
		<-done
	})
}

// TestUnread: neither who stops a prompt nor who reads waits for a client that reads nothing.
func TestUnread(t *testing.T) {
	const session = `"params":{"sessionId":"s/a"}}`
	for word, stop := range map[string]string{
		"stopped": "", "stopped before it tells": "",
		"tell":         `{"jsonrpc":"2.0","method":"session/cancel",` + session,
		"tell, closed": `{"jsonrpc":"2.0","id":2,"method":"session/close",` + session,
		"tell, given":  `{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}`,
		"no, refused":  "garbage",
	} {
		t.Run(word, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { unread(t, word, stop) }) })
	}
}

// TestUnreadAnswers: a client that asks without end, and reads no answer, is left.
func TestUnreadAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, done := quiet(t)
		n := 0
		for ; n < 1000; n++ {
			if _, err := fmt.Fprintf(client, `{"jsonrpc":"2.0","id":%d,"method":"session/list","params":{}}`+"\n", n); err != nil {
				break
			}
			synctest.Wait()
		}
		if n > 3*maxRequests {
			t.Fatalf("%d requests were taken, and no answer was read", n)
		}
		if err := <-done; !errors.Is(err, ErrUnread) {
			t.Errorf("Serve = %v, want %v", err, ErrUnread)
		}
	})
}

// quiet serves a client that has a session and reads nothing any more.
func quiet(t *testing.T) (client net.Conn, done chan error) {
	ours, theirs := net.Pipe()
	ctx, cancel := context.WithCancelCause(t.Context())
	context.AfterFunc(ctx, func() { ours.Close() }) // as a bounded stdout fails then
	done = make(chan error, 1)
	go func() {
		done <- Serve(ctx, cancel, scripted{new(atomic.Int32)}, Options{Log: func(string, ...any) {}}, ours, ours)
	}()
	in := bufio.NewReader(theirs)
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1,"clientCapabilities":{}}}`,
		`{"jsonrpc":"2.0","id":0,"method":"session/new","params":{"cwd":"/a"}}`,
	} {
		if _, err := io.WriteString(theirs, line+"\n"); err != nil {
			t.Fatal(err)
		}
		if _, err := in.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	return theirs, done
}

// unread asks for a prompt, reads nothing of it, and sends the line stop.
func unread(t *testing.T, word, stop string) {
	word, _, _ = strings.Cut(word, ",")
	client, done := quiet(t)
	for _, line := range []string{prompt(1, word), stop} {
		if _, err := io.WriteString(client, line+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	if err := <-done; !errors.Is(err, ErrUnread) {
		t.Errorf("Serve = %v, want %v", err, ErrUnread)
	}
}

// TestSameID: of two sessions that have one id and are kept in two places a client has one.
func TestSameID(t *testing.T) {
	p := connect(t, `{}`) // s/a in /a
	p.say(`{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/full"}}`)
	p.expect(`"id":1,"result":{"configOptions":[{"id":"o","name":"O","type":"select","currentValue":"a","options":[{"value":"a","name":"A"}]}],"sessionId":"s/b"}}`)
	p.say(`{"jsonrpc":"2.0","id":2,"method":"session/load","params":{"sessionId":"s/a","cwd":"/b"}}`)
	p.expect(`"id":2,"error":{"code":-32603,"message":"session s/a: is open in another place under the same id; session/close ends that one"}}`)
	p.say(`{"jsonrpc":"2.0","id":3,"method":"session/close","params":{"sessionId":"s/a"}}`)
	p.expect(`"id":3,"result":{}}`)
	p.say(`{"jsonrpc":"2.0","id":4,"method":"session/resume","params":{"sessionId":"s/a","cwd":"/b"}}`)
	p.expect(`"id":4,"result":{"configOptions":[{"id":"o","name":"O","type":"select","currentValue":"a","options":[{"value":"a","name":"A"}]}]}}`)
	p.end()
}

// TestMany: no more requests are under way than maxRequests, and they are answered.
func TestMany(t *testing.T) {
	p := connect(t, `{}`)
	for i := range maxRequests {
		p.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"method":"session/new","params":{"cwd":"/%d"}}`, i))
		p.line()
	}
	for i := range maxRequests {
		p.say(strings.Replace(prompt(i, "wait"), "s/a", fmt.Sprintf("s/%d", i), 1))
	}
	p.say(prompt(1000, "say"))
	p.expect(`"id":1000,"error":{"code":-32600,"message":"64 requests are under way; wait for one of them"}}`)
	p.say(`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s/7"}}`)
	p.expect(`"id":7,"result":{"stopReason":"cancelled"}}`)
	p.say(strings.Replace(prompt(7, "wait"), "s/a", "s/7", 1))
	// What ends others always has a place.
	p.say(`{"jsonrpc":"2.0","id":1001,"method":"session/cancel","params":{"sessionId":"s/8"}}`)
	p.expectAll(`"id":8,"result":{"stopReason":"cancelled"}}`, `"id":1001,"result":{}}`)
	p.say(strings.Replace(prompt(8, "wait"), "s/a", "s/8", 1))
	p.say(`{"jsonrpc":"2.0","id":1002,"method":"session/close","params":{"sessionId":"s/9"}}`)
	p.expectAll(`"id":9,"result":{"stopReason":"cancelled"}}`, `"id":1002,"result":{}}`)
	p.end() // cancels the rest
}

// TestLarge: nor do they hold more than maxUnderWay bytes.
func TestLarge(t *testing.T) {
	p := connect(t, `{}`)
	const most = 4
	filler := `"_meta":{"x":"` + strings.Repeat("x", maxUnderWay/most-1<<10) + `"},`
	large := func(id, at int) string {
		return strings.Replace(strings.Replace(prompt(id, "wait"), "s/a", fmt.Sprintf("s/%d", at), 1), `"params":{`, `"params":{`+filler, 1)
	}
	for i := range most + 1 {
		p.say(fmt.Sprintf(`{"jsonrpc":"2.0","id":0,"method":"session/new","params":{"cwd":"/%d"}}`, i))
		p.line()
	}
	for i := range most {
		p.say(large(i, i))
	}
	p.say(large(1000, most))
	p.expect(`"id":1000,"error":{"code":-32600,"message":"requests of 64 MiB are under way; wait for one of them"}}`)
	p.say(`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s/2"}}`)
	p.expect(`"id":2,"result":{"stopReason":"cancelled"}}`)
	p.end() // cancels the rest
}

// FuzzServe: whatever a client sends, each line that comes back is a message, each of its requests
// is answered at most once under its id, and Serve returns when the client has gone.
func FuzzServe(f *testing.F) {
	const begin = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}` + "\n" +
		`{"jsonrpc":"2.0","id":1,"method":"session/load","params":{"sessionId":"s","cwd":"/a"}}` + "\n"
	for _, rest := range []string{
		"", "x\n\n[]\n", prompt(2, "say"), prompt(2, "panic"), prompt(2, "permit") + "\n" + `{"jsonrpc":"2.0","id":1,"result":{}}`,
		prompt(2, "wait") + "\n" + prompt(2, "wait") + "\n" + `{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"s"}}`,
		`{"jsonrpc":"2.0","id":3,"method":"session/close","params":{"sessionId":"s"}}`, `{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":1}}`,
		`{"jsonrpc":"2.0","id":4,"method":"session/set_config_option","params":{"sessionId":"s","configId":"o","value":"a"}}`,
		`{"jsonrpc":"2.0","id":5,"method":"session/list","params":{"cwd":7}}`, `{"jsonrpc":"2.0","id":6,"method":"initialize","params":null}`,
	} {
		f.Add([]byte(begin + strings.ReplaceAll(rest, "s/a", "s")))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		ctx, cancel := context.WithCancelCause(t.Context())
		defer cancel(nil)
		var out bytes.Buffer
		a := scripted{new(atomic.Int32)}
		if err := Serve(ctx, cancel, a, Options{Log: func(string, ...any) {}}, bytes.NewReader(in), &out); err != nil {
			t.Fatal(err)
		}
		asked, answered := map[string]int{}, map[string]int{}
		for line := range bytes.Lines(in) {
			var m message
			if json.Unmarshal(line, &m) == nil && m.ID != nil {
				asked[string(m.ID)]++
			}
		}
		for line := range bytes.Lines(out.Bytes()) {
			m, _, bad := decode(line)
			if bad != nil && !bytes.Contains(line, []byte(`"id":null`)) {
				t.Fatalf("line %q: %v", line, bad)
			}
			if m.Method == "" && m.ID != nil && bad == nil {
				if answered[string(m.ID)]++; answered[string(m.ID)] > asked[string(m.ID)] {
					t.Fatalf("id %s was answered more often than it was asked:\n%s", m.ID, out.Bytes())
				}
			}
		}
	})
}
