package stored

import "encoding/binary"

// Open is an open delegation, with what an account needs of it. All others of its ledger are looked
// at whenever one is made, so it is stored beside the record, which takes longer to decode:
//
//	child id, caller id, turn u32, session u32, within u64, tokens, cost
//
// An amount of its grant is 1 and a u64, or 0 and 0 if it is unlimited. In a store of an earlier
// version there are only the two ids.
type Open struct {
	Child, Caller    int64
	Turn, Session    int
	Within           uint64
	Tokens, CostNano *int64 // of its grant; nil = unlimited
}

// The sizes of an entry: with the ids alone, and whole.
const (
	openIDs  = 16
	openSize = 50
)

// Append appends the stored form.
func (o Open) Append(b []byte) []byte {
	order := binary.BigEndian
	b = order.AppendUint64(b, uint64(o.Child))
	b = order.AppendUint64(b, uint64(o.Caller))
	b = order.AppendUint32(b, uint32(o.Turn))
	b = order.AppendUint32(b, uint32(o.Session))
	b = order.AppendUint64(b, o.Within)
	for _, n := range []*int64{o.Tokens, o.CostNano} {
		if n == nil {
			b = order.AppendUint64(append(b, 0), 0)
		} else {
			b = order.AppendUint64(append(b, 1), uint64(*n))
		}
	}
	return b
}

// IsOpen reports whether b is the stored form of an open delegation.
func IsOpen(b []byte) bool { return len(b) == openIDs || len(b) == openSize }

// ParseOpen returns an open delegation of its stored form. It is not whole if only the two ids are
// there.
func ParseOpen(b []byte) (o Open, whole bool) {
	order := binary.BigEndian
	o.Child, o.Caller = int64(order.Uint64(b)), int64(order.Uint64(b[8:]))
	if len(b) == openIDs {
		return o, false
	}
	limit := func(b []byte) *int64 {
		if b[0] == 0 {
			return nil
		}
		return new(int64(order.Uint64(b[1:])))
	}
	o.Turn, o.Session, o.Within = int(order.Uint32(b[16:])), int(order.Uint32(b[20:])), order.Uint64(b[24:])
	o.Tokens, o.CostNano = limit(b[32:]), limit(b[41:])
	return o, true
}
