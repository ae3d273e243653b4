package term

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"jp/tools/unseen"
)

func TestClean(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"plain", "a b\tc\nd", "a b\tc\nd"},
		{"unicode", "日本 é 👩‍👩‍👧 \u00a0", "日本 é 👩‍👩‍👧 \u00a0"},
		{"colour", "\x1b[1;31mred\x1b[0m", "red"},
		{"cursor", "a\x1b[2Kb\x1b[1Ac", "abc"},
		{"csi with intermediates", "a\x1b[0 qb", "ab"},
		{"csi cut off", "a\x1b[31", "a"},
		{"csi broken by newline", "a\x1b[31\nb", "a\nb"},
		{"c1 csi", "a\u009b31mb", "ab"},
		{"osc bel", "a\x1b]0;title\x07b", "ab"},
		{"osc st", "a\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\b", "alinkb"},
		{"osc c1 st", "a\x1b]0;t\u009cb", "ab"},
		{"c1 osc", "a\u009d0;t\x07b", "ab"},
		{"clipboard", "\x1b]52;c;ZXZpbA==\x07ok", "ok"},
		{"dcs with newline", "a\x1bPq#0\n!~\x1b\\b", "ab"},
		{"apc", "a\x1b_Gf=24;AAAA\x1b\\b", "ab"},
		{"pm and sos", "a\x1b^x\x1b\\b\x1bXy\x1b\\c", "abc"},
		{"unterminated osc keeps the text", "a\x1b]0;b\nc", "a0;b\nc"},
		{"osc ended by another sequence", "a\x1b]0;b\x1b[31mc", "a0;bc"},
		{"cancelled string", "a\x1b]0;b\x18c", "ac"},
		{"charset", "a\x1b(0b\x1b(Bc", "abc"},
		{"reset", "a\x1bcb", "ab"},
		{"lone escape", "a\x1b", "a"},
		{"escape before newline", "a\x1b\nb", "a\nb"},
		{"escape before a letter of two bytes", "a\x1bé", "aé"},
		{"carriage return", "100%\rgotcha\r\nnext", "100%gotcha\nnext"},
		{"bell, backspace, vertical tab, delete, nul", "a\a\b\v\f\x7f\x00b", "ab"},
		{"c1 next line", "a\u0085b", "ab"},
		{"bidi", "a\u202eb\u202c\u2066c\u2069\u200e\u200f\u061cd", "abcd"},
		{"zero width", "a\u200bb\u2060c\ufeffd\u00ade\u3164f\ufe01g\U000e0100h", "abcdefgh"},
		{"joiners", "a\u200db ❤\ufe0f\u200d🔥 1\ufe0f\u20e3 می\u200cخواهم \u200d", "ab ❤\ufe0f\u200d🔥 1\ufe0f\u20e3 می\u200cخواهم "},
		{"a sequence beside a joiner", "👩\u200d\x1b[m👧 👩\x1b[m\u200d👧", "👩👧 👩\u200d👧"},
		{"what looks like a space or a line break", "a\u2028b\u2029c\u2800d\U0001d159e\U00016fe4f", "a b c d ef"},
		{"a blank beside a joiner", "👩\u2800\u200d👧", "👩 👧"},
		{"tags", "a\U000e0041\U000e007fb", "ab"},
		{"invalid utf-8", "a\xff\x9bb\xe2\x82", "a\ufffd\ufffdb\ufffd\ufffd"},
		{"raw 8-bit csi", "a\x9b31mb", "a\ufffd31mb"},
		{"nested introducers", "\x1b\x1b[31m\x1b\x1b]x\x07y", "y"},
	} {
		if got := Clean(c.in); got != c.want {
			t.Errorf("%s: Clean(%q) = %q, want %q", c.name, c.in, got, c.want)
		}
	}
}

// unsafe finds what must never come through.
func unsafe(s string) (rune, bool) {
	for _, r := range s {
		switch {
		case r == '\n' || r == '\t':
		case r < 0x20, r >= 0x7f && r < 0xa0, unseen.Blank(r), unseen.Is(r) && !strings.ContainsRune("\u200c\u200d\ufe0f", r):
			return r, true
		}
	}
	return 0, false
}

func FuzzClean(f *testing.F) {
	for _, s := range []string{
		"", "plain", "\x1b[31mred\x1b[0m", "\x1b]0;t\x07", "\u009d0;t\u009c", "\x1bP\x1b\\", "\x1b]\x1b]\x1b]", "\xc2", "\u202e", "\x1b[", "\U000e0041", "\x1b(\x1b(B", "1\ufe0f\u20e3", "👩\u200d\u200d👧", "❤\ufe0f\u200d🔥",
	} {
		f.Add(s, uint(3))
	}
	f.Fuzz(func(t *testing.T, s string, at uint) {
		got := Clean(s)
		if r, bad := unsafe(got); bad || !utf8.ValidString(got) {
			t.Fatalf("Clean(%q) = %q: holds %U", s, got, r)
		}
		if again := Clean(got); again != got {
			t.Fatalf("Clean(Clean(%q)) = %q, want %q", s, again, got)
		}
		if len(s) > holdMax {
			return
		}
		// In two pieces, and byte by byte, the same text comes out.
		cut := int(at % uint(len(s)+1))
		var c Cleaner
		if pieces := c.Clean(s[:cut]) + c.Clean(s[cut:]) + c.Flush(); pieces != got {
			t.Fatalf("Cleaner(%q, %q) = %q, want %q", s[:cut], s[cut:], pieces, got)
		}
		var b strings.Builder
		for i := range len(s) {
			b.WriteString(c.Clean(s[i : i+1]))
		}
		b.WriteString(c.Flush())
		if b.String() != got {
			t.Fatalf("Cleaner(%q) byte by byte = %q, want %q", s, b.String(), got)
		}
	})
}

// A control string that never ends must not hold back a long answer, nor take quadratic time.
func TestCleanerGivesUpHolding(t *testing.T) {
	var c Cleaner
	var b strings.Builder
	b.WriteString(c.Clean("\x1b]0;"))
	for range 10 {
		b.WriteString(c.Clean(strings.Repeat("x", 1000)))
	}
	if b.Len() < 4000 {
		t.Errorf("after 10,000 bytes of an endless control string %d bytes came out", b.Len())
	}
	b.WriteString(c.Flush())
	if want := "0;" + strings.Repeat("x", 10000); b.String() != want {
		t.Errorf("the text of an endless control string was lost: %d bytes, want %d", b.Len(), len(want))
	}
}

func TestLineAndEscape(t *testing.T) {
	if got, want := Line(" a\n\tb\x1b[31m "), "a  b"; got != want {
		t.Errorf("Line = %q, want %q", got, want)
	}
	if got, want := Escape("a\tb\nc\\d\re\x1bf\u202eg\u2800 é\xff"), `a\tb\nc\\d\re\x1bf\u{202e}g\u{2800} é\xff`; got != want {
		t.Errorf("Escape = %s, want %s", got, want)
	}
}

func FuzzEscapeJSON(f *testing.F) {
	for _, s := range []string{"", "plain é", "\u009b31m\x7f\u202e\U000e0041\u0085", "\ufffd", "a\x9bb", "<&>\u2028", "\u2800\U0001d159"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		escaped := EscapeJSON(b)
		if raw := EscapeJSON([]byte(s)); !utf8.Valid(raw) {
			t.Fatalf("EscapeJSON(%q) = %q: is not UTF-8", s, raw)
		}
		if r, bad := unsafe(string(escaped)); bad {
			t.Fatalf("EscapeJSON(%q) = %q: holds %U", b, escaped, r)
		}
		var was, is string
		if json.Unmarshal(b, &was) != nil || json.Unmarshal(escaped, &is) != nil || was != is {
			t.Fatalf("EscapeJSON(%q) = %q: another text", b, escaped)
		}
	})
}

func BenchmarkClean(b *testing.B) {
	for name, s := range map[string]string{
		"ascii":   strings.Repeat("the quick brown fox\n", 5000),
		"hostile": strings.Repeat("\u009d", 50000),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(s)))
			for b.Loop() {
				Clean(s)
			}
		})
	}
}
