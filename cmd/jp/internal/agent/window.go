package agent

import "jp/convstore"

// window returns the index of the first event of the last turn and of at most n turns before it. 0
// = all.
func window(events []convstore.Event, n int) int {
	if n <= 0 {
		return 0
	}
	for i := len(events) - 1; i >= 0; i-- {
		if _, ok := events[i].Body.(convstore.TurnStart); !ok {
			continue
		}
		if n == 0 {
			return i
		}
		n--
	}
	return 0
}
