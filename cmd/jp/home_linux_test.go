package main

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/test/wire"
	"jp/convstore"
)

// TestModelsAreAskedAtHome: no sub-agent has a key. When it, the jp that asks for it, or nobody
// dies in the middle of a reply, the request ends, and what it used is in the ledger: what the
// reply said as far as somebody could count it, else the bound.
func TestModelsAreAskedAtHome(t *testing.T) {
	const key = "sk-the-key-of-this-test"
	for _, tt := range []struct {
		how    string
		signal func(root int, children []int) error
		state  convstore.State
		lost   bool // whether nobody could count
	}{
		{"the sub-agent is killed", func(_ int, children []int) error { return syscall.Kill(children[0], syscall.SIGKILL) }, convstore.StateKilled, false},
		{"the root is killed", func(root int, _ []int) error { return syscall.Kill(root, syscall.SIGKILL) }, convstore.StateLost, true},
		{"the root is stopped", func(root int, _ []int) error { return syscall.Kill(root, syscall.SIGINT) }, convstore.StateCancelled, false},
	} {
		t.Run(tt.how, func(t *testing.T) {
			t.Parallel()
			said, ended := make(chan struct{}, 1), make(chan struct{}, 1)
			server, err := wire.Start(func(ctx context.Context, r model.Request) iter.Seq2[model.Part, error] {
				return func(yield func(model.Part, error) bool) {
					switch last := r.Messages[len(r.Messages)-1].Content[0]; {
					case last.Text == "part":
						yield(model.Part{Text: strings.Repeat("word ", 100)}, nil)
						said <- struct{}{}
						<-ctx.Done()
						ended <- struct{}{}
					case last.Result != nil:
						_ = yield(model.Part{Text: "all of it"}, nil) && yield(model.Part{Stop: model.StopEnd}, nil)
					default:
						_ = yield(model.Part{Call: &model.Call{ID: "toolu_1", Name: "jp_query", Arguments: []byte(`{"config":"agent/r","query":"part"}`)}}, nil) &&
							yield(model.Part{Stop: model.StopToolUse}, nil)
					}
				}
			}, wire.Options{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = server.Close() })
			s := newSite(t, map[string]string{
				".jp/config.toml":         "[assistant]\nmodel = \"anthropic/m\"\n[conversation.tools.jp_query]\nsource = \"delegation\"\nrun = \"unattended\"\n[delegation]\nprofiles = [\"agent/r\"]\n",
				".jp/config/agent/r.toml": "[loader]\nreset = \"none\"\n[assistant]\nmodel = \"anthropic/m\"\n",
			})
			s.more = []string{"ANTHROPIC_BASE_URL=" + server.URL, "ANTHROPIC_API_KEY=" + key}
			cmd, out := s.start(nil, "jp", "query", "--new", "go")
			<-said
			for unread(t, server.URL) { // until the root has heard what was said
				time.Sleep(time.Millisecond)
			}
			children := s.running("--root-id=")
			if len(children) != 1 {
				t.Fatalf("%d sub-agents", len(children))
			}
			for what, has := range map[int]bool{cmd.Process.Pid: true, children[0]: false} {
				environ, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", what))
				if os.IsPermission(err) {
					t.Log("only root can read the environment of a jp")
				} else if err != nil || bytes.Contains(environ, []byte(key)) != has || !has && bytes.Contains(environ, []byte("ANTHROPIC")) {
					t.Errorf("environment of %d, root %v: %v\n%q", what, has, err, environ)
				}
			}
			if err := tt.signal(cmd.Process.Pid, children); err != nil {
				t.Fatal(err)
			}
			<-ended
			_ = cmd.Wait()
			s.gone()
			root := s.all()["go"].ID
			if tt.state == convstore.StateLost { // settled by the next one that writes
				if text, code := s.jp("query", "--id", root.String()); code != 0 {
					t.Fatalf("resume = %d %s", code, text)
				}
			}
			dels := s.delegations(root)
			for _, d := range dels {
				if d.State != tt.state {
					t.Errorf("state = %s, want %s\n%s", d.State, tt.state, out)
				}
				tokens := d.Total.Usage.Tokens()
				if counted := tokens < 2000; tokens < 100 || counted == tt.lost {
					t.Errorf("%d tokens are charged, by what was said: %v", tokens, !tt.lost)
				}
			}
			if len(dels) != 1 {
				t.Errorf("%d delegations", len(dels))
			}
		})
	}
}

// unread reports whether bytes that a server on the loopback interface has sent wait to be read.
// The columns are those of proc_net_tcp(5).
func unread(t *testing.T, url string) bool {
	t.Helper()
	_, port, _ := strings.Cut(strings.TrimPrefix(url, "http://"), ":")
	number, err := strconv.Atoi(strings.TrimSuffix(port, "/"))
	if err != nil {
		t.Fatal(err)
	}
	table, err := os.ReadFile("/proc/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(table)) {
		f := strings.Fields(line)
		if len(f) > 4 && strings.HasSuffix(f[2], fmt.Sprintf(":%04X", number)) && !strings.HasSuffix(f[4], ":00000000") {
			return true
		}
	}
	return false
}
