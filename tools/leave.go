package tools

import (
	"cmp"
	"slices"
	"strings"
)

// WithLeaveOf returns d with no more leave to run and to deliver than own gives: of each the stricter of both, and so of what
// happens to a question that nobody can answer.
func (d Definition) WithLeaveOf(own Definition) Definition {
	runs, results := []RunMode{RunDeny, RunAsk, RunUnattended}, []ResultMode{ResultAsk, ResultUnattended}
	d.Run = stricter(runs, cmp.Or(d.Run, RunAsk), cmp.Or(own.Run, RunAsk))
	d.Result = stricter(results, cmp.Or(d.Result, ResultUnattended), cmp.Or(own.Result, ResultUnattended))
	detached := func(a, b DetachedMode) DetachedMode {
		return stricter([]DetachedMode{DetachedDeny, DetachedDefaults, DetachedAuto}, cmp.Or(a, DetachedDeny), cmp.Or(b, DetachedDeny))
	}
	d.Detached = Detached{
		Run:     detached(d.Detached.Run, own.Detached.Run),
		Deliver: detached(d.Detached.Deliver, own.Detached.Deliver),
		Tool:    detached(d.Detached.Tool, own.Detached.Tool),
	}
	return d
}

// Leave returns the leave of d in words that a store can keep: run, result, and detached of the three kinds of questions.
func (d Definition) Leave() string {
	detached := func(m DetachedMode) string { return string(cmp.Or(m, DetachedDeny)) }
	return strings.Join([]string{
		string(cmp.Or(d.Run, RunAsk)), string(cmp.Or(d.Result, ResultUnattended)),
		detached(d.Detached.Run), detached(d.Detached.Deliver), detached(d.Detached.Tool),
	}, " ")
}

// leaveOf reads what Leave returned. Of what it cannot read nothing is given.
func leaveOf(leave string) (d Definition) {
	w := strings.Fields(leave)
	if len(w) != 5 {
		return Definition{Run: RunDeny}
	}
	d.Run, d.Result = RunMode(w[0]), ResultMode(w[1])
	d.Detached = Detached{Run: DetachedMode(w[2]), Deliver: DetachedMode(w[3]), Tool: DetachedMode(w[4])}
	return d
}

// WithLeave is WithLeaveOf of a definition whose leave was kept; "" keeps d as it is.
func (d Definition) WithLeave(leave string) Definition {
	if leave == "" {
		return d
	}
	return d.WithLeaveOf(leaveOf(leave))
}

// StricterLeave returns the stricter of both in each word; "" is as strict as nothing.
func StricterLeave(a, b string) string {
	if a == "" || b == "" {
		return cmp.Or(a, b)
	}
	return leaveOf(a).WithLeave(b).Leave()
}

// RunsUnasked reports whether a tool of this leave can run where nobody can be asked.
func RunsUnasked(leave string) bool {
	d := leaveOf(leave)
	return d.Run == RunUnattended || d.Run == RunAsk && d.Detached.Run == DetachedAuto
}

// stricter is the one of a and b that stands first in order, which has the strictest first; it is that one too where order
// does not have them.
func stricter[M ~string](order []M, a, b M) M {
	return order[max(0, min(slices.Index(order, a), slices.Index(order, b)))]
}
