package script

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"strings"
	"sync"

	"jp/cmd/jp/internal/model"
)

// Trail names the position of one process's requests in a tree of runs. The name is the same when
// the tree is recorded and when it is replayed, although ids of calls and conversations differ. The
// first run is "". The name of a run that it started follows after "/":
//
//	2.1      the sub-agent of the first call in the reply of round 2
//	2.1#3    the third one of that call, which is a batch
//	2.1=9f86d081   one that the tool of that call started itself, by its query
//	#3       the sub-agent of the third line of a batch from a shell
//	=9f86d081      one of a call that was made before this process began
//
// If several runs with the same query would have the same name, "+2" and so on follow. Safe for
// concurrent use.
type Trail struct {
	run string

	mu       sync.Mutex
	requests map[int]int       // made so far, by round
	calls    map[string]string // name of a call in the tree, by its id
	begun    map[string]int    // runs so far, by name
}

// NewTrail begins the trail of the process of a run.
func NewTrail(run string) *Trail {
	return &Trail{run: run, requests: map[int]int{}, calls: map[string]string{}, begun: map[string]int{}}
}

// Run returns the name of the run.
func (t *Trail) Run() string { return t.run }

// Follow returns s, and sets in each request its position: Run, and as Attempt how many requests
// this round has had.
func (t *Trail) Follow(s model.Stream) model.Stream {
	return func(ctx context.Context, r model.Request) iter.Seq2[model.Part, error] {
		return func(yield func(model.Part, error) bool) {
			t.mu.Lock()
			t.requests[r.Round]++
			r.Run, r.Attempt = t.run, t.requests[r.Round]
			t.mu.Unlock()
			n := 0
			for part, err := range s(ctx, r.Anew(func(model.Lost) { n = 0 })) {
				if part.Call != nil {
					n++
					t.mu.Lock()
					t.calls[part.Call.ID] = fmt.Sprintf("%d.%d", r.Round, n)
					t.mu.Unlock()
				}
				if !yield(part, err) {
					return
				}
			}
		}
	}
}

// Place returns the place of a call that the model made, "" for any other. Put gives a trail the
// place that a call has in another process.
func (t *Trail) Place(call string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.calls[call]
}

// Put is described with Place.
func (t *Trail) Put(call, place string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.calls[call] = place
}

// Below returns the name of the run that a call starts with a query. A call is identified as in the
// ledger: by the id of the model's provider, with "#" and the number of the item of a batch, or "/"
// and the number of a delegation by a tool.
func (t *Trail) Below(call, query string) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	sum := sha256.Sum256([]byte(WithoutIDs(query)))
	name := "=" + hex.EncodeToString(sum[:4])
	known, ok := t.calls[call]
	if ok {
		name = known
	} else if i := strings.LastIndexByte(call, '#'); i >= 0 {
		known, ok = t.calls[call[:i]]
		if ok || strings.HasPrefix(call, model.CallOfBatch) {
			name = known + call[i:]
		}
	} else if i := strings.LastIndexByte(call, '/'); i >= 0 {
		name = t.calls[call[:i]] + name // numbered as they come, which may be in another order
	}
	if t.run != "" {
		name = t.run + "/" + name
	}
	if t.begun[name]++; t.begun[name] > 1 {
		name += fmt.Sprintf("+%d", t.begun[name])
	}
	return name
}
