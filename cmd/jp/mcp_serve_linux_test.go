package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"jp/tools/later"
)

// mcpClient is a client of the SDK with a `jp mcp serve` of its own.
type mcpClient struct {
	*mcp.ClientSession
	cmd *exec.Cmd

	mu   sync.Mutex
	told []string // progress
}

func serveMCP(s *site, args ...string) *mcpClient {
	s.t.Helper()
	c := &mcpClient{}
	var stderr bytes.Buffer
	c.cmd = &exec.Cmd{Path: "/proc/self/exe", Args: append([]string{"jp", "mcp", "serve"}, args...), Dir: s.dir, Env: s.environ(), Stderr: &stderr}
	later.Schema.Need() // the SDK uses it
	later.MCP.Need()
	client := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, &mcp.ClientOptions{
		ProgressNotificationHandler: func(_ context.Context, r *mcp.ProgressNotificationClientRequest) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.told = append(c.told, r.Params.Message)
		},
	})
	var err error
	if c.ClientSession, err = client.Connect(s.t.Context(), &mcp.CommandTransport{Command: c.cmd, TerminateDuration: patience}, nil); err != nil {
		s.t.Fatalf("%v\n%s", err, &stderr)
	}
	s.t.Cleanup(func() { _ = c.Close() })
	return c
}

// ask calls a tool and returns its text.
func (c *mcpClient) ask(ctx context.Context, name string, args map[string]any) (string, error) {
	p := &mcp.CallToolParams{Name: name, Arguments: args}
	p.SetProgressToken("p")
	r, err := c.CallTool(ctx, p)
	if err != nil {
		return "", err
	}
	return r.Content[0].(*mcp.TextContent).Text, nil
}

func TestServeMCP(t *testing.T) {
	s := killSite(t)
	c := serveMCP(s, "--title", "root")
	var names []string
	for tool, err := range c.Tools(t.Context(), nil) {
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, tool.Name)
		if b, _ := json.Marshal(tool.InputSchema); tool.Name == "jp_query" && !strings.Contains(string(b), `"enum":["agent/child"]`) {
			t.Errorf("jp_query takes %s", b)
		}
	}
	if want := []string{"jp_batch_query", "jp_conversation_grep", "jp_conversation_list", "jp_conversation_print", "jp_query"}; !slices.Equal(names, want) {
		t.Errorf("tools = %v, want %v", names, want)
	}

	text, err := c.ask(t.Context(), "jp_query", map[string]any{"config": "agent/child", "query": "quick one"})
	if err != nil || !strings.Contains(text, `status="ok"`) || !strings.Contains(text, "quick answer") {
		t.Fatalf("jp_query = %s, %v", text, err)
	}
	s.eventually("more progress than the start", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return len(c.told) > 1
	})
	c.mu.Lock()
	if id := s.all()["quick one"].ID.String(); c.told[0] != "agent/child "+id+": started" {
		t.Errorf("progress = %q", c.told)
	}
	c.mu.Unlock()
	text, err = c.ask(t.Context(), "jp_batch_query", map[string]any{"queries": []any{
		map[string]any{"config": "agent/child", "query": "quick two"}, map[string]any{"config": "agent/none", "query": "quick three"},
	}})
	if err != nil || !strings.Contains(text, "agent/none") {
		t.Errorf("a batch with a profile that is none = %s, %v", text, err)
	}
	text, err = c.ask(t.Context(), "jp_query", map[string]any{"config": "agent/none", "query": "x"})
	if err != nil || !strings.Contains(text, "agent/none") {
		t.Errorf("a profile that is none = %s, %v", text, err)
	}

	if out, code := s.jp("query", "--new", "after all"); code != 0 { // beside the client's subtree
		t.Fatal(out)
	}
	list, err := c.ListResources(t.Context(), nil)
	if err != nil || len(list.Resources) != 1 || list.Resources[0].Title != "quick one" {
		t.Fatalf("resources = %+v, %v", list, err)
	}
	read, err := c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: list.Resources[0].URI})
	if err != nil || !strings.Contains(read.Contents[0].Text, "quick answer") {
		t.Errorf("read = %+v, %v", read, err)
	}
	for _, uri := range []string{"jp://conversation/" + s.all()["after all"].ID.String(), "jp://conversation/" + s.all()["root"].ID.String(), "jp://conversation/..", "file:///etc/passwd"} {
		if read, err := c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: uri}); err == nil {
			t.Errorf("%s = %+v", uri, read)
		}
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if got := s.all()["root"].Status; got != "ok" {
		t.Errorf("status of the root = %s, want ok", got)
	}

	// on behalf of a conversation: its own limits
	again := serveMCP(s, "--root-id", s.all()["root"].ID.String())
	text, err = again.ask(t.Context(), "jp_conversation_list", nil)
	if err != nil || !strings.Contains(text, "quick one") {
		t.Errorf("list = %s, %v", text, err)
	}
}

// TestServeMCPShares: calls that a client makes at the same time get even parts of what there is,
// and those that have to wait reserve nothing meanwhile.
func TestServeMCPShares(t *testing.T) {
	s := newSite(t, map[string]string{
		".jp/config.toml": "[delegation]\nprofiles = [\"agent/child\"]\nmax_parallel = 4\ntoken_budget = 80000\n", ".jp/config/agent/child.toml": childProfile,
		"child.toml": "[[rule]]\nusage = { input = 900, output = 100 }\ntext = \"fine\"\n",
	})
	c := serveMCP(s, "--title", "root")
	var calls sync.WaitGroup
	texts := make([]string, 10)
	for i := range texts {
		calls.Go(func() {
			text, err := c.ask(t.Context(), "jp_query", map[string]any{"config": "agent/child", "query": fmt.Sprint("task ", i)})
			texts[i] = fmt.Sprint(text, err)
		})
	}
	calls.Wait()
	for i, text := range texts {
		if !strings.Contains(text, `status="ok"`) {
			t.Errorf("call %d: %s", i, text)
		}
	}
	ds, err := s.store.Delegations(t.Context(), s.all()["root"].ID)
	if err != nil || len(ds) != len(texts) {
		t.Fatalf("%d delegations, %v", len(ds), err)
	}
	for _, d := range ds[:4] {
		if n := *d.Grant.Tokens; n < 19_000 {
			t.Errorf("%s was granted %d of 80,000 tokens, want a quarter", d.ID, n)
		}
	}
}

// TestServeMCPReadOnly: a client may run at the same time what changes nothing. What delegates does
// so where no profile can change anything.
func TestServeMCPReadOnly(t *testing.T) {
	s := newSite(t, map[string]string{
		".jp/config.toml":              "[assistant]\nmodel = \"script/m.toml\"\n",
		".jp/config/agent/reader.toml": "[conversation.tools.fs_read_file]\n[conversation.tools.jp_conversation_list]\n",
		".jp/config/agent/writer.toml": "[conversation.tools.fs_read_file]\n[conversation.tools.fs_create_file]\n",
		".jp/config/agent/asker.toml":  "[conversation.tools.jp_query]\n",
		"m.toml":                       "[[rule]]\ntext = \"x\"\n",
	})
	reading := []string{"jp_conversation_grep", "jp_conversation_list", "jp_conversation_print"}
	for list, want := range map[string][]string{
		`["agent/reader"]`:                 {"jp_batch_query", "jp_conversation_grep", "jp_conversation_list", "jp_conversation_print", "jp_query"},
		`["agent/reader", "agent/writer"]`: reading,
		`["agent/asker"]`:                  reading,
		`["agent/gone"]`:                   reading,
	} {
		config := "[assistant]\nmodel = \"script/m.toml\"\n[delegation]\nprofiles = " + list + "\n"
		if err := os.WriteFile(filepath.Join(s.dir, ".jp/config.toml"), []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		c := serveMCP(s)
		var got []string
		for tool, err := range c.Tools(t.Context(), nil) {
			if err != nil {
				t.Fatal(err)
			}
			if a := tool.Annotations; a != nil && a.ReadOnlyHint {
				got = append(got, tool.Name)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("with %s read-only are %v, want %v", list, got, want)
		}
		_ = c.Close()
	}
}

// TestServeMCPCancel: what a client gives up is stopped, with everything below it, and nothing
// else.
func TestServeMCPCancel(t *testing.T) {
	s := killSite(t)
	c := serveMCP(s)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := c.ask(ctx, "jp_query", map[string]any{"config": "agent/child", "query": "escape"})
		ended <- err
	}()
	s.loose()
	cancel()
	<-ended
	s.eventually("the tool's processes to end", func() bool { return len(s.running("sleep 1000.")) == 0 })
	s.eventually("the delegation to be settled", func() bool { return s.all()["escape"].Status == "cancelled" })
	text, err := c.ask(t.Context(), "jp_query", map[string]any{"config": "agent/child", "query": "quick one"})
	if err != nil || !strings.Contains(text, "quick answer") {
		t.Errorf("after that: %s, %v", text, err)
	}
}

// TestServeMCPGone: a client that goes takes its work along.
func TestServeMCPGone(t *testing.T) {
	s := killSite(t)
	stdin, client, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	cmd := &exec.Cmd{Path: "/proc/self/exe", Args: []string{"jp", "mcp", "serve", "--title", "root"}, Dir: s.dir, Env: s.environ(), Stdin: stdin}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stdin.Close()
	const requests = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"jp_query","arguments":{"config":"agent/child","query":"escape"}}}
`
	if _, err := client.WriteString(requests); err != nil {
		t.Fatal(err)
	}
	s.loose()
	client.Close()
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	if p := s.processes(); len(p) != 0 {
		t.Errorf("left when jp had ended: %v", p)
	}
	if got := s.all(); got["escape"].Status != "cancelled" || got["root"].Status != "ok" {
		t.Errorf("escape = %s, root = %s, want cancelled and ok", got["escape"].Status, got["root"].Status)
	}
}

// TestServeMCPUnread: a client that reads nothing and goes keeps nobody.
func TestServeMCPUnread(t *testing.T) {
	s := killSite(t)
	in, theirs, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, full, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	var stderr bytes.Buffer
	cmd := &exec.Cmd{Path: "/proc/self/exe", Args: []string{"jp", "mcp", "serve", "-q"}, Dir: s.dir, Env: s.environ(), Stdin: in, Stdout: full, Stderr: &stderr}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in.Close()
	full.Close()
	lines := `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}
{"jsonrpc":"2.0","method":"notifications/initialized"}
`
	for i := range 200 { // whose answers no pipe holds
		lines += fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/list"}`+"\n", i+2)
	}
	if _, err := theirs.WriteString(lines); err != nil {
		t.Fatal(err)
	}
	theirs.Close()
	_ = cmd.Wait() // the test's own deadline is the one that counts
	if code := cmd.ProcessState.ExitCode(); code != 0 || stderr.Len() > 0 {
		t.Errorf("status %d, %q, want 0 and nothing", code, &stderr)
	}
}

// TestServeMCPLong: a transcript is read whole, however little of it a call may be told.
func TestServeMCPLong(t *testing.T) {
	const line = "a line of the answer\n"
	for _, tt := range []struct {
		lines int
		end   string
	}{{20_000, "| " + line[:len(line)-1]}, {100_000, " bytes are cut here; jp conversation print ID shows them]"}} {
		s := newSite(t, map[string]string{
			".jp/config.toml":            "[assistant]\nmodel = \"script/m.toml\"\n[delegation]\nprofiles = [\"agent/long\"]\n",
			".jp/config/agent/long.toml": "[loader]\nreset = \"none\"\n[assistant]\nmodel = \"script/m.toml\"\n",
			"m.toml":                     "[[rule]]\ntext = '''" + strings.Repeat(line, tt.lines) + "'''\n",
		})
		c := serveMCP(s, "-q")
		if text, err := c.ask(t.Context(), "jp_query", map[string]any{"config": "agent/long", "query": "q"}); err != nil || len(text) > 100_000 {
			t.Fatalf("jp_query = %d bytes, %v", len(text), err)
		}
		list, err := c.ListResources(t.Context(), nil)
		if err != nil || len(list.Resources) != 1 {
			t.Fatalf("resources = %+v, %v", list, err)
		}
		read, err := c.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: list.Resources[0].URI})
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(read.Contents[0].Text, list.Resources[0].Name, "ID")
		if n := strings.Count(text, line); n < min(tt.lines, 80_000)-1 || !strings.HasSuffix(text, tt.end) {
			t.Errorf("%d lines of %d, ends %q", n, tt.lines, text[len(text)-100:])
		}
	}
}
