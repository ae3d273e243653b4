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
)

// reader turns the entries of one events.json into events. Their ids tell their place, so that reading again gives the same.
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
	dec := json.NewDecoder(bufio.NewReaderSize(file, 1<<20))
	bad := func(err error) error {
		if err == io.EOF {
			err = io.ErrUnexpectedEOF
		}
		return f.wrong(name, fmt.Errorf("entry %d, after byte %d: %w", r.n, dec.InputOffset(), err))
	}
	if open, err := dec.Token(); err != nil || open != json.Delim('[') {
		if err == nil {
			err = errors.New("not a JSON array")
		}
		return bad(err)
	}
	for dec.More() {
		r.n++
		r.pos = fmt.Sprintf("%s: entry %d, byte %d", filepath.Join(f.dir, name), r.n, dec.InputOffset())
		var raw json.RawMessage
		if err := dec.Decode(&raw); err != nil {
			return bad(err)
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

// member is a member of a JSON object, in order.
type member struct {
	name  string
	value json.RawMessage
}

// parseObject reads an object; false when it is none.
func parseObject(raw []byte) (ms []member, ok bool) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return nil, false
	}
	for dec.More() {
		name, err := dec.Token()
		if err != nil {
			return nil, false
		}
		var m member
		m.name, _ = name.(string)
		if err := dec.Decode(&m.value); err != nil {
			return nil, false
		}
		ms = append(ms, m)
	}
	return ms, true
}

func (m member) text() (s string, ok bool) {
	return s, json.Unmarshal(m.value, &s) == nil && len(m.value) > 0 && m.value[0] == '"'
}

// encode writes an object whose first member is its type.
func encode(kind string, ms []member) ([]byte, error) {
	out := append([]byte(`{"type":`), quote(kind)...)
	for _, m := range ms {
		out = append(append(append(append(out, ','), quote(m.name)...), ':'), m.value...)
	}
	var b bytes.Buffer
	err := json.Compact(&b, append(out, '}'))
	return b.Bytes(), err
}

// quote encodes a text as JSON, leaving <, > and & as they are.
func quote(s string) []byte {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(s); err != nil {
		panic(err) // a string always encodes
	}
	return bytes.TrimSpace(b.Bytes())
}

// typeStrange is what an entry is kept as that is no object with a type.
const typeStrange = "jp_rust_entry"

// entry takes one entry.
func (r *reader) entry(raw json.RawMessage) error {
	kind, at := "", time.Time{}
	ms, _ := parseObject(raw)
	var rest []member
	for _, m := range ms {
		switch text, isText := m.text(); {
		case m.name == "type" && isText:
			kind = text
			continue
		case m.name == "timestamp" && isText:
			var ok bool
			if at, ok = parseTime(text); ok {
				continue
			}
			r.f.kept.Times++
			m.name = "original_timestamp"
		case slices.Contains([]string{"timestamp", "event_id", "seq", "turn"}, m.name):
			m.name = "original_" + m.name // an event has these of its own
		}
		rest = append(rest, m)
	}
	if at.IsZero() {
		at = r.last
	}
	r.last = at
	if kind == "" {
		kind, rest = typeStrange, []member{{"value", raw}}
	}
	r.decode(kind, rest)
	if err := r.turn(kind, rest, at); err != nil {
		return err
	}
	body, err := encode(kind, rest)
	if err != nil {
		return &convstore.ImportError{Pos: r.pos, Err: err}
	}
	var e convstore.Event
	if err := e.UnmarshalJSON(body); err != nil {
		return &convstore.ImportError{Pos: r.pos, Err: err}
	}
	if _, opaque := e.Body.(convstore.Opaque); opaque {
		r.f.kept.Opaque[kind]++
	}
	return r.yield("", at, body)
}

// decode undoes the base64 in what is known to hold it.
func (r *reader) decode(kind string, ms []member) {
	for i, m := range ms {
		switch {
		case kind == "tool_call_request" && m.name == "arguments":
			ms[i].value = r.strings(m.value, 0)
		case kind == "tool_call_response" && m.name == "content":
			if _, ok := m.text(); ok {
				ms[i].value = r.strings(m.value, 0)
			}
		}
	}
}

// turn begins and ends turns: JP has no entry for their end, and older files have none for their beginning, each request of
// which was one.
func (r *reader) turn(kind string, ms []member, at time.Time) error {
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
		r.answered = r.answered || slices.ContainsFunc(ms, func(m member) bool { return m.name == "message" || m.name == "data" })
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
	e := &convstore.ExportedEvent{Conversation: r.id, ID: fmt.Sprintf("jp-rust-%06d%s", r.n, added), Time: at, Body: body}
	if !r.f.yield(convstore.Piece{Pos: r.pos, Event: e}, nil) {
		return errEnough
	}
	return nil
}
