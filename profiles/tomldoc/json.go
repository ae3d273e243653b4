package tomldoc

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ParseJSON reads one JSON value as a document has it, with nulls only where they are allowed. Repeated keys and
// deep nesting are refused: the standard decoder would take the last of two keys in silence.
func ParseJSON(data []byte, nulls bool) (any, error) {
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
			return nil, fmt.Errorf("not valid JSON: %s", OneLine(err.Error()))
		}
		return nil, err
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, errors.New("not valid JSON: text after the value")
	}
	return v, nil
}

func jsonValue(dec *json.Decoder, nulls bool, depth int) (any, error) {
	if depth > MaxNesting {
		return nil, ErrNesting
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
		return Number(string(t))
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
				return nil, ErrEmptyKey
			}
			if _, twice := table[name]; twice {
				return nil, fmt.Errorf("key %s stands twice", QuotePart(name))
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

// Number keeps whole numbers apart from others by how they are written, as TOML does.
func Number(s string) (any, error) {
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
