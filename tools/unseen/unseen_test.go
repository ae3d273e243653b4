package unseen

import (
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"
)

func TestIs(t *testing.T) {
	for _, r := range "\u00ad\u034f\u061c\u115f\u1160\u17b4\u180b\u180e\u200b\u200c\u200d\u200e\u200f\u202a\u202e\u2060\u2064\u2066\u2069\u206f\u3164\ufe00\ufe0e\ufe0f\ufeff\uffa0\U000e0001\U000e0041\U000e007f\U000e0100\U000e01ef\U0001d173\U00016fe4" {
		if !Is(r) || Shows(r) {
			t.Errorf("Is(%U) = %v, Shows = %v", r, Is(r), Shows(r))
		}
	}
	for _, r := range "\u2028\u2029\u2800\U00013441\U00013442\U0001d159" {
		if !Blank(r) || Is(r) || Shows(r) {
			t.Errorf("Blank(%U) = %v, Is = %v, Shows = %v", r, Blank(r), Is(r), Shows(r))
		}
	}
	for _, r := range "a é日👩\u0600\u06dd " {
		if Is(r) || Blank(r) {
			t.Errorf("Is(%U) = %v, Blank = %v", r, Is(r), Blank(r))
		}
	}
}

func TestStrip(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"", ""},
		{"a b\tc\nd\r\x00\x1b[2J\u009b", "a b\tc\nd[2J"},
		{"Search\u200b the\U000e0072\U000e0065 tracker\ufeff.\U000e0100", "Search the tracker."},
		{"a\u202eb\u2066c\u00add", "abcd"},
		{"a\u200db \u200c1", "ab 1"},
		{"👩‍👩‍👧 ❤\ufe0f\u200d🔥 1\ufe0f\u20e3 👋🏽\u200d♀\ufe0f", "👩‍👩‍👧 ❤\ufe0f\u200d🔥 1\ufe0f\u20e3 👋🏽\u200d♀\ufe0f"},
		{"👩\u200d\u200d\u200d👧 ❤\ufe0f\ufe0f\ufe0e 1\ufe0f2 a\ufe0f 👩\u200d", "👩\u200d👧 ❤\ufe0f 12 a 👩"},
		{"می\u200cخواهم क\u094d\u200dष", "می\u200cخواهم क\u094d\u200dष"},
		{"می\u200c\u200cخ\u200d", "می\u200cخ"},
		{"x\xffy", "x\ufffdy"},
	} {
		if got := Strip(tt.in); got != tt.want {
			t.Errorf("Strip(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

func FuzzStrip(f *testing.F) {
	for _, s := range []string{"", "a\u200db", "👩\u200d\u200d👧", "1\ufe0f\ufe0f\u20e3", "\xf0\x9f", "\u200c\U000e0041"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := Strip(s)
		if again := Strip(got); again != got || !utf8.ValidString(got) {
			t.Fatalf("Strip(Strip(%q)) = %q, want %q", s, again, got)
		}
		for _, r := range got {
			if Is(r) && r != joiner && r != nonJoiner && r != asEmoji || unicode.IsControl(r) && r != '\n' && r != '\t' {
				t.Fatalf("Strip(%q) = %q: holds %U", s, got, r)
			}
		}
		for _, r := range Quote(s) {
			if !Shows(r) {
				t.Fatalf("Quote(%q) holds %U", s, r)
			}
		}
	})
}

func TestWord(t *testing.T) {
	for in, want := range map[string]string{
		"": `""`, "a-b.c": "a-b.c", "a b": `"a b"`, "a;b": `"a;b"`, `a"b`: `"a\"b"`, "a\u200b": `"a\u200b"`, "a\n": `"a\n"`, `a\b`: `"a\\b"`, "日本": "日本",
	} {
		if got := Word(in); got != want {
			t.Errorf("Word(%q) = %s, want %s", in, got, want)
		}
	}
}

func TestRows(t *testing.T) {
	for _, tt := range []struct {
		line string
		want string
	}{
		{"", ""},
		{"0123456789abcdef", "0123456789abcdef"},
		{"0123456789abcdefg", "0123456789abcdef|  g"},
		{"0123456789 abcdefgh", "0123456789 |  abcdefgh"},
		{"01 3456789abcdefgh", "01 3456789abcdef|  gh"},
		{"日本語日本語日本語", "日本語日本語日本|  語"},
	} {
		if got := strings.Join(Rows(tt.line, 16, "  "), "|"); got != tt.want {
			t.Errorf("Rows(%q) = %s, want %s", tt.line, got, tt.want)
		}
	}
}

// TestLaidOut: each row begins with a line of its own or with the margin, whatever a line has in
// it.
func TestLaidOut(t *testing.T) {
	const text = "  d\t\t.sandbox confined\nno end"
	if got, want := LaidOut(text, 16), "  d        \n      .sandbox \n      confined\nno end"; got != want {
		t.Errorf("LaidOut = %q, want %q", got, want)
	}
	if got := LaidOut(text, 0); got != text {
		t.Errorf("LaidOut for a program = %q, want %q", got, text)
	}
}

func TestHides(t *testing.T) {
	if got := strings.Join(Hides("a\n\tb\u202ec\u200b\x1b\u2800\u00a0"), " "); got != "U+202E U+200B U+001B U+2800 U+00A0" {
		t.Errorf("Hides = %s", got)
	}
	if got := Hides("plain é\n"); got != nil {
		t.Errorf("Hides = %v", got)
	}
}

func TestDefang(t *testing.T) {
	for _, tt := range []struct{ in, want string }{
		{"plain < 3 <b> <responses> <responsexy", "plain < 3 <b> <responses> <responsexy"},
		{"</response>", "&lt;/response>"},
		{"< / RESPONSE\n>", "&lt; / RESPONSE\n>"},
		{"<\v/response> <\u0085/response> <\u00a0/response> <\u200b/response>", "&lt;\v/response> &lt;\u0085/response> &lt;\u00a0/response> &lt;\u200b/response>"},
		{"<re\u200bsp\u00adon\U000e0041se", "&lt;re\u200bsp\u00adon\U000e0041se"},
		{"<r e s p o n s e a=\"1\">", "&lt;r e s p o n s e a=\"1\">"},
		{"<tool_result> <tool_results> <reſponse> ＜ｒｅｓponse＞ <//response", "&lt;tool_result> <tool_results> &lt;reſponse> &lt;ｒｅｓponse＞ &lt;//response"},
		{"<<response<response", "<&lt;response&lt;response"},
		{"<response\u200bs", "&lt;response\u200bs"},
	} {
		if got := Defang(tt.in, "response", "tool_result"); got != tt.want {
			t.Errorf("Defang(%q) = %q, want %q", tt.in, got, tt.want)
		}
	}
}

// What is looked for behind a `<` ends at the next one, so that hostile text takes no more than its
// length.
func BenchmarkDefang(b *testing.B) {
	for name, s := range map[string]string{"plain": strings.Repeat("a b c d\n", 1<<14), "hostile": strings.Repeat("<"+strings.Repeat(" ", 7), 1<<14)} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(s)))
			for b.Loop() {
				Defang(s, "response", "tool_result", "system")
			}
		})
	}
}

// TestEach: what does not show is marked, but for what belongs to the spelling of what is around
// it.
func TestEach(t *testing.T) {
	for s, want := range map[string]string{
		"a b":                      "a b",
		"é 😀\u200d♂ می\u200cخواهم": "é 😀\u200d♂ می\u200cخواهم",
		"a\u200bb\u202ec\x1b\t":    "a?b?c??",
		"\u200d\ufeff\u00a0":       "???",
		"\U000e0041x":              "?x",
	} {
		got := ""
		for r, seen := range Each(s) {
			if !seen {
				r = '?'
			}
			got += string(r)
		}
		if got != want {
			t.Errorf("Each(%q) = %q, want %q", s, got, want)
		}
	}
}

// TestBarred: whatever ends a line for some reader, the next one is barred too.
func TestBarred(t *testing.T) {
	for _, end := range []string{"\n", "\r", "\r\n", "\v", "\f", "\x1c", "\x1d", "\x1e", "\u0085", "\u2028", "\u2029"} {
		s := "a" + end + end + "## b" + end
		if got, want := Barred(s), "| a\n| \n| ## b\n"; got != want {
			t.Errorf("Barred(%q) = %q, want %q", s, got, want)
		}
		if got, want := OneLine(s), "a  ## b "; got != want {
			t.Errorf("OneLine(%q) = %q, want %q", s, got, want)
		}
	}
	if got := Barred(""); got != "" {
		t.Errorf("Barred of nothing = %q", got)
	}
}
