package tools

import (
	"cmp"
	"slices"
	"strings"
)

// WithPermissionsOf returns d with the permissions of own where they are stricter: for runs, for
// results, and for each kind of question that nobody can answer.
func (d Definition) WithPermissionsOf(own Definition) Definition {
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

// Permissions returns the permissions of d as words that a store can hold: run, result, and
// detached for the three kinds of questions.
func (d Definition) Permissions() string {
	detached := func(m DetachedMode) string { return string(cmp.Or(m, DetachedDeny)) }
	return strings.Join([]string{
		string(cmp.Or(d.Run, RunAsk)), string(cmp.Or(d.Result, ResultUnattended)),
		detached(d.Detached.Run), detached(d.Detached.Deliver), detached(d.Detached.Tool),
	}, " ")
}

// permissionsOf reads what Permissions has returned. What it cannot read is denied.
func permissionsOf(permissions string) (d Definition) {
	w := strings.Fields(permissions)
	if len(w) != 5 {
		return Definition{Run: RunDeny}
	}
	d.Run, d.Result = RunMode(w[0]), ResultMode(w[1])
	d.Detached = Detached{Run: DetachedMode(w[2]), Deliver: DetachedMode(w[3]), Tool: DetachedMode(w[4])}
	return d
}

// WithPermissions is WithPermissionsOf for permissions that were stored; "" returns d unchanged.
func (d Definition) WithPermissions(permissions string) Definition {
	if permissions == "" {
		return d
	}
	return d.WithPermissionsOf(permissionsOf(permissions))
}

// StricterPermissions returns the stricter of both in each word; "" is as strict as nothing.
func StricterPermissions(a, b string) string {
	if a == "" || b == "" {
		return cmp.Or(a, b)
	}
	return permissionsOf(a).WithPermissions(b).Permissions()
}

// RunsUnasked reports whether a tool with these stored permissions can run where nobody can be
// asked.
func RunsUnasked(permissions string) bool {
	d := permissionsOf(permissions)
	return d.Run == RunUnattended || d.Run == RunAsk && d.Detached.Run == DetachedAuto
}

// stricter returns the one of a and b that comes first in order, which has the strictest first. A
// word that order does not have counts as the first.
func stricter[M ~string](order []M, a, b M) M {
	return order[max(0, min(slices.Index(order, a), slices.Index(order, b)))]
}
