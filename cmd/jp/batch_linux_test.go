package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"jp/cmd/jp/internal/term"
	"jp/convstore"
)

// row is one line of the output of jp batch.
type row struct {
	ID     *string `json:"conversation_id"`
	Status string  `json:"status"`
	Reason string  `json:"reason"`
	Text   string  `json:"text"`

	Calls, Attempts int
}

// rows reads the lines of JSON in an output.
func rows(t *testing.T, out string) (list []row) {
	t.Helper()
	for line := range strings.Lines(out) {
		if !strings.HasPrefix(line, "{") {
			continue
		}
		var r row
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		list = append(list, r)
	}
	return list
}

func TestBatchStopped(t *testing.T) {
	s := killSite(t)
	s.stdin = "\"quick one\"\n\"escape\"\n\"quick two\"\n\"quick three\"\n"
	cmd, out := s.start(nil, "jp", "batch", "-q", "-c", "agent/child", "--parallel", "1")
	s.loose()
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != 130 {
		t.Errorf("exit = %d, want 130\n%s", got, out)
	}
	if p := s.processes(); len(p) != 0 {
		t.Errorf("left when jp had ended: %v", p)
	}
	list := rows(t, out.String())
	var got []string
	for _, r := range list {
		got = append(got, fmt.Sprintf("%s %t %s", r.Status, r.ID != nil, r.Text))
	}
	if len(got) != 4 || got[0] != "ok true quick answer" || !strings.HasPrefix(got[1], "cancelled true") || got[2] != "cancelled false " || got[3] != got[2] {
		t.Errorf("rows = %q", got)
	}
	c := s.all()
	if len(c) != 3 || c["batch of 4 queries"].Status != "cancelled" || c["escape"].Status != "cancelled" || c["quick one"].Status != "ok" {
		t.Errorf("conversations = %+v", c)
	}
}

// TestBatchOfAPipeStopped: a batch whose stdin stays open ends at once, and has the rows of the
// lines that came.
func TestBatchOfAPipeStopped(t *testing.T) {
	s := killSite(t)
	in, feed, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer feed.Close()
	cmd := &exec.Cmd{Path: "/proc/self/exe", Args: []string{"jp", "batch", "-q", "-c", "agent/child"}, Dir: s.dir, Env: s.environ(), Stdin: in}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	in.Close()
	fmt.Fprintln(feed, `"quick one"`)
	rows := bufio.NewReader(out)
	if line, err := rows.ReadString('\n'); err != nil || !strings.Contains(line, `"text":"quick answer"`) {
		t.Fatalf("row = %q, %v", line, err)
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	rest, _ := io.ReadAll(rows)
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 130 || len(rest) != 0 {
		t.Errorf("exit = %d, rows %q, want 130 and no more rows", code, rest)
	}
}

// TestBatchStoppedSaysHowToContinue: the command line that a stopped batch names continues it, with
// all its flags.
func TestBatchStoppedSaysHowToContinue(t *testing.T) {
	s := killSite(t)
	s.stdin = "\"quick one\"\n\"escape\"\n\"quick two\"\n"
	cmd, out := s.start(nil, "jp", "batch", "-q", "-c", "agent/child", "--parallel=1", "--title", "it's \"mine\"", "--max-cost", "5")
	s.loose()
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	const hint = "hint: to continue, give the same queries to: "
	_, line, _ := strings.Cut(out.String(), hint)
	line, _, _ = strings.Cut(line, "\n")
	if want := `jp batch -q -c agent/child --parallel=1 --title 'it'\''s "mine"' --max-cost 5 --resume ` + s.all()[`it's "mine"`].ID.String(); line != want {
		t.Fatalf("hint = %s, want %s\n%s", line, want, out)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "escape.sh"), []byte("exit 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	text, code := s.jp("batch", "-c", "agent/child", "--parallel=1", "--max-cost", "5", "--resume", s.all()[`it's "mine"`].ID.String())
	var got []string
	for _, r := range rows(t, text) {
		got = append(got, r.Status+" "+r.Text)
	}
	if want := []string{"ok quick answer", "ok back again", "ok quick answer"}; code != 0 || !slices.Equal(got, want) || len(s.subAgents()) != 3 {
		t.Errorf("continued: %d %q, %d sub-agents, want 0, %q and 3\n%s", code, got, len(s.subAgents()), want, text)
	}
}

// TestBatchGoesOn: what a killed sub-agent held is free for the next.
func TestBatchGoesOn(t *testing.T) {
	s := killSite(t)
	s.stdin = "\"escape\"\n\"quick one\"\n\"quick two\"\n"
	cmd, out := s.start(nil, "jp", "batch", "-q", "-c", "agent/child", "--parallel", "1")
	s.loose()
	for _, pid := range s.running("--root-id=") {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	_ = cmd.Wait()
	var got []string
	for _, r := range rows(t, out.String()) {
		got = append(got, r.Status)
	}
	if want := []string{"killed", "ok", "ok"}; !slices.Equal(got, want) || cmd.ProcessState.ExitCode() != 1 {
		t.Errorf("rows = %v, exit %d, want %v and 1\n%s", got, cmd.ProcessState.ExitCode(), want, out)
	}
}

// TestBatchRetried: a line whose sub-agent was killed is tried again, and its row counts both.
func TestBatchRetried(t *testing.T) {
	s := killSite(t)
	s.stdin = "\"escape\"\n"
	cmd, out := s.start(nil, "jp", "batch", "-q", "-c", "agent/child", "--retry", "2")
	s.loose()
	if err := os.WriteFile(filepath.Join(s.dir, "escape.sh"), []byte("exit 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, pid := range s.running("--root-id=") {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	_ = cmd.Wait()
	list := rows(t, out.String())
	if len(list) != 1 || list[0].Status != "ok" || list[0].Text != "back again" || list[0].Attempts != 2 || list[0].Calls != 3 {
		t.Errorf("rows = %+v, want one that is ok after 2 attempts and 3 calls\n%s", list, out)
	}
}

// TestBatchResumedAfterKill: what was answered and stored behind a slow query, and is in no row
// since the batch was killed, is not asked again. The killed run is settled, and a batch that still
// runs is not gone on with.
func TestBatchResumedAfterKill(t *testing.T) {
	s := killSite(t)
	s.stdin = "\"escape\"\n\"quick one\"\n\"quick two\"\n\"quick one\"\n"
	for _, name := range []string{"none.jsonl"} {
		if err := os.WriteFile(filepath.Join(s.dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	answered := func() (ok, lost int) {
		list, err := s.store.List(t.Context(), convstore.Filter{Hidden: true})
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range list {
			switch {
			case c.Link != convstore.DelegationLink:
			case c.Status == convstore.Status(convstore.StateOK):
				ok++
			case c.Status != convstore.StatusRunning && c.Status != convstore.StatusQueued:
				lost++
			}
		}
		return ok, lost
	}
	cmd, out := s.start(nil, "jp", "batch", "-q", "-c", "agent/child", "--parallel", "4")
	s.loose()
	s.eventually("three answers", func() bool { ok, _ := answered(); return ok == 3 })
	if out, code := s.jp("batch", "-c", "agent/child", "--resume", "none.jsonl"); code != 5 {
		t.Errorf("resumed while it runs: %d %s, want 5", code, out)
	}
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	s.gone()
	if list := rows(t, out.String()); len(list) != 0 {
		t.Fatalf("rows of the killed batch: %v", list)
	}
	if err := os.WriteFile(filepath.Join(s.dir, "escape.sh"), []byte("exit 0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second finds all of it
		text, code := s.jp("batch", "-c", "agent/child", "--resume", "none.jsonl")
		var got []string
		for _, r := range rows(t, text) {
			got = append(got, r.Status+" "+r.Text)
		}
		if want := []string{"ok back again", "ok quick answer", "ok quick answer", "ok quick answer"}; code != 0 || !slices.Equal(got, want) {
			t.Errorf("resumed: %d %q, want 0 and %q\n%s", code, got, want, text)
		}
		if ok, lost := answered(); ok != 4 || lost != 0 { // the one that was cut off has gone on
			t.Errorf("%d sub-agents have answered and %d were lost, want 4 and 0", ok, lost)
		}
	}
}

// TestBatchKilledIsCounted: the calls that a batch was making when all of it was killed count, with
// the most that they may have used, whether anybody goes on with it or not; the next batch settles
// them.
func TestBatchKilledIsCounted(t *testing.T) {
	s := newSite(t, map[string]string{
		".jp/config.toml": treeConfig, ".jp/config/agent/child.toml": childProfile,
		"main.toml": "[[rule]]\ntext = \"x\"\n", "child.toml": "[[rule]]\nquery = \"hang\"\nhang = true\n[[rule]]\ntext = \"fine\"\n",
	})
	s.stdin = "\"hang\"\n"
	cmd, _ := s.start(nil, "jp", "batch", "-q", "-c", "agent/child")
	var call convstore.Spend
	s.eventually("the call of the model", func() bool {
		for _, c := range s.conversations() {
			if a, err := s.store.Account(t.Context(), c.ID); err == nil && c.Depth > 0 {
				call = a.Call
			}
		}
		return call.Tokens() > 0
	})
	_ = cmd.Process.Signal(syscall.SIGSTOP) // the child shall not be judged
	for _, pid := range s.running("--root-id=") {
		_ = syscall.Kill(pid, syscall.SIGKILL)
	}
	_ = cmd.Process.Signal(syscall.SIGKILL)
	_ = cmd.Wait()
	s.gone()
	root := s.all()["batch of 1 query"].ID
	counted := func(when string) {
		t.Helper()
		for _, argv := range [][]string{{"usage", root.String(), "--check", "-F", "json"}, {"usage", "--all", "-F", "json"}} {
			out, code := s.jp(argv...)
			if want := `"model_calls":1,`; code != 0 || !strings.Contains(out, want) || !strings.Contains(out, `"lost_calls":1`) ||
				!strings.Contains(out, fmt.Sprintf(`"tokens":%d,`, call.Tokens())) {
				t.Errorf("%s: %v = %d %s, want a lost call of %d tokens", when, argv, code, out, call.Tokens())
			}
		}
		out, _ := s.jp("trace", root.String(), "--output", "json")
		if !strings.Contains(out, fmt.Sprintf(`"model_calls":1,"tool_calls":0,"tokens":%d,`, call.Tokens())) {
			t.Errorf("%s: trace = %s, want a lost call of %d tokens", when, out, call.Tokens())
		}
		for _, c := range s.conversations() {
			if c.Depth > 0 && c.Usage.Tokens() != call.Tokens() {
				t.Errorf("%s: the conversation has %d tokens, want those of the lost call, %d", when, c.Usage.Tokens(), call.Tokens())
			}
		}
	}
	counted("at once")
	child := s.conversations()[0]
	for _, c := range s.conversations() {
		if c.Depth > 0 {
			child = c
		}
	}
	if out, _ := s.jp("conversation", "show", child.ID.String()); !strings.Contains(out, fmt.Sprintf("\ncall       begun and not ended: at most %s tokens, $", term.Count(call.Tokens()))) {
		t.Errorf("show lacks the call that was begun, of %d tokens:\n%s", call.Tokens(), out)
	}
	if out, _ := s.jp("conversation", "show", child.ID.String(), "-F", "json"); !strings.Contains(out, fmt.Sprintf(`"call":%d,`, call.Tokens())) {
		t.Errorf("show lacks the call that was begun, of %d tokens:\n%s", call.Tokens(), out)
	}
	if out, _ := s.jp("conversation", "show", root.String()); !strings.Contains(out, "\ndelegated  1 run, 1 open") {
		t.Errorf("show lacks the delegation that nobody settled:\n%s", out)
	}
	if ds, err := s.store.Delegations(t.Context(), root); err != nil || ds[0].State != convstore.StateLost || ds[0].Total.Tokens() != 0 {
		t.Errorf("delegations = %s, %v, want one that nobody settled", dump(ds), err)
	}
	s.stdin = "not JSON"
	if out, code := s.jp("batch", "-c", "agent/child"); code != 2 {
		t.Fatalf("batch = %d %s", code, out)
	}
	if ds, err := s.store.Delegations(t.Context(), root); err != nil || ds[0].Total.Tokens() != 0 {
		t.Errorf("delegations = %s, %v: a mistake settles nothing", dump(ds), err)
	}
	s.stdin = "\"fine\"\n"
	if out, code := s.jp("batch", "-c", "agent/child"); code != 0 {
		t.Fatalf("batch = %d %s", code, out)
	}
	if ds, err := s.store.Delegations(t.Context(), root); err != nil || ds[0].Total.Tokens() != call.Tokens() {
		t.Errorf("delegations = %s, %v, want %d tokens charged", dump(ds), err, call.Tokens())
	}
	if out, code := s.jp("usage", root.String(), "--check"); code != 0 {
		t.Errorf("usage --check = %d %s", code, out)
	}
}

// TestBatchToolAfterCrash: a batch that is repeated answers from the runs that exist, and runs what
// had not begun.
func TestBatchToolAfterCrash(t *testing.T) {
	s := killSite(t)
	cmd, _ := s.start(nil, "jp", "query", "--new", "batch")
	s.loose()
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	s.gone()
	root := s.all()["batch"].ID
	if out, code := s.jp("query", "--id", root.String()); code != 0 || !strings.Contains(out, "after all") {
		t.Fatalf("resume = %d %s", code, out)
	}
	var result *convstore.ToolResult
	for ev, err := range s.store.Events(t.Context(), root, convstore.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		if r, ok := ev.Body.(convstore.ToolResult); ok {
			result = &r
		}
	}
	if result == nil {
		t.Fatal("the batch has no result")
	}
	var list []row
	if err := json.Unmarshal([]byte(result.Text), &list); err != nil {
		t.Fatalf("%v: %s", err, result.Text)
	}
	if len(list) != 3 || list[0].Status != "ok" || list[0].Text != "quick answer" ||
		!slices.Contains([]string{"cancelled", "lost"}, list[1].Status) || list[2].Status != "ok" {
		t.Errorf("rows = %+v", list)
	}
	if c := s.all(); len(c) != 4 {
		t.Errorf("%d conversations, want the root and one for each item: %+v", len(c), c)
	}
}
