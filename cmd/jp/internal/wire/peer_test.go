package wire

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"jp/cmd/jp/internal/call"
	"jp/convstore"
	"jp/tools"
	"jp/tools/proc"
)

// patience bounds every wait for something that must happen.
const patience = 2 * time.Minute

// family is a store with a root that has delegated to one child, whose run is reserved.
type family struct {
	store *convstore.Store
	root  *convstore.Log
	res   *convstore.Reservation
	log   *convstore.Log // of the child, as its owner has it
}

// newFamily makes a family. budget is that of the child; the zero one is no limit.
func newFamily(t testing.TB, budget convstore.Budget) *family {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "wire")
	if err != nil {
		dir = t.TempDir()
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	f := &family{}
	ctx := context.Background()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	f.store, err = convstore.Open(filepath.Join(dir, "store"), convstore.Options{})
	must(err)
	c, err := f.store.Create(ctx, convstore.New{Title: "root"})
	must(err)
	f.root, err = f.store.Lock(ctx, c.ID)
	must(err)
	must(f.root.Append(ctx, convstore.Event{Body: convstore.TurnStart{}}, convstore.Event{Body: convstore.UserMessage{Text: "root"}}))
	f.reserve(t, convstore.Child{Call: "c1", Kind: "sub_complete", Title: "child", Profile: "agent/r", Model: "m/child", Grant: convstore.Grant{Budget: budget}})
	t.Cleanup(func() {
		f.settle(t, convstore.StateError)
		must(f.root.Close())
		if err := f.store.Check(ctx); err != nil {
			t.Errorf("the store: %v", err)
		}
	})
	return f
}

func (f *family) reserve(t testing.TB, c convstore.Child) {
	t.Helper()
	rs, err := f.root.Below().Reserve(context.Background(), func(convstore.Standing) ([]convstore.Child, error) { return []convstore.Child{c}, nil })
	if err != nil {
		t.Fatal(err)
	}
	f.res = rs[0]
	if f.log, err = f.root.Below().Log(context.Background(), f.res); err != nil {
		t.Fatal(err)
	}
}

func (f *family) settle(t testing.TB, s convstore.State) convstore.Delegation {
	t.Helper()
	_ = f.log.Close()
	d, err := f.root.Below().Settle(context.Background(), f.res, convstore.Outcome{State: s})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// events returns what the store has of the child.
func (f *family) events(t testing.TB) (list []convstore.Event) {
	t.Helper()
	for ev, err := range f.store.Events(context.Background(), f.res.Child.ID, convstore.Range{}) {
		if err != nil {
			t.Fatal(err)
		}
		list = append(list, ev)
	}
	return list
}

func (f *family) account(t testing.TB) convstore.Account {
	t.Helper()
	a, err := f.store.Account(context.Background(), f.res.Child.ID)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// owner is the Owner of the child.
func (f *family) owner(subs Subagents) Owner {
	return Owner{
		Start: Start{Conversation: f.res.Child, Config: f.log.Taken(), Blank: f.log.Blank(), Account: f.log.Account()},
		Log:   f.log,
		Subagents: func(context.Context) (Subagents, error) {
			if subs == nil {
				return nil, &convstore.ScopeError{ID: 7, Root: 8}
			}
			return subs, nil
		},
		Priced: func(model string) bool { return model == "m/priced" },
	}
}

// link is one wire that is served.
type link struct {
	t      testing.TB
	theirs *os.File
	ours   *os.File
	stop   context.CancelFunc
	ended  chan error
}

// serve serves an Owner over a socketpair.
func serve(t testing.TB, o Owner) *link {
	t.Helper()
	ours, theirs, err := proc.Pair()
	if err != nil {
		t.Fatal(err)
	}
	if theirs, err = pollable(theirs); err != nil { // as in a sub-agent, so that a Close ends a Read
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	l := &link{t: t, ours: ours, theirs: theirs, stop: stop, ended: make(chan error, 1)}
	go func() { l.ended <- Serve(ctx, ours, o) }()
	t.Cleanup(func() {
		l.theirs.Close()
		stop()
	})
	return l
}

// join is Join over the link.
func (l *link) join() *Conn {
	l.t.Helper()
	c, err := Join(l.theirs, nil)
	if err != nil {
		l.t.Fatal(err)
	}
	return c
}

// end waits until Serve has returned.
func (l *link) end() error {
	l.t.Helper()
	select {
	case err := <-l.ended:
		return err
	case <-time.After(patience):
		l.t.Fatal("Serve does not return")
	}
	return nil
}

// close closes the sub-agent's side and waits until Serve has returned.
func (l *link) close() error {
	l.t.Helper()
	l.theirs.Close()
	return l.end()
}

// raw is a sub-agent that sends lines of its own.
type raw struct {
	*link
	in *bufio.Reader
	n  uint64
}

// raw reads the first frame.
func (l *link) raw() *raw {
	l.t.Helper()
	r := &raw{link: l, in: bufio.NewReaderSize(l.theirs, 1<<16)}
	if f := r.read(); f.Start == nil {
		l.t.Fatal("the first frame is not a start")
	}
	return r
}

func (r *raw) read() (f fromOwner) {
	r.t.Helper()
	line, err := r.in.ReadBytes('\n')
	if err == nil {
		err = json.Unmarshal(line, &f)
	}
	if err != nil {
		r.t.Fatalf("%v after %.200q", err, line)
	}
	return f
}

// send sends a line. That the owner does not read it is no failure.
func (r *raw) send(line string) { _, _ = r.theirs.WriteString(line + "\n") }

// ask sends the body of a request under the next number and returns its answer.
func (r *raw) ask(body string) answer {
	r.t.Helper()
	r.n++
	r.send(fmt.Sprintf(`{"n":%d,%s}`, r.n, body))
	f := r.read()
	if f.Answer == nil || f.Answer.N != r.n {
		r.t.Fatalf("%.200s was answered with %+v", body, f)
	}
	return *f.Answer
}

// event returns the JSON of an event with this id.
func event(id string, b convstore.Body) string {
	j, err := json.Marshal(convstore.Event{ID: id, Time: time.Now(), Body: b})
	if err != nil {
		panic(err)
	}
	return string(j)
}

func events(list ...string) string { return `"events":[` + strings.Join(list, ",") + `]` }

func appending(list ...string) string { return `"append":{` + events(list...) + `}` }

// started are the events that begin a turn.
func started() string {
	return appending(event("e1", convstore.TurnStart{}), event("e2", convstore.UserMessage{Text: "q"}))
}

// at returns an Event for each body, with ids that begin with prefix.
func at(prefix string, bodies ...convstore.Body) []convstore.Event {
	list := make([]convstore.Event, len(bodies))
	for i, b := range bodies {
		list[i] = convstore.Event{ID: fmt.Sprint(prefix, i+1), Time: time.Now(), Body: b}
	}
	return list
}

// fake is a Subagents whose methods note what they were given.
type fake struct {
	mu      sync.Mutex
	said    []string
	call    func(context.Context, Call, func([]byte)) (tools.Result, bool, error)
	command func(context.Context, Command, call.Request) (int, error)
}

func (f *fake) note(format string, a ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.said = append(f.said, fmt.Sprintf(format, a...))
}

func (f *fake) Admit(_ context.Context, calls []Call) { f.note("admit %d", len(calls)) }
func (f *fake) Release(context.Context)               { f.note("release") }
func (f *fake) Calls() int                            { return 3 }
func (f *fake) End(_ context.Context, call string)    { f.note("end %s", call) }
func (f *fake) Await(ctx context.Context, calls []string) error {
	f.note("await %q", calls)
	return nil
}

func (f *fake) Call(ctx context.Context, c Call, step func([]byte)) (tools.Result, bool, error) {
	f.note("call %s %s", c.ID, c.Name)
	if f.call != nil {
		return f.call(ctx, c, step)
	}
	return tools.Result{Text: "r"}, false, nil
}

func (f *fake) Command(ctx context.Context, c Command, r call.Request) (int, error) {
	f.note("command %s %s", c.Call, c.Tool)
	if f.command != nil {
		return f.command(ctx, c, r)
	}
	return 0, nil
}

// broken fails the test unless err is a *FrameError whose text contains part.
func broken(t testing.TB, err error, part string) {
	t.Helper()
	var bad *FrameError
	if !errors.As(err, &bad) || !strings.Contains(bad.Error(), part) {
		t.Errorf("Serve = %v, want a FrameError with %q", err, part)
	}
}

// pollable returns another descriptor of f whose reads and writes end when it is closed, and closes
// f.
func pollable(f *os.File) (*os.File, error) {
	fd, err := unix.Dup(int(f.Fd()))
	if err != nil {
		return nil, err
	}
	f.Close()
	err = unix.SetNonblock(fd, true) // before NewFile looks
	return os.NewFile(uintptr(fd), "pollable"), err
}

// shut ends what f writes, and nothing else.
func shut(t testing.TB, f *os.File) {
	t.Helper()
	raw, err := f.SyscallConn()
	if err == nil {
		err = raw.Control(func(fd uintptr) { err = unix.Shutdown(int(fd), unix.SHUT_WR) })
	}
	if err != nil {
		t.Fatal(err)
	}
}
