package convstore

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"jp/convstore/amount"
)

// The benchmarks use a real disk: the folder of $TMPDIR.

func benchStore(b *testing.B) *Store {
	b.Helper()
	s, err := Open(filepath.Join(b.TempDir(), "store"), Options{})
	if err != nil {
		b.Fatal(err)
	}
	return s
}

// flushLoop is the least that a durable commit of bbolt's kind needs: twice a page written and
// flushed. It returns the time of one round.
func flushLoop(b *testing.B) time.Duration {
	b.Helper()
	f, err := os.Create(filepath.Join(b.TempDir(), "raw"))
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(make([]byte, 128*4096)); err != nil {
		b.Fatal(err)
	}
	page := make([]byte, 4096)
	const rounds = 300
	start := time.Now()
	for i := range rounds {
		for half := range 2 {
			if _, err := f.WriteAt(page, int64(i%64*2+half)*4096); err != nil {
				b.Fatal(err)
			}
			if err := f.Sync(); err != nil {
				b.Fatal(err)
			}
		}
	}
	return time.Since(start) / rounds
}

// BenchmarkAppend opens the store, appends one event of 2 KiB and closes it, beside a raw loop of
// the same flushes.
func BenchmarkAppend(b *testing.B) {
	s := benchStore(b)
	c, err := s.Create(b.Context(), New{})
	if err != nil {
		b.Fatal(err)
	}
	l, err := s.Lock(b.Context(), c.ID)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	text := strings.Repeat("x", 2000)
	raw := flushLoop(b)
	for b.Loop() {
		if err := l.Append(b.Context(), Event{Body: AssistantMessage{Text: text}}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(raw), "x-raw-flushes")
}

// BenchmarkGroup has 64 goroutines of one process append, and says how many appends were
// acknowledged in a second, beside the same where no two share a flush.
func BenchmarkGroup(b *testing.B) {
	const writers, each = 64, 50
	s := benchStore(b)
	var shared, apart []*Log
	for range writers {
		alone, err := Open(filepath.Dir(s.Path()), Options{}) // a queue of its own
		if err != nil {
			b.Fatal(err)
		}
		for _, to := range []*[]*Log{&shared, &apart} {
			c, err := s.Create(b.Context(), New{})
			if err != nil {
				b.Fatal(err)
			}
			of := s
			if to == &apart {
				of = alone
			}
			l, err := of.Lock(b.Context(), c.ID)
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = l.Close() }()
			*to = append(*to, l)
		}
	}
	run := func(logs []*Log) (took time.Duration) {
		start := time.Now()
		together(writers, func(i int) {
			for range each {
				if err := logs[i].Append(b.Context(), Event{Body: Note{Text: strings.Repeat("x", 300)}}); err != nil {
					b.Error(err)
				}
			}
		})
		return time.Since(start)
	}
	var grouped, single time.Duration
	flushes := 0
	for b.Loop() {
		before := committed(b, s)
		grouped += run(shared)
		flushes += committed(b, s) - before
		single += run(apart)
	}
	all := float64(b.N * writers * each)
	b.ReportMetric(all/grouped.Seconds(), "acks/s")
	b.ReportMetric(5000, "acks/s-goal")
	b.ReportMetric(all/single.Seconds(), "acks/s-ungrouped")
	b.ReportMetric(float64(single)/float64(grouped), "x-ungrouped")
	b.ReportMetric(all/float64(flushes), "acks/flush")
}

// BenchmarkGet opens the store, reads one conversation and closes it.
func BenchmarkGet(b *testing.B) {
	s := benchStore(b)
	c, err := s.Create(b.Context(), New{})
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		if _, err := s.Get(b.Context(), c.ID); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkDelegation reserves and settles one child: the two transactions of the ledger, beside a
// raw loop of the flushes of one commit.
func BenchmarkDelegation(b *testing.B) {
	s := benchStore(b)
	c, err := s.Create(b.Context(), New{})
	if err != nil {
		b.Fatal(err)
	}
	l, err := s.Lock(b.Context(), c.ID)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	raw := flushLoop(b)
	tokens, cost := int64(1)<<40, int64(1)<<40
	limits := &Limits{Budget: Budget{Tokens: &tokens, CostNano: &cost}, Children: 64}
	for i := 0; b.Loop(); i++ {
		if i%50 == 0 {
			if err := l.Append(b.Context(), Event{Body: TurnStart{Limits: limits}}); err != nil {
				b.Fatal(err)
			}
		}
		rs, err := l.Below().Reserve(b.Context(), func(st Standing) ([]Child, error) {
			free := st.Account.Free
			grant := Grant{Budget: Budget{Tokens: amount.Pool(free.Tokens, 0.5), CostNano: amount.Pool(free.CostNano, 0.5)}}
			return []Child{{Call: fmt.Sprint(i), Hidden: true, Grant: grant}}, nil
		})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := l.Below().Settle(b.Context(), rs[0], Outcome{State: StateOK}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed())/float64(b.N)/float64(raw), "x-raw-flushes")
}

// BenchmarkManyDelegations makes 10,000 delegations in one session and says how many times the CPU
// time of the first hundred the last hundred took.
func BenchmarkManyDelegations(b *testing.B) {
	const each, all = 100, 10_000
	for b.Loop() {
		s := openStoreIn(b, filepath.Join(memoryDir(b), "store"), Options{})
		c, err := s.Create(b.Context(), New{})
		if err != nil {
			b.Fatal(err)
		}
		l, err := s.Lock(b.Context(), c.ID)
		if err != nil {
			b.Fatal(err)
		}
		if err := l.Append(b.Context(), Event{Body: TurnStart{}}); err != nil {
			b.Fatal(err)
		}
		var first, last time.Duration
		for i := range all {
			start := processTime(b)
			rs, err := l.Below().Reserve(b.Context(), admit(Child{Call: fmt.Sprint(i), Hidden: true}))
			if err != nil {
				b.Fatal(err)
			}
			if _, err := l.Below().Settle(b.Context(), rs[0], Outcome{State: StateOK}); err != nil {
				b.Fatal(err)
			}
			switch took := processTime(b) - start; {
			case i < each:
				first += took
			case i >= all-each:
				last += took
			}
		}
		_ = l.Close()
		b.ReportMetric(float64(last)/float64(first), "x-the-first")
	}
}

// gapsProgram appends events at random gaps of 100 ms on average, and prints how long each append
// took.
func gapsProgram(args []string) error {
	s, id, err := programStore(args)
	if err != nil {
		return err
	}
	l, err := s.Lock(context.Background(), id)
	if err != nil {
		return err
	}
	text := strings.Repeat("x", 1500)
	for range 20 {
		time.Sleep(time.Duration(rand.IntN(200)) * time.Millisecond)
		start := time.Now()
		if err := l.Append(context.Background(), Event{Body: AssistantMessage{Text: text}}); err != nil {
			return err
		}
		fmt.Println(time.Since(start).Nanoseconds())
	}
	return nil
}

// BenchmarkContention runs 64 processes that append at random gaps of 100 ms.
func BenchmarkContention(b *testing.B) {
	s := benchStore(b)
	var took []time.Duration
	for b.Loop() {
		var wg sync.WaitGroup
		var mu sync.Mutex
		for range 64 {
			c, err := s.Create(b.Context(), New{})
			if err != nil {
				b.Fatal(err)
			}
			p := start(b, "gaps", nil, filepath.Dir(s.Path()), c.ID.String())
			wg.Go(func() {
				for line := p.line(); line != ""; line = p.line() {
					ns, err := strconv.ParseInt(line, 10, 64)
					if err != nil {
						b.Error(err)
					}
					mu.Lock()
					took = append(took, time.Duration(ns))
					mu.Unlock()
				}
			})
		}
		wg.Wait()
	}
	slices.Sort(took)
	ms := func(q float64) float64 { return float64(took[int(q*float64(len(took)-1))]) / 1e6 }
	b.ReportMetric(ms(0.5), "p50-ms")
	b.ReportMetric(ms(0.99), "p99-ms")
	b.ReportMetric(ms(1), "max-ms")
	if err := s.Check(b.Context()); err != nil {
		b.Fatal(err)
	}
}

// largeStore holds 100,000 conversations, 50 of them below the one it returns. Each has answered
// what digestAt of its id identifies.
func largeStore(b *testing.B) (*Store, ID) {
	b.Helper()
	s := benchStore(b)
	var root ID
	insert := func(t *tx, parent ID) (ID, error) {
		r := &record{
			Title: "a conversation with a title of some length", Profile: "agent/researcher", ProfileHash: strings.Repeat("0", 64),
			Model: "anthropic/claude-sonnet", Role: "subagent", Parent: parent,
			Grant: &Grant{Tools: []string{"fs_read_file", "fs_list_files", "fs_grep_files"}},
		}
		if parent != 0 {
			r.Link = DelegationLink
		}
		id, err := t.insert(r, Config{JSON: []byte(`{"assistant":{"model":"anthropic/claude-sonnet"}}`)})
		for _, body := range []Body{TurnStart{}, TurnEnd{State: StateOK, Asked: digestAt(id)}} {
			e, encoded := EncodeEvent(Event{ID: NewEventID(), Time: t.Now, Body: body})
			if err = cmp.Or(err, encoded); err == nil {
				_, err = t.Append(id, r, &e, body)
			}
		}
		return id, cmp.Or(err, t.Save(id, r))
	}
	for batch := range 100 {
		err := s.f.write(b.Context(), func(t *tx) error {
			for i := range 1000 / 51 {
				top, err := insert(t, 0)
				if err != nil {
					return err
				}
				for range 50 {
					if _, err := insert(t, top); err != nil {
						return err
					}
				}
				if batch == 50 && i == 5 {
					root = top
				}
			}
			for range 1000 % 51 {
				if _, err := insert(t, 0); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			b.Fatal(err)
		}
	}
	return s, root
}

func digestAt(id ID) Digest { return sha256.Sum256(id.key()) }

// BenchmarkLarge lists from a store of 100,000 conversations.
func BenchmarkLarge(b *testing.B) {
	s, root := largeStore(b)
	b.Run("below=50", func(b *testing.B) {
		for b.Loop() {
			v, err := s.Under(b.Context(), root)
			if err != nil {
				b.Fatal(err)
			}
			list, err := v.List(b.Context(), Filter{Hidden: true})
			if err != nil || len(list) != 50 {
				b.Fatalf("%d, %v", len(list), err)
			}
		}
	})
	b.Run("roots", func(b *testing.B) {
		for b.Loop() {
			list, err := s.List(b.Context(), Filter{Roots: true})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportMetric(float64(len(list)), "conversations")
		}
	})
	for name, f := range map[string]Filter{
		"limit=50":          {Limit: 50},
		"created,limit=50":  {Sort: SortCreated, Descending: true, Limit: 50},
		"activity,limit=50": {Sort: SortActivity, Descending: true, Limit: 50},
		"title,limit=50":    {Sort: SortTitle, Limit: 50},
		"label":             {Labels: map[string]string{"k": "v"}},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if list, err := s.List(b.Context(), f); err != nil || len(list) != f.Limit {
					b.Fatalf("%d, %v", len(list), err)
				}
			}
		})
	}
	for name, d := range map[string]Digest{"answer": digestAt(root), "no-answer": {1}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				if _, ok, err := s.Answer(b.Context(), d, 0); ok != (name == "answer") || err != nil {
					b.Fatalf("%v, %v", ok, err)
				}
			}
		})
	}
	b.Run("all", func(b *testing.B) {
		for b.Loop() {
			list, err := s.List(b.Context(), Filter{Hidden: true})
			if err != nil || len(list) != 100_000 {
				b.Fatalf("%d, %v", len(list), err)
			}
		}
	})
}

// processTime is the CPU time of this process so far.
func processTime(b *testing.B) time.Duration {
	b.Helper()
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// BenchmarkEditAll changes all conversations of a tree in one transaction: of a chain, where each
// is below the one before, their label; of a wide tree, their parent. The time of one should not
// depend on how many there are.
func BenchmarkEditAll(b *testing.B) {
	for _, chain := range []bool{true, false} {
		for _, n := range []int{100, 1000} {
			b.Run(fmt.Sprintf("chain=%t/%d", chain, n), func(b *testing.B) {
				s := benchStore(b)
				ids := make([]ID, n)
				for i := range ids {
					c, err := s.Create(b.Context(), New{})
					if err != nil {
						b.Fatal(err)
					}
					ids[i] = c.ID
				}
				at := 0
				below := func(c *Conversation) error {
					c.Parent = ids[0]
					if chain {
						c.Parent = ids[at]
					}
					at++
					return nil
				}
				for i := range n - 1 {
					if err := s.Edit(b.Context(), ids[i+1], below); err != nil {
						b.Fatal(err)
					}
				}
				for b.Loop() {
					if err := s.EditAll(b.Context(), ids[1:], func(c *Conversation) error {
						if c.Labels = map[string]string{"a": strconv.Itoa(b.N)}; !chain {
							c.Parent ^= ids[0] // to and fro
						}
						return nil
					}); err != nil {
						b.Fatal(err)
					}
				}
				b.ReportMetric(float64(b.Elapsed())/float64(b.N*n), "ns/conversation")
			})
		}
	}
}
