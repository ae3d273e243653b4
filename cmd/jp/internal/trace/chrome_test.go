package trace

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"jp/cmd/jp/internal/term"
)

// event is one of the format's document: fields that were not written are nil.
type event struct {
	Name *string         `json:"name"`
	Cat  *string         `json:"cat"`
	Ph   string          `json:"ph"`
	Ts   *int64          `json:"ts"`
	Dur  *int64          `json:"dur"`
	Pid  *int            `json:"pid"`
	Tid  *int            `json:"tid"`
	ID   *int            `json:"id"`
	Bp   string          `json:"bp"`
	Args json.RawMessage `json:"args"`
}

func chromeEvents(t *testing.T, tr *Trace) []event {
	t.Helper()
	var b bytes.Buffer
	if err := tr.Chrome(&b); err != nil {
		t.Fatal(err)
	}
	if text := b.String(); strings.TrimSuffix(term.Clean(text), "\n") != strings.TrimSuffix(text, "\n") {
		t.Errorf("what Chrome wrote acts on a terminal: %q", text)
	}
	var doc struct {
		TraceEvents []event `json:"traceEvents"`
		Unit        string  `json:"displayTimeUnit"`
	}
	if err := json.Unmarshal(b.Bytes(), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.Unit != "ms" {
		t.Errorf("displayTimeUnit = %q, want ms", doc.Unit)
	}
	return doc.TraceEvents
}

// checkChrome holds events to what the format's document says of each phase, and to what a viewer
// needs: named processes and threads, slices of a thread that nest, flows with two ends that lie on
// slices.
func checkChrome(t *testing.T, events []event) {
	t.Helper()
	type thread struct{ pid, tid int }
	named := map[thread]bool{}
	processes := map[int]bool{}
	stacks := map[thread][]int64{} // ends of the open slices
	starts := map[thread]map[int64]bool{}
	flows := map[int]string{}
	var last int64
	for i, e := range events {
		if e.Name == nil || e.Pid == nil || e.Tid == nil || e.Ts == nil || *e.Ts < 0 {
			t.Fatalf("event %d: lacks a field: %+v", i, e)
		}
		at := thread{*e.Pid, *e.Tid}
		if e.Ph != "M" {
			if *e.Ts < last {
				t.Errorf("event %d: not in order of time", i)
			}
			last = *e.Ts
			if !processes[at.pid] || !named[at] {
				t.Errorf("event %d: on a process or thread without a name: %+v", i, at)
			}
		}
		switch e.Ph {
		case "M":
			var args struct {
				Name      *string `json:"name"`
				SortIndex *int    `json:"sort_index"`
			}
			if err := json.Unmarshal(e.Args, &args); err != nil {
				t.Fatal(err)
			}
			switch *e.Name {
			case "process_name":
				processes[at.pid] = args.Name != nil
			case "thread_name":
				named[at] = args.Name != nil
			case "process_sort_index":
				if args.SortIndex == nil {
					t.Errorf("event %d: no sort_index", i)
				}
			default:
				t.Errorf("event %d: metadata %q", i, *e.Name)
			}
		case "X", "B":
			end := int64(1 << 60)
			if e.Ph == "X" {
				if e.Dur == nil || *e.Dur < 0 {
					t.Fatalf("event %d: no duration", i)
				}
				end = *e.Ts + *e.Dur
			} else if e.Dur != nil {
				t.Errorf("event %d: a B with a duration", i)
			}
			stack := stacks[at]
			for len(stack) > 0 && stack[len(stack)-1] <= *e.Ts {
				stack = stack[:len(stack)-1]
			}
			if len(stack) > 0 && end > stack[len(stack)-1] {
				t.Errorf("event %d: %s overlaps another slice of its thread", i, *e.Name)
			}
			stacks[at] = append(stack, end)
			if starts[at] == nil {
				starts[at] = map[int64]bool{}
			}
			starts[at][*e.Ts] = true
		case "s", "f":
			if e.ID == nil || e.Cat == nil || !starts[at][*e.Ts] {
				t.Errorf("event %d: an end of a flow without id, category or slice: %+v", i, e)
				continue
			}
			if e.Ph == "f" && e.Bp != "e" {
				t.Errorf("event %d: bp = %q, want e", i, e.Bp)
			}
			flows[*e.ID] += e.Ph
		default:
			t.Errorf("event %d: phase %q", i, e.Ph)
		}
	}
	for id, ends := range flows {
		if ends != "sf" {
			t.Errorf("flow %d has the ends %q, want s before f", id, ends)
		}
	}
}

func TestChrome(t *testing.T) {
	events := chromeEvents(t, build(t, newTree(hostile)))
	checkChrome(t, events)
	var got []string
	for _, e := range events {
		if e.Ph != "M" {
			line := fmt.Sprintf("%s %d.%d %d", e.Ph, *e.Pid, *e.Tid, *e.Ts)
			if e.Dur != nil {
				line += fmt.Sprintf("+%d", *e.Dur)
			}
			got = append(got, line+" "+*e.Name)
		}
	}
	want := []string{
		"X 1.1 0+6000000 turn 1",
		"X 1.1 100000+900000 p/main",
		"X 1.3 1100000+3800000 jp_query agent/r",
		"X 1.2 1100000+2800000 jp_query agent/r",
		"s 1.2 1100000 delegation",
		"s 1.3 1100000 delegation",
		"X 3.1 1200000+3700000 turn",
		"X 2.1 1200000+2700000 turn",
		"f 2.1 1200000 delegation",
		"f 3.1 1200000 delegation",
		"X 2.1 1300000+1000000 p/small",
		"X 2.2 2300000+500000 fs_read_file",
		"X 2.1 2900000+900000 p/small",
		"X 1.1 5000000+1000000 p/main",
		"X 1.1 7000000+1000000 turn 2",
	}
	if a, b := strings.Join(got, "\n"), strings.Join(want, "\n"); a != b {
		t.Errorf("Chrome:\n%s\nwant\n%s", a, b)
	}

	running := newTree("x")
	running.Conversation.Status, running.Conversation.Turns = "running", 1
	running.events[rootID] = running.events[rootID][:5]
	events = chromeEvents(t, build(t, running))
	checkChrome(t, events)
	begun := 0
	for _, e := range events {
		if e.Ph == "B" {
			begun++
		}
	}
	if begun != 1 { // its calls are delegations, which have ended
		t.Errorf("%d slices without an end, want 1", begun)
	}
}
