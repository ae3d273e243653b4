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

	"jp/tools/jsondoc"
)

// Event is the atomic, append-only unit of a conversation.
//
// It encodes to JSON as one flat object: event_id, seq, turn, timestamp, and the
// fields of the body beside its type.
type Event struct {
	// ID is chosen by the writer, 1 to 64 bytes of UTF-8, unique in its
	// conversation: appending an ID that is there changes nothing. Append fills
	// in an empty one.
	ID string

	Seq  uint64    // place in the conversation, from 1; set by Append
	Turn int       // from 1, 0 before the first TurnStart; set by Append
	Time time.Time // set by Append where zero; read back in UTC
	Body Body

	// raw is the body as stored. It keeps what Body cannot hold: the fields
	// that a newer version or another program added.
	raw []byte
}

var idEncoding = base32.NewEncoding("0123456789abcdefghjkmnpqrstvwxyz").WithPadding(base32.NoPadding)

// NewEventID returns a fresh event id: 26 characters that sort by the moment they
// were made.
func NewEventID() string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:], uint64(time.Now().UnixMilli())<<16)
	rand.Read(b[6:])
	return idEncoding.EncodeToString(b[:])
}

// body returns the JSON to store: the stored bytes as long as they still say what
// Body says, else the encoding of Body.
func (e Event) body() ([]byte, error) {
	if e.Body == nil {
		return nil, errors.New("event: no body")
	}
	b, err := encodeBody(e.Body)
	if err != nil || e.raw == nil {
		return b, err
	}
	was, err := decodeBody(e.raw)
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

// MarshalJSON encodes the event as one flat object. A body that was read from a
// store keeps every field it was stored with.
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

// UnmarshalJSON decodes what MarshalJSON wrote. Bodies of an unknown type become
// Opaque; a later Append stores them as they were.
func (e *Event) UnmarshalJSON(data []byte) error {
	var env envelope
	if err := json.Unmarshal(data, &env); err != nil {
		return fmt.Errorf("event: %w", err)
	}
	raw, err := withoutMembers(data, "event_id", "seq", "turn", "timestamp")
	if err != nil {
		return fmt.Errorf("event: %w", err)
	}
	body, err := decodeBody(raw)
	if err != nil {
		return err
	}
	*e = Event{ID: env.ID, Seq: env.Seq, Turn: env.Turn, Time: env.Time, Body: body, raw: raw}
	return nil
}

// withoutMembers returns a JSON object without some of its members, in whatever
// case their names are, the others as they were.
func withoutMembers(object []byte, names ...string) ([]byte, error) {
	members, err := jsondoc.Members(object)
	if err != nil {
		return nil, err
	}
	return jsondoc.Object(slices.DeleteFunc(members, func(m jsondoc.Member) bool {
		return slices.ContainsFunc(names, func(name string) bool { return strings.EqualFold(name, m.Name) }) // as they are read
	})), nil
}

// Stored form of an event, the value in the bucket "events":
//
//	version 1 byte   1
//	kind    1 byte   see kindOf; lets a reader pass over events undecoded
//	flags   1 byte   bit 0: loose, see isLoose
//	turn    4 bytes
//	time    8 bytes  nanoseconds since 1970
//	idlen   1 byte
//	id      idlen bytes
//	body    the rest, JSON
const (
	storedVersion = 1
	storedIDLen   = 1 + 1 + 1 + 4 + 8 // its offset
	storedHeader  = storedIDLen + 1
	maxEventID    = 64
	flagLoose     = 1
)

var errStored = errors.New("event: malformed record")

// stored is the undecoded view of a stored event; its slices point into the
// record.
type stored struct {
	kind  kind
	loose bool
	turn  uint32
	nano  int64
	id    []byte
	body  []byte
}

func parseStored(v []byte) (stored, error) {
	if len(v) < storedHeader || v[0] != storedVersion {
		return stored{}, errStored
	}
	n := int(v[storedIDLen])
	if n == 0 || len(v) < storedHeader+n {
		return stored{}, errStored
	}
	return stored{
		kind:  kind(v[1]),
		loose: v[2]&flagLoose != 0,
		turn:  binary.BigEndian.Uint32(v[3:]),
		nano:  int64(binary.BigEndian.Uint64(v[7:])),
		id:    v[storedHeader : storedHeader+n],
		body:  v[storedHeader+n:],
	}, nil
}

// append adds the record to b.
func (s stored) append(b []byte) []byte {
	var flags byte
	if s.loose {
		flags |= flagLoose
	}
	b = append(b, storedVersion, byte(s.kind), flags)
	b = binary.BigEndian.AppendUint32(b, s.turn)
	b = binary.BigEndian.AppendUint64(b, uint64(s.nano))
	b = append(b, byte(len(s.id)))
	b = append(b, s.id...)
	return append(b, s.body...)
}

// event decodes the record into a value that goes on to own its bytes.
func (s stored) event(seq uint64) (Event, error) {
	body, err := s.decode()
	if err != nil {
		return Event{}, err
	}
	return Event{
		ID:   string(s.id),
		Seq:  seq,
		Turn: int(s.turn),
		Time: time.Unix(0, s.nano).UTC(),
		Body: body,
		raw:  bytes.TrimSpace(s.body), // an import keeps white space around it
	}, nil
}

// encodeEvent makes the record of an event, without its turn. It fails where
// the event cannot be kept as it is.
func encodeEvent(e Event) (stored, error) {
	if o, ok := e.Body.(Opaque); ok {
		// What this version does know is stored as what it is.
		known, err := decodeBody(o.Raw)
		if err != nil {
			return stored{}, err
		}
		if known.Type() != o.Name {
			return stored{}, fmt.Errorf("event: %s: is of type %s", o.Name, known.Type())
		}
		e.Body, e.raw = known, bytes.TrimSpace(o.Raw)
	}
	body, err := e.body()
	if err != nil {
		return stored{}, err
	}
	if e.ID == "" || len(e.ID) > maxEventID || !utf8.ValidString(e.ID) {
		return stored{}, fmt.Errorf("event: id %q: want 1 to %d bytes of UTF-8", e.ID, maxEventID)
	}
	if e.Time.Before(time.Unix(0, math.MinInt64)) || e.Time.After(time.Unix(0, math.MaxInt64)) {
		return stored{}, fmt.Errorf("event %s: time %v is out of range", e.ID, e.Time)
	}
	return stored{
		kind:  kindOf(e.Body),
		loose: isLoose(body),
		nano:  e.Time.UnixNano(),
		id:    []byte(e.ID),
		body:  body,
	}, nil
}
