// Package archive carries conversations between stores: Export yields them piece by piece, a
// LineWriter writes the pieces as lines, ReadLines reads those, and Import stores them, all or
// none. Rescue yields what can be read of a damaged store.
//
// It defines what conversations are outside of a store. Package convstore defines what they are in
// one. This package uses its transactions through View.Inside.
package archive

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"time"
	"unicode/utf8"

	"jp/convstore"
	"jp/convstore/internal/stored"
	"jp/tools/jsondoc"
)

// Piece is one part of an export: a conversation, an event or a delegation. Exactly one of the
// three is set.
type Piece struct {
	Pos string // position for errors, such as file:line; "" = none

	Conversation *Exported
	Event        *ExportedEvent
	Delegation   *convstore.Delegation
}

// size returns about how many bytes of memory a piece takes.
func (p Piece) size() (int, error) {
	const own = 512 // of the piece itself
	if p.Event != nil {
		return own + len(p.Event.ID) + len(p.Event.Body), nil
	}
	var rest any = p.Conversation
	if p.Delegation != nil {
		rest = p.Delegation
	}
	b, err := jsondoc.Encode(rest)
	return own + len(b), err
}

// Exported is the metadata of a conversation outside of a store. It leaves out what can be computed
// from the events.
type Exported struct {
	ID     convstore.ID   `json:"id"`
	Parent convstore.ID   `json:"parent_id,omitzero"`
	Link   convstore.Link `json:"link,omitzero"`
	Depth  int            `json:"depth,omitzero"`

	Title      string            `json:"title,omitzero"`
	Hidden     bool              `json:"hidden,omitzero"`
	Pinned     bool              `json:"pinned,omitzero"`
	ArchivedAt time.Time         `json:"archived_at,omitzero"`
	ExpiresAt  time.Time         `json:"expires_at,omitzero"`
	Labels     map[string]string `json:"labels,omitempty"`
	CreatedAt  time.Time         `json:"created_at,omitzero"` // zero = the time in its id
	UpdatedAt  time.Time         `json:"updated_at,omitzero"` // zero = the time of its last event
	Model      string            `json:"model,omitzero"`

	// How its last run was settled, if that run ended before its turn began.
	RunState  convstore.State `json:"run_state,omitzero"`
	RunReason string          `json:"run_reason,omitzero"`

	convstore.Void
}

// setConfig stores a config in v without changing a byte of it.
func setConfig(v *convstore.Void, c convstore.Config) {
	v.Tools, v.Config, v.ConfigBytes = c.Tools, nil, nil
	var compact bytes.Buffer
	if utf8.Valid(c.JSON) && json.Compact(&compact, c.JSON) == nil && bytes.Equal(compact.Bytes(), c.JSON) {
		v.Config = c.JSON
	} else {
		v.ConfigBytes = c.JSON
	}
}

// ExportedEvent is an event outside of a store. Its body has the stored bytes.
type ExportedEvent struct {
	Conversation convstore.ID
	ID           string
	Time         time.Time
	Body         []byte // a JSON object with a member "type"
}

// stored returns the record of an event, without its turn, and its decoded body.
func (e ExportedEvent) stored() (stored.Event, convstore.Body, error) {
	body, err := convstore.DecodeBody(e.Body)
	if err != nil {
		return stored.Event{}, nil, err
	}
	s := stored.Event{Kind: convstore.KindOf(body), Loose: stored.Loose(e.Body), Nano: e.Time.UnixNano(), ID: []byte(e.ID), Body: e.Body}
	switch b := body.(type) {
	case convstore.ModelCall:
		err = checkSpend(convstore.Spend{Usage: b.Usage, CostNano: deref(b.CostNano)})
	case convstore.TurnEnd:
		if !b.State.Terminal() {
			err = fmt.Errorf("event %.80q: unknown state %.40q", e.ID, b.State)
		}
	}
	switch {
	case err != nil:
	case e.ID == "" || len(e.ID) > stored.MaxID || !utf8.ValidString(e.ID):
		err = fmt.Errorf("event id %.80q: want 1 to %d bytes of UTF-8", e.ID, stored.MaxID)
	case !storable(e.Time):
		err = fmt.Errorf("event %s: time %v is out of range", e.ID, e.Time)
	}
	return s, body, err
}

// storable reports whether nanoseconds since 1970 can hold a time.
func storable(at time.Time) bool {
	return !at.Before(time.Unix(0, -1<<63)) && !at.After(time.Unix(0, 1<<63-1))
}

// checkSpend accepts amounts of any size, as the store keeps them: their sums end at the largest
// number. Only calls without a price are added plainly.
func checkSpend(s convstore.Spend) error {
	for _, n := range []int64{s.Input, s.Output, s.CacheRead, s.CacheWrite, s.CostNano, int64(s.Unpriced)} {
		if n < 0 {
			return fmt.Errorf("usage or cost of %d is out of range", n)
		}
	}
	if s.Unpriced > math.MaxInt32 {
		return fmt.Errorf("%d calls of unknown price: out of range", s.Unpriced)
	}
	return nil
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

// maxExchangedID is the largest id that can be imported. An id is a time in tenths of a second. A
// conversation without CreatedAt gets that time, which must fit into nanoseconds.
const maxExchangedID = convstore.ID(math.MaxInt64 / (100 * time.Millisecond))

// maxExchangedDepth is the largest depth that can be imported.
const maxExchangedDepth = 255

// check fails if no store can hold the metadata.
func (x *Exported) check() error {
	bad := func(format string, args ...any) error {
		return fmt.Errorf("conversation %s: %s", x.ID, fmt.Sprintf(format, args...))
	}
	switch {
	case x.ID <= 0 || x.ID > maxExchangedID:
		return fmt.Errorf("conversation %q: its id is out of range", x.ID)
	case x.Parent < 0 || x.Parent > maxExchangedID:
		return bad("its parent's id is out of range")
	case (x.Parent == 0) != (x.Link == convstore.NoLink):
		return bad("parent %q and link %q contradict", x.Parent, x.Link)
	case x.Depth < 0 || x.Depth > maxExchangedDepth:
		return bad("depth %d is out of range", x.Depth)
	case x.RunState != "" && !x.RunState.Terminal():
		return bad("unknown state %.40q", x.RunState)
	}
	for _, at := range []time.Time{x.ArchivedAt, x.ExpiresAt, x.CreatedAt, x.UpdatedAt} {
		if !at.IsZero() && !storable(at) {
			return bad("time %v is out of range", at)
		}
	}
	return nil
}

func checkExchanged(d *convstore.Delegation) error {
	switch {
	case d.Root <= 0 || d.Caller <= 0 || d.Child <= 0 || d.Root > maxExchangedID || d.Caller > maxExchangedID || d.Child > maxExchangedID:
		return fmt.Errorf("delegation: an id is out of range")
	case !d.State.Terminal():
		return fmt.Errorf("delegation by %s: state %.40q has not ended", d.Caller, d.State)
	case d.Call == "" || len(d.Call) > convstore.MaxCall:
		return fmt.Errorf("delegation by %s: call %.40q: want an id of 1 to %d bytes", d.Caller, d.Call, convstore.MaxCall)
	case d.Turn < 0 || d.Session < 0 || int64(d.Turn) > 1<<32-1 || d.Depth < 0 || d.Depth > maxExchangedDepth:
		return fmt.Errorf("delegation by %s: a number is out of range", d.Caller)
	}
	for _, s := range []convstore.Spend{d.Own, d.Total} {
		if err := checkSpend(s); err != nil {
			return fmt.Errorf("delegation by %s: %w", d.Caller, err)
		}
	}
	for _, at := range []time.Time{d.Reserved, d.Started, d.Ended} {
		if !at.IsZero() && !storable(at) {
			return fmt.Errorf("delegation by %s: time %v is out of range", d.Caller, at)
		}
	}
	return nil
}
