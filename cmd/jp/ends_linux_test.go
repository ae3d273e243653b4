package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"jp/convstore"
)

// endsSite has a caller that asks one sub-agent with the given arguments, for at most timeout, and then
// says what it was told of its end.
func endsSite(t *testing.T, timeout, arguments string) *site {
	return newSite(t, map[string]string{
		".jp/config.toml": `
[assistant]
model = "script/main.toml"
[conversation.tools.jp_query]
source = "delegation"
run = "unattended"
[delegation]
profiles = ["agent/child"]
timeout = "` + timeout + `"
`,
		".jp/config/agent/child.toml": `
[loader]
reset = "none"
[assistant]
model = "script/child.toml"
[assistant.request]
max_retries = 0
[conversation]
max_turns = 1
[conversation.tools.fs_list_files]
source = "builtin"
run = "unattended"
`,
		"main.toml": `
[captures]
status = 'conversation_id="jp-c[0-9]+" status="([a-z]+)"'
[[rule]]
round = 1
tool_calls = [{ name = "jp_query", arguments = { config = "agent/child", ` + arguments + ` } }]
[[rule]]
text = "told: {{status}}"
`,
		"child.toml": `
[[rule]]
query = "answer"
text = "an answer"
[[rule]]
query = "nothing"
text = ""
[[rule]]
query = "refuse"
text = "I would rather not"
stop = "refusal"
[[rule]]
query = "rounds"
no_calls = true
text = "what I have"
[[rule]]
query = "rounds"
tool_calls = [{ name = "fs_list_files", arguments = { path = "." } }]
[[rule]]
query = "cut"
text = ""
stop = "max_tokens"
[[rule]]
query = "overload"
error = { kind = "overloaded", status = 529, message = "on fire" }
[[rule]]
query = "schema"
text = "no JSON at all"
[[rule]]
hang = true
`,
	})
}

// TestEndsAgree: each way a sub-agent can end, from a real cause. Its exit, what its caller is
// told, its own status in a listing and the record of the delegation say the same.
func TestEndsAgree(t *testing.T) {
	child := func(sig syscall.Signal) func(s *site, root int) {
		return func(s *site, _ int) { s.signal(sig, s.running("--root-id=")...) }
	}
	const unknown = 999 // nobody was there to be told
	ends := []struct {
		cause string
		do    func(s *site, root int) // once the sub-agent runs; nil = it ends by itself
		state convstore.State
		exit  int // of the sub-agent; -1 = a signal
	}{
		{"answer", nil, "ok", 0},
		{"rounds", nil, "partial", 7},
		{"nothing", nil, "empty", 1},
		{"refuse", nil, "refused", 6},
		{"cut", nil, "budget", 7},
		{"hang until the deadline", nil, "timeout", 124},
		{"hang until SIGINT", child(syscall.SIGINT), "cancelled", 130},
		{"hang until SIGTERM", child(syscall.SIGTERM), "cancelled", 143},
		{"hang until SIGHUP", child(syscall.SIGHUP), "cancelled", 129},
		{"hang until SIGQUIT", child(syscall.SIGQUIT), "cancelled", 131},
		{"overload", nil, "error", 8},
		{"schema", nil, "error", 1},
		{"hang until SIGKILL", child(syscall.SIGKILL), "killed", -1},
		{"hang until SIGSEGV", child(syscall.SIGSEGV), "lost", 2}, // the Go runtime's own end, without a word
		{"hang until both are killed", func(s *site, root int) {
			s.signal(syscall.SIGSTOP, root) // or it would still tell of its sub-agent's end
			s.signal(syscall.SIGKILL, s.running("--root-id=")...)
			s.signal(syscall.SIGKILL, root)
		}, "lost", unknown},
	}
	reached := map[convstore.State]bool{}
	for _, tt := range ends {
		reached[tt.state] = true
	}
	for _, state := range convstore.States() {
		if !reached[state] {
			t.Errorf("nothing ends in %s", state)
		}
	}
	for _, tt := range ends {
		t.Run(tt.cause, func(t *testing.T) {
			t.Parallel()
			arguments := fmt.Sprintf("query = %q", tt.cause)
			if tt.cause == "schema" {
				arguments += ", schema = { type = \"array\" }"
			}
			timeout := "2m" // more than a busy machine needs
			if tt.state == convstore.StateTimeout {
				timeout = "5s"
			}
			s := endsSite(t, timeout, arguments)
			cmd, out := s.start([]string{"GOTRACEBACK=single"}, "jp", "query", "-v", "--new", "--title", "caller", tt.cause)
			if tt.do != nil {
				s.eventually("the sub-agent's turn", func() bool {
					id := s.all()[tt.cause].ID
					return id != 0 && len(s.events(id)) > 0
				})
				tt.do(s, cmd.Process.Pid)
			}
			_ = cmd.Wait()
			s.gone()
			caller := s.all()["caller"]
			text := out.String()
			if tt.exit == unknown {
				text, _ = s.jp("query", "--id", caller.ID.String())
			}
			if want := fmt.Sprintf("told: %s\n", tt.state); !strings.HasSuffix(text, want) {
				t.Errorf("the caller was told:\n%swant %q", text, want)
			}
			d, ok := s.delegations(caller.ID)[s.all()[tt.cause].ID.String()]
			if !ok || d.State != tt.state {
				t.Errorf("record = %s, want %s", dump(d), tt.state)
			}
			if got := s.exitOf(d.Child); got != tt.exit {
				t.Errorf("exit = %d, want %d", got, tt.exit)
			}
			list, _ := s.jp("conversation", "ls", "--hidden", "--root="+caller.ID.String())
			if got := regexp.MustCompile(`\t`+string(tt.state)+`\t`).FindAllString(list, -1); len(got) != 1 {
				t.Errorf("listing:\n%swant one line with %s", list, tt.state)
			}
		})
	}
}

// TestFallen: the status of such an end does not say that nothing was done, unless a person asks for
// another end. It leaves no core file, which could hold keys.
func TestFallen(t *testing.T) {
	s := endsSite(t, "2m", "")
	var most unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_CORE, &most); err != nil {
		t.Fatal(err)
	}
	now := most
	t.Cleanup(func() { _ = unix.Setrlimit(unix.RLIMIT_CORE, &now) })
	most.Cur = most.Max
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &most); err != nil {
		t.Fatal(err)
	}
	for set, want := range map[string]string{"": "signal: aborted", "single": "exit status 2"} {
		cmd, out := s.start([]string{"GOTRACEBACK=" + set}, "jp-fallen", "version")
		_ = cmd.Wait()
		if got := cmd.ProcessState.String(); got != want || !strings.Contains(out.String(), "panic: after version") {
			t.Errorf("GOTRACEBACK=%s: it ended with %q, want %q\n%s", set, got, want, out)
		}
	}
}

// signal sends sig to processes of the site.
func (s *site) signal(sig syscall.Signal, pids ...int) {
	s.t.Helper()
	for _, pid := range pids {
		if err := syscall.Kill(pid, sig); err != nil {
			s.t.Fatal(err)
		}
	}
}

// exitOf is the exit status of a sub-agent as its caller logs it with -v, 999 when it did not.
func (s *site) exitOf(child convstore.ID) int {
	s.t.Helper()
	log, err := os.ReadFile(filepath.Join(s.home, "state", "jp", "jp.log"))
	if err != nil {
		s.t.Fatal(err)
	}
	exit := 999
	for line := range strings.Lines(string(log)) {
		var entry struct {
			Msg, Child string
			Exit       int
		}
		if json.Unmarshal([]byte(line), &entry) == nil && entry.Msg == "process of a sub-agent ended" && entry.Child == child.String() {
			exit = entry.Exit
		}
	}
	return exit
}
