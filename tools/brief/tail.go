package brief

import (
	"slices"
	"sync"
)

// Tail is a writer that keeps the last Keep bytes of what is written to it. Safe for concurrent
// use.
type Tail struct {
	Keep int

	mu  sync.Mutex
	b   []byte // at most twice Keep
	cut bool   // something before b is gone
}

// Write implements io.Writer. It never fails.
func (t *Tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(p)
	if n > t.Keep {
		p, t.cut = p[n-t.Keep:], true
	}
	if len(t.b)+len(p) > 2*t.Keep {
		t.b, t.cut = append(t.b[:0], t.b[max(len(t.b)-t.Keep, 0):]...), true
	}
	t.b = append(t.b, p...)
	return n, nil
}

// Bytes returns a copy of what is kept. cut reports whether something was before it.
func (t *Tail) Bytes() (kept []byte, cut bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	from := max(len(t.b)-t.Keep, 0)
	return slices.Clone(t.b[from:]), t.cut || from > 0
}
