// Package blank knows the conversations that editors begin as sessions and in which no turn has begun.
// They are hidden and expire. A label says so; its value is the time at which they expire, so that a
// fork, and a conversation whose expiry a person has changed, is none.
package blank

import (
	"time"

	"jp/convstore"
)

// life is long because clients begin a session in one process and prompt it in another.
const life = 30 * 24 * time.Hour

const label = "editor-session"

// Begin makes n a session that begins now.
func Begin(n *convstore.New, now time.Time) {
	n.Hidden, n.ExpiresAt = true, now.Add(life)
	n.Labels = map[string]string{label: until(n.ExpiresAt)}
}

func until(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// Is reports whether c is such a session.
func Is(c convstore.Conversation) bool {
	if c.Turns > 0 || !c.Hidden || c.ExpiresAt.IsZero() {
		return false
	}
	// A session of before the label has a time with nanoseconds, and command.Expiry has none.
	return c.Labels[label] == until(c.ExpiresAt) ||
		c.Labels[label] == "" && c.ExpiresAt.Nanosecond() != 0 && c.ExpiresAt.Sub(c.CreatedAt).Round(time.Minute) == life
}

// End makes such a session a conversation as any other.
func End(c *convstore.Conversation) {
	c.Hidden, c.ExpiresAt = false, time.Time{}
	delete(c.Labels, label)
}
