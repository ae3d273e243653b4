package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// openTerminal makes a pseudo-terminal.
func openTerminal(t *testing.T) (master, slave *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	master = os.NewFile(uintptr(fd), "ptmx")
	t.Cleanup(func() { _ = master.Close() })
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Skipf("pseudo-terminal: %v", err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Skipf("pseudo-terminal: %v", err)
	}
	slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("pseudo-terminal: %v", err)
	}
	return master, slave
}

// onTerminal runs jp as the leader of a session on a pseudo-terminal of its own, types answer when
// question stands on the screen, and returns what the screen showed, stdout and the exit status.
func onTerminal(t *testing.T, s *site, question, answer string, args ...string) (screen, stdout string, status int) {
	t.Helper()
	return atTerminal(t, s, []exchange{{question, answer}}, args...)
}

// exchange is a question on a screen, and what is typed then.
type exchange struct{ question, answer string }

// atTerminal is onTerminal for one question after another.
func atTerminal(t *testing.T, s *site, all []exchange, args ...string) (screen, stdout string, status int) {
	t.Helper()
	return leader(t, s, all, "/proc/self/exe", append([]string{"jp"}, args...)...)
}

// leader is atTerminal for any program.
func leader(t *testing.T, s *site, all []exchange, path string, argv ...string) (screen, stdout string, status int) {
	t.Helper()
	master, slave := openTerminal(t)
	var out bytes.Buffer
	cmd := &exec.Cmd{
		Path: path, Args: argv, Dir: s.dir,
		Stdin: slave, Stdout: &out, Stderr: slave, SysProcAttr: &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0},
	}
	for _, kv := range s.environ() {
		if !strings.HasPrefix(kv, "JP_TRUST_WORKSPACE=") && !strings.HasPrefix(kv, "JP_NONINTERACTIVE=") {
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
	from := 0 // behind the last question
	buf := make([]byte, 4096)
	for {
		n, err := master.Read(buf)
		seen = append(seen, buf[:n]...)
		if len(all) > 0 && all[0].question != "" {
			if i := bytes.Index(seen[from:], []byte(all[0].question)); i >= 0 {
				from += i + len(all[0].question)
				if s.asked != nil {
					s.asked()
				}
				if _, err := master.WriteString(all[0].answer); err != nil {
					t.Fatal(err)
				}
				all = all[1:]
			}
		}
		if errors.Is(err, syscall.EIO) {
			break // nobody has the terminal open any more
		}
		if err != nil {
			_ = cmd.Process.Kill()
			t.Errorf("terminal: %v, screen:\n%s", err, seen)
			break
		}
	}
	err := cmd.Wait()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(seen), "\r\n", "\n"), out.String(), cmd.ProcessState.ExitCode()
}

// unbroken returns what a screen says, in one line: where jp breaks its lines depends on the length
// of a path.
func unbroken(screen string) string { return strings.Join(strings.Fields(screen), " ") }

func TestTrustOnTerminal(t *testing.T) {
	s := newSite(t, map[string]string{
		".jp/config.toml": "[assistant]\nmodel = \"script/model.toml\"\n[conversation.tools.greet]\nsource = \"local\"\ndescription = \"Greets.\"\ncommand = \"touch ran\"\n",
		"model.toml":      "[[rule]]\ntext = \"hi\"\n",
	})
	const question = "Trust this workspace? [y/N] "
	query := []string{"query", "--new", "hello"}

	for _, answer := range []string{"\n", "n\n", "yess\n", "\x04"} {
		screen, out, status := onTerminal(t, s, question, answer, query...)
		if status != 6 || out != "" {
			t.Errorf("answer %q: status %d, stdout %q, screen:\n%s", answer, status, out, screen)
		}
		for _, want := range []string{"not trusted\n", "  model: script/model.toml\n", "  tool greet: local, ask, network none, runs: touch ran\n", "new     .jp/config.toml  sha256:"} {
			if !strings.Contains(screen, want) {
				t.Errorf("answer %q: screen lacks %q:\n%s", answer, want, screen)
			}
		}
	}

	screen, out, status := onTerminal(t, s, question, "y\n", query...)
	if status != 0 || out != "hi\n" {
		t.Fatalf("yes: status %d, stdout %q, screen:\n%s", status, out, screen)
	}
	screen, out, status = onTerminal(t, s, "", "", query...)
	if status != 0 || out != "hi\n" || strings.Contains(screen, "Trust") {
		t.Fatalf("trusted: status %d, stdout %q, screen:\n%s", status, out, screen)
	}

	// A change asks again, and shows what changed and what is allowed now.
	const again = "Trust this workspace? [y/N, d = diff] "
	if err := os.WriteFile(filepath.Join(s.dir, ".jp", "extra.toml"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	screen, _, status = onTerminal(t, s, again, "n\n", query...)
	screen = strings.ReplaceAll(screen, "\n      ", "")
	if status != 6 || !strings.Contains(screen, "not trusted yet, recorded ") || !strings.Contains(screen, "new     .jp/extra.toml  sha256:") ||
		strings.Contains(screen, "  .jp/config.toml  sha256:") {
		t.Errorf("changed: status %d, screen:\n%s", status, screen)
	}

	// What is higher than the screen is shown a screen at a time: the question comes after all of
	// it.
	for i := range 30 {
		if err := os.WriteFile(filepath.Join(s.dir, ".jp", fmt.Sprintf("more%02d.toml", i)), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	screen, _, status = onTerminal(t, s, "Enter shows them, n is a no -- ", "n\n", query...)
	if status != 6 || strings.Contains(screen, again) || strings.Contains(screen, "more29") {
		t.Errorf("first screen: status %d, screen:\n%s", status, screen)
	}
	more := exchange{"Enter shows them, n is a no -- ", "\n"}
	screen, _, status = atTerminal(t, s, []exchange{more, {again, "n\n"}}, query...)
	if status != 6 || !strings.Contains(screen, "more29") || !strings.Contains(screen, again) {
		t.Errorf("all screens: status %d, screen:\n%s", status, screen)
	}
	for i := range 30 {
		if err := os.Remove(filepath.Join(s.dir, ".jp", fmt.Sprintf("more%02d.toml", i))); err != nil {
			t.Fatal(err)
		}
	}

	// --non-interactive asks nobody, whatever the terminal.
	screen, _, status = onTerminal(t, s, "", "", append(query, "--non-interactive")...)
	if status != 6 || strings.Contains(screen, again) {
		t.Errorf("--non-interactive: status %d, screen:\n%s", status, screen)
	}

	// jp trust asks the same question and answers with the state.
	screen, out, status = onTerminal(t, s, again, "yes\n", "trust")
	if status != 0 || !strings.Contains(out, ": trusted, recorded ") {
		t.Errorf("jp trust: status %d, stdout %q, screen:\n%s", status, out, screen)
	}

	// A yes is one to what was shown, and not to what has changed since then.
	s.asked = func() {
		if err := os.WriteFile(filepath.Join(s.dir, ".jp", "later.toml"), nil, 0o600); err != nil {
			t.Error(err)
		}
	}
	if err := os.WriteFile(filepath.Join(s.dir, ".jp", "more.toml"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	screen, out, status = onTerminal(t, s, again, "yes\n", "trust")
	if status != 6 || out != "" || !strings.Contains(screen, ".jp/later.toml (new)") {
		t.Errorf("changed while asked: status %d, stdout %q, screen:\n%s", status, out, screen)
	}
}

// TestInitAsksAboutRest: on a terminal `jp init` asks once about what was there before, and the
// next command asks nothing.
func TestInitAsksAboutRest(t *testing.T) {
	const question = "Trust this workspace? [y/N, d = diff] "
	for answer, rest := range map[string]string{"y\n": "", "n\n": "jp: workspace WORK: not trusted yet: AGENTS.md (new) jp: `jp trust` shows what differs and asks"} {
		s := newSite(t, map[string]string{"AGENTS.md": "Be kind.\n"})
		screen, _, status := atTerminal(t, s, []exchange{{"Model: ", "ollama/qwen3\n"}, {question, answer}}, "init")
		screen = strings.ReplaceAll(strings.ReplaceAll(screen, "\r", ""), s.dir, "WORK")
		if status != 0 || !strings.Contains(screen, "workspace WORK: not trusted yet") || !strings.Contains(screen, "\n+ instructions: AGENTS.md\n\nnew     AGENTS.md  sha256:") ||
			strings.Contains(screen, "as it was trusted") || !strings.Contains(unbroken(screen), rest) || strings.Count(screen, question) != 1 {
			t.Errorf("%q: status %d, screen:\n%s", answer, status, screen)
		}
		if _, _, status := atTerminal(t, s, nil, "trust", "--show"); status != 0 {
			t.Errorf("%q: jp trust --show: status %d", answer, status)
		}
	}
}
