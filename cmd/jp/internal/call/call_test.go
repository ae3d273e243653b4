package call

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"
)

// open serves handle and returns what a tool would be given.
func open(t *testing.T, handle Handler) (*Line, string) {
	t.Helper()
	l, err := Open(t.Context(), handle)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.Close)
	return l, strconv.Itoa(int(l.Socket().Fd()))
}

// echo answers with its arguments, its stdin where the first argument says so, and a status.
func echo(_ context.Context, r Request) int {
	fmt.Fprintf(r.Stdout, "%q\n", r.Args)
	if len(r.Args) > 0 && r.Args[0] == "in" {
		b, err := io.ReadAll(r.Stdin)
		fmt.Fprintf(r.Stdout, "%d %v\n", len(b), err)
	}
	fmt.Fprint(r.Stderr, "said\n")
	return 3
}

type failingReader struct{ t *testing.T }

func (r failingReader) Read([]byte) (int, error) {
	r.t.Error("stdin is read though nobody wants it")
	return 0, io.EOF
}

func TestAsk(t *testing.T) {
	_, fd := open(t, echo)
	for _, tt := range []struct {
		args  []string
		stdin io.Reader
		out   string
	}{
		{nil, failingReader{t}, "[]\n"},
		{[]string{"a", "", "b c\n\xff"}, failingReader{t}, `["a" "" "b c\n\xff"]` + "\n"},
		{[]string{"in"}, strings.NewReader(""), "[\"in\"]\n0 <nil>\n"},
		{[]string{"in"}, strings.NewReader(strings.Repeat("x", 3*maxChunk+1)), "[\"in\"]\n196609 <nil>\n"},
		{[]string{"in"}, strings.NewReader(strings.Repeat("x", MaxInput)), "[\"in\"]\n4194304 <nil>\n"},
	} {
		var out, errOut bytes.Buffer
		status, err := Ask(fd, tt.args, tt.stdin, &out, &errOut)
		if status != 3 || err != nil || out.String() != tt.out || errOut.String() != "said\n" {
			t.Errorf("Ask(%q) = %d, %v, %q, %q; want 3, %q", tt.args, status, err, out.String(), errOut.String(), tt.out)
		}
	}
	var out bytes.Buffer
	if _, err := Ask(fd, []string{"in"}, strings.NewReader(strings.Repeat("x", MaxInput+maxChunk)), &out, io.Discard); err != nil ||
		!strings.HasSuffix(out.String(), " more than 4 MiB\n") {
		t.Errorf("with too much stdin: %v, %.100q", err, out.String())
	}
	if _, err := Ask(fd, []string{strings.Repeat("x", MaxArgs)}, nil, io.Discard, io.Discard); err == nil {
		t.Error("too many arguments were sent")
	}
	if _, err := Ask(fd, []string{"a\x00b"}, nil, io.Discard, io.Discard); err == nil {
		t.Error("a NUL byte was sent")
	}
}

// More ask at once, over the one socket, than are served at once: each gets its own answer.
func TestManyAtOnce(t *testing.T) {
	var mu sync.Mutex
	var now, most int
	_, fd := open(t, func(ctx context.Context, r Request) int {
		mu.Lock()
		now++
		most = max(most, now)
		mu.Unlock()
		b, _ := io.ReadAll(r.Stdin)
		fmt.Fprintf(r.Stdout, "%s:%s", r.Args[0], b)
		mu.Lock()
		now--
		mu.Unlock()
		return len(r.Args[0])
	})
	var all sync.WaitGroup
	for i := range 60 {
		all.Go(func() {
			name := strings.Repeat("n", i+1)
			var out bytes.Buffer
			status, err := Ask(fd, []string{name}, strings.NewReader(strconv.Itoa(i)), &out, io.Discard)
			if want := name + ":" + strconv.Itoa(i); status != i+1 || err != nil || out.String() != want {
				t.Errorf("Ask = %d, %v, %q; want %d, %q", status, err, out.String(), i+1, want)
			}
		})
	}
	all.Wait()
	if most > Lines {
		t.Errorf("%d were served at once, want at most %d", most, Lines)
	}
}

// TestManyWait has as many wait as many a tree may have sub-agents: how many work, this package
// does not decide.
func TestManyWait(t *testing.T) {
	const many = 64
	var began sync.WaitGroup
	began.Add(many)
	_, fd := open(t, func(context.Context, Request) int {
		began.Done()
		began.Wait()
		return 4
	})
	var all sync.WaitGroup
	for range many {
		all.Go(func() {
			if status, err := Ask(fd, nil, nil, io.Discard, io.Discard); status != 4 || err != nil {
				t.Errorf("Ask = %d, %v", status, err)
			}
		})
	}
	all.Wait()
}

// TestSumIsBounded has commands keep together more than a call may: some fail, and when they have
// ended there is room again.
func TestSumIsBounded(t *testing.T) {
	const many = maxSum/MaxOutput + 6
	var wrote atomic.Int64
	var full *sync.WaitGroup
	_, fd := open(t, func(_ context.Context, r Request) int {
		for range MaxOutput >> 20 {
			if _, err := r.Stdout.Write(make([]byte, 1<<20)); err == nil {
				wrote.Add(1 << 20)
			}
		}
		full.Done()
		full.Wait()
		return 0
	})
	for range 2 {
		wrote.Store(0)
		full = &sync.WaitGroup{}
		full.Add(many)
		var all sync.WaitGroup
		for range many {
			all.Go(func() {
				if _, err := Ask(fd, nil, nil, io.Discard, io.Discard); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if got := wrote.Load(); got > maxSum || got < maxSum-1<<20 {
			t.Errorf("all kept %d bytes, want nearly %d", got, maxSum)
		}
	}
}

// TestManyArguments has commands of as many arguments as there can be come together. Each argument
// takes more than its text.
func TestManyArguments(t *testing.T) {
	const many = 12
	held, came := make(chan struct{}), make(chan bool, 2*many)
	_, fd := open(t, func(_ context.Context, r Request) int {
		came <- true
		<-held
		return 0
	})
	args := make([]string, MaxArgs)
	var all sync.WaitGroup
	for range many {
		all.Go(func() {
			var errOut bytes.Buffer
			status, err := Ask(fd, args, nil, io.Discard, &errOut)
			if err != nil {
				t.Error(err)
			}
			if status != 0 {
				if want := "jp: more than 112 MiB in the commands of this call\n"; status != 1 || errOut.String() != want {
					t.Errorf("Ask = %d, %q, want %q", status, &errOut, want)
				}
				came <- false
			}
		})
	}
	ran := 0
	for range many {
		if <-came {
			ran++
		}
	}
	close(held)
	all.Wait()
	if most := maxSum / (MaxArgs * 16); ran == 0 || ran > most {
		t.Errorf("%d of %d ran, want at most %d", ran, many, most)
	}
}

// What is too large to be kept fails the command that writes it.
func TestOutputIsBounded(t *testing.T) {
	_, fd := open(t, func(_ context.Context, r Request) int {
		chunk := bytes.Repeat([]byte("x"), 1<<20)
		for range MaxOutput >> 20 {
			if _, err := r.Stdout.Write(chunk); err != nil {
				return 9
			}
		}
		if _, err := r.Stdout.Write([]byte("y")); err == nil {
			return 8
		}
		return 1
	})
	var out bytes.Buffer
	if status, err := Ask(fd, nil, nil, &out, io.Discard); status != 1 || err != nil || out.Len() != MaxOutput {
		t.Errorf("Ask = %d, %v with %d bytes", status, err, out.Len())
	}
}

// A jp inside that goes away ends what it asked for, and nothing else.
func TestHangUp(t *testing.T) {
	began, ended := make(chan struct{}), make(chan error, 1)
	_, fd := open(t, func(ctx context.Context, r Request) int {
		if len(r.Args) > 0 {
			return 5
		}
		close(began)
		<-ctx.Done()
		ended <- context.Cause(ctx)
		return 0
	})
	conn, err := connect(fd)
	if err != nil {
		t.Fatal(err)
	}
	if err := writeFrame(conn, frameArgs, nil); err != nil {
		t.Fatal(err)
	}
	<-began
	conn.Close()
	if err := <-ended; !errors.Is(err, errGone) {
		t.Errorf("the cause is %v", err)
	}
	if status, err := Ask(fd, []string{"x"}, nil, io.Discard, io.Discard); status != 5 || err != nil {
		t.Errorf("the next one: %d, %v", status, err)
	}
}

// The end of the call ends everything, with peers that speak, wait, or read nothing; and what still
// has the socket then is told so.
func TestClose(t *testing.T) {
	var began sync.WaitGroup
	began.Add(2)
	l, fd := open(t, func(ctx context.Context, r Request) int {
		began.Done()
		if r.Args[0] == "much" {
			_, _ = r.Stdout.Write(bytes.Repeat([]byte("x"), MaxOutput))
			return 0 // and is sent to one who does not read
		}
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), ErrEnded) {
			t.Errorf("the cause is %v", context.Cause(ctx))
		}
		return 0
	})
	asked := make(chan error)
	go func() {
		_, err := Ask(fd, []string{"waits"}, nil, io.Discard, io.Discard)
		asked <- err
	}()
	deaf, err := connect(fd)
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	if err := writeFrame(deaf, frameArgs, []byte("much\x00")); err != nil {
		t.Fatal(err)
	}
	silent, err := connect(fd)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	began.Wait()
	kept, err := unix.Dup(int(l.Socket().Fd()))
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if err := <-asked; !errors.Is(err, ErrEnded) {
		t.Errorf("who waited was told %v", err)
	}
	if _, err := Ask(strconv.Itoa(kept), nil, nil, io.Discard, io.Discard); !errors.Is(err, ErrEnded) {
		t.Errorf("over a socket that was kept: %v", err)
	}
	unix.Close(kept)
	l.Close() // again does nothing
}

// Nonsense on a connection ends that; on the inherited socket it ends that.
func TestGarbage(t *testing.T) {
	ran := 0
	l, fd := open(t, func(_ context.Context, r Request) int { ran++; return 7 })
	for _, garbage := range [][]byte{
		[]byte("GET / HTTP/1.1\r\n\r\n"),
		{frameArgs, 0xff, 0xff, 0xff, 0xff},
		{frameArgs, 0, 0x10, 0, 1},
		append([]byte{frameArgs, 0, 0, 0, 3}, "abc"...),
		{frameInput, 0, 0, 0, 0},
		{frameExit, 0, 0, 0, 1, 0},
		{frameArgs, 0, 0},
		{},
	} {
		conn, err := connect(fd)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write(garbage); err != nil {
			t.Fatal(err)
		}
		if err := unix.Shutdown(int(conn.Fd()), unix.SHUT_WR); err != nil {
			t.Fatal(err)
		}
		if b, err := io.ReadAll(conn); len(b) != 0 || err != nil && !errors.Is(err, unix.ECONNRESET) {
			t.Errorf("%q was answered with %q, %v", garbage, b, err)
		}
		conn.Close()
	}
	if ran != 0 {
		t.Errorf("%d commands ran", ran)
	}
	if status, err := Ask(fd, []string{"x"}, nil, io.Discard, io.Discard); status != 7 || err != nil {
		t.Errorf("after nonsense on connections: %d, %v", status, err)
	}
	if _, err := l.Socket().Write([]byte("xccc")); err != nil {
		t.Fatal(err)
	}
	if _, err := Ask(fd, []string{"x"}, nil, io.Discard, io.Discard); !errors.Is(err, ErrEnded) {
		t.Errorf("after nonsense on the socket: %v", err)
	}
}

// A jp inside takes nothing for the socket that is none.
func TestNoSocket(t *testing.T) {
	file, err := os.CreateTemp(t.TempDir(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	inet, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(inet)
	for _, fd := range []string{"", "x", "-1", "+3", "03", "99999999999999999999", "1000000", fmt.Sprint(file.Fd()), fmt.Sprint(inet)} {
		if _, err := Ask(fd, nil, nil, io.Discard, io.Discard); err == nil || errors.Is(err, ErrEnded) {
			t.Errorf("Ask over descriptor %q: %v", fd, err)
		}
	}
}

func FuzzFrames(f *testing.F) {
	f.Add([]byte{frameArgs, 0, 0, 0, 2, 'x', 0, frameInput, 0, 0, 0, 0})
	f.Add([]byte{frameExit, 0, 0, 0, 1, 3})
	f.Add([]byte{frameArgs, 0xff, 0, 0, 0})
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		for {
			left := r.Len()
			kind, body, err := readFrame(r, "aioerx")
			if err != nil {
				return
			}
			var again bytes.Buffer
			if err := writeFrame(&again, kind, body); err != nil {
				t.Fatal(err)
			}
			if whole := b[len(b)-left : len(b)-r.Len()]; !bytes.Equal(again.Bytes(), whole) {
				t.Fatalf("%q reads as %q", whole, again.Bytes())
			}
			if kind != frameArgs {
				continue
			}
			args, err := decodeArgs(body)
			if err != nil {
				continue
			}
			encoded, err := encodeArgs(args)
			if err != nil || !bytes.Equal(encoded, body) {
				t.Fatalf("%q decodes to %q, which encodes to %q, %v", body, args, encoded, err)
			}
			if back, err := decodeArgs(encoded); err != nil || !slices.Equal(back, args) {
				t.Fatalf("%q and back is %q, %v", args, back, err)
			}
		}
	})
}
