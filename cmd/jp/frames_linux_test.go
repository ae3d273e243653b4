package main

import (
	"context"
	"fmt"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/model/script"
	"jp/cmd/jp/internal/test/wire"
	"jp/convstore"
	"jp/convstore/usage"
)

// teller is a provider of a tree of depth 2 that keeps what it was asked, and takes money for it.
type teller struct {
	bank
	asks map[string]int  // number of requests, by whose they are
	said map[string]bool // texts that came in requests: they were acknowledged to a jp before
}

func (b *teller) stream(ctx context.Context, r model.Request) iter.Seq2[model.Part, error] {
	b.mu.Lock()
	for i, m := range r.Messages {
		for _, c := range m.Content {
			if i == 0 && c.Text != "" {
				b.asks[c.Text]++
			}
			if c.Text != "" {
				b.said[c.Text] = true
			}
			if c.Result != nil {
				b.said[c.Result.Text] = true
			}
		}
	}
	b.mu.Unlock()
	return b.bank.stream(ctx, r)
}

// counts returns how often was asked, by whose request it was.
func (b *teller) counts() map[string]int {
	b.mu.Lock()
	defer b.mu.Unlock()
	counts := map[string]int{}
	for who, n := range b.asks {
		counts[who] = n
	}
	return counts
}

// TestKillAtEachFrame kills the root, a sub-agent and its sub-agent after each frame that it has
// sent and after each that it has received. Then nothing runs, nothing stays reserved, what was
// acknowledged is stored, what was billed is charged and never more than the limits allow, and the
// root goes on without paying again for what is stored. With -short it leaves out four of five
// frames.
func TestKillAtEachFrame(t *testing.T) {
	stride := 1
	if testing.Short() {
		stride = 5
	}
	const lanes = 4 // each kills at every fourth frame, so that they share the processors
	for who, least := range map[string]int{"root": 20, "middle": 15, "leaf": 5} {
		var ran sync.Map
		t.Run(who, func(t *testing.T) {
			for lane := range lanes {
				t.Run(fmt.Sprint(lane), func(t *testing.T) {
					t.Parallel()
					for n := 1 + lane*stride; ; n += lanes * stride {
						if !killAtFrame(t, who, n) {
							return
						}
						ran.Store(n, true)
					}
				})
			}
		})
		n := 0
		ran.Range(func(any, any) bool { n++; return true })
		t.Logf("the %s was killed at %d frames", who, n)
		if n < least/stride {
			t.Errorf("the %s was killed at %d frames, want at least %d", who, n, least/stride)
		}
	}
}

// killAtFrame kills a process at its n-th frame. It returns false where it has fewer.
func killAtFrame(t *testing.T, who string, n int) (killed bool) {
	answers, err := script.Parse("model.toml", []byte(`
[[rule]]
query = "leaf"
text = "the leaf is done"
[[rule]]
query = "middle"
round = 1
tool_calls = [{ name = "jp_query", arguments = { config = "agent/leaf", query = "leaf" } }]
[[rule]]
query = "middle"
text = "the middle is done"
[[rule]]
round = 1
tool_calls = [{ name = "jp_query", arguments = { config = "agent/middle", query = "middle" } }]
[[rule]]
text = "the root is done"
`))
	if err != nil {
		t.Fatal(err)
	}
	b := &teller{bank: bank{price: model.PerMillion(4, 20, 0.2, 5), next: answers.Stream("wire", "")}, asks: map[string]int{}, said: map[string]bool{}}
	server, err := wire.Start(b.stream, wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	const (
		opus  = "[assistant]\nmodel = \"anthropic/claude-opus-5-5\"\n[assistant.request]\nbase_backoff_ms = 1\n"
		query = "[conversation.tools.jp_query]\nsource = \"delegation\"\nrun = \"unattended\"\n"
		limit = 2_000_000_000 // nano-dollars
	)
	s := newSite(t, map[string]string{
		".jp/config.toml":              opus + query + "[delegation]\nprofiles = [\"agent/middle\"]\nmax_depth = 2\n",
		".jp/config/agent/middle.toml": "[loader]\nreset = \"none\"\n" + opus + query + "[delegation]\nprofiles = [\"agent/leaf\"]\nmax_depth = 1\n",
		".jp/config/agent/leaf.toml":   "[loader]\nreset = \"none\"\n" + opus,
	})
	s.more = []string{"ANTHROPIC_BASE_URL=" + server.URL, "ANTHROPIC_API_KEY=sk-the-key-of-this-test"}
	plan := filepath.Join(s.home, "kill")
	if err := os.WriteFile(plan, fmt.Appendf(nil, "%s %d", who, n), 0o600); err != nil {
		t.Fatal(err)
	}
	fail := func(format string, args ...any) {
		t.Helper()
		t.Errorf("%s, frame %d: %s", who, n, fmt.Sprintf(format, args...))
	}
	out, code := s.jp("query", "--new", "--max-cost", "2", "go")
	s.gone()
	if _, err := os.Lstat(plan); err != nil {
		killed = true
	} else if err := os.Remove(plan); err != nil {
		t.Fatal(err)
	}
	if (!killed || who != "root") && (code != 0 || !strings.HasSuffix(out, "the root is done\n")) {
		fail("the root lived, and ended with %d: %s", code, out)
	}
	if err := s.store.Check(t.Context()); err != nil {
		fail("%v", err)
	}

	c := s.all()
	texts, replies := "", map[string]int{}
	for _, title := range []string{"go", "middle", "leaf"} {
		conv, ok := c[title]
		if !ok {
			continue
		}
		if slices.Contains([]convstore.Status{"running", "queued", "new"}, conv.Status) && title != "go" {
			fail("status of %s = %s", title, conv.Status)
		}
		for _, ev := range s.events(conv.ID) {
			switch b := ev.Body.(type) {
			case convstore.UserMessage:
				texts += b.Text + "\n"
			case convstore.AssistantMessage:
				texts += b.Text + "\n"
			case convstore.ToolResult:
				texts += b.Text + "\n"
			case convstore.ModelCall:
				if b.Stop != convstore.StopLost && b.Stop != "cut" {
					replies[title]++
				}
			}
		}
	}
	for text := range b.said {
		if !strings.Contains(texts, text) {
			fail("the provider was sent what is not stored: %q", text)
		}
	}
	asked := b.counts()
	if c["go"].Status == convstore.StatusInterrupted {
		if out, code := s.jp("query", "--id", c["go"].ID.String()); code != 0 || !strings.HasSuffix(out, "the root is done\n") {
			fail("going on: %d %s", code, out)
		}
		s.gone()
	}
	for title, rounds := range map[string]int{"go": 2, "middle": 2, "leaf": 1} {
		again := b.counts()[title] - asked[title]
		if most := rounds - replies[title]; again > most || title != "go" && replies[title] > 0 && again > 0 {
			fail("%s had %d replies in the store, and asked for %d more", title, replies[title], again)
		}
	}

	root := s.all()["go"]
	if root.Status != "ok" {
		fail("status of the root = %s: %s", root.Status, out)
	}
	for _, d := range s.delegations(root.ID) {
		if d.State == "" {
			fail("still reserved: %s", dump(d))
		}
	}
	spent, err := usage.Spent(t.Context(), s.store.View, root.ID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := spent.Differences(); len(diff) > 0 {
		fail("events and ledger disagree: %s", dump(diff))
	}
	charged := int64(0)
	for _, one := range spent.Charges {
		charged += *one.CostNano
	}
	if charged < b.billed || charged > limit || b.billed > limit {
		fail("billed %d, charged %d of at most %d nano-dollars", b.billed, charged, limit)
	}
	return killed
}

// TestSubagentOpensNoStore runs sub-agents that are told of a store which is not there, and looks
// at what one has open: of the store nothing but its run lock, which it inherits.
func TestSubagentOpensNoStore(t *testing.T) {
	s := killSite(t)
	if err := os.WriteFile(filepath.Join(s.home, "nostore"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, code := s.jp("query", "--new", "quick"); code != 0 || !strings.HasSuffix(out, "after all\n") {
		t.Errorf("%d %s", code, out)
	}
	if c := s.all()["quick one"]; c.Status != "ok" || c.Events == 0 {
		t.Errorf("the sub-agent is %s", dump(c))
	}
	cmd, _ := s.start(nil, "jp", "query", "--new", "child")
	s.loose()
	dir := filepath.Dir(s.store.Path())
	opened := func(pid int) (list []string) {
		links, err := filepath.Glob(fmt.Sprintf("/proc/%d/fd/*", pid))
		if err != nil || len(links) == 0 {
			t.Fatalf("nothing is known of %d: %v", pid, err)
		}
		for _, link := range links {
			if to, _ := os.Readlink(link); strings.HasPrefix(to, dir+"/") {
				list = append(list, filepath.Base(to))
			}
		}
		slices.Sort(list)
		return slices.Compact(list)
	}
	for _, pid := range s.running("--root-id=") {
		if got := opened(pid); !slices.Equal(got, []string{"runs"}) {
			t.Errorf("the sub-agent has %q of the store open", got)
		}
	}
	if got := opened(cmd.Process.Pid); !slices.Contains(got, "slots") {
		t.Errorf("the root has %q of the store open: the look at that is wrong", got)
	}
	_ = cmd.Process.Signal(syscall.SIGINT)
	_ = cmd.Wait()
	s.gone()
	if _, err := os.Lstat(filepath.Join(s.home, "none")); err == nil {
		t.Error("a sub-agent made the store")
	}
}

// TestHostileSubagent runs sub-agents that say on their wire what no jp says. Whatever that is, the
// owner carries out only what was granted, nothing of it stays reserved, the ledger adds up, and
// nobody takes the run for a good one.
func TestHostileSubagent(t *testing.T) {
	const (
		begin = `{"n":1,"append":{"events":[{"event_id":"e1","type":"turn_start"},{"event_id":"e2","type":"chat_request","content":"q"}]}}` + "\n"
		calls = `{"n":2,"append":{"events":[{"event_id":"t1","type":"tool_call_request","id":"c1","name":"jp_query","arguments":{}},` +
			`{"event_id":"t2","type":"tool_call_request","id":"c2","name":"jp_conversation_print","arguments":{}},` +
			`{"event_id":"t3","type":"tool_call_request","id":"c3","name":"escape","arguments":{}},` +
			`{"event_id":"t4","type":"tool_call_request","id":"c4","name":"jp_batch_query","arguments":{}},` +
			`{"event_id":"t5","type":"tool_call_request","id":"c5","name":"jp_conversation_list","arguments":{}},` +
			`{"event_id":"t6","type":"tool_call_request","id":"c6","name":"guest","arguments":{}},` +
			`{"event_id":"t7","type":"tool_call_request","id":"c7","name":"jp_conversation_grep","arguments":{}}]}}` + "\n"
		tools = `{"n":2,"append":{"events":[{"event_id":"t1","type":"tool_call_request","id":"c1","name":"echo","arguments":{"text":"as it is stored"}},` +
			`{"event_id":"t2","type":"tool_call_request","id":"c2","name":"ask_echo","arguments":{"text":"x"}},` +
			`{"event_id":"t3","type":"tool_call_request","id":"c3","name":"echo","arguments":{"txt":"x"}},` +
			`{"event_id":"t4","type":"tool_call_request","id":"c4","name":"env","arguments":{"text":"x"}}]}}` + "\n"
		leaf = `{"id":"c1","name":"jp_query","arguments":{"config":"agent/leaf","query":"leaf"}}`
		ask  = `{"n":2,"begin":{"left":{"tokens":null,"cost_nano":500000000},"call":{"model":"script/leaf.toml","usage":{"input_tokens":50,"output_tokens":32768},"cost_nano":0}}}` + "\n" + `{"n":3,"ask":{"request":{"messages":[{"role":"user","content":[{"text":"q"}]}]}}}` + "\n"
		none = `{"event_id":"m1","type":"model_call","model":"script/leaf.toml","cost_nano":0,"usage":{"input_tokens":0}}`
		end  = `,{"event_id":"z1","type":"chat_response","message":"done"},{"event_id":"z2","type":"turn_end","state":"ok"}]}}` + "\n"
	)
	for name, tt := range map[string]struct {
		says   string
		want   string // part of the answers, or of the reason of the end
		leaves int    // sub-agents that it has made
		used   int64  // tokens that it is charged with
	}{
		"not held":            {begin + calls + `{"n":3,"call":{"id":"c4","name":"jp_batch_query","arguments":{"queries":[]}}}` + "\n", "tool jp_batch_query: not held", 0, 0},
		"a tool of its own":   {begin + calls + `{"n":3,"call":{"id":"c3","name":"escape","arguments":{}}}` + "\n", "tool escape: not held", 0, 0},
		"asks first":          {begin + calls + `{"n":3,"call":{"id":"c5","name":"jp_conversation_list","arguments":{}}}` + "\n", "tool jp_conversation_list: no", 0, 0},
		"its caller":          {begin + calls + `{"n":3,"call":{"id":"c2","name":"jp_conversation_print","arguments":{"id":"ROOT"}}}` + "\n", "not below", 0, 0},
		"itself":              {begin + calls + `{"n":3,"call":{"id":"c2","name":"jp_conversation_print","arguments":{"id":"SELF"}}}` + "\n", "not below", 0, 0},
		"a command":           {begin + calls + `{"n":3,"command":{"tool":"escape","call":"c3","args":["query","x"]}}` + "\n", "tool escape: does not run jp", 0, 0},
		"a command, but ours": {begin + calls + `{"n":3,"command":{"tool":"jp_query","call":"c1","args":["query","x"]}}` + "\n", "tool jp_query: does not run jp", 0, 0},
		"a command, unasked":  {begin + calls + `{"n":3,"command":{"tool":"guest","call":"c6","args":["query","--id=new","--root-id=SELF","--cfg=agent/leaf","--","leaf"]}}` + "\n", "tool guest: nobody can answer", 0, 0},
		"a result, unasked":   {begin + calls + `{"n":3,"call":{"id":"c7","name":"jp_conversation_grep","arguments":{"pattern":"q"}}}` + "\n", "withheld: nobody can answer", 0, 0},
		"call of another":     {begin + calls + `{"n":3,"call":{"id":"root-1","name":"jp_query","arguments":{}}}` + "\n", "was not made in this turn", 0, 0},
		"before the turn":     {`{"n":1,"admit":[` + leaf + `]}` + "\n", "was not made in this turn", 0, 0},
		"admitted twice":      {begin + calls + `{"n":3,"admit":[` + leaf + "," + leaf + `]}` + "\n" + `{"n":4,"admit":[` + leaf + `]}` + "\n", `{"answer":{"n":4}}`, 1, 0},
		"called twice":        {begin + calls + `{"n":3,"call":` + leaf + `}` + "\n" + `{"n":4,"call":` + leaf + `}` + "\n", "was made before", 1, 0},
		"another profile":     {begin + calls + `{"n":3,"call":{"id":"c1","name":"jp_query","arguments":{"config":"agent/hostile","query":"q"}}}` + "\n", "agent/hostile", 0, 0},
		"10,000 calls":        {begin + calls + `{"n":3,"admit":[` + strings.Repeat(leaf+",", 9_999) + leaf + `]}` + "\n", "too many calls", 0, 0},
		"a server":            {begin + tools + `{"n":3,"serve":{"tool":"echo","call":"c1","arguments":{"text":"another"}}}` + "\n", `"Text":"as it is stored"`, 0, 0},
		"a server, unasked":   {begin + tools + `{"n":3,"serve":{"tool":"ask_echo","call":"c2"}}` + "\n", "refused: nobody can answer", 0, 0},
		"a server, nonsense":  {begin + tools + `{"n":3,"serve":{"tool":"echo","call":"c3"}}` + "\n", "arguments of echo", 0, 0},
		"a server, not held":  {begin + tools + `{"n":3,"serve":{"tool":"env","call":"c4"}}` + "\n", "is none that its owner calls", 0, 0},
		"a server, by a call": {begin + tools + `{"n":3,"call":{"id":"c1","name":"echo","arguments":{"text":"x"}}}` + "\n", "tool echo: not held", 0, 0},
		"no answer":           {begin + `{"n":2,"append":{"events":[{"event_id":"z2","type":"turn_end","state":"ok"}]}}` + "\n", "without an answer", 0, 0},
		"after the end": {begin + `{"n":2,"append":{"events":[{"event_id":"n1","type":"note","kind":"k","text":"t"}` + end +
			`{"n":3,"append":{"events":[{"event_id":"n2","type":"turn_start"}]}}` + "\n", "after the end", 0, 0},
		"gives back":      {begin + `{"n":2,"append":{"events":[{"event_id":"m1","type":"model_call","model":"m","usage":{"input_tokens":-1000000}}]}}` + "\n", "less than nothing", 0, 0},
		"not asked":       {begin + `{"n":2,"append":{"events":[{"event_id":"m1","type":"model_call","model":"m","usage":{"input_tokens":1000000}}]}}` + "\n", "not begun", 0, 0},
		"garbage":         {begin + "GET / HTTP/1.1\n", "cannot be read", 0, 0},
		"only its answer": {begin + `{"n":2,"append":{"events":[{"event_id":"n1","type":"note","kind":"k","text":"t"}` + end, "without its result line", 0, 0},
		"says less":       {begin + ask + `{"n":4,"append":{"events":[` + none + end, `{"answer":{"n":4}}`, 0, 42},
		"says nothing":    {begin + ask + `{"n":4,"append":{"events":[{"event_id":"n1","type":"note","kind":"k","text":"t"}` + end, `{"answer":{"n":4}}`, 0, 42},
		"asks and goes":   {begin + ask, `"Usage"`, 0, 42},
		"asks and breaks": {begin + ask + `{"n":4,"append":{"events":[` + none + `,{"event_id":"s2","type":"turn_start"}]}}` + "\n", "second turn", 0, 42},
		"begins anew": {begin + ask + strings.NewReplacer(`"n":2`, `"n":4`, `"n":3`, `"n":5`).Replace(ask) + `{"n":6,"append":{"events":[` + none + end,
			`{"answer":{"n":6}}`, 0, 84},
		"says more": {begin + ask + `{"n":4,"append":{"events":[` + strings.Replace(none, `:0}`, `:1000000}`, 1) + end, `{"answer":{"n":4}}`, 0, 42},
		"a replay":  {begin + ask + `{"n":4,"append":{"events":[` + strings.Replace(none, `:0}`, `:0},"replayed":true`, 1) + end, "replayed", 0, 42},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const query = "[conversation.tools.jp_query]\nsource = \"delegation\"\nrun = \"unattended\"\n"
			print := "[conversation.tools.jp_conversation_print]\nsource = \"conversation\"\nrun = \"unattended\"\n" +
				"[conversation.tools.jp_conversation_list]\nsource = \"conversation\"\nrun = \"ask\"\n" +
				"[conversation.tools.jp_conversation_grep]\nsource = \"conversation\"\nrun = \"unattended\"\nresult = \"ask\"\n"
			const tool = "[conversation.tools.escape]\nsource = \"local\"\ndescription = \"d\"\ncommand = { program = \"true\" }\nrun = \"unattended\"\n" +
				"[conversation.tools.guest]\nsource = \"local\"\ndescription = \"d\"\ncommand = { program = \"true\" }\naccess.jp = [\"query\"]\nrun = \"ask\"\n"
			servers := ""
			if strings.Contains(tt.says, "echo") {
				servers = "[conversation.tools.echo]\nsource = \"mcp.test\"\nrun = \"unattended\"\n[conversation.tools.ask_echo]\nsource = \"mcp.test.echo\"\n"
			}
			s := newSite(t, map[string]string{
				"../home/config/jp/config.toml": "[providers.mcp.test]\ncommand = \"mcp-server\"\nargs = [\"plain\"]\n",
				".jp/config.toml":               "[assistant]\nmodel = \"script/main.toml\"\n" + query + print + tool + "[delegation]\nprofiles = [\"agent/hostile\"]\nmax_depth = 2\n",
				".jp/config/agent/hostile.toml": "[loader]\nreset = \"none\"\n[assistant]\nmodel = \"script/leaf.toml\"\n" + query + print + tool + servers + "[delegation]\nprofiles = [\"agent/leaf\"]\nmax_depth = 1\n",
				".jp/config/agent/leaf.toml":    "[loader]\nreset = \"none\"\n[assistant]\nmodel = \"script/leaf.toml\"\n",
				"main.toml":                     "[[rule]]\nround = 1\ntool_calls = [{ name = \"jp_query\", arguments = { config = \"agent/hostile\", query = \"hostile\" } }]\n[[rule]]\ntext = \"after all\"\n",
				"leaf.toml":                     "[[rule]]\ntext = \"the leaf is done\"\nusage = { input = 40, output = 2 }\n",
			})
			root, err := s.store.Create(t.Context(), convstore.New{Title: "another"}) // so that the next ids are known
			if err != nil {
				t.Fatal(err)
			}
			says := strings.NewReplacer("ROOT", (root.ID + 1).String(), "SELF", (root.ID + 2).String()).Replace(tt.says)
			if err := os.WriteFile(filepath.Join(s.home, "hostile"), []byte(says), 0o600); err != nil {
				t.Fatal(err)
			}
			out, code := s.jp("query", "--new", "go")
			if code != 0 || !strings.HasSuffix(out, "after all\n") {
				t.Errorf("the root ended with %d: %s", code, out)
			}
			s.gone()
			answers, _ := os.ReadFile(filepath.Join(s.home, "answers"))
			c := s.all()
			leaves := 0
			for _, d := range s.delegations(c["go"].ID) {
				if d.State == "" {
					t.Errorf("still reserved: %s", dump(d))
				}
				if d.Caller != c["go"].ID {
					leaves++
					continue
				}
				if d.State == convstore.StateOK || d.State == convstore.StatePartial {
					t.Errorf("it ended as %s", dump(d))
				}
				if !strings.Contains(string(answers)+d.Reason, tt.want) {
					t.Errorf("want %q in the reason %q or the answers:\n%s", tt.want, d.Reason, answers)
				}
				if used := d.Own.Tokens(); used != tt.used {
					t.Errorf("it is charged with %d tokens, want %d", used, tt.used)
				}
			}
			if leaves != tt.leaves {
				t.Errorf("it made %d sub-agents, want %d", leaves, tt.leaves)
			}
			spent, err := usage.Spent(t.Context(), s.store.View, c["go"].ID)
			if diff := spent.Differences(); err != nil || len(diff) > 0 {
				t.Errorf("events and ledger disagree: %s, %v", dump(diff), err)
			}
			for _, conv := range c {
				if conv.Status == convstore.StatusRunning || conv.Status == convstore.StatusQueued {
					t.Errorf("%s is %s, though nothing runs", conv.Title, conv.Status)
				}
			}
		})
	}
}

// TestContinuedModelIsStored continues a sub-agent under another model: its conversation has that
// model from then on, and says that it was changed.
func TestContinuedModelIsStored(t *testing.T) {
	const opus, haiku = "anthropic/claude-opus-5-5", "anthropic/claude-haiku-5-5"
	answers, err := script.Parse("model.toml", []byte(`
[[rule]]
query = "child"
text = "done"
[[rule]]
round = 1
tool_calls = [{ name = "jp_query", arguments = { config = "agent/r", query = "child" } }]
[[rule]]
round = 2
captures = { id = 'conversation_id="(jp-c[0-9]+)"' }
tool_calls = [{ name = "jp_query", arguments = { config = "agent/r", id = "{{id}}", query = "child, again", overrides = ["assistant.model=`+haiku+`"] } }]
[[rule]]
text = "after all"
`))
	if err != nil {
		t.Fatal(err)
	}
	b := &bank{price: model.PerMillion(4, 20, 0.2, 5), next: answers.Stream("wire", "")}
	server, err := wire.Start(b.stream, wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = server.Close() }()
	s := newSite(t, map[string]string{
		".jp/config.toml":         "[assistant]\nmodel = \"" + opus + "\"\n[conversation.tools.jp_query]\nsource = \"delegation\"\nrun = \"unattended\"\n[delegation]\nprofiles = [\"agent/r\"]\n",
		".jp/config/agent/r.toml": "[loader]\nreset = \"none\"\n[assistant]\nmodel = \"" + opus + "\"\n",
	})
	s.more = []string{"ANTHROPIC_BASE_URL=" + server.URL, "ANTHROPIC_API_KEY=sk-the-key-of-this-test"}
	out, code := s.jp("query", "--new", "go")
	c := s.all()["child"]
	if code != 0 || !strings.HasSuffix(out, "after all\n") || c.Turns != 2 {
		t.Fatalf("%d %s; the child: %s", code, out, dump(c))
	}
	config, err := s.store.Config(t.Context(), c.ID)
	if err != nil || c.Model != haiku || !strings.Contains(string(config.JSON), haiku) {
		t.Errorf("the model of the child is %s, its config %s, %v", c.Model, config.JSON, err)
	}
	var models []string
	changes := 0
	for _, ev := range s.events(c.ID) {
		switch b := ev.Body.(type) {
		case convstore.ModelCall:
			models = append(models, b.Model)
		case convstore.ConfigDelta:
			changes++
			if !strings.Contains(string(b.Delta), haiku) {
				t.Errorf("the config was changed by %s", b.Delta)
			}
		}
	}
	if changes != 1 || !slices.Equal(models, []string{opus, haiku}) {
		t.Errorf("%d changes, models %q", changes, models)
	}
}
