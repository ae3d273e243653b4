// Package trace lays out when a tree of agents did what: turns, model calls, tool calls and
// delegations, each with its start, its end and what it used. Build makes a Trace from stored
// events; Text, Chrome and HTML are forms of it, and it encodes to JSON itself.
//
// Traps:
//
//   - A delegation, the tool call that made it and the turn that its child ran are one span, not
//     three.
//   - Times come from events, which may be imported and say anything. A span never ends before it
//     starts. A span that has not ended is drawn until the last event in it.
//   - Names, reasons and texts are a model's or a tool's. Every form escapes them for what it is
//     read by.
package trace

import (
	"cmp"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"jp/cmd/jp/internal/stream"
	"jp/cmd/jp/internal/wording"
	"jp/convstore"
	"jp/convstore/amount"
	"jp/tools/brief"
)

// The kinds of spans.
const (
	Turn       = "turn"
	ModelCall  = "model_call"
	ToolCall   = "tool_call"
	Delegation = "delegation"
)

// MaxText is how many bytes of each text a span keeps.
const MaxText = 4096

// maxReason is how many bytes of a tool's error are the reason of its span.
const maxReason = 300

// Trace is the timeline of a conversation and of everything it delegated.
type Trace struct {
	ID          convstore.ID    `json:"conversation_id"`
	Title       string          `json:"title"`
	Status      string          `json:"status"`
	Start       time.Time       `json:"started_at"`
	End         *time.Time      `json:"ended_at"` // null while anything runs
	DurationMS  float64         `json:"duration_ms"`
	Delegations int             `json:"delegations"`
	ModelCalls  int             `json:"model_calls"`
	ToolCalls   int             `json:"tool_calls"`
	Tokens      int64           `json:"tokens"` // as the ledger counts: input, cache writes and output
	Usage       convstore.Usage `json:"usage"`
	CostUSD     *stream.USD     `json:"cost_usd"` // null when some price is unknown
	Spans       []*Span         `json:"spans"`    // each before what is in it

	until time.Time
}

// Span is one thing that took time.
type Span struct {
	ID           string          `json:"id"`        // unique in the trace
	ParentID     string          `json:"parent_id"` // "" at the top
	Kind         string          `json:"kind"`
	Name         string          `json:"name"`            // the turn, the model, the tool or the profile
	Conversation convstore.ID    `json:"conversation_id"` // conversation in which it happened; the child of a delegation
	TurnNumber   int             `json:"turn"`
	State        string          `json:"state"` // a terminal state, or what the conversation is doing
	Reason       string          `json:"reason"`
	Start        time.Time       `json:"started_at"`
	End          *time.Time      `json:"ended_at"` // null when it has not ended
	DurationMS   float64         `json:"duration_ms"`
	Tokens       int64           `json:"tokens"` // of a turn or a delegation: with everything in it
	Usage        convstore.Usage `json:"usage"`
	CostUSD      *stream.USD     `json:"cost_usd"`
	Input        string          `json:"input"`        // the query or the arguments, its first MaxText bytes
	InputBytes   int             `json:"input_bytes"`  // of all of it
	Output       string          `json:"output"`       // the answer or the result
	OutputBytes  int             `json:"output_bytes"` //
	Stop         string          `json:"stop,omitempty"`
	Run          *Run            `json:"delegation,omitempty"`

	depth      int
	called     time.Time // when the tool was called; zero = it is no call, or the call was not found
	seq        uint64    // place of the call among the events
	callerTurn int       // of a delegation
	parent     *Span
	children   []*Span
	until      time.Time // where its bar ends
	unpriced   bool
	nano       int64
}

// Run has the data of a delegation that are not in its span.
type Run struct {
	Caller       convstore.ID `json:"caller_id"`
	Call         string       `json:"call"`
	Tool         string       `json:"tool"` // "" where the call is gone, or a person made it
	Kind         string       `json:"kind"`
	Title        string       `json:"title"`
	Profile      string       `json:"profile"`
	ProfileHash  string       `json:"profile_hash"`
	Model        string       `json:"model"`
	Depth        int          `json:"depth"`
	Begun        *time.Time   `json:"begun_at"` // when its process started
	PID          int          `json:"pid,omitempty"`
	Host         string       `json:"host,omitempty"` // machine of the process; "" = this one
	GrantTokens  *int64       `json:"grant_tokens"`   // null = unlimited
	GrantUSD     *stream.USD  `json:"grant_usd"`
	ToolsAllowed int          `json:"tools_allowed"`
	ToolsTotal   int          `json:"tools_total"`
	ToolsDenied  int          `json:"tools_denied"`
	Removed      bool         `json:"removed"` // the conversation is gone, the record stayed
}

// Source is what a Trace is built from.
type Source struct {
	Conversation convstore.Conversation
	Below        []convstore.Conversation                                 // its strict descendants by delegation links, each before its children
	Delegations  []convstore.Delegation                                   // of the ledger, oldest first; those from elsewhere in it are left out
	Events       func([]convstore.ID) iter.Seq2[convstore.EventIn, error] // of those, one after the other
	Now          time.Time
}

// turnKey names a turn of a conversation.
type turnKey struct {
	id   convstore.ID
	turn int
}

// call names a tool call.
type call struct {
	id   convstore.ID
	call string
}

type builder struct {
	Source
	spans   []*Span
	byTurn  map[turnKey]*Span // turns, and the delegations that ran them
	byCall  map[call]*Span    // delegations
	ordered map[*Span]bool    // delegations whose tool call was found
	here    map[convstore.ID]convstore.Conversation
}

// Build lays out a trace. It fails only when the events cannot be read.
func Build(src Source) (*Trace, error) {
	b := &builder{
		Source: src, byTurn: map[turnKey]*Span{}, byCall: map[call]*Span{}, ordered: map[*Span]bool{},
		here: map[convstore.ID]convstore.Conversation{},
	}
	members := append([]convstore.Conversation{src.Conversation}, src.Below...)
	ids := make([]convstore.ID, len(members))
	for i, c := range members {
		b.here[c.ID], ids[i] = c, c.ID
	}
	b.delegations()
	var at reading
	for ev, err := range b.Events(ids) {
		if err != nil {
			return nil, err
		}
		if ev.Conversation != at.ID {
			at = reading{Conversation: b.here[ev.Conversation], pending: map[string]*Span{}}
		}
		b.event(&at, ev.Event)
	}
	for _, s := range b.spans {
		if s.Kind == Delegation && s.parent == nil && b.here[s.Run.Caller].ID == 0 {
			s.parent = b.byTurn[turnKey{s.Run.Caller, s.callerTurn}] // its tool call was removed with the caller
		}
	}
	return b.trace(), nil
}

// delegations makes the spans of the runs in the tree, those of removed conversations too.
func (b *builder) delegations() {
	within := map[convstore.ID]bool{}
	for id := range b.here {
		within[id] = true
	}
	for _, d := range b.Delegations {
		if !within[d.Caller] {
			continue
		}
		within[d.Child] = true
		child, there := b.here[d.Child]
		s := &Span{
			ID: d.ID, Kind: Delegation, Name: cmp.Or(d.Profile, d.Kind), Conversation: d.Child, TurnNumber: d.ChildTurn,
			State: string(d.State), Reason: d.Reason, Start: d.Reserved, until: d.Reserved,
			callerTurn: d.Turn,
			Run: &Run{
				Caller: d.Caller, Call: d.Call, Kind: d.Kind, Title: child.Title, Profile: d.Profile, ProfileHash: d.ProfileHash,
				Model: d.Model, Depth: d.Depth, Begun: orNil(d.Started), PID: d.PID, Host: d.Host,
				GrantTokens: d.Grant.Tokens, GrantUSD: (*stream.USD)(d.Grant.CostNano),
				ToolsAllowed: d.ToolsAllowed, ToolsTotal: d.ToolsTotal, ToolsDenied: d.ToolsDenied, Removed: !there,
			},
		}
		if !d.Ended.IsZero() {
			s.end(d.Ended)
		}
		if d.State == "" {
			s.State = string(cmp.Or(child.Status, convstore.StatusQueued))
			s.until = b.Now
		}
		if !there {
			s.use(d.Own.Usage, d.Own.Cost())
		}
		b.spans = append(b.spans, s)
		b.byTurn[turnKey{d.Child, d.ChildTurn}] = s
		b.byCall[call{d.Caller, d.Call}] = s
	}
}

// reading is where Build has come to in the events of a conversation.
type reading struct {
	convstore.Conversation
	holder  *Span            // the turn, or the delegation that runs it
	said    []byte           // since the last model call
	broken  *Span            // model call whose reply broke off just before; nil = it did not
	pending map[string]*Span // calls without a result, by id
}

// event makes the span of an event, or adds the event to an existing span.
func (b *builder) event(at *reading, ev convstore.Event) {
	if at.holder != nil && at.holder.End == nil && ev.Time.After(at.holder.until) {
		at.holder.until = ev.Time
	}
	switch body := ev.Body.(type) {
	case convstore.TurnStart:
		at.holder, at.said, at.broken, at.pending = b.open(at.Conversation, ev), nil, nil, map[string]*Span{}
		return
	case convstore.UserMessage:
		if at.holder != nil {
			at.holder.Input, at.holder.InputBytes = cut(body.Text)
		}
	case convstore.Said:
		at.said = append(at.said, body.Said()...)
		if at.holder != nil {
			at.holder.Output, at.holder.OutputBytes = cut(body.Said())
		}
	case convstore.ModelCall:
		s := b.add(at.holder, at.Conversation, ev, Span{Kind: ModelCall, Name: body.Model, Stop: body.Stop})
		s.State, s.Reason = modelState(body.Stop)
		at.next(s)
		s.Start = ev.Time.Add(-max(0, body.Duration))
		if at.holder != nil && s.Start.Before(at.holder.Start) {
			s.Start = at.holder.Start
		}
		s.end(ev.Time)
		s.Output, s.OutputBytes = cut(string(at.said))
		s.use(body.Usage, body.CostNano)
		at.said = nil
	case convstore.ToolCall:
		s := b.byCall[call{at.ID, body.ID}]
		if s == nil {
			s = b.add(at.holder, at.Conversation, ev, Span{Kind: ToolCall, Name: body.Name, Start: ev.Time})
			s.called, s.seq = ev.Time, ev.Seq
			s.Input, s.InputBytes = cut(string(body.Arguments))
			s.State = "interrupted"
			if s.until = ev.Time; at.Status == convstore.StatusRunning {
				s.State, s.until = "running", b.Now
			}
		} else if !b.ordered[s] {
			b.ordered[s] = true
			s.called, s.seq = ev.Time, ev.Seq
			s.Run.Tool = body.Name
			if s.Run.Removed {
				s.Input, s.InputBytes = cut(string(body.Arguments))
			}
			s.parent = at.holder
		}
		at.pending[body.ID] = s
	case convstore.ToolResult:
		s := at.pending[body.ID]
		if s == nil {
			return
		}
		delete(at.pending, body.ID)
		if s.Kind == ToolCall {
			s.State = "ok"
			if body.IsError {
				s.State = "error"
				s.Reason = firstOf(body.Text)
			}
			s.Output, s.OutputBytes = cut(body.Text)
			s.end(ev.Time)
		} else if s.Run.Removed {
			s.Output, s.OutputBytes = cut(body.Text)
		}
	case convstore.TurnEnd:
		if at.holder != nil && at.holder.Kind == Turn {
			at.holder.State, at.holder.Reason = string(body.State), body.Reason
			at.holder.end(ev.Time)
		}
	}
}

// open begins a turn.
func (b *builder) open(c convstore.Conversation, ev convstore.Event) *Span {
	at := turnKey{c.ID, ev.Turn}
	if s := b.byTurn[at]; s != nil {
		return s
	}
	s := b.add(nil, c, ev, Span{Kind: Turn, Name: "turn " + strconv.Itoa(ev.Turn), State: string(c.Status), Reason: c.Reason, Start: ev.Time, until: ev.Time})
	if ev.Turn < c.Turns {
		s.State, s.Reason = "interrupted", "" // a later turn began
	} else if c.Status == convstore.StatusRunning {
		s.until = b.Now
	}
	b.byTurn[at] = s
	return s
}

// add makes the span of an event, in another.
func (b *builder) add(parent *Span, c convstore.Conversation, ev convstore.Event, s Span) *Span {
	s.ID = c.ID.String() + "/" + strconv.FormatUint(ev.Seq, 10)
	s.Conversation, s.TurnNumber, s.parent = c.ID, ev.Turn, parent
	b.spans = append(b.spans, &s)
	return &s
}

// began returns the time that orders a span among those beside it: a delegation is reserved after
// other calls of the same reply may have been refused.
func (s *Span) began() time.Time {
	if s.called.IsZero() {
		return s.Start
	}
	return s.called
}

// stopBroken is the stop reason of an attempt that failed and was repeated (agent.StopBroken).
const stopBroken = "broken"

// next takes the next model call of the turn. It says on the one before, if that broke off, who
// answered instead.
func (at *reading) next(s *Span) {
	if b := at.broken; b != nil {
		b.Reason += wording.Either(s.Name == b.Name, ", and was asked for again", "; "+s.Name+" took over")
	}
	if at.broken = nil; s.Stop == stopBroken {
		at.broken = s
	}
}

// modelState returns the state of a call by its stop reason, and what that means if it is not ok. A
// call that was lost with its process was charged in full.
func modelState(stop string) (state, reason string) {
	switch stop {
	case convstore.StopLost:
		return string(convstore.StateLost), "its process ended before the reply did"
	case "cut":
		return string(convstore.StateError), "the reply was cut off"
	case stopBroken:
		return string(convstore.StateError), "the reply broke off"
	}
	return string(convstore.StateOK), ""
}

// firstOf returns the first line of a result that says what went wrong.
func firstOf(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return brief.Prefix(strings.TrimPrefix(line, "error: "), maxReason)
}

// end closes a span, not before its start.
func (s *Span) end(at time.Time) {
	if at.Before(s.Start) {
		at = s.Start
	}
	s.End, s.until = &at, at
}

// use adds what was used.
func (s *Span) use(u convstore.Usage, nano *int64) {
	s.Usage = s.Usage.Add(u)
	s.Tokens = amount.Sum(s.Tokens, u.Tokens())
	if nano == nil {
		s.unpriced = true
	} else {
		s.nano = amount.Sum(s.nano, *nano)
	}
}

// include adds what another span used.
func (s *Span) include(o *Span) {
	s.use(o.Usage, &o.nano)
	s.unpriced = s.unpriced || o.unpriced
}

// trace puts the spans in order and sums them up.
func (b *builder) trace() *Trace {
	t := &Trace{ID: b.Conversation.ID, Title: b.Conversation.Title, Status: string(b.Conversation.Status), Spans: []*Span{}}
	var top []*Span
	for _, s := range b.spans {
		if s.parent == nil {
			top = append(top, s)
		} else {
			s.parent.children = append(s.parent.children, s)
		}
	}
	var all Span
	var walk func(list []*Span, depth int)
	walk = func(list []*Span, depth int) {
		slices.SortStableFunc(list, func(a, b *Span) int { return cmp.Or(a.began().Compare(b.began()), cmp.Compare(a.seq, b.seq)) })
		for _, s := range list {
			s.depth = depth
			t.Spans = append(t.Spans, s)
			if s.parent != nil {
				s.ParentID = s.parent.ID
			}
			walk(s.children, depth+1)
			for _, c := range s.children {
				s.include(c)
			}
			t.finish(s)
		}
	}
	walk(top, 0)
	open := false
	for _, s := range top {
		all.include(s)
		open = open || s.End == nil
	}
	t.Usage, t.Tokens, t.CostUSD = all.Usage, all.Tokens, all.cost()
	if len(t.Spans) == 0 {
		t.Start, t.until = b.Conversation.CreatedAt, b.Conversation.CreatedAt
	}
	t.DurationMS = milliseconds(t.until.Sub(t.Start))
	if !open && len(t.Spans) > 0 {
		t.End = &t.until
	}
	return t
}

// finish counts a span whose children are done.
func (t *Trace) finish(s *Span) {
	if s.until.Before(s.Start) {
		s.until = s.Start
	}
	s.DurationMS, s.CostUSD = milliseconds(s.until.Sub(s.Start)), s.cost()
	switch s.Kind {
	case ModelCall:
		t.ModelCalls++
	case ToolCall:
		t.ToolCalls++
	case Delegation:
		t.Delegations++
	}
	if t.Start.IsZero() || s.Start.Before(t.Start) {
		t.Start = s.Start
	}
	if s.until.After(t.until) {
		t.until = s.until
	}
}

func (s *Span) cost() *stream.USD {
	if s.unpriced {
		return nil
	}
	return (*stream.USD)(&s.nano)
}

// cut returns the start of a text, at most MaxText bytes and whole runes, and how long all of it
// is.
func cut(text string) (start string, bytes int) {
	return brief.Prefix(text, MaxText), len(text)
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func orNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
