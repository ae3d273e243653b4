package tools

import (
	"cmp"
	"slices"
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

// stricter is the one of a and b that stands first in order, which has the strictest first; it is that one too where order
// does not have them.
func stricter[M ~string](order []M, a, b M) M {
	return order[max(0, min(slices.Index(order, a), slices.Index(order, b)))]
}
