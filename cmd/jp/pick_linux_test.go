package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pickSite is a workspace with four conversations, and the id of the first one.
func pickSite(t *testing.T) (s *site, first string) {
	t.Helper()
	s = newSite(t, map[string]string{
		".jp/config.toml": "[assistant]\nmodel = \"script/model.toml\"\n[conversation.title]\nfrom_query = false\n",
		"model.toml": `
[[rule]]
query = "table"
text = "Use *two* tables, and a key that joins them to one another without a copy.\n\n- orders\n- 顧客\n"
[[rule]]
text = "Answered."
`,
	})
	if out, code := s.jp("trust", "--yes"); code != 0 {
		t.Fatal(out)
	}
	for _, q := range [][]string{
		{"Postgres schema", "How many table rows?"}, {"猫とデータベースの長い題名の会話について詳しく話しましょう", "pets"},
		{"evil \x1b[2J\x1b]0;x\x07title\u202e", "x"}, {"Postgres backup", "y"},
	} {
		if out, code := s.jp("query", "--new", "--title", q[0], q[1]); code != 0 {
			t.Fatal(out)
		}
	}
	out, _ := s.jp("c", "ls", "--sort", "created", "--limit", "1")
	first, _, _ = strings.Cut(out, "\t")
	return s, first
}

// TestScreenPick: keys move the mark and filter, Enter picks, and then the list is gone.
func TestScreenPick(t *testing.T) {
	s, _ := pickSite(t)
	for _, cols := range []int{40, 80, 200} {
		middle, end, status := perform(t, s, play{
			cols: cols, args: []string{"c", "ls", "--pick"}, until: "4 of 4", typed: "\x1b[B\x0e\x0e\x10",
			then: []step{{"‹7›> jp-c00000000000  猫", "\x1b[F"}, {"‹7›> jp-c00000000000  Postgres s", "xPost\x17Postx\x7f"}, {"> Post_  2 of 4", "\x1bOB\r"}},
		})
		golden(t, fmt.Sprintf("pick-%d.txt", cols), middle+"---- then, status "+strconv.Itoa(status)+"\n"+end)
	}
}

// picking is a jp with a list on a terminal that the test holds open.
type picking struct {
	cmd    *exec.Cmd
	master *os.File
	slave  *os.File
	out    strings.Builder // its stdout
	before *unix.Termios
}

func startPicking(t *testing.T, s *site, env []string, args ...string) *picking {
	t.Helper()
	p := &picking{}
	p.master, p.slave = openTerminal(t)
	t.Cleanup(func() { _ = p.slave.Close() })
	p.resize(t, 100)
	var err error
	if p.before, err = unix.IoctlGetTermios(int(p.slave.Fd()), unix.TCGETS); err != nil {
		t.Fatal(err)
	}
	p.cmd = &exec.Cmd{
		Path: "/proc/self/exe", Args: append([]string{"jp"}, args...), Dir: s.dir, Stdin: p.slave, Stdout: &p.out, Stderr: p.slave,
		SysProcAttr: &syscall.SysProcAttr{Setsid: true, Setctty: true}, Env: []string{"TERM=xterm", "LC_ALL=C.UTF-8"},
	}
	for _, kv := range append(s.environ(), env...) {
		if !strings.HasPrefix(kv, "JP_NONINTERACTIVE=") {
			p.cmd.Env = append(p.cmd.Env, kv)
		}
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := p.master.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *picking) resize(t *testing.T, cols uint16) {
	t.Helper()
	if err := unix.IoctlSetWinsize(int(p.slave.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Col: cols, Row: 20}); err != nil {
		t.Fatal(err)
	}
}

// await returns what is written to the terminal until text is in it.
func (p *picking) await(t *testing.T, text string) string {
	t.Helper()
	var seen []byte
	buf := make([]byte, 4096)
	for !strings.Contains(string(seen), text) {
		n, err := p.master.Read(buf)
		seen = append(seen, buf[:n]...)
		if err != nil {
			t.Fatalf("terminal: %v, after %q", err, seen)
		}
	}
	return string(seen)
}

// end waits for the end of jp, and returns its exit status.
func (p *picking) end(t *testing.T) int {
	t.Helper()
	go func() { _, _ = io.Copy(io.Discard, p.master) }()
	_ = p.cmd.Wait()
	after, err := unix.IoctlGetTermios(int(p.slave.Fd()), unix.TCGETS)
	if err != nil || *after != *p.before {
		t.Errorf("the terminal was %+v, and is %+v, %v", *p.before, after, err)
	}
	return p.cmd.ProcessState.ExitCode()
}

// TestPickEnds: whatever ends it, the terminal is as it was, and stdout has nothing but the id.
func TestPickEnds(t *testing.T) {
	s, first := pickSite(t)
	for _, tt := range []struct {
		name   string
		end    func(t *testing.T, p *picking)
		status int
		out    string
	}{
		{"enter", func(t *testing.T, p *picking) { p.keys(t, first[len(first)-11:]+"\r") }, 0, first + "\n"},
		{"esc", func(t *testing.T, p *picking) { p.keys(t, "\x1b") }, 130, ""},
		{"ctrl-c", func(t *testing.T, p *picking) { p.keys(t, "\x03") }, 130, ""},
		{"SIGINT", func(t *testing.T, p *picking) { _ = p.cmd.Process.Signal(syscall.SIGINT) }, 130, ""},
		{"SIGTERM", func(t *testing.T, p *picking) { _ = p.cmd.Process.Signal(syscall.SIGTERM) }, 143, ""},
		{"SIGHUP", func(t *testing.T, p *picking) { _ = p.cmd.Process.Signal(syscall.SIGHUP) }, 129, ""},
		{"SIGQUIT", func(t *testing.T, p *picking) { _ = p.cmd.Process.Signal(syscall.SIGQUIT) }, 131, ""},
		{"narrower", func(t *testing.T, p *picking) {
			p.resize(t, 60)
			_, again, _ := strings.Cut(p.await(t, "\x1b[15A"), "\x1b[15A") // back to the first choice
			if !strings.Contains(again, "Postgres schema") {
				again += p.await(t, "Postgres schema")
			}
			if strings.Contains(again, "│") {
				t.Errorf("at 60 columns: %q", again)
			}
			p.keys(t, "none\r\x1b")
		}, 130, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := startPicking(t, s, nil, "c", "ls", "--pick")
			p.await(t, "Postgres schema")
			tt.end(t, p)
			if status := p.end(t); status != tt.status || p.out.String() != tt.out {
				t.Errorf("status %d, stdout %q, want %d, %q", status, p.out.String(), tt.status, tt.out)
			}
		})
	}
}

func (p *picking) keys(t *testing.T, keys string) {
	t.Helper()
	if _, err := p.master.WriteString(keys); err != nil {
		t.Fatal(err)
	}
}

// TestQueryPick: the conversation that was picked goes on. Where lines cannot be drawn again there
// is no list to pick from.
func TestQueryPick(t *testing.T) {
	s, first := pickSite(t)
	p := startPicking(t, s, nil, "query", "--pick", "-F", "text", "How many table rows?")
	p.await(t, "Postgres schema")
	p.keys(t, "schema\r")
	if status := p.end(t); status != 0 || !strings.HasPrefix(p.out.String(), "Use *two* tables") {
		t.Errorf("status %d, stdout %q", status, p.out.String())
	}
	if out, _ := s.jp("c", "show", first, "-F", "json"); !strings.Contains(out, `"turns":2,`) {
		t.Errorf("jp c show: %s", out)
	}
	p = startPicking(t, s, []string{"TERM=dumb"}, "query", "--pick", "x")
	p.await(t, "--pick: needs a terminal")
	if status := p.end(t); status != 2 {
		t.Errorf("TERM=dumb: status %d, want 2", status)
	}
	p = startPicking(t, s, []string{"TERM=dumb"}, "c", "ls", "--pick")
	if status := p.end(t); status != 0 || strings.Count(p.out.String(), "\n") != 4 {
		t.Errorf("TERM=dumb: status %d, stdout %q, want the plain list", status, p.out.String())
	}
}
