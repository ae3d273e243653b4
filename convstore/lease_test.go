package convstore

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"
)

// TestLease lets the owner of a run on another machine die: the conversation is busy until the
// lease is over, however often it is tried, and a call whose child had not begun gets another
// child.
func TestLease(t *testing.T) {
	ctx := context.Background()
	now := time.Now()
	st := openStoreIn(t, filepath.Join(memoryDir(t), "store"), Options{Now: func() time.Time { return now }})
	root, err := st.Create(ctx, New{Config: Config{JSON: []byte("{}")}})
	if err != nil {
		t.Fatal(err)
	}
	scope, err := st.Below(ctx, root.ID)
	if err != nil {
		t.Fatal(err)
	}
	reserve := func(child Child) (*Reservation, error) {
		rs, err := scope.Reserve(ctx, func(Standing) ([]Child, error) { return []Child{child}, nil })
		if err != nil {
			return nil, err
		}
		return rs[0], nil
	}
	begin := func(call string, lease time.Duration, turn bool) ID {
		r, err := reserve(Child{Call: call, Config: Config{JSON: []byte("{}")}})
		if err != nil {
			t.Fatal(err)
		}
		if err := scope.Lease(ctx, r, "gpu1", lease); err != nil {
			t.Fatal(err)
		}
		if turn {
			log, err := scope.Log(ctx, r)
			if err != nil {
				t.Fatal(err)
			}
			if err := log.Append(ctx, Event{Body: TurnStart{}}, Event{Body: UserMessage{Text: "?"}}); err != nil {
				t.Fatal(err)
			}
			log.Close()
		}
		if err := r.Release(); err != nil { // as when the process dies
			t.Fatal(err)
		}
		return r.Child.ID
	}
	far := begin("far", time.Hour, true)
	for i := range 3 {
		_, err := reserve(Child{Call: "again", ID: far})
		var busy *BusyError
		if !errors.As(err, &busy) || busy.ID != far || busy.Away <= 59*time.Minute || busy.Away > time.Hour {
			t.Fatalf("try %d: %v", i, err)
		}
	}
	if ds, err := scope.Delegations(ctx, root.ID); err != nil || len(ds) == 0 || ds[0].Host != "gpu1" || ds[0].State != StateLost {
		t.Errorf("Delegations = %+v, %v", ds, err)
	}
	if c, err := st.Get(ctx, far); err != nil || c.Status != Status(StateLost) {
		t.Errorf("Get = %+v, %v", c.Status, err)
	}
	now = now.Add(-1000 * time.Hour) // the clock is set back
	for range 2 {
		var busy *BusyError
		if _, err := reserve(Child{Call: "earlier", ID: far}); !errors.As(err, &busy) || busy.Away != time.Hour {
			t.Fatalf("with an earlier clock: %v", err)
		}
	}
	now = now.Add(time.Hour)
	if r, err := reserve(Child{Call: "later", ID: far}); err != nil {
		t.Errorf("a lease after the clock was set back: %v", err)
	} else {
		_ = r.Release()
	}
	over := begin("over", time.Nanosecond, true)
	_, _ = reserve(Child{Call: "over again", ID: over}) // the nanosecond begins when it is settled
	now = now.Add(time.Second)
	if r, err := reserve(Child{Call: "over again", ID: over}); err != nil {
		t.Errorf("after the lease: %v", err)
	} else {
		_ = r.Release()
	}
	unstarted := begin("unstarted", time.Hour, false)
	r, err := reserve(Child{Call: "unstarted", Config: Config{JSON: []byte("{}")}})
	if err != nil || r.Existed || r.Child.ID == unstarted {
		t.Errorf("a call whose child had not begun: %+v, %v", r, err)
	}
	_ = r.Release()
	moved := begin("moved", time.Hour, true)
	if r, err = reserve(Child{Call: "settles it", Config: Config{JSON: []byte("{}")}}); err != nil {
		t.Fatal(err)
	}
	_ = r.Release()
	if err := st.Edit(ctx, moved, func(c *Conversation) error { c.Parent = 0; return nil }); err != nil {
		t.Fatal(err)
	}
	var busy *BusyError
	if _, err := st.Lock(ctx, moved); !errors.As(err, &busy) || busy.Away <= 59*time.Minute {
		t.Errorf("Lock of one that was moved away: %v", err)
	}
	now = now.Add(-1000 * time.Hour)
	for range 2 {
		if _, err := st.Lock(ctx, moved); !errors.As(err, &busy) || busy.Away != time.Hour {
			t.Errorf("Lock with an earlier clock: %v", err)
		}
	}
	now = now.Add(time.Hour)
	if l, err := st.Lock(ctx, moved); err != nil {
		t.Errorf("Lock a lease after the clock was set back: %v", err)
	} else {
		_ = l.Close()
	}
}
