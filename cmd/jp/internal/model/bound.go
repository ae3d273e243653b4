package model

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"math"
	"slices"
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
	jointTokens   = 2  // between two texts of a message or a system prompt
	pieceTokens   = 8  // around each call, result and block of reasoning
	toolTokens    = 16 // around each tool
	// system prompt that Anthropic adds to a request with tools: the most of any model, see "Tool
	// use system prompt token count" in platform.claude.com/docs/en/about-claude/pricing
	claudeTools = 675
	// the same with a schema. The vendor gives no number; 50 to 200 are reported
	claudeSchema = 256
)

// A Meter bounds the input of the requests of one thread to one model. At first it bounds the
// texts, see textBound. Once a provider has counted a request, the next one has at most that count,
// and the bound of what was not in the counted one, or was where a provider may not be sent it. Two
// meters that have learned the same bound the same, also where one of them reads a request from
// JSON. The zero value is ready to use. Not safe for concurrent use.
type Meter struct {
	last    pieces // pieces of the latest request that was counted; nil = none was
	attempt uint64 // number of the attempt that sent it, see Part; 0 = it has none
	bound   int64  // bound of its tokens
	counted int64
	long    map[piece]int64 // bounds of the long texts of the latest request
}

// pieces are the parts of a request, with the number of times that each is there. Two are the same
// only where a provider is sent both or neither: it counts only what it is sent.
type pieces map[piece]int

type piece struct {
	spot
	kind int64             // tokens around it
	hard int64             // most tokens of its text
	text string            // the text, where it is short
	sum  [sha256.Size]byte // digest of a longer one, and of an image, whose kind is all of its tokens
}

// spot is where a piece stands in a request.
type spot struct {
	place place
	// whether what is sent of it depends on more than its place, so that it may be left out of one
	// request and be in the next
	loose bool
	in    [sha256.Size]byte // of reasoning: digest of its message, of which a provider may be sent a part
}

type place byte

const (
	inThread  place = iota // texts, images and results
	inCalls                // arguments of calls: JSON, of which a provider may read less than its bytes say
	inSystem               // where a blank text is left out
	inNames                // names and ids of calls, which are cut where they are long
	inTools                // loose where no tool may be called
	inParams               // schemas of tools: JSON too; loose as the tools are
	inSchema               // loose beside tools
	inThought              // reasoning; loose in an earlier turn
)

// short is the length of a text that costs more to identify than to keep, in bytes.
const short = 1 << 10

// Bound bounds the input of a request.
func (m *Meter) Bound(r Request) Bound {
	all := m.piecesOf(r)
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

// Learned returns the number of the attempt whose request was counted; 0 = none was, or it had
// none.
func (m *Meter) Learned() uint64 { return m.attempt }

// Learn records what a provider counted for a request, which this attempt sent.
func (m *Meter) Learn(r Request, u convstore.Usage, attempt uint64) {
	u = clamp(u)
	m.last, m.attempt = m.piecesOf(r), attempt
	m.bound = m.bounds(m.last, nil).Tokens
	m.counted = max(u.Input+u.CacheRead+u.CacheWrite, m.bound/leastShare)
}

// scaled returns a bound, made larger where the model counted more tokens than the bound of its
// latest request allowed; never more than a count can be.
func (m *Meter) scaled(tokens int64) int64 {
	if m.counted <= m.bound || m.bound == 0 {
		return tokens
	}
	return int64(min(math.Ceil(float64(tokens)*float64(m.counted)/float64(m.bound)), 3*maxTokens))
}

// piecesOf returns the parts of a request. It keeps the bounds of its long texts, and of no others.
func (m *Meter) piecesOf(r Request) pieces {
	all, long := pieces{}, map[piece]int64{}
	add := func(at spot, kind int64, text string) {
		if !utf8.ValidString(text) {
			text = runes(text)
		}
		p := piece{spot: at, kind: kind, hard: int64(len(text)), text: text}
		if len(text) >= short {
			p.text, p.sum = "", sha256.Sum256([]byte(text))
			n, known := m.long[p]
			if !known {
				n = textBound(text)
			}
			long[p] = n
		}
		if p.hard > 0 || kind > 0 {
			all[p]++
		}
	}
	document := func(at spot, raw json.RawMessage) {
		var b bytes.Buffer
		if json.Compact(&b, raw) == nil { // as it is sent
			raw = b.Bytes()
		}
		add(at, 0, string(raw))
	}
	claude, schema := strings.Contains(r.Model, "claude"), spot{place: inSchema, loose: len(r.Tools) > 0}
	document(schema, r.Schema)
	if len(r.Schema) > 0 && claude {
		add(schema, claudeSchema, "")
	}
	said := func(at place, before int, text string) {
		if before > 0 {
			add(spot{place: at, loose: strings.TrimSpace(text) == ""}, jointTokens, "")
		}
		add(spot{place: at}, 0, text)
	}
	for i, s := range r.System {
		said(inSystem, i, s.Text)
	}
	tools := spot{place: inTools, loose: r.ToolChoice == "none"}
	if len(r.Tools) > 0 && claude {
		add(tools, claudeTools, "")
	}
	for _, t := range r.Tools {
		add(tools, toolTokens, t.Name)
		add(tools, 0, t.Description)
		document(spot{place: inParams, loose: tools.loose}, t.Schema)
	}
	turn, words := r.LastUser(), 0 // of a turn that begins with blank words only some providers know
	for i, msg := range r.Messages {
		if msg.Role == User && !msg.blank() {
			words = i
		}
	}
	for i, msg := range r.Messages {
		at := spot{loose: msg.blank()}
		if msg.thinks() {
			whole, _ := json.Marshal(msg) // it is JSON, or cannot be sent
			whole = append(whole, r.Reasoning...)
			if i > words && i <= turn {
				whole = append(whole, ' ')
			}
			at = spot{inThought, i <= turn, sha256.Sum256(whole)}
		}
		thread, names := spot{place: inThread}, spot{place: inNames}
		add(at, messageTokens, "")
		for i, c := range msg.Content {
			if c.Text != "" {
				said(inThread, i, c.Text)
			}
			if c.Image != nil {
				all[piece{kind: imageBound(r.Model, c.Image), sum: sha256.Sum256(c.Image.Data)}]++
			}
			if x := c.Reasoning; x != nil {
				add(at, pieceTokens, x.Text)
				add(at, 0, x.Signature)
				document(at, x.Opaque)
			}
			if x := c.Call; x != nil {
				add(names, pieceTokens, x.ID)
				add(names, 0, x.Name)
				add(spot{place: inCalls}, 0, string(x.Object()))
			}
			if x := c.Result; x != nil {
				add(names, pieceTokens, x.ID)
				add(thread, 0, x.Text)
			}
		}
	}
	m.long = long
	return all
}

// runes returns a text as JSON has it: each byte that is no text is replaced.
func runes(text string) string { return string([]rune(text)) }

// LastUser returns the index of the last message of the user, after which the latest turn is; 0 =
// there is none.
func (r Request) LastUser() int {
	for i, m := range slices.Backward(r.Messages) {
		if m.Role == User {
			return i
		}
	}
	return 0
}

// blank reports whether a message says nothing that can be seen, so that a provider may not be sent
// it.
func (m Message) blank() bool {
	return !slices.ContainsFunc(m.Content, func(c Content) bool {
		return c.Image != nil || c.Call != nil || c.Result != nil || strings.TrimSpace(c.Text) != ""
	})
}

// thinks reports whether reasoning is in a message.
func (m Message) thinks() bool {
	return slices.ContainsFunc(m.Content, func(c Content) bool { return c.Reasoning != nil })
}

// bounds bounds the pieces that are not in counted.
func (m *Meter) bounds(all, counted pieces) (b Bound) {
	for p, n := range all {
		n -= counted[p]
		if p.loose { // one that was sent in any case stands for it too
			sent := p
			sent.loose = false
			n -= max(0, counted[sent]-all[sent])
		}
		if n <= 0 {
			continue
		}
		text, long := m.long[p]
		if !long {
			text = textBound(p.text)
		}
		b.Tokens += int64(n) * (p.kind + text)
		b.Hard += int64(n) * (p.kind + p.hard)
	}
	return b
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
