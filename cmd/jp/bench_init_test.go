package main

import (
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"
)

// BenchmarkInit shows what every jp pays before main: the sum of all packages' initialisation, and
// each package that takes 20 µs or more of it, as the runtime tells with GODEBUG=inittrace=1
// (package runtime). Medians of 15 runs.
func BenchmarkInit(b *testing.B) {
	s := newShop(b, "0s")
	took := map[string][]time.Duration{}
	var sums []time.Duration
	for range 15 {
		var sum time.Duration
		for name, d := range s.initTrace() {
			took[name] = append(took[name], d)
			sum += d
		}
		sums = append(sums, sum)
	}
	show := func(name string, d time.Duration) {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(ms(d), "ms")
		})
	}
	show("all", median(sums))
	var names []string
	for name, ds := range took {
		if median(ds) >= 20*time.Microsecond {
			names = append(names, name)
		}
	}
	slices.SortFunc(names, func(x, y string) int { return int(median(took[y]) - median(took[x])) })
	for _, name := range names {
		show(name, median(took[name]))
	}
}

var initLine = regexp.MustCompile(`(?m)^init (\S+) @\S+ ms, (\S+) ms clock`)

// initTrace runs jp once and returns what the initialisation of each package took.
func (s *shop) initTrace() map[string]time.Duration {
	cmd := exec.Command(s.jp, "version")
	cmd.Dir, cmd.Env = s.dir, append(slices.Clone(s.env), "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		s.b.Fatalf("jp version: %v\n%s", err, out)
	}
	took := map[string]time.Duration{}
	for _, m := range initLine.FindAllSubmatch(out, -1) {
		clock, err := strconv.ParseFloat(string(m[2]), 64)
		if err != nil {
			s.b.Fatal(err)
		}
		took[string(m[1])] = time.Duration(clock * float64(time.Millisecond))
	}
	return took
}
