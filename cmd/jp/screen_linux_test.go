package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/graphemes"
	"golang.org/x/sys/unix"

	"jp/cmd/jp/internal/markdown"
	"jp/cmd/jp/internal/stream"
	"jp/cmd/jp/internal/term"
)

// screen is a terminal: what jp may send to one, and nothing else. Cells hold a character with its
// combining marks; the second cell of a wide one is empty.
type screen struct {
	cols, rows int
	cells      [][]cell
	x, y       int
	style      string
	cut        bool // characters behind the last column go nowhere
	apart      bool // it shows each part of an emoji by itself, as some do
	errs       []string
}

type cell struct{ text, style string }

func newScreen(cols, rows int) *screen {
	s := &screen{cols: cols, rows: rows}
	for range rows {
		s.cells = append(s.cells, make([]cell, cols))
	}
	return s
}

var sequence = regexp.MustCompile(`^\x1b\[(\??[0-9;]*)([A-Za-z])`)

// show draws what a program wrote.
func (s *screen) show(text string) {
	for text != "" {
		switch c := text[0]; {
		case c == '\r':
			s.x = 0
		case c == '\n':
			s.down()
		case c == '\x1b':
			m := sequence.FindStringSubmatch(text)
			if m == nil {
				s.errs = append(s.errs, fmt.Sprintf("not a sequence of ours: %.20q", text))
				return
			}
			s.control(m[1], m[2])
			text = text[len(m[0]):]
			continue
		case c < ' ' || c == 0x7f:
			s.errs = append(s.errs, fmt.Sprintf("control character %#x", c))
		default:
			g := graphemes.FromString(text)
			g.Next()
			char := g.Value()
			if s.apart {
				_, n := utf8.DecodeRuneInString(char)
				char = char[:n]
			}
			s.put(char)
			text = text[len(char):]
			continue
		}
		text = text[1:]
	}
}

// Write is show after what the terminal's driver does to newlines.
func (s *screen) Write(p []byte) (int, error) {
	s.show(strings.ReplaceAll(string(p), "\n", "\r\n"))
	return len(p), nil
}

func (s *screen) put(char string) {
	w := term.Width(char)
	switch {
	case s.x+w <= s.cols:
	case s.cut:
		return
	default:
		s.x = 0
		s.down()
	}
	s.cells[s.y][s.x] = cell{char, s.style}
	for i := 1; i < w; i++ {
		s.cells[s.y][s.x+i] = cell{"", s.style}
	}
	s.x += w
}

func (s *screen) down() {
	if s.y++; s.y == s.rows {
		s.cells = append(s.cells[1:], make([]cell, s.cols))
		s.y--
	}
}

func (s *screen) control(args, final string) {
	n, _ := strconv.Atoi(args)
	switch {
	case final == "m":
		if s.style = args; args == "0" {
			s.style = ""
		}
	case args == "?7":
		s.cut = final == "l"
	case final == "A":
		s.y = max(s.y-max(n, 1), 0)
	case final == "K" && args == "":
		clear(s.cells[s.y][min(s.x, s.cols):])
	case final == "K" && n == 2:
		clear(s.cells[s.y])
	case final == "J" && args == "":
		if s.x == 0 && s.y == 0 {
			s.errs = append(s.errs, "what the whole screen shows would go into the history of tmux")
		}
		clear(s.cells[s.y][min(s.x, s.cols):])
		for _, row := range s.cells[s.y+1:] {
			clear(row)
		}
	default:
		s.errs = append(s.errs, "unknown sequence ESC ["+args+final)
	}
}

// String is the screen with ‹CODES› where a style begins and ‹› where it ends, and what differs
// from run to run masked.
func (s *screen) String() string {
	var b strings.Builder
	for _, row := range s.cells {
		var line strings.Builder
		style := ""
		for i := 0; i < len(row); i++ {
			c := row[i]
			if c.style != style {
				style = c.style
				line.WriteString("‹" + style + "›")
			}
			if c.text == "" {
				c.text = " "
			}
			line.WriteString(c.text)
			if w := term.Width(c.text); w > 1 {
				i += w - 1
			}
		}
		if style != "" {
			line.WriteString("‹›")
		}
		b.WriteString(strings.TrimRight(line.String(), " ") + "\n")
	}
	text := strings.TrimRight(b.String(), "\n") + "\n"
	for _, m := range []struct{ from, to string }{
		{`jp-c[0-9]{11}`, "jp-c00000000000"}, {`[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}(:[0-9]{2})?`, "2000-01-01 00:00"}, {`\b[0-9]+(\.[0-9])?s\b`, "0s"},
		{`[0-9,]+ tokens\b`, "0 tokens"}, {`/\S*/work\b`, "$$WORK"}, {`[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}Z`, "2000-01-01T00:00:00Z"},
		{`(now| [0-9]m)\n`, "now\n"},
	} {
		text = regexp.MustCompile(m.from).ReplaceAllString(text, m.to)
	}
	return text
}

// play is a run of jp on a terminal.
type play struct {
	cols  int // 0 = 72
	rows  int // 0 = 20
	env   []string
	until string // on the screen: then it is kept, and typed is
	typed string
	again string // typed when until is there twice
	then  []step // after typed, one after the other
	stdin string // "" = the terminal
	args  []string
}

// step is a text on the screen, after which the screen is kept and something typed.
type step struct{ until, typed string }

// perform runs jp and returns the screen when until was on it, and at the end.
func perform(t *testing.T, s *site, p play) (middle, end string, status int) {
	t.Helper()
	cols, rows := cmp.Or(p.cols, 72), cmp.Or(p.rows, 20)
	master, slave := openTerminal(t)
	if err := unix.IoctlSetWinsize(int(slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: uint16(cols), Row: uint16(rows)}); err != nil {
		t.Fatal(err)
	}
	// At a Ctrl-C the kernel drops the output that was not read yet, which would be a matter of
	// speed here.
	termios, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	if err != nil {
		t.Fatal(err)
	}
	termios.Lflag |= unix.NOFLSH
	if err := unix.IoctlSetTermios(int(slave.Fd()), unix.TCSETS, termios); err != nil {
		t.Fatal(err)
	}
	cmd := &exec.Cmd{
		Path: "/proc/self/exe", Args: append([]string{"jp"}, p.args...), Dir: s.dir, Stdin: slave, Stdout: slave, Stderr: slave,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 1},
		Env:         []string{"TERM=xterm", "LC_ALL=C.UTF-8", "TZ=UTC"},
	}
	if p.stdin != "" {
		cmd.Stdin = strings.NewReader(p.stdin)
	}
	for _, kv := range append(s.environ(), p.env...) {
		if !strings.HasPrefix(kv, "JP_NONINTERACTIVE=") {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = slave.Close()
	if err := master.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	var seen []byte
	drawn := func() *screen {
		v := newScreen(cols, rows)
		v.show(string(seen))
		return v
	}
	buf := make([]byte, 4096)
	for {
		n, err := master.Read(buf)
		seen = append(seen, buf[:n]...)
		if middle == "" && p.until != "" && strings.Contains(drawn().String(), p.until) {
			middle = drawn().String()
			if _, err := master.WriteString(p.typed); err != nil {
				t.Fatal(err)
			}
		}
		if middle != "" && len(p.then) > 0 && strings.Contains(drawn().String(), p.then[0].until) {
			middle += "---- then\n" + drawn().String()
			if _, err := master.WriteString(p.then[0].typed); err != nil {
				t.Fatal(err)
			}
			p.then = p.then[1:]
		}
		if p.again != "" && strings.Count(drawn().String(), p.until) == 2 {
			if _, err := master.WriteString(p.again); err != nil {
				t.Fatal(err)
			}
			p.again = ""
		}
		if errors.Is(err, syscall.EIO) {
			break // nobody has the terminal open any more
		}
		if err != nil {
			_ = cmd.Process.Kill()
			t.Errorf("terminal: %v, screen:\n%s", err, drawn())
			break
		}
	}
	if exit := (*exec.ExitError)(nil); !errors.As(cmd.Wait(), &exit) && cmd.ProcessState == nil {
		t.Fatal("jp did not end")
	}
	last := drawn()
	if len(last.errs) > 0 {
		t.Errorf("jp %q: %s", p.args, strings.Join(last.errs, "; "))
	}
	return middle, last.String(), cmd.ProcessState.ExitCode()
}

// golden compares a screen with testdata/screens/NAME.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", "screens", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s:\n%s\nwant:\n%s", path, got, want)
	}
}

const screenModel = `
[[rule]]
query = "sub"
round = 1
tool_calls = [{ name = "jp_query", arguments = { config = "agent/scout", query = "look" } }]
[[rule]]
query = "sub"
text = "The scout has **looked**."
[[rule]]
query = "slow"
delay = "1h"
text = "never"
[[rule]]
query = "words"
chunk = 30
chunk_delay = "1h"
text = "1. *one* and\n2. the beginning of two, which never ends"
[[rule]]
query = "stuck"
round = 1
text = "I send *one*."
tool_calls = [{ name = "jp_query", arguments = { config = "agent/scout", query = "wait" } }]
[[rule]]
query = "two"
round = 1
tool_calls = [{ name = "jp_query", arguments = { config = "agent/scout", query = "wait" } }, { name = "jp_query", arguments = { config = "agent/far", query = "cost" } }]
[[rule]]
text = """
# 猫 and *dogs*

A paragraph with **bold** and ` + "`code`" + ` in it, which is longer than a line of 72 columns.

1. one
2. two \u001b[2J\u001b]0;title\u0007

| name | 意味 |
|---|--:|
| 猫 | cat |

` + "```\ncode\n```" + `
"""
chunk = 5
`

const scoutModel = `
[[rule]]
query = "wait"
round = 1
tool_calls = [{ name = "fs_list_files", arguments = {} }]
[[rule]]
query = "wait"
delay = "1h"
text = "never"
[[rule]]
text = "looked"
`

// TestScreens looks at what a person sees. Change the screens with -update, and look at them.
func TestScreens(t *testing.T) {
	s := newSite(t, map[string]string{
		".jp/config.toml": "[assistant]\nmodel = \"script/model.toml\"\n[delegation]\nprofiles = [\"agent/scout\", \"agent/far\"]\n" +
			"[conversation.tools.jp_query]\nrun = \"unattended\"\n",
		".jp/config/agent/scout.toml": "[assistant]\nmodel = \"script/scout.toml\"\n[conversation.tools.fs_list_files]\nrun = \"unattended\"\n",
		".jp/config/agent/far.toml":   "[assistant]\nmodel = \"far/big-cloud\"\nrequest.max_retries = 0\n",
		"model.toml":                  screenModel,
		"scout.toml":                  scoutModel,
		"fresh/README":                "x",
		"unknown/README":              "x",
		"busy.toml":                   "[[rule]]\nerror = { kind = \"overloaded\", status = 529, retry_after = \"9s\", message = \"busy\" }\n",
		"never.toml":                  "[[rule]]\ndelay = \"1h\"\ntext = \"never\"\n",
	})
	for _, tt := range []struct {
		name   string
		play   play
		status int
		middle bool
	}{
		{"query.txt", play{args: []string{"query", "--new", "pets"}}, 0, false},
		{"goes-on-40.txt", play{cols: 40, args: []string{"query", "--id", "recent", "pets"}}, 0, false},
		{"goes-on-200.txt", play{cols: 200, args: []string{"query", "--id", "recent", "pets"}}, 0, false},
		{"print.txt", play{args: []string{"c", "print", "."}}, 0, false},
		{"pager.txt", play{args: []string{"c", "print", ".", "--style", "user"}, env: []string{`JP_PAGER=sed -e 's/^/| /'`}}, 0, false},
		{"pager-left.txt", play{args: []string{"help"}, env: []string{"JP_PAGER=head -n 3"}}, 0, false},
		{"pager-left.txt", play{args: []string{"help"}, env: []string{"JP_CFG_PAGER__CMD=head -n 3", "PAGER=false"}}, 0, false},
		{"pager-left.txt", play{args: []string{"help"}, env: []string{"JP_PAGER=head -n 3", "JP_CFG_PAGER__CMD=false"}}, 0, false},
		{"pager-named.txt", play{args: []string{"config", "show", "-c", `pager.cmd=sed -n -e '/pager/s/^/| /p'`}, env: []string{"PAGER=false"}}, 0, false},
		{"pager-failed.txt", play{args: []string{"help"}, env: []string{"JP_PAGER=false"}}, 1, false},
		{"pager-builtin.txt", play{args: []string{"help"}, env: []string{"JP_PAGER=exit 3"}}, 1, false},
		{"model-40.txt", play{cols: 40, args: []string{"model", "show", "script/model.toml"}}, 0, false},
		{"show-40.txt", play{cols: 40, rows: 40, args: []string{"c", "show", "."}}, 0, false},
		{"explain-40.txt", play{cols: 40, args: []string{"config", "explain", "style"}}, 0, false},
		{"config-40.txt", play{cols: 40, rows: 40, args: []string{"config", "show", "-F", "text-pretty"}}, 0, false},
		{"grep.txt", play{args: []string{"c", "grep", "bold", "--context", "1"}}, 0, false},
		{"tree.txt", play{args: []string{"query", "--new", "sub"}}, 0, false},
		{"ls.txt", play{args: []string{"c", "ls", "--hidden", "--sort", "created"}}, 0, false},
		{"tree-stuck.txt", play{args: []string{"query", "--new", "stuck"}, until: "running fs_list_files", typed: "\x03"}, 130, true},
		{"tree-warning.txt", play{cols: 100, args: []string{"query", "--new", "two"}, env: []string{
			"JP_PAGER=cat", "JP_CFG_PROVIDERS__LLM__FAR__TYPE=openai", "JP_CFG_PROVIDERS__LLM__FAR__BASE_URL=http://127.0.0.1:9/v1",
		}, until: "refused", then: []step{{"running fs_list_files", "\x03"}}}, 130, false},
		{"countdown.txt", play{args: []string{"query", "--new", "-m", "script/busy.toml", "x"}, until: "0s left", typed: "\x03"}, 130, true},
		{"stopped-40.txt", play{cols: 40, args: []string{"query", "--new", "slow"}, until: "waiting", typed: "\x03"}, 130, false},
		{"progress.txt", play{args: []string{"query", "--new", "slow"}, until: "waiting", typed: "\x03"}, 130, true},
		{"words.txt", play{args: []string{"query", "--new", "words"}, until: "begin", typed: "\x03"}, 130, true},
		{"plain.txt", play{args: []string{"query", "--new", "-F", "text", "words"}, until: "begin", typed: "\x03"}, 130, true},
		{"title.txt", play{args: []string{"query", "--new", "-m", "script/scout.toml", "-c", "conversation.title.model=script/never.toml", "x"}, until: "finding", typed: "\x03"}, 0, true},
		{"init.txt", play{cols: 100, args: []string{"init", "fresh"}, env: []string{
			"ANTHROPIC_API_KEY=sk-a", "OPENAI_API_KEY=sk-o", "OLLAMA_HOST=127.0.0.1:1", "LLAMACPP_BASE_URL=http://127.0.0.1:1/v1",
		}, until: "[1]:", typed: "2\n"}, 0, true},
		{"init-unknown.txt", play{cols: 100, args: []string{"init", "unknown"}, env: []string{
			"OPENAI_API_KEY=sk-o", "OLLAMA_HOST=127.0.0.1:1", "LLAMACPP_BASE_URL=http://127.0.0.1:1/v1",
		}, until: "[1]:", typed: "opnai/gpt-6.1-sol\n", again: "1\n"}, 0, false},
		{"prompt.txt", play{cols: 200, args: []string{"trust"}, env: []string{"JP_TRUST_WORKSPACE="}, until: "[y/N]", typed: "y\n"}, 0, true},
	} {
		if tt.play.env == nil {
			tt.play.env = []string{"JP_PAGER=cat"}
		}
		middle, end, status := perform(t, s, tt.play)
		if status != tt.status {
			t.Errorf("%s: status %d, want %d", tt.name, status, tt.status)
		}
		if tt.middle {
			end = middle + "---- then, status " + strconv.Itoa(status) + "\n" + end
		}
		golden(t, tt.name, end)
	}
}

// TestScreenChange: who is asked about a change of a file sees the path and then the change, at any
// width, and afterwards what was done.
func TestScreenChange(t *testing.T) {
	s := newSite(t, map[string]string{
		".jp/config.toml": "[assistant]\nmodel = \"script/model.toml\"\n[conversation.tools.fs_modify_file]\nrun = \"ask\"\n",
		"model.toml": `
[[rule]]
round = 1
tool_calls = [{ name = "fs_modify_file", arguments = { path = "orders.py", edits = [{ old = "def orders(request):\n    do(request)\n", new = "def orders(request):\n    return [do(request) for request in requests_of(request)]\n" }] } }]
[[rule]]
text = "Done."
`,
	})
	for _, cols := range []int{40, 80, 200} {
		if err := os.WriteFile(filepath.Join(s.dir, "orders.py"), []byte("def orders(request):\n    do(request)\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		middle, end, status := perform(t, s, play{cols: cols, args: []string{"query", "--new", "change it"}, until: "? for help", typed: "y\n"})
		golden(t, fmt.Sprintf("change-%d.txt", cols), middle+"---- then, status "+strconv.Itoa(status)+"\n"+end)
	}
}

// TestScreenTrust: who is asked about a workspace that has changed sees what differs, at any width.
func TestScreenTrust(t *testing.T) {
	s := newSite(t, map[string]string{
		".jp/config.toml": "[assistant]\nmodel = \"script/model.toml\"\n[conversation.tools.fs_read_file]\n[conversation.tools.fs_list_files]\nrun = \"ask\"\n",
		"AGENTS.md":       "Be kind.\nBe brief.\n",
	})
	if out, code := s.jp("trust", "--yes"); code != 0 {
		t.Fatal(out)
	}
	for name, text := range map[string]string{
		".jp/config.toml": "[assistant]\nmodel = \"script/other.toml\"\n[conversation.tools.fs_read_file]\n[conversation.tools.fs_list_files]\nrun = \"unattended\"\n" +
			"[conversation.tools.deploy]\nsource = \"local\"\ndescription = \"Deploys.\"\nsandbox = \"off\"\ncommand = \"./deploy.sh --to production\"\n",
		"AGENTS.md": "Be kind.\nBe \x1b[31mquick\u202e.\n",
	} {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	env := []string{"JP_TRUST_WORKSPACE=", "JP_PAGER=cat"}
	below := func(screen string) string { // the path before it is now longer, now shorter
		_, rest, _ := strings.Cut(screen, "0:00:00Z\n")
		return rest
	}
	for _, cols := range []int{40, 80, 200} {
		middle, both, status := perform(t, s, play{cols: cols, rows: 80, env: env, args: []string{"query", "--new", "hi"}, until: "= diff]", typed: "d\n", again: "n\n"})
		_, end, _ := perform(t, s, play{cols: cols, rows: 50, env: env, args: []string{"trust", "--diff"}})
		if status != 6 {
			t.Errorf("%d columns: status %d, want 6", cols, status)
		}
		_, whole, _ := perform(t, s, play{cols: cols, rows: 80, env: env, args: []string{"trust", "--show"}})
		for name, screen := range map[string]string{"trust-%d.txt": middle, "trust-diff-%d.txt": end, "trust-show-%d.txt": whole} {
			golden(t, fmt.Sprintf(name, cols), below(screen))
		}
		if got, want := below(below(both)), below(end)+"Trust this workspace? [y/N, d = diff] n\n"; !strings.HasPrefix(got, want) {
			t.Errorf("%d columns: after d:\n%s\nwant:\n%s", cols, got, want)
		}
	}
	_, tool, _ := perform(t, s, play{cols: 40, rows: 60, env: []string{"JP_TRUST_WORKSPACE=1", "JP_PAGER=cat"}, args: []string{"tool", "show", "deploy"}})
	golden(t, "tool-show-40.txt", tool)
}

// TestDumbTerminal: where TERM is dumb nothing moves the cursor, whatever the command.
func TestDumbTerminal(t *testing.T) {
	s := newSite(t, map[string]string{
		".jp/config.toml": "[assistant]\nmodel = \"script/model.toml\"\n[delegation]\nprofiles = [\"agent/scout\"]\n" +
			"[conversation.tools.jp_query]\nrun = \"unattended\"\n",
		".jp/config/agent/scout.toml": "[assistant]\nmodel = \"script/scout.toml\"\n[conversation.tools.fs_list_files]\nrun = \"unattended\"\n",
		"model.toml":                  screenModel,
		"scout.toml":                  scoutModel,
	})
	if out, code := s.jp("trust", "--yes"); code != 0 {
		t.Fatal(out)
	}
	s.more = append(s.more, "TERM=dumb", "LC_ALL=C.UTF-8")
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"query", "--new", "sub"}, "jp: agent/scout jp-c"},
		{[]string{"c", "ls", "--hidden"}, ""},
		{[]string{"c", "grep", "sub"}, ""},
		{[]string{"trace"}, ""},
		{[]string{"help"}, ""},
	} {
		screen, out, status := atTerminal(t, s, nil, tt.args...) // the line breaks of a terminal are taken out of the screen
		if status != 0 || strings.ContainsAny(screen+out, "\x1b\r") || !strings.Contains(screen, tt.want) {
			t.Errorf("jp %q: status %d, screen %q, stdout %q", tt.args, status, screen, out)
		}
	}
}

// TestScreenBatch: the tree of a batch leaves the rows on the screen, and stays below them.
func TestScreenBatch(t *testing.T) {
	s := newSite(t, map[string]string{
		".jp/config.toml":             "[assistant]\nmodel = \"script/scout.toml\"\n",
		".jp/config/agent/scout.toml": "[assistant]\nmodel = \"script/scout.toml\"\n[conversation.tools.fs_list_files]\nrun = \"unattended\"\n",
		"scout.toml":                  scoutModel,
	})
	for _, format := range []string{"auto", "json"} {
		_, end, status := perform(t, s, play{
			cols: 400, args: []string{"batch", "-F", format, "-c", "agent/scout", "--parallel", "2"}, stdin: "\"look\"\n\"wait\"\n",
			until: `"text":"looked"`, typed: "\x03",
		})
		var got []string
		for _, m := range regexp.MustCompile(`"conversation_id":"[^"]*","query":"[^"]*","status":"(\w+)"`).FindAllStringSubmatch(end, -1) {
			got = append(got, m[1])
		}
		if status != 130 || !slices.Equal(got, []string{"ok", "cancelled"}) {
			t.Errorf("-F %s: status %d, rows %q, want 130 and ok, cancelled; screen:\n%s", format, status, got, end)
		}
		if counts := strings.Count(end, "1 done · 1 cancelled"); format == "auto" && (counts != 1 || strings.Contains(end, "looked  ")) {
			t.Errorf("%d lines say what is done, want one, and no sub-agent that has ended; screen:\n%s", counts, end)
		}
	}
	// a line counts when it has ended, whichever its row must wait for; what runs has its label
	running, _, _ := perform(t, s, play{
		cols: 120, args: []string{"batch", "-c", "agent/scout", "--parallel", "2"}, stdin: "{\"query\":\"wait\",\"label\":\"slow one\"}\n\"look\"\n",
		until: "1 done", typed: "\x03",
	})
	if !regexp.MustCompile(`└─ ● agent/scout .* slow one: wait.*\n1 done\n`).MatchString(running) {
		t.Errorf("while it runs:\n%s", running)
	}
}

// TestTreeOfEmojis: the tree stays in its place on a terminal that gives some emojis more columns than
// jp does.
func TestTreeOfEmojis(t *testing.T) {
	screen := newScreen(40, 10)
	screen.apart = true
	tree := term.NewTree(&term.IO{Err: screen, ErrTTY: true, UTF8: true, Width: 40, Height: 10}, term.TreeOptions{Tick: make(chan time.Time)})
	for _, phase := range []string{stream.Queued, stream.Started, stream.Running} {
		tree.Update(&stream.Delegation{Phase: phase, ConversationID: "a", Profile: "agent/w", Title: strings.Repeat("👍🏽", 30)})
	}
	tree.Close()
	if got := screen.String(); strings.Count(got, "agent/w") != 1 || screen.y != 1 || len(screen.errs) > 0 {
		t.Errorf("%v, the screen:\n%s", screen.errs, got)
	}
}

// TestDraftOfEmojis: so does a text while it comes, and at the end all of it is there.
func TestDraftOfEmojis(t *testing.T) {
	screen := newScreen(40, 20)
	screen.apart = true
	_, draft := (&term.IO{Out: screen, OutTTY: true, UTF8: true, Width: 40, Height: 20}).Draft()
	hands := strings.Repeat("👍🏽", 15)
	for _, step := range [][2]string{{"", hands + "\n"}, {"", hands + "e\nmore of\n"}, {"", hands + "end\nmore of it\n"}, {hands + "end\n", "more of it\n"}, {"more of it\n", ""}} {
		if err := draft.Write(step[0], step[1]); err != nil {
			t.Fatal(err)
		}
	}
	if got := screen.String(); strings.Count(got, "👍") != 15 || !strings.Contains(got, "end\nmore of it\n") || screen.y != 3 || len(screen.errs) > 0 {
		t.Errorf("%v, the screen:\n%s", screen.errs, got)
	}
}

// TestDraftOnANarrowedScreen: what is settled stays where lines were drawn for a screen that was wider
// than the terminal was by then.
func TestDraftOnANarrowedScreen(t *testing.T) {
	screen := newScreen(40, 20)
	io := &term.IO{Out: screen, OutTTY: true, UTF8: true, Width: 80, Height: 20}
	_, draft := io.Draft()
	for _, step := range [][2]string{{"one\ntwo\n", strings.Repeat("a", 60) + "\n"}, {"", "three\n"}, {"three\n", ""}} {
		if err := draft.Write(step[0], step[1]); err != nil {
			t.Fatal(err)
		}
		io.Width = 40
	}
	if got := screen.String(); got != "one\ntwo\nthree\n" || len(screen.errs) > 0 {
		t.Errorf("%v, the screen:\n%s", screen.errs, got)
	}
}

// TestDraft: whatever was on the screen while a text came, all of it stands there at the end, and
// on the way its last line. Notes in between stay too.
func TestDraft(t *testing.T) {
	const tall = 1000
	rng := rand.New(rand.NewPCG(1, 2))
	words := []string{"word", "**bold", "bold**", "`code`", "猫猫", "| a | b |\n|---|---|\n| 1 | 2 |", "\n", "\n\n", "\n- item", "\n1. one", "\n```\n", "\n# head\n", " ", "long-word-that-is-wider-than-some-screens", "\n> quote", "<div>"}
	for range 200 {
		cols, rows := 8+rng.IntN(40), 3+rng.IntN(20)
		screen := newScreen(cols, tall)
		view := newScreen(cols, rows) // the same, of which the top scrolls off
		both := io.MultiWriter(screen, view)
		style := markdown.Style{Width: cols, UTF8: true}
		tty := &term.IO{Out: both, Err: both, OutTTY: true, ErrTTY: true, UTF8: true, Width: cols, Height: rows}
		with, draft := tty.Draft()
		text, want := markdown.NewStream(style), newScreen(cols, tall)
		for range rng.IntN(60) {
			piece := words[rng.IntN(len(words))]
			settled := text.Write(piece)
			io.WriteString(want, settled)
			open := text.Open()
			if err := draft.Write(settled, open); err != nil {
				t.Fatal(err)
			}
			last := newScreen(cols, 3)
			fmt.Fprint(last, open[strings.LastIndexByte(strings.TrimSuffix(open, "\n"), '\n')+1:])
			if got := fmt.Sprint(view.cells[max(view.y-1, 0)]); open != "" && last.y == 1 && got != fmt.Sprint(last.cells[0]) {
				t.Fatalf("%d columns, %d rows: on the way the last line is %s, want that of %q", cols, rows, got, open)
			}
			if rng.IntN(20) == 0 {
				fmt.Fprintln(with.Err, "jp: note")
				fmt.Fprintln(want, "jp: note")
			}
		}
		end := text.Flush()
		io.WriteString(want, end)
		if err := draft.Write(end, ""); err != nil {
			t.Fatal(err)
		}
		if got := screen.String(); got != want.String() {
			t.Fatalf("%d columns, %d rows:\n%s\nwant:\n%s", cols, rows, got, want)
		}
		whole := want.cells[:want.y+1]
		if got, end := fmt.Sprint(view.cells[:view.y+1]), fmt.Sprint(whole[max(0, len(whole)-rows):]); len(whole) >= rows && got != end {
			t.Fatalf("%d columns, %d rows:\n%s\nwant the end of:\n%s", cols, rows, view, want)
		}
		if len(screen.errs)+len(view.errs) > 0 {
			t.Fatal(screen.errs, view.errs)
		}
	}
}
