package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"jp/convstore"
)

// fillMain is the program jp-fill FOLDER WORKSPACE FORKS: it makes a store of 1000 roots with FORKS
// forks each, half of them hidden, and 100 events in each one, and prints the id of a root. It is a
// process of its own because a process that has used much memory makes those that it starts look as
// if they had.
func fillMain() {
	forks, err := strconv.Atoi(os.Args[3])
	var one convstore.ID
	if err == nil {
		one, err = fill(os.Args[1], os.Args[2], 1000, forks)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println(one)
}

func fill(dir, workspace string, roots, forks int) (one convstore.ID, err error) {
	const turns = 20
	ctx := context.Background()
	st, err := convstore.Open(dir, convstore.Options{Workspace: workspace})
	if err != nil {
		return one, err
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	words := func(n int) string {
		var text strings.Builder
		for range n {
			fmt.Fprintf(&text, "%x ", rnd.IntN(1<<16))
		}
		return text.String()
	}
	ids := make([]convstore.ID, roots)
	copies := make([]convstore.Fork, roots)
	for i := range ids {
		c, err := st.Create(ctx, convstore.New{
			Title: words(4), Model: "anthropic/bench", Labels: map[string]string{"team": words(1)},
			Config: convstore.Config{JSON: []byte(`{"assistant":{"model":"anthropic/bench"}}`)},
		})
		if err != nil {
			return one, err
		}
		var events []convstore.Event
		for turn := range turns {
			call := fmt.Sprint("call", turn)
			for _, body := range []convstore.Body{
				convstore.TurnStart{}, convstore.UserMessage{Text: words(8)},
				convstore.ToolCall{ID: call, Name: "fs_read_file", Source: "builtin", Arguments: []byte(`{"path":"x"}`)},
				convstore.ToolResult{ID: call, Text: words(40)}, convstore.TurnEnd{State: convstore.StateOK},
			} {
				events = append(events, convstore.Event{Body: body})
			}
		}
		log, err := st.Lock(ctx, c.ID)
		if err != nil {
			return one, err
		}
		if err := errors.Join(log.Append(ctx, events...), log.Close()); err != nil {
			return one, err
		}
		ids[i] = c.ID
	}
	for n := range forks {
		for i := range copies {
			copies[i] = convstore.Fork{Title: fmt.Sprintf("fork %d of %s", n, words(2)), Hidden: n%2 == 0}
		}
		if _, err := st.ForkAll(ctx, ids, copies); err != nil {
			return one, err
		}
	}
	return ids[roots/2], nil
}

// BenchmarkScale times whole processes on a store of 100,000 conversations and 10 million events,
// and the start of a query there beside one in an empty store. To fill it takes a while, and
// several GB in $TMPDIR; $JP_BENCH_FORKS (99) makes less.
func BenchmarkScale(b *testing.B) {
	s := newShop(b, "0s")
	empty := *s
	s.dir = filepath.Join(filepath.Dir(s.dir), "large")
	if err := os.CopyFS(s.dir, os.DirFS(empty.dir)); err != nil {
		b.Fatal(err)
	}
	s.run(s.jp, "trust", "--yes")
	store := filepath.Join(filepath.Dir(s.dir), "store")
	s.env = append(s.env, "JP_STORE="+store, "JP_TRUST_WORKSPACE=1")
	filler := &exec.Cmd{Path: "/proc/self/exe", Args: []string{"jp-fill", store, s.dir, cmp.Or(os.Getenv("JP_BENCH_FORKS"), "99")}, Stderr: os.Stderr}
	out, err := filler.Output()
	if err != nil {
		b.Fatal(err)
	}
	one := strings.TrimSpace(string(out))
	if info, err := os.Stat(filepath.Join(store, "store.db")); err == nil {
		b.Logf("store: %d MiB", info.Size()>>20)
	}
	for _, test := range []struct {
		name string
		args []string
	}{
		{"ls", []string{"c", "ls", "--limit", "50"}},
		{"ls-activity", []string{"c", "ls", "--limit", "50", "--sort", "activity", "--descending"}},
		{"ls-hidden-title", []string{"c", "ls", "--limit", "50", "--sort", "title", "--hidden"}},
		{"ls-label", []string{"c", "ls", "--limit", "50", "--label", "team=none"}},
		{"show", []string{"c", "show", one}},
		{"print-last", []string{"c", "print", one, "--last"}},
		{"query", []string{"query", "--new", "plain"}},
	} {
		b.Run(test.name, func(b *testing.B) {
			at := *s
			at.b = b
			at.measure(test.args...)
		})
	}
	b.Run("query-empty-store", func(b *testing.B) {
		at := empty
		at.b = b
		at.measure("query", "--new", "plain")
	})
}
