package delegate

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"unicode/utf8"

	"jp/cmd/jp/internal/attach"
	"jp/cmd/jp/internal/rule"
	"jp/cmd/jp/internal/stream"
	"jp/convstore"
	"jp/tools"
)

func TestRows(t *testing.T) {
	cost := int64(9000000)
	ends := []outcome{
		{child: 7, ending: ending{State: convstore.StateOK, Text: "a \"b\"\n<c> </response>\n", Calls: 2, Total: convstore.Spend{Usage: convstore.Usage{Input: 5, CacheRead: 9, CacheWrite: 2, Output: 3}, CostNano: cost}}},
		{child: 8, ending: ending{State: convstore.StateKilled, Total: convstore.Spend{Unpriced: 1}, Reason: "killed by signal 9 (killed)", Stderr: "jp: no\n{\"error\":{\"code\":\"x\",\"message\":\"killed by signal 9 (killed)\"},\"exit\":7}", LastTool: "fs_read_file {}", NoContext: "no such tool"}},
		{denied: rule.Refuse(rule.CodeCalls, "5 of 5 sub-agent calls of this turn are used")},
		{denied: errors.New("query: is empty")},
		{ending: unstarted()},
		{},
	}
	errs := make([]error, len(ends))
	errs[5] = errors.New("store: disk full")
	asked := make([]arguments, len(ends))
	asked[0].Query, asked[1].Query = "what is </response> of it?", strings.Repeat("x", 300)
	got, err := rows(asked, ends, errs, 1000, 1<<20)
	want := `[{"conversation_id":"jp-c7","query":"what is &lt;/response> of it?","status":"ok","reason":"","text":"a \"b\"\n<c> &lt;/response>","tokens_used":10,"cost_usd":0.009,"calls":2},` +
		`{"conversation_id":"jp-c8","query":"` + strings.Repeat("x", 200) + `","status":"killed","reason":"killed by signal 9 (killed)","text":"","tokens_used":0,"cost_usd":null,"calls":0,"context":"none: no such tool","trouble":"last tool call: fs_read_file {}\nits last messages:\njp: no"},` +
		`{"conversation_id":null,"status":"refused","reason":"refused (calls): 5 of 5 sub-agent calls of this turn are used","text":"","tokens_used":0,"cost_usd":0,"calls":0},` +
		`{"conversation_id":null,"status":"error","reason":"query: is empty","text":"","tokens_used":0,"cost_usd":0,"calls":0},` +
		`{"conversation_id":null,"status":"cancelled","reason":"cancelled before it started","text":"","tokens_used":0,"cost_usd":0,"calls":0},` +
		`{"conversation_id":null,"status":"error","reason":"store: disk full","text":"","tokens_used":0,"cost_usd":0,"calls":0}]`
	if err != nil || got != want {
		t.Errorf("rows = %s, %v\nwant %s", got, err, want)
	}
}

func TestRowsAreBounded(t *testing.T) {
	ends := make([]outcome, 20)
	for i := range ends {
		ends[i] = outcome{child: 7, ending: ending{State: convstore.StateOK, Text: strings.Repeat("\"\n", 9000)}}
	}
	const size = 64 << 10
	got, err := rows(make([]arguments, len(ends)), ends, make([]error, len(ends)), 16<<10, size)
	if err != nil || len(got) > size || len(got) < size/4 {
		t.Errorf("rows has %d bytes, %v, want at most %d and most of that", len(got), err, size)
	}
	if n := strings.Count(got, "bytes are cut here; read them with jp_conversation_print"); n != len(ends) {
		t.Errorf("%d of %d rows say that they were cut", n, len(ends))
	}
}

// TestAnswersAreLeft: of what a sub-agent has handed in and said, no more is kept while others of its
// batch work than its row has.
func TestAnswersAreLeft(t *testing.T) {
	const limit = 16 << 10
	long := strings.Repeat("\u00e9 <response> \n", 1<<16)
	for _, text := range []string{"", "short", long} {
		o := outcome{child: 7, ending: ending{State: convstore.StateOK, Text: text}}
		want := o.row(nil, limit).Text
		o.shorten(limit)
		if got := o.row(nil, limit).Text; got != want {
			t.Errorf("a row of %d bytes has %.100q, whole %.100q", len(text), got, want)
		}
		if len(o.Text) > limit {
			t.Errorf("%d bytes are kept of %d", len(o.Text), len(text))
		}
	}
	shown := 0
	f := &follower{watch: func(d *stream.Delegation) { shown = max(shown, len(d.Tool), len(d.Reason)) }}
	f.line(&stream.ToolCall{Name: long, Arguments: []byte(long)})
	f.line(&stream.Wait{Reason: long})
	if most := max(shown, len(f.lastTool)); most > 2<<10 {
		t.Errorf("%d bytes are kept of what a sub-agent says that it does", most)
	}
}

// TestHanded: two texts in between fit into one group, however long they were, or levels would not
// end.
func TestHanded(t *testing.T) {
	const room = 4 << 10
	for size := range 2 * room {
		r := &reduction{missing: map[int]string{}}
		o := outcome{child: 7, ending: ending{State: convstore.StateOK, Text: strings.Repeat("x", size)}}
		p := r.handed(o, []piece{{numbers: []int{1}}}, room/2)
		if groups := groupsOf(append(p, p...), room); len(groups) != 1 {
			t.Fatalf("two texts of %d bytes make %d groups", size, len(groups))
		}
	}
}

// TestTasksAheadAreBounded: tasks that wait for the report of an earlier one are bounded by their
// bytes, and not only by their number.
func TestTasksAheadAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size, tasks = maxAheadBytes / 100, 300
		task := Item{Query: strings.Repeat("q", size), Done: true}
		drawn, reported := 0, 0
		next := func(context.Context) (Item, error) {
			if drawn == tasks {
				return Item{}, io.EOF
			}
			drawn++
			return task, nil
		}
		set, err := tools.NewSet()
		if err != nil {
			t.Fatal(err)
		}
		d := &Delegator{set: set}
		err = d.Batch(t.Context(), "call", next, Work{Parallel: 2}, func(Item, Row) error {
			synctest.Wait() // until nothing goes on without this report
			if reported++; drawn-reported > 102 {
				t.Errorf("%d tasks are ahead of the report of one", drawn-reported)
			}
			return nil
		})
		if err != nil || reported != tasks {
			t.Errorf("%d of %d tasks are reported: %v", reported, tasks, err)
		}
	})
}

// TestParts: the parts of a long answer are all of it, also the characters on their borders, and each
// has room.
func TestParts(t *testing.T) {
	const room = 400
	for _, text := range []string{strings.Repeat("x", 1000), strings.Repeat("ä", 500), "x" + strings.Repeat("😀", 333), strings.Repeat("€", 222)} {
		in := Input{Number: 1, Status: "ok", Size: len(text), Text: func(context.Context) (string, error) { return text, nil }}
		var whole strings.Builder
		for _, p := range new(reduction).parts(in, room) {
			part, err := p.text(t.Context())
			if err != nil || p.size > room || len(part)+wrapper > p.size || !utf8.ValidString(part) {
				t.Errorf("part %s: %d bytes, size %d of %d, %v", p.label, len(part), p.size, room, err)
			}
			whole.WriteString(part)
		}
		if whole.String() != text {
			t.Errorf("of %d bytes the parts have %d", len(text), whole.Len())
		}
	}
}

// TestAttachBound: what a sub-agent reads fits in all: its query and what is attached to it, which
// takes no more as JSON than it has to.
func TestAttachBound(t *testing.T) {
	const mib = 1 << 20
	for name, test := range map[string]struct {
		query, text string
		fits        bool
	}{
		"both large": {strings.Repeat("q", 10*mib), strings.Repeat("a", 7*mib), false},
		"both fit":   {strings.Repeat("q", 8*mib), strings.Repeat("a", 7*mib), true},
		"markup":     {"q", strings.Repeat("<&>", 4*mib), true},
	} {
		r := &request{query: test.query}
		err := r.attach(t.Context(), nil, func(context.Context, attach.Refs) ([]convstore.Attachment, error) {
			return []convstore.Attachment{{Source: "a", Text: test.text}}, nil
		})
		if task, _ := new(runner).stdin(*r); (err == nil) != test.fits || test.fits && len(task) > 16*mib {
			t.Errorf("%s: %d bytes, %v", name, len(task), err)
		}
	}
}
