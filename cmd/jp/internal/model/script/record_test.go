package script

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"jp/cmd/jp/internal/model"
	"jp/convstore"
)

// saying is a model that answers with these parts, and then with err unless that is nil.
func saying(parts []model.Part, err error) model.Stream {
	return func(context.Context, model.Request) iter.Seq2[model.Part, error] {
		return func(yield func(model.Part, error) bool) {
			for _, p := range parts {
				if !yield(p, nil) {
					return
				}
			}
			if err != nil {
				yield(model.Part{}, err)
			}
		}
	}
}

// heard is what one reply came to.
type heard struct {
	Reasoning []string
	Text      string
	Calls     []EntryCall
	Usage     convstore.Usage
	Cost      int64 // 0 = the provider reports none
	Estimated bool
	Stop      model.Stop
	Err       string
}

func hear(s model.Stream, r model.Request) (h heard) {
	for p, err := range s(context.Background(), r) {
		switch {
		case err != nil:
			h.Err = err.Error()
		case p.Text != "":
			h.Text += p.Text
		case p.Reasoning != nil:
			h.Reasoning = append(h.Reasoning, p.Reasoning.Text)
		case p.Call != nil:
			h.Calls = append(h.Calls, EntryCall{Name: p.Call.Name, Arguments: string(p.Call.Arguments)})
		case p.Usage != nil:
			h.Usage, h.Estimated = *p.Usage, p.Estimated
			if p.Cost != nil {
				h.Cost = *p.Cost
			}
		case p.Stop != "":
			h.Stop = p.Stop
		}
	}
	return h
}

// among is h said in another workspace, in a thread with other conversations.
func (h heard) among(dir string, ids map[string]string) heard {
	other := func(s string) string {
		return conversationID().ReplaceAllStringFunc(s, func(id string) string {
			if to, ok := ids[id]; ok {
				return to
			}
			return id
		})
	}
	if dir != "" {
		there := other
		other = func(s string) string {
			s = strings.ReplaceAll(there(s), "{{workspace}}", "{\ue000}") // that was said
			return strings.ReplaceAll(strings.ReplaceAll(withoutPath(s, "/srv/src/proj"), "{{workspace}}", dir), "{\ue000}", "{{workspace}}")
		}
	}
	h.Text, h.Err = other(h.Text), other(h.Err)
	h.Reasoning, h.Calls = slices.Clone(h.Reasoning), slices.Clone(h.Calls)
	for i := range h.Reasoning {
		h.Reasoning[i] = other(h.Reasoning[i])
	}
	for i := range h.Calls {
		h.Calls[i].Arguments = other(h.Calls[i].Arguments)
	}
	return h
}

// keeper collects entries as they come from another process.
type keeper []Entry

func (k *keeper) keep(e Entry) error {
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	*k = append(*k, Entry{})
	return json.Unmarshal(line, &(*k)[len(*k)-1])
}

// recording returns the recording of what was kept in a workspace, read back, and its file.
func (k keeper) recording(t rapid.TB, dir string) (*Script, []byte) {
	t.Helper()
	data, err := Compile(k, dir, Recorded{Version: "test"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := ParseRecording("rec.toml", data)
	if err != nil {
		t.Fatalf("%v in\n%s", err, data)
	}
	return s, data
}

// TestRecordReplay: whatever a model says, the replay says the same, with the ids of conversations
// that its thread has.
func TestRecordReplay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		pieces := []string{"/srv/src/proj", "/srv/src/proj/a.txt", "/srv/src/projs", "/mnt/srv/src/proj", "{{workspace}}", "{{id}}", "{{ open }}", "{{", "}}", "{", "jp-c1", "jp-c22", "jp-c333", "'", "''", "'''", `"`, `"""`, `\`, `\u0041`, "\n", "\r\n", "\t",
			"\x00", "\x7f", "\ufeff", "#", "é", "𝄞", " ", "[[rule]]", "= ", "word"}
		text := rapid.Custom(func(t *rapid.T) string {
			return strings.Join(rapid.SliceOfN(rapid.OneOf(rapid.SampledFrom(pieces), rapid.String()), 0, 8).Draw(t, "pieces"), "")
		})
		var parts []model.Part
		for _, s := range rapid.SliceOfN(text, 0, 2).Draw(t, "reasoning") {
			if s != "" {
				parts = append(parts, model.Part{ReasoningDelta: s})
			}
			parts = append(parts, model.Part{Reasoning: &model.Reasoning{Text: s, Provider: Provider}})
		}
		if s := text.Draw(t, "text"); s != "" {
			parts = append(parts, model.Part{Text: s})
		}
		var failed error
		stop := rapid.SampledFrom([]model.Stop{model.StopEnd, model.StopMaxTokens, model.StopRefusal}).Draw(t, "stop")
		ends := rapid.SampledFrom([]string{"stop", "calls", "error"}).Draw(t, "end")
		if ends == "calls" {
			stop = model.StopToolUse
			for i, args := range rapid.SliceOfN(text, 1, 3).Draw(t, "calls") {
				b, _ := json.Marshal(map[string]string{"a": args})
				parts = append(parts, model.Part{Call: &model.Call{ID: fmt.Sprintf("call_%d", i+1), Name: "t" + args, Arguments: b}})
			}
		}
		n := rapid.Int64Range(0, 1<<40)
		usage := convstore.Usage{Input: n.Draw(t, "in"), Output: n.Draw(t, "out"), CacheRead: n.Draw(t, "read"), CacheWrite: n.Draw(t, "write")}
		part := model.Part{Usage: &usage, Estimated: rapid.Bool().Draw(t, "estimated")}
		if cost := n.Draw(t, "cost"); cost > 0 {
			part.Cost = &cost
		}
		parts = append(parts, part)
		if ends == "error" {
			e := rapid.SampledFrom([]model.Error{{Kind: model.KindOverloaded, Status: 503}, {Kind: model.KindNetwork}, {Kind: model.KindAuth, Status: 401},
				{Kind: model.KindContext, Status: 400}, {Kind: model.KindStream, Status: 200}, {Kind: model.KindIdle}}).Draw(t, "error")
			e.Provider, e.Message = Provider, "a "+text.Draw(t, "message")
			failed = &e
		} else {
			parts = append(parts, model.Part{Stop: stop})
		}

		thread := func(dir, one, two string) model.Request {
			return model.Request{Round: 1, Turn: 1, Profile: `agent/*[?\`, Messages: []model.Message{
				user("in " + dir + "/x ask " + two + "\n'''\\ \"quoted\""), call("c", "jp_query"),
				result("c", "jp_query", `<response conversation_id="`+one+`" status="ok"> and "conversation_id":"`+two+`"`, false)}}
		}
		price := &model.Price{Input: 1, Output: 2, CacheRead: 3, CacheWrite: 4, Long: &model.LongPrice{Above: 5, Input: 6, Output: 7, CacheRead: 8, CacheWrite: 9}}
		var kept keeper
		first := hear(NewTrail("").Follow(Record(saying(parts, failed), model.Info{ID: `x/y "z"`, Price: price}, kept.keep)), thread("/srv/src/proj", "jp-c1", "jp-c22"))
		s, data := kept.recording(t, "/srv/src/proj")
		if got := s.Models()[`x/y "z"`]; !reflect.DeepEqual(got, price) {
			t.Fatalf("price = %+v, want %+v", got, price)
		}
		var rules []int
		again := hear(NewTrail("").Follow(s.Replay("/ci/w", func(rule int, err error) { rules = append(rules, rule) })), thread("/ci/w", "jp-c777", "jp-c8"))
		// was no error to the server
		first.Err = strings.Replace(first.Err, "stream (200)", "stream", 1)
		if want := first.among("/ci/w", map[string]string{"jp-c1": "jp-c777", "jp-c22": "jp-c8"}); !reflect.DeepEqual(again, want) {
			t.Fatalf("replay:\n%+v\nwant:\n%+v\nof\n%s", again, want, data)
		}
		if !slices.Equal(rules, []int{1}) {
			t.Fatalf("rules = %v", rules)
		}
	})
}

// TestRecordNoCalls records a server that calls tools where calls are ruled out.
func TestRecordNoCalls(t *testing.T) {
	says := saying([]model.Part{{Text: "done"}, {Call: &model.Call{ID: "c1", Name: "t", Arguments: json.RawMessage("{}")}}, {Stop: model.StopToolUse}}, nil)
	closing := model.Request{Round: 1, Turn: 1, ToolChoice: "none", Messages: []model.Message{user("q")}}
	var kept keeper
	hear(NewTrail("").Follow(Record(says, model.Info{ID: "x/y"}, kept.keep)), closing)
	s, data := kept.recording(t, "/w")
	if got := hear(NewTrail("").Follow(s.Replay("/w", func(int, error) {})), closing); got.Text != "done" || got.Err != "" || got.Calls != nil {
		t.Errorf("replay: %+v of\n%s", got, data)
	}
}

func TestWithoutPath(t *testing.T) {
	for text, want := range map[string]string{
		"":                             "",
		"/w/x":                         "{{workspace}}",
		"at /w/x, /w/x/a and '/w/x'.b": "at {{workspace}}, {{workspace}}/a and '{{workspace}}'.b",
		"/w/x/w/x":                     "{{workspace}}/w/x",
		"/w/xy /w/x.b /w/x-b /w/xé":    "/w/xy /w/x.b /w/x-b /w/xé",
		"/v/w/x a/w/x //w/x":           "/v/w/x a/w/x //w/x",
	} {
		if got := withoutPath(text, "/w/x"); got != want {
			t.Errorf("withoutPath(%q) = %q, want %q", text, got, want)
		}
	}
	for _, dir := range []string{"", "/"} {
		if got := withoutPath("/w/x", dir); got != "/w/x" {
			t.Errorf("of %q: %q", dir, got)
		}
	}
}

func TestTrail(t *testing.T) {
	call := func(id string) model.Part {
		return model.Part{Call: &model.Call{ID: id, Name: "t", Arguments: []byte("{}")}}
	}
	asked := func(trail *Trail, r model.Request, parts ...model.Part) model.Request {
		var seen model.Request
		s := func(ctx context.Context, r model.Request) iter.Seq2[model.Part, error] {
			seen = r
			return saying(append(parts, model.Part{Stop: model.StopEnd}), nil)(ctx, r)
		}
		hear(trail.Follow(s), r)
		return seen
	}
	for _, run := range []string{"", "1.1#2"} {
		trail, prefix := NewTrail(run), ""
		if run != "" {
			prefix = run + "/"
		}
		if r := asked(trail, model.Request{Round: 1}, call("a"), call("b#1")); r.Run != run || r.Attempt != 1 {
			t.Errorf("first request: run %q, attempt %d", r.Run, r.Attempt)
		}
		if r := asked(trail, model.Request{Round: 0}); r.Attempt != 1 {
			t.Errorf("beside: attempt %d", r.Attempt)
		}
		if r := asked(trail, model.Request{Round: 1, Attempt: 9}); r.Attempt != 2 {
			t.Errorf("again: attempt %d", r.Attempt)
		}
		asked(trail, model.Request{Round: 2}, call("c/d"))
		for _, tt := range []struct{ call, query, want string }{
			{"a", "q", "1.1"},
			{"b#1", "q", "1.2"},
			{"a#3", "q", "1.1#3"},
			{"b#1#3", "q", "1.2#3"},
			{"c/d", "q", "2.1"},
			{"c/d/1", "q", "2.1=8e35c2cd"},
			{"c/d/2", "q", "2.1=8e35c2cd+2"},
			{"c/d/3", "ask jp-c1", "2.1=7dc6ca82"},
			{"a/1", "ask jp-c22", "1.1=7dc6ca82"},
			{"batch-x#4", "q", "#4"},
			{"before", "q", "=8e35c2cd"},
			{"before#1", "q", "=8e35c2cd+2"},
			{"before/1", "other", "=d9298a10"},
		} {
			if got := trail.Below(tt.call, tt.query); got != prefix+tt.want {
				t.Errorf("%q: Below(%q, %q) = %q, want %q", run, tt.call, tt.query, got, prefix+tt.want)
			}
		}
	}
}

// TestRecordNot: what is no part of a recording, and what keeps one from being made.
func TestRecordNot(t *testing.T) {
	ask := model.Request{Round: 1, Messages: []model.Message{user("q")}}
	var kept keeper
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	cut := func(context.Context, model.Request) iter.Seq2[model.Part, error] {
		return func(yield func(model.Part, error) bool) {
			if yield(model.Part{Text: "so far"}, nil) && yield(model.Part{ReasoningDelta: "half"}, nil) && yield(model.Part{Call: call("c", "t").Content[0].Call}, nil) {
				yield(model.Part{}, context.Cause(ctx))
			}
		}
	}
	for range Record(cut, model.Info{}, kept.keep)(ctx, ask) {
	}
	if len(kept) != 1 || !kept[0].Hang || kept[0].Text != "so far" || len(kept[0].Calls) != 0 || !slices.Equal(kept[0].Reasoning, []string{"half"}) {
		t.Errorf("cut off: %+v", kept)
	}
	for range Record(saying([]model.Part{{Text: "a"}, {Text: "b"}}, nil), model.Info{}, kept.keep)(context.Background(), ask) {
		break // nobody wants more
	}
	if len(kept) != 1 {
		t.Errorf("a reply that nobody heard to its end was kept: %+v", kept[1:])
	}
	full := errors.New("no space")
	h := hear(Record(saying([]model.Part{{Text: "a"}, {Stop: model.StopEnd}}, nil), model.Info{}, func(Entry) error { return full }), ask)
	if h.Err != "recording: no space" || h.Stop != "" {
		t.Errorf("not kept: %+v", h)
	}

	if _, err := Compile(nil, "", Recorded{}); err == nil || err.Error() != "no model was asked" {
		t.Errorf("nothing: error = %v", err)
	}
	e := Entry{Run: "1.2", Round: 3, Attempt: 1}
	if _, err := Compile([]Entry{e, e}, "", Recorded{}); err == nil || err.Error() != "two replies were recorded for sub-agent 1.2, round 3" {
		t.Errorf("twice: error = %v", err)
	}
	e.Text = strings.Repeat("x", maxFile)
	if _, err := Compile([]Entry{e}, "", Recorded{}); err != ErrTooLarge {
		t.Errorf("large: error = %v", err)
	}
	if _, err := ParseRecording("s.toml", []byte("[[rule]]\ntext = 'x'")); err == nil || err.Error() != "s.toml: is a script and no recording: it has no [recorded]" {
		t.Errorf("a script: error = %v", err)
	}
	if _, err := ParseRecording("s.toml", []byte("[recorded]\nother = 1\n[[rule]]\ntext = 'x'")); err == nil || err.Error() != "s.toml:2: unknown key recorded.other" {
		t.Errorf("an unknown key: error = %v", err)
	}
}

// TestRanOut: whether a run that had no time left came to its closing call does not count.
func TestRanOut(t *testing.T) {
	const hangs = "[recorded]\n[[rule]]\nrun = '1.1'\nround = 1\nattempt = 1\nno_calls = false\nhang = true\n"
	s, err := ParseRecording("rec.toml", []byte(hangs))
	if err != nil {
		t.Fatal(err)
	}
	over := errors.New("over")
	for _, tt := range []struct {
		r    model.Request
		want string
	}{
		{model.Request{Run: "1.1", Round: 2, ToolChoice: "none"}, "over"},
		{model.Request{Run: "1.1", Round: 2}, "is not as recorded"},
		{model.Request{Run: "1.2", Round: 2, ToolChoice: "none"}, "is not as recorded"},
	} {
		tt.r.Messages = []model.Message{user("q")}
		on := context.Background()
		if tt.want == "over" {
			var cancel context.CancelFunc
			on, cancel = context.WithTimeoutCause(on, time.Millisecond, over)
			defer cancel()
		}
		var got error
		for _, err := range s.Replay("", func(_ int, err error) {
			if tt.want == "over" {
				t.Errorf("told %v", err)
			}
		})(on, tt.r) {
			got = err
		}
		if got == nil || !strings.Contains(got.Error(), tt.want) {
			t.Errorf("%+v: error = %v, want %s", tt.r, got, tt.want)
		}
	}
	s, err = ParseRecording("rec.toml", []byte(hangs+"[[rule]]\nrun = '1.1'\nround = 2\nno_calls = true\nhang = true\n[[rule]]\nrun = '1.2'\nround = 2\nno_calls = true\ntext = 'x'"))
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Unused(map[int]bool{1: true}); !slices.Equal(got, []string{"rule 3 (line 13), for sub-agent 1.2, round 2"}) {
		t.Errorf("Unused = %q", got)
	}
}

// TestOrder: rules stand in the order of the tree, by number.
func TestOrder(t *testing.T) {
	want := []string{"", "1.1", "1.1/2.1", "1.2", "1.2#1", "1.2#10", "1.10", "2.1=aa", "2.1=aa+2", "10.1"}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortStableFunc(got, compareRuns)
	if !slices.Equal(got, want) {
		t.Errorf("order = %q, want %q", got, want)
	}
}

func TestStrays(t *testing.T) {
	s, err := ParseRecording("rec.toml", []byte(`
[recorded]
stopped = "interrupt"
[[rule]]
run = ""
profile = ""
round = 1
attempt = 1
no_calls = false
asked = "count the lines of jp-c1"
text = "{{no}}"
captures = { no = 'nothing here' }
[[rule]]
run = ""
round = 2
attempt = 1
no_calls = false
failed = false
text = "x"
[[rule]]
run = ""
round = 3
attempt = 1
no_calls = true
failed = true
text = "x"
[[rule]]
run = "1.1"
profile = "agent/r"
turn = 2
round = 0
attempt = 1
system = "You condense"
text = "x"
`))
	if err != nil {
		t.Fatal(err)
	}
	const long = "count the lines of jp-c9, which are many, and then count them again, and again, and again, and after that again"
	thread := func(failed bool) []model.Message {
		return []model.Message{user("q"), call("c", "t"), result("c", "t", "error: \x1b[31mno\nsuch", failed)}
	}
	for _, tt := range []struct {
		r    model.Request
		want string
	}{
		{model.Request{Round: 1, Messages: []model.Message{user("count the lines of jp-c1, please")}},
			`the main run (no profile), round 1: rule 1 (line 4) was asked "count the lines of jp-c1", and this is "count the lines of jp-c1, please"`},
		{model.Request{Round: 1, Profile: "x", Messages: []model.Message{user(long)}},
			`the main run (profile x), round 1: rule 1 (line 4) is of no profile; was asked "count the lines of jp-c1", and this is "count the lines of jp-c9, which are many, and then count them again, and again, "...`},
		{model.Request{Round: 2, Messages: thread(true)},
			`the main run (no profile), round 2: rule 2 (line 13) has no failed result, and t failed: "error: \x1b[31mno\nsuch"`},
		{model.Request{Round: 3, ToolChoice: "none", Messages: thread(false)},
			`the main run (no profile), round 3: rule 3 (line 20) has a failed result, and none failed`},
		{model.Request{Round: 3, Messages: thread(true)},
			`the main run (no profile), round 3: rule 3 (line 20) is a closing call and this is none`},
		{model.Request{Round: 4, Messages: thread(true)},
			`the main run (no profile), round 4: there is no rule for it, the last one is for round 3`},
		{model.Request{Run: "1.1", Turn: 1, System: []model.Section{{Text: "Find a title"}}, Messages: []model.Message{user("q")}},
			`sub-agent 1.1 (no profile), round 0: rule 4 (line 27) is of profile agent/r; is of turn 2 and this is 1; is for another prompt, "You condense"`},
		{model.Request{Run: "1.2", Round: 1, Messages: []model.Message{user("q")}},
			`sub-agent 1.2 (no profile), round 1: there is no rule for it`},
	} {
		strays := error(nil)
		h := hear(s.Replay("/ci/w", func(rule int, err error) { strays = err }), tt.r)
		want := "script: bad_request: rec.toml: this run is not as recorded: " + tt.want + "; when it was recorded, the run was stopped: interrupt"
		if h.Err != want || strays == nil || strays.Error() != want {
			t.Errorf("error = %s\n(told %v), want\n%s", h.Err, strays, want)
		}
	}
	h := hear(s.Replay("/ci/w", func(int, error) {}), model.Request{Round: 1, Messages: []model.Message{user("count the lines of jp-c7")}})
	if want := `script: bad_request: rec.toml: rule 1 (line 4): capture no: "nothing here" has 0 matches in the thread, number 1 was asked for`; h.Err != want {
		t.Errorf("error = %s, want %s", h.Err, want)
	}
	want := []string{"rule 2 (line 13), for the main run, round 2", "rule 4 (line 27), for sub-agent 1.1, round 0"}
	if got := s.Unused(map[int]bool{0: true, 1: true, 3: true}); !slices.Equal(got, want) {
		t.Errorf("Unused = %q, want %q", got, want)
	}
}

// TestQuote: what a reader of the file would not see, or see in another order, is written as an
// escape.
func TestQuote(t *testing.T) {
	for in, want := range map[string]string{
		"a\x00\x1b[31m\u009b":           `"a\u0000\u001B[31m\u009B"`,
		"\u202eevil\u2066 \u2028\ufeff": `"\u202Eevil\u2066 \u2028\uFEFF"`,
		"tag\U000E0041":                 `"tag\U000E0041"`,
		"é 😀\u200d♂":                    "\"é 😀\u200d♂\"",
		"two\nlines":                    "'''\ntwo\nlines'''",
	} {
		if got := quote(in); got != want {
			t.Errorf("quote(%q) = %s, want %s", in, got, want)
		}
	}
}
