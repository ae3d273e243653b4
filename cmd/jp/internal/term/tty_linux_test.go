package term

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"reflect"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	xterm "golang.org/x/term"

	"jp/tools"
)

// TestMain is also the program that the tests of this file run on a terminal of its own.
func TestMain(m *testing.M) {
	if scene := os.Getenv("TERM_TEST_SCENE"); scene != "" {
		os.Exit(play(scene))
	}
	os.Exit(m.Run())
}

// play runs on a pseudo-terminal as the leader of its session. What it prints goes to its stdout, a
// pipe.
func play(scene string) int {
	switch scene {
	case "no terminal":
		_, err := OpenTTY("")
		fmt.Println(errors.Is(err, ErrNobody))
		return 0
	case "background":
		// The terminal's foreground group is that of our parent.
		_, err := OpenTTY("")
		fmt.Println(errors.Is(err, ErrNobody))
		return 0
	}
	tty, err := OpenTTY("")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer func() { _ = tty.Close() }()
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	switch scene {
	case "from the background":
		cmd := exec.Command("/proc/self/exe")
		cmd.Env = append(os.Environ(), "TERM_TEST_SCENE=background")
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		out, err := cmd.Output()
		fmt.Print(string(out), err, "\n")
	case "ask":
		// Wait until what was typed ahead has come.
		for n := 0; n == 0; {
			if err := tty.control(func(fd int) (err error) { n, err = unix.IoctlGetInt(fd, unix.TIOCINQ); return err }); err != nil {
				fmt.Println(err)
				return 1
			}
		}
		fmt.Println(ask(ctx, tty))
	case "cancel":
		shown := make(chan os.Signal, 1)
		signal.Notify(shown, unix.SIGUSR1)
		go func() {
			<-shown
			cancel(errors.New("enough"))
		}()
		fmt.Println(os.Getpid())
		fmt.Println(ask(ctx, tty))
	case "deaf":
		if err := tty.control(func(fd int) error { return unix.IoctlSetInt(fd, unix.TCXONC, unix.TCOOFF) }); err != nil {
			fmt.Println(err)
			return 1
		}
		stop := time.AfterFunc(time.Millisecond, func() { cancel(errors.New("enough")) })
		defer stop.Stop()
		fmt.Println(ask(ctx, tty))
	case "pick panics":
		state := func() (s *xterm.State) {
			_ = tty.control(func(fd int) (err error) { s, err = xterm.GetState(fd); return err })
			return s
		}
		before := state()
		func() {
			defer func() { fmt.Println(recover(), reflect.DeepEqual(state(), before)) }()
			_ = tty.Alone(ctx, func(p *Person) error {
				_, err := p.Pick(ctx, List{Choices: []Choice{{"a", "b"}}, Preview: func(int, int) string {
					fmt.Println(reflect.DeepEqual(state(), before))
					panic("preview")
				}})
				return err
			})
		}()
	case "back":
		fmt.Println(os.Getpid())
		fmt.Println(ask(ctx, tty))
	case "two":
		turns := os.Getenv("TERM_TEST_TURNS")
		a, err := OpenTTY(turns)
		b, other := OpenTTY(turns)
		if err := errors.Join(err, other); err != nil {
			fmt.Println(err)
			return 1
		}
		cancel(errors.New("enough"))
		asked := func() (did bool, err error) {
			err = b.Alone(ctx, func(*Person) error { did = true; return nil })
			return did, err
		}
		_ = a.Alone(context.Background(), func(*Person) error {
			fmt.Println(asked())
			return nil
		})
		fmt.Println(asked())
	case "permit":
		p := NewPrompter(tty, false, nil)
		q := tools.NewQuestion(tools.KindRun, tools.Definition{Name: "rm", Source: "local"}, tools.Call{Arguments: []byte(`{"path":"\u001b[2Jevil"}`)}, "")
		for range 7 {
			answer, err := p.Ask(ctx, q)
			fmt.Printf("%d %q %v\n", answer.Choice, answer.Reason, err)
		}
	case "permit much":
		much := strings.Repeat("a", 4000)
		q := tools.NewQuestion(tools.KindRun, tools.Definition{Name: "sh", Source: "local"}, tools.Call{
			Arguments: []byte(`{"a":"` + much + `","b":"` + much + `","z":"ls` + strings.Repeat(" ", 500) + `; rm -rf ~ DANGER"}`)}, "")
		for range 2 {
			answer, err := NewPrompter(tty, false, nil).Ask(ctx, q)
			fmt.Printf("%d %v\n", answer.Choice, err)
		}
	}
	return 0
}

func ask(ctx context.Context, tty *TTY) string {
	answer := ""
	err := tty.Alone(ctx, func(p *Person) (err error) {
		answer, err = p.Ask(ctx, "sure? ")
		return err
	})
	return fmt.Sprintf("%q %v", answer, err)
}

// pseudo opens a new pseudo-terminal.
func pseudo(t *testing.T) (master, slave *os.File) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		t.Skipf("no pseudo-terminals here: %v", err)
	}
	master = os.NewFile(uintptr(fd), "ptmx")
	t.Cleanup(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Skipf("pseudo-terminal: %v", err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Skipf("pseudo-terminal: %v", err)
	}
	if slave, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Skipf("pseudo-terminal: %v", err)
	}
	t.Cleanup(func() { slave.Close() })
	if err := master.SetReadDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	return master, slave
}

// TestProgressFits: a line fits into the terminal as it is now, whatever width the output has.
func TestProgressFits(t *testing.T) {
	for _, width := range []int{0, -1, 200} {
		master, slave := pseudo(t)
		tick := make(chan time.Time)
		var p *Progress
		for _, cols := range []uint16{40, 20} {
			if err := unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: cols}); err != nil {
				t.Fatal(err)
			}
			if p == nil {
				_, p = New(Options{Err: slave, Width: width}).Countdown("anthropic/claude has no room until six", time.Hour, ProgressOptions{Now: func() time.Time { return time.Unix(100, 0) }, Tick: tick})
			}
			tick <- time.Time{}
			if got := Width(strings.TrimSuffix(strings.TrimPrefix(expect(t, master, "\x1b[K"), "\r"), "\x1b[K")); got != int(cols)-1 {
				t.Errorf("width %d: %d columns of %d", width, got, cols)
			}
		}
		p.End()
	}
}

// terminal starts a scene on a new pseudo-terminal and returns its master side and its stdout.
func terminal(t *testing.T, scene string) (master *os.File, stdout *bufio.Reader) {
	t.Helper()
	master, slave := pseudo(t)
	defer slave.Close()
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "TERM_TEST_SCENE="+scene, "TERM_TEST_TURNS="+filepath.Join(t.TempDir(), "state", "turns"))
	cmd.Stdin, cmd.Stderr = slave, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 0}
	pipe, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if scene == "ask" {
		typed(t, master, "yes, whatever it is\n")
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return master, bufio.NewReader(pipe)
}

// expect reads the screen up to text and returns what stood before it.
func expect(t *testing.T, master io.Reader, text string) string {
	t.Helper()
	var seen strings.Builder
	b := make([]byte, 1)
	for !strings.HasSuffix(seen.String(), text) {
		if _, err := master.Read(b); err != nil {
			t.Fatalf("the terminal shows %q, not %q: %v", seen.String(), text, err)
		}
		seen.Write(b)
	}
	return seen.String()
}

// typed is what a person types.
func typed(t *testing.T, master io.Writer, keys string) {
	t.Helper()
	if _, err := io.WriteString(master, keys); err != nil {
		t.Fatal(err)
	}
}

func line(t *testing.T, r *bufio.Reader) string {
	t.Helper()
	s, err := r.ReadString('\n')
	if err != nil {
		t.Fatalf("after %q: %v", s, err)
	}
	return strings.TrimSuffix(s, "\n")
}

func TestAskDropsWhatWasTypedAhead(t *testing.T) {
	master, out := terminal(t, "ask")
	expect(t, master, "sure? ")
	typed(t, master, "no\n")
	if got, want := line(t, out), `"no" <nil>`; got != want {
		t.Errorf("answer %s, want %s", got, want)
	}
}

// TestAskShowsAgain: the question is shown again to who comes back to a suspended process, because
// other things have been on the screen meanwhile.
func TestAskShowsAgain(t *testing.T) {
	master, out := terminal(t, "back")
	pid, err := strconv.Atoi(line(t, out))
	if err != nil {
		t.Fatal(err)
	}
	expect(t, master, "sure? ")
	// The question is there before the process listens to signals: until it does, none shows it again.
	again := make(chan struct{})
	go func() {
		for tick := time.Tick(10 * time.Millisecond); ; {
			select {
			case <-tick:
				_ = unix.Kill(pid, unix.SIGCONT)
			case <-again:
				return
			}
		}
	}()
	expect(t, master, "sure? ")
	close(again)
	typed(t, master, "no\n")
	if got, want := line(t, out), `"no" <nil>`; got != want {
		t.Errorf("answer %s, want %s", got, want)
	}
}

// TestAlone: while one asks, no other one of the process group shows a question on the terminal.
func TestAlone(t *testing.T) {
	_, out := terminal(t, "two")
	for _, want := range []string{"false enough", "true <nil>"} {
		if got := line(t, out); got != want {
			t.Errorf("asked: %s, want %s", got, want)
		}
	}
}

func TestAskEndsWithItsContext(t *testing.T) {
	master, out := terminal(t, "cancel")
	pid, err := strconv.Atoi(line(t, out))
	if err != nil {
		t.Fatal(err)
	}
	expect(t, master, "sure? ")
	if err := unix.Kill(pid, unix.SIGUSR1); err != nil {
		t.Fatal(err)
	}
	if got, want := line(t, out), `"" enough`; got != want {
		t.Errorf("answer %s, want %s", got, want)
	}
}

// TestAskStoppedTerminal: a terminal that takes nothing delays the end of a question only for some
// time.
func TestAskStoppedTerminal(t *testing.T) {
	_, out := terminal(t, "deaf")
	if got, want := line(t, out), `"" enough`; got != want {
		t.Errorf("answer %s, want %s", got, want)
	}
}

func TestNobodyCanAnswerFromTheBackground(t *testing.T) {
	_, out := terminal(t, "from the background")
	if got := line(t, out); got != "true" {
		t.Errorf("in the background: %s, want ErrNobody", got)
	}
}

func TestNobodyCanAnswerWithoutTerminal(t *testing.T) {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), "TERM_TEST_SCENE=no terminal")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if out, err := cmd.Output(); err != nil || string(out) != "true\n" {
		t.Errorf("without a terminal: %s, %v; want ErrNobody", out, err)
	}
}

// TestPickPanics: a panic leaves the terminal as it was.
func TestPickPanics(t *testing.T) {
	_, out := terminal(t, "pick panics")
	for _, want := range []string{"false", "preview true"} {
		if got := line(t, out); got != want {
			t.Errorf("line %q, want %q", got, want)
		}
	}
}

func TestPrompter(t *testing.T) {
	master, out := terminal(t, "permit")
	const ready = "? for help] "
	screen := expect(t, master, ready)
	if strings.Contains(screen, "\x1b") || !strings.Contains(screen, "jp: run rm (local)?") || !strings.Contains(screen, "evil") {
		t.Errorf("the question is %q", screen)
	}
	for _, step := range []struct {
		keys []string
		want string
	}{
		{[]string{"y"}, fmt.Sprintf(`%d "" <nil>`, tools.AllowOnce)},
		{[]string{"a"}, fmt.Sprintf(`%d "" <nil>`, tools.AllowTurn)},
		{[]string{"n"}, fmt.Sprintf(`%d "" <nil>`, tools.DenyOnce)},
		{[]string{"d"}, fmt.Sprintf(`%d "" <nil>`, tools.DenyTurn)},
		{[]string{"what", "", "p", "y"}, fmt.Sprintf(`%d "" <nil>`, tools.AllowOnce)},
		{[]string{"r", "not now"}, fmt.Sprintf(`%d "not now" <nil>`, tools.DenyOnce)},
		{[]string{"\x04"}, fmt.Sprintf(`%d "" <nil>`, tools.DenyOnce)},
	} {
		for i, key := range step.keys {
			if key != "\x04" {
				key += "\n"
			}
			typed(t, master, key)
			if i == len(step.keys)-1 {
				break
			}
			shown := expect(t, master, map[bool]string{true: "reason: ", false: ready}[key == "r\n"])
			if key == "p\n" && !strings.HasPrefix(strings.TrimPrefix(shown, "p\r\n"), `path = "\x1b[2Jevil"`+"\r\n") {
				t.Errorf("p shows %q", shown)
			}
		}
		if got := line(t, out); got != step.want {
			t.Errorf("after %q: %s, want %s", step.keys, got, step.want)
		}
		if step.keys[0] != "\x04" {
			expect(t, master, ready)
		}
	}
}

// What does not fit is named, and nobody says yes to it before it was shown.
func TestPrompterMuch(t *testing.T) {
	master, out := terminal(t, "permit much")
	const unread, read = "[p/n/d/r, ? for help] ", "[y/a/n/d/p/r, ? for help] "
	screen := expect(t, master, unread)
	for _, want := range []string{`z = "ls" +500 spaces+ "; rm -rf ~ DANGER"`, "bytes of a, ", " bytes of b; p shows it"} {
		if !strings.Contains(screen, want) {
			t.Errorf("the question lacks %q: %s", want, screen)
		}
	}
	for _, key := range []string{"y\n", "a\n", "yes\n"} {
		typed(t, master, key)
		if shown := expect(t, master, unread); !strings.Contains(shown, "not before p: ") {
			t.Errorf("after %q: %s", key, shown)
		}
	}
	typed(t, master, "p\n")
	if shown := expect(t, master, read); strings.Count(shown, "a")-strings.Count(read, "a") < 8000/2 || !strings.Contains(shown, "DANGER") {
		t.Errorf("p shows %d bytes: %s", len(shown), shown)
	}
	const low = 5
	if err := unix.IoctlSetWinsize(int(master.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: low, Col: 80}); err != nil {
		t.Fatal(err)
	}
	typed(t, master, "a\n")
	if got, want := line(t, out), fmt.Sprintf("%d <nil>", tools.AllowTurn); got != want {
		t.Errorf("after p and a: %s, want %s", got, want)
	}
	if shown := strings.TrimPrefix(expect(t, master, unread), "a\r\n"); strings.Count(shown, "\n") >= low {
		t.Errorf("more than a screen of %d rows: %s", low, shown)
	}
	typed(t, master, "n\n")
}
