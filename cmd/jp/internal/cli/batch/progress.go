package batch

import (
	"fmt"
	"strings"
	"sync"
	"time"

	"jp/cmd/jp/internal/delegate"
	"jp/cmd/jp/internal/rule"
	"jp/cmd/jp/internal/term"
	"jp/cmd/jp/internal/wording"
	"jp/convstore"
	"jp/convstore/amount"
)

// progress counts what a batch has done, for the line below its tree. Safe for concurrent use.
type progress struct {
	mu           sync.Mutex
	done, failed int   // lines that ran to their end, and those of them that are not ok
	queued       int   // lines that were not begun, because their model cannot be asked
	stopped      int   // lines that were cancelled
	cost         int64 // in nano-dollars
	unknown      bool  // whether the cost of a line is not known

	counted int           // done of when the line was last another one
	took    time.Duration // time until then
}

// add counts the end of a line.
func (p *progress) add(r delegate.Row) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r.Code == rule.CodeProvider {
		p.queued++
		return
	}
	switch convstore.State(r.Status) {
	case convstore.StateCancelled:
		p.stopped++
	case convstore.StateOK:
		p.done++
	default:
		p.done++
		p.failed++
	}
	if r.CostUSD == nil {
		p.unknown = true
	} else {
		p.cost = amount.Sum(p.cost, int64(*r.CostUSD))
	}
}

// since returns what writes the line of a batch that began then and runs so many lines; -1 = nobody
// knows how many.
func (p *progress) since(began time.Time, all int, utf8 bool) func() string {
	return func() string {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.line(time.Since(began), all, wording.Either(utf8, " · ", ", "))
	}
}

func (p *progress) line(took time.Duration, all int, between string) string {
	parts := []string{fmt.Sprintf("%d done", p.done)}
	if all >= 0 {
		parts[0] = fmt.Sprintf("%d/%d", p.done, all)
	}
	if p.failed > 0 {
		parts = append(parts, fmt.Sprintf("%d failed", p.failed))
	}
	if p.queued > 0 {
		parts = append(parts, fmt.Sprintf("%d queued", p.queued))
	}
	if p.stopped > 0 {
		parts = append(parts, fmt.Sprintf("%d cancelled", p.stopped))
	}
	if p.cost > 0 || p.unknown {
		parts = append(parts, wording.Either(p.unknown, "at least ", "")+wording.Dollars(&p.cost))
	}
	if more := all - p.done - p.queued - p.stopped; p.done > 0 && more > 0 {
		if p.counted != p.done {
			p.counted, p.took = p.done, took
		}
		left := p.took + time.Duration(float64(p.took)/float64(p.done)*float64(more)) - took
		if left > 0 { // else what is left takes longer than the others did
			parts = append(parts, term.Elapsed(left)+" left")
		}
	}
	return strings.Join(parts, between)
}
