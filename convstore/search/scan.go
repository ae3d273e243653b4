package search

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"jp/convstore"
	"jp/convstore/internal/db"
	"jp/convstore/internal/page"
	"jp/convstore/internal/stored"
	"jp/tools/regex"
)

// searchers is the number of goroutines that search. searchAhead is how many conversations they may
// be ahead of the reader of the matches. visitTime is how long they keep the store open at a time.
// handSize is how many bytes of matches of one conversation may wait for the reader before a searcher
// waits for it too. maxSubmatches is how many occurrences in a line are returned.
const (
	searchers     = 2
	searchAhead   = 64
	visitTime     = 5 * time.Millisecond
	handSize      = 256 << 10
	maxSubmatches = 10_000
)

// scan is the running part of a search. Several goroutines take one conversation after the other,
// and the scan puts their findings in order. It wakes the reader only if there is something to
// read, because a store may have very many conversations without a match.
type scan struct {
	*search
	maps page.Mappings

	mu    sync.Mutex
	taken int                  // number of candidates that were taken
	head  int                  // first candidate that is not searched to its end or whose finding is not read
	found [searchAhead]finding // finding of candidate i, from head on, at index i modulo searchAhead
	over  bool                 // the reader has left
	ready sync.Cond            // for the reader: there is something to read at head
	room  sync.Cond            // for the searchers: head has moved, or matches were read
}

// finding is what was found in a candidate and not read yet.
type finding struct {
	waiting
	searched bool // searched to its end: no more matches come
	begun    bool // some of its matches were read
	err      error
}

// waiting is matches that wait to be read, with their size.
type waiting struct {
	matches []Match
	size    int // in bytes, roughly
}

func (w *waiting) add(m Match) {
	const match, text, submatch = 256, 16, 40 // bytes of each beside the texts
	w.matches = append(w.matches, m)
	w.size += match + len(m.Text) + submatch*len(m.Submatches)
	for _, around := range [][]string{m.Before, m.After} {
		for _, line := range around {
			w.size += text + len(line)
		}
	}
}

// full reports whether no more may be added before some are read.
func (w *waiting) full() bool { return w.size > handSize }

// move adds all that waits in from, and leaves nothing there.
func (w *waiting) move(from *waiting) {
	w.matches = append(w.matches, from.matches...)
	w.size += from.size
	*from = waiting{}
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
	defer sc.maps.Close()
	defer workers.Wait()
	defer context.AfterFunc(ctx, sc.stop)()
	defer sc.stop()
	defer cancel()
	for range min(searchers, len(s.todo)) {
		workers.Go(func() { sc.work(ctx) })
	}
	for conversations := 0; ; {
		f := sc.await()
		switch {
		case f.err != nil:
			return f.err
		case !f.searched && len(f.matches) == 0:
			return context.Cause(ctx) // nil at the end
		}
		for _, m := range f.matches {
			if !yield(m, nil) {
				return nil
			}
		}
		if !f.searched {
			continue
		}
		if conversations++; conversations == s.query.Limit {
			return nil
		}
	}
}

// stop ends the scan and all waits.
func (sc *scan) stop() {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	sc.over = true
	sc.ready.Broadcast()
	sc.room.Broadcast()
}

// take returns the next candidate's number, or -1 if there is none. If the searchers are too far
// ahead of the reader, it waits or, without wait, returns -1.
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

// give passes the last matches of a candidate, or an error, to the reader.
func (sc *scan) give(number int, last *waiting, err error) {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	f := &sc.found[number%searchAhead]
	f.move(last)
	f.searched, f.err = true, err
	sc.pass()
	if sc.readable() {
		sc.ready.Signal()
	}
}

// giveSome passes some matches of a candidate to the reader and, if too much of it waits then, waits
// until it is read. It reports whether the reader wants more.
func (sc *scan) giveSome(number int, some *waiting) bool {
	sc.mu.Lock()
	defer sc.mu.Unlock()
	f := &sc.found[number%searchAhead]
	f.move(some)
	if sc.readable() {
		sc.ready.Signal()
	}
	for !sc.over && f.full() {
		sc.room.Wait()
	}
	return !sc.over
}

// pass moves head past candidates without a match.
func (sc *scan) pass() {
	for sc.head < sc.taken {
		f := &sc.found[sc.head%searchAhead]
		if !f.searched || f.begun || len(f.matches) > 0 || f.err != nil {
			return
		}
		sc.advance()
	}
}

// readable reports whether await has something to return. Whoever makes it true must signal
// sc.ready. Moving head can make it true as well: the next candidate may have matches already.
func (sc *scan) readable() bool {
	if sc.over || sc.head == len(sc.todo) {
		return true
	}
	f := &sc.found[sc.head%searchAhead]
	return f.searched || len(f.matches) > 0
}

// advance moves head by one.
func (sc *scan) advance() {
	sc.found[sc.head%searchAhead] = finding{}
	sc.head++
	sc.room.Broadcast()
}

// await waits for the next finding with matches, or for a part of it. It returns the zero finding
// if there is none left or the scan was ended.
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
			sc.advance()
			sc.pass()
			return f
		case len(next.matches) > 0:
			f := *next
			*next = finding{begun: true}
			sc.room.Broadcast()
			return f
		}
		sc.ready.Wait()
	}
}

// part is a conversation that is being searched.
type part struct {
	convstore.Head
	number int
	seq    uint64 // of the next event; 0 = nothing left to read
	found  waiting
	count  int   // number of all matches so far
	later  *text // text to match before the next event is read; nil = none
}

// text is the lines of an event or of a title.
type text struct {
	at    Match
	lines []string
}

func (sc *scan) begin(ctx context.Context, number int) *part {
	p := &part{Head: sc.todo[number], number: number}
	if sc.read && !p.Empty {
		p.seq = 1
	}
	if sc.title {
		sc.matchSoon(ctx, p, text{Match{ID: p.ID, Scope: ScopeTitle, Time: p.Updated, Title: p.Title}, splitLines(nil, p.Title)})
	}
	return p
}

// full reports whether a conversation has Query.MaxMatches matches.
func (s *search) full(matches int) bool {
	return s.query.MaxMatches > 0 && matches >= s.query.MaxMatches
}

// work searches candidates until there are none left. While it has the store open once, it may
// finish many of them or only a part of one.
func (sc *scan) work(ctx context.Context) {
	var p *part
	finish := func(err error) {
		sc.give(p.number, &p.found, err)
		p = nil
	}
	for {
		if p == nil {
			number := sc.take(true)
			if number < 0 {
				return
			}
			p = sc.begin(ctx, number)
		}
		if err := sc.matchLater(ctx, p); err != nil {
			finish(err)
			return
		}
		if p.seq == 0 {
			finish(nil)
			continue
		}
		err := sc.visit(ctx, func(t *db.Tx, events page.Bucket) error {
			until := time.Now().Add(visitTime)
			for {
				if p.seq != 0 && p.later == nil {
					if err := sc.events(ctx, t, events, p, until); err != nil {
						return err
					}
				}
				if p.seq != 0 || p.later != nil { // out of time, or a text is left for matchLater
					return context.Cause(ctx)
				}
				finish(nil)
				number := sc.take(false)
				if number < 0 {
					return nil
				}
				p = sc.begin(ctx, number)
			}
		})
		if err != nil && p != nil { // otherwise all findings were passed on before the error
			finish(err)
			return
		}
	}
}

// visit opens the store and calls use with the pages of its events.
func (sc *scan) visit(ctx context.Context, use func(*db.Tx, page.Bucket) error) error {
	f := sc.view.Inside(db.Room{}).DB()
	return f.Session(ctx, false, func(h *db.Handle) error {
		return f.View(h, func(t *db.Tx) error {
			return t.MapPages(&sc.maps, func(m *page.Map) error {
				events, err := m.Bucket(db.BucketNames[db.Events])
				if err != nil {
					return t.Damaged("%w", err)
				}
				return use(t, events)
			})
		})
	})
}

// errStop ends the walk through the leaves early.
var errStop = errors.New("stop")

// events searches a conversation's events from p.seq on. If it runs out of time, or sets p.later,
// it leaves in p.seq where to continue; at the end it sets p.seq to 0. It searches all bytes of a
// leaf at once, and looks at single events only if the leaf contains the text.
func (sc *scan) events(ctx context.Context, t *db.Tx, events page.Bucket, p *part, until time.Time) error {
	const lookEvery = 64 << 10 // bytes between two reads of the clock
	begin, unseen, timeUp := p.seq, 0, false
	err := events.Leaves(db.PairKey(p.ID, p.seq), db.PairKey(p.ID, math.MaxUint64), func(leaf page.Page) error {
		some := sc.pre.passes(leaf.Data)
		unseen += len(leaf.Data)
		for i := range leaf.Count {
			_, k, v, err := leaf.Entry(i)
			if err != nil {
				return err
			}
			seq := db.Num(k[min(8, len(k)):])
			switch id := convstore.ID(db.Num(k)); {
			case id < p.ID || id == p.ID && seq < p.seq:
				continue
			case id > p.ID:
				return errStop
			case seq > p.seq:
				return lost(p.ID, p.seq)
			}
			s, err := stored.Parse(v)
			if err != nil {
				return fmt.Errorf("conversation %s: event %d: %w", p.ID, seq, err)
			}
			p.seq = seq + 1
			scope := sc.kinds[s.Kind]
			if scope == "" || !s.Loose && !(some && sc.pre.passes(s.Body)) {
				continue
			}
			body, err := convstore.BodyOf(s)
			if err != nil {
				return fmt.Errorf("conversation %s: event %d: %w", p.ID, seq, err)
			}
			at := Match{
				ID: p.ID, Turn: int(s.Turn), Scope: scope, Seq: seq,
				Time: time.Unix(0, s.Nano).UTC(), Title: p.Title,
			}
			sc.matchSoon(ctx, p, text{at, linesOf(body)})
			// Decoding and matching may have taken long.
			if timeUp = p.later != nil || p.found.full() || time.Now().After(until); timeUp || p.seq == 0 {
				return errStop
			}
		}
		if unseen < lookEvery {
			return nil
		}
		unseen = 0
		if timeUp = p.seq > begin && time.Now().After(until); timeUp {
			return errStop
		}
		return nil
	})
	if err == nil || err == errStop {
		err = nil
		if !timeUp && p.seq != 0 {
			err = endsBefore(t, p.ID, p.seq)
		}
	}
	if err != nil {
		return t.Damaged("%w", err)
	}
	if !timeUp {
		p.seq = 0
	}
	return nil
}

// lost returns the error for an event that the store has lost.
func lost(id convstore.ID, seq uint64) error {
	return fmt.Errorf("conversation %s: event %d is missing", id, seq)
}

// endsBefore fails if a conversation should have the event with this number. It reads only one
// field of the record.
func endsBefore(t *db.Tx, id convstore.ID, seq uint64) error {
	v := t.Bucket(db.Conversations).Get(db.Key(uint64(id)))
	if v == nil {
		return nil // removed meanwhile
	}
	var r struct {
		Events uint64 `json:"events"`
	}
	if err := json.Unmarshal(v, &r); err != nil {
		return fmt.Errorf("conversation %s: %w", id, err)
	}
	if seq <= r.Events {
		return lost(id, seq)
	}
	return nil
}

// matchSoon matches a text if that is quick, and leaves it to matchLater otherwise, because others
// wait for the store while it is open.
func (sc *scan) matchSoon(ctx context.Context, p *part, x text) {
	const few = 1000 // lines
	size := 0
	for _, line := range x.lines {
		size += len(line)
	}
	if size > sc.re.Piece()/8 || len(x.lines) > few {
		p.later = &x
		return
	}
	soon, cancel := context.WithTimeout(ctx, visitTime)
	defer cancel()
	var found []Match
	err := sc.match(soon, x, func(m Match) bool {
		found = append(found, m)
		return !sc.full(p.count + len(found))
	})
	if err != nil { // if ctx has ended, the next check of it ends the search
		p.later = &x
		return
	}
	for _, m := range found {
		sc.add(p, m)
	}
}

// matchLater matches the text that matchSoon left, and passes many matches on to the reader. It
// fails with the cause of the end of ctx.
func (sc *scan) matchLater(ctx context.Context, p *part) error {
	hand := func() bool { return sc.giveSome(p.number, &p.found) }
	if x := p.later; x != nil {
		p.later = nil
		hand() // matching may take long
		err := sc.match(ctx, *x, func(m Match) bool { return sc.add(p, m) && (!p.found.full() || hand()) })
		if err != nil {
			return err
		}
	}
	if p.found.full() {
		hand()
	}
	return nil
}

// add adds a match to p and reports whether more are wanted.
func (sc *scan) add(p *part, m Match) bool {
	p.found.add(m)
	if p.count++; sc.full(p.count) {
		p.seq = 0
		return false
	}
	return true
}

// match calls add with a copy of x.at for every line that matches, until add returns false. It
// fails with the cause of the end of ctx. A match has copies of its lines, because it may wait long,
// and a part of a text keeps all of it in memory.
func (s *search) match(ctx context.Context, x text, add func(Match) bool) error {
	given := 0 // number of lines already returned as a match or as context
	for i, line := range x.lines {
		spans, err := s.re.All(ctx, line, maxSubmatches)
		if err != nil {
			return err
		}
		if spans == nil {
			continue
		}
		m := x.at
		m.Line, m.Text = i+1, strings.Clone(line)
		for _, span := range spans {
			m.Submatches = append(m.Submatches, Submatch{m.Text[span[0]:span[1]], span[0], span[1]})
		}
		m.Before = cloned(x.lines[max(given, i-s.query.Context):i])
		for given = i + 1; given < len(x.lines) && given <= i+s.query.Context; given++ {
			loc, err := regex.Find(ctx, s.re, x.lines[given])
			if err != nil {
				return err
			}
			if loc != nil {
				break
			}
		}
		m.After = cloned(x.lines[i+1 : given])
		if !add(m) {
			break
		}
	}
	return nil
}

func cloned(lines []string) []string {
	var copies []string
	for _, line := range lines {
		copies = append(copies, strings.Clone(line))
	}
	return copies
}
