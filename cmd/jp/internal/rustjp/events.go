package rustjp

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"time"

	"jp/convstore"
	"jp/convstore/archive"
	"jp/tools/jsondoc"
)

// reader turns the entries of one events.json into events. It makes their ids from their positions,
// so that reading the file again gives the same ids.
type reader struct {
	f    *folder
	id   convstore.ID
	pos  string
	n    int       // entries so far
	last time.Time // of the entry before

	turns    bool // it has turn_start entries, the first was met
	open     bool // a turn is
	answered bool // in this turn, since the last tool call
}

// events reads a file of events. It holds one entry at a time.
func (f *folder) events(name string, id convstore.ID) error {
	file, err := f.open(name)
	if err != nil {
		return err
	}
	defer func() { _ = file.Close() }()
	r := &reader{f: f, id: id, last: time.UnixMilli(int64(id) * 100).UTC()}
	left := &io.LimitedReader{R: bufio.NewReaderSize(file, 1<<20)}
	dec := json.NewDecoder(left)
	bad := func(err error) error {
		switch {
		case left.N <= 0:
			err = fmt.Errorf("longer than %d MiB", archive.MaxPiece>>20)
		case err == io.EOF:
			err = io.ErrUnexpectedEOF
		}
		return f.wrong(name, fmt.Errorf("entry %d, after byte %d: %w", r.n, dec.InputOffset(), err))
	}
	left.N = archive.MaxPiece
	if open, err := dec.Token(); err != nil || open != json.Delim('[') {
		if err == nil {
			err = errors.New("not a JSON array")
		}
		return bad(err)
	}
	for left.N = archive.MaxPiece; dec.More(); left.N = archive.MaxPiece {
		r.n++
		r.pos = fmt.Sprintf("%s: entry %d, byte %d", filepath.Join(f.dir, name), r.n, dec.InputOffset())
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return bad(err)
		}
		if jsondoc.Crowded(raw, archive.MaxValues) {
			return bad(fmt.Errorf("more than %d values", archive.MaxValues))
		}
		if err := r.entry(raw); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return bad(err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return bad(errors.New("something follows the array"))
	}
	r.n++ // past the entries
	return r.endTurn(r.last)
}

// text returns the text that a JSON value is; false when it is something else.
func text(value json.RawMessage) (s string, ok bool) {
	return s, json.Unmarshal(value, &s) == nil && len(value) > 0 && value[0] == '"'
}

// encode writes an object whose first member is its type.
func encode(kind string, ms []jsondoc.Member) ([]byte, error) {
	var b bytes.Buffer
	err := json.Compact(&b, jsondoc.Object(slices.Concat([]jsondoc.Member{{Name: "type", Value: jsondoc.Text(kind)}}, ms)))
	return b.Bytes(), err
}

// typeStrange is what an entry is kept as that is no object with a type.
const typeStrange = "jp_rust_entry"

// entry takes one entry.
func (r *reader) entry(raw json.RawMessage) error {
	kind, at := "", time.Time{}
	ms, _ := jsondoc.Members(raw) // none of what is no object
	var rest []jsondoc.Member
	for _, m := range ms {
		switch text, isText := text(m.Value); {
		case m.Name == "type" && isText:
			kind = text
			continue
		case m.Name == "timestamp" && isText:
			var ok bool
			if at, ok = parseTime(text); ok {
				continue
			}
			r.f.kept.Times++
			m.Name = "original_timestamp"
		case slices.Contains([]string{"timestamp", "event_id", "seq", "turn"}, m.Name):
			m.Name = "original_" + m.Name // an event has these of its own
		}
		rest = append(rest, m)
	}
	if at.IsZero() {
		at = r.last
	}
	r.last = at
	if kind == "" {
		kind, rest = typeStrange, []jsondoc.Member{{Name: "value", Value: raw}}
	}
	r.decode(kind, rest)
	if err := r.turn(kind, rest, at); err != nil {
		return err
	}
	body, err := encode(kind, rest)
	if err != nil {
		return &archive.ImportError{Pos: r.pos, Err: err}
	}
	var e convstore.Event
	if err := e.UnmarshalJSON(body); err != nil {
		return &archive.ImportError{Pos: r.pos, Err: err}
	}
	if _, opaque := e.Body.(convstore.Opaque); opaque {
		r.f.kept.Opaque[kind]++
	}
	return r.yield("", at, body)
}

// decode undoes the base64 in what is known to hold it.
func (r *reader) decode(kind string, ms []jsondoc.Member) {
	for i, m := range ms {
		switch {
		case kind == "tool_call_request" && m.Name == "arguments":
			ms[i].Value = r.strings(m.Value, 0)
		case kind == "tool_call_response" && m.Name == "content":
			if _, ok := text(m.Value); ok {
				ms[i].Value = r.strings(m.Value, 0)
			}
		}
	}
}

// turn begins and ends turns. JP has no entry for the end of a turn. Older files have none for its
// beginning either: there, each request is a turn.
func (r *reader) turn(kind string, ms []jsondoc.Member, at time.Time) error {
	begins := kind == "turn_start"
	r.turns = r.turns || begins
	switch kind {
	case "chat_request":
		if !r.turns {
			if err := r.endTurn(at); err != nil {
				return err
			}
			r.open = true
			return r.yield("-start", at, []byte(`{"type":"turn_start"}`))
		}
	case "chat_response":
		r.answered = r.answered || slices.ContainsFunc(ms, func(m jsondoc.Member) bool { return m.Name == "message" || m.Name == "data" })
	case "tool_call_request":
		r.answered = false
	case "turn_end":
		r.open = false
	}
	if !begins {
		return nil
	}
	err := r.endTurn(at)
	r.open = true
	return err
}

// endTurn ends the open turn.
func (r *reader) endTurn(at time.Time) error {
	if !r.open {
		return nil
	}
	end := `{"type":"turn_end","state":"ok"}`
	if !r.answered {
		end = `{"type":"turn_end","state":"cancelled","reason":"it has no answer where it was imported from"}`
	}
	r.open, r.answered = false, false
	return r.yield("-end", at, []byte(end))
}

// yield hands out an event. Added marks one that no entry stands for.
func (r *reader) yield(added string, at time.Time, body []byte) error {
	e := &archive.ExportedEvent{Conversation: r.id, ID: fmt.Sprintf("jp-rust-%06d%s", r.n, added), Time: at, Body: body}
	if !r.f.yield(archive.Piece{Pos: r.pos, Event: e}, nil) {
		return errEnough
	}
	return nil
}
