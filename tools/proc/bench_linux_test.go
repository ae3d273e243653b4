package proc

import (
	"context"
	"os/exec"
	"testing"
	"time"
)

var benchEnv = []string{"PATH=/usr/bin:/bin"}

// What a guard and a death pipe cost: each run beside the same program started by os/exec in
// between, so that a busy machine slows both.
func bench(b *testing.B, spec Spec) {
	h := NewHost(Options{})
	defer func() {
		if err := h.Close(); err != nil {
			b.Error(err)
		}
	}()
	spec.Env = benchEnv
	path := spec.Path
	if path == "" {
		path = Self()
	}
	var ours, plain time.Duration
	for b.Loop() {
		start := time.Now()
		cmd := &exec.Cmd{Path: path, Args: spec.Args, Env: spec.Env}
		if err := cmd.Run(); err != nil {
			b.Fatal(err)
		}
		plain += time.Since(start)
		start = time.Now()
		if e, err := h.Run(context.Background(), spec); err != nil || e.Code != 0 {
			b.Fatal(e, err)
		}
		ours += time.Since(start)
	}
	b.ReportMetric(0, "ns/op") // the time of both runs together
	b.ReportMetric(float64(ours.Microseconds())/float64(b.N), "µs/run")
	b.ReportMetric(float64(plain.Microseconds())/float64(b.N), "µs/exec")
	b.ReportMetric(float64(ours)/float64(plain), "x-exec")
}

var trueTool = Spec{Path: "/bin/true", Args: []string{"true"}}

// BenchmarkTool starts each guard with its tool.
func BenchmarkTool(b *testing.B) { bench(b, trueTool) }

// BenchmarkAgent starts this binary, as a jp starts itself.
func BenchmarkAgent(b *testing.B) {
	bench(b, Spec{Kind: Agent, Args: []string{"jp", "as-noop"}})
}
