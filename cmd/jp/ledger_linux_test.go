package main

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"jp/convstore"
	"jp/convstore/usage"
)

// ledgerSite is a workspace whose main agent hands 32 tasks to sub-agents at once, under a limit of
// tokens: a third come to their end, a third hang in their second call of the model, and a third
// wait for one of their own that does.
func ledgerSite(t *testing.T, limit int) *site {
	var calls []string
	for i := range 32 {
		profile, what := "agent/leaf", []string{"work", "hang", "hand on"}[i%3]
		if i%3 == 2 {
			profile = "agent/mid"
		}
		calls = append(calls, fmt.Sprintf(`{ name = "jp_query", arguments = { config = %q, query = "%s %d" } }`, profile, what, i))
	}
	const reads = `
[conversation.tools.fs_list_files]
source = "builtin"
run = "unattended"
`
	const delegates = `
[conversation.tools.jp_query]
source = "delegation"
run = "unattended"
`
	return newSite(t, map[string]string{
		".jp/config.toml": "[assistant]\nmodel = \"script/main.toml\"\n" + delegates +
			fmt.Sprintf("[delegation]\nprofiles = [\"agent/leaf\", \"agent/mid\"]\nmax_depth = 2\nmax_per_turn = 32\nmax_parallel = 64\ntoken_budget = %d\n", limit),
		".jp/config/agent/leaf.toml": "[loader]\nreset = \"none\"\n[assistant]\nmodel = \"script/leaf.toml\"\n" + reads,
		".jp/config/agent/mid.toml": "[loader]\nreset = \"none\"\n[assistant]\nmodel = \"script/mid.toml\"\n" + delegates +
			"[delegation]\nprofiles = [\"agent/leaf\"]\nmax_depth = 1\n",
		"main.toml": "[[rule]]\nround = 1\nquery = \"go\"\ntool_calls = [\n" + strings.Join(calls, ",\n") + "\n]\n[[rule]]\ntext = \"all back\"\n",
		"mid.toml": "[[rule]]\nround = 1\ntool_calls = [{ name = \"jp_query\", arguments = { config = \"agent/leaf\", query = \"hang below\" } }]\n" +
			"[[rule]]\ntext = \"handed on\"\n",
		"leaf.toml": "[[rule]]\nround = 1\ntool_calls = [{ name = \"fs_list_files\", arguments = { path = \".\" } }]\n" +
			"[[rule]]\nquery = \"work\"\ntext = \"done\"\n[[rule]]\nsystem = \"Stop here\"\ntext = \"short\"\n[[rule]]\nhang = true\n",
	})
}

// hanging are the conversations that wait for a model's second reply.
func (s *site) hanging() (ids []convstore.ID) {
	for _, c := range s.conversations() {
		if c.Status != convstore.StatusRunning || c.Events < 5 || !strings.HasPrefix(c.Title, "hang") {
			continue // others have a second call too, for a moment
		}
		if a, err := s.store.Account(s.t.Context(), c.ID); err == nil && a.Call != (convstore.Spend{}) {
			ids = append(ids, c.ID)
		}
	}
	return ids
}

func (s *site) conversations() []convstore.Conversation {
	list, err := s.store.List(s.t.Context(), convstore.Filter{Hidden: true})
	if err != nil {
		s.t.Fatal(err)
	}
	return list
}

// balanced holds every account to its limit, now. What a script says it has used is never above the
// bound of its call.
func (s *site) balanced() {
	s.t.Helper()
	for _, c := range s.conversations() {
		a, err := s.store.Account(s.t.Context(), c.ID)
		if err != nil {
			s.t.Fatal(err)
		}
		given, limit := a.Below.Tokens()+*a.Open.Tokens, a.Subs.Tokens
		if c.Depth > 0 {
			given, limit = given+a.Own.Tokens()+a.Call.Tokens(), a.Limit.Tokens
		}
		if limit == nil || given > *limit {
			s.t.Errorf("%s %q: %d used, open or bound, limit %v", c.ID, c.Title, given, limit)
		}
	}
}

// settled checks that nothing is open, and that the ledger comes to what the events say.
func (s *site) settled(root convstore.ID) usage.Spending {
	s.t.Helper()
	sp, err := usage.Spent(s.t.Context(), s.store.View, root)
	if err != nil {
		s.t.Fatal(err)
	}
	if d := sp.Differences(); len(d) > 0 {
		s.t.Errorf("the events say something else than the ledger: %+v", d)
	}
	var sum int64
	for _, c := range sp.Charges {
		if c.Conversation != root && c.Session == sp.Session {
			sum += c.Usage.Tokens()
		}
	}
	a, err := s.store.Account(s.t.Context(), root)
	if err != nil {
		s.t.Fatal(err)
	}
	if a.Below.Tokens() != sum || *a.Open.Tokens != 0 {
		s.t.Errorf("the root's account: %d settled, %d open; by the events %d", a.Below.Tokens(), *a.Open.Tokens, sum)
	}
	return sp
}

// stopped counts the calls that ended so.
func (s *site) stopped(how string) (n int) {
	for _, c := range s.conversations() {
		for _, ev := range s.events(c.ID) {
			if m, ok := ev.Body.(convstore.ModelCall); ok && m.Stop == how && m.Usage.Tokens() > 0 {
				n++
			}
		}
	}
	return n
}

// TestLedgerOf32Processes kills those of 32 sub-agents, and of those below them, that hang; the
// limit holds at every moment, and in the end the ledger is what the events say.
func TestLedgerOf32Processes(t *testing.T) {
	s := ledgerSite(t, 400_000)
	cmd, out := s.start(nil, "jp", "query", "--new", "--title", "root", "go")
	const hang = 11 + 10 // leaves at depth 1, and leaves below the ten that hand on
	var hanging []convstore.ID
	s.eventually("the model calls that hang", func() bool { hanging = s.hanging(); return len(hanging) == hang })
	s.balanced()
	for i, id := range hanging {
		var pids []int
		s.eventually("the process of a call", func() bool { pids = s.running("--id=" + id.String()); return len(pids) > 0 })
		for _, pid := range pids {
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
		if i%5 == 0 {
			s.balanced()
		}
	}
	if err := cmd.Wait(); err != nil || !strings.Contains(out.String(), "all back") {
		t.Fatalf("%v\n%s", err, out)
	}
	root := s.all()["root"].ID
	s.balanced()
	s.settled(root)
	if n := s.stopped("cut"); n != hang {
		t.Errorf("%d calls that were cut off are charged, want %d", n, hang)
	}
	states := map[convstore.State]int{}
	for _, d := range s.delegations(root) {
		states[d.State]++
	}
	if want := (map[convstore.State]int{"ok": 11 + 10, "killed": hang}); fmt.Sprint(states) != fmt.Sprint(want) {
		t.Errorf("delegations ended %v, want %v", states, want)
	}
}

// TestLedgerWithoutItsRoot kills the root while all hang: who comes next settles what is left, and
// begins a session of its own.
func TestLedgerWithoutItsRoot(t *testing.T) {
	s := ledgerSite(t, 400_000)
	cmd, _ := s.start(nil, "jp", "query", "--new", "--title", "root", "go")
	s.eventually("model calls that hang", func() bool { return len(s.hanging()) >= 5 })
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	s.gone()
	s.balanced()
	root := s.all()["root"].ID
	if out, code := s.jp("query", "--id", root.String(), "what now"); code != 0 || !strings.Contains(out, "all back") {
		t.Fatalf("going on = %d %s", code, out)
	}
	// The conversation's next delegation finds what nobody has settled.
	scope, err := s.store.Below(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := scope.Reserve(t.Context(), func(convstore.Standing) ([]convstore.Child, error) { return nil, nil }); err != nil {
		t.Fatal(err)
	}
	sp := s.settled(root)
	if sp.Session != 2 {
		t.Errorf("session %d, want 2", sp.Session)
	}
	for _, d := range s.delegations(root) {
		if d.State == "" || d.Session != 1 {
			t.Errorf("%s: state %q, session %d", d.ID, d.State, d.Session)
		}
	}
}
