package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestDeafChild: a sub-agent that hangs and ignores the interrupt is killed some time after its
// deadline, and at once by a second signal to the root. Its caller is told, and goes on or ends.
func TestDeafChild(t *testing.T) {
	for _, tt := range []struct {
		name    string
		signals int
		exit    int
		child   string
	}{
		{"deadline", 0, 0, "timeout"},
		{"two signals", 2, 130, "cancelled"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newSite(t, map[string]string{
				".jp/config.toml": "[assistant]\nmodel = \"script/m.toml\"\n[conversation.tools.jp_query]\nsource = \"delegation\"\nrun = \"unattended\"\n" +
					"[delegation]\nprofiles = [\"agent/child\"]\ntimeout = \"1s\"\n",
				".jp/config/agent/child.toml": "[loader]\nreset = \"none\"\n[assistant]\nmodel = \"script/m.toml\"\n",
				"m.toml": "[captures]\nstatus = 'conversation_id=\"jp-c[0-9]+\" status=\"([a-z]+)\"'\n[[rule]]\nround = 1\n" +
					"tool_calls = [{ name = \"jp_query\", arguments = { config = \"agent/child\", query = \"hang\" } }]\n[[rule]]\ntext = \"told: {{status}}\"\n",
			})
			if err := os.WriteFile(filepath.Join(s.home, "deaf"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			cmd, out := s.start(nil, "jp", "query", "--new", "ask")
			s.eventually("the sub-agent", func() bool { return len(s.running("--root-id=")) == 1 })
			for range tt.signals {
				s.signal(syscall.SIGINT, cmd.Process.Pid)
			}
			_ = cmd.Wait()
			if got := cmd.ProcessState.ExitCode(); got != tt.exit {
				t.Errorf("exit = %d, want %d\n%s", got, tt.exit, out)
			}
			if p := s.processes(); len(p) != 0 {
				t.Errorf("left when jp had ended: %v", p)
			}
			if tt.exit == 0 && !strings.HasSuffix(out.String(), "told: "+tt.child+"\n") {
				t.Errorf("the caller went on with:\n%s", out)
			}
			ds := s.delegations(s.all()["ask"].ID)
			for _, d := range ds {
				if string(d.State) != tt.child {
					t.Errorf("record = %s, want %s", dump(d), tt.child)
				}
			}
			if len(ds) != 1 {
				t.Errorf("%d delegations, want 1", len(ds))
			}
		})
	}
}
