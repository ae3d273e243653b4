package wire

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"jp/cmd/jp/internal/agent"
	"jp/cmd/jp/internal/model"
	"jp/convstore"
)

// Model is a model of a sub-agent, which its owner asks for it. A sub-agent may have several: its
// config names them, and each call says which one it is of.
type Model struct {
	Info   model.Info
	Err    error        // why it cannot be opened, or is not known and Info is zero; nil = it is open
	Stream model.Stream // one attempt, counted and within its limits; nil = nobody asks it, as in a replay
	Gate   Gate         // gate that all who share its limits pass; nil = none
}

// Gate is a model.Gate that can be looked at.
type Gate interface {
	model.Gate
	// Look returns the permission to send one request where that takes no wait. It never waits.
	Look() (model.Pass, bool)
}

// Known is what a sub-agent is told of a model.
type Known struct {
	Info   model.Info   `json:"info"`
	Failed *model.Error `json:"failed,omitempty"` // why it cannot be asked; nil = it can
	Error  string       `json:"error,omitempty"`  // the same, where it is of another type
	Gated  bool         `json:"gated,omitempty"`
}

func (m Model) known() Known {
	k := Known{Info: m.Info, Gated: m.Gate != nil}
	k.Info.Account = model.Account{} // it has the key
	if m.Err != nil && !errors.As(m.Err, &k.Failed) {
		k.Error = m.Err.Error()
	}
	return k
}

// Known returns what a sub-agent is told of the model with the full id. The error is about one that
// it does not have, or about its config, by which it has none.
func (s Start) Known(id string) (Known, error) {
	var names []string
	for _, k := range s.Models {
		switch k.Info.ID {
		case id:
			return k, nil
		case "":
			return k, k.Opens()
		}
		names = append(names, k.Info.ID)
	}
	return Known{}, fmt.Errorf("model %s: this sub-agent asks %s", id, strings.Join(names, ", "))
}

// Opens returns why the model cannot be asked.
func (k Known) Opens() error {
	switch {
	case k.Failed != nil:
		return k.Failed
	case k.Error != "":
		return errors.New(k.Error)
	}
	return nil
}

// Bounds of a reply on its way.
const (
	pieceSize = 32 << 10  // bytes of a reply that are sent together, about
	window    = 256 << 10 // bytes of a reply that the sub-agent has not taken yet
)

// question is one attempt of a call. Of a thread only what the attempt before did not have is sent.
type question struct {
	Keep    int           `json:"keep,omitempty"`    // number of messages of the one before that this one begins with
	Same    bool          `json:"same,omitempty"`    // whether its system prompt and tools are those of the one before
	Learned uint64        `json:"learned,omitempty"` // number of the ask whose count its bound was computed from; 0 = of none
	Request model.Request `json:"request"`
}

// parts are parts of the reply to the ask N.
type parts struct {
	N     uint64       `json:"n,omitempty"`
	Parts []model.Part `json:"parts,omitempty"`
	ID    string       `json:"id,omitempty"` // provider's name of the reply; "" = it was sent, or is not known
	Model string       `json:"model,omitempty"`
}

// taken says that this many bytes more of the reply to N were taken.
type taken struct {
	N     uint64 `json:"n"`
	Bytes int    `json:"bytes"`
}

// gateStep asks the rate gate.
type gateStep struct {
	Limited bool          `json:"limited,omitempty"` // the latest attempt met a limit; else one is to be sent
	Wait    time.Duration `json:"wait,omitempty"`    // of limited: how long to hold requests back
	Left    time.Duration `json:"left,omitempty"`    // else: what is left of the time; 0 = no deadline
}

// held says that the gate N holds a request back, for at least Wait.
type held struct {
	N    uint64        `json:"n"`
	Wait time.Duration `json:"wait"`
}

// attempts makes the attempts of a sub-agent's calls of its models: one for each begin.
type attempts struct {
	models []Model
	server *server
	ctx    context.Context // ends when the sub-agent has gone

	thread model.Request // latest one that was asked; only the goroutine that reads has it

	mu      sync.Mutex
	counts  map[string][]model.Meter // what the models have counted of its requests, by their ids; the latest are last
	dearest map[string]int64         // highest cost of an attempt, by the model's id
	Model                            // model of the latest call
	call    *convstore.Call          // call that was begun; nil = none, or it was asked
	capped  bool                     // whether its output counts against a limit
	cancel  context.CancelFunc       // ends the attempt that runs; nil = none does
	ended   chan struct{}            // closed when the latest attempt has ended; nil = there was none
	heard   *convstore.ModelCall     // record of the latest attempt; nil = it used nothing, or its record is stored
	placed  bool                     // whether that record is among the events that are being stored
	pass    *model.Pass              // permission of the model's gate for the next attempt; nil = none
	latest  model.Pass               // permission of the latest one
	limited bool                     // whether that met a limit, of this model
	broken  int                      // attempts that the sub-agent has broken off
}

var (
	errNotBegun = &FrameError{"a model is asked once for each call that was begun"}
	errBeyond   = &FrameError{"a model is asked for more than the call that was begun"}
	errClosed   = errors.New("the call of the model was closed")
)

// begin opens a call, with what is left in the account. It reports whether the gate is open for its
// first attempt.
func (t *attempts) begin(c *convstore.Call, left convstore.Budget) (open bool) {
	m := t.of(c.Model)
	if m == nil {
		m = &Model{}
	}
	var pass model.Pass
	if open = m.Gate == nil; !open {
		pass, open = m.Gate.Look()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.Info.ID != m.Info.ID {
		t.pass, t.limited = nil, false // those are of another gate
	}
	t.Model = *m
	t.call, t.capped = c, left.Tokens != nil || left.CostNano != nil && m.cost(0, 1) > 0
	if open { // else it may have waited already
		t.pass = &pass
	}
	return open
}

// of returns the model with an id; nil = the sub-agent does not have it.
func (t *attempts) of(id string) *Model {
	for i := range t.models {
		if t.models[i].Info.ID == id {
			return &t.models[i]
		}
	}
	return nil
}

// cost returns the least that the bound of a call with so many tokens costs; 0 = its price is not
// known.
func (m *Model) cost(in, out int64) int64 {
	if m.Info.Price == nil {
		return 0
	}
	return m.Info.Price.Most(model.Bound{Tokens: in}, out)
}

// cheap reports whether a call costs less than its tokens.
func (t *attempts) cheap(c *convstore.Call) bool {
	m := t.of(c.Model)
	return m != nil && m.Stream != nil && c.CostNano != nil && *c.CostNano < m.cost(c.Usage.Input, c.Usage.Output)
}

// dear reports whether a call may cost more than is left, where its price does not bound it: then
// it costs what the dearest attempt so far has cost, and without a price no call can say how much.
func (t *attempts) dear(c *convstore.Call, left *int64) bool {
	m := t.of(c.Model)
	if m == nil || m.Stream == nil || m.Info.Price.Bounds() || left == nil {
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	return m.Info.Price == nil && c.CostNano != nil || *left < t.dearest[c.Model]
}

// keptCounts is how many counts of a model are kept. A sub-agent computes its next request from the
// latest one of its turn; a summary or a title may come between.
const keptCounts = 4

// meter returns the one that has learned from an attempt of the latest call's model, and makes its
// count the last that is forgotten. One that has learned nothing stands for all others: it bounds
// each request by no less. t.mu is held.
func (t *attempts) meter(attempt uint64) model.Meter {
	list := t.counts[t.Info.ID]
	at := slices.IndexFunc(list, func(m model.Meter) bool { return m.Learned() == attempt })
	if attempt == 0 || at < 0 {
		return model.Meter{}
	}
	m := list[at]
	t.counts[t.Info.ID] = append(slices.Delete(list, at, at+1), m)
	return m
}

// learn keeps what the attempt n of a model has counted. m has bounded its request. t.mu is held.
func (t *attempts) learn(id string, m model.Meter, r model.Request, used convstore.Usage, n uint64) {
	m.Learn(r, used, n)
	list := append(t.counts[id], m)
	t.counts[id] = slices.Delete(list, 0, max(0, len(list)-keptCounts))
}

// beyond reports whether a request may use more than the call that was begun. t.mu is held.
func (t *attempts) beyond(r model.Request, m *model.Meter) bool {
	in, out := m.Bound(r), int64(t.Info.Output(r.MaxTokens))
	switch begun := t.call; {
	case r.MaxTokens < 0, r.MaxTokens == 0 && t.capped, out > begun.Usage.Output, in.Tokens > begun.Usage.Input:
		return true
	default:
		return begun.CostNano != nil && t.Info.Price != nil && t.Info.Price.Most(in, out) > *begun.CostNano
	}
}

// close closes the call that is open. It returns when no attempt of it runs.
func (t *attempts) close() {
	t.mu.Lock()
	t.call = nil
	if t.cancel != nil {
		t.cancel()
	}
	ended := t.ended
	t.mu.Unlock()
	if ended != nil {
		<-ended
	}
}

// charge closes the call that is open and returns the record that is stored of it, where the
// sub-agent says m: with what its owner has heard. In a replay, where nobody is asked, m is
// all that is known.
func (t *attempts) charge(m convstore.ModelCall) convstore.ModelCall {
	t.close()
	t.mu.Lock()
	defer t.mu.Unlock()
	switch h := t.heard; {
	case t.server.owner.Replayed:
	case h == nil || t.placed:
		m.Usage = convstore.Usage{}
		if m.CostNano != nil {
			m.CostNano = new(int64)
		}
	default:
		m.Usage, m.CostNano, m.Estimated, t.placed = h.Usage, h.CostNano, h.Estimated, true
	}
	return m
}

// unsaid closes the call that is open and returns the record of it that the sub-agent leaves out;
// nil = none.
func (t *attempts) unsaid() []convstore.Event {
	t.close()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.heard == nil || t.placed {
		return nil
	}
	t.placed = true
	return []convstore.Event{{ID: convstore.NewEventID(), Time: time.Now(), Body: *t.heard}}
}

// stored notes that events are in the store. fault says why they are not; nil = they are.
func (t *attempts) stored(fault error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.placed && fault == nil {
		t.heard = nil
	}
	t.placed = false
}

// ask begins an attempt. The error is that of a sub-agent that breaks the protocol.
func (t *attempts) ask(n uint64, q question, o *opened, answered func(answer, error)) error {
	if q.Keep < 0 || q.Keep > len(t.thread.Messages) {
		return &FrameError{"a thread that begins with what was never sent"}
	}
	r := q.Request
	r.Messages = append(t.thread.Messages[:q.Keep:q.Keep], r.Messages...)
	if q.Same {
		r.System, r.Tools = t.thread.System, t.thread.Tools
	}
	if r.Size() > MaxFrame {
		return &FrameError{fmt.Sprintf("a thread of more than %d MiB", MaxFrame>>20)}
	}
	if r.Thoughts() > maxThread {
		return &FrameError{fmt.Sprintf("a thread with more than %d values in its reasoning", maxThread)}
	}
	t.thread, r.CallIDs = r, t.server.turn.callIDs()

	t.mu.Lock()
	defer t.mu.Unlock()
	r.Model = t.Info.Name
	if t.call == nil || t.call.Model != t.Info.ID || t.cancel != nil || t.Stream == nil {
		t.server.work.Go(func() { answered(answer{}, errNotBegun) })
		return nil
	}
	meter := t.meter(q.Learned)
	if t.beyond(r, &meter) {
		t.server.work.Go(func() { answered(answer{}, errBeyond) })
		return nil
	}
	ctx, cancel := context.WithCancelCause(t.ctx)
	ended := make(chan struct{})
	begun := *t.call
	r.MaxInput = begun.Usage.Input
	t.call, t.cancel, t.ended, t.limited = nil, func() { cancel(errClosed) }, ended, false
	pass, m := t.pass, t.Model
	t.pass = nil
	out := &outflow{n: n, line: t.server.line, left: window, more: make(chan struct{}, 1), first: true}
	o.cancel, o.reply = func() { cancel(context.Canceled) }, out
	r.Named = out.named
	t.server.work.Go(func() {
		heard, a, err := t.attempt(ctx, m, r, pass, out, cancel)
		t.mu.Lock()
		if heard != nil && err != nil && t.breaks(context.Cause(ctx)) {
			m.charge(heard, begun)
		}
		t.cancel, t.heard = nil, heard
		if heard != nil && heard.CostNano != nil {
			t.dearest[m.Info.ID] = max(t.dearest[m.Info.ID], *heard.CostNano)
		}
		if heard != nil && !heard.Estimated && err == nil && a.Failed == nil {
			t.learn(m.Info.ID, meter, r, heard.Usage, n)
		}
		t.mu.Unlock()
		close(ended)
		cancel(nil)
		answered(a, err)
	})
	return nil
}

// fewBreaks is how many attempts a sub-agent may break off in one run for what is known of their
// use. A run has to do it when its time for work is up, and when all of its time is.
const fewBreaks = 2

// breaks notes why an attempt that was sent has ended, and reports whether the sub-agent has broken
// off one too many: nobody knows what a model has thought by then, and bills. t.mu is held.
func (t *attempts) breaks(cause error) bool {
	if cause != context.Canceled && cause != errClosed {
		return false
	}
	t.broken++
	return t.broken > fewBreaks
}

// charge makes the record of an attempt one of the most that it may have used.
func (m *Model) charge(c *convstore.ModelCall, most convstore.Call) {
	if most.Usage.Tokens() > c.Usage.Tokens() {
		c.Usage, c.Estimated = most.Usage, true
		c.CostNano = m.Info.Price.Charged(c.Usage, c.CostNano)
		if c.CostNano == nil || most.CostNano != nil && *c.CostNano < *most.CostNano {
			c.CostNano = most.CostNano
		}
	}
}

// attempt makes one attempt by m and returns its record, nil where it used nothing, and the end of
// the reply. A reply that cannot be sent is cancelled, and its use is heard all the same.
func (t *attempts) attempt(ctx context.Context, m Model, r model.Request, pass *model.Pass, out *outflow, cancel context.CancelCauseFunc) (record *convstore.ModelCall, a answer, err error) {
	if works := t.server.owner.Works; works != nil {
		if err := works(ctx); err != nil {
			return nil, answer{}, err
		}
	}
	if pass == nil {
		p, err := m.Gate.Enter(ctx, func(time.Duration) {})
		if err != nil {
			a, err = failed(answer{}, err)
			return nil, a, err
		}
		pass = &p
	}
	t.mu.Lock()
	t.latest = *pass
	t.mu.Unlock()
	heard, stopped, began := m.Gate == nil, false, time.Now()
	var unsent error
	for p, fault := range m.Stream(ctx, r) {
		if err = fault; err != nil {
			break
		}
		if p.Usage != nil && !stopped { // what follows the end no sub-agent hears
			record = &convstore.ModelCall{
				Model: m.Info.ID, Usage: *p.Usage, CostNano: m.Info.Price.Charged(*p.Usage, p.Cost), Estimated: p.Estimated, Stop: string(agent.StopCut),
			}
		}
		stopped = stopped || p.Stop != ""
		if !heard && p.Usage == nil {
			heard = true
			m.Gate.Heard(*pass)
		}
		if unsent == nil {
			if unsent = out.put(ctx, p); unsent != nil {
				cancel(unsent)
			}
		}
	}
	if record != nil {
		record.Duration = time.Since(began)
	}
	var e *model.Error
	if errors.As(err, &e) && (e.Kind == model.KindRateLimit || e.Kind == model.KindOverloaded) {
		t.mu.Lock() // a call of another model begins only when this attempt has ended
		t.limited = true
		t.mu.Unlock()
	}
	rest := out.rest()
	a, err = failed(answer{Said: &rest}, cmp.Or(unsent, err))
	return record, a, err
}

// failed puts an error of a model into an answer. It returns any other.
func failed(a answer, err error) (answer, error) {
	if errors.As(err, &a.Failed) {
		return a, nil
	}
	return a, err
}

// gate begins to ask the gate.
func (t *attempts) gate(n uint64, g gateStep, o *opened, answered func(answer, error)) {
	ctx, cancel := context.WithCancel(t.ctx)
	o.cancel = cancel
	t.mu.Lock()
	gate, of := t.Gate, t.Info.ID
	t.mu.Unlock()
	t.server.work.Go(func() {
		defer cancel()
		switch {
		case gate == nil:
			answered(answer{}, nil)
		case g.Limited:
			t.mu.Lock()
			pass, limited := t.latest, t.limited && t.Info.ID == of
			t.limited = t.limited && !limited
			t.mu.Unlock()
			answered(answer{Shut: limited && gate.Limited(pass, g.Wait)}, nil)
		default:
			if g.Left > 0 {
				var end context.CancelFunc
				ctx, end = context.WithTimeout(ctx, g.Left)
				defer end()
			}
			pass, err := gate.Enter(ctx, func(d time.Duration) {
				_ = t.server.line.write(fromOwner{Held: &held{N: n, Wait: d}})
			})
			t.mu.Lock()
			if err == nil && t.Info.ID == of {
				t.pass = &pass
			}
			t.mu.Unlock()
			answered(failed(answer{}, err))
		}
	})
}

// outflow sends the parts of one reply: the first as soon as it comes, for whoever waits for a
// sign of life, and the others in pieces, because nobody looks at a sub-agent's words while they
// come. One goroutine puts parts into it.
type outflow struct {
	n       uint64
	line    *line
	first   bool // whether nothing was sent yet
	pending parts
	run     model.Part // latest part, where more of the same kind can be added to it: its text is in said
	said    []byte
	size    int           // bytes of pending and said, about
	more    chan struct{} // gets a value when left grows

	mu   sync.Mutex
	left int // bytes that may be sent before more are taken
}

// allow lets more bytes be sent.
func (f *outflow) allow(bytes int) {
	f.mu.Lock()
	f.left = min(f.left+max(bytes, 0), window)
	f.mu.Unlock()
	select {
	case f.more <- struct{}{}:
	default:
	}
}

func (f *outflow) named(id, name string) { f.pending.ID, f.pending.Model = id, name }

// put takes the next part. It waits where the sub-agent does not take what was sent.
func (f *outflow) put(ctx context.Context, p model.Part) error {
	text := p.Text + p.ReasoningDelta + p.CallDelta // exactly one of them, or none
	if text == "" {
		f.close()
		f.pending.Parts = append(f.pending.Parts, p)
		f.size += p.Size()
	} else {
		kind := model.Part{}
		switch {
		case p.Text != "":
			kind.Text = "+"
		case p.ReasoningDelta != "":
			kind.ReasoningDelta = "+"
		default:
			kind.CallDelta = "+"
		}
		if kind != f.run {
			f.close()
			f.run = kind
		}
		f.said = append(f.said, text...)
		f.size += len(text)
	}
	if !f.first && f.size < pieceSize {
		return nil
	}
	for !f.free() {
		select {
		case <-f.more:
		case <-ctx.Done():
			return nil // the stream ends now, and says what it has used
		}
	}
	f.first = false
	piece := f.rest()
	f.mu.Lock()
	for _, p := range piece.Parts {
		f.left -= p.Size()
	}
	f.mu.Unlock()
	return f.line.write(fromOwner{Parts: &piece})
}

func (f *outflow) free() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.left > 0
}

// close ends the latest part.
func (f *outflow) close() {
	p := f.run
	switch text := string(f.said); {
	case p.Text != "":
		p.Text = text
	case p.ReasoningDelta != "":
		p.ReasoningDelta = text
	case p.CallDelta != "":
		p.CallDelta = text
	default:
		return
	}
	f.pending.Parts = append(f.pending.Parts, p)
	f.run, f.said = model.Part{}, f.said[:0]
}

// rest returns what is not sent yet.
func (f *outflow) rest() parts {
	f.close()
	p := f.pending
	p.N, f.pending, f.size = f.n, parts{}, 0
	return p
}
