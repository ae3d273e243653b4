package convstore

import (
	"strconv"
	"strings"
)

// ID names a conversation. It is the time of its creation in tenths of a second since 1970, or the
// next number that is free. IDs are unique within one store, and ordered by creation. The zero ID
// names no conversation.
type ID int64

const idPrefix = "jp-c"

// ParseID reads the text form, "jp-c" and a decimal number without sign or leading zeros. Any other
// text is a *NotFoundError.
func ParseID(s string) (ID, error) {
	digits, ok := strings.CutPrefix(s, idPrefix)
	if !ok || digits == "" || digits[0] < '1' || digits[0] > '9' {
		return 0, &NotFoundError{What: s}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil {
		return 0, &NotFoundError{What: s}
	}
	return ID(n), nil
}

// String returns the text form, or "" for the zero ID.
func (id ID) String() string {
	if id == 0 {
		return ""
	}
	return idPrefix + strconv.FormatInt(int64(id), 10)
}

// MarshalText encodes the text form.
func (id ID) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText decodes what MarshalText wrote: "" is the zero ID.
func (id *ID) UnmarshalText(text []byte) error {
	if len(text) == 0 {
		*id = 0
		return nil
	}
	parsed, err := ParseID(string(text))
	if err == nil {
		*id = parsed
	}
	return err
}
