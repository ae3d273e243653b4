package delegate

import (
	"context"
	"errors"
	"sync"

	"jp/tools"
)

// lanes are what calls run in that come one by one and at the same time.
type lanes struct {
	free chan struct{}

	mu   sync.Mutex
	open int           // calls that have reserved and not ended
	left chan struct{} // closed when one of them ends
}

// lane waits until a call may reserve, has it do so, and returns what ends the call. The call learns among how many it has to share what
// is free: itself and those that may still come while it runs. Where nothing is free it waits for what others leave over.
func (d *Delegator) lane(ctx context.Context, reserve func(among int) (starved bool)) (leave func(), err error) {
	if d.Lanes <= 0 {
		reserve(1)
		return func() {}, nil
	}
	l := &d.lanes
	select {
	case l.free <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	for {
		l.mu.Lock()
		starved := reserve(d.Lanes - l.open)
		if !starved || l.open == 0 {
			break
		}
		left := l.left
		l.mu.Unlock()
		select {
		case <-left:
		case <-ctx.Done():
			<-l.free
			return nil, context.Cause(ctx)
		}
	}
	defer l.mu.Unlock()
	if l.left == nil {
		l.left = make(chan struct{})
	}
	l.open++
	return d.leaveLane, nil
}

// leaveLane ends a call.
func (d *Delegator) leaveLane() {
	l := &d.lanes
	l.mu.Lock()
	l.open--
	close(l.left)
	l.left = make(chan struct{})
	l.mu.Unlock()
	<-l.free
}

// admitAlone admits a call that is a reply of its own, which shares what is free with others. starved reports that all of it was refused
// since there was nothing left.
func (d *Delegator) admitAlone(ctx context.Context, c tools.Call, among int) (starved bool) {
	asked := d.read(ctx, c)
	for i := range asked {
		asked[i].Among = among
	}
	d.admit(ctx, asked)
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, a := range asked {
		var no *Refusal
		if !errors.As(d.admitted[a.Call].err, &no) || no.Code != CodeTokens && no.Code != CodeCost {
			return false
		}
	}
	return len(asked) > 0
}
