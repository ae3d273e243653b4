package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"jp/cmd/jp/internal/model/script"
	"jp/cmd/jp/internal/test/wire"
	"jp/convstore"
)

// These benchmarks time whole processes: the shipped binary, built as `make build` does, against a
// local server without latency. Each prints medians of its runs and ratios to a floor that runs in
// turn with it: an empty Go program or, for work, package test/floor, which asks as often and
// commits as often.

// shop is a built jp with a workspace and a server.
type shop struct {
	b               *testing.B
	jp, none, floor string
	dir             string
	env             []string
	server          *wire.Server
	stdin           string // of what is run
}

// newShop returns a shop whose model takes delay for a part, and follows other rules first.
func newShop(b *testing.B, delay string, other ...string) *shop {
	b.Helper()
	base := b.TempDir()
	s := &shop{b: b, jp: filepath.Join(base, "jp"), none: filepath.Join(base, "none"), floor: filepath.Join(base, "floor"), dir: filepath.Join(base, "work")}
	empty := filepath.Join(base, "empty.go")
	if err := os.WriteFile(empty, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		b.Fatal(err)
	}
	s.build(s.jp, ".")
	s.build(s.none, empty)
	s.build(s.floor, "./internal/test/floor")

	calls := func(n int) string {
		var calls strings.Builder
		for i := range n {
			fmt.Fprintf(&calls, "[[rule.tool_calls]]\nname = \"jp_query\"\narguments = { config = \"agent/r\", query = \"part %d\" }\n", i)
		}
		return calls.String()
	}
	rules := strings.Join(other, "") + `
[[rule]]
query = "part"
text = "done"
delay = "` + delay + `"
[[rule]]
query = "one"
round = 1
tool_calls = [{ name = "jp_query", arguments = { config = "agent/r", query = "part" } }]
[[rule]]
query = "many"
round = 1
` + calls(32) + `
[[rule]]
query = "wide"
round = 1
` + calls(1000) + `
[[rule]]
text = "answer"
`
	model, err := script.Parse("bench.toml", []byte(rules))
	if err != nil {
		b.Fatal(err)
	}
	server, err := wire.Start(model.Stream("wire", ""), wire.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = server.Close() })
	for name, text := range map[string]string{
		".jp/config.toml": `
[assistant]
model = "anthropic/bench"
[conversation.tools.jp_query]
source = "delegation"
run = "unattended"
[delegation]
profiles = ["agent/r"]
max_per_turn = 1000
max_children = 100000
max_parallel = 1000
`,
		".jp/config/agent/r.toml": "[loader]\nreset = \"none\"\n[assistant]\nmodel = \"anthropic/bench\"\n",
	} {
		s.write(filepath.Join(s.dir, name), text)
	}
	s.server = server
	home := filepath.Join(base, "home")
	s.env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "ANTHROPIC_BASE_URL=" + server.URL, "ANTHROPIC_API_KEY=k", "JP_SESSION=bench"}
	s.run(s.jp, "trust", "--yes") // as people have it: the files are hashed in every run
	s.run(s.jp, "query", "--new", "warm up")
	return s
}

// write appends to a file.
func (s *shop) write(path, text string) {
	err := os.MkdirAll(filepath.Dir(path), 0o700)
	if err == nil {
		var f *os.File
		if f, err = os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600); err == nil {
			_, err = f.WriteString(text)
			err = errors.Join(err, f.Close())
		}
	}
	if err != nil {
		s.b.Fatal(err)
	}
}

func (s *shop) build(out, pkg string) {
	cmd := exec.Command("go", "build", "-trimpath", "-tags", "urfave_cli_no_docs", "-ldflags", "-s -w", "-o", out, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		s.b.Fatalf("build %s: %v\n%s", pkg, err, text)
	}
	// As make build leaves it: written at once, and not in the order of the linker.
	program, err := os.ReadFile(out)
	if err == nil {
		err = os.WriteFile(out+".new", program, 0o700)
	}
	if err == nil {
		err = os.Rename(out+".new", out)
	}
	if err != nil {
		s.b.Fatal(err)
	}
}

// storeDir returns the folder of the workspace's store.
func (s *shop) storeDir() string {
	dir, err := convstore.Locate(convstore.Env{Get: func(name string) string {
		for _, kv := range slices.Backward(s.env) {
			if v, ok := strings.CutPrefix(kv, name+"="); ok {
				return v
			}
		}
		return ""
	}}, s.dir)
	if err != nil {
		s.b.Fatal(err)
	}
	return dir
}

// run runs a program to its end and returns how long it took and what it and its descendants used.
func (s *shop) run(program string, args ...string) (time.Duration, *syscall.Rusage) {
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Env, cmd.Stdin = s.dir, s.env, strings.NewReader(s.stdin)
	began := time.Now()
	out, err := cmd.Output()
	took := time.Since(began)
	if err != nil {
		s.b.Fatalf("%s %v: %v\n%s", program, args, err, out)
	}
	return took, cmd.ProcessState.SysUsage().(*syscall.Rusage)
}

// measure reports medians of a command beside the empty program.
func (s *shop) measure(args ...string) {
	s.compare(args, func(int) []string { return []string{s.none} }).report(s.b, "empty")
}

// measureFloor reports medians of a query beside the floor: a program that does the same with as
// many durable commits. It returns what both took.
func (s *shop) measureFloor(query string, children int) *sides {
	file := filepath.Join(filepath.Dir(s.dir), "floor.db")
	floor := func(commits int) []string {
		return []string{s.floor, s.server.URL, query, file, strconv.Itoa(commits), strconv.Itoa(children)}
	}
	s.run(s.floor, floor(1)[1:]...) // makes the file
	m := s.compare([]string{"query", "--new", query}, floor)
	m.report(s.b, "floor")
	return m
}

// sides is what jp and its floor took in each round, by the clock and as CPU time with all
// descendants.
type sides struct {
	clock, cpu           []time.Duration
	floorClock, floorCPU []time.Duration
	commits              []int
	rss                  int64 // peak memory of jp's largest process, in KiB
}

// compare runs jp and then its floor, which is told how often jp has committed, in each round.
func (s *shop) compare(args []string, floor func(commits int) []string) *sides {
	m := &sides{}
	cpu := func(use *syscall.Rusage) time.Duration { return time.Duration(use.Utime.Nano() + use.Stime.Nano()) }
	for s.b.Loop() {
		before := s.commits()
		clock, use := s.run(s.jp, args...)
		m.clock, m.cpu, m.rss = append(m.clock, clock), append(m.cpu, cpu(use)), max(m.rss, use.Maxrss)
		m.commits = append(m.commits, s.commits()-before)
		f := floor(m.commits[len(m.commits)-1])
		clock, use = s.run(f[0], f[1:]...)
		m.floorClock, m.floorCPU = append(m.floorClock, clock), append(m.floorCPU, cpu(use))
	}
	return m
}

// commits returns the number of write transactions that the store has seen: the last one's id.
func (s *shop) commits() (n int) {
	dir := s.storeDir()
	db, err := bbolt.Open(filepath.Join(dir, "store.db"), 0o600, &bbolt.Options{ReadOnly: true})
	if err != nil {
		s.b.Fatal(err)
	}
	defer db.Close()
	if err := db.View(func(tx *bbolt.Tx) error { n = tx.ID(); return nil }); err != nil {
		s.b.Fatal(err)
	}
	return n
}

// ideal reports medians of a few runs of jp, and how many times the ideal time they take.
func (s *shop) ideal(ideal time.Duration, args ...string) {
	var wall, cpu []time.Duration
	for i := 0; s.b.Loop(); i++ {
		if i >= enough {
			continue
		}
		w, use := s.run(s.jp, args...)
		wall = append(wall, w)
		cpu = append(cpu, time.Duration(use.Utime.Nano()+use.Stime.Nano()))
	}
	s.b.ReportMetric(0, "ns/op")
	s.b.ReportMetric(ms(median(wall)), "ms")
	s.b.ReportMetric(float64(median(wall))/float64(ideal), "x-ideal")
	s.b.ReportMetric(ms(median(cpu)), "cpu-ms")
}

func (m *sides) report(b *testing.B, floor string) {
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(ms(median(m.clock)), "ms")
	b.ReportMetric(float64(median(m.clock))/float64(median(m.floorClock)), "x-"+floor)
	b.ReportMetric(ms(median(m.cpu)), "cpu-ms")
	b.ReportMetric(float64(median(m.cpu))/float64(median(m.floorCPU)), "x-"+floor+"-cpu")
	b.ReportMetric(float64(median(m.commits)), "commits")
	b.ReportMetric(float64(m.rss)/1024, "MiB")
}

func median[T cmp.Ordered](d []T) T {
	slices.Sort(d)
	return d[len(d)/2]
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }

func BenchmarkVersion(b *testing.B) {
	newShop(b, "0s").measure("version")
	b.ReportMetric(3, "x-empty-goal")
}

func BenchmarkQuery(b *testing.B) {
	newShop(b, "0s").measureFloor("plain", 0)
	b.ReportMetric(2, "x-floor-goal")
}

func BenchmarkOneDelegation(b *testing.B) {
	newShop(b, "0s").measureFloor("one", 1)
	b.ReportMetric(2, "x-floor-goal")
}

func Benchmark32Delegations(b *testing.B) {
	newShop(b, "200ms").measureFloor("many", 32)
	b.ReportMetric(1.5, "x-floor-goal")
	b.ReportMetric(2, "x-floor-cpu-goal")
}

// Benchmark1000Delegations has 1,000 sub-agents of one reply, all alive at the same time.
func Benchmark1000Delegations(b *testing.B) {
	const delay = 10 * time.Second
	s := newShop(b, delay.String())
	m := s.measureFloor("wide", 1000)
	show := exec.Command(s.jp, "conversation", "show")
	show.Dir, show.Env = s.dir, s.env
	if out, err := show.Output(); err != nil || !bytes.Contains(out, []byte("delegated  1000 runs, 0 open; 8,900 tokens in, 2,000 out")) {
		b.Fatalf("not all have answered: %v\n%s", err, out)
	}
	b.ReportMetric(float64(median(m.clock))/float64(delay), "x-ideal")
	b.ReportMetric(float64(median(m.floorClock))/float64(delay), "x-ideal-floor")
	b.ReportMetric(2, "x-ideal-goal")
}

// Benchmark256ThroughACapOf32 is `jp batch` with 256 queries whose model takes 2 s each, 32 at a
// time: ideally 8 waves.
func Benchmark256ThroughACapOf32(b *testing.B) {
	const queries, parallel, delay = 256, 32, 2 * time.Second
	s := newShop(b, delay.String())
	s.stdin = strings.Repeat("\"part\"\n", queries)
	s.ideal(delay*queries/parallel, "batch", "-q", "-c", "agent/r", "--parallel", strconv.Itoa(parallel))
}
