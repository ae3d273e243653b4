package trace

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"time"

	"jp/cmd/jp/internal/term"
)

// The Trace Event Format, as far as it is written here: Google's document "Trace Event Format"
// (2016), which Perfetto and chrome://tracing read. Times are microseconds from the start of the
// trace.
type chromeEvent struct {
	Name     string         `json:"name"`
	Category string         `json:"cat,omitempty"`
	Phase    string         `json:"ph"` // X complete, B begun and not ended, M metadata, s and f the ends of a flow
	Time     int64          `json:"ts"`
	Duration *int64         `json:"dur,omitempty"`
	Process  int            `json:"pid"`
	Thread   int            `json:"tid"`
	ID       int            `json:"id,omitempty"`
	Bind     string         `json:"bp,omitempty"`
	Args     map[string]any `json:"args,omitempty"`
}

// lanes gives spans that overlap threads of their own: a thread holds only what nests.
type lanes struct{ ends []time.Time }

func (l *lanes) take(s *Span) int {
	for i, end := range l.ends {
		if !end.After(s.Start) {
			l.ends[i] = s.until
			return i
		}
	}
	l.ends = append(l.ends, s.until)
	return len(l.ends) - 1
}

// Chrome writes the trace in the Trace Event Format: a process for each conversation, its first
// thread for turns and model calls, the others for tool calls and delegations, as many as overlap,
// and an arrow from a delegation to the turn that it ran.
func (t *Trace) Chrome(w io.Writer) error {
	const main, first = 1, 2 // threads
	events := []chromeEvent{}
	at := func(x time.Time) int64 { return x.Sub(t.Start).Microseconds() }
	pids := map[string]int{}
	tools := map[int]*lanes{}
	threads := map[[2]int]bool{}
	meta := func(name string, pid, tid int, args map[string]any) {
		events = append(events, chromeEvent{Name: name, Phase: "M", Process: pid, Thread: tid, Args: args})
	}
	process := func(id, name string) int {
		pid, ok := pids[id]
		if !ok {
			pid = len(pids) + 1
			pids[id] = pid
			tools[pid] = &lanes{}
			meta("process_name", pid, 0, map[string]any{"name": id + " " + name})
			meta("process_sort_index", pid, 0, map[string]any{"sort_index": pid})
		}
		return pid
	}
	thread := func(pid, tid int, name string) int {
		if !threads[[2]int{pid, tid}] {
			threads[[2]int{pid, tid}] = true
			meta("thread_name", pid, tid, map[string]any{"name": name})
		}
		return tid
	}
	slice := func(s *Span, name string, pid, tid int, from time.Time) {
		e := chromeEvent{Name: name, Category: s.Kind, Phase: "X", Time: at(from), Process: pid, Thread: tid, Args: s.args()}
		if s.End == nil {
			e.Phase = "B"
		} else {
			e.Duration = new(int64)
			*e.Duration = max(0, at(s.until)-at(from))
		}
		events = append(events, e)
	}
	flow := 0
	for _, s := range t.Spans {
		name := ""
		if s.Kind == Delegation {
			name = s.Name
		} else if s.parent == nil {
			name = t.Title
		}
		pid := process(s.Conversation.String(), name)
		switch s.Kind {
		case Turn, ModelCall:
			slice(s, s.Name, pid, thread(pid, main, "turns"), s.Start)
		case ToolCall:
			slice(s, s.Name, pid, thread(pid, first+tools[pid].take(s), "tools"), s.Start)
		case Delegation:
			begun := s.Start
			if s.Run.Begun != nil && !s.Run.Begun.Before(s.Start) && !s.Run.Begun.After(s.until) {
				begun = *s.Run.Begun
			}
			slice(s, "turn", pid, thread(pid, main, "turns"), begun)
			if s.parent == nil {
				continue
			}
			caller := process(s.parent.Conversation.String(), "")
			tid := thread(caller, first+tools[caller].take(s), "tools")
			slice(s, cmp.Or(s.Run.Tool, Delegation)+" "+s.Name, caller, tid, s.Start)
			flow++
			events = append(events,
				chromeEvent{Name: Delegation, Category: Delegation, Phase: "s", Time: at(s.Start), Process: caller, Thread: tid, ID: flow},
				chromeEvent{Name: Delegation, Category: Delegation, Phase: "f", Bind: "e", Time: at(begun), Process: pid, Thread: main, ID: flow})
		}
	}
	// Metadata first, then by time; of two that begin together the longer one holds the other.
	length := func(e chromeEvent) int64 {
		if e.Duration == nil && e.Phase == "B" {
			return 1 << 62
		}
		if e.Duration == nil {
			return -1
		}
		return *e.Duration
	}
	slices.SortStableFunc(events, func(a, b chromeEvent) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a.Time, b.Time), cmp.Compare(length(b), length(a)))
	})
	doc, err := json.Marshal(map[string]any{
		"traceEvents": events, "displayTimeUnit": "ms",
		"otherData": map[string]any{"conversation_id": t.ID.String(), "title": t.Title, "started_at": t.Start},
	})
	if err != nil {
		return fmt.Errorf("trace: %w", err)
	}
	_, err = w.Write(append(term.EscapeJSON(doc), '\n'))
	return err
}

func rank(e chromeEvent) int {
	if e.Phase == "M" {
		return 0
	}
	return 1
}

// args are what Perfetto shows of a slice.
func (s *Span) args() map[string]any {
	m := map[string]any{"id": s.ID, "conversation_id": s.Conversation.String(), "turn": s.TurnNumber, "state": s.State}
	for k, v := range map[string]string{"reason": s.Reason, "input": s.Input, "output": s.Output, "stop": s.Stop} {
		if v != "" {
			m[k] = v
		}
	}
	if s.Tokens > 0 {
		m["tokens"] = s.Tokens
		m["cost_usd"] = s.CostUSD
	}
	if s.Run != nil {
		m["delegation"] = s.Run
	}
	return m
}
