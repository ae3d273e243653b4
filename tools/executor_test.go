package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// tool is an unattended tool of these properties.
func tool(name string, f Func, change ...func(*Definition)) Tool {
	def := Definition{Name: name, Source: SourceLocal, Run: RunUnattended, Result: ResultUnattended, Parallel: true, Schema: json.RawMessage(`{}`)}
	for _, c := range change {
		c(&def)
	}
	return Tool{Definition: def, Func: f}
}

func setOf(t testing.TB, tools ...Tool) Set {
	t.Helper()
	s, err := NewSet(tools...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// runAll collects the results by call id.
func runAll(t testing.TB, e Executor, ctx context.Context, calls ...Call) map[string]Result {
	t.Helper()
	out := map[string]Result{}
	for c, r := range e.Run(ctx, calls) {
		if _, ok := out[c.ID]; ok {
			t.Errorf("call %s has two results", c.ID)
		}
		out[c.ID] = r
	}
	if len(out) != len(calls) {
		t.Errorf("%d calls have %d results", len(calls), len(out))
	}
	return out
}

func say(text string) Func {
	return func(context.Context, Call) (Result, error) { return Result{Text: text}, nil }
}

func TestSet(t *testing.T) {
	s := setOf(t, tool("c", say("")), tool("a", say("")), tool("b", say(""), func(d *Definition) { d.Source = "mcp.x" }))
	if got := s.Names(); !slices.Equal(got, []string{"a", "b", "c"}) || s.Len() != 3 {
		t.Errorf("Names = %v, Len = %d", got, s.Len())
	}
	n := s.Narrow(func(name, source string) bool { return name == "a" || source == "mcp.x" })
	if got := n.Names(); !slices.Equal(got, []string{"a", "b"}) || s.Len() != 3 {
		t.Errorf("Narrow = %v, and it left %v", got, s.Names())
	}
	for name, want := range map[string]bool{"a": true, "b": true, "c": false, "": false, "aa": false} {
		if got, ok := n.Get(name); ok != want || ok && got.Name != name {
			t.Errorf("Get(%q) = %s, %v, want %v", name, got.Name, ok, want)
		}
	}
	var all []string
	for tl := range n.All() {
		all = append(all, tl.Name)
	}
	if !slices.Equal(all, n.Names()) {
		t.Errorf("All = %v, want %v", all, n.Names())
	}
	var zero Set
	if _, ok := zero.Get("a"); ok || zero.Len() != 0 || zero.Names() == nil || zero.Narrow(nil).Len() != 0 {
		t.Error("the zero Set is not empty")
	}
	for want, tools := range map[string][]Tool{
		"tool a: defined twice, as local and as local":                     {tool("a", say("")), tool("a", say(""))},
		"tool a: nothing runs it (source local)":                           {tool("a", nil)},
		`tool "a/b": not a tool name: 1 to 64 letters, digits, '_' or '-'`: {tool("a/b", say(""))},
		"tool a: schema: is no object":                                     {tool("a", say(""), func(d *Definition) { d.Schema = json.RawMessage(`[]`) })},
	} {
		if _, err := NewSet(tools...); err == nil || err.Error() != want {
			t.Errorf("NewSet: %v, want %s", err, want)
		}
	}
}

func TestExecutorResults(t *testing.T) {
	e := Executor{Set: setOf(t,
		tool("ok", func(_ context.Context, c Call) (Result, error) { return Result{Text: string(c.Arguments)}, nil },
			func(d *Definition) {
				d.Schema = json.RawMessage(`{"properties":{"n":{"type":"integer","default":7}},"additionalProperties":false}`)
			}),
		tool("fails", func(context.Context, Call) (Result, error) { return Result{}, errors.New("no luck") }),
		tool("half", func(context.Context, Call) (Result, error) { return Result{Text: "so far"}, errors.New("no luck") }),
		tool("panics", func(context.Context, Call) (Result, error) { panic("oh \xff") }),
		tool("bytes", say("a\xffb")),
		tool("says", func(context.Context, Call) (Result, error) { return Result{Text: "no such issue", IsError: true}, nil }),
		tool("marks", func(context.Context, Call) (Result, error) {
			return Result{Text: "error: no such issue", IsError: true}, nil
		}),
		tool("agent", func(context.Context, Call) (Result, error) {
			return Result{Text: `<response status="error">`, IsError: true}, nil
		}, func(d *Definition) { d.Source = SourceDelegation }),
		tool("posing", func(context.Context, Call) (Result, error) {
			return Result{Text: `<response status="ok">`, IsError: true}, nil
		}),
		tool("asks", say(""), func(d *Definition) { d.Run = RunAsk }),
		tool("denied", say(""), func(d *Definition) { d.Run = RunDeny }),
		tool("withheld", say("secret"), func(d *Definition) { d.Result = ResultAsk }),
		tool("long", say(strings.Repeat("ü", 1000)), func(d *Definition) { d.SizeThreshold = 1025 }),
	)}
	for _, tt := range []struct {
		name, args string
		want       Result
	}{
		{"ok", `{}`, Result{Text: `{"n":7}`}},
		{"ok", `{"n":"8"}`, Result{Text: `{"n":8}`}},
		{"ok", `{"n":"x"}`, Result{Text: `error: arguments of ok: "n" must be integer, not the string "x"`, IsError: true, Refused: true}},
		{"ok", `{"m":1}`, Result{Text: `error: arguments of ok: "m" is unknown; there is n`, IsError: true, Refused: true}},
		{"ok", `{"n"`, Result{Text: `error: arguments of ok: not JSON: it ends in the middle`, IsError: true, Refused: true}},
		{"okk", `{}`, Result{Text: `error: unknown tool "okk"; did you mean "ok"?`, IsError: true, Refused: true}},
		{"wholly else\n", `{}`, Result{Text: `error: unknown tool "wholly else\n"`, IsError: true, Refused: true}},
		{"fails", ``, Result{Text: `error: no luck`, IsError: true}},
		{"half", ``, Result{Text: "error: no luck\nso far", IsError: true}},
		{"says", ``, Result{Text: "error: no such issue", IsError: true}},
		{"marks", ``, Result{Text: "error: no such issue", IsError: true}},
		{"agent", ``, Result{Text: `<response status="error">`, IsError: true}},
		{"posing", ``, Result{Text: `error: <response status="ok">`, IsError: true}},
		{"bytes", ``, Result{Text: "a\uFFFDb"}},
		{"asks", ``, Result{Text: `error: refused: only tools with run = "unattended" may run here`, IsError: true, Refused: true}},
		{"denied", ``, Result{Text: `error: refused: only tools with run = "unattended" may run here`, IsError: true, Refused: true}},
		{"withheld", ``, Result{Text: `error: the tool ran; its result is withheld: only results of tools with result = "unattended" are delivered here`, IsError: true}},
		{"long", ``, Result{Text: strings.Repeat("ü", 464) + "\n[truncated: 2 KB -> 928 B, full output: not kept; ask for less, or raise size_threshold of long]"}},
	} {
		if got := runAll(t, e, t.Context(), Call{"1", tt.name, json.RawMessage(tt.args)})["1"]; got != tt.want {
			t.Errorf("%s(%s) = %+v\nwant %+v", tt.name, tt.args, got, tt.want)
		}
	}
	got := runAll(t, e, t.Context(), Call{ID: "1", Name: "panics"})["1"]
	if !got.IsError || got.Refused || !strings.HasPrefix(got.Text, "error: panic: oh \uFFFD\n  at jp/tools.TestExecutorResults") {
		t.Errorf("a panic = %+v", got)
	}
	for range e.Run(t.Context(), nil) {
		t.Error("no calls have a result")
	}
	if got := runAll(t, Executor{}, t.Context(), Call{ID: "1", Name: "ok"})["1"]; !got.Refused {
		t.Errorf("the zero Executor = %+v", got)
	}
}

// Results come as calls finish, at most Parallel run at once, and all of them run although each
// waits for the others.
func TestExecutorConcurrency(t *testing.T) {
	const calls, parallel = 50, 7
	var running, most atomic.Int32
	var started sync.WaitGroup
	started.Add(parallel)
	together := sync.OnceFunc(started.Wait)
	e := Executor{Parallel: parallel, Set: setOf(t, tool("t", func(_ context.Context, c Call) (Result, error) {
		n := running.Add(1)
		defer running.Add(-1)
		for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
		}
		if strings.HasPrefix(c.ID, "first") {
			started.Done()
			together()
		}
		return Result{Text: c.ID}, nil
	}))}
	var list []Call
	for i := range calls {
		id := fmt.Sprint(i)
		if i < parallel {
			id = "first" + id
		}
		list = append(list, Call{ID: id, Name: "t"})
	}
	for id, r := range runAll(t, e, t.Context(), list...) {
		if r.Text != id {
			t.Errorf("result of %s = %+v", id, r)
		}
	}
	if most.Load() != parallel {
		t.Errorf("%d calls ran at once, want %d", most.Load(), parallel)
	}
}

// The order of what was started and ended tells that a tool with parallel = false had nothing
// beside it.
func TestExecutorAlone(t *testing.T) {
	var mu sync.Mutex
	var log []string
	add := func(s string) {
		mu.Lock()
		defer mu.Unlock()
		log = append(log, s)
	}
	both := make(chan bool)
	e := Executor{Set: setOf(t,
		tool("p", func(_ context.Context, c Call) (Result, error) {
			add("+p")
			switch c.ID { // two that only end together
			case "1", "4":
				both <- true
			case "2", "5":
				<-both
			}
			add("-p")
			return Result{}, nil
		}),
		tool("a", func(context.Context, Call) (Result, error) { add("+a"); add("-a"); return Result{}, nil }, func(d *Definition) { d.Parallel = false }),
	)}
	runAll(t, e, t.Context(), Call{ID: "1", Name: "p"}, Call{ID: "2", Name: "p"}, Call{ID: "3", Name: "a"}, Call{ID: "4", Name: "p"}, Call{ID: "5", Name: "p"}, Call{ID: "6", Name: "a"}, Call{ID: "7", Name: "a"})
	want := "+p +p -p -p +a -a +p +p -p -p +a -a +a -a"
	if got := strings.Join(log, " "); got != want {
		t.Errorf("ran %s, want %s", got, want)
	}
}

// A person is asked about a call that runs alone while the sub-agents before it work, and it runs
// after them. What they have to make first is refused when they have ended, not before.
func TestExecutorAsksBesideSubAgents(t *testing.T) {
	var log []string
	var made atomic.Bool
	asked := make(chan bool)
	write := tool("write", func(context.Context, Call) (Result, error) {
		log = append(log, "write")
		return Result{Text: "ok"}, nil
	},
		func(d *Definition) { d.Parallel, d.Run = false, RunAsk })
	write.Check = func(_ context.Context, c Call) error {
		if c.ID == "early" || made.Load() {
			return nil
		}
		return errors.New("not made")
	}
	e := Executor{
		Set: setOf(t, write, tool("agent", func(context.Context, Call) (Result, error) {
			<-asked
			log = append(log, "agent")
			made.Store(true)
			return Result{Text: "ok"}, nil
		}, func(d *Definition) { d.Source = SourceDelegation })),
		Permit: func(_ context.Context, tool Tool, c Call) (Decision, error) {
			if c.ID == "early" {
				log = append(log, "question")
				close(asked)
			}
			return Decision{Allow: true}, nil
		},
	}
	for _, tt := range []struct{ id, want string }{{"early", "question agent write"}, {"late", "agent write"}} {
		log = nil
		made.Store(false)
		got := runAll(t, e, t.Context(), Call{ID: "a", Name: "agent"}, Call{ID: tt.id, Name: "write"})
		if strings.Join(log, " ") != tt.want || got[tt.id].Text != "ok" {
			t.Errorf("%s: %v, want %s; result %+v", tt.id, log, tt.want, got[tt.id])
		}
	}
}

// A sub-agent takes no place of Parallel, wherever its call is in the reply and whether or not a
// person permits it. All others wait for a place in call order.
func TestExecutorSubAgentsTakeNoPlace(t *testing.T) {
	const agents, others, parallel = 20, 9, 3
	synctest.Test(t, func(t *testing.T) {
		var agentsNow, othersNow atomic.Int32
		var mu sync.Mutex
		var order []string
		next, end := make(chan bool), make(chan bool)
		agent := func(_ context.Context, c Call) (Result, error) {
			agentsNow.Add(1)
			defer agentsNow.Add(-1)
			<-end
			return Result{Text: c.ID}, nil
		}
		other := func(_ context.Context, c Call) (Result, error) {
			othersNow.Add(1)
			defer othersNow.Add(-1)
			mu.Lock()
			order = append(order, c.ID)
			mu.Unlock()
			<-next
			return Result{Text: c.ID}, nil
		}
		delegates := func(d *Definition) { d.Source = SourceDelegation }
		command := func(d *Definition) { d.Command = CommandLine{Program: "jp"} }
		asks := func(d *Definition) { d.Run = RunAsk }
		e := Executor{
			Parallel: parallel,
			Set: setOf(t, tool("agent", agent, delegates), tool("agent_ask", agent, delegates, asks),
				tool("file", other), tool("file_ask", other, asks), tool("runs_jp", other, delegates, command)),
			Permit: func(context.Context, Tool, Call) (Decision, error) { return Decision{Allow: true}, nil },
		}
		var list []Call
		for i, name := range []string{"file", "file", "file", "runs_jp", "file", "file_ask", "file_ask", "file_ask", "file_ask"} {
			list = append(list, Call{ID: fmt.Sprint(i), Name: name})
		}
		for i := range agents {
			list = append(list, Call{ID: fmt.Sprint("agent", i), Name: []string{"agent", "agent_ask"}[i%2]})
		}

		var got map[string]Result
		var run sync.WaitGroup
		run.Go(func() { got = runAll(t, e, t.Context(), list...) })
		for ended := range others {
			synctest.Wait()
			if n, want := int(othersNow.Load()), min(parallel, others-ended); n != want {
				t.Errorf("after %d others, %d run at once, want %d", ended, n, want)
			}
			if n := agentsNow.Load(); n != agents {
				t.Errorf("after %d others, %d sub-agents run at once, want %d", ended, n, agents)
			}
			next <- true
		}
		close(end)
		run.Wait()
		slices.Sort(order[:parallel]) // these began together
		if want := "0 1 2 3 4 5 6 7 8"; strings.Join(order, " ") != want {
			t.Errorf("the others began in the order %v, want %s", order, want)
		}
		for _, c := range list {
			if got[c.ID].Text != c.ID {
				t.Errorf("result of %s = %+v", c.ID, got[c.ID])
			}
		}
	})
}

// A batch that is cancelled while a call is checked checks no further calls: each check may wait for
// a file system that does not answer.
func TestExecutorCancelledWhileItChecks(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	checked := 0
	read := tool("read", func(context.Context, Call) (Result, error) { return Result{Text: "read"}, nil })
	read.Check = func(context.Context, Call) error {
		checked++
		cancel()
		return nil
	}
	got := runAll(t, Executor{Set: setOf(t, read)}, ctx, Call{ID: "a", Name: "read"}, Call{ID: "b", Name: "read"}, Call{ID: "c", Name: "read"})
	for id, r := range got {
		if want := "error: cancelled before it ran: context canceled"; r.Text != want {
			t.Errorf("result of %s = %q, want %q", id, r.Text, want)
		}
	}
	if checked != 1 || len(got) != 3 {
		t.Errorf("%d calls were checked, %d have a result, want 1 and 3", checked, len(got))
	}
}

func TestExecutorTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		starts := tool("starts", func(ctx context.Context, _ Call) (Result, error) { return Result{Text: "started"}, ctx.Err() },
			func(d *Definition) { d.Timeout = time.Second })
		starts.Ready = func(context.Context) error { time.Sleep(time.Hour); return nil }
		fails := tool("fails", say(""))
		fails.Ready = func(context.Context) error { return errors.New("no start") }
		e := Executor{Set: setOf(t, starts, fails,
			tool("slow", func(ctx context.Context, _ Call) (Result, error) {
				<-ctx.Done()
				return Result{Text: "so far"}, ctx.Err()
			}, func(d *Definition) { d.Timeout = time.Minute }),
			// Waiting for leave does not count, nor for what makes the tool ready.
			tool("waits", func(ctx context.Context, _ Call) (Result, error) { return Result{Text: "ran"}, ctx.Err() },
				func(d *Definition) { d.Timeout = time.Second }),
		)}
		e.Permit = func(_ context.Context, tl Tool, _ Call) (Decision, error) {
			if tl.Name == "waits" {
				time.Sleep(time.Hour)
			}
			return Decision{Allow: true}, nil
		}
		begin := time.Now()
		got := runAll(t, e, t.Context(), Call{ID: "1", Name: "slow"}, Call{ID: "3", Name: "starts"}, Call{ID: "4", Name: "fails"}, Call{ID: "2", Name: "waits"})
		if want := (Result{Text: "error: stopped after 1m0s (timeout)\nso far", IsError: true}); got["1"] != want {
			t.Errorf("slow = %+v, want %+v", got["1"], want)
		}
		if want := (Result{Text: "ran"}); got["2"] != want {
			t.Errorf("waits = %+v, want %+v", got["2"], want)
		}
		if want := (Result{Text: "started"}); got["3"] != want {
			t.Errorf("starts = %+v, want %+v", got["3"], want)
		}
		if want := (Result{Text: "error: no start", IsError: true}); got["4"] != want {
			t.Errorf("fails = %+v, want %+v", got["4"], want)
		}
		if d := time.Since(begin); d != time.Hour {
			t.Errorf("took %v, want the hour of the answer", d)
		}
	})
}

func TestExecutorCancelled(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	looked := make(chan bool) // closed when the unknown tool was looked for
	absent := func(string) string { close(looked); return "" }
	e := Executor{Parallel: 2, Absent: absent, Set: setOf(t, tool("t", func(ctx context.Context, c Call) (Result, error) {
		if c.ID == "2" {
			<-looked
			cancel(errors.New("enough"))
		}
		<-ctx.Done()
		return Result{}, ctx.Err()
	}))}
	got := runAll(t, e, ctx, Call{ID: "1", Name: "t"}, Call{ID: "2", Name: "t"}, Call{ID: "3", Name: "t"}, Call{ID: "4", Name: "nope"})
	for id, want := range map[string]Result{
		"1": {Text: "error: interrupted, may have run: enough", IsError: true},
		"2": {Text: "error: interrupted, may have run: enough", IsError: true},
		"3": {Text: "error: cancelled before it ran: enough", IsError: true, Refused: true},
		"4": {Text: `error: unknown tool "nope"`, IsError: true, Refused: true},
	} {
		if got[id] != want {
			t.Errorf("call %s = %+v, want %+v", id, got[id], want)
		}
	}
}

// A consumer that stops early gets nothing more, and nothing goes on behind its back.
func TestExecutorStoppedEarly(t *testing.T) {
	var running, ran atomic.Int32
	e := Executor{Parallel: 4, Set: setOf(t, tool("t", func(ctx context.Context, c Call) (Result, error) {
		running.Add(1)
		defer running.Add(-1)
		ran.Add(1)
		if c.ID == "0" {
			return Result{}, nil
		}
		<-ctx.Done()
		return Result{}, ctx.Err()
	}))}
	var list []Call
	for i := range 20 {
		list = append(list, Call{ID: fmt.Sprint(i), Name: "t"})
	}
	n := 0
	for range e.Run(t.Context(), list) {
		n++
		break
	}
	if n != 1 || running.Load() != 0 || ran.Load() == 20 {
		t.Errorf("%d results, %d still running, %d ran at all", n, running.Load(), ran.Load())
	}
}

// Leave is asked for in call order, one call after another, and those that need no answer do not
// wait for one.
func TestExecutorPermitOrder(t *testing.T) {
	release := make(chan bool)
	var asked []string
	e := Executor{
		Set: setOf(t, tool("free", func(context.Context, Call) (Result, error) { close(release); return Result{}, nil }),
			tool("asks", say("ran"), func(d *Definition) { d.Run = RunAsk })),
		Permit: func(_ context.Context, tl Tool, c Call) (Decision, error) {
			if tl.Run == RunUnattended {
				return Decision{Allow: true}, nil
			}
			<-release
			asked = append(asked, c.ID)
			switch c.ID {
			case "2":
				return Decision{Reason: "because"}, nil
			case "3":
				return Decision{Allow: true}, errors.New("no terminal")
			case "4":
				panic("oops")
			case "5":
				return Decision{}, nil
			}
			return Decision{Allow: true}, nil
		},
	}
	var list []Call
	for i := range 6 {
		list = append(list, Call{ID: fmt.Sprint(i), Name: "asks"})
	}
	got := runAll(t, e, t.Context(), append(list, Call{ID: "f", Name: "free"})...)
	if want := []string{"0", "1", "2", "3", "4", "5"}; !slices.Equal(asked, want) {
		t.Errorf("asked for %v, want %v", asked, want)
	}
	for id, want := range map[string]Result{
		"0": {Text: "ran"}, "1": {Text: "ran"}, "f": {},
		"2": {Text: "error: refused: because", IsError: true, Refused: true},
		"3": {Text: "error: no permission to run: no terminal", IsError: true, Refused: true},
		"4": {Text: "error: no permission to run: panic: oops", IsError: true, Refused: true},
		"5": {Text: "error: refused: not allowed to run", IsError: true, Refused: true},
	} {
		if got[id] != want {
			t.Errorf("call %s = %+v, want %+v", id, got[id], want)
		}
	}
}

// However many and large the results are, together they stay below the bound, and a small one
// always has its say.
func TestExecutorBatchBytes(t *testing.T) {
	large := strings.Repeat("x", 50_000)
	e := Executor{BatchBytes: 100_000, Set: setOf(t, tool("large", say(large), func(d *Definition) { d.SizeThreshold = 60_000 }),
		tool("small", func(context.Context, Call) (Result, error) { return Result{}, errors.New("a reason") }))}
	for _, n := range []int{1, 2, 3, 30, 200} {
		var list []Call
		for i := range n {
			list = append(list, Call{ID: fmt.Sprint(i), Name: "large"})
		}
		got := runAll(t, e, t.Context(), append(list, Call{ID: "s", Name: "small"})...)
		total, whole := 0, 0
		for _, r := range got {
			total += len(r.Text)
			if r.Text == large {
				whole++
			}
		}
		if total > 100_000 || n == 1 && whole != 1 {
			t.Errorf("%d results have %d bytes, %d are whole", n, total, whole)
		}
		if n <= 30 && got["s"].Text != "error: a reason" {
			t.Errorf("beside %d large results the small one = %q", n, got["s"].Text)
		}
	}
}

func TestExecutorStarted(t *testing.T) {
	var mu sync.Mutex
	var ids []string
	e := Executor{
		Set: setOf(t, tool("t", say("")), tool("d", say(""), func(d *Definition) { d.Run = RunDeny })),
		Started: func(c Call) {
			mu.Lock()
			defer mu.Unlock()
			ids = append(ids, c.ID+string(c.Arguments))
		},
	}
	runAll(t, e, t.Context(), Call{"1", "t", json.RawMessage(`{"a": 1}`)}, Call{ID: "2", Name: "d"}, Call{ID: "3", Name: "none"})
	if want := []string{`1{"a": 1}`}; !slices.Equal(ids, want) {
		t.Errorf("Started was told %q, want %q", ids, want)
	}
}

// TestExecutorAround: each call runs in the context that it was given, and its result is told, also
// of one that is not run and after the consumer has stopped.
func TestExecutorAround(t *testing.T) {
	type key struct{}
	var begun, told []string
	e := Executor{
		Set: setOf(t,
			tool("where", func(ctx context.Context, _ Call) (Result, error) { return Result{Text: ctx.Value(key{}).(string)}, nil },
				func(d *Definition) { d.Parallel = false }),
			tool("asks", say("never"), func(d *Definition) { d.Run = RunAsk })),
		Around: func(ctx context.Context, tl Tool, c Call) (context.Context, func(Result)) {
			begun = append(begun, c.ID+" of "+tl.Source)
			return context.WithValue(ctx, key{}, "within "+c.ID), func(r Result) { told = append(told, fmt.Sprintf("%s: %.9s %v", c.ID, r.Text, r.Refused)) }
		},
	}
	for range e.Run(t.Context(), []Call{{ID: "1", Name: "where"}, {ID: "2", Name: "asks"}, {ID: "3", Name: "none"}, {ID: "4", Name: "where"}}) {
		if len(told) == 0 {
			t.Error("a result is yielded that was not told")
		}
	}
	if want := []string{"1 of local", "2 of local", "3 of ", "4 of local"}; !slices.Equal(begun, want) {
		t.Errorf("begun = %q, want %q", begun, want)
	}
	slices.Sort(told)
	if want := []string{"1: within 1 false", "2: error: re true", "3: error: un true", "4: within 4 false"}; !slices.Equal(told, want) {
		t.Errorf("told = %q, want %q", told, want)
	}
	begun, told = nil, nil
	for range e.Run(t.Context(), []Call{{ID: "1", Name: "none"}, {ID: "2", Name: "where"}}) {
		break
	}
	if len(begun) != 2 || len(told) != 2 {
		t.Errorf("a consumer that stops: begun %q, told %q", begun, told)
	}
}

func TestBound(t *testing.T) {
	for _, tt := range []struct {
		in    string
		limit int
		want  string
	}{
		{"", 0, ""},
		{"abc", 3, "abc"},
		{strings.Repeat("a", 100), 60, strings.Repeat("a", 12) + "\n[truncated: 100 B -> 12 B, full output: ask me]"},
		{strings.Repeat("€", 100), 60, strings.Repeat("€", 4) + "\n[truncated: 300 B -> 12 B, full output: ask me]"},
		{strings.Repeat("a", 100), 20, "[truncated]"},
		{strings.Repeat("a", 100), 5, "[trun"},
		{strings.Repeat("a", 100), 0, ""},
	} {
		got := bound(tt.in, tt.limit, "ask me")
		if got != tt.want || len(got) > tt.limit {
			t.Errorf("bound(%d bytes, %d) = %q, want %q", len(tt.in), tt.limit, got, tt.want)
		}
	}
}
