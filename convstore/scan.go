package convstore

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"
)

// searchers is how many goroutines search, searchAhead how many conversations
// they may be ahead of who reads the matches, and visitTime how long they keep
// the store open at a time.
const (
	searchers   = 2
	searchAhead = 64
	visitTime   = 5 * time.Millisecond
)

// scan is the running part of a search: several goroutines take one conversation
// after the other, and what they find is put in order again. Its reader is woken
// only when there is something to read: a store may have very many conversations
// in which nothing is found.
type scan struct {
	*search
	maps mappings

	mu    sync.Mutex
	taken int                  // candidates that were taken
	head  int                  // the first one that is not searched, or whose finding is not read
	found [searchAhead]finding // of candidate i, from head on, at i modulo searchAhead
	over  bool                 // the reader has left
	ready sync.Cond            // the reader waits for the finding at head
	room  sync.Cond            // others wait for head to move
}

type finding struct {
	searched bool
	matches  []Match
	err      error
}

func newScan(s *search) *scan {
	sc := &scan{search: s}
	sc.ready.L, sc.room.L = &sc.mu, &sc.mu
	return sc
}

// run yields, in the order of the candidates, what is found in them.
func (s *search) run(ctx context.Context, yield func(Match, error) bool) error {
	sc := newScan(s)
	ctx, cancel := context.WithCancel(ctx)
	var workers sync.WaitGroup
	defer sc.maps.close()
	defer workers.Wait()
	defer context.AfterFunc(ctx, sc.leave)()
	defer sc.leave()
	defer cancel()
	for range min(searchers, len(s.todo)) {
		workers.Go(func() { sc.work(ctx) })
	}
	for conversations := 0; ; {
		f := sc.await()
		switch {
		case f.err != nil:
			return f.err
		case !f.searched:
			return context.Cause(ctx) // nil at the end
		}
		for _, m := range f.matches {
			if !yield(m, nil) {
				return nil
			}
		}
		if conversations++; conversations == s.query.Limit {
			return nil
		}
	}
}

// leave lets nobody wait any more.
func (sc *scan) leave() {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	sc.over = true
	sc.ready.Broadcast()
	sc.room.Broadcast()
}

// take returns the next candidate's number, or -1 when there is none or, unless
// it may wait, when the reader has to catch up first.
func (sc *scan) take(wait bool) int {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	for !sc.over && sc.taken-sc.head == searchAhead {
		if !wait {
			return -1
		}
		sc.room.Wait()
	}
	if sc.over || sc.taken == len(sc.todo) {
		return -1
	}
	sc.taken++
	return sc.taken - 1
}

// give hands over what was found in a candidate.
func (sc *scan) give(number int, matches []Match, err error) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	sc.found[number%searchAhead] = finding{true, matches, err}
	sc.pass()
	if sc.head == len(sc.todo) || sc.found[sc.head%searchAhead].searched {
		sc.ready.Signal()
	}
}

// pass moves head over findings of nothing.
func (sc *scan) pass() {
	for sc.head < sc.taken {
		f := &sc.found[sc.head%searchAhead]
		if !f.searched || len(f.matches) > 0 || f.err != nil {
			return
		}
		*f = finding{}
		sc.head++
		sc.room.Broadcast()
	}
}

// await waits for the next finding of something. It returns the zero finding when
// there are none left, or nobody should wait any more.
func (sc *scan) await() finding {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	for {
		next := &sc.found[sc.head%searchAhead]
		switch {
		case sc.over || sc.head == len(sc.todo):
			return finding{}
		case next.searched:
			f := *next
			next.matches, next.err = nil, nil
			sc.pass()
			return f
		}
		sc.ready.Wait()
	}
}

// part is a conversation that is being searched.
type part struct {
	candidate
	number int
	seq    uint64 // of the next event, 0 when there is nothing left to read
	found  []Match
}

func (sc *scan) begin(number int) *part {
	p := &part{candidate: sc.todo[number], number: number}
	if sc.title {
		p.found = sc.match(Match{ID: p.id, Scope: ScopeTitle, Time: p.updated, Title: p.title}, splitLines(nil, p.title), nil)
	}
	if sc.read && !p.empty && !sc.full(p.found) {
		p.seq = 1
	}
	return p
}

// full reports whether a conversation has as many matches as were asked for.
func (s *search) full(found []Match) bool {
	return s.query.MaxMatches > 0 && len(found) >= s.query.MaxMatches
}

// work searches candidates until there are none left. One visit of the store may
// finish many of them, or only a piece of one.
func (sc *scan) work(ctx context.Context) {
	var p *part
	finish := func(err error) {
		sc.give(p.number, p.found, err)
		p = nil
	}
	for {
		if p == nil {
			number := sc.take(true)
			if number < 0 {
				return
			}
			p = sc.begin(number)
		}
		if p.seq == 0 {
			finish(nil)
			continue
		}
		err := sc.visit(ctx, func(t *tx, events bucketPages) error {
			until := time.Now().Add(visitTime)
			for {
				if p.seq != 0 {
					if err := sc.events(t, events, p, until); err != nil {
						return err
					}
				}
				if p.seq != 0 { // time is up
					return context.Cause(ctx)
				}
				finish(nil)
				number := sc.take(false)
				if number < 0 {
					return nil
				}
				p = sc.begin(number)
			}
		})
		if err != nil && p != nil { // else it was of the end of a visit whose findings are given
			finish(err)
			return
		}
	}
}

// visit opens the store and gives use the pages of its events.
func (sc *scan) visit(ctx context.Context, use func(*tx, bucketPages) error) error {
	f := sc.view.f
	return f.session(ctx, false, func(h *handle) error {
		return f.view(h, func(t *tx) error {
			return t.mapPages(&sc.maps, func(m *pageMap) error {
				events, err := m.bucket(bEvents)
				if err != nil {
					return t.damaged("%w", err)
				}
				return use(t, events)
			})
		})
	})
}

// events searches a conversation's events from p.seq on. It stops when its time
// is up, with p.seq where to go on, or leaves zero there. It searches all bytes of
// a leaf at once, and single events only where those hold the text.
func (sc *scan) events(t *tx, events bucketPages, p *part, until time.Time) error {
	const lookEvery = 64 << 10 // bytes between two looks at the clock
	begin, unseen, timeUp := p.seq, 0, false
	err := events.leaves(pairKey(p.id, p.seq), pairKey(p.id, math.MaxUint64), func(leaf page) error {
		some := sc.pre.passes(leaf.data)
		unseen += len(leaf.data)
		for i := range leaf.count {
			_, k, v, err := leaf.entry(i)
			if err != nil {
				return err
			}
			seq := num(k[min(8, len(k)):])
			switch id := idAt(k, 0); {
			case id < p.id || id == p.id && seq < p.seq:
				continue
			case id > p.id:
				return errEnough
			}
			s, err := parseStored(v)
			if err != nil {
				return fmt.Errorf("conversation %s: event %d: %w", p.id, seq, err)
			}
			p.seq = seq + 1
			scope := sc.kinds[s.kind]
			if scope == "" || !s.loose && !(some && sc.pre.passes(s.body)) {
				continue
			}
			body, err := s.decode()
			if err != nil {
				return fmt.Errorf("conversation %s: event %d: %w", p.id, seq, err)
			}
			at := Match{
				ID: p.id, Turn: int(s.turn), Scope: scope, Seq: seq,
				Time: time.Unix(0, s.nano).UTC(), Title: p.title,
			}
			if p.found = sc.match(at, linesOf(body), p.found); sc.full(p.found) {
				return errEnough
			}
			unseen = lookEvery // decoding takes its time
		}
		if unseen < lookEvery {
			return nil
		}
		unseen = 0
		if timeUp = p.seq > begin && time.Now().After(until); timeUp {
			return errEnough
		}
		return nil
	})
	if err != nil && err != errEnough {
		return t.damaged("%w", err)
	}
	if !timeUp {
		p.seq = 0
	}
	return nil
}

// match adds to found a copy of at for every line that matches.
func (s *search) match(at Match, lines []string, found []Match) []Match {
	given := 0 // lines already given as a match or as context
	for i, line := range lines {
		spans := s.re.FindAllStringIndex(line, -1)
		if spans == nil {
			continue
		}
		m := at
		m.Line, m.Text = i+1, line
		for _, span := range spans {
			m.Submatches = append(m.Submatches, Submatch{line[span[0]:span[1]], span[0], span[1]})
		}
		m.Before = lines[max(given, i-s.query.Context):i]
		given = i + 1
		for given < len(lines) && given <= i+s.query.Context && !s.re.MatchString(lines[given]) {
			given++
		}
		m.After = lines[i+1 : given]
		if found = append(found, m); s.full(found) {
			break
		}
	}
	return found
}
