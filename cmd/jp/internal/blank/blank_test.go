package blank

import (
	"testing"
	"time"

	"jp/convstore"
)

func TestIs(t *testing.T) {
	now := time.Date(2026, 11, 29, 1, 2, 3, 4, time.UTC)
	begun := func(at time.Time) convstore.Conversation {
		var n convstore.New
		Begin(&n, at)
		return convstore.Conversation{CreatedAt: at.Add(time.Second), Hidden: n.Hidden, ExpiresAt: n.ExpiresAt.UTC(), Labels: n.Labels}
	}
	for _, c := range []struct {
		name string
		with func(*convstore.Conversation)
		want bool
	}{
		{"a session", func(c *convstore.Conversation) {}, true},
		{"a session in another zone", func(c *convstore.Conversation) { c.ExpiresAt = c.ExpiresAt.In(time.FixedZone("x", 3600)) }, true},
		{"with a turn", func(c *convstore.Conversation) { c.Turns = 1 }, false},
		{"with its first turn", End, false},
		{"shown by a person", func(c *convstore.Conversation) { c.Hidden = false }, false},
		{"kept by a person", func(c *convstore.Conversation) { c.ExpiresAt = time.Time{} }, false},
		{"to expire at another time", func(c *convstore.Conversation) { c.ExpiresAt = c.ExpiresAt.Add(1) }, false},
		{"hidden for 30 days by a person", func(c *convstore.Conversation) { c.Labels, c.ExpiresAt = nil, c.ExpiresAt.Round(time.Second) }, false},
		{"a session of before the label", func(c *convstore.Conversation) { c.Labels = nil }, true},
		{"hidden for 29 days", func(c *convstore.Conversation) { c.Labels, c.ExpiresAt = nil, c.ExpiresAt.Add(-24*time.Hour) }, false},
	} {
		conv := begun(now)
		if c.with(&conv); Is(conv) != c.want {
			t.Errorf("%s: %+v: %v", c.name, conv, Is(conv))
		}
	}
}
