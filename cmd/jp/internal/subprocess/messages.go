package subprocess

import (
	"regexp"
	"strings"
	"sync"
)

// Messages keeps the last messages that a jp writes on stderr. The stacks that the Go runtime
// prints when it crashes are kept apart, because no model can use them. The zero value is ready to
// use.
type Messages struct {
	last   []byte // at most maxLast bytes, without the stacks
	stacks []byte // at most maxStacks bytes of them; nil = it has not crashed
}

const (
	maxLast   = 4 << 10
	maxStacks = 16 << 10
)

// stacksBegin matches the first line of what the Go runtime prints after the reason of a crash.
var stacksBegin = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?m)^(goroutine \d+ .*\[|runtime stack:$|PC=0x)`) })

func (w *Messages) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		if w.stacks != nil {
			w.stacks = append(w.stacks, rest[:min(len(rest), maxStacks-len(w.stacks))]...)
			break
		}
		part := rest[:min(len(rest), maxLast/4)] // so that a line which begins before it is still there
		rest = rest[len(part):]
		w.last = append(w.last, part...)
		w.last = w.last[max(len(w.last)-maxLast, 0):]
		if at := stacksBegin().FindIndex(w.last); at != nil {
			w.stacks = append([]byte{}, w.last[at[0]:]...)
			w.last = w.last[:at[0]]
		}
	}
	return len(p), nil
}

// String returns the last messages, without the stacks.
func (w *Messages) String() string {
	return strings.TrimSpace(strings.ToValidUTF8(string(w.last), "\uFFFD"))
}

// Stacks returns the beginning of the stacks, nil if the jp has not crashed.
func (w *Messages) Stacks() []byte { return w.stacks }
