package agent

import (
	"strconv"

	"jp/convstore"
)

// paired is a stored call with its result, as a model is sent them.
type paired struct {
	call   convstore.ToolCall
	id     string // id that no other call of the thread has
	result convstore.ToolResult
	turn   int  // turn of the result
	shared bool // whether other calls have the id with which it is stored
}

// stubbable reports whether a stub may stand for the result: it is long enough, and the id by which a
// compaction names the call names no other.
func (p paired) stubbable() bool { return !p.shared && len(p.result.Text) >= stubLeast }

// pairs returns each call among the events with its result, by the index of the call. A call
// without a result gets one that says so.
//
// An imported conversation may have several calls with the same id: some servers count calls again
// from 1 in each reply. Then a result belongs to the first call of the reply before it that has
// none yet, and all but the first of those calls are sent under another id.
func pairs(events []convstore.Event, begins []bool) map[int]paired {
	times := map[string]int{}      // number of calls with an id
	results := map[string]paired{} // last result with an id
	for _, ev := range events {
		switch b := ev.Body.(type) {
		case convstore.ToolCall:
			times[b.ID]++
		case convstore.ToolResult:
			results[b.ID] = paired{result: b, turn: ev.Turn}
		}
	}
	list := make(map[int]paired, len(times))
	taken := map[string]bool{}    // ids that are sent
	again := map[string]int{}     // number of ids that were tried for further calls with an id
	waiting := map[string][]int{} // indexes of the calls of this reply whose id other calls have
	for i, ev := range events {
		if begins[i] {
			clear(waiting)
		}
		switch b := ev.Body.(type) {
		case convstore.ToolCall:
			p := paired{call: b, id: b.ID, result: convstore.ToolResult{Text: interrupted, IsError: true}, shared: times[b.ID] > 1}
			if r, ok := results[b.ID]; ok && !p.shared {
				p.result, p.turn = r.result, r.turn
			}
			for free := p.id != "" && !taken[p.id]; !free; free = times[p.id] == 0 && !taken[p.id] {
				again[b.ID]++
				p.id = b.ID + "-" + strconv.Itoa(again[b.ID]+1)
			}
			taken[p.id] = true
			list[i] = p
			if p.shared {
				waiting[b.ID] = append(waiting[b.ID], i)
			}
		case convstore.ToolResult:
			if places := waiting[b.ID]; len(places) > 0 {
				p := list[places[0]]
				p.result, p.turn = b, ev.Turn
				list[places[0]], waiting[b.ID] = p, places[1:]
			}
		}
	}
	return list
}
