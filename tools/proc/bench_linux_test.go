package proc

import (
	"context"
	"os/exec"
	"testing"
	"time"
)

var benchEnv = []string{"PATH=/usr/bin:/bin"}

func plain(b *testing.B) time.Duration {
	start := time.Now()
	for range 50 {
		if err := exec.Command("/bin/true").Run(); err != nil {
			b.Fatal(err)
		}
	}
	return time.Since(start) / 50
}

func benchTool(b *testing.B, o Options, pause time.Duration) {
	h := NewHost(o)
	defer func() {
		if err := h.Close(); err != nil {
			b.Error(err)
		}
	}()
	h.Warm()
	time.Sleep(pause)
	base := plain(b)
	var sum time.Duration
	for b.Loop() {
		time.Sleep(pause)
		start := time.Now()
		if e, err := h.Run(context.Background(), Spec{Path: "/bin/true", Env: benchEnv}); err != nil || e.Code != 0 {
			b.Fatal(e, err)
		}
		sum += time.Since(start)
	}
	b.ReportMetric(float64(sum.Nanoseconds())/float64(b.N), "ns/run")
	b.ReportMetric(float64(sum)/float64(b.N)/float64(base), "x-exec")
}

func BenchmarkTool(b *testing.B)     { benchTool(b, Options{}, 0) }
func BenchmarkToolWarm(b *testing.B) { benchTool(b, Options{Warm: 1}, 10*time.Millisecond) }
