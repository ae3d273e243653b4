package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	mcptest "jp/cmd/jp/internal/test/mcp"
	"jp/cmd/jp/internal/test/wire"
	"jp/convstore"
	"jp/tools/proc"
)

var update = flag.Bool("update", false, "write what commands said into the scripts' golden files")

func TestMain(m *testing.M) {
	proc.Guard(os.Args)
	programs := map[string]func(){
		"jp":         jp,
		"wire":       wire.Main,
		"mcp-server": mcptest.Main,
		"blind":      blind,
		"jp-crash":   crash,
		"jp-fallen":  fallen,
		"jp-fill":    fillMain,
		"jp-count":   countMain,
	}
	if programs[filepath.Base(os.Args[0])] == nil {
		// Below nohup every process inherits that SIGHUP is ignored. What is caught here has its
		// default again in the programs that the tests start.
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	testscript.Main(m, programs)
}

// TestScript runs testdata/script: the real program, as a process of its own.
// testdata/script/README.md lists what scripts can use.
func TestScript(t *testing.T) {
	const dir = "../../testdata/script"
	if found, err := filepath.Glob(filepath.Join(dir, "*.txtar")); err != nil || len(found) == 0 {
		t.Fatalf("no scripts in %s: %v", dir, err)
	}
	testscript.Run(t, testscript.Params{
		Dir: dir, Setup: setup, UpdateScripts: *update, RequireExplicitExec: true, RequireUniqueNames: true,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"status":   status,
			"seed":     seed,
			"hold":     hold,
			"like":     like,
			"capture":  capture,
			"page":     page,
			"commands": commands,
		},
	})
}

// setup gives every script a home, a store and a session of its own, and no key. Nobody is there to
// answer questions, even when the tests run in a terminal.
func setup(e *testscript.Env) error {
	// Beside the work folder, not in it: a store inside of a workspace is refused.
	scripts, err := filepath.Abs("../../scripts")
	if err != nil {
		return err
	}
	docs, err := filepath.Abs("../../docs")
	if err != nil {
		return err
	}
	home := filepath.Join(filepath.Dir(e.WorkDir), "home-"+filepath.Base(e.WorkDir))
	for k, v := range map[string]string{
		"HOME": home, "XDG_CONFIG_HOME": filepath.Join(home, "config"), "XDG_STATE_HOME": filepath.Join(home, "state"),
		"XDG_DATA_HOME": filepath.Join(home, "data"), "XDG_CACHE_HOME": filepath.Join(home, "cache"),
		"LC_ALL": "C.UTF-8", "TZ": "UTC", "JP_SESSION": "script", "JP_NONINTERACTIVE": "1",
		"JP_TRUST_WORKSPACE": "1",           // scripts bring their workspaces along; those about trust unset it
		"OLLAMA_HOST":        "127.0.0.1:1", // nothing listens there
		"LLAMACPP_BASE_URL":  "http://127.0.0.1:1/v1/",
		"SCRIPTS":            scripts, // the shell tools that people can copy
		"DOCS":               docs,    // whose examples are run
	} {
		e.Setenv(k, v)
	}
	if dir := os.Getenv("GOCOVERDIR"); dir != "" {
		e.Setenv("GOCOVERDIR", dir)
	}
	return os.MkdirAll(home, 0o700)
}

// status N COMMAND...: runs a command that must end with exactly that status.
func status(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N COMMAND...")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	got := 0
	if err := ts.Exec(args[1], args[2:]...); err != nil {
		var exit *exec.ExitError
		if !errors.As(err, &exit) {
			ts.Fatalf("%v", err)
		}
		got = exit.ExitCode()
	}
	if got != want {
		ts.Fatalf("%s: exit status %d, want %d", strings.Join(args[1:], " "), got, want)
	}
}

func scriptStore(ts *testscript.TestScript) *convstore.Store {
	workspace := ts.MkAbs(".")
	dir, err := convstore.Locate(convstore.Env{Get: ts.Getenv}, workspace)
	ts.Check(err)
	st, err := convstore.Open(dir, convstore.Options{Workspace: workspace})
	ts.Check(err)
	return st
}

func scriptID(ts *testscript.TestScript, s string) convstore.ID {
	id, err := convstore.ParseID(s)
	ts.Check(err)
	return id
}

// hold ID: keeps the run lock of a conversation until the script ends, as a run in another process
// would.
func hold(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: hold ID")
	}
	log, err := scriptStore(ts).Lock(context.Background(), scriptID(ts, args[0]))
	ts.Check(err)
	ts.Defer(func() { _ = log.Close() })
}

// seed NAME [KEY[=VALUE]...]: makes a conversation in the store of the workspace $WORK is in and
// sets the variable NAME to its id. Keys: title, profile, model, label=K:V, hidden, expired (an
// hour ago); parent=ID (by fork) or caller=ID (by delegation); then, in order, turn=Q|A (\n is a
// newline), tool=NAME|ARGUMENTS|RESULT (in the turn before it), open (a turn without an end),
// limited (the same, of at most 9000 tokens).
func seed(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) == 0 {
		ts.Fatalf("usage: seed NAME [KEY[=VALUE]...]")
	}
	ctx := context.Background()
	st := scriptStore(ts)
	n := convstore.New{Model: "script/test.toml", Config: convstore.Config{JSON: []byte("{}")}, Labels: map[string]string{}}
	var parent, caller convstore.ID
	var events []convstore.Event
	add := func(bs ...convstore.Body) {
		for _, b := range bs {
			events = append(events, convstore.Event{Body: b})
		}
	}
	cost := int64(0)
	for _, arg := range args[1:] {
		key, value, _ := strings.Cut(arg, "=")
		value = strings.ReplaceAll(value, `\n`, "\n")
		parts := append(strings.Split(value, "|"), "", "")
		switch key {
		case "title":
			n.Title = value
		case "profile":
			n.Profile = value
		case "model":
			n.Model = value
		case "hidden":
			n.Hidden = true
		case "expired":
			n.ExpiresAt = time.Now().Add(-time.Hour)
		case "label":
			k, v, _ := strings.Cut(value, ":")
			n.Labels[k] = v
		case "parent":
			parent = scriptID(ts, value)
		case "caller":
			caller = scriptID(ts, value)
		case "cost": // of each turn that follows, in billionths of a dollar
			n, err := strconv.ParseInt(value, 10, 64)
			ts.Check(err)
			cost = n
		case "turn":
			cost := cost
			add(convstore.TurnStart{}, convstore.UserMessage{Text: parts[0]},
				convstore.ModelCall{Model: n.Model, Usage: convstore.Usage{Input: 10, Output: 5}, CostNano: &cost},
				convstore.AssistantMessage{Text: parts[1]}, convstore.TurnEnd{State: convstore.StateOK})
		case "tool":
			answer := slices.Clone(events[len(events)-2:]) // and the end of the turn
			events = events[:len(events)-2]
			call := fmt.Sprintf("call-%d", len(events))
			add(convstore.ToolCall{ID: call, Name: parts[0], Source: "builtin", Arguments: []byte(parts[1])},
				convstore.ToolResult{ID: call, Text: parts[2], IsError: strings.HasPrefix(parts[2], "error")})
			events = append(events, answer...)
		case "open":
			add(convstore.TurnStart{}, convstore.UserMessage{Text: value})
		case "limited":
			most := convstore.Budget{Tokens: new(int64(9000))}
			add(convstore.TurnStart{Limits: &convstore.Limits{Run: most}}, convstore.UserMessage{Text: value})
		default:
			ts.Fatalf("seed: unknown key %q", key)
		}
	}
	var id convstore.ID
	switch {
	case parent != 0:
		c, err := st.Fork(ctx, parent, convstore.Fork{Turns: convstore.LastTurns(0), Title: n.Title, Hidden: n.Hidden, ExpiresAt: n.ExpiresAt})
		ts.Check(err)
		id = c.ID
	case caller != 0:
		scope, err := st.Below(ctx, caller)
		ts.Check(err)
		rs, err := scope.Reserve(ctx, func(convstore.Standing) ([]convstore.Child, error) {
			return []convstore.Child{{
				Call: convstore.NewEventID(), Kind: "sub_complete", Title: n.Title, Hidden: n.Hidden, Profile: n.Profile, Model: n.Model,
				Role: "subagent", Config: n.Config, Grant: convstore.Grant{Tools: []string{"fs_read_file"}},
			}}, nil
		})
		ts.Check(err)
		id = rs[0].Child.ID
		log, err := scope.Log(ctx, rs[0])
		ts.Check(err)
		ts.Check(log.Append(ctx, events...))
		ts.Check(log.Close())
		events = nil
		_, err = scope.Settle(ctx, rs[0], convstore.Outcome{State: convstore.StateOK})
		ts.Check(err)
		ts.Check(st.Edit(ctx, id, func(c *convstore.Conversation) error {
			c.ExpiresAt = n.ExpiresAt
			return nil
		}))
	default:
		c, err := st.Create(ctx, n)
		ts.Check(err)
		id = c.ID
	}
	if len(events) > 0 {
		log, err := st.Lock(ctx, id)
		ts.Check(err)
		ts.Check(log.Append(ctx, events...))
		ts.Check(log.Close())
	}
	ts.Setenv(args[0], id.String())
}

// like FILE: compares stdout with a file in which $NAME is a variable, TIME any date and time,
// EVENT any id of an event.
func like(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 1 {
		ts.Fatalf("usage: like FILE")
	}
	want := regexp.MustCompile(`\$[A-Z][A-Z0-9_]*`).ReplaceAllStringFunc(ts.ReadFile(args[0]), func(v string) string {
		return ts.Getenv(v[1:])
	})
	got := regexp.MustCompile(`\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?Z?`).ReplaceAllString(ts.ReadFile("stdout"), "TIME")
	got = regexp.MustCompile(`\b[0-9a-z]{26}\b`).ReplaceAllString(got, "EVENT")
	if got != want {
		ts.Fatalf("stdout:\n%s\nwant:\n%s", got, want)
	}
}
