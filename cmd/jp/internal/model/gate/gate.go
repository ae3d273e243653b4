// Package gate holds requests to a provider back while it limits them, for all processes of a user
// together.
//
// A [Gate] is for one model of an endpoint and a key, which is what vendors limit: requests to
// other models do not wait for it. Where several models share a limit, each of their gates meets it
// once. A gate is open until some process meets a limit (429, 529). Then nobody sends anything
// until the time is over that the provider asked for. After it requests are sent one by one. The
// first one finds out whether the limit is still there. Each one that is answered shortens the time
// between requests; each one that meets the limit again doubles it. When nothing is left of that
// time, or nobody has sent anything for two minutes, the gate is open again.
//
// The state is a file of some 200 bytes below the user's state folder. Requests that have to wait
// form a line: they wait for the lock of a second file, which the kernel hands on in order and
// frees when a process dies. Only the first in the line looks at the clock, so however many wait,
// one wakes at a time.
//
// A gate never makes things worse. It holds a request back for at most [Most], its line included,
// whatever the provider or the file says. Then the request is sent, and the provider decides. A
// damaged file is an open gate. A gate that cannot be used (a folder of somebody else, a full disk)
// warns once and holds nothing back; each process then waits by itself. Before the first limit, a
// request costs one look for a file that does not exist.
//
// Waiting counts towards a deadline: whoever set one waits for the run and not for its replies. A
// request that would wait beyond the deadline fails at once.
package gate

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync"
	"time"

	"jp/cmd/jp/internal/model"
)

// Gate is the gate of one account. Safe for concurrent use, by any number of processes.
type Gate struct {
	dir     string
	account model.Account
	warn    func(error)

	now  func() time.Duration
	boot func() string
	most time.Duration // Most

	mu     sync.Mutex
	path   string // file of the state; "" = unknown yet
	broken bool   // whether a warning said that it cannot be used
}

var _ model.Gate = (*Gate)(nil)

// New returns the gate of an account. Its file is in the folder dir, which is made when the first
// limit is met. warn, which may be nil, is called once if the gate cannot be used.
func New(dir string, account model.Account, warn func(error)) *Gate {
	return &Gate{dir: dir, account: account, warn: warn, now: now, boot: sync.OnceValue(boot), most: Most}
}

// errMost is the cause of a wait that has lasted for Most.
var errMost = errors.New("held back for long enough")

// Enter returns when a request may be sent. It calls waits, at most once, if it has to wait, with
// the least time, and returns after that call. Nobody else in line waits for it. The error is the
// context's cause, or an *Error of KindRateLimit where the wait would outlast its deadline.
func (g *Gate) Enter(ctx context.Context, waits func(time.Duration)) (model.Pass, error) {
	path, open, ok := g.look()
	if ok {
		return open, nil
	}
	bound, cancel := context.WithTimeoutCause(ctx, g.most, errMost)
	defer cancel()
	var told sync.WaitGroup
	pass, err := g.waitTurn(ctx, bound, path, func(d time.Duration) {
		if waits != nil {
			tell := waits
			waits = nil
			told.Go(func() { tell(d) })
		}
	})
	told.Wait() // when it is no more in line: who is told may take long to listen
	switch {
	case ctx.Err() != nil:
		return model.Pass{}, context.Cause(ctx)
	case err == nil:
		return pass, nil
	case errors.As(err, new(*model.Error)):
		return model.Pass{}, err
	case !errors.Is(err, errMost):
		g.fail(err)
	}
	return model.Pass{At: g.now(), Open: true}, nil
}

// Look returns the permission to send one request where the gate is open. It waits for nobody.
func (g *Gate) Look() (model.Pass, bool) {
	_, pass, ok := g.look()
	return pass, ok
}

func (g *Gate) look() (path string, open model.Pass, ok bool) {
	open = model.Pass{At: g.now(), Open: true}
	path, err := g.find()
	if err != nil {
		g.fail(err)
		return "", open, true
	}
	if path == "" {
		return "", open, true
	}
	info, err := os.Lstat(path)
	return path, open, errors.Is(err, fs.ErrNotExist) || err == nil && info.Size() == 0
}

// waitTurn waits in the line, and then for the time of the request, until bound ends, which is
// before ctx ends. It calls notify before each wait whose time it knows.
func (g *Gate) waitTurn(ctx, bound context.Context, path string, notify func(time.Duration)) (model.Pass, error) {
	look := func(s state, _ time.Duration) state { return s }
	s, err := g.update(bound, path, look)
	if err != nil || s.open() {
		return model.Pass{At: g.now(), Open: true}, err
	}
	wait := s.wait(g.now())
	if err := inTime(ctx, wait, 0); err != nil {
		return model.Pass{}, err
	}
	if wait > 0 {
		notify(wait)
	}
	began := g.now()
	line, err := openOwn(path+lineExt, os.O_RDWR|os.O_CREATE)
	if err != nil {
		return model.Pass{}, err
	}
	if err := lockFile(bound, line); err != nil {
		return model.Pass{}, err
	}
	defer unlock(line)
	for {
		var pass model.Pass
		_, err := g.update(bound, path, func(s state, now time.Duration) state {
			if wait = s.wait(now); wait > 0 {
				return s
			}
			pass = model.Pass{At: now, Open: s.open()}
			return s.take(now)
		})
		if err != nil || wait == 0 {
			return pass, err
		}
		if err := inTime(ctx, wait, g.now()-began); err != nil {
			return model.Pass{}, err
		}
		notify(wait)
		t := time.NewTimer(wait)
		select {
		case <-t.C:
		case <-bound.Done():
			t.Stop()
			return model.Pass{}, context.Cause(bound)
		}
	}
}

// inTime returns an error where a wait would outlast the caller's deadline. waited is how long it
// has waited in the line.
func inTime(ctx context.Context, wait, waited time.Duration) error {
	deadline, ok := ctx.Deadline()
	if !ok || time.Until(deadline) >= wait {
		return nil
	}
	text := fmt.Sprintf("the limit holds for another %s, longer than the run may take", wait.Round(100*time.Millisecond))
	if waited = waited.Round(100 * time.Millisecond); waited > 0 {
		text = fmt.Sprintf("the run's time is up before its turn comes: it has waited for %s behind other requests to the model", waited)
	}
	return &model.Error{Kind: model.KindRateLimit, Final: true, Message: text}
}

// Heard reports that a request which passed the gate is being answered.
func (g *Gate) Heard(p model.Pass) {
	if p.Open {
		return
	}
	g.change(func(s state, _ time.Duration) state { return s.heard(p.At) })
}

// Limited reports that a request which passed the gate has met a limit, and how long to wait. It
// returns whether the gate does the waiting; if not, the caller waits by itself.
func (g *Gate) Limited(p model.Pass, wait time.Duration) bool {
	if err := g.prepare(); err != nil {
		g.fail(err)
		return false
	}
	return g.change(func(s state, now time.Duration) state { return s.limited(now, p.At, wait, g.boot()) })
}

// stateWait bounds the wait for the lock of the state, which is held while 200 bytes are written.
const stateWait = 2 * time.Second

func (g *Gate) change(f func(state, time.Duration) state) bool {
	ctx, cancel := context.WithTimeout(context.Background(), stateWait)
	defer cancel()
	path, err := g.find()
	if err == nil && path != "" {
		_, err = g.update(ctx, path, f)
	}
	if err != nil {
		g.fail(err)
	}
	return err == nil && path != ""
}

func (g *Gate) fail(err error) {
	g.mu.Lock()
	first := !g.broken
	g.broken = true
	g.mu.Unlock()
	if first && g.warn != nil {
		g.warn(fmt.Errorf("rate-limit gate: %w", err))
	}
}
