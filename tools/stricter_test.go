package tools

import "testing"

func TestWithLeaveOf(t *testing.T) {
	type leave struct {
		run      RunMode
		result   ResultMode
		detached DetachedMode
	}
	for _, c := range []struct{ of, own, want leave }{
		{leave{}, leave{}, leave{RunAsk, ResultUnattended, DetachedDeny}},
		{leave{RunUnattended, ResultUnattended, DetachedAuto}, leave{}, leave{RunAsk, ResultUnattended, DetachedDeny}},
		{leave{RunUnattended, ResultUnattended, DetachedAuto}, leave{RunAsk, ResultAsk, DetachedDefaults}, leave{RunAsk, ResultAsk, DetachedDefaults}},
		{leave{RunAsk, ResultAsk, DetachedDeny}, leave{RunUnattended, ResultUnattended, DetachedAuto}, leave{RunAsk, ResultAsk, DetachedDeny}},
		{leave{RunUnattended, "", DetachedAuto}, leave{RunUnattended, "", DetachedAuto}, leave{RunUnattended, ResultUnattended, DetachedAuto}},
		{leave{RunDeny, "", ""}, leave{RunAsk, "", ""}, leave{RunDeny, ResultUnattended, DetachedDeny}},
		{leave{"other", "other", "other"}, leave{RunUnattended, "", DetachedAuto}, leave{RunDeny, ResultAsk, DetachedDeny}},
	} {
		def := func(l leave) Definition {
			return Definition{Run: l.run, Result: l.result, Detached: Detached{l.detached, l.detached, l.detached}}
		}
		got := def(c.of).WithPermissionsOf(def(c.own))
		if want := def(c.want); got.Run != want.Run || got.Result != want.Result || got.Detached != want.Detached {
			t.Errorf("%v.WithPermissionsOf(%v) = %v %v %v, want %v", c.of, c.own, got.Run, got.Result, got.Detached, c.want)
		}
	}
}

// TestLeave: what a store keeps of a definition's leave narrows as the definition does; what it
// cannot read gives none.
func TestLeave(t *testing.T) {
	ask := Definition{Run: RunAsk, Result: ResultAsk, Detached: Detached{Run: DetachedAuto}}
	free := Definition{Run: RunUnattended, Detached: Detached{DetachedAuto, DetachedAuto, DetachedAuto}}
	for _, c := range []struct {
		leave string
		want  string
		runs  bool
	}{
		{"", "unattended unattended auto auto auto", false},
		{free.Permissions(), "unattended unattended auto auto auto", true},
		{ask.Permissions(), "ask ask auto deny deny", true},
		{Definition{}.Permissions(), "ask unattended deny deny deny", false},
		{Definition{Run: RunDeny}.Permissions(), "deny unattended deny deny deny", false},
		{"unattended", "deny unattended deny deny deny", false},
		{"later ask auto auto auto", "deny ask auto auto auto", false},
	} {
		if got := free.WithPermissions(c.leave).Permissions(); got != c.want {
			t.Errorf("WithPermissions(%q) = %q, want %q", c.leave, got, c.want)
		}
		if got := StricterPermissions(free.Permissions(), c.leave); got != c.want {
			t.Errorf("StricterPermissions(%q) = %q, want %q", c.leave, got, c.want)
		}
		if got := RunsUnasked(c.leave); got != c.runs {
			t.Errorf("RunsUnasked(%q) = %v, want %v", c.leave, got, c.runs)
		}
	}
}
