package convstore

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"regexp/syntax"
	"strings"
	"unicode"
	"unicode/utf8"
)

// prefilter tells from the stored bytes of an event that no line of it can match,
// without decoding it. It may let through what does not match in the end, but
// never keeps out what does.
//
// That rests on two things. The encoder writes every character of a string in
// exactly one way, so that a text which occurs in a string occurs, escaped, in
// the bytes; and what was not written that way, or folds to ASCII from outside
// of ASCII, is marked in the record as loose and always decoded.
//
// The zero prefilter lets everything through.
type prefilter struct {
	text []byte // escaped as JSON; in lower case when fold
	fold bool   // ASCII letters match in either case

	// The offsets in text of the two bytes that are likely to be the rarest, and
	// whether the first is so rare that it alone is worth looking for.
	rare, second int
	alone        bool
}

// maxPrefilter bounds the text of a prefilter in bytes: it is compared at every
// place where its rarest bytes are.
const maxPrefilter = 32

// newPrefilter picks, from texts that all occur in whatever matches, the piece
// that promises to let the least through.
func newPrefilter(texts []requiredText) prefilter {
	var best prefilter
	score := 0
	for _, text := range texts {
		for _, piece := range text.pieces() {
			p := prefilter{text: escapeJSON(piece), fold: text.fold}
			if len(p.text) == 0 {
				continue
			}
			p.text = p.text[:min(len(p.text), maxPrefilter)]
			if p.fold {
				lowerASCII(p.text) // what was cut off in the middle of a character stays as it is
			}
			rarest := p.chooseBytes()
			if s := rarest + 4*min(len(p.text), 16); s > score {
				best, score = p, s
			}
		}
	}
	return best
}

// lowerASCII makes lower case of ASCII letters.
func lowerASCII(s []byte) {
	for i, c := range s {
		if 'A' <= c && c <= 'Z' {
			s[i] += 'a' - 'A'
		}
	}
}

// chooseBytes finds the two rarest bytes of the text, and returns how rare the
// rarest is.
func (p *prefilter) chooseBytes() int {
	for i, b := range p.text {
		if rarity(b) > rarity(p.text[p.rare]) {
			p.rare = i
		}
	}
	p.second = p.rare
	for i, b := range p.text {
		same := p.text[p.second] == p.text[p.rare]
		if i != p.rare && b != p.text[p.rare] && (same || rarity(b) > rarity(p.text[p.second])) {
			p.second = i
		}
	}
	rarest := rarity(p.text[p.rare])
	p.alone = rarest >= rarity('k')
	return rarest
}

// requiredText is a text that occurs in every match, with fold in any mixture of
// cases.
type requiredText struct {
	text string
	fold bool
}

// pieces cuts the text into parts that must each occur in the stored bytes.
func (r requiredText) pieces() []string {
	// Lines of JSON values have a ": " between name and value that the bytes do
	// not have, and a match may begin or end in the middle of it.
	cut := strings.Split(r.text, ": ")
	cut[0] = strings.TrimPrefix(cut[0], " ")
	cut[len(cut)-1] = strings.TrimSuffix(cut[len(cut)-1], ":")
	if !r.fold {
		return cut
	}
	// Letters outside of ASCII have other forms of other lengths.
	var pieces []string
	for _, part := range cut {
		pieces = append(pieces, strings.FieldsFunc(part, func(c rune) bool {
			return c >= utf8.RuneSelf && unicode.SimpleFold(c) != c
		})...)
	}
	return pieces
}

// requiredTexts returns texts that every match of a regular expression contains.
func requiredTexts(re *syntax.Regexp) []requiredText {
	switch re.Op {
	case syntax.OpLiteral:
		return []requiredText{{string(re.Rune), re.Flags&syntax.FoldCase != 0}}
	case syntax.OpCapture, syntax.OpPlus:
		return requiredTexts(re.Sub[0])
	case syntax.OpRepeat:
		if re.Min > 0 {
			return requiredTexts(re.Sub[0])
		}
	case syntax.OpConcat:
		var all []requiredText
		for _, sub := range re.Sub {
			all = append(all, requiredTexts(sub)...)
		}
		return all
	}
	return nil
}

// escapeJSON returns a text as it stands inside of an encoded string.
func escapeJSON(text string) []byte {
	b, err := marshalJSON(text)
	if err != nil { // cannot be: strings always encode
		return nil
	}
	return b[1 : len(b)-1]
}

// passes reports whether the bytes of a body may hold a match.
func (p *prefilter) passes(body []byte) bool {
	switch {
	case len(p.text) == 0:
		return true
	case len(p.text) > len(body):
		return false
	case p.alone:
		return p.findOne(body)
	}
	return p.findTwo(body)
}

// at reports whether the text stands in s at a place where there is room for it.
func (p *prefilter) at(s []byte, place int) bool {
	s = s[place : place+len(p.text)]
	if p.fold {
		return equalFold(s, p.text)
	}
	return bytes.Equal(s, p.text)
}

// findOne looks for the rarest byte, at the speed of IndexByte, and for the text
// around each.
func (p *prefilter) findOne(s []byte) bool {
	// Where the text may begin, the byte is between these.
	s, before := s[p.rare:], s
	s = s[:len(before)-len(p.text)+1]
	lower := p.text[p.rare]
	upper := lower
	if p.fold && 'a' <= lower && lower <= 'z' {
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
			return false
		}
		if p.at(before, place) {
			return true
		}
		if place == nextLower {
			nextLower = indexFrom(s, lower, place+1)
		} else {
			nextUpper = indexFrom(s, upper, place+1)
		}
	}
}

// findTwo looks for two bytes at their distance, 32 places at once, and for the
// text around them. It is several times slower than IndexByte for a rare byte and
// faster for a common one, of which every second line has many.
func (p *prefilter) findTwo(s []byte) bool {
	const ones = 0x0101010101010101
	// Setting this bit turns upper case into lower, and some bytes into others,
	// which are told apart when the whole text is compared.
	var bit byte
	if p.fold {
		bit = 0x20
	}
	pair := bytePair{
		fold: uint64(bit) * ones,
		a:    uint64(p.text[p.rare]|bit) * ones,
		b:    uint64(p.text[p.second]|bit) * ones,
	}
	places := len(s) - len(p.text) + 1
	x, y := s[p.rare:], s[p.second:]
	place := 0
	for ; place+32 <= places; place += 32 {
		x, y := x[place:place+32], y[place:place+32]
		z0, z1, z2, z3 := pair.places(x, y), pair.places(x[8:], y[8:]), pair.places(x[16:], y[16:]), pair.places(x[24:], y[24:])
		if z0|z1|z2|z3 == 0 {
			continue
		}
		for i, z := range [...]uint64{z0, z1, z2, z3} {
			for ; z != 0; z &= z - 1 {
				if p.at(s, place+8*i+bits.TrailingZeros64(z)/8) {
					return true
				}
			}
		}
	}
	for ; place < places; place++ {
		if x[place]|bit == byte(pair.a) && y[place]|bit == byte(pair.b) && p.at(s, place) {
			return true
		}
	}
	return false
}

// bytePair looks for two bytes in eight places at once: a and b hold them eight
// times, fold the bit that does not count.
type bytePair struct{ fold, a, b uint64 }

// places returns a word that has the high bit of byte i set where x[i] is the
// first and y[i] the second byte; perhaps also that of the byte after such a one.
func (p bytePair) places(x, y []byte) uint64 {
	t := ((binary.LittleEndian.Uint64(x) | p.fold) ^ p.a) | ((binary.LittleEndian.Uint64(y) | p.fold) ^ p.b)
	return (t - 0x0101010101010101) &^ t & 0x8080808080808080
}

// indexFrom returns the place of the next b at or after from, len(s) when there
// is none.
func indexFrom(s []byte, b byte, from int) int {
	if from >= len(s) {
		return len(s)
	}
	if i := bytes.IndexByte(s[from:], b); i >= 0 {
		return from + i
	}
	return len(s)
}

// equalFold compares with a text in lower case, taking ASCII letters in either
// case.
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

// rarity guesses how seldom a byte occurs in conversations, from 0. Letters are
// ranked with both cases together.
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

// isLoose reports whether a body holds a string in another form than the encoder
// writes, or a character outside of ASCII that folds to one of ASCII.
func isLoose(body []byte) bool {
	for _, c := range []string{
		"\u212A", "\u017F", // fold to k and s
		"\u2028", "\u2029", // the encoder escapes them
	} {
		if bytes.Contains(body, []byte(c)) {
			return true
		}
	}
	if !utf8.Valid(body) {
		return true
	}
	for i := bytes.IndexByte(body, '\\'); i >= 0 && i+1 < len(body); {
		step := 2
		switch body[i+1] {
		case '/':
			return true
		case 'u':
			if i+6 > len(body) || !writtenEscape(string(body[i+2:i+6])) {
				return true
			}
			step = 6
		}
		i += step
		next := bytes.IndexByte(body[min(i, len(body)):], '\\')
		if next < 0 {
			return false
		}
		i += next
	}
	return false
}

// writtenEscape reports whether the encoder writes \u and these four digits.
func writtenEscape(hex string) bool {
	switch hex {
	case "2028", "2029":
		return true
	case "0008", "0009", "000a", "000c", "000d": // these have short forms
		return false
	}
	return hex[:2] == "00" && (hex[2] == '0' || hex[2] == '1') &&
		(hex[3] >= '0' && hex[3] <= '9' || hex[3] >= 'a' && hex[3] <= 'f')
}
