package main

import (
	"io"
	"os/exec"
	"testing"

	"jp/cmd/jp/internal/stream"
	"jp/convstore"
)

// TestKillWhileACallWaits: a process that is killed while it waits, since a provider has refused
// its request, is charged nothing.
func TestKillWhileACallWaits(t *testing.T) {
	s := newSite(t, map[string]string{
		".jp/config.toml": "[assistant]\nmodel = \"script/m.toml\"\n",
		"m.toml":          "[[rule]]\nerror = { kind = \"rate_limit\", status = 429, retry_after = \"60s\", message = \"slow\" }\n",
	})
	cmd := &exec.Cmd{Path: "/proc/self/exe", Args: []string{"jp", "query", "--new", "-F", "stream-json", "--max-tokens", "50000", "go"}, Dir: s.dir, Env: s.environ()}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	waited := false
	split := &stream.Splitter{Each: func(l stream.Line) {
		if w, ok := l.(*stream.Wait); ok && w.Reason != "" && !waited {
			waited = true
			_ = cmd.Process.Kill()
		}
	}}
	if _, err := io.Copy(split, out); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if !waited {
		t.Fatal("the run has not waited")
	}
	for _, c := range s.conversations() {
		if a, err := s.store.Account(t.Context(), c.ID); err != nil || a.Call != (convstore.Spend{}) || a.Own.Tokens() != 0 {
			t.Errorf("charged %+v, and %+v stand for a call; %v; want nothing", a.Own, a.Call, err)
		}
	}
	if n := s.stopped("lost"); n != 0 {
		t.Errorf("%d calls are lost, want none", n)
	}
}
