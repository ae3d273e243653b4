package convstore

import (
	"context"
	"time"
)

// Head is the part of a conversation's metadata that can be read without its record.
type Head struct {
	ID      ID
	Title   string
	Updated time.Time
	Empty   bool // it has no events
}

// Heads returns the heads of the conversations with these ids. Without ids it returns those that
// the filter admits, in preorder, and ignores the filter's order and limit. With ids it returns those
// of them that have the filter's labels, and fails with the errors of Get.
func (v View) Heads(ctx context.Context, f Filter, ids []ID) (heads []Head, err error) {
	add := func(id ID, e entry) error {
		heads = append(heads, Head{id, string(e.title), time.Unix(0, e.updated).UTC(), !e.is(entryEvents)})
		return nil
	}
	err = v.f.read(ctx, func(t *tx) error {
		heads = nil
		if len(ids) == 0 {
			return v.walk(t, f, add)
		}
		for _, id := range ids {
			r, err := v.within(t, id)
			if err != nil {
				return err
			}
			if e, _ := parseEntry(r.Entry()); e.hasLabels(f.Labels) {
				_ = add(id, e)
			}
		}
		return nil
	})
	if len(ids) > 0 {
		return heads, absent(err, ids[0])
	}
	return heads, present(err)
}
