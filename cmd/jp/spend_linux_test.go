package main

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/model/script"
	"jp/cmd/jp/internal/test/wire"
	"jp/convstore"
)

// bank is a provider that takes money for every request that it has taken, also where its
// connection breaks afterwards. Tokens are counted as vendors do it for such texts: one for four
// bytes.
type bank struct {
	price  model.Price
	breaks int    // attempts of each request that break
	after  string // what is said before that; "" = nothing
	next   model.Stream
	dense  bool // texts of the user are counted a token for each character

	mu     sync.Mutex
	billed int64 // nano-dollars
	asked  int
}

func (b *bank) stream(ctx context.Context, r model.Request) iter.Seq2[model.Part, error] {
	return func(yield func(model.Part, error) bool) {
		u := convstore.Usage{Input: b.input(r), Output: int64(len(b.after))/4 + 1}
		if r.Attempt > b.breaks {
			for p, err := range b.next(ctx, r) {
				if p.Usage != nil {
					u.Output = p.Usage.Output / 4 * 3
					if r.MaxTokens > 0 {
						u.Output = min(u.Output, int64(r.MaxTokens))
					}
					b.bill(u)
					p.Usage = &u
				}
				if !yield(p, err) {
					return
				}
			}
			return
		}
		said := b.after
		if r.MaxTokens > 0 && u.Output > int64(r.MaxTokens) {
			u.Output, said = int64(r.MaxTokens), said[:4*r.MaxTokens]
		}
		b.bill(u)
		if yield(model.Part{Usage: &u}, nil) && (said == "" || yield(model.Part{Text: said}, nil)) {
			yield(model.Part{}, &model.Error{Kind: model.KindStream, Message: "the line is cut"})
		}
	}
}

// input is what the request counts.
func (b *bank) input(r model.Request) int64 {
	if !b.dense {
		return r.Estimate() / 4 * 3
	}
	n := int64(0)
	for _, m := range r.Messages {
		for _, c := range m.Content {
			n += int64(utf8.RuneCountInString(c.Text))
		}
	}
	r.Messages = nil
	return n + r.Estimate()
}

func (b *bank) bill(u convstore.Usage) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.billed += b.price.Cost(u)
	b.asked++
}

// TestCapHoldsForDenseText: a limit of money holds for a single call whose text has more tokens
// than others of its length, also where that makes the prompt a long one, with a price of its own.
func TestCapHoldsForDenseText(t *testing.T) {
	digits := strings.Repeat("3141592653589793", 2500)
	haiku := model.PerMillion(0.1, 0.5, 0.01, 0.125)
	haiku.Long = &model.LongPrice{Above: 100_000, Input: 500, Output: 2500, CacheRead: 50, CacheWrite: 625}
	for _, tt := range []struct {
		name, model string
		price       model.Price
		text        string
		limit       string
		most        int64 // nano-dollars
		asked       bool
	}{
		{"digits", "anthropic/claude-opus-5-5", model.PerMillion(4, 20, 0.2, 5), digits, "0.12", 12e7, false},
		{"digits within the limit", "anthropic/claude-opus-5-5", model.PerMillion(4, 20, 0.2, 5), digits, "0.3", 3e8, true},
		{"long by what it counts", "anthropic/claude-haiku-5-5", haiku, strings.Repeat(digits, 6), "0.06", 6e7, false},
		{"long and within the limit", "anthropic/claude-haiku-5-5", haiku, strings.Repeat(digits, 6), "0.2", 2e8, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			answers, err := script.Parse("model.toml", []byte("[[rule]]\ntext = \"read\"\n"))
			if err != nil {
				t.Fatal(err)
			}
			b := &bank{price: tt.price, next: answers.Stream("wire", ""), dense: true}
			server, err := wire.Start(b.stream, wire.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = server.Close() }()
			s := newSite(t, map[string]string{".jp/config.toml": fmt.Sprintf("[assistant]\nmodel = %q\n", tt.model), "data.txt": tt.text})
			cmd, out := s.start([]string{
				"ANTHROPIC_BASE_URL=" + server.URL, "ANTHROPIC_API_KEY=sk-the-key-of-this-test",
				"OPENAI_BASE_URL=" + server.URL + "/v1", "OPENAI_API_KEY=sk-the-key-of-this-test",
			}, "jp", "query", "--new", "-a", "data.txt", "--max-cost", tt.limit, "read it")
			_ = cmd.Wait() // what it comes to is in the output
			t.Logf("billed %.4f of %s: %s", float64(b.billed)/1e9, tt.limit, out)
			if b.billed > tt.most {
				t.Errorf("billed %d of at most %d nano-dollars", b.billed, tt.most)
			}
			if asked := b.asked > 0; asked != tt.asked {
				t.Errorf("asked: %v, want %v", asked, tt.asked)
			}
		})
	}
}

// TestCapHoldsWhileAttemptsBreak: a limit of money holds for all requests that a provider bills,
// those of attempts that broke and were repeated included, and the ledger says at least what was
// billed.
func TestCapHoldsWhileAttemptsBreak(t *testing.T) {
	opus := model.PerMillion(4, 20, 0.2, 5)
	five := model.PerMillion(1.25, 10, 0.125, 1.25)
	long := strings.Repeat("some words of a long report, ", 400) // 11,600 bytes
	for _, tt := range []struct {
		name, model string
		price       model.Price
		breaks      int
		after       string
		children    int
		limit       string
		most        int64  // nano-dollars
		want        string // the answer
	}{
		{name: "one that always breaks", model: "anthropic/claude-opus-5-5", price: opus, breaks: 99, limit: "0.06", most: 6e7},
		{name: "over chat completions", model: "openai/gpt-5.1", price: five, breaks: 99, limit: "0.02", most: 2e7},
		{name: "over responses", model: "openai/gpt-6.1-sol", price: model.PerMillion(2, 10, 0.1, 2.5), breaks: 99, limit: "0.03", most: 3e7},
		{name: "after a text that nobody saw", model: "openai/gpt-5.1", price: five, breaks: 99, after: long, limit: "0.15", most: 15e7},
		{name: "repeated within the limit", model: "anthropic/claude-opus-5-5", price: opus, breaks: 2, after: "half of it", limit: "0.2", most: 2e8, want: `"result":"whole"`},
		{name: "32 sub-agents", model: "anthropic/claude-opus-5-5", price: opus, breaks: 5, children: 32, limit: "1.6", most: 16e8},
	} {
		t.Run(tt.name, func(t *testing.T) {
			rules := "[[rule]]\nquery = \"part\"\ntext = \"done\"\n"
			for i := range tt.children {
				if i == 0 {
					rules += "[[rule]]\nround = 1\n"
				}
				rules += fmt.Sprintf("[[rule.tool_calls]]\nname = \"jp_query\"\narguments = { config = \"agent/r\", query = \"part %d\" }\n", i)
			}
			answers, err := script.Parse("model.toml", []byte(rules+"[[rule]]\ntext = \"whole\"\n"))
			if err != nil {
				t.Fatal(err)
			}
			b := &bank{price: tt.price, breaks: tt.breaks, after: tt.after, next: answers.Stream("wire", "")}
			server, err := wire.Start(b.stream, wire.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = server.Close() }()
			api := "[providers.llm.openai]\ntype = \"openai\"\nbase_url = \"" + server.URL + "/v1\"\napi_key_env = \"OPENAI_API_KEY\"\napi = \"responses\"\n"
			if tt.name != "over responses" {
				api = ""
			}
			s := newSite(t, map[string]string{
				".jp/config.toml": fmt.Sprintf(`
[assistant]
model = "%[1]s"
[assistant.request]
base_backoff_ms = 1
[conversation.tools.jp_query]
source = "delegation"
run = "unattended"
[delegation]
profiles = ["agent/r"]
budget_inheritance = 1.0
max_per_turn = 32
max_parallel = 8
`, tt.model),
				".jp/config/agent/r.toml":       fmt.Sprintf("[loader]\nreset = \"none\"\n[assistant]\nmodel = %q\nsystem_prompt = %q\n[assistant.request]\nbase_backoff_ms = 1\n", tt.model, long),
				"../home/config/jp/config.toml": api,
			})
			cmd, out := s.start([]string{
				"ANTHROPIC_BASE_URL=" + server.URL, "ANTHROPIC_API_KEY=sk-the-key-of-this-test",
				"OPENAI_BASE_URL=" + server.URL + "/v1", "OPENAI_API_KEY=sk-the-key-of-this-test",
			}, "jp", "query", "--new", "-F", "json", "--max-cost", tt.limit, "--max-sub-cost", "unlimited", "go: "+long)
			_ = cmd.Wait() // what it comes to is in the output
			if !strings.Contains(out.String(), tt.want) {
				t.Errorf("output lacks %q:\n%s", tt.want, out)
			}
			counted := int64(0)
			for _, c := range s.all() {
				counted += *c.CostNano
			}
			t.Logf("%d requests, billed %.4f of %s, counted %.4f", b.asked, float64(b.billed)/1e9, tt.limit, float64(counted)/1e9)
			if b.billed > tt.most || counted > tt.most {
				t.Errorf("billed %d, counted %d of at most %d nano-dollars", b.billed, counted, tt.most)
			}
			if counted < b.billed {
				t.Errorf("billed %d nano-dollars, and the store counts %d", b.billed, counted)
			}
			if b.asked < 2 || b.asked <= 2*tt.children {
				t.Errorf("%d requests: nothing was repeated", b.asked)
			}
		})
	}
}

// TestCapOfClient: the limit of a client that sends one message after another holds for all
// replies that a provider bills, also for those that cannot be stored. Where nobody can say what a
// message used, there is no further one.
func TestCapOfClient(t *testing.T) {
	noise := make([]byte, 300_000)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	for _, tt := range []struct {
		name string
		says string
		away bool // the store is away from the first reply on; else the replies are larger than the disk
	}{
		{"call of a tool", fmt.Sprintf(`tool_calls = [{ name = "fs_read_file", arguments = { path = "%x" } }]`, noise), false},
		{"answer", fmt.Sprintf(`text = "%x"`, noise), false},
		{"without a store", `text = "ok"`, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			answers, err := script.Parse("model.toml", []byte("[[rule]]\n"+tt.says+"\nusage = { input = 100, output = 20000 }\n"))
			if err != nil {
				t.Fatal(err)
			}
			s := newSite(t, map[string]string{".jp/config.toml": "[assistant]\nmodel = \"anthropic/claude-haiku-5-5\"\n[conversation.tools.fs_read_file]\n"})
			dir := filepath.Dir(s.store.Path())
			b := &bank{price: model.PerMillion(0.1, 0.5, 0.01, 0.125), next: answers.Stream("wire", "")}
			server, err := wire.Start(func(ctx context.Context, r model.Request) iter.Seq2[model.Part, error] {
				if tt.away {
					if err := os.Rename(dir, dir+".away"); err != nil {
						t.Error(err)
					}
				}
				return b.stream(ctx, r)
			}, wire.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = server.Close() }()
			s.more = []string{"ANTHROPIC_BASE_URL=" + server.URL, "ANTHROPIC_API_KEY=sk-the-key-of-this-test"}
			c := s.fullDisk("--max-cost", "0.025")
			for range 5 {
				c.say("go")
			}
			_ = c.in.Close()
			n := 0
			for c.lines.Scan() {
				if bytes.Contains(c.lines.Bytes(), []byte(`"type":"result"`)) {
					n++
				}
			}
			_ = c.cmd.Wait()
			if b.billed == 0 || b.billed > 25e6 {
				t.Errorf("billed %d of at most 25000000 nano-dollars in %d requests", b.billed, b.asked)
			}
			if n != 5 { // also those of messages that no model was asked about
				t.Errorf("%d results, want 5", n)
			}
			if tt.away {
				if err := os.Rename(dir+".away", dir); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// fullDisk is clientRun where no file can have more than 256 KiB.
func (s *site) fullDisk(args ...string) *clientRun {
	s.t.Helper()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var was, beyond unix.Sigset_t // a write beyond the limit shall fail, and not end the process
	beyond.Val[0] = 1 << (unix.SIGXFSZ - 1)
	if err := unix.PthreadSigmask(unix.SIG_BLOCK, &beyond, &was); err != nil {
		s.t.Fatal(err)
	}
	c := s.clientRun(args...)
	if err := unix.PthreadSigmask(unix.SIG_SETMASK, &was, nil); err != nil {
		s.t.Fatal(err)
	}
	const size = 256 << 10
	if err := unix.Prlimit(c.cmd.Process.Pid, unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: size, Max: size}, nil); err != nil {
		s.t.Fatal(err)
	}
	c.lines.Buffer(nil, 4<<20)
	return c
}

// TestActiveUnstored: a new conversation whose question does not fit on the disk is not made, and does
// not take the place of the one that the terminal has active.
func TestActiveUnstored(t *testing.T) {
	s := newSite(t, map[string]string{
		".jp/config.toml": "[assistant]\nmodel = \"script/model.toml\"\n", "model.toml": "[[rule]]\ntext = \"ok\"\n",
	})
	if out, code := s.jp("query", "--new", "first"); code != 0 {
		t.Fatal(out)
	}
	want, _ := s.jp("conversation", "use")
	noise := make([]byte, 300_000)
	_, _ = rand.NewChaCha8([32]byte{}).Read(noise)
	c := s.fullDisk("--new")
	c.say(fmt.Sprintf("%x", noise))
	if r := c.until("result"); r["is_error"] != true {
		t.Errorf("the question was stored: %v", r)
	}
	_ = c.end()
	if got, code := s.jp("conversation", "use"); got != want || code != 0 {
		t.Errorf("jp conversation use = %q, %d, want %q", got, code, want)
	}
	if all := s.all(); len(all) != 1 {
		t.Errorf("%d conversations, want 1", len(all))
	}
}
