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
		got := def(c.of).WithLeaveOf(def(c.own))
		if want := def(c.want); got.Run != want.Run || got.Result != want.Result || got.Detached != want.Detached {
			t.Errorf("%v.WithLeaveOf(%v) = %v %v %v, want %v", c.of, c.own, got.Run, got.Result, got.Detached, c.want)
		}
	}
}
