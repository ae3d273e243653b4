package model

import (
	"math"
	"math/bits"

	"jp/convstore"
)

// PricesDate is the day on which the built-in prices were read.
const PricesDate = "2026-11-21"

// Price is what a model costs, in nano-dollars (1e-9 USD) per token. A dollar per million tokens is
// 1000. The zero value is free.
type Price struct {
	Input      int64 // input that is not read from a cache and not written to one
	Output     int64
	CacheRead  int64
	CacheWrite int64

	Long *LongPrice // price for long prompts; nil = the same
}

// LongPrice replaces a Price for a request whose whole prompt (input, cache reads and cache writes)
// has more than Above tokens.
type LongPrice struct {
	Above                                int64
	Input, Output, CacheRead, CacheWrite int64
}

// maxTokens bounds every count of tokens: a larger one, of a hostile server, is lowered to it.
const maxTokens = 1 << 40

// PerMillion makes a Price of dollars per million tokens, as vendors publish them, rounded up to
// whole nano-dollars per token: what costs something is never free. Negative and not-a-number
// amounts count as 0.
func PerMillion(input, output, cacheRead, cacheWrite float64) Price {
	nano := func(usd float64) int64 {
		if !(usd > 0) {
			return 0
		}
		n := math.Min(usd*1000, 1<<40)
		if whole := math.Round(n); whole > 0 && math.Abs(n-whole) < 1e-6 {
			return int64(whole) // 0.29 has no exact form
		}
		return int64(math.Ceil(n))
	}
	return Price{Input: nano(input), Output: nano(output), CacheRead: nano(cacheRead), CacheWrite: nano(cacheWrite)}
}

// Cost returns what one call with the given usage costs, in nano-dollars. It never overflows: a
// larger cost becomes the largest int64. The use of several calls must be priced call by call,
// since a long prompt changes the price of its own call only.
func (p Price) Cost(u convstore.Usage) int64 {
	u = clamp(u)
	if l := p.Long; l != nil && u.Input+u.CacheRead+u.CacheWrite > l.Above {
		p = l.price()
	}
	total := int64(0)
	for _, t := range [][2]int64{{u.Input, p.Input}, {u.Output, p.Output}, {u.CacheRead, p.CacheRead}, {u.CacheWrite, p.CacheWrite}} {
		hi, lo := bits.Mul64(uint64(t[0]), uint64(max(t[1], 0)))
		if hi != 0 || lo > math.MaxInt64-uint64(total) {
			return math.MaxInt64
		}
		total += int64(lo)
	}
	return total
}

// Charged returns what a call costs, nil for unknown: what the provider reported, where that is
// more than the price says, or no price is known.
func (p *Price) Charged(u convstore.Usage, reported *int64) *int64 {
	if p == nil {
		return reported
	}
	cost := p.Cost(u)
	if reported != nil {
		cost = max(cost, *reported)
	}
	return &cost
}

// Bounds reports whether the price bounds what a call costs. Where it is unknown or zero, only the
// server says that a call costs something, and only afterwards.
func (p *Price) Bounds() bool { return p != nil && *p != (Price{}) }

// Most returns the highest cost of one call with a bounded input and so much output. It
// assumes that the whole input is written to a cache or read from it, where that costs more than plain
// input, and that a prompt is long where its bound is.
func (p Price) Most(in Bound, out int64) int64 {
	most := int64(0)
	for _, u := range [...]convstore.Usage{{Input: in.Tokens, Output: out}, {CacheWrite: in.Tokens, Output: out}, {CacheRead: in.Tokens, Output: out}} {
		most = max(most, p.Cost(u))
		if l := p.Long; l != nil && in.Hard > l.Above {
			most = max(most, l.price().Cost(u))
		}
	}
	return most
}

// price returns the price of a long prompt.
func (l LongPrice) price() Price {
	return Price{Input: l.Input, Output: l.Output, CacheRead: l.CacheRead, CacheWrite: l.CacheWrite}
}

// entry is one model of the table.
type entry struct {
	window, output int
	price          Price
}

// tableEntry finds exact ids only: a model that is not in the table has no price, and never that of
// a similar one.
func tableEntry(id string) (entry, bool) {
	for name, e := range knownModels {
		if name == id {
			return e, true
		}
	}
	return entry{}, false
}

// knownModels yields the built-in table: ids and what is known about them, a vendor's latest first.
// From platform.claude.com/docs/en/about-claude/pricing (cache writes: the five-minute ones, which
// are what we ask for) and developers.openai.com/api/docs/pricing (standard processing), see
// PricesDate. OpenAI bills writes to its cache from GPT-5.6 on, at 1.25 times the input price. A
// function costs nothing at start-up, unlike a map.
func knownModels(yield func(string, entry) bool) {
	more, usd := true, PerMillion
	add := func(e entry, ids ...string) {
		for _, id := range ids {
			more = more && yield(id, e)
		}
	}
	add(entry{1_000_000, 128_000, usd(10, 50, 0.25, 12.5)}, "anthropic/claude-fable-5-1", "anthropic/claude-mythos-5-1")
	add(entry{1_000_000, 128_000, usd(10, 50, 1, 12.5)}, "anthropic/claude-fable-5", "anthropic/claude-mythos-5")
	add(entry{1_000_000, 128_000, usd(4, 20, 0.2, 5)}, "anthropic/claude-opus-5-5")
	add(entry{1_000_000, 128_000, usd(5, 25, 0.5, 6.25)}, "anthropic/claude-opus-5", "anthropic/claude-opus-4-8", "anthropic/claude-opus-4-7", "anthropic/claude-opus-4-6")
	add(entry{200_000, 64_000, usd(5, 25, 0.5, 6.25)}, "anthropic/claude-opus-4-5", "anthropic/claude-opus-4-5-20251101")
	add(entry{200_000, 32_000, usd(15, 75, 1.5, 18.75)}, "anthropic/claude-opus-4-1", "anthropic/claude-opus-4-1-20250805")
	add(entry{1_000_000, 128_000, usd(2, 10, 0.1, 2.5)}, "anthropic/claude-sonnet-5-5")
	add(entry{1_000_000, 128_000, usd(2, 10, 0.2, 2.5)}, "anthropic/claude-sonnet-5")
	add(entry{1_000_000, 64_000, usd(3, 15, 0.3, 3.75)}, "anthropic/claude-sonnet-4-6")
	add(entry{200_000, 64_000, usd(3, 15, 0.3, 3.75)}, "anthropic/claude-sonnet-4-5", "anthropic/claude-sonnet-4-5-20250929", "anthropic/claude-sonnet-4-20250514")
	add(entry{1_000_000, 128_000, long(usd(0.1, 0.5, 0.01, 0.125), 100_000, usd(0.5, 2.5, 0.05, 0.625))}, "anthropic/claude-haiku-5-5")
	add(entry{200_000, 64_000, usd(1, 5, 0.1, 1.25)}, "anthropic/claude-haiku-4-5", "anthropic/claude-haiku-4-5-20251001")
	add(entry{1_050_000, 128_000, longGPT(usd(10, 50, 1, 12.5))}, "openai/gpt-6-astra")
	add(entry{1_050_000, 128_000, longGPT(usd(2, 10, 0.1, 2.5))}, "openai/gpt-6.1-sol")
	add(entry{1_050_000, 128_000, longGPT(usd(2, 10, 0.2, 2.5))}, "openai/gpt-6-sol")
	add(entry{1_050_000, 128_000, longGPT(usd(0.1, 0.5, 0.01, 0.125))}, "openai/gpt-6-luna")
	add(entry{1_050_000, 128_000, longGPT(usd(4, 20, 0.4, 5))}, "openai/gpt-5.6-sol")
	add(entry{1_050_000, 128_000, longGPT(usd(2, 12, 0.2, 2.5))}, "openai/gpt-5.6-terra")
	add(entry{1_050_000, 128_000, longGPT(usd(0.2, 1.2, 0.02, 0.25))}, "openai/gpt-5.6-luna")
	add(entry{1_050_000, 128_000, longGPT(usd(5, 30, 0.5, 5))}, "openai/gpt-5.5", "openai/gpt-5.5-2026-04-23")
	add(entry{1_050_000, 128_000, longGPT(usd(2.5, 15, 0.25, 2.5))}, "openai/gpt-5.4")
	add(entry{400_000, 128_000, usd(0.75, 4.5, 0.075, 0.75)}, "openai/gpt-5.4-mini", "openai/gpt-5.4-mini-2026-03-17")
	add(entry{400_000, 128_000, usd(0.2, 1.25, 0.02, 0.2)}, "openai/gpt-5.4-nano", "openai/gpt-5.4-nano-2026-03-17")
	add(entry{400_000, 128_000, usd(1.75, 14, 0.175, 1.75)}, "openai/gpt-5.2", "openai/gpt-5.2-2025-12-11")
	add(entry{400_000, 128_000, usd(1.25, 10, 0.125, 1.25)}, "openai/gpt-5.1", "openai/gpt-5.1-2025-11-13", "openai/gpt-5", "openai/gpt-5-2025-08-07")
	add(entry{400_000, 128_000, usd(0.25, 2, 0.025, 0.25)}, "openai/gpt-5-mini", "openai/gpt-5-mini-2025-08-07")
	add(entry{400_000, 128_000, usd(0.05, 0.4, 0.005, 0.05)}, "openai/gpt-5-nano", "openai/gpt-5-nano-2025-08-07")
	add(entry{1_047_576, 32_768, usd(2, 8, 0.5, 2)}, "openai/gpt-4.1", "openai/gpt-4.1-2025-04-14")
	add(entry{1_047_576, 32_768, usd(0.4, 1.6, 0.1, 0.4)}, "openai/gpt-4.1-mini", "openai/gpt-4.1-mini-2025-04-14")
	add(entry{1_047_576, 32_768, usd(0.1, 0.4, 0.025, 0.1)}, "openai/gpt-4.1-nano", "openai/gpt-4.1-nano-2025-04-14")
	add(entry{128_000, 16_384, usd(2.5, 10, 1.25, 2.5)}, "openai/gpt-4o", "openai/gpt-4o-2024-11-20", "openai/gpt-4o-2024-08-06")
	add(entry{128_000, 16_384, usd(0.15, 0.6, 0.075, 0.15)}, "openai/gpt-4o-mini", "openai/gpt-4o-mini-2024-07-18")
	add(entry{200_000, 100_000, usd(2, 8, 0.5, 2)}, "openai/o3", "openai/o3-2025-04-16")
	add(entry{200_000, 100_000, usd(1.1, 4.4, 0.275, 1.1)}, "openai/o4-mini", "openai/o4-mini-2025-04-16")
}

func long(p Price, above int64, l Price) Price {
	p.Long = &LongPrice{Above: above, Input: l.Input, Output: l.Output, CacheRead: l.CacheRead, CacheWrite: l.CacheWrite}
	return p
}

// longGPT: above 272,000 tokens of prompt, OpenAI takes twice the price for input of each kind and
// one and a half times for output.
func longGPT(p Price) Price {
	return long(p, 272_000, Price{Input: 2 * p.Input, Output: p.Output * 3 / 2, CacheRead: 2 * p.CacheRead, CacheWrite: 2 * p.CacheWrite})
}

// regional returns the price with the 10% that OpenAI adds in a region, rounded up.
func (p Price) regional() *Price {
	for _, n := range []*int64{&p.Input, &p.Output, &p.CacheRead, &p.CacheWrite} {
		*n = (*n*11 + 9) / 10
	}
	if l := p.Long; l != nil {
		p = long(p, l.Above, *l.price().regional())
	}
	return &p
}

// Tokens returns counts that a provider reported, corrected where they are impossible: never
// negative, and never so large that sums of them overflow.
func Tokens(u convstore.Usage) *convstore.Usage {
	return new(clamp(u))
}

func clamp(u convstore.Usage) convstore.Usage {
	for _, n := range []*int64{&u.Input, &u.Output, &u.CacheRead, &u.CacheWrite} {
		*n = min(max(*n, 0), maxTokens)
	}
	return u
}
