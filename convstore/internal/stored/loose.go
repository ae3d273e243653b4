package stored

import (
	"bytes"
	"unicode/utf8"
)

// Loose reports whether a body has a string in another form than the encoder writes, or a character
// outside of ASCII that folds to an ASCII character.
func Loose(body []byte) bool {
	for _, c := range []string{
		"\u212A", "\u017F", // fold to k and s
		"\u2028", "\u2029", // the encoder escapes them
	} {
		if bytes.Contains(body, []byte(c)) {
			return true
		}
	}
	if !utf8.Valid(body) {
		return true
	}
	for i := bytes.IndexByte(body, '\\'); i >= 0 && i+1 < len(body); {
		step := 2
		switch body[i+1] {
		case '/':
			return true
		case 'u':
			if i+6 > len(body) || !writtenEscape(string(body[i+2:i+6])) {
				return true
			}
			step = 6
		}
		i += step
		next := bytes.IndexByte(body[min(i, len(body)):], '\\')
		if next < 0 {
			return false
		}
		i += next
	}
	return false
}

// writtenEscape reports whether the encoder writes \u and these four digits.
func writtenEscape(hex string) bool {
	switch hex {
	case "2028", "2029":
		return true
	case "0008", "0009", "000a", "000c", "000d": // these have short forms
		return false
	}
	return hex[:2] == "00" && (hex[2] == '0' || hex[2] == '1') &&
		(hex[3] >= '0' && hex[3] <= '9' || hex[3] >= 'a' && hex[3] <= 'f')
}
