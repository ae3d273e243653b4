package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"jp/convstore"
)

// slowSite is a workspace whose sub-agents and main agent hang where their query says "slow", until quick.
func slowSite(t *testing.T) *site {
	const slow = "[[rule]]\nquery = \"slow\"\nhang = true\n[[rule]]\ntext = \"%\"\n"
	return newSite(t, map[string]string{
		".jp/config.toml":             treeConfig,
		".jp/config/agent/child.toml": "[loader]\nreset = \"none\"\n[assistant]\nmodel = \"script/child.toml\"\n",
		"main.toml":                   strings.ReplaceAll(slow, "%", "main says"),
		"child.toml":                  strings.ReplaceAll(slow, "%", "child says"),
	})
}

// quick lets sub-agents hang no longer.
func (s *site) quick() {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, "child.toml"), []byte("[[rule]]\ntext = \"child says\"\n"), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// killed starts jp, and kills it when the conversation with this title has asked its model.
func (s *site) killed(title string, argv ...string) {
	s.t.Helper()
	cmd, _ := s.start(nil, append([]string{"jp"}, argv...)...)
	s.asks(title)
	if err := cmd.Process.Kill(); err != nil {
		s.t.Fatal(err)
	}
	_ = cmd.Wait()
	s.eventually("the end of its sub-agents", func() bool { return s.all()[title].Status != convstore.StatusRunning })
}

// asks waits until the conversation with this title has asked its model.
func (s *site) asks(title string) {
	s.t.Helper()
	s.eventually("the call of "+title, func() bool {
		c, ok := s.all()[title]
		if !ok {
			return false
		}
		a, err := s.store.Account(s.t.Context(), c.ID)
		return err == nil && a.Call != convstore.Spend{}
	})
}

// TestKilledByHandWhileItsRootRuns: the grant of a person's run that was killed is free again while the run on
// whose behalf it was goes on.
func TestKilledByHandWhileItsRootRuns(t *testing.T) {
	s := slowSite(t)
	s.start(nil, "jp", "query", "--new", "--title", "root", "slow")
	s.asks("root")
	root := s.all()["root"].ID
	s.killed("slow child", "query", "--id", "new", "--root-id", root.String(), "--config", "agent/child", "slow child")
	if out, code := s.jp("query", "--new", "other"); code != 0 {
		t.Fatal(out)
	}
	a, err := s.store.Account(t.Context(), root)
	if err != nil {
		t.Fatal(err)
	}
	if left := *a.Open.CostNano; left != 0 {
		t.Errorf("%d nano-dollars are reserved, and nothing runs below %s", left, root)
	}
}
