package agent

import "jp/convstore"

// window leaves out the oldest turns: it keeps the present one and at most n before it. 0 keeps all. It cuts at the
// beginning of a turn, so that no result stands without its call.
func window(events []convstore.Event, n int) []convstore.Event {
	if n <= 0 {
		return events
	}
	for i := len(events) - 1; i >= 0; i-- {
		if _, ok := events[i].Body.(convstore.TurnStart); !ok {
			continue
		}
		if n == 0 {
			return events[i:]
		}
		n--
	}
	return events
}
