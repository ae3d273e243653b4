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
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"jp/convstore"
)

// patience bounds every wait for something that must happen; nothing here asserts how fast it did.
const patience = 2 * time.Minute

// site is a workspace with a home of its own, whose path marks every process that belongs to it.
type site struct {
	t         *testing.T
	dir       string
	home      string
	store     *convstore.Store
	stdin     string   // of what is started
	piped     bool     // whether that is a pipe, of at most a page
	more      []string // of its environment
	untrusted bool     // JP_TRUST_WORKSPACE is not set
	asked     func()   // called at each question on its terminal, before the answer; nil = nothing is
	children  []*exec.Cmd
}

func newSite(t *testing.T, files map[string]string) *site {
	t.Helper()
	base := t.TempDir()
	s := &site{t: t, dir: filepath.Join(base, "work"), home: filepath.Join(base, "home")}
	for name, text := range files {
		path := filepath.Join(s.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(s.home, 0o700); err != nil {
		t.Fatal(err)
	}
	env := s.environ()
	dir, err := convstore.Locate(convstore.Env{Get: func(k string) string {
		for _, kv := range env {
			if v, ok := strings.CutPrefix(kv, k+"="); ok {
				return v
			}
		}
		return ""
	}}, s.dir)
	if err != nil {
		t.Fatal(err)
	}
	if s.store, err = convstore.Open(dir, convstore.Options{Workspace: s.dir}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.gone()
		if err := s.store.Check(context.Background()); err != nil {
			t.Errorf("store check: %v", err)
		}
	})
	return s
}

func (s *site) environ() []string {
	env := []string{
		"HOME=" + s.home, "XDG_STATE_HOME=" + filepath.Join(s.home, "state"), "XDG_CONFIG_HOME=" + filepath.Join(s.home, "config"),
		"PATH=" + os.Getenv("PATH"), "TMPDIR=" + s.home, "JP_SESSION=kill", "JP_NONINTERACTIVE=1",
	}
	if !s.untrusted {
		env = append(env, "JP_TRUST_WORKSPACE=1")
	}
	if dir := os.Getenv("GOCOVERDIR"); dir != "" {
		env = append(env, "GOCOVERDIR="+dir)
	}
	return append(env, s.more...)
}

// input returns a file or a pipe with the stdin of what is started.
func (s *site) input() *os.File {
	s.t.Helper()
	path := filepath.Join(s.t.TempDir(), "in")
	if err := os.WriteFile(path, []byte(s.stdin), 0o600); err != nil {
		s.t.Fatal(err)
	}
	file, err := os.Open(path)
	if s.piped && err == nil {
		var feed *os.File
		if file, feed, err = os.Pipe(); err == nil {
			_, err = feed.WriteString(s.stdin)
			_ = feed.Close()
		}
	}
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = file.Close() })
	return file
}

// start runs this test binary as the program named by argv[0].
func (s *site) start(env []string, argv ...string) (*exec.Cmd, *bytes.Buffer) {
	s.t.Helper()
	var out bytes.Buffer
	cmd := &exec.Cmd{Path: "/proc/self/exe", Args: argv, Dir: s.dir, Env: append(s.environ(), env...), Stdout: &out, Stderr: &out}
	if s.stdin != "" {
		cmd.Stdin = s.input()
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.children = append(s.children, cmd)
	s.t.Cleanup(func() {
		if cmd.ProcessState == nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	})
	return cmd, &out
}

// jp runs jp to its end.
func (s *site) jp(argv ...string) (string, int) {
	s.t.Helper()
	cmd, out := s.start(nil, append([]string{"jp"}, argv...)...)
	err := cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !asExit(err, &exit) {
		s.t.Fatal(err)
	}
	return out.String(), cmd.ProcessState.ExitCode()
}

func asExit(err error, to **exec.ExitError) bool {
	e, ok := err.(*exec.ExitError)
	*to = e
	return ok
}

// eventually waits until cond holds.
func (s *site) eventually(what string, cond func() bool) {
	s.t.Helper()
	for end := time.Now().Add(patience); !cond(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			s.t.Fatalf("waited %v for %s; processes: %v", patience, what, s.processes())
		}
	}
}

// processes lists what runs with this site's home in its environment, or with one below it as tools
// have, and what stands in its folder, as guards do; zombies left out.
func (s *site) processes() (list []string) {
	dirs, _ := filepath.Glob("/proc/[0-9]*")
	for _, dir := range dirs {
		env, err := os.ReadFile(filepath.Join(dir, "environ"))
		cwd, _ := os.Readlink(filepath.Join(dir, "cwd"))
		if err != nil || !bytes.Contains(env, []byte("HOME="+s.home)) && cwd != s.dir {
			continue
		}
		args, _ := os.ReadFile(filepath.Join(dir, "cmdline"))
		if len(args) > 0 {
			list = append(list, filepath.Base(dir)+" "+strings.TrimSpace(strings.ReplaceAll(string(args), "\x00", " ")))
		}
	}
	return list
}

// running counts the processes whose command line contains part.
func (s *site) running(part string) []int {
	var pids []int
	for _, p := range s.processes() {
		if pid, args, _ := strings.Cut(p, " "); strings.Contains(args, part) {
			n, _ := strconv.Atoi(pid)
			pids = append(pids, n)
		}
	}
	return pids
}

// gone waits until no process of the site is left, and nothing of one: what is ending has no
// command line any more, and its files, with the locks on them, for a moment longer.
func (s *site) gone() {
	s.t.Helper()
	s.eventually("every process to end", func() bool { return len(s.processes()) == 0 && !s.inhabited() })
}

// inhabited reports whether a thread stands in one of the site's folders, which it leaves after
// closing its files.
func (s *site) inhabited() bool {
	links, _ := filepath.Glob("/proc/[0-9]*/task/[0-9]*/cwd")
	return slices.ContainsFunc(links, func(link string) bool {
		cwd, _ := os.Readlink(link)
		return cwd != "" && (cwd == s.dir || cwd == s.home)
	})
}

// all lists every conversation by title.
func (s *site) all() map[string]convstore.Conversation {
	s.t.Helper()
	list, err := s.store.List(s.t.Context(), convstore.Filter{Hidden: true})
	if err != nil {
		s.t.Fatal(err)
	}
	m := map[string]convstore.Conversation{}
	for _, c := range list {
		m[c.Title] = c
	}
	return m
}

const treeConfig = `
[assistant]
model = "script/main.toml"
[conversation.tools.jp_query]
source = "delegation"
run = "unattended"
[conversation.tools.escape]
source = "local"
description = "Starts what outlives its starter."
command = { program = "bash", args = ["escape.sh"] }
run = "unattended"
timeout = "300s"
[conversation.tools.jp_batch_query]
source = "delegation"
run = "unattended"
[delegation]
profiles = ["agent/child"]
`

const childProfile = `
[loader]
reset = "none"
[assistant]
model = "script/child.toml"
[conversation.tools.escape]
source = "local"
description = "Starts what outlives its starter."
command = { program = "bash", args = ["escape.sh"] }
run = "unattended"
detached = "auto"
timeout = "300s"
`

// escape.sh leaves a process in its group, one in a session of its own, and a daemon that forked
// twice.
const escape = `
sleep 1000.1 &
setsid sleep 1000.2 &
( ( setsid sleep 1000.3 & ) & )
sleep 1000.4
`

func killSite(t *testing.T) *site {
	return newSite(t, map[string]string{
		".jp/config.toml": treeConfig, ".jp/config/agent/child.toml": childProfile, "escape.sh": escape,
		"main.toml": `
[[rule]]
query = "root"
round = 1
tool_calls = [{ name = "escape", arguments = {} }]
[[rule]]
query = "child"
round = 1
tool_calls = [{ name = "jp_query", arguments = { config = "agent/child", query = "escape" } }]
[[rule]]
query = "child"
contains = "status=\"killed\""
text = "the child was killed"
[[rule]]
query = "quick"
round = 1
tool_calls = [{ name = "jp_query", arguments = { config = "agent/child", query = "quick one" } }]
[[rule]]
query = "batch"
round = 1
tool_calls = [{ name = "jp_batch_query", arguments = { max_parallel = 1, queries = [
  { config = "agent/child", query = "quick one" }, { config = "agent/child", query = "escape" }, { config = "agent/child", query = "quick two" },
] } }]
[[rule]]
text = "after all"
`,
		"child.toml": `
[[rule]]
query = "escape"
round = 1
tool_calls = [{ name = "escape", arguments = {} }]
[[rule]]
query = "quick"
text = "quick answer"
[[rule]]
text = "back again"
`,
	})
}

// loose waits until the four sleeps of escape.sh run.
func (s *site) loose() {
	s.t.Helper()
	s.eventually("the tool's processes", func() bool { return len(s.running("sleep 1000.")) == 4 })
}

// tidied waits until later tools have removed what killed ones left in the folder for temporary files.
func (s *site) tidied() {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, "escape.sh"), nil, 0o600); err != nil {
		s.t.Fatal(err)
	}
	s.eventually("the end of temporary folders", func() bool {
		if out, code := s.jp("query", "--new", "root"); code != 0 {
			s.t.Fatalf("exit = %d: %s", code, out)
		}
		left, err := filepath.Glob(filepath.Join(s.home, "jp-tool-*"))
		return len(left) == 0 && err == nil
	})
}

func TestKillRootLeavesNothing(t *testing.T) {
	for _, where := range []string{"root", "child"} {
		t.Run(where, func(t *testing.T) {
			s := killSite(t)
			cmd, _ := s.start(nil, "jp", "query", "--new", where)
			s.loose()
			if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			s.gone()
			c := s.all()
			if got := c[where].Status; got != "interrupted" {
				t.Errorf("status of the root = %s, want interrupted", got)
			}
			if where == "child" && !slices.Contains([]convstore.Status{"cancelled", "lost"}, c["escape"].Status) {
				t.Errorf("status of the child = %s, want cancelled or lost", c["escape"].Status)
			}
			if out, code := s.jp("query", "--id", c[where].ID.String()); code != 0 || !strings.Contains(out, "after all") {
				t.Errorf("resume = %d %s", code, out)
			}
		})
	}
}

func TestKillChildIsTold(t *testing.T) {
	s := killSite(t)
	cmd, out := s.start(nil, "jp", "query", "--new", "child")
	s.loose()
	for _, pid := range s.running("--root-id=") {
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(out.String(), "the child was killed") {
		t.Errorf("output = %s", out)
	}
	if got := s.all()["escape"].Status; got != "killed" {
		t.Errorf("status of the child = %s, want killed", got)
	}
	s.tidied()
}

// TestKillLeavesNoValues: the long values of a tool travel in files. Of a jp that is killed while the
// tool runs, they are gone after the next such tool.
func TestKillLeavesNoValues(t *testing.T) {
	text := strings.Repeat("x", 200_000)
	s := newSite(t, map[string]string{
		".jp/config.toml": `
[assistant]
model = "script/main.toml"
[conversation.tools.long]
source = "local"
description = "Counts characters, later."
command = { script = "sleep {{tool.arguments.seconds}}; printf %s {{tool.arguments.text}} | wc -c" }
run = "unattended"
parameters.seconds = { type = "string", required = true }
parameters.text = { type = "string", required = true }
`,
		"main.toml": `
[[rule]]
query = "stay"
round = 1
tool_calls = [{ name = "long", arguments = { seconds = "1000.1", text = "` + text + `" } }]
[[rule]]
query = "go"
round = 1
tool_calls = [{ name = "long", arguments = { seconds = "0", text = "` + text + `" } }]
[[rule]]
contains = "200000"
text = "counted"
`,
	})
	cmd, _ := s.start(nil, "jp", "query", "--new", "stay")
	s.eventually("the tool's process", func() bool { return len(s.running("sleep 1000.1")) == 1 })
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	s.gone()
	s.eventually("the end of the values", func() bool {
		if out, code := s.jp("query", "--new", "go"); code != 0 || !strings.Contains(out, "counted") {
			t.Fatalf("exit = %d: %s", code, out)
		}
		left, err := filepath.Glob(filepath.Join(s.home, "jp-*"))
		return len(left) == 0 && err == nil
	})
}

func TestSignalsSettleTheTree(t *testing.T) {
	for sig, want := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143, syscall.SIGHUP: 129, syscall.SIGQUIT: 131} {
		t.Run(sig.String(), func(t *testing.T) {
			s := killSite(t)
			cmd, out := s.start(nil, "jp", "query", "--new", "child")
			s.loose()
			if err := cmd.Process.Signal(sig); err != nil {
				t.Fatal(err)
			}
			_ = cmd.Wait()
			if got := cmd.ProcessState.ExitCode(); got != want {
				t.Errorf("exit = %d, want %d\n%s", got, want, out)
			}
			if p := s.processes(); len(p) != 0 {
				t.Errorf("left when jp had ended: %v", p)
			}
			if strings.Contains(out.String(), "goroutine") {
				t.Errorf("stacks were printed: %s", out)
			}
			c := s.all()
			for _, title := range []string{"child", "escape"} {
				if c[title].Status != "cancelled" {
					t.Errorf("status of %q = %s, want cancelled", title, c[title].Status)
				}
			}
			if out, code := s.jp("query", "--id", c["escape"].ID.String(), "--no-activate"); code != 0 || !strings.Contains(out, "back again") {
				t.Errorf("resuming the child = %d %s", code, out)
			}
		})
	}
}

// TestDoubledSignal: a signal that comes twice at once, as from timeout(1), ends a run in order.
func TestDoubledSignal(t *testing.T) {
	s := killSite(t)
	cmd, out := s.start(nil, "jp", "query", "--new", "child")
	s.loose()
	for range 2 {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	_ = cmd.Wait()
	if got := cmd.ProcessState.ExitCode(); got != 143 || strings.Contains(out.String(), "by force") {
		t.Errorf("exit = %d, want 143\n%s", got, out)
	}
	for _, title := range []string{"child", "escape"} {
		if got := s.all()[title].Status; got != "cancelled" {
			t.Errorf("status of %q = %s, want cancelled", title, got)
		}
	}
	s.gone()
}

func TestSecondSignalKills(t *testing.T) {
	s := killSite(t)
	if err := os.WriteFile(filepath.Join(s.dir, "escape.sh"), []byte("echo x >$TMPDIR/file\ntrap '' INT TERM HUP\n"+escape+"\nwhile :; do sleep 1000.5; done"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd, out := s.start(nil, "jp", "query", "--new", "child")
	s.loose()
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		if err := cmd.Process.Signal(sig); err != nil {
			t.Fatal(err)
		}
	}
	_ = cmd.Wait()
	// Of two signals at once a process can take either first.
	first := map[int]string{130: "jp: ended by SIGINT", 143: "jp: ended by SIGTERM"}
	if got := cmd.ProcessState.ExitCode(); first[got] == "" || !strings.Contains(out.String(), first[got]) {
		t.Errorf("exit = %d, want that of the first signal\n%s", got, out)
	}
	s.gone()
	s.tidied()
}

// TestBusyChild asks a child that runs: nobody else may.
func TestBusyChild(t *testing.T) {
	s := killSite(t)
	cmd, _ := s.start(nil, "jp", "query", "--new", "child")
	s.loose()
	c := s.all()["escape"]
	if c.Status != "running" {
		t.Errorf("status = %s, want running", c.Status)
	}
	out, code := s.jp("query", "--id", c.ID.String(), "--no-activate", "and you?")
	if code != 5 || !strings.Contains(out, "running") {
		t.Errorf("second query = %d %s, want 5", code, out)
	}
	if out, code := s.jp("conversation", "rm", c.ID.String(), "--yes"); code != 5 {
		t.Errorf("rm of a running conversation = %d %s, want 5", code, out)
	}
	_ = cmd.Process.Signal(syscall.SIGINT)
	_ = cmd.Wait()
}

// TestCrashOfTheCaller kills the caller at each point of a delegation's way. Nothing is left
// running, no delegation stays open for good, nothing that was acknowledged is lost, and the caller
// goes on: the call is answered from the run that exists, or made again where that had not begun.
func TestCrashOfTheCaller(t *testing.T) {
	for _, point := range []string{"reserved", "running", "ended", "settled"} {
		t.Run(point, func(t *testing.T) {
			s := killSite(t)
			cmd, out := s.start([]string{"JP_CRASH_AT=" + point}, "jp-crash", "query", "--new", "quick")
			_ = cmd.Wait()
			if st := cmd.ProcessState.Sys().(syscall.WaitStatus); !st.Signaled() || st.Signal() != syscall.SIGKILL {
				t.Fatalf("the caller ended by itself: %v\n%s", cmd.ProcessState, out)
			}
			s.gone()
			c := s.all()
			root, child := c["quick"], c["quick one"]
			if child.ID == 0 {
				t.Fatalf("the child was not kept: %v", c)
			}
			if root.Status != "interrupted" {
				t.Errorf("status of the root = %s, want interrupted", root.Status)
			}
			if slices.Contains([]convstore.Status{"running", "queued", "new"}, child.Status) {
				t.Errorf("status of the child = %s, though nothing runs", child.Status)
			}
			if text, code := s.jp("query", "--id", root.ID.String()); code != 0 || !strings.Contains(text, "after all") {
				t.Errorf("resume = %d %s", code, text)
			}
			ds, err := s.store.Delegations(t.Context(), root.ID)
			if err != nil {
				t.Fatal(err)
			}
			if len(ds) != 1 || ds[0].State == "" {
				t.Errorf("delegations = %s, want one that has ended", dump(ds))
			}
			if point == "settled" && ds[0].State != convstore.StateOK {
				t.Errorf("settled delegation = %s", dump(ds))
			}
			if got := s.all()["quick one"]; got.Turns != max(child.Turns, 1) {
				t.Errorf("the resumed call came to %d turns of the child, which had %d: one that has begun is not run again", got.Turns, child.Turns)
			}
			if child.Turns == 0 && ds[0].State != convstore.StateOK {
				t.Errorf("a child that had not begun: %s", dump(ds))
			}
		})
	}
}

func dump(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}
