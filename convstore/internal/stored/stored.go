// Package stored encodes what is read far more often than it is decoded whole: the record of an
// event, with a header by which a reader can skip it and a body, which is JSON that package
// convstore encodes and decodes; and the entry of an open delegation.
package stored

import (
	"encoding/binary"
	"errors"
)

// Kind is the type of a body as one byte of the stored record. The numbers are part of the format:
// new ones may be added, but none changed.
type Kind byte

// The kinds. KindOpaque is the kind of a body of an unknown type.
const (
	KindOpaque Kind = iota
	KindTurnStart
	KindUser
	KindAssistant
	KindReasoning
	KindStructured
	KindToolCall
	KindToolResult
	KindModelCall
	KindTurnEnd
	KindConfigDelta
	KindInquiry
	KindInquiryAnswer
	KindNote
	KindCompaction
	KindCount // number of kinds in this version
)

// Stored form of an event, the value in the bucket "events":
//
//	version 1 byte   1
//	kind    1 byte   see Kind; lets a reader skip events without decoding
//	flags   1 byte   bit 0: loose, see Loose
//	turn    4 bytes
//	time    8 bytes  nanoseconds since 1970
//	idlen   1 byte
//	id      idlen bytes
//	body    the rest, JSON
const (
	version     = 1
	offsetIDLen = 1 + 1 + 1 + 4 + 8
	header      = offsetIDLen + 1

	MaxID     = 64 // longest id in bytes
	FlagLoose = 1
)

var errMalformed = errors.New("event: malformed record")

// Event is a stored event with an undecoded body. Its slices point into the record.
type Event struct {
	Kind  Kind
	Loose bool // see Loose
	Turn  uint32
	Nano  int64 // nanoseconds since 1970
	ID    []byte
	Body  []byte
}

// Placed is an event with its place in its conversation, from 1.
type Placed struct {
	Seq uint64
	Event
}

// Parse reads a record.
func Parse(v []byte) (Event, error) {
	if len(v) < header || v[0] != version {
		return Event{}, errMalformed
	}
	n := int(v[offsetIDLen])
	if n == 0 || len(v) < header+n {
		return Event{}, errMalformed
	}
	return Event{
		Kind:  Kind(v[1]),
		Loose: v[2]&FlagLoose != 0,
		Turn:  binary.BigEndian.Uint32(v[3:]),
		Nano:  int64(binary.BigEndian.Uint64(v[7:])),
		ID:    v[header : header+n],
		Body:  v[header+n:],
	}, nil
}

// Append adds the record to b.
func (s Event) Append(b []byte) []byte {
	var flags byte
	if s.Loose {
		flags |= FlagLoose
	}
	b = append(b, version, byte(s.Kind), flags)
	b = binary.BigEndian.AppendUint32(b, s.Turn)
	b = binary.BigEndian.AppendUint64(b, uint64(s.Nano))
	b = append(b, byte(len(s.ID)))
	b = append(b, s.ID...)
	return append(b, s.Body...)
}
