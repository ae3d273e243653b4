package main

import (
	"bytes"
	"io"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"jp/convstore"
)

// TestStreamInPipe: with --stream a pipe gets each piece of an answer when it comes, and a
// run whose reader has gone ends; without it nothing comes before the end.
func TestStreamInPipe(t *testing.T) {
	s := newSite(t, map[string]string{
		".jp/config.toml": "[assistant]\nmodel = \"script/model.toml\"\n",
		"model.toml": "[[rule]]\nquery = \"stops\"\nchunk = 5\nchunk_delay = \"1h\"\ntext = \"first second\"\n" +
			"[[rule]]\nchunk = 5\nchunk_delay = \"10ms\"\ntext = \"" + strings.Repeat("again ", 10_000) + "\"\n",
	})
	start := func(args ...string) (cmd *exec.Cmd, out io.ReadCloser, said *bytes.Buffer) {
		said = new(bytes.Buffer)
		cmd = &exec.Cmd{Path: "/proc/self/exe", Args: append([]string{"jp", "query", "--new"}, args...), Dir: s.dir, Env: s.environ(), Stderr: said}
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		return cmd, out, said
	}
	piece := make([]byte, 5)

	cmd, out, said := start("--stream", "stops")
	if _, err := io.ReadFull(out, piece); err != nil || string(piece) != "first" {
		t.Fatalf("%q, %v\n%s", piece, err, said)
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(out)
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); err != nil || code != 130 || string(rest) != "\n" {
		t.Errorf("status %d, rest %q, %v\n%s", code, rest, err, said)
	}

	cmd, out, said = start("--stream", "long")
	if _, err := io.ReadFull(out, piece); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	if err := out.Close(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	if code := cmd.ProcessState.ExitCode(); code != 141 {
		t.Errorf("the reader has gone: status %d\n%s", code, said)
	}
	for _, c := range s.all() {
		if c.Status != convstore.Status(convstore.StateCancelled) {
			t.Errorf("%s: %s, want it cancelled", c.ID, c.Status)
		}
	}
}
