package console

import (
	"bytes"
	"log"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"jp/cmd/jp/internal/stream"
	"jp/cmd/jp/internal/term"
)

// TestLibraries: what a library prints goes to the log, up to a number of lines, and to nobody once
// the command is over. Whoever reads the log on a terminal sees each character.
func TestLibraries(t *testing.T) {
	var stderr bytes.Buffer
	old, flags := log.Writer(), log.Flags()
	defer func() { log.SetOutput(old); log.SetFlags(flags) }()
	c := New(Env{Environ: []string{"JP_LOG_FILE=-"}, Stderr: &stderr})
	c.Libraries()
	log.Printf("Unsolicited response %q \u009b31m\u202e\u200b", "HTTP/1.1 \x1b[31m")
	if got := stderr.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, `"level":"WARN","msg":"Unsolicited response \"HTTP/1.1 \\x1b[31m\" \u009b31m\u202e\u200b"`) {
		t.Errorf("log = %s", got)
	}
	for range 10_000 {
		log.Print("unhandled response frame")
	}
	if got := stderr.String(); strings.Count(got, "\n") != libraryMax || !strings.Contains(got, "libraries report more") {
		t.Errorf("%d lines in the log, want %d", strings.Count(got, "\n"), libraryMax)
	}
	c = New(Env{Environ: []string{"JP_LOG_FILE=-"}, Stderr: &stderr})
	c.Libraries()
	_ = c.Log.Close()
	stderr.Reset()
	log.Print("after")
	if got := stderr.String(); got != "" {
		t.Errorf("after the end = %s", got)
	}
}

// TestLogSize: a process that logs without end keeps at most two files of a size.
func TestLogSize(t *testing.T) {
	dir := t.TempDir()
	c := New(Env{Environ: []string{"JP_LOG_FILE=" + filepath.Join(dir, "log")}})
	c.Logger()
	defer c.Log.Close()
	line := append(bytes.Repeat([]byte("x"), 1<<20), '\n')
	for range 5 * logMax >> 20 {
		if _, err := c.Log.Write(line); err != nil {
			t.Fatal(err)
		}
	}
	list, err := os.ReadDir(dir)
	if err != nil || len(list) != 2 {
		t.Fatalf("%d files, %v; want 2", len(list), err)
	}
	for _, e := range list {
		if info, err := e.Info(); err != nil || info.Size() > logMax+2<<20 {
			t.Errorf("%s has %d bytes, %v", e.Name(), info.Size(), err)
		}
	}
}

// TestLogAboveTree: a log on stderr keeps a tree that is drawn there whole, also one that is drawn
// after the log began.
func TestLogAboveTree(t *testing.T) {
	var screen bytes.Buffer
	now := time.Unix(1000, 0)
	c := New(Env{Environ: []string{"JP_LOG_FILE=-"}})
	c.Logger()
	c.IO = &term.IO{Err: &screen, ErrTTY: true, UTF8: true, Width: 60}
	c.Tree = term.NewTree(c.IO, term.TreeOptions{Now: func() time.Time { return now }, Tick: make(chan time.Time)})
	c.Tree.Update(&stream.Delegation{Phase: stream.Started, ConversationID: "jp-c2", ParentID: "jp-c1", CallID: "a", Profile: "agent/scout"})
	const tree = "└─ ● agent/scout  running  0.0s\x1b[K\n"
	if got := screen.String(); got != tree {
		t.Fatalf("tree = %q, want %q", got, tree)
	}
	screen.Reset()
	if _, err := c.Log.Write([]byte("{}\n")); err != nil {
		t.Fatal(err)
	}
	if got, want := screen.String(), "\x1b[1A\r\x1b[2K\n\x1b[2K\x1b[1A{}\n"+tree; got != want {
		t.Errorf("screen = %q, want %q", got, want)
	}
	c.Tree.Close()
}
