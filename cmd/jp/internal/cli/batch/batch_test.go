package batch

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"jp/cmd/jp/internal/command"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/delegate"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/rule"
	"jp/cmd/jp/internal/run"
	"jp/convstore"
)

// readAll returns all queries of a text.
func readAll(text string, o options) (items []delegate.Item, err error) {
	in := newScanner(iotest.OneByteReader(strings.NewReader(text)), &o)
	for {
		it, err := in.next()
		if err == io.EOF {
			return items, nil
		}
		if err != nil {
			return nil, err
		}
		items = append(items, it)
	}
}

// TestLinesEnd: what reads a pipe ahead ends with the command, which a run outlives where a tool
// has given it.
func TestLinesEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // fails if a goroutine is left
		ctx, cancel := context.WithCancel(t.Context())
		con := console.New(console.Env{Stdin: strings.NewReader("\"a\"\n\"b\"\n\"c\"\n"), Stdout: io.Discard, Stderr: io.Discard})
		in, _, err := openLines(ctx, con, &options{profile: command.Given("agent/x")}, false)
		if err != nil {
			t.Fatal(err)
		}
		if it, err := in.next(ctx); err != nil || it.Query != "a" {
			t.Errorf("next = %q, %v", it.Query, err)
		}
		cancel()
		if _, err := in.next(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("next = %v after the end", err)
		}
	})
}

// FuzzRead: a scanner returns an error that names a line, or items that hold no more than a line
// may hold. Items that are written as lines and read again are the same.
func FuzzRead(f *testing.F) {
	f.Add("\"a\"\n\n{\"query\":\"b\",\"config\":\"agent/x\",\"context_query\":\"c\"}\r\n", "p", false)
	f.Add(`{"query":"b","id":"jp-c17000000001","config":null}`, "./p.toml", true)
	f.Add(`{"query":"b","Query":"c"}`, "p", true)
	f.Add(`{"query":"b","id":"new"}`, "", false)
	f.Add("{\"query\":\"b\",\"config\":\"../x.toml\"}\n[1]\n\"a\\u0000\"\n\"a\" \"b\"", "p", true)
	f.Add("\"\xff\"\n\"\\ud800\"", "p", true)
	f.Add(`{"query":"q","label":"l","schema":{"type":"object"},"model":"m","reasoning":"low","max_tokens":1,"timeout":"1m"}`, "p", false)
	f.Add(`{"query":"q","attach":["a.txt",{"file":"b","lines":"2-"},{"file":"b","bytes":"0-9"},"https://h/x"]}`, "p", false)
	f.Add("\uFEFF\"a\"\r\n\uFEFF\"b\"", "p", true)
	f.Fuzz(func(t *testing.T, text, profile string, below bool) {
		var o options
		profile = strings.ToValidUTF8(profile, "") // a line can say any other
		o.profile.Value, o.profile.Set = profile, profile != ""
		o.rootID.Value, o.rootID.Set = "jp-c1", below
		items, err := readAll(text, o)
		var e *exit.Error
		if err != nil {
			if !errors.As(err, &e) || e.Status != exit.Usage || !strings.HasPrefix(e.Msg, "batch: line ") {
				t.Fatalf("readAll(%q) = %#v", text, err)
			}
			return
		}
		var lines strings.Builder
		marks := map[string]bool{}
		enc := json.NewEncoder(&lines)
		for _, it := range items {
			l := query{Query: it.Query, Config: it.Config, ID: it.ID, Context: it.Context, Label: it.Label, Schema: it.Schema, MaxTokens: it.MaxTokens, Timeout: it.Timeout, Attach: it.Attach, Reuse: &it.Reuse}
			for _, o := range it.Overrides {
				if model, ok := strings.CutPrefix(o, rule.OverrideModel); ok {
					l.Model = model
				} else {
					l.Reasoning = strings.TrimPrefix(o, rule.OverrideReasoning)
				}
			}
			want, err := l.item()
			equal := 0
			for marks[markOf(it, equal)] {
				equal++
			}
			marks[markOf(it, equal)] = true
			if want.Config, want.Mark = it.Config, markOf(it, equal); err != nil || !reflect.DeepEqual(it, want) {
				t.Fatalf("readAll(%q): an item holds more than a line can: %+v", text, it)
			}
			if strings.TrimSpace(it.Query) == "" || strings.ContainsRune(it.Query+it.Context, 0) || it.Config != profile && !profileName(it.Config) {
				t.Fatalf("readAll(%q): %+v", text, it)
			}
			if _, err := convstore.ParseID(it.ID); it.ID != "" && (err != nil || !below) {
				t.Fatalf("readAll(%q): %+v", text, it)
			}
			if err := enc.Encode(l); err != nil {
				t.Fatal(err)
			}
		}
		again, err := readAll(lines.String(), o)
		if err != nil || !reflect.DeepEqual(again, items) {
			t.Fatalf("readAll(%q) = %+v\nreadAll(%q) = %+v, %v", text, items, lines.String(), again, err)
		}
	})
}

// TestShards: the shards have each line once, in order, and together the limits of the whole batch.
// A limit of a token for each line gives each line of a shard a token.
func TestShards(t *testing.T) {
	for lines := 1; lines <= 12; lines++ {
		for n := 1; n <= 15; n++ {
			for _, limit := range []int64{int64(lines), 1000, math.MaxInt64} {
				var got []string
				var tokens int64
				for i := 1; i <= n; i++ {
					all := limit
					o := options{}
					o.shard.Set, o.shard.Value = true, fmt.Sprintf("%d/%d", i, n)
					o.tokens.Set, o.tokens.Value = true, &all
					from, to, err := o.part(lines)
					if err != nil {
						t.Fatal(err)
					}
					for k := from; k < to; k++ {
						got = append(got, strconv.Itoa(k))
					}
					part := got[len(got)-(to-from):]
					if *o.tokens.Value < int64(len(part)) || all != limit {
						t.Errorf("%d lines, shard %d/%d: %d of %d tokens", lines, i, n, *o.tokens.Value, limit)
					}
					tokens += *o.tokens.Value
				}
				want := make([]string, lines)
				for k := range want {
					want[k] = strconv.Itoa(k)
				}
				if !slices.Equal(got, want) || tokens != limit {
					t.Errorf("%d lines in %d shards: %q, %d of %d tokens", lines, n, got, tokens, limit)
				}
			}
		}
	}
}

// TestResumePipe: rows are repeated while further lines of a pipe are planned. What was asked is not
// kept, and nothing is of a line whose row is written.
func TestResumePipe(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "rows"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if _, err := file.WriteString("{}"); err != nil {
		t.Fatal(err)
	}
	const lines = 2000
	row := earlierRow{size: 2, reused: true} // any line can have it
	e := newEarlier()
	e.file, e.rows[0], e.marks[0] = file, row, []string{"m"}
	out := bufio.NewWriter(io.Discard)
	b := &batch{env: &run.Env{}, earlier: e, out: out, rows: console.List{W: out, Format: console.FormatStream}}
	b.env.Con = console.New(console.Env{Stdout: io.Discard})
	repeated := make(chan error, lines)
	go func() {
		for range lines {
			repeated <- b.repeat(delegate.Item{Number: 1})
		}
	}()
	for n := 2; n < lines; n++ {
		limit := int64(n)
		asked := delegate.Item{Number: n, Mark: "m", Query: "asked", Context: "asked", Schema: json.RawMessage(`"asked"`), MaxTokens: &limit}
		it, err := b.plan(t.Context(), asked)
		if err != nil || !it.Done {
			t.Fatalf("plan of line %d = %v, %v, want an answer", n, it.Done, err)
		}
		if again, err := b.plan(t.Context(), asked); err != nil || !reflect.DeepEqual(again, it) {
			t.Fatalf("plan of line %d = %+v, %v, and before %+v", n, again, err, it)
		}
	}
	for range lines {
		if err := <-repeated; err != nil {
			t.Fatal(err)
		}
	}
	if e.done != lines-2 || strings.Contains(fmt.Sprintf("%+v", e.planned), "asked") {
		t.Errorf("%d lines have an answer, want %d; kept: %+v", e.done, lines-2, e.planned)
	}
	for n := 2; n < lines; n++ {
		if err := b.row(delegate.Item{Number: n, Done: true}, delegate.Row{}); err != nil {
			t.Fatal(err)
		}
	}
	if len(e.planned) > 0 {
		t.Errorf("%d lines are kept whose rows are written", len(e.planned))
	}
}

// TestCollectSpent: earlier runs have spent what those have used that have ended, a person's in one of
// their conversations too, and what those may use yet that have not, or that outlive one of them.
func TestCollectSpent(t *testing.T) {
	n := uint64(0)
	del := func(call string, caller convstore.ID, within uint64, state convstore.State, granted, used int64) convstore.Delegation {
		d := convstore.Delegation{Call: call, Caller: caller, Child: convstore.ID(100 + n), Within: within, State: state, Number: n + 1}
		if state != "" {
			d.Ended = time.Unix(1, 0)
		}
		n++
		d.Grant.Budget = convstore.Budget{Tokens: &granted, CostNano: new(granted)}
		d.Total.Input, d.Total.CostNano = used, used
		return d
	}
	const root = 1
	list := []convstore.Delegation{
		del("batch-s-line#1", root, 0, convstore.StateLost, 1000, 1),
		del("below", 100, 1, "", 20, 0),
		del("further below", 101, 2, "", 10, 0), // the grant of the one above covers it
		del("ended below", 100, 1, convstore.StateOK, 1000, 1),
		del("below that", 103, 4, "", 300, 0),
		del("batch-s-line#r1.1", root, 0, convstore.StateOK, 1000, 4000),
		del("of others", root, 0, convstore.StateOK, 1000, 1),
		del("below them", 106, 7, "", 1, 0),
		del("hand-1", root, 0, convstore.StateOK, 1000, 50_000),
		del("hand-2", root, 0, "", 600_000, 0),
		del("hand-3", root, 0, "", 1, 0),
		del("batch-s-line#2", root, 0, convstore.StateOK, 7_000_000, 0),
	}
	list[11].Ended = time.Time{}                                // nobody has settled it
	list[8].Child, list[9].Child = list[0].Child, list[0].Child // and of the third of others
	b := &batch{earlier: newEarlier()}
	b.collect(list, root, func(d convstore.Delegation) (int, bool) { return delegate.NumberOf(d, "batch-"), b.mine(d.Call) })
	if got := b.earlier.spent; *got.Tokens != 7_654_321 || *got.CostNano != 7_654_321 {
		t.Errorf("spent %d tokens and %d, want 7654321", *got.Tokens, *got.CostNano)
	}
}

// TestCompactedIsNoAnswer: what a person does with the conversation of a query, without asking anything,
// gives it no answer.
func TestCompactedIsNoAnswer(t *testing.T) {
	for turn, want := range []bool{false, true} {
		e := newEarlier()
		e.noteRun(convstore.Delegation{Call: "batch-s-line~mark#1", Child: 7, ChildTurn: 1, State: convstore.StatePartial}, 1)
		e.noteRun(convstore.Delegation{Call: "batch-p-line~mark#1", Child: 7, ChildTurn: 1, State: convstore.StatePartial}, 0)
		e.noteRun(convstore.Delegation{Call: "hand-1", Child: 7, ChildTurn: turn, State: convstore.StateOK}, 0)
		if len(e.byHand[7]) != 1 || len(e.beside["mark"]) != 1 {
			t.Fatalf("noted %v by hand, %v apart", e.byHand, e.beside)
		}
		if got, apart := e.hasAnswer("mark"), len(e.answeredApart("mark")) == 1; got != want || apart != want {
			t.Errorf("by hand in turn %d: an answer %v, apart %v; want %v", turn, got, apart, want)
		}
	}
}

// TestSpentLater: what a part that ran apart has used counts, where the last process that could have
// settled it ends only after the command began.
func TestSpentLater(t *testing.T) {
	store, err := convstore.Open(filepath.Join(t.TempDir(), "store"), convstore.Options{})
	if err != nil {
		t.Fatal(err)
	}
	part, err := store.Create(t.Context(), convstore.New{})
	if err != nil {
		t.Fatal(err)
	}
	by, err := store.Below(t.Context(), part.ID)
	if err != nil {
		t.Fatal(err)
	}
	grant := func(tokens int64) convstore.Grant { return convstore.Grant{Budget: convstore.Budget{Tokens: &tokens}} }
	runs, err := by.Reserve(t.Context(), func(convstore.Standing) ([]convstore.Child, error) {
		return []convstore.Child{{Call: "batch-s-line#1", Grant: grant(1000)}, {Call: "batch-s-line#2", Grant: grant(200)}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	log, err := by.Log(t.Context(), runs[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := log.Append(t.Context(), run.At(convstore.TurnStart{}), run.At(convstore.ModelCall{Usage: convstore.Usage{Input: 7}}), run.At(convstore.TurnEnd{State: convstore.StateOK})); err != nil {
		t.Fatal(err)
	}
	_ = log.Close()
	b := &batch{session: &run.Session{}, earlier: newEarlier()}
	b.session.Store, b.earlier.apart[part.ID] = store, nil
	var noted []convstore.Delegation
	for _, want := range []struct{ spent, total int64 }{{1200, 0}, {207, 7}} {
		noted = nil
		if err := b.spentApart(t.Context(), func(del convstore.Delegation) { noted = append(noted, del) }); err != nil {
			t.Fatal(err)
		}
		if got := *b.earlier.spent.Tokens; got != want.spent || noted[0].Total.Tokens() != want.total {
			t.Errorf("spent %d tokens, %d of them in the first line, want %+v", got, noted[0].Total.Tokens(), want)
		}
		_ = runs[0].Release()
	}
	_ = runs[1].Release()
}
