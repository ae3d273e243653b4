package search

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"jp/convstore"
	"jp/convstore/internal/db"
	"jp/convstore/internal/stored"
	"jp/convstore/internal/test/storetest"
)

// corpus fills a store with conversations of words at natural frequencies, until it holds about
// size bytes, and plants a needle now and then.
func corpus(b *testing.B, s *convstore.Store, size int) {
	b.Helper()
	rnd := rand.New(rand.NewPCG(1, 2))
	// Letters as often as in English, per 1000.
	var letters []byte
	for i, n := range []int{82, 15, 28, 43, 127, 22, 20, 61, 70, 2, 8, 40, 24, 67, 75, 19, 1, 60, 63, 91, 28, 10, 24, 2, 20, 1} {
		letters = append(letters, bytes.Repeat([]byte{byte('a' + i)}, n)...)
	}
	words := make([]string, 30_000)
	for i := range words {
		word := make([]byte, 2+rnd.IntN(9))
		for j := range word {
			word[j] = letters[rnd.IntN(len(letters))]
		}
		words[i] = string(word)
	}
	zipf := rand.NewZipf(rnd, 1.1, 4, uint64(len(words)-1))
	for n := 0; size > 0; {
		l := storetest.Lock(b, s, storetest.Create(b, s, convstore.New{Title: "corpus"}).ID)
		events := make([]convstore.Event, 400)
		for i := range events {
			var text strings.Builder
			for want := 600 + rnd.IntN(2600); text.Len() < want; {
				text.WriteString(words[zipf.Uint64()])
				text.WriteString([]string{" ", " ", " ", " ", ", ", ". ", "\n"}[rnd.IntN(7)])
			}
			if n++; n%4600 == 0 {
				text.WriteString("a Zebra Crossing here")
			}
			events[i].Body = convstore.AssistantMessage{Text: text.String()}
			if n%3 == 0 {
				events[i].Body = convstore.ToolResult{ID: "x", Text: text.String()}
			}
			size -= text.Len()
		}
		storetest.NoError(b, l.Append(b.Context(), events...))
		storetest.NoError(b, l.Close())
	}
}

// flatTexts writes the text of each conversation to a file of its own, and returns their folder.
func flatTexts(b *testing.B, s *convstore.Store) string {
	b.Helper()
	dir := b.TempDir()
	list, err := s.List(b.Context(), convstore.Filter{})
	if err != nil {
		b.Fatal(err)
	}
	for _, c := range list {
		var text bytes.Buffer
		for e, err := range s.Events(b.Context(), c.ID, convstore.Range{}) {
			if err != nil {
				b.Fatal(err)
			}
			for _, line := range linesOf(e.Body) {
				text.WriteString(line + "\n")
			}
		}
		if err := os.WriteFile(filepath.Join(dir, c.ID.String()), text.Bytes(), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	return dir
}

// ripgrep searches flat files as the store was, and must find as many lines. It returns how long
// the whole process took, by the clock and of CPU, or zero where there is no ripgrep.
func ripgrep(b *testing.B, q Query, dir string, want int) (wall, cpu time.Duration) {
	b.Helper()
	rg, err := exec.LookPath("rg")
	if err != nil {
		return 0, 0
	}
	args := []string{"--no-config", "--smart-case", "--no-heading", "--no-ignore"}
	if !q.Regexp {
		args = append(args, "--fixed-strings")
	}
	start, cmd := time.Now(), exec.Command(rg, append(args, "--", q.Pattern, dir)...)
	out, err := cmd.Output()
	wall = time.Since(start)
	var exit *exec.ExitError
	if got := bytes.Count(out, []byte("\n")); got != want || err != nil && !errors.As(err, &exit) {
		b.Fatalf("ripgrep found %d lines of %q, and jp %d: %v", got, q.Pattern, want, err)
	}
	return wall, cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
}

// cpuTime is the CPU time of this process so far.
func cpuTime(b *testing.B) time.Duration {
	b.Helper()
	var r syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &r); err != nil {
		b.Fatal(err)
	}
	return time.Duration(r.Utime.Nano() + r.Stime.Nano())
}

// BenchmarkSearch looks for rare words in a corpus of $CONVSTORE_BENCH_MIB (default 128) MiB, warm.
// x-flat-files is the rate of the search divided by that of a plain program on the same bytes in
// flat files: as many goroutines read them piece by piece and look for one byte that is not there.
// No grep can be faster than that. x-ripgrep is the rate divided by that of ripgrep, where it is
// installed, on the same text in a file for each conversation, x-ripgrep-cpu the same by CPU time.
func BenchmarkSearch(b *testing.B) {
	mib, err := strconv.Atoi(os.Getenv("CONVSTORE_BENCH_MIB"))
	if err != nil {
		mib = 128
	}
	s, err := convstore.Open(filepath.Join(b.TempDir(), "store"), convstore.Options{})
	storetest.NoError(b, err)
	corpus(b, s, mib<<20)
	flat := make([]*os.File, searchers)
	for i := range flat {
		if flat[i], err = os.Create(filepath.Join(b.TempDir(), "flat")); err != nil {
			b.Fatal(err)
		}
		defer flat[i].Close()
	}
	var size int64
	f := s.Inside(db.Room{}).DB()
	storetest.NoError(b, f.Session(b.Context(), false, func(h *db.Handle) error {
		n := 0
		return f.View(h, func(t *db.Tx) error {
			return t.Prefixed(db.Events, nil, func(_, v []byte) error {
				st, err := stored.Parse(v)
				if err != nil {
					return err
				}
				size += int64(len(st.Body))
				n++
				_, err = flat[n%len(flat)].Write(st.Body)
				return err
			})
		})
	}))
	readFlat := func() time.Duration {
		start := time.Now()
		var wg sync.WaitGroup
		for _, file := range flat {
			wg.Go(func() {
				piece := make([]byte, 128<<10)
				for at := int64(0); ; {
					n, err := file.ReadAt(piece, at)
					if bytes.IndexByte(piece[:n], 0) >= 0 {
						b.Error("a zero byte")
					}
					if at += int64(n); err != nil {
						return
					}
				}
			})
		}
		wg.Wait()
		return time.Since(start)
	}
	texts := flatTexts(b, s)
	for _, q := range []Query{
		{Pattern: "zebra crossing"},
		{Pattern: "Zebra Crossing"},
		{Pattern: "zebra cross[a-z]+", Regexp: true},
		{Pattern: "no such words are here"},
		{Pattern: "tattooist"},
	} {
		b.Run(strings.ReplaceAll(q.Pattern, " ", "_"), func(b *testing.B) {
			b.SetBytes(size)
			var flat, rg, rgCPU, cpu time.Duration
			matches := 0
			for b.Loop() {
				matches = 0
				before := cpuTime(b)
				for _, err := range Run(b.Context(), s.View, q) {
					if err != nil {
						b.Fatal(err)
					}
					matches++
				}
				// In turns, so that a busy machine slows all down.
				b.StopTimer()
				cpu += cpuTime(b) - before
				flat += readFlat()
				wall, others := ripgrep(b, q, texts, matches)
				rg, rgCPU = rg+wall, rgCPU+others
				b.StartTimer()
			}
			b.ReportMetric(float64(flat)/float64(b.Elapsed()), "x-flat-files")
			if rg > 0 {
				b.ReportMetric(float64(rg)/float64(b.Elapsed()), "x-ripgrep")
				b.ReportMetric(float64(rgCPU)/float64(cpu), "x-ripgrep-cpu")
			}
		})
	}
}
