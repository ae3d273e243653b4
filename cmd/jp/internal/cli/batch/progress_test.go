package batch

import (
	"testing"
	"time"

	"jp/cmd/jp/internal/delegate"
	"jp/cmd/jp/internal/rule"
	"jp/cmd/jp/internal/stream"
)

func TestProgress(t *testing.T) {
	cost := stream.USD(300000)
	var p progress
	for _, tt := range []struct {
		add  delegate.Row
		all  int
		want string
	}{
		{delegate.Row{Status: "ok", CostUSD: new(stream.USD)}, 50, "1/50 · 49s left"},
		{delegate.Row{Status: "error", CostUSD: &cost}, 50, "2/50 · 1 failed · $0.0003 · 24s left"},
		{delegate.Row{Status: "ok", CostUSD: &cost}, -1, "3 done · 1 failed · $0.0006"},
		{delegate.Row{Status: "ok"}, 4, "4/4 · 1 failed · at least $0.0006"},
		{delegate.Row{Status: "queued", Code: rule.CodeProvider}, 5, "4/5 · 1 failed · 1 queued · at least $0.0006"},
		{delegate.Row{Status: "cancelled"}, 6, "4/6 · 1 failed · 1 queued · 1 cancelled · at least $0.0006"},
	} {
		p.add(tt.add)
		if got := p.line(time.Second, tt.all, " · "); got != tt.want {
			t.Errorf("after %+v: %q, want %q", tt.add, got, tt.want)
		}
	}
	// While no line ends the time that is left gets less, and nobody knows it in the end.
	p = progress{done: 2}
	for took, want := range []string{2: "2/4 · 2.0s left", 3: "2/4 · 1.0s left", 4: "2/4", 9: "2/4"} {
		if want == "" {
			continue
		}
		if got := p.line(time.Duration(took)*time.Second, 4, " · "); got != want {
			t.Errorf("after %d s: %q, want %q", took, got, want)
		}
	}
}
