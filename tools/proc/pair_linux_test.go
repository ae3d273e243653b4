package proc

import (
	"bufio"
	"bytes"
	"fmt"
	"testing"
)

// A socket is the tool's descriptor 3, and that of what it starts, confined or not; a tool without
// one has no descriptor 3.
func TestSocket(t *testing.T) {
	h := host(t)
	const script = `read said <&3; sh -c 'echo "got $0" >&3' "$said"; ls /proc/self/fd | tr '\n' ' '`
	confine := System()
	confine.Exec = append(confine.Exec, "/proc")
	for _, c := range []*Confine{nil, &confine} {
		ours, theirs, err := Pair()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintln(ours, "hello"); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		spec := sh([]string{"PATH=/usr/bin:/bin"}, script)
		spec.Socket, spec.Stdout, spec.Stderr, spec.Confine = theirs, &out, &out, c
		exit, err := h.Run(t.Context(), spec)
		if err != nil || exit.Code != 0 || out.String() != "0 1 2 3 4 " {
			t.Errorf("Run() = %+v, %v, %q; want descriptors 0 to 3 and that of ls", exit, err, out.String())
		}
		theirs.Close()
		answer, err := bufio.NewReader(ours).ReadString('\n')
		if err != nil || answer != "got hello\n" {
			t.Errorf("on the socket: %q, %v", answer, err)
		}
		if n, err := ours.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Errorf("after the tool and its end: %d bytes, %v", n, err)
		}
		ours.Close()
	}
	ours, theirs, err := Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	defer theirs.Close()
	if _, err := h.Run(t.Context(), Spec{Kind: Agent, Socket: theirs}); err == nil {
		t.Error("an agent was given a socket")
	}
}
