package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"jp/tools/brief"
	"jp/tools/proc"
)

// commandTest runs local tools as real processes in a workspace.
type commandTest struct {
	*fsTest
	host   *proc.Host
	env    []string
	notes  []string
	runner Runner // instead of host
}

func newCommands(t testing.TB, files map[string]string) *commandTest {
	t.Helper()
	c := &commandTest{fsTest: newFS(t, files), host: proc.NewHost(proc.Options{}), env: []string{"PATH=" + os.Getenv("PATH")}}
	t.Cleanup(func() {
		if err := c.host.Close(); err != nil {
			t.Errorf("something is left: %v", err)
		}
	})
	return c
}

// tool makes a tool of a definition in TOML, without name and source.
func (c *commandTest) tool(src string) Tool {
	c.t.Helper()
	def, err := Decode("t", table(c.t, "source = \"local\"\nrun = \"unattended\"\n"+src), nil)
	if err != nil {
		c.t.Fatal(err)
	}
	var host Runner = c.host
	if c.runner != nil {
		host = c.runner
	}
	tool, err := Command(def, CommandEnv{
		Host: host, Dir: c.dir, Environ: c.env, Notice: func(s string) { c.notes = append(c.notes, s) },
		Context: map[string]any{"conversation_id": "jp-c7"}, Main: true,
	})
	if err != nil {
		c.t.Fatal(err)
	}
	return tool
}

// run runs a tool once.
func (c *commandTest) run(ctx context.Context, src, args string) Result {
	c.t.Helper()
	return runAll(c.t, Executor{Set: setOf(c.t, c.tool(src))}, ctx, Call{ID: "1", Name: "t", Arguments: json.RawMessage(args)})["1"]
}

// sh is a definition that runs this script file with the argument x.
func sh(more string) string {
	return "command = { program = \"sh\", args = [\"run.sh\", \"{{#if tool.arguments.x}}{{tool.arguments.x}}{{/if}}\"] }\n" + more + "\n[parameters.x]\ntype = \"string\"\n"
}

func TestCommandResults(t *testing.T) {
	const note = "\n[truncated: 48.8 KB -> 1.9 KB, full output: not kept; ask for less, or raise size_threshold of t]"
	for _, tt := range []struct {
		name, script, more, args string
		want                     Result
	}{
		{"stdout", `echo out; echo err >&2`, ``, ``, text("out\n")},
		{"nothing", `true`, ``, ``, text("")},
		{"folder", `cat here`, ``, ``, text("the workspace\n")},
		{"argument", `printf '<%s>' "$@"`, ``, `{"x":"a b; $(id) 'q' \"d\" \n*"}`, text("<a b; $(id) 'q' \"d\" \n*>")},
		{"no argument", `echo $#`, ``, ``, text("0\n")},
		{"dash", `echo ran`, ``, `{"x":"-e"}`, refusal(`argument "x" must not start with '-': "-e" would be an option, not a value`)},
		{"NUL", `echo ran`, ``, `{"x":"a\u0000b"}`, refusal(`argument "x" holds a NUL byte`)},
		{"too long", `echo ran`, ``, `{"x":"` + strings.Repeat("a", 1<<17) + `"}`, refusal(`argument "x" is too long: an argument of a program is at most 131 KB`)},
		{"bytes", `printf 'a\377b'`, ``, ``, text("a\uFFFDb")},
		{"status", `echo out; echo err >&2; exit 3`, ``, ``, failed("exit status 3\nstderr:\nerr\nstdout:\nout\n")},
		{"status alone", `exit 3`, ``, ``, failed("exit status 3")},
		{"signal", `echo out; kill -KILL $$`, ``, ``, failed("killed by signal: killed\nstdout:\nout\n")},
		{"stdin", `cat; echo read`, ``, ``, text("read\n")},
		{"many lines", `seq 100 >&2; exit 1`, ``, ``, failed("exit status 1\nstderr, last lines:\n" + numbers(81, 100))},
		{"long lines", `head -c 200000 /dev/zero | tr '\0' x >&2; exit 1`, ``, ``, failed("exit status 1\nstderr, last lines:\n" + strings.Repeat("x", 4096))},
		{"threshold", `seq 1 9999`, `size_threshold = 2000`, ``, text(numbers(1, 9999)[:2000-len(note)] + note)},
		{"just fits", `head -c 2000 /dev/zero | tr '\0' x`, `size_threshold = 2000`, ``, text(strings.Repeat("x", 2000))},
	} {
		c := newCommands(t, map[string]string{"run.sh": tt.script, "here": "the workspace\n"})
		if got := c.run(t.Context(), sh(tt.more), tt.args); got != tt.want {
			t.Errorf("%s = %.3000q, %v, %v\nwant %.3000q", tt.name, got.Text, got.IsError, got.Refused, tt.want.Text)
		}
	}
}

// numbers is what seq prints.
func numbers(from, to int) string {
	var b strings.Builder
	for i := from; i <= to; i++ {
		b.WriteString(strconv.Itoa(i) + "\n")
	}
	if to == 100 {
		return strings.TrimSuffix(b.String(), "\n")
	}
	return b.String()
}

func TestCommandNotStarted(t *testing.T) {
	c := newCommands(t, map[string]string{"plain": "x", "dir/": ""})
	for program, want := range map[string]string{
		"no-such-program": `program "no-such-program": not found in PATH`,
		"./missing":       `program "./missing": no such file or directory`,
		"./plain":         `program "./plain": permission denied`,
		"./dir":           `program "./dir": permission denied`,
	} {
		expect(t, program, c.run(t.Context(), fmt.Sprintf("command = %q", program), ``), failed(want))
	}
	c.env = nil
	expect(t, "without PATH", c.run(t.Context(), `command = "true"`, ``), failed(`program "true": not found in PATH`))
	c.env = []string{"PATH=" + os.Getenv("PATH"), "TMPDIR=" + c.at("nowhere")}
	expect(t, "without a place for temporary files", c.run(t.Context(), `command = "true"`, ``),
		failed(fmt.Sprintf("true: sandbox: folder for temporary files in %s: no such file or directory", c.at("nowhere"))))
	c.env = nil
	c.dir = c.at("gone")
	expect(t, "without a workspace", c.run(t.Context(), `command = "/bin/true"`, ``), failed(fmt.Sprintf("chdir %s: no such file or directory", c.dir)))
}

// A tool has what it was promised of the environment and nothing else.
func TestCommandEnvironment(t *testing.T) {
	c := newCommands(t, nil)
	c.env = append(c.env, "HOME=/h", "JP_CALL_FD=7", "LANG=C", "LC_ALL=C", "TERM=dumb", "TZ=UTC", "USER=u", "TMPDIR=/tmp",
		"GOFLAGS=-v", "OTHER=1", "ANTHROPIC_API_KEY=k", "OPENAI_API_KEY=k", "JP_STORE=s", "LD_PRELOAD=x", "BASH_ENV=x", "ENV=x")
	want := slices.Sorted(slices.Values(append([]string{"HOME=/tmp", "JP_CALL_FD=none", "LANG=C", "LC_ALL=C", "TERM=dumb", "TZ=UTC", "USER=u", "TMPDIR=/tmp", "GOFLAGS=-v"}, c.env[0])))
	got := c.run(t.Context(), "command = \"/usr/bin/env\"\nenv = [\"GOFLAGS\", \"UNSET\"]", ``)
	lines := slices.Sorted(strings.Lines(got.Text))
	for i := range lines {
		lines[i] = strings.TrimSuffix(lines[i], "\n")
		if name, dir, _ := strings.Cut(lines[i], "="); strings.HasPrefix(dir, "/tmp/jp-tool-") { // its own, in the one given
			lines[i] = name + "=/tmp"
		}
	}
	if got.IsError || !slices.Equal(lines, want) {
		t.Errorf("environment = %q, %v\nwant %q", lines, got.IsError, want)
	}
	def, err := Decode("t", table(t, "source = \"local\"\ncommand = \"true\"\nenv = [\"MY_KEY\"]"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Command(def, CommandEnv{Secrets: []string{"MY_KEY"}}); err == nil || err.Error() != `tool t: env: "MY_KEY" is the key of a model provider, and no tool gets one` {
		t.Errorf("a key of a configured provider: %v", err)
	}
}

func TestCommandStdin(t *testing.T) {
	c := newCommands(t, nil)
	got := c.run(t.Context(), `
command = "cat"
stdin = "json"
[parameters.x]
type = "string"
[parameters.n]
type = "integer"
default = 3
[options]
deep = { a = [1, 2.5, true] }
`, `{"x":"<é>\u0000"}`)
	expect(t, "cat", got, text(`{"context":{"action":"run","conversation_id":"jp-c7","workspace":"`+c.dir+
		`"},"tool":{"arguments":{"n":3,"x":"<é>\u0000"},"name":"t","options":{"deep":{"a":[1,2.5,true]}}}}`+"\n"))
	// A tool that does not read it is none the worse.
	expect(t, "true", c.run(t.Context(), "command = \"true\"\nstdin = \"json\"\n[parameters.x]\ntype = \"string\"", `{"x":"`+strings.Repeat("a", 1<<20)+`"}`), text(""))
}

func TestCommandEnvelope(t *testing.T) {
	const broken = `the output is not the JSON envelope that output = "json" promises: `
	c := newCommands(t, map[string]string{"run.sh": `cat out; exit "${1:-0}"`})
	for _, tt := range []struct {
		out, args string
		want      Result
	}{
		{`{"type":"success","content":"a\nb"}`, ``, text("a\nb")},
		{` {"type":"success","content":{"k":[1]}} `, ``, text(`{"k":[1]}`)},
		{`{"type":"success","content":"","other":1}`, ``, text("")},
		{`{"type":"success"}`, ``, text("")},
		{`{"type":"error","message":"no"}`, ``, failed("no")},
		{`{"type":"error","message":"no","trace":["a","b"],"transient":true}`, ``, failed("no (it may work when tried again)\na\nb")},
		{`{"type":"error"}`, ``, failed("the tool failed and gave no message")},
		{`{"type":"needs_input","question":{"id":"q","text":"?"}}`, ``, failed("the tool asks a question, which is not supported yet in this version")},
		{`{"type":"maybe"}`, ``, failed(broken + `type is "maybe", not success, error or needs_input`)},
		{`{}`, ``, failed(broken + `type is "", not success, error or needs_input`)},
		{``, ``, failed(broken + "unexpected end of JSON input")},
		{`text`, ``, failed(broken + "invalid character 'e' in literal true (expecting 'r')")},
		{`{"type":"success"}{}`, ``, failed(broken + "invalid character '{' after top-level value")},
		{`{"type":"success","content":"` + strings.Repeat("x", DefaultBatchBytes) + `"}`, ``, failed(broken + "it is larger than 2 MB")},
		// The status outranks what it says.
		{`{"type":"success","content":"fine"}`, `{"x":"4"}`, failed("exit status 4\nstdout:\n" + `{"type":"success","content":"fine"}`)},
	} {
		write(t, c.dir, map[string]string{"out": tt.out})
		if got := c.run(t.Context(), sh(`output = "json"`), tt.args); got != tt.want {
			t.Errorf("%.100s = %+v\nwant %+v", tt.out, got, tt.want)
		}
	}
	// Without the key it is text like any other.
	write(t, c.dir, map[string]string{"out": `{"type":"error","message":"no"}`})
	expect(t, "text", c.run(t.Context(), sh(``), ``), text(`{"type":"error","message":"no"}`))
}

// What runs too long is ended with all that it started, and what it said until then is told.
func TestCommandTimeout(t *testing.T) {
	c := newCommands(t, map[string]string{"pids": "", "run.sh": `
echo err >&2
sleep 1000 & echo $! >pids
setsid sleep 1000 & echo $! >>pids
echo out
wait
`})
	c.runner = runnerFunc(func(ctx context.Context, s proc.Spec) (proc.Exit, error) {
		ctx, cancel := context.WithCancelCause(ctx)
		s.Stdout = &onWrite{s.Stdout.Write, func() { cancel(&TimeoutError{"t", time.Minute}) }} // as an Executor does
		return c.host.Run(ctx, s)
	})
	got := c.run(t.Context(), sh(`access.fs = [{ path = ".", mode = "rw" }]`), ``)
	expect(t, "timeout", got, failed("stopped after 1m0s (timeout)\nstderr:\nerr\nstdout:\nout\n"))
	for _, pid := range strings.Fields(c.content("pids")) {
		n, err := strconv.Atoi(pid)
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(n, 0); !errors.Is(err, syscall.ESRCH) {
			t.Errorf("process %d that the tool started: %v, want it gone", n, err)
		}
	}
}

// The end of the turn and the second Ctrl-C end a tool that is running.
func TestCommandStopped(t *testing.T) {
	for what, tt := range map[string]struct {
		stop func(c *commandTest, cancel context.CancelCauseFunc)
		want string
	}{
		"cancelled": {func(_ *commandTest, cancel context.CancelCauseFunc) { cancel(errors.New("the user stopped it")) }, "interrupted, may have run: the user stopped it"},
		"killed":    {func(c *commandTest, _ context.CancelCauseFunc) { c.host.Kill() }, "interrupted, may have run: killed"},
	} {
		c := newCommands(t, map[string]string{"run.sh": `echo started; sleep 1000`})
		ctx, cancel := context.WithCancelCause(t.Context())
		c.runner = runnerFunc(func(ctx context.Context, s proc.Spec) (proc.Exit, error) {
			s.Stdout = &onWrite{s.Stdout.Write, func() { tt.stop(c, cancel) }}
			return c.host.Run(ctx, s)
		})
		expect(t, what, c.run(ctx, sh(``), ``), failed(tt.want+"\nstdout:\nstarted\n"))
		cancel(nil)
		if what == "killed" {
			expect(t, "after that", c.run(t.Context(), sh(``), ``), failed("process host: closed"))
		}
	}
}

type runnerFunc func(context.Context, proc.Spec) (proc.Exit, error)

func (f runnerFunc) Run(ctx context.Context, s proc.Spec) (proc.Exit, error) { return f(ctx, s) }

// onWrite calls then after the first write.
type onWrite struct {
	write func([]byte) (int, error)
	then  func()
}

func (w *onWrite) Write(p []byte) (int, error) {
	n, err := w.write(p)
	if w.then != nil {
		w.then()
		w.then = nil
	}
	return n, err
}

// However much a tool writes, it ends and little of its output stays in memory.
func TestCommandLargeOutput(t *testing.T) {
	c := newCommands(t, map[string]string{"run.sh": `head -c 50000000 /dev/zero | tr '\0' x; head -c 50000000 /dev/zero | tr '\0' y >&2; echo last >&2; exit "${1:-0}"`})
	var out *head
	var err *brief.Tail
	c.runner = runnerFunc(func(ctx context.Context, s proc.Spec) (proc.Exit, error) {
		out, err = s.Stdout.(*head), s.Stderr.(*brief.Tail)
		return c.host.Run(ctx, s)
	})
	const note = "\n[truncated: 50 MB -> 255 KB, full output: not kept; ask for less, or raise size_threshold of t]"
	got := c.run(t.Context(), sh(``), ``)
	want := strings.Repeat("x", DefaultSizeThreshold-len(note)) + note
	if got != text(want) {
		t.Errorf("%d bytes that end in %q, want %d", len(got.Text), got.Text[max(0, len(got.Text)-120):], len(want))
	}
	if len(out.b) != DefaultSizeThreshold || out.size != 50_000_000 || err.Keep != stderrKept {
		t.Errorf("kept %d of %d bytes of stdout, and at most %d of stderr", len(out.b), out.size, err.Keep)
	}
	got = c.run(t.Context(), sh(``), `{"x":"1"}`)
	if !got.IsError || len(got.Text) > DefaultSizeThreshold || !strings.HasPrefix(got.Text, "error: exit status 1\nstderr, last lines:\nyyy") ||
		!strings.Contains(got.Text, "yyylast\nstdout:\nxxx") || !strings.Contains(got.Text, "\n[truncated: 50 MB -> ") {
		t.Errorf("failing: %d bytes that begin %.100q", len(got.Text), got.Text)
	}
}

// Many tools at once keep their results apart.
func TestCommandConcurrency(t *testing.T) {
	c := newCommands(t, map[string]string{"run.sh": `echo "$1"`})
	e := Executor{Set: setOf(t, c.tool(sh(`sandbox = "off"`)))}
	var list []Call
	for i := range 24 {
		list = append(list, Call{ID: fmt.Sprint(i), Name: "t", Arguments: json.RawMessage(fmt.Sprintf(`{"x":"%d"}`, i))})
	}
	for id, r := range runAll(t, e, t.Context(), list...) {
		expect(t, id, r, text(id+"\n"))
	}
	if len(c.notes) != 0 {
		t.Errorf("with sandbox off there are notes: %q", c.notes)
	}
}

// FuzzEnvelope checks that whatever a tool prints is read or refused, and never both or neither.
func FuzzEnvelope(f *testing.F) {
	for _, s := range []string{`{"type":"success","content":"a"}`, `{"type":"error","message":"m","trace":[]}`, `{"type":"needs_input"}`, `[]`, `{"type":1}`, "\xff", `{"type":"success","content":"\ud800"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, out []byte) {
		c := command{def: Definition{Name: "t"}}
		r := c.envelope(&head{b: out, keep: len(out), size: int64(len(out))})
		var e struct{ Type string }
		ok := json.Unmarshal(out, &e) == nil && e.Type == "success"
		if r.Refused || !r.IsError && !ok || r.IsError && ok && !strings.HasPrefix(r.Text, "the output is not the JSON envelope") {
			t.Errorf("envelope(%q) = %+v", out, r)
		}
	})
}

// A tail is the end of what was written, however it was written.
func FuzzTail(f *testing.F) {
	f.Add("a\nb\nc\n", 1, 2, 4)
	f.Add("éééééé", 3, 1, 3)
	f.Add("\n\n\n", 2, 1, 1)
	f.Fuzz(func(t *testing.T, s string, step, n, size int) {
		step, n, size = 1+step&0xff, 1+n&0xf, 1+size&0xff
		w, all := &brief.Tail{Keep: 256}, &brief.Tail{Keep: len(s)}
		_, _ = all.Write([]byte(s))
		for part := range slices.Chunk([]byte(s), step) {
			if k, err := w.Write(part); k != len(part) || err != nil {
				t.Fatal(k, err)
			}
		}
		got, cut := lastLines(w, n, size)
		whole, wholeCut := lastLines(all, n, size)
		// Of a text that is too long and ends in line breaks, only these are left.
		if trimmed := strings.TrimRight(s, "\n"); len(s)-len(trimmed)+size >= w.Keep {
			return
		}
		if got != whole || cut != wholeCut {
			t.Errorf("the last %d lines of %q in steps of %d = %q, %v, want %q, %v", n, s, step, got, cut, whole, wholeCut)
		}
	})
}

func TestOnce(t *testing.T) {
	var told []string
	f := Once(func(s string) { told = append(told, s) })
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() { f("a") })
	}
	wg.Wait()
	f("b")
	f("a")
	if want := []string{"a", "b"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
	Once(nil)("nobody")
}

// TestCommandRefusesBeforeItAsks: nobody is asked about a call whose values the program cannot be
// given.
func TestCommandRefusesBeforeItAsks(t *testing.T) {
	c := newCommands(t, map[string]string{"run.sh": "echo ran $1\n"})
	var asked []string
	e := Executor{Set: setOf(t, c.tool(sh(""))), Permit: func(_ context.Context, _ Tool, call Call) (Decision, error) {
		asked = append(asked, call.ID)
		return Decision{Allow: true}, nil
	}}
	got := runAll(t, e, t.Context(),
		Call{ID: "bad", Name: "t", Arguments: json.RawMessage(`{"x":"--rcfile"}`)}, Call{ID: "good", Name: "t", Arguments: json.RawMessage(`{"x":"a"}`)})
	if r := got["bad"]; !r.Refused || !strings.Contains(r.Text, "must not start with '-'") {
		t.Errorf("a value that would be an option: %+v", r)
	}
	if got["good"].Text != "ran a\n" || !slices.Equal(asked, []string{"good"}) {
		t.Errorf("%+v, asked about %v; want good alone to be asked about, and to run", got["good"], asked)
	}
}
