package convstore

import (
	"bytes"
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"jp/convstore/internal/stored"
	"jp/tools/jsondoc"
)

// Event is the atomic, append-only unit of a conversation.
//
// It encodes to JSON as one flat object: event_id, seq, turn, timestamp, type, and the fields of
// the body.
type Event struct {
	// ID is chosen by the writer: 1 to 64 bytes of UTF-8, unique in its conversation. To append an
	// ID that is there already changes nothing. Append fills in an empty ID.
	ID string

	Seq  uint64    // place in the conversation, from 1; set by Append
	Turn int       // from 1; 0 before the first TurnStart; set by Append
	Time time.Time // set by Append if zero; read back in UTC
	Body Body

	// raw is the body as stored. It has fields that Body does not have, added by a newer version or
	// another program.
	raw []byte
}

var idEncoding = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// NewEventID returns a new event id: 26 characters that sort by the time at which they were made.
func NewEventID() string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], uint64(time.Now().UnixMilli())<<16)
	rand.Read(b[6:])
	return idEncoding.EncodeToString(b[:])
}

// body returns the JSON to store: the stored bytes if they still decode to Body, else the encoding
// of Body.
func (e Event) body() ([]byte, error) {
	if e.Body == nil {
		return nil, errors.New("event: no body")
	}
	b, err := encodeBody(e.Body)
	if err != nil || e.raw == nil {
		return b, err
	}
	was, err := DecodeBody(e.raw)
	if err != nil {
		return b, nil
	}
	if c, err := encodeBody(was); err == nil && bytes.Equal(b, c) {
		return e.raw, nil
	}
	return b, nil
}

type envelope struct {
	ID   string    `json:"event_id,omitempty"`
	Seq  uint64    `json:"seq,omitempty"`
	Turn int       `json:"turn"`
	Time time.Time `json:"timestamp,omitzero"`
}

// MarshalJSON encodes the event as one flat object. A body that was read from a store keeps all its
// stored fields.
func (e Event) MarshalJSON() ([]byte, error) {
	head, err := jsondoc.Encode(envelope{e.ID, e.Seq, e.Turn, e.Time.UTC()})
	if err != nil {
		return nil, err
	}
	body, err := e.body()
	if err != nil {
		return nil, err
	}
	body = bytes.TrimLeft(body[1:], " \t\r\n") // {"type":...: never empty
	return append(append(head[:len(head)-1], ','), body...), nil
}

// UnmarshalJSON decodes what MarshalJSON wrote. Bodies of an unknown type become Opaque; a later
// Append stores them as they were.
func (e *Event) UnmarshalJSON(data []byte) error {
	var env envelope
	if err := json.Unmarshal(data, &env); err != nil {
		return fmt.Errorf("event: %w", err)
	}
	raw, err := withoutMembers(data, "event_id", "seq", "turn", "timestamp")
	if err != nil {
		return fmt.Errorf("event: %w", err)
	}
	body, err := DecodeBody(raw)
	if err != nil {
		return err
	}
	*e = Event{ID: env.ID, Seq: env.Seq, Turn: env.Turn, Time: env.Time, Body: body, raw: raw}
	return nil
}

// withoutMembers returns a JSON object without the members of these names, in upper or lower case.
// The other members keep their bytes.
func withoutMembers(object []byte, names ...string) ([]byte, error) {
	members, err := jsondoc.Members(object)
	if err != nil {
		return nil, err
	}
	return jsondoc.Object(slices.DeleteFunc(members, func(m jsondoc.Member) bool {
		return slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, m.Name) }) // encoding/json ignores case too
	})), nil
}

// eventOf decodes a record. The event owns the bytes of the record from then on.
func eventOf(s stored.Event, seq uint64) (Event, error) {
	body, err := BodyOf(s)
	if err != nil {
		return Event{}, err
	}
	return Event{
		ID:   string(s.ID),
		Seq:  seq,
		Turn: int(s.Turn),
		Time: time.Unix(0, s.Nano).UTC(),
		Body: body,
		raw:  bytes.TrimSpace(s.Body), // an import keeps white space around it
	}, nil
}

// EncodeEvent returns the record of an event, without its turn. It fails if a record cannot hold
// the event.
func EncodeEvent(e Event) (stored.Event, error) {
	if o, ok := e.Body.(Opaque); ok {
		// A body of a known type is stored as that type.
		decoded, err := DecodeBody(o.Raw)
		if err != nil {
			return stored.Event{}, err
		}
		if TypeOf(decoded) != o.Name {
			return stored.Event{}, fmt.Errorf("event: %s: is of type %s", o.Name, TypeOf(decoded))
		}
		e.Body, e.raw = decoded, bytes.TrimSpace(o.Raw)
	}
	body, err := e.body()
	if err != nil {
		return stored.Event{}, err
	}
	if crowded(KindOf(e.Body), body) {
		return stored.Event{}, errCrowded
	}
	if e.ID == "" || len(e.ID) > stored.MaxID || !utf8.ValidString(e.ID) {
		return stored.Event{}, fmt.Errorf("event: id %q: want 1 to %d bytes of UTF-8", e.ID, stored.MaxID)
	}
	if e.Time.Before(time.Unix(0, math.MinInt64)) || e.Time.After(time.Unix(0, math.MaxInt64)) {
		return stored.Event{}, fmt.Errorf("event %s: time %v is out of range", e.ID, e.Time)
	}
	return stored.Event{
		Kind:  KindOf(e.Body),
		Loose: stored.Loose(body),
		Nano:  e.Time.UnixNano(),
		ID:    []byte(e.ID),
		Body:  body,
	}, nil
}
