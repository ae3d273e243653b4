package rule

import (
	"encoding/binary"
	"encoding/json"
	"math/big"
	"reflect"
	"testing"

	"jp/convstore"
)

// draws reads numbers from the bytes of a fuzzer; 0 when there are none left.
type draws struct{ b []byte }

func (d *draws) n(most int) int {
	if len(d.b) == 0 {
		return 0
	}
	x := int(d.b[0])
	d.b = d.b[1:]
	return x % most
}

func (d *draws) amount() *int64 {
	switch d.n(6) {
	case 0:
		return nil
	case 1:
		return some(int64(d.n(16)) - 4)
	case 2:
		return some(int64(d.n(256)) * 100)
	case 3:
		return some(int64(d.n(256)) << 32)
	default:
		var eight [8]byte
		d.b = d.b[copy(eight[:], d.b):]
		return some(int64(binary.LittleEndian.Uint64(eight[:])))
	}
}

func (d *draws) budget() convstore.Budget {
	return convstore.Budget{Tokens: d.amount(), CostNano: d.amount()}
}

// sides are the two amounts of a budget, by name.
func sides(b convstore.Budget) map[string]*int64 {
	return map[string]*int64{"tokens": b.Tokens, "cost": b.CostNano}
}

// FuzzGrants: what one reply's asks are granted together is never more than is free and leaves the
// caller its closing call, no ask is granted more than it wished or its profile allows, limits of
// calls, children and price hold, and the same input gives the same bytes.
func FuzzGrants(f *testing.F) {
	f.Add(1.0, []byte{2, 50, 2, 50})
	f.Add(0.5, []byte{1, 15, 1, 15, 0, 0, 0, 0, 0, 0, 3, 5, 5, 5, 5, 5, 5, 5, 5})
	f.Fuzz(func(t *testing.T, share float64, b []byte) {
		if !(share >= 0 && share <= 1) { // what config allows
			return
		}
		d := &draws{b}
		left := d.budget()
		s := standing(d.n(3), 3, []string{toolQuery, toolBatch, "fs_read_file"})
		s.Account.Left, s.Account.Free = left, left
		for i, free := range []**int64{&s.Account.Free.Tokens, &s.Account.Free.CostNano} {
			// by runs that have not ended
			if held := int64(d.n(256)); *free != nil && **free > -1<<62 {
				*free = some(**free - held*int64(1+i*1000))
			}
		}
		c := caller(toolQuery, toolBatch)
		c.Limits.Share, c.Limits.MaxDepth = share, 3
		c.Limits.MaxPerTurn, c.Limits.MaxChildren = d.n(9), d.n(9)
		s.Calls, s.Children = d.n(5), d.n(5)
		if d.n(2) == 1 {
			s.Account.Limits = &convstore.Limits{Strict: d.n(2) == 1, Children: d.n(9), Parallel: d.n(4)}
		}
		if s.Caller.Grant != nil && d.n(2) == 1 {
			c.Closing = convstore.Budget{Tokens: some(int64(d.n(256)) * 16), CostNano: some(int64(d.n(256)) * 1000)}
		}
		c.Priced = func(model string) bool { return model == "p/priced" }
		batches := []*Batch{nil, {Later: d.n(4)}, {}}
		asks := make([]Ask, 1+d.n(12))
		for i := range asks {
			a := Ask{Call: string(rune('a' + i)), Tool: toolQuery, Profile: researcher(d.n(3), "fs_read_file"), Batch: batches[d.n(3)]}
			a.Profile.Model = []string{"p/priced", "p/unknown"}[d.n(2)]
			a.ID = []convstore.ID{0, 0, 0, child, stranger}[d.n(5)]
			a.Profile.Caps, a.Want = d.budget(), d.budget()
			asks[i] = a
		}

		above := s.Caller.Grant != nil && d.n(2) == 1
		if above {
			s.Caller.Grant.Strict = true
		}

		vs := Decide(s, c, asks)
		if again := Decide(s, c, asks); !reflect.DeepEqual(vs, again) {
			t.Fatalf("the same input gives %v and %v", shown(vs), shown(again))
		}
		sum := map[string]*big.Int{"tokens": new(big.Int), "cost": new(big.Int)}
		calls, made := s.Calls, s.Children
		most := c.Limits.MaxChildren
		if l := s.Account.Limits; l != nil {
			most = l.Children
		}
		for i, v := range vs {
			a := asks[i]
			if v.Err != nil {
				if !Refused(v.Err) || !reflect.DeepEqual(v.Child, convstore.Child{}) {
					t.Errorf("ask %d: %v with %+v", i, v.Err, v.Child)
				}
				continue
			}
			calls++
			caps := a.Profile.Caps
			if a.ID == 0 {
				made++
			} else {
				caps = convstore.Budget{} // those of its own grant, which has none here
			}
			strict := above || s.Account.Limits != nil && s.Account.Limits.Strict || caps.CostNano != nil || a.Want.CostNano != nil
			if a.ID == stranger || strict && v.Child.Model != "p/priced" || v.Child.Grant.Strict != strict {
				t.Errorf("ask %d: admitted %v with the model %q, strict below it: %v", i, a.ID, v.Child.Model, v.Child.Grant.Strict)
			}
			for side, n := range sides(v.Child.Grant.Budget) {
				for name, bound := range map[string]*int64{"free": sides(s.Account.Free)[side], "wish": sides(a.Want)[side], "profile": sides(caps)[side]} {
					if bound != nil && (n == nil || *n > *bound) {
						t.Errorf("ask %d: granted %s %v, %s is %d", i, side, number(n), name, *bound)
					}
				}
				if n == nil {
					continue
				}
				if *n <= 0 {
					t.Errorf("ask %d: granted %s %d", i, side, *n)
				}
				sum[side].Add(sum[side], big.NewInt(*n))
			}
		}
		if calls > max(c.Limits.MaxPerTurn, s.Calls) || made > max(most, s.Children) {
			t.Errorf("%d calls of %d, %d children of %d", calls, c.Limits.MaxPerTurn, made, most)
		}
		for side, got := range sum {
			free, whole := sides(s.Account.Free)[side], sides(left)[side]
			if got.Sign() == 0 || free == nil {
				continue
			}
			if got.Cmp(big.NewInt(*free)) > 0 {
				t.Errorf("granted %s %v of %d that are free: %v", side, got, *free, shown(vs))
			}
			if closing := sides(c.Closing)[side]; closing != nil && new(big.Int).Add(got, big.NewInt(*closing)).Cmp(big.NewInt(*whole)) > 0 {
				t.Errorf("granted %s %v of %d, and the last call needs %d", side, got, *whole, *closing)
			}
		}
	})
}

func number(n *int64) any {
	if n == nil {
		return "unlimited"
	}
	return *n
}

// shown is what verdicts come to.
func shown(vs []Verdict) []string {
	out := make([]string, len(vs))
	for i, v := range vs {
		b, _ := json.Marshal(sides(v.Child.Grant.Budget))
		out[i] = string(b)
		if v.Err != nil {
			out[i] = v.Err.Error()
		}
	}
	return out
}
