package rustjp

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"time"
	"unicode/utf8"

	"jp/tools/jsondoc"
)

// maxNesting is how deep arguments are looked into.
const maxNesting = 100

// strings decodes every string in a JSON value; names, numbers and the order stay.
func (r *reader) strings(raw json.RawMessage, depth int) json.RawMessage {
	raw = bytes.TrimSpace(raw)
	if depth > maxNesting {
		r.f.kept.Text++
		return raw
	}
	switch {
	case len(raw) == 0:
	case raw[0] == '"':
		return r.text(raw)
	case raw[0] == '{':
		ms, err := jsondoc.Members(raw)
		if err != nil {
			return raw
		}
		for i, m := range ms {
			ms[i].Value = r.strings(m.Value, depth+1)
		}
		return jsondoc.Object(ms)
	case raw[0] == '[':
		var values []json.RawMessage
		if json.Unmarshal(raw, &values) != nil {
			return raw
		}
		out := []byte{'['}
		for i, v := range values {
			if i > 0 {
				out = append(out, ',')
			}
			out = append(out, r.strings(v, depth+1)...)
		}
		return append(out, ']')
	}
	return raw
}

// text decodes one string. What is no base64 of a text stays as it is.
func (r *reader) text(raw json.RawMessage) json.RawMessage {
	var s string
	if json.Unmarshal(raw, &s) != nil {
		return raw
	}
	for _, enc := range []*base64.Encoding{base64.StdEncoding, base64.URLEncoding, base64.RawStdEncoding, base64.RawURLEncoding} {
		if b, err := enc.Strict().DecodeString(s); err == nil && utf8.Valid(b) {
			return jsondoc.Text(string(b))
		}
	}
	r.f.kept.Text++
	return raw
}

// parseTime reads the forms of time that JP has written; those without a zone are UTC.
func parseTime(s string) (time.Time, bool) {
	for _, layout := range []string{
		"2006-01-02 15:04:05", time.RFC3339, "2006-01-02T15:04:05", "2006-01-02 15:04:05Z07:00", "2006-01-02 15:04:05 -07:00",
		"2006-01-02 15:04:05 -0700", "2006-01-02 15:04:05 MST",
	} {
		// A fraction after the seconds is taken without being in the layout.
		t, err := time.Parse(layout, s)
		if err == nil && t.Location() != time.UTC && layout == "2006-01-02 15:04:05 MST" {
			continue // a zone whose offset nobody knows
		}
		if err == nil && t.Year() >= 1700 && t.Year() < 2262 {
			return t.UTC(), true
		}
	}
	return time.Time{}, false
}
