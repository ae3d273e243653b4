package main

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync"
	"testing"
	"time"

	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/model/script"
	"jp/cmd/jp/internal/test/wire"
	"jp/convstore"
)

// limiter answers at most so many requests in any second, and the others with 429.
type limiter struct {
	perSecond int
	after     time.Duration // what it asks to wait for; 0 = until the next one fits
	next      model.Stream

	mu      sync.Mutex
	taken   []time.Time
	refused int
}

func (l *limiter) stream(ctx context.Context, r model.Request) iter.Seq2[model.Part, error] {
	if after, ok := l.take(time.Now()); !ok {
		return func(yield func(model.Part, error) bool) {
			yield(model.Part{}, &model.Error{Kind: model.KindRateLimit, Status: 429, RetryAfter: after, Message: "slow down"})
		}
	}
	return l.next(ctx, r)
}

func (l *limiter) take(now time.Time) (time.Duration, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.taken) > 0 && now.Sub(l.taken[0]) >= time.Second {
		l.taken = l.taken[1:]
	}
	if len(l.taken) < l.perSecond {
		l.taken = append(l.taken, now)
		return 0, true
	}
	l.refused++
	if l.after > 0 {
		return l.after, false
	}
	return l.taken[0].Add(time.Second).Sub(now), false
}

// limitedSite is a workspace whose models are behind a limiter.
func limitedSite(t *testing.T, l *limiter, rules string, children int) (*site, []string) {
	t.Helper()
	s, err := script.Parse("model.toml", []byte(rules))
	if err != nil {
		t.Fatal(err)
	}
	l.next = s.Stream("wire", "")
	server, err := wire.Start(l.stream, wire.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = server.Close() })
	site := newSite(t, map[string]string{
		".jp/config.toml": fmt.Sprintf(`
[assistant]
model = "anthropic/many"
[conversation.tools.jp_query]
source = "delegation"
run = "unattended"
[delegation]
profiles = ["agent/r"]
max_per_turn = %[1]d
max_parallel = %[1]d
`, children),
		".jp/config/agent/r.toml": "[loader]\nreset = \"none\"\n[assistant]\nmodel = \"anthropic/many\"\n",
	})
	return site, []string{"ANTHROPIC_BASE_URL=" + server.URL, "ANTHROPIC_API_KEY=sk-the-key-of-this-test"}
}

// TestRateLimitIsShared: 32 sub-agents at a server that answers 8 requests a second. All finish,
// none fails. Without a gate everybody comes back when the first second is over, and 24, 16 and 8
// are sent away again.
func TestRateLimitIsShared(t *testing.T) {
	const children = 32
	var calls strings.Builder
	for i := range children {
		fmt.Fprintf(&calls, "[[rule.tool_calls]]\nname = \"jp_query\"\narguments = { config = \"agent/r\", query = \"part %d\" }\n", i)
	}
	l := &limiter{perSecond: 8}
	s, env := limitedSite(t, l, "[[rule]]\nquery = \"part\"\ntext = \"done\"\n[[rule]]\nround = 1\n"+calls.String()+"[[rule]]\ntext = \"all of it\"\n", children)
	cmd, out := s.start(env, "jp", "query", "--new", "many")
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for title, c := range s.all() {
		if c.Status != convstore.Status(convstore.StateOK) {
			t.Errorf("%s: %s", title, c.Status)
		}
	}
	if want := children + 1; len(s.all()) != want {
		t.Errorf("%d conversations, want %d", len(s.all()), want)
	}
	if l.refused > 40 {
		t.Errorf("the server sent %d requests away, want at most 40", l.refused)
	}
	for _, want := range []string{": waiting: rate_limit\n", "\nall of it\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output lacks %q:\n%s", want, out)
		}
	}
}
