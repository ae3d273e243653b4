package main

import (
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

	"jp/cmd/jp/internal/model/script"
	"jp/cmd/jp/internal/test/wire"
)

// These benchmarks time whole processes: the shipped binary, built as `make build` does, against a local server without
// latency. Each prints the median of its runs and, where it says something, the ratio to an empty Go program.

// shop is a built jp with a workspace and a server.
type shop struct {
	b        *testing.B
	jp, none string
	dir      string
	env      []string
	stdin    string // of what is run
}

func newShop(b *testing.B, delay string) *shop {
	b.Helper()
	base := b.TempDir()
	s := &shop{b: b, jp: filepath.Join(base, "jp"), none: filepath.Join(base, "none"), dir: filepath.Join(base, "work")}
	empty := filepath.Join(base, "empty.go")
	if err := os.WriteFile(empty, []byte("package main\n\nfunc main() {}\n"), 0o600); err != nil {
		b.Fatal(err)
	}
	s.build(s.jp, ".")
	s.build(s.none, empty)

	var many strings.Builder
	for i := range 32 {
		fmt.Fprintf(&many, "[[rule.tool_calls]]\nname = \"jp_query\"\narguments = { config = \"agent/r\", query = \"part %d\" }\n", i)
	}
	rules := `
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
` + many.String() + `
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
[conversation.tools]
parallel = 32
[conversation.tools.jp_query]
source = "delegation"
run = "unattended"
[delegation]
profiles = ["agent/r"]
max_per_turn = 32
max_parallel = 32
`,
		".jp/config/agent/r.toml": "[loader]\nreset = \"none\"\n[assistant]\nmodel = \"anthropic/bench\"\n",
	} {
		path := filepath.Join(s.dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	home := filepath.Join(base, "home")
	s.env = []string{"HOME=" + home, "PATH=" + os.Getenv("PATH"), "ANTHROPIC_BASE_URL=" + server.URL, "ANTHROPIC_API_KEY=k", "JP_SESSION=bench"}
	s.run(s.jp, "trust", "--yes") // as people have it: the files are hashed in every run
	s.run(s.jp, "query", "--new", "warm up")
	return s
}

func (s *shop) build(out, pkg string) {
	cmd := exec.Command("go", "build", "-trimpath", "-tags", "urfave_cli_no_docs", "-ldflags", "-s -w", "-o", out, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		s.b.Fatalf("build %s: %v\n%s", pkg, err, text)
	}
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

// measure reports the median wall time of a command, the ratio to the empty program, CPU time with all descendants and peak
// memory of the largest process.
func (s *shop) measure(args ...string) {
	var wall, empty, cpu []time.Duration
	var rss int64
	for s.b.Loop() {
		e, _ := s.run(s.none)
		w, use := s.run(s.jp, args...)
		empty, wall = append(empty, e), append(wall, w)
		cpu = append(cpu, time.Duration(use.Utime.Nano()+use.Stime.Nano()))
		rss = max(rss, use.Maxrss)
	}
	s.b.ReportMetric(0, "ns/op")
	s.b.ReportMetric(ms(median(wall)), "ms")
	s.b.ReportMetric(float64(median(wall))/float64(median(empty)), "x-empty")
	s.b.ReportMetric(ms(median(cpu)), "cpu-ms")
	s.b.ReportMetric(float64(rss)/1024, "MiB")
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

func ms(d time.Duration) float64 { return float64(d) / 1e6 }

func BenchmarkVersion(b *testing.B)          { newShop(b, "0s").measure("version") }
func BenchmarkQuery(b *testing.B)            { newShop(b, "0s").measure("query", "--new", "plain") }
func BenchmarkOneDelegation(b *testing.B)    { newShop(b, "0s").measure("query", "--new", "one") }
func Benchmark32Delegations(b *testing.B)    { newShop(b, "200ms").measure("query", "--new", "many") }
func Benchmark32DelegationsCPU(b *testing.B) { newShop(b, "0s").measure("query", "--new", "many") }

// Benchmark256ThroughACapOf32 is `jp batch` with 256 queries whose model takes 2 s each, 32 at a time: ideally 8 waves.
func Benchmark256ThroughACapOf32(b *testing.B) {
	const queries, parallel, delay = 256, 32, 2 * time.Second
	s := newShop(b, delay.String())
	s.stdin = strings.Repeat("\"part\"\n", queries)
	var wall, cpu []time.Duration
	for i := 0; b.Loop(); i++ {
		if i >= 3 {
			continue // each takes 20 s, and says the same
		}
		w, use := s.run(s.jp, "batch", "-q", "-c", "agent/r", "--parallel", strconv.Itoa(parallel))
		wall = append(wall, w)
		cpu = append(cpu, time.Duration(use.Utime.Nano()+use.Stime.Nano()))
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(ms(median(wall)), "ms")
	b.ReportMetric(float64(median(wall))/float64(delay*queries/parallel), "x-ideal")
	b.ReportMetric(ms(median(cpu)), "cpu-ms")
}
