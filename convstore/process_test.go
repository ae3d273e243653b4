package convstore

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"reflect"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"jp/convstore/internal/db"
	"jp/convstore/internal/file"
)

// The tests of this file run the test binary again, as one of these programs.
var programs = map[string]func(args []string) error{
	"append":  appendProgram,
	"keep":    keepProgram,
	"hold":    holdProgram,
	"parent":  parentProgram,
	"fillup":  fillupProgram,
	"gaps":    gapsProgram,
	"lockrun": lockProgram,
	"slots":   slotsProgram,
	"narrow":  narrowProgram,
}

const programVariable = "CONVSTORE_TEST_PROGRAM"

func TestMain(m *testing.M) {
	if name := os.Getenv(programVariable); name != "" {
		if err := programs[name](os.Args[1:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// process is a program under test. It tells what it has done line by line.
type process struct {
	t     testing.TB
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
}

func start(t testing.TB, program string, files []*os.File, args ...string) *process {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), programVariable+"="+program)
	cmd.ExtraFiles = files
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return &process{t, cmd, in, bufio.NewScanner(out)}
}

// line returns the next line that the program prints, "" at its end.
func (p *process) line() string {
	if p.lines.Scan() {
		return p.lines.Text()
	}
	return ""
}

// expect fails the test unless the program's next line is this one.
func (p *process) expect(want string) {
	p.t.Helper()
	if got := p.line(); got != want {
		p.t.Fatalf("program printed %q, want %q", got, want)
	}
}

// finish lets the program end by itself.
func (p *process) finish() {
	p.t.Helper()
	p.in.Close()
	for p.lines.Scan() {
	}
	if err := p.cmd.Wait(); err != nil {
		p.t.Fatal(err)
	}
}

// kill ends the program as a crash would, and waits until it is gone.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	for p.lines.Scan() {
	}
	_ = p.cmd.Wait()
}

func programStore(args []string) (*Store, ID, error) {
	s, err := Open(args[0], Options{})
	if err != nil {
		return nil, 0, err
	}
	id, err := ParseID(args[1])
	return s, id, err
}

// appendProgram appends batches of one to three events to each of several conversations at once,
// and prints the ids of each batch once the store has acknowledged it.
func appendProgram(args []string) error {
	s, err := Open(args[0], Options{})
	if err != nil {
		return err
	}
	rounds, err := strconv.Atoi(args[1])
	if err != nil {
		return err
	}
	var group errgroup
	for _, name := range args[2:] {
		group.run(func() error {
			id, err := ParseID(name)
			if err != nil {
				return err
			}
			l, err := s.Lock(context.Background(), id)
			if err != nil {
				return err
			}
			for batch := range rounds {
				var events []Event
				var names []string
				for i := range 1 + batch%3 {
					e := Event{ID: NewEventID(), Body: Note{Kind: "batch", Text: fmt.Sprintf("%d of %d: %d", batch, 1+batch%3, i)}}
					events, names = append(events, e), append(names, e.ID)
				}
				if err := l.Append(context.Background(), events...); err != nil {
					return err
				}
				fmt.Println(strings.Join(names, " "))
			}
			return nil
		})
	}
	return group.wait()
}

// errgroup runs functions at once and joins their errors.
type errgroup struct {
	wg   sync.WaitGroup
	mu   sync.Mutex
	errs []error
}

func (g *errgroup) run(fn func() error) {
	g.wg.Go(func() {
		err := fn()
		g.mu.Lock()
		defer g.mu.Unlock()
		g.errs = append(g.errs, err)
	})
}

func (g *errgroup) wait() error {
	g.wg.Wait()
	return errors.Join(g.errs...)
}

// TestKilledWriters kills processes in the middle of their work. Every event that was acknowledged
// is there, every batch is there as a whole or not at all, and the store is sound.
func TestKilledWriters(t *testing.T) {
	for name, test := range map[string]struct{ processes, writers int }{
		"one writer each":           {8, 1},
		"a hundred writers in each": {2, 100},
	} {
		t.Run(name, func(t *testing.T) { killWriters(t, test.processes, test.writers) })
	}
}

func killWriters(t *testing.T, processes, writers int) {
	s := openStore(t)
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	const rounds = 4
	for range rounds {
		acknowledged := make([][]string, processes)
		var all []*process
		of := make([][]ID, processes)
		for i := range processes {
			args := []string{filepath.Dir(s.Path()), "1000000"}
			for range writers {
				c := mustCreate(t, s, New{})
				of[i], args = append(of[i], c.ID), append(args, c.ID.String())
			}
			all = append(all, start(t, "append", nil, args...))
		}
		for i, p := range all {
			for range rnd.IntN(12 * writers) {
				acknowledged[i] = append(acknowledged[i], strings.Fields(p.line())...)
			}
			_ = p.cmd.Process.Kill()
			for p.lines.Scan() { // what it still said was acknowledged too
				acknowledged[i] = append(acknowledged[i], strings.Fields(p.lines.Text())...)
			}
			_ = p.cmd.Wait()
		}
		if err := s.Check(t.Context()); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		for i := range all {
			have := map[string]bool{}
			for _, id := range of[i] {
				batches := map[string]int{}
				for _, e := range mustEvents(t, s.View, id, Range{}) {
					have[e.ID] = true
					batch, _, _ := strings.Cut(e.Body.(Note).Text, ":")
					batches[batch]++
				}
				for batch, n := range batches {
					if !strings.HasSuffix(batch, fmt.Sprint(" of ", n)) {
						t.Errorf("seed %d: process %d: %v: %d events of batch %q", seed, i, id, n, batch)
					}
				}
				if c := mustGet(t, s.View, id); c.Status != StatusNew {
					t.Errorf("seed %d: process %d: %v: status %q after its death, want new", seed, i, id, c.Status)
				}
			}
			for _, want := range acknowledged[i] {
				if !have[want] {
					t.Errorf("seed %d: process %d: event %s was acknowledged, and is gone", seed, i, want)
				}
			}
		}
	}
}

func TestProcessesContend(t *testing.T) {
	s := openStore(t)
	const writers, batches = 4, 60
	var all []*process
	var of []ID
	for range writers {
		c := mustCreate(t, s, New{})
		of = append(of, c.ID)
		all = append(all, start(t, "append", nil, filepath.Dir(s.Path()), fmt.Sprint(batches), c.ID.String()))
	}
	for _, p := range all {
		p.finish()
	}
	for _, id := range of {
		if c := mustGet(t, s.View, id); c.Events != 2*batches {
			t.Errorf("%v has %d events, want %d", id, c.Events, 2*batches)
		}
	}
}

// holdProgram keeps the store open for writing until its input ends.
func holdProgram(args []string) error {
	s, err := Open(args[0], Options{})
	if err != nil {
		return err
	}
	return s.f.write(context.Background(), func(*tx) error {
		fmt.Println("held")
		_, _ = io.Copy(io.Discard, os.Stdin)
		return db.ErrUnchanged
	})
}

func TestBusyStore(t *testing.T) {
	dir := filepath.Join(memoryDir(t), "store")
	s := openStoreIn(t, dir, Options{Deadline: 20 * time.Millisecond})
	c := mustCreate(t, s, New{})
	p := start(t, "hold", nil, dir)
	p.expect("held")
	for what, call := range map[string]func() error{
		"Get":    func() error { _, err := s.Get(t.Context(), c.ID); return err },
		"Create": func() error { _, err := s.Create(t.Context(), New{}); return err },
	} {
		err := call()
		var busy *BusyError
		if !errors.As(err, &busy) || busy.ID != 0 || busy.Waited < s.f.Deadline {
			t.Fatalf("%s: error %v, want a *BusyError after the deadline", what, err)
		}
		checkHolder(t, what, busy.Holder, p)
	}
	// Ending the context ends the wait, with its cause.
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if _, err := s.Get(ctx, c.ID); !errors.Is(err, cause) {
		t.Errorf("Get with an ended context: %v, want %v", err, cause)
	}
	p.finish()
	// The grants that came too late were dropped.
	patient := openStoreIn(t, dir, Options{})
	if _, err := patient.Create(t.Context(), New{}); err != nil {
		t.Error(err)
	}
}

// TestStoppedBeforeItBegan: a run that is stopped before its turn is stored does not wait for the
// store.
func TestStoppedBeforeItBegan(t *testing.T) {
	dir := filepath.Join(memoryDir(t), "store")
	s := openStoreIn(t, dir, Options{Deadline: time.Hour})
	c := mustCreate(t, s, New{})
	l := mustLock(t, s, c.ID)
	start(t, "hold", nil, dir).expect("held")
	ctx, stop := context.WithCancelCause(t.Context())
	why := errors.New("Ctrl-C")
	stop(why)
	if err := l.Append(ctx, Event{Body: TurnStart{}}, Event{Body: UserMessage{Text: "?"}}); !errors.Is(err, why) {
		t.Errorf("Append = %v, want %v", err, why)
	}
	brief, end := Briefly(ctx)
	defer end()
	if _, err := s.Get(brief, c.ID); !errors.Is(err, why) {
		t.Errorf("Get = %v, want %v", err, why)
	}
}

// TestPatientRun: what a run has done waits for the store longer than others do. It is told of, and
// by whom the store is held. A run that is being stopped waits until the deadline.
func TestPatientRun(t *testing.T) {
	dir := filepath.Join(memoryDir(t), "store")
	const deadline = 20 * time.Millisecond
	notices := make(chan string, 8)
	s := openStoreIn(t, dir, Options{Deadline: deadline, Notice: func(text string) { notices <- text }})
	s.f.Remark = 3 * deadline
	c := mustCreate(t, s, New{})
	l := mustLock(t, s, c.ID)
	if err := l.Append(t.Context(), Event{Body: TurnStart{}}); err != nil {
		t.Fatal(err)
	}
	rs, err := l.Below().Reserve(t.Context(), admit(Child{Call: "a"}))
	if err != nil {
		t.Fatal(err)
	}
	for what, call := range map[string]func(context.Context) error{
		"Append": func(ctx context.Context) error { return l.Append(ctx, Event{Body: AssistantMessage{Text: "a"}}) },
		"Settle": func(ctx context.Context) error {
			_, err := l.Below().Settle(ctx, rs[0], Outcome{State: StateOK})
			return err
		},
	} {
		p := start(t, "hold", nil, dir)
		p.expect("held")
		stopped, stop := context.WithCancel(t.Context())
		stop()
		var busy *BusyError
		for _, ctx := range []context.Context{stopped, context.Background()} {
			if err := call(ctx); !errors.As(err, &busy) || busy.Waited < deadline || busy.Reads {
				t.Fatalf("%s of a run that was stopped: %v, want a *BusyError after the deadline", what, err)
			}
		}
		for len(notices) > 0 { // on a busy machine the deadline passes late
			<-notices
		}
		done := make(chan error)
		go func() { done <- call(t.Context()) }()
		text := <-notices // much later than the deadline
		if want := fmt.Sprintf("the store is busy: waiting for process %d (", p.cmd.Process.Pid); runtime.GOOS == "linux" && !strings.HasPrefix(text, want) {
			t.Errorf("%s: notice %q, want %q...", what, text, want)
		}
		p.finish()
		if err := <-done; err != nil {
			t.Errorf("%s, when the store was free again: %v", what, err)
		}
	}
	// A reader is named as that.
	reader, err := os.Open(s.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = reader.Close() }()
	if err := file.Flock(reader, unix.LOCK_SH); err != nil {
		t.Fatal(err)
	}
	_, err = s.Create(t.Context(), New{})
	var busy *BusyError
	if !errors.As(err, &busy) || runtime.GOOS == "linux" && !busy.Reads {
		t.Errorf("Create beside a reader: %#v, want a *BusyError of one", err)
	}
}

// TestStoppedOnce: what a run that was stopped has left to store waits for the store once, and not
// at each step. A child of a run that goes on is no reason to hurry that.
func TestStoppedOnce(t *testing.T) {
	dir := filepath.Join(memoryDir(t), "store")
	const deadline = 2 * time.Second // much longer than a short wait
	s := openStoreIn(t, dir, Options{Deadline: deadline})
	c := mustCreate(t, s, New{})
	l := mustLock(t, s, c.ID)
	if err := l.Append(t.Context(), Event{Body: TurnStart{}}); err != nil {
		t.Fatal(err)
	}
	rs, err := l.Below().Reserve(t.Context(), admit(Child{Call: "a"}))
	if err != nil {
		t.Fatal(err)
	}
	p := start(t, "hold", nil, dir)
	p.expect("held")
	stopped, stop := context.WithCancel(t.Context())
	stop()
	waits := func(err error) time.Duration {
		var busy *BusyError
		if !errors.As(err, &busy) {
			t.Fatalf("%v, want a *BusyError", err)
		}
		return busy.Waited
	}
	if w := waits(l.Append(stopped, Event{Body: AssistantMessage{Text: "a"}})); w < deadline {
		t.Errorf("the first step waited %v, want at least %v", w, deadline)
	}
	reads, end := Outlast(stopped)
	defer end()
	_, got := s.Get(reads, c.ID)
	_, settled := l.Below().Settle(stopped, rs[0], Outcome{State: StateOK})
	for what, err := range map[string]error{"a read": got, "Settle": settled, "Append": l.Append(stopped, Event{Body: TurnEnd{State: StateOK}})} {
		if w := waits(err); w >= deadline {
			t.Errorf("%s after it waited %v, want less than %v", what, w, deadline)
		}
	}
	if w := waits(func() error { _, err := s.Get(t.Context(), c.ID); return err }()); w < deadline {
		t.Errorf("what was not stopped waited %v, want at least %v", w, deadline)
	}
	p.finish()
	if err := l.Append(stopped, Event{Body: AssistantMessage{Text: "a"}}); err != nil {
		t.Errorf("when the store is free again: %v", err)
	}
	p = start(t, "hold", nil, dir)
	p.expect("held")
	if w := waits(l.Append(stopped, Event{Body: AssistantMessage{Text: "b"}})); w < deadline {
		t.Errorf("when it is held again, the first step waited %v, want at least %v", w, deadline)
	}
	p.finish()
}

// TestGone: a store that is removed, or whose folder is, while it is in use is no empty one, and is
// not made anew.
func TestGone(t *testing.T) {
	for what, remove := range map[string]func(s *Store) error{
		"the file":   func(s *Store) error { return os.Rename(s.Path(), s.Path()+".away") },
		"the folder": func(s *Store) error { return os.Rename(s.f.Dir, s.f.Dir+".away") },
	} {
		t.Run(what, func(t *testing.T) {
			s, err := Open(filepath.Join(memoryDir(t), "store"), Options{})
			if err != nil {
				t.Fatal(err)
			}
			l := mustLock(t, s, mustCreate(t, s, New{}).ID)
			if err := remove(s); err != nil {
				t.Fatal(err)
			}
			for what, call := range map[string]func() error{
				"Append": func() error { return l.Append(t.Context(), Event{Body: TurnStart{}}) },
				"Get":    func() error { _, err := l.Get(t.Context()); return err },
				"Create": func() error { _, err := s.Create(t.Context(), New{}); return err },
				"List":   func() error { _, err := s.List(t.Context(), Filter{}); return err },
				"Check":  func() error { return s.Check(t.Context()) },
			} {
				if err := call(); !errors.Is(err, ErrGone) {
					t.Errorf("%s = %v, want ErrGone", what, err)
				}
			}
			if _, err := os.Lstat(s.Path()); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("another store was made: %v", err)
			}
		})
	}
}

// checkHolder fails the test unless the holder is that process, as far as the system tells.
func checkHolder(t *testing.T, what, holder string, p *process) {
	t.Helper()
	if want := fmt.Sprintf("process %d (", p.cmd.Process.Pid); runtime.GOOS == "linux" && !strings.HasPrefix(holder, want) {
		t.Errorf("%s: held by %q, want %q...", what, holder, want)
	}
}

// lockProgram holds a conversation's run lock until its input ends.
func lockProgram(args []string) error {
	s, id, err := programStore(args)
	if err != nil {
		return err
	}
	l, err := s.Lock(context.Background(), id)
	if err != nil {
		return err
	}
	fmt.Println("locked")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return l.Close()
}

func TestRunLockOfAnotherProcess(t *testing.T) {
	s := openStore(t)
	c, other := mustCreate(t, s, New{}), mustCreate(t, s, New{})
	p := start(t, "lockrun", nil, filepath.Dir(s.Path()), c.ID.String())
	p.expect("locked")
	_, err := s.Lock(t.Context(), c.ID)
	var busy *BusyError
	if !errors.As(err, &busy) || busy.ID != c.ID || busy.Waited != 0 {
		t.Fatalf("Lock: error %v, want a *BusyError of %v", err, c.ID)
	}
	checkHolder(t, "Lock", busy.Holder, p)
	for id, want := range map[ID]Status{c.ID: StatusRunning, other.ID: StatusNew} {
		if got := mustGet(t, s.View, id).Status; got != want {
			t.Errorf("status of %v is %q, want %q", id, got, want)
		}
	}
	list, err := s.List(t.Context(), Filter{})
	if err != nil || list[0].Status != StatusRunning || list[1].Status != StatusNew {
		t.Errorf("List: %v, statuses %q and %q", err, list[0].Status, list[1].Status)
	}
	if _, err := s.Remove(t.Context(), c.ID, RemoveOptions{Cascade: true}); !errors.As(err, &busy) {
		t.Errorf("Remove: error %v, want a *BusyError", err)
	}
	mustLock(t, s, other.ID)
	p.kill()
	mustLock(t, s, c.ID)
}

// keepProgram is the process of a child: it keeps the run lock that it has inherited until its
// input ends.
func keepProgram([]string) error {
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

// The points at which parentProgram is killed.
const (
	atReserved = "reserved" // no process was started
	atBegun    = "begun"    // the child's process works on its turn
	atAnswered = "answered" // the turn has ended, and the process has not
	atEnded    = "ended"    // the process has ended too
)

// parentProgram delegates, appends to the child's log what its process says, and is killed before
// it settles. The input of that process is descriptor 3.
func parentProgram(args []string) error {
	s, id, err := programStore(args)
	if err != nil {
		return err
	}
	ctx, point := context.Background(), args[2]
	l, err := s.Lock(ctx, id)
	if err != nil {
		return err
	}
	if err := l.Append(ctx, Event{Body: TurnStart{}}); err != nil {
		return err
	}
	rs, err := l.Below().Reserve(ctx, admit(Child{Call: "call", Title: "child"}))
	if err != nil {
		return err
	}
	if point != atReserved {
		child, err := l.Below().Log(ctx, rs[0])
		if err != nil {
			return err
		}
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), programVariable+"=keep")
		lock, err := rs[0].LockFile()
		if err != nil {
			return err
		}
		cmd.ExtraFiles = []*os.File{lock}
		cmd.Stdin, cmd.Stderr = os.NewFile(3, "input"), os.Stderr
		if point == atEnded {
			cmd.Stdin = nil
		}
		if err := errors.Join(cmd.Start(), lock.Close()); err != nil {
			return err
		}
		if err := child.Append(ctx, Event{Body: TurnStart{}},
			Event{Body: ModelCall{Usage: Usage{Input: 10, Output: 4}, CostNano: new(int64)}}); err != nil {
			return err
		}
		if point != atBegun {
			if err := child.Append(ctx, Event{Body: TurnEnd{State: StateOK}}); err != nil {
				return err
			}
		}
		if point == atEnded {
			if err := cmd.Wait(); err != nil {
				return err
			}
		}
	}
	fmt.Println(rs[0].Child.ID)
	_, _ = io.Copy(io.Discard, os.Stdin)
	return errors.New("nobody killed the parent")
}

// TestKilledParent kills the caller of a delegation at each point on its way. As long as the
// child's process lives nobody else runs its conversation, and the delegation is open.
func TestKilledParent(t *testing.T) {
	used := Usage{Input: 10, Output: 4}
	for _, test := range []struct {
		point string
		state State // of the child, once the processes are gone, and of the delegation
		usage Usage
	}{
		{atReserved, StateLost, Usage{}},
		{atBegun, StateLost, used},
		{atAnswered, StateOK, used},
		{atEnded, StateOK, used},
	} {
		t.Run(test.point, func(t *testing.T) {
			s := openStore(t)
			c := mustCreate(t, s, New{})
			theirs, input, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			defer input.Close()
			p := start(t, "parent", []*os.File{theirs}, filepath.Dir(s.Path()), c.ID.String(), test.point)
			theirs.Close()
			child, err := ParseID(p.line())
			if err != nil {
				t.Fatal(err)
			}
			open := func() Delegation {
				t.Helper()
				ds, err := s.Delegations(t.Context(), c.ID)
				if err != nil || len(ds) != 1 || ds[0].Child != child || ds[0].Call != "call" {
					t.Fatalf("Delegations = %+v, %v", ds, err)
				}
				return ds[0]
			}
			if d := open(); d.State != "" {
				t.Errorf("the delegation is %q while it runs", d.State)
			}
			p.kill()
			l := mustLock(t, s, c.ID)
			if test.point == atBegun || test.point == atAnswered {
				if _, err := s.Lock(t.Context(), child); busyID(err) != child {
					t.Errorf("Lock of a child whose process lives: %v", err)
				}
				rs, err := l.Below().Reserve(t.Context(), admit(Child{Call: "call"}))
				if err != nil || !rs[0].Existed || rs[0].Delegation.State != "" {
					t.Errorf("reserved again while its process lives: %+v, %v", rs, err)
				}
			}
			input.Close() // so that the child's process ends; the lock tells when
			for {
				run, err := s.Lock(t.Context(), child)
				if err == nil {
					_ = run.Close()
					break
				}
				if busyID(err) != child {
					t.Fatal(err)
				}
			}
			if got := mustGet(t, s.View, child).Status; got != Status(test.state) {
				t.Errorf("child is %q, want %q", got, test.state)
			}
			if got := mustGet(t, s.View, c.ID).Status; got != StatusRunning {
				t.Errorf("caller is %q, want running", got)
			}
			_ = l.Close()
			if d := open(); d.State != test.state {
				t.Errorf("the delegation reads %q, want %q", d.State, test.state)
			}
			// The caller goes on and asks for the same call again.
			l = mustLock(t, s, c.ID)
			unstarted := test.point == atReserved // it is made again then, and counts for nothing until then
			counts := 1
			if unstarted {
				counts = 0
			}
			rs, err := l.Below().Reserve(t.Context(), func(st Standing) ([]Child, error) {
				d, ok := st.Existing("call")
				if !ok || d.State != test.state || d.Unstarted != unstarted || st.Calls != counts || st.Children != counts {
					t.Errorf("standing: existing %+v, calls %d, children %d", d, st.Calls, st.Children)
				}
				return []Child{{Call: "call", Title: "child"}}, nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if unstarted {
				madeAgain(t, s, l, rs[0], child)
				return
			}
			if r := rs[0]; !r.Existed || hasLock(r) || r.Child.ID != child || r.Delegation.State != test.state || r.Delegation.Own.Usage != test.usage {
				t.Errorf("reserved again: %+v", r)
			}
			if got := mustGet(t, s.View, child).Status; got != Status(test.state) {
				t.Errorf("child is %q after that, want %q", got, test.state)
			}
		})
	}
}

// madeAgain holds a delegation of a new child that was reserved a second time to what the first
// came to: nothing.
func madeAgain(t *testing.T, s *Store, l *Log, r *Reservation, child ID) {
	t.Helper()
	d := r.Delegation
	if r.Existed || !hasLock(r) || r.Child.ID != child || d.Child != child || d.State != "" || !d.Fresh || d.Unstarted || d.Number != 2 || len(mustDelegations(t, s, l.ID())) != 1 {
		t.Errorf("reserved again: %+v", r)
	}
	if got := mustGet(t, s.View, child).Status; got != StatusQueued {
		t.Errorf("child is %q after that, want queued", got)
	}
	if _, err := l.Below().Settle(t.Context(), r, Outcome{State: StateOK}); err != nil {
		t.Fatal(err)
	}
	rs, err := l.Below().Reserve(t.Context(), func(st Standing) ([]Child, error) {
		if st.Calls != 1 || st.Children != 1 {
			t.Errorf("made again it is %d calls and %d children, want one", st.Calls, st.Children)
		}
		return []Child{{Call: "call"}}, nil
	})
	if err != nil || !rs[0].Existed || rs[0].Delegation.State != StateOK {
		t.Errorf("reserved a third time: %+v, %v", rs, err)
	}
}

func mustLockFile(t *testing.T, r *Reservation) *os.File {
	t.Helper()
	lock, err := r.LockFile()
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

// hasLock reports whether a reservation has the run lock of its child.
func hasLock(r *Reservation) bool {
	lock, err := r.LockFile()
	return err == nil && lock.Close() == nil
}

// TestKilledChild settles a delegation whose process was killed in the middle of its turn, and one
// whose process was never started.
func TestKilledChild(t *testing.T) {
	s := openStore(t)
	root := mustCreate(t, s, New{})
	l := mustLock(t, s, root.ID)
	mustAppend(t, l, TurnStart{})
	rs, err := l.Below().Reserve(t.Context(), admit(Child{Call: "a"}, Child{Call: "b"}))
	if err != nil {
		t.Fatal(err)
	}
	a, b := rs[0], rs[1]
	if got := mustGet(t, s.View, a.Child.ID).Status; got != StatusQueued {
		t.Errorf("reserved child is %q, want queued", got)
	}
	lock := mustLockFile(t, a)
	p := start(t, "keep", []*os.File{lock})
	lock.Close()
	child, err := l.Below().Log(t.Context(), a)
	if err != nil {
		t.Fatal(err)
	}
	mustAppend(t, child, TurnStart{}, ModelCall{Usage: Usage{Input: 10, Output: 4}, CostNano: new(int64)})
	if got := mustGet(t, s.View, a.Child.ID).Status; got != StatusRunning {
		t.Errorf("child is %q, want running", got)
	}
	if _, err := s.Lock(t.Context(), a.Child.ID); busyID(err) != a.Child.ID {
		t.Errorf("Lock of a running child: %v", err)
	}
	p.kill()
	if err := child.Close(); err != nil {
		t.Fatal(err)
	}
	// The child has ended, the parent has not settled.
	if _, err := s.Lock(t.Context(), a.Child.ID); busyID(err) != a.Child.ID {
		t.Errorf("Lock of an unsettled child: %v", err)
	}
	d, err := l.Below().Settle(t.Context(), a, Outcome{State: StateKilled, Reason: "signal 9", PID: p.cmd.Process.Pid, Started: time.Now()})
	if err != nil || d.State != StateKilled || d.PID != p.cmd.Process.Pid || d.Started.IsZero() || d.Total.Usage != (Usage{Input: 10, Output: 4}) {
		t.Errorf("Settle = %+v, %v", d, err)
	}
	again, err := l.Below().Settle(t.Context(), a, Outcome{State: StateOK})
	if err != nil || !reflect.DeepEqual(again, d) {
		t.Errorf("settled again: %+v, %v, want %+v", again, err, d)
	}
	if c := mustGet(t, s.View, a.Child.ID); c.Status != Status(StateKilled) || c.Reason != "signal 9" || c.Usage != (Usage{Input: 10, Output: 4}) {
		t.Errorf("settled child: %+v", c)
	}
	mustLock(t, s, a.Child.ID)
	if _, err := l.Below().Settle(t.Context(), b, Outcome{}); err == nil {
		t.Error("settled without a state")
	}
	if err := b.Release(); err != nil {
		t.Error(err)
	}
}

// TestRunLockIsFreeAtOnce frees run locks while other goroutines start processes, each of which has
// for an instant a copy of every descriptor.
func TestRunLockIsFreeAtOnce(t *testing.T) {
	s := openStore(t)
	root := mustCreate(t, s, New{})
	l := mustLock(t, s, root.ID)
	stop := make(chan struct{})
	var starters sync.WaitGroup
	for range 4 {
		starters.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					if err := exec.Command("true").Run(); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	defer starters.Wait()
	defer close(stop)
	for i := range 100 {
		rs, err := l.Below().Reserve(t.Context(), admit(Child{Call: fmt.Sprint(i)}))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := l.Below().Settle(t.Context(), rs[0], Outcome{State: StateOK}); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			run, err := s.Lock(t.Context(), rs[0].Child.ID)
			if err != nil {
				t.Fatalf("round %d: %v", i, err)
			}
			if err := run.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func busyID(err error) ID {
	var busy *BusyError
	if !errors.As(err, &busy) {
		return 0
	}
	return busy.ID
}

// fillupProgram appends until the disk, which its limit on file sizes stands for, is full, and
// prints how many events were acknowledged.
func fillupProgram(args []string) error {
	s, id, err := programStore(args)
	if err != nil {
		return err
	}
	l, err := s.Lock(context.Background(), id)
	if err != nil {
		return err
	}
	limit := syscall.Rlimit{Cur: 256 << 10, Max: 256 << 10}
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &limit); err != nil {
		return err
	}
	signal.Ignore(syscall.SIGXFSZ) // a write beyond the limit shall fail, and not end the process
	for n := 0; ; n++ {
		err := l.Append(context.Background(), Event{Body: UserMessage{Text: strings.Repeat("x", 3000)}})
		if err != nil {
			fmt.Println(n)
			fmt.Println(err)
			return nil
		}
	}
}

// narrowProgram uses the store with too little address space for a mapping of it.
func narrowProgram(args []string) error {
	s, err := Open(args[0], Options{})
	if err != nil {
		return err
	}
	if err := narrow(4 << 20); err != nil {
		return err
	}
	_, err = s.Create(context.Background(), New{})
	fmt.Println(err)
	return nil
}

// narrow bounds the address space of this process: what it has now, and so many bytes more. Linux
// says what it has.
func narrow(more uint64) error {
	statm, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return err
	}
	pages, err := strconv.ParseUint(strings.Fields(string(statm))[0], 10, 64)
	var limit unix.Rlimit
	if err == nil {
		err = unix.Getrlimit(unix.RLIMIT_AS, &limit)
	}
	if err != nil {
		return err
	}
	limit.Cur = min(pages*uint64(os.Getpagesize())+more, limit.Max)
	return unix.Setrlimit(unix.RLIMIT_AS, &limit)
}

// TestNarrow: a store that cannot be mapped is not called damaged.
func TestNarrow(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the limit is one of Linux")
	}
	s := openStore(t)
	l := mustLock(t, s, mustCreate(t, s, New{}).ID)
	mustAppend(t, l, Note{Text: strings.Repeat("a", 16<<20)})
	p := start(t, "narrow", nil, filepath.Dir(s.Path()))
	p.expect("store " + s.Path() + ": cannot allocate memory")
	p.finish()
}

func TestFullDisk(t *testing.T) {
	s := openStore(t)
	c := mustCreate(t, s, New{})
	p := start(t, "fillup", nil, filepath.Dir(s.Path()), c.ID.String())
	n, err := strconv.Atoi(p.line())
	if err != nil || n < 10 {
		t.Fatalf("%d appends went through, %v", n, err)
	}
	if want := fmt.Sprintf("store %s: nothing was written: ", s.Path()); !strings.HasPrefix(p.line(), want) {
		t.Errorf("error %q, want %q...", p.lines.Text(), want)
	}
	p.finish()
	if got := len(mustEvents(t, s.View, c.ID, Range{})); got != n {
		t.Errorf("%d events, want the %d that were acknowledged", got, n)
	}
	mustAppend(t, mustLock(t, s, c.ID), Note{Text: "there is room again"})
}
