package tools

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"jp/tools/proc"
)

// A command that runs jp counts as delegation, however the key comes and goes.
func TestAccessJP(t *testing.T) {
	const file = "source = \"local\"\ndescription = \"d\"\ncommand = \"wc\"\n"
	def, err := Decode("a", table(t, file+`access.jp = ["query", "ls", "query"]`+"\naccess.fs = [{ path = \"src\" }]"), nil)
	if err != nil {
		t.Fatal(err)
	}
	verbs := []Verb{VerbLs, VerbQuery}
	if def.Source != SourceDelegation || def.Declared() != SourceLocal || !def.Local() || !reflect.DeepEqual(def.Access.JP, verbs) {
		t.Errorf("Decode = source %q, declared %q, local %v, %v", def.Source, def.Declared(), def.Local(), def.Access.JP)
	}
	if def.Timeout != DefaultTimeout {
		t.Errorf("its timeout is %v, want that of a local tool", def.Timeout)
	}
	plain, err := Decode("a", table(t, file), nil)
	if err != nil {
		t.Fatal(err)
	}
	if plain.Source != SourceLocal || plain.Authority() == def.Authority() {
		t.Errorf("without the key: source %q, same authority %v", plain.Source, plain.Authority() == def.Authority())
	}
	for _, tt := range []struct {
		base   Definition
		table  string
		source string
		jp     []Verb
		fs     int
	}{
		{def, `source = "local"`, SourceDelegation, verbs, 1},
		{def, `access.fs = []`, SourceDelegation, verbs, 0},
		{def, `access.jp = []`, SourceLocal, nil, 1},
		{def, `access.jp = ["grep"]`, SourceDelegation, []Verb{VerbGrep}, 1},
		{plain, `access.jp = ["grep"]`, SourceDelegation, []Verb{VerbGrep}, 0},
	} {
		got, err := Overlay(tt.base, table(t, tt.table), nil)
		if err != nil || got.Source != tt.source || !reflect.DeepEqual(got.Access.JP, tt.jp) || len(got.Access.FS) != tt.fs {
			t.Errorf("Overlay(%s) = %q, %v, %v, %v", tt.table, got.Source, got.Access, got.Access.FS, err)
		}
	}
	if _, err := Overlay(def, table(t, `source = "delegation"`), nil); err == nil {
		t.Error("a command became a tool of jp's own")
	}
	own, _ := Embedded("fs_read_file")
	if _, err := Overlay(own, table(t, `access.jp = ["ls"]`), nil); err == nil || err.Error() != `tool fs_read_file: access.jp: only a tool with source = "local" has one` {
		t.Errorf("of a built-in tool: %v", err)
	}
	if _, err := plain.WithDefaults(table(t, `access.jp = ["query"]`), nil); err == nil || err.Error() != "tool '*': access.jp: is not for all tools at once" {
		t.Errorf("WithDefaults = %v", err)
	}
	if got, err := def.WithDefaults(table(t, `access.fs = []`), nil); err != nil || len(got.Access.FS) != 1 || len(got.Access.JP) != 2 {
		t.Errorf("WithDefaults = %v, %v", got.Access, err)
	}
	jpOnly, err := Decode("a", table(t, file+`access.jp = ["ls"]`), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := jpOnly.WithDefaults(table(t, `access.fs = [{ path = "x" }]`), nil); err != nil || len(got.Access.FS) != 1 || len(got.Access.JP) != 1 {
		t.Errorf("WithDefaults = %v, %v", got.Access, err)
	}
}

// A call gets its line: the socket, and a jp that is found first and can be run although it lies
// outside of all that is open. The line is closed when the tool has ended. Without a line, and
// without the key, there is none.
func TestCommandLine(t *testing.T) {
	c := newCommands(t, nil)
	hidden := t.TempDir() // open to no tool
	jp := filepath.Join(hidden, "the-program")
	if err := os.WriteFile(jp, []byte("#!/bin/sh\necho \"jp $* over $JP_CALL_FD\"; echo asked >&3\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	links := t.TempDir()
	if err := os.Symlink(jp, filepath.Join(links, "jp")); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"jp", "wc"} { // neither runs
		if err := os.WriteFile(filepath.Join(c.dir, name), []byte("#!/bin/sh\necho shadow\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	src := "source = \"local\"\ndescription = \"d\"\ncommand = { program = \"sh\", args = [\"-c\", \"jp ls; cat " + hidden + "/other || echo closed\"] }\n"
	if err := os.WriteFile(filepath.Join(hidden, "other"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	def, err := Decode("a", table(t, src+`access.jp = ["ls"]`), nil)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs, err := proc.Pair()
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	closed := 0
	env := CommandEnv{Host: c.host, Dir: c.dir, Environ: []string{"PATH=" + os.Getenv("PATH")}, Main: true, Program: jp}
	env.JP = func(_ context.Context, def Definition, call Call) (*Line, error) {
		if def.Name != "a" || call.ID != "1" {
			return nil, fmt.Errorf("asked for %s %s", def.Name, call.ID)
		}
		return &Line{Socket: theirs, Dir: links, Close: func() { closed++; theirs.Close() }}, nil
	}
	run := func(def Definition, env CommandEnv) Result {
		tool, err := Command(def, env)
		if err != nil {
			t.Fatal(err)
		}
		tool.Run = RunUnattended
		return runAll(t, Executor{Set: setOf(t, tool)}, t.Context(), Call{ID: "1", Name: "a", Arguments: []byte("{}")})["1"]
	}
	want := "jp ls over 3\nclosed\n"
	if !proc.Enforceable().Files() {
		want = "jp ls over 3\nsecret"
	}
	if got := run(def, env); got != text(want) || closed != 1 {
		t.Errorf("with a line = %q, closed %d times; want %q", got.Text, closed, want)
	}
	if said, err := bufio.NewReader(ours).ReadString('\n'); said != "asked\n" || err != nil {
		t.Errorf("over the line: %q, %v", said, err)
	}
	env.JP = nil
	if got := run(def, env); got != refusal("access.jp: there is no conversation that jp could run for") {
		t.Errorf("without a line = %q", got.Text)
	}
}
