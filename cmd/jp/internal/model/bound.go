package model

import (
	"crypto/sha256"
	"math"
	"strings"
	"unicode/utf8"

	"jp/convstore"
)

// Bound is how many tokens a request may count as input.
type Bound struct {
	Tokens int64 // most tokens, for texts that people, programs and models write
	Hard   int64 // most tokens, for any text: no tokenizer makes more tokens than bytes
}

// Tokens that a request counts beside its texts.
const (
	messageTokens = 8  // around each message
	pieceTokens   = 8  // around each call, result and block of reasoning
	toolTokens    = 16 // around each tool
	// system prompt that Anthropic adds to a request with tools: the most of any model, see "Tool use
	// system prompt token count" in platform.claude.com/docs/en/about-claude/pricing
	claudeTools = 675
)

// A Meter bounds the input of the requests of one thread to one model. At first it bounds the
// texts, see textBound. Once a provider has counted a request, the next one has at most that count,
// and the bound of what was not in the counted one. The zero value is ready to use. Not safe for
// concurrent use.
type Meter struct {
	last    pieces // pieces of the latest request that was counted; nil = none was
	bound   int64  // bound of its tokens
	counted int64
	texts   map[string]int64 // bounds of long texts, which are in every request
}

// pieces are the parts of a request, with the number of times that each is there.
type pieces map[piece]int

type piece struct {
	kind  int64 // tokens around it
	text  string
	image bool // whether kind is all of its tokens; text identifies it among images
}

// Bound bounds the input of a request.
func (m *Meter) Bound(r Request) Bound {
	all := piecesOf(r)
	whole := m.bounds(all, nil)
	if m.last == nil {
		return whole
	}
	more := m.bounds(all, m.last)
	whole.Tokens, more.Tokens = m.scaled(whole.Tokens), m.scaled(more.Tokens)
	return Bound{Tokens: min(whole.Tokens, m.counted+more.Tokens), Hard: m.counted + more.Hard}
}

// leastShare is the least part of its bound that a request can count. A server that reports less is
// not believed: it may report only what was not in its cache.
const leastShare = 8

// Learn records what a provider counted for a request.
func (m *Meter) Learn(r Request, u convstore.Usage) {
	u = clamp(u)
	m.last = piecesOf(r)
	m.bound = m.bounds(m.last, nil).Tokens
	m.counted = max(u.Input+u.CacheRead+u.CacheWrite, m.bound/leastShare)
}

// LeastBound returns the least that any Meter bounds the input of a request by, whatever it has
// learned.
func LeastBound(r Request) int64 {
	var m Meter
	return m.bounds(piecesOf(r), nil).Tokens / leastShare
}

// scaled returns a bound, made larger where the model counted more tokens than the bound of its
// latest request allowed.
func (m *Meter) scaled(tokens int64) int64 {
	if m.counted <= m.bound || m.bound == 0 {
		return tokens
	}
	return int64(math.Ceil(float64(tokens) * float64(m.counted) / float64(m.bound)))
}

func piecesOf(r Request) pieces {
	all := pieces{}
	add := func(kind int64, text string) {
		if text != "" || kind > 0 {
			all[piece{kind: kind, text: text}]++
		}
	}
	add(0, string(r.Schema))
	for _, s := range r.System {
		add(0, s.Text)
	}
	if len(r.Tools) > 0 && strings.Contains(r.Model, "claude") {
		add(claudeTools, "")
	}
	for _, t := range r.Tools {
		add(toolTokens, t.Name)
		add(0, t.Description)
		add(0, string(t.Schema))
	}
	for _, m := range r.Messages {
		add(messageTokens, "")
		for _, c := range m.Content {
			add(0, c.Text)
			if c.Image != nil {
				sum := sha256.Sum256(c.Image.Data)
				all[piece{kind: imageBound(r.Model, c.Image), text: string(sum[:]), image: true}]++
			}
			if x := c.Reasoning; x != nil {
				add(pieceTokens, x.Text)
				add(0, x.Signature)
				add(0, string(x.Opaque))
			}
			if x := c.Call; x != nil {
				add(pieceTokens, x.ID)
				add(0, x.Name)
				add(0, string(x.Arguments))
			}
			if x := c.Result; x != nil {
				add(pieceTokens, x.ID)
				add(0, x.Text)
			}
		}
	}
	return all
}

// bounds bounds the pieces that are not in counted.
func (m *Meter) bounds(all, counted pieces) (b Bound) {
	for p, n := range all {
		if n -= counted[p]; n <= 0 {
			continue
		}
		tokens, hard := p.kind, p.kind
		if !p.image {
			tokens += m.text(p.text)
			hard += int64(len(p.text))
		}
		b.Tokens += int64(n) * tokens
		b.Hard += int64(n) * hard
	}
	return b
}

// text is textBound, computed once for each long text.
func (m *Meter) text(s string) int64 {
	if len(s) < 1024 {
		return textBound(s)
	}
	n, ok := m.texts[s]
	if !ok {
		n = textBound(s)
		if m.texts == nil {
			m.texts = map[string]int64{}
		}
		m.texts[s] = n
	}
	return n
}

// tokenParts is how many parts textBound divides a token into.
const tokenParts = 20

// textBound returns the most tokens that a text has, by the classes of its characters. The share of
// a class is the most that o200k_base, cl100k_base and the tokenizers of Claude 2, Llama 2 and
// Llama 3 make of texts of that class. That of letters is higher, because newer tokenizers make up
// to 1.35 times the tokens of prose and code. Only made-up words and rare characters can exceed the
// bound.
func textBound(text string) int64 {
	const (
		letter = tokenParts * 7 / 20 // in a word
		stray  = tokenParts * 7 / 10 // longer than words are
		// in a key or a hash: runs of one or two letters with digits between them
		dense   = tokenParts * 4 / 5
		sign    = tokenParts * 3 / 4 // punctuation
		quote   = tokenParts * 2 / 5 // quotation mark, which is one token with the sign beside it
		again   = tokenParts / 4     // repetition of the same sign
		space   = tokenParts / 10    // space before a word or a sign, and further ones
		newline = tokenParts / 2     // after a newline
	)
	const longest = 12 // letters of a word
	const shortest = 2 // letters of a hump that is no word
	parts := int64(0)
	word, was := 0, rune(0) // letters of the word or hump so far; the character before
	mixed := false          // this is a key or a hash
	for i := 0; i < len(text); {
		r, n := rune(text[i]), 1
		if r >= utf8.RuneSelf {
			r, n = utf8.DecodeRuneInString(text[i:])
		}
		i += n
		if upper := r >= 'A' && r <= 'Z'; upper || r >= 'a' && r <= 'z' {
			switch within := word > 0 && (!upper || was >= 'A' && was <= 'Z'); {
			case !within:
				mixed = mixed || was >= '0' && was <= '9' || word > 0 && word <= shortest
				word = 0
				parts += tokenParts
			case mixed:
				parts += dense
			case word >= longest:
				parts += stray
			default:
				parts += letter
			}
			word++
			was = r
			continue
		}
		digit := was >= '0' && was <= '9'
		switch {
		case r >= '0' && r <= '9':
			parts += tokenParts
			if was == ' ' {
				parts += tokenParts - space
			}
		case r == ' ' || r == '\t':
			parts += space
		case r == '\n' && was == '\n':
			parts += newline
		case r > ' ' && r < 0x7f && digit:
			parts += tokenParts
		case r > ' ' && r < 0x7f && r == was:
			parts += again
		case r == '"':
			parts += quote
		case r > ' ' && r < 0x7f:
			parts += sign
		case r == utf8.RuneError && n == 1: // a byte that is not UTF-8 is sent as U+FFFD
			parts += 3 * tokenParts
		case n == 1: // newlines and controls
			parts += tokenParts
		case n == 2:
			parts += tokenParts * 3 / 2
		case n == 3:
			parts += tokenParts * 5 / 2
		default:
			parts += tokenParts * 4
		}
		mixed = mixed && (r >= '0' && r <= '9' || r == '+' || r == '/' || r == '-' || r == '_')
		word, was = 0, r
	}
	return (parts + tokenParts - 1) / tokenParts
}
