package blank

import (
	"testing"
	"time"

	"jp/convstore"
)

func TestIs(t *testing.T) {
	after, before := time.Unix(labelled, 5).UTC(), time.Unix(labelled-10, 5).UTC()
	begun := func(at time.Time) convstore.Conversation {
		var n convstore.New
		Begin(&n, at)
		return convstore.Conversation{CreatedAt: at.Add(time.Second), Hidden: n.Hidden, ExpiresAt: n.ExpiresAt.UTC(), Labels: n.Labels}
	}
	for _, c := range []struct {
		name string
		at   time.Time
		with func(*convstore.Conversation)
		want bool
	}{
		{"a session", after, func(c *convstore.Conversation) {}, true},
		{"a session in another zone", after, func(c *convstore.Conversation) { c.ExpiresAt = c.ExpiresAt.In(time.FixedZone("x", 3600)) }, true},
		{"with a turn", after, func(c *convstore.Conversation) { c.Turns = 1 }, false},
		{"with its first turn", after, End, false},
		{"shown by a person", after, func(c *convstore.Conversation) { c.Hidden = false }, false},
		{"kept by a person", after, func(c *convstore.Conversation) { c.ExpiresAt = time.Time{} }, false},
		{"to expire at another time", after, func(c *convstore.Conversation) { c.ExpiresAt = c.ExpiresAt.Add(1) }, false},
		{"hidden for 30 days by a person", after, func(c *convstore.Conversation) { c.Labels = nil }, false},
		{"a session of before the label", before, func(c *convstore.Conversation) { c.Labels = nil }, true},
		{"hidden for 29 days before the label", before, func(c *convstore.Conversation) {
			c.Labels, c.ExpiresAt = nil, c.ExpiresAt.Add(-24*time.Hour)
		}, false},
	} {
		conv := begun(c.at)
		if c.with(&conv); Is(conv) != c.want {
			t.Errorf("%s: %+v: %v", c.name, conv, Is(conv))
		}
	}
}
