package regex

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"regexp/syntax"
	"strings"
	"unicode/utf8"
)

// Needle is a text, or the beginning of one, that is looked for many times faster than an
// expression is matched. The zero Needle is found everywhere.
type Needle struct {
	text []byte // in lower case when fold
	fold bool   // ASCII letters match in either case

	// Offsets in text of the two bytes that are likely to be the rarest. alone says that the first
	// is so rare that it is enough to look for it.
	rare, second int
	alone        bool
}

// maxNeedle bounds the text of a needle in bytes: it is compared at every place where its rarest
// bytes are.
const maxNeedle = 32

// maxNeedles bounds how many needles are looked for in the same data.
const maxNeedles = 8

// Needles returns texts for a simplified expression: data in which it matches hold at least one of
// them. It returns nil when no such texts are known, and otherwise the set that is likely to be
// found least often.
//
// cut returns parts of a text. Where the text is in a match, all of these parts are in the data,
// byte for byte; with fold in any mixture of cases, and then only ASCII letters, which differ in
// one bit, count as equal.
func Needles(tree *syntax.Regexp, cut func(text string, fold bool) []string) []Needle {
	switch tree.Op {
	case syntax.OpLiteral:
		var best []Needle
		fold := tree.Flags&syntax.FoldCase != 0
		for _, part := range cut(string(tree.Rune), fold) {
			if part != "" {
				best = better(best, []Needle{newNeedle(part, fold)})
			}
		}
		return best
	case syntax.OpCapture, syntax.OpPlus:
		return Needles(tree.Sub[0], cut)
	case syntax.OpRepeat:
		if tree.Min > 0 {
			return Needles(tree.Sub[0], cut)
		}
	case syntax.OpConcat:
		var best []Needle
		for _, sub := range tree.Sub {
			best = better(best, Needles(sub, cut))
		}
		return best
	case syntax.OpAlternate:
		var all []Needle
		for _, sub := range tree.Sub {
			n := Needles(sub, cut)
			if n == nil {
				return nil
			}
			all = append(all, n...)
		}
		if len(all) <= maxNeedles {
			return all
		}
	}
	return nil
}

// better returns the alternatives that are likely to be found less often; a if both are alike.
func better(a, b []Needle) []Needle {
	if worth(b) > worth(a) {
		return b
	}
	return a
}

// worth is the work that a set of alternatives saves: as much as the one that is found most often
// saves.
func worth(needles []Needle) int {
	least := 0
	for i, n := range needles {
		if w := rarity(n.text[n.rare]) + 4*min(len(n.text), 16); i == 0 || w < least {
			least = w
		}
	}
	return least
}

func newNeedle(text string, fold bool) Needle {
	n := Needle{text: []byte(text)[:min(len(text), maxNeedle)]}
	if fold {
		// Bytes that are only part of a character stay as they are.
		for i, c := range n.text {
			if 'A' <= c && c <= 'Z' {
				n.text[i] += 'a' - 'A'
			}
			n.fold = n.fold || 'a' <= n.text[i] && n.text[i] <= 'z'
		}
	}
	for i, b := range n.text {
		if rarity(b) > rarity(n.text[n.rare]) {
			n.rare = i
		}
	}
	n.second = n.rare
	for i, b := range n.text {
		same := n.text[n.second] == n.text[n.rare]
		if i != n.rare && b != n.text[n.rare] && (same || rarity(b) > rarity(n.text[n.second])) {
			n.second = i
		}
	}
	n.alone = rarity(n.text[n.rare]) >= rarity('k')
	return n
}

// Index returns the first place of the needle in data, or -1.
func (n *Needle) Index(data []byte) int {
	switch {
	case len(n.text) == 0:
		return 0
	case len(n.text) > len(data):
		return -1
	case n.alone:
		return n.indexOne(data)
	}
	return n.indexTwo(data)
}

// at reports whether the text is at a place where there is room for it.
func (n *Needle) at(data []byte, place int) bool {
	data = data[place : place+len(n.text)]
	if n.fold {
		return equalFold(data, n.text)
	}
	return bytes.Equal(data, n.text)
}

// indexOne looks for the rarest byte, at the speed of IndexByte, and for the text around it.
func (n *Needle) indexOne(data []byte) int {
	// Where the text may begin, the byte is between these.
	s := data[n.rare:]
	s = s[:len(data)-len(n.text)+1]
	lower := n.text[n.rare]
	upper := lower
	if n.fold && 'a' <= lower && lower <= 'z' {
		upper -= 'a' - 'A'
	}
	// The next places of the byte in both cases; the nearer one is tried.
	nextLower, nextUpper := indexFrom(s, lower, 0), len(s)
	if upper != lower {
		nextUpper = indexFrom(s, upper, 0)
	}
	for {
		place := min(nextLower, nextUpper)
		if place == len(s) {
			return -1
		}
		if n.at(data, place) {
			return place
		}
		if place == nextLower {
			nextLower = indexFrom(s, lower, place+1)
		} else {
			nextUpper = indexFrom(s, upper, place+1)
		}
	}
}

// indexTwo looks for two bytes at their distance, 32 places at once, and for the text around them.
// It is several times slower than IndexByte for a rare byte, and faster for a common byte that is
// in every second line.
func (n *Needle) indexTwo(data []byte) int {
	const ones = 0x0101010101010101
	// Setting this bit turns upper case into lower case. It also makes some other bytes equal; the
	// comparison of the whole text finds these.
	var bit byte
	if n.fold {
		bit = 0x20
	}
	pair := bytePair{
		fold: uint64(bit) * ones,
		a:    uint64(n.text[n.rare]|bit) * ones,
		b:    uint64(n.text[n.second]|bit) * ones,
	}
	places := len(data) - len(n.text) + 1
	x, y := data[n.rare:], data[n.second:]
	place := 0
	for ; place+32 <= places; place += 32 {
		x, y := x[place:place+32], y[place:place+32]
		z0, z1, z2, z3 := pair.places(x, y), pair.places(x[8:], y[8:]), pair.places(x[16:], y[16:]), pair.places(x[24:], y[24:])
		if z0|z1|z2|z3 == 0 {
			continue
		}
		for i, z := range [...]uint64{z0, z1, z2, z3} {
			for ; z != 0; z &= z - 1 {
				if at := place + 8*i + bits.TrailingZeros64(z)/8; n.at(data, at) {
					return at
				}
			}
		}
	}
	for ; place < places; place++ {
		if x[place]|bit == byte(pair.a) && y[place]|bit == byte(pair.b) && n.at(data, place) {
			return place
		}
	}
	return -1
}

// bytePair looks for two bytes in eight places at once. a and b hold each byte eight times, fold
// the bit that does not count.
type bytePair struct{ fold, a, b uint64 }

// places returns a word in which the high bit of byte i is set if x[i] is the first and y[i] the
// second byte. The bit of the byte behind such a byte may be set too.
func (p bytePair) places(x, y []byte) uint64 {
	t := ((binary.LittleEndian.Uint64(x) | p.fold) ^ p.a) | ((binary.LittleEndian.Uint64(y) | p.fold) ^ p.b)
	return (t - 0x0101010101010101) &^ t & 0x8080808080808080
}

// indexFrom returns the place of the next b at or after from, len(s) when there is none.
func indexFrom(s []byte, b byte, from int) int {
	if from >= len(s) {
		return len(s)
	}
	if i := bytes.IndexByte(s[from:], b); i >= 0 {
		return from + i
	}
	return len(s)
}

// equalFold compares with a text in lower case, taking ASCII letters in either case.
func equalFold(s, lower []byte) bool {
	for i, c := range s {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != lower[i] {
			return false
		}
	}
	return true
}

// rarity guesses how seldom a byte occurs in conversations and source code, from
// 0. Letters are ranked with both cases together.
func rarity(b byte) int {
	const common = ` etaoinsrhldcumfpg"wyb.,v-\_/k0:1(){}=2x34j56789;'qz[]<>*#+!?&` + "`"
	if b >= utf8.RuneSelf {
		return len(common) / 2 // rare in English, common elsewhere
	}
	if i := strings.IndexByte(common, b); i >= 0 {
		return i
	}
	return len(common)
}
