package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"jp/convstore"
)

// earlier is what an earlier run of a batch has written: the rows that were ok. They stay in the file until it is their turn.
type earlier struct {
	file *os.File
	rows map[int]struct{ at, size int64 } // by the place of their query
}

func (e *earlier) close() {
	if e != nil {
		_ = e.file.Close()
	}
}

// resume reads what an earlier run of the same batch has written and leaves the queries that were answered there out of those to
// run. That they are the same is seen by the conversations that the rows name: each was asked that query.
func (b *batch) resume(ctx context.Context, path string) (err error) {
	e := &earlier{rows: map[int]struct{ at, size int64 }{}}
	// Not blocking: it may be a pipe that nobody writes to.
	if e.file, err = os.OpenFile(b.abs(path), os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOCTTY, 0); err != nil {
		return usagef("--resume %s: %v", path, withoutPath(err))
	}
	b.earlier = e
	info, err := e.file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return usagef("--resume %s: is no regular file", path)
	}
	if out, ok := b.env.Stdout.(*os.File); ok {
		if now, err := out.Stat(); err == nil && os.SameFile(info, now) {
			return usagef("--resume %s: is the file that stdout goes to", path).withHint("write into another one: what is known is repeated there")
		}
	}
	dec := json.NewDecoder(e.file)
	for place := 0; ; place++ {
		var raw json.RawMessage
		switch err := dec.Decode(&raw); {
		case err == io.EOF, err == io.ErrUnexpectedEOF: // what was cut off in a row is run again
			return b.leaveOut()
		case err != nil:
			return usagef("--resume %s: row %d: %v", path, place+1, err)
		}
		var row struct {
			ID     *string `json:"conversation_id"`
			Status string  `json:"status"`
		}
		if err := json.Unmarshal(raw, &row); err != nil || row.Status == "" {
			return usagef("--resume %s: row %d: is no row of a batch", path, place+1).withHint("it reads JSON Lines, what `jp batch` writes without -F json")
		}
		if place >= len(b.items) {
			return usagef("--resume %s: has more rows than stdin has queries", path)
		}
		if convstore.State(row.Status) != convstore.StateOK {
			continue
		}
		if err := b.answers(ctx, row.ID, place); err != nil {
			return usagef("--resume %s: row %d: %v", path, place+1, err)
		}
		e.rows[place] = struct{ at, size int64 }{dec.InputOffset() - int64(len(raw)), int64(len(raw))}
	}
}

// answers checks that a conversation was asked the query at a place, under its profile.
func (b *batch) answers(ctx context.Context, word *string, place int) error {
	if word == nil {
		return errors.New("names no conversation")
	}
	id, err := convstore.ParseID(*word)
	if err != nil {
		return err
	}
	conv, err := b.store.Get(ctx, id)
	if err != nil {
		return err
	}
	it := b.items[place]
	if it.ID == "" && conv.Profile != it.Config {
		return fmt.Errorf("%s ran under the profile %s, not %s", id, conv.Profile, it.Config)
	}
	for ev, err := range b.store.Events(ctx, id, convstore.Range{}) {
		if err != nil {
			return err
		}
		if u, ok := ev.Body.(convstore.UserMessage); ok && u.Text == it.Query {
			return nil
		}
	}
	return fmt.Errorf("%s was not asked what query %d asks", id, place+1)
}

// leaveOut takes the answered queries out of those to run.
func (b *batch) leaveOut() error {
	rest := b.items[:0:0]
	for place, it := range b.items {
		if _, known := b.earlier.rows[place]; !known {
			rest = append(rest, it)
			b.places = append(b.places, place)
		}
	}
	b.items = rest
	b.note("%d of %d queries were answered before", len(b.earlier.rows), b.total)
	return nil
}

// repeat writes the known rows that stand before a place.
func (b *batch) repeat(before int) error {
	for ; b.written < before && b.earlier != nil; b.written++ {
		row, ok := b.earlier.rows[b.written]
		if !ok {
			continue
		}
		raw := make([]byte, row.size)
		if _, err := b.earlier.file.ReadAt(raw, row.at); err != nil {
			return fmt.Errorf("--resume: %w", err)
		}
		b.ok++
		if err := b.rows.add(json.RawMessage(raw)); err != nil {
			return err
		}
	}
	return nil
}
