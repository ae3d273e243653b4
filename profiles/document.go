package profiles

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"jp/profiles/tomldoc"
)

// document is one layer's content: a tree of map[string]any, []any, string, bool, int64 and float64.
type document struct {
	layer Layer
	tree  map[string]any
	marks *tomldoc.Mark // of a file; nil otherwise
	from  location      // of a file
}

// position is where the value at parts was written, or the nearest table around it.
func (d *document) position(parts []string) Position {
	p := Position{File: d.layer.File, Layer: d.layer.Name}
	for m := d.marks; m != nil; {
		p.Line = m.Line
		if len(parts) == 0 {
			break
		}
		next := m.Keys[parts[0]]
		if i, err := strconv.Atoi(parts[0]); next == nil && err == nil && i >= 0 && i < len(m.Items) {
			next = m.Items[i]
		}
		m, parts = next, parts[1:]
	}
	return p
}

// fail is an error about the value at parts.
func (d *document) fail(parts []string, msg, hint string) *Error {
	p := d.position(parts)
	return &Error{File: p.File, Line: p.Line, Layer: p.Layer, Key: joinKey(parts), Msg: msg, Hint: hint}
}

// parseTOML reads the bytes of one file. Its errors have no file and no layer.
func parseTOML(data []byte) (tree map[string]any, marks *tomldoc.Mark, err error) {
	var raw map[string]any
	_, marks, err = tomldoc.Decode(data, &raw)
	var bad *tomldoc.Error
	if errors.As(err, &bad) {
		e := &Error{Line: bad.Line, Msg: bad.Msg, Err: bad.Err}
		if e.Err != nil {
			e.Msg = "not valid TOML: " + e.Msg
		}
		return nil, nil, e
	}
	v, err := plain(raw, nil, marks)
	if err != nil {
		return nil, nil, err
	}
	return v.(map[string]any), marks, nil
}

// plain reduces what the decoder gives to the kinds of a document: dates have no key that takes them, and
// infinities no JSON.
func plain(v any, parts []string, marks *tomldoc.Mark) (any, error) {
	refuse := func(msg string) (any, error) {
		d := document{marks: marks}
		return nil, d.fail(parts, msg, "")
	}
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for _, k := range sortedKeys(v) {
			p, err := plain(v[k], append(parts[:len(parts):len(parts)], k), marks)
			if err != nil {
				return nil, err
			}
			out[k] = p
		}
		return out, nil
	case []map[string]any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = v[i]
		}
		return plain(list, parts, marks)
	case []any:
		out := make([]any, len(v))
		for i := range v {
			p, err := plain(v[i], append(parts[:len(parts):len(parts)], strconv.Itoa(i)), marks)
			if err != nil {
				return nil, err
			}
			out[i] = p
		}
		return out, nil
	case float64:
		if math.IsInf(v, 0) || math.IsNaN(v) {
			return refuse("must be a finite number")
		}
		return v, nil
	case string, bool, int64:
		return v, nil
	case time.Time:
		return refuse("must not be a date: no setting takes one; write it in quotes")
	}
	return refuse(fmt.Sprintf("has a value of unknown type %T", v))
}

// parseJSON reads one JSON value as a document has it, with nulls only where they are allowed. Repeated keys and
// deep nesting are refused: the standard decoder would take the last of two keys in silence.
func parseJSON(data []byte, nulls bool) (any, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("not UTF-8 text")
	}
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	v, err := jsonValue(dec, nulls, 0)
	if err != nil {
		var se *json.SyntaxError
		switch {
		case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
			return nil, errors.New("not valid JSON: it ends too early")
		case errors.As(err, &se):
			return nil, fmt.Errorf("not valid JSON: %s", tomldoc.OneLine(err.Error()))
		}
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("not valid JSON: text after the value")
	}
	return v, nil
}

func jsonValue(dec *json.Decoder, nulls bool, depth int) (any, error) {
	if depth > tomldoc.MaxNesting {
		return nil, tomldoc.ErrNesting
	}
	t, err := dec.Token()
	if err != nil {
		return nil, err
	}
	switch t := t.(type) {
	case nil:
		if nulls {
			return nil, nil
		}
		return nil, errors.New("null is no value of a setting")
	case json.Number:
		return number(string(t))
	case json.Delim:
		if t == '[' {
			list := []any{}
			for dec.More() {
				v, err := jsonValue(dec, nulls, depth+1)
				if err != nil {
					return nil, err
				}
				list = append(list, v)
			}
			_, err := dec.Token()
			return list, err
		}
		table := map[string]any{}
		for dec.More() {
			k, err := dec.Token()
			if err != nil {
				return nil, err
			}
			name := k.(string) // the decoder has checked that a key is a string
			if name == "" {
				return nil, tomldoc.ErrEmptyKey
			}
			if _, twice := table[name]; twice {
				return nil, fmt.Errorf("key %s stands twice", quotePart(name))
			}
			if table[name], err = jsonValue(dec, nulls, depth+1); err != nil {
				return nil, err
			}
		}
		_, err := dec.Token()
		return table, err
	}
	return t, nil // string or bool
}

// number keeps whole numbers apart from others by how they are written, as TOML does.
func number(s string) (any, error) {
	if !strings.ContainsAny(s, ".eE") {
		if n, err := strconv.ParseInt(s, 10, 64); err == nil {
			return n, nil
		}
		return nil, errors.New("number is out of range")
	}
	f, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return nil, errors.New("number is out of range")
	}
	return f, nil
}
