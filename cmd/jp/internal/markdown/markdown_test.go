package markdown

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"jp/cmd/jp/internal/term"
)

var update = flag.Bool("update", false, "write the golden files")

// TestRender compares testdata/*.md, laid out for 40 columns, with what stands beside them, and
// with the same text streamed.
func TestRender(t *testing.T) {
	files, err := filepath.Glob("testdata/*.md")
	if err != nil || len(files) == 0 {
		t.Fatalf("testdata/*.md: %d files, %v", len(files), err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for name, style := range map[string]Style{
			"color": {Width: 40, Color: true, UTF8: true}, "plain": {Width: 40}, "wide": {UTF8: true},
		} {
			got := Render(string(b), style)
			golden := strings.TrimSuffix(file, ".md") + "." + name
			if *update {
				if err := os.WriteFile(golden, []byte(visible(got)), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if visible(got) != string(want) {
				t.Errorf("%s: Render is not what %s holds:\n%s", file, golden, visible(got))
			}
			s := NewStream(style)
			if streamed := s.Write(string(b)) + s.Flush(); streamed != got {
				t.Errorf("%s, %s: streamed:\n%s\nwant\n%s", file, name, visible(streamed), visible(got))
			}
		}
	}
}

// visible spells escapes so that golden files can be read and printed.
func visible(s string) string { return strings.ReplaceAll(s, "\x1b", "␛") }

// markdownText draws texts that look like Markdown, whole and broken, with what must not reach a
// terminal.
func markdownText() *rapid.Generator[string] {
	parts := rapid.SampledFrom([]string{
		"word ", "word\n", "\n", "\n\n", "- item\n", "  - inner\n", "3. third\n", "> quote\n", "# head\n", "```go\n", "```\n", "~~~\n",
		"    code\n", "\tcode\n", "**bold** ", "*it", "*", "`code` ", "`", "[a](http://b) ", "[a]: x\n", "| a | b |\n", "|---|--:|\n", "---\n", "===\n",
		"<b>", "<!-- ", "-->\n", "&amp; ", "&#27;[31m", "&#x9b;1m", "\x1b[31m", "\x1b]0;t\a", "\u202e", "\r", "漢字、", "e\u0301", "👩\u200d💻", "\xff", "\\|", "![i](j)",
	})
	return rapid.Custom(func(t *rapid.T) string { return strings.Join(rapid.SliceOfN(parts, 0, 40).Draw(t, "parts"), "") })
}

func TestNothingSteersTheTerminal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text, width := markdownText().Draw(t, "text"), rapid.IntRange(0, 60).Draw(t, "width")
		for _, s := range []Style{{Width: width}, {Width: width, UTF8: true}} {
			if out := Render(text, s); out != term.Clean(out) || strings.ContainsRune(out, '\t') {
				t.Fatalf("Render(%q) = %q", text, out)
			}
		}
		colored := Render(text, Style{Width: width, Color: true, UTF8: true})
		if plain := uncolored(colored); strings.ContainsFunc(plain, func(r rune) bool { return r != '\n' && unicode.IsControl(r) }) {
			t.Fatalf("Render(%q) = %q", text, colored)
		}
	})
}

// uncolored takes out the sequences that this package writes, and no others.
func uncolored(s string) string {
	var out strings.Builder
	for s != "" {
		if rest, ok := strings.CutPrefix(s, "\x1b["); ok {
			if n := strings.IndexByte(rest, 'm'); n >= 0 && strings.Trim(rest[:n], "01236;4") == "" {
				s = rest[n+1:]
				continue
			}
		}
		out.WriteByte(s[0])
		s = s[1:]
	}
	return out.String()
}

func TestStreamIsTheSameHoweverCut(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := markdownText().Draw(t, "text")
		style := Style{Width: rapid.IntRange(0, 60).Draw(t, "width"), UTF8: true}
		whole := NewStream(style)
		want := whole.Write(text) + whole.Flush()
		s, got := NewStream(style), ""
		for rest := text; rest != ""; {
			n := rapid.IntRange(1, len(rest)).Draw(t, "cut")
			got += s.Write(rest[:n])
			rest = rest[n:]
		}
		if got += s.Flush(); got != want {
			t.Fatalf("in pieces %q\nat once %q", got, want)
		}
	})
}

func TestWrapKeepsToTheWidth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		words := rapid.SliceOf(rapid.SampledFrom([]string{"a", "longer", "漢字", "e\u0301e\u0301", "👩\u200d💻", " ", "。", "x", strings.Repeat("w", 90)})).Draw(t, "words")
		text, width := strings.Join(words, ""), rapid.IntRange(2, 50).Draw(t, "width")
		lines := wrap([]piece{{text: text}}, width)
		for _, line := range lines {
			if n := term.Width(line); n > width {
				t.Fatalf("wrap(%q, %d): a line of %d columns: %q", text, width, n, line)
			}
		}
		squeeze := func(s string) string { return strings.ReplaceAll(s, " ", "") }
		if got := squeeze(strings.Join(lines, "")); got != squeeze(text) {
			t.Fatalf("wrap(%q, %d) lost or added text: %q", text, width, got)
		}
	})
}

func TestStreamShowsBlocksWhenTheyAreComplete(t *testing.T) {
	s := NewStream(Style{Width: 40})
	for _, step := range []struct{ in, want string }{
		{"# Head", ""},
		{"\n", "# Head\n"},
		{"one\ntwo\n", ""},
		{"\n", "\none two\n"},
		{"```go\na :=", ""},
		{" 1\n", "\n  a := 1\n"},
		{"\n\nb\n```\n", "\n\n  b\n"},
		{"- x\n\n- y\n", ""},
		{"z", ""},
		{"\n\nend\n", "\n- x\n\n- y z\n"},
	} {
		if got := s.Write(step.in); got != step.want {
			t.Errorf("Write(%q) = %q, want %q", step.in, got, step.want)
		}
	}
	if got, want := s.Flush(), "\nend\n"; got != want {
		t.Errorf("Flush() = %q, want %q", got, want)
	}
}

func TestLongTextsAreShownAsTheyAre(t *testing.T) {
	for _, text := range []string{strings.Repeat("*a **b ", 10000), strings.Repeat("*a*\n\n", 100000)} {
		if got := Render(text, Style{Width: 40}); got != whole(text) {
			t.Errorf("Render(%.20q...) = %.60q..., want the text", text, got)
		}
	}
	code := "```\n" + strings.Repeat("x\n", 40000) + "```\n"
	if got, want := Render(code, Style{Width: 40}), strings.Repeat("  x\n", 40000); got != want {
		t.Errorf("Render of a long code block = %.60q...", got)
	}
}

func FuzzRender(f *testing.F) {
	f.Add("# a\n\n- b\n\n```\nc\n```\n\n|a|b|\n|-|-|\n|c|d|\n")
	f.Add("<script>\n```\n</script>\n\n" + strings.Repeat("a*_", 3000))
	f.Add("|a|a|a|a|\n|-|-|-|-|\n" + strings.Repeat("|\n", 200))
	f.Fuzz(func(t *testing.T, text string) {
		checkWork(t, text)
		if out := Render(text, Style{Width: 30}); out != term.Clean(out) {
			t.Errorf("Render(%q) = %q", text, out)
		}
	})
}

// A line that comes in many pieces is not copied with each of them.
func TestStreamLongLine(t *testing.T) {
	const pieces = 32 << 10
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s := NewStream(Style{Width: 80})
	for range pieces {
		s.Write("word word ")
	}
	n := len(s.Flush())
	runtime.ReadMemStats(&after)
	if used := after.TotalAlloc - before.TotalAlloc; n < pieces*10 || used > 64<<20 {
		t.Errorf("%d bytes of output took %d MiB of memory, want at most 64", n, used>>20)
	}
}

// What a text says of its links is shown, wherever it stands: of a text that comes in pieces a
// definition may be known after what refers to it was shown.
func TestDefinitionsOfLinksShow(t *testing.T) {
	for text, want := range map[string]string{
		"See [1] and [docs][2].\n\n[1]: https://a.example/x\n[2]: <https://a.example/y> \"Y\"\n": "See [1] and [docs][2].\n\n[1]: https://a.example/x\n[2]: https://a.example/y \"Y\"\n",
		"[1]: https://a.example\n":             "[1]: https://a.example\n",
		"a\n\n[//]: # (said)\n\nb\n":           "a\n\n[//]: # (said)\n\nb\n",
		"[a](http://b \"T\") ![i](<> 'no')\n":  "a (http://b \"T\") [image: i] (\"no\")\n",
		"> As [1] says.\n> [1]: http://q\n":    "> As [1] says.\n> [1]: http://q\n",
		"- item\n\n  [a]: u\n  [b]: v\n":       "- item\n\n  [a]: u\n  [b]: v\n",
		"Sources\n[^1]: https://a.example 'T'": "Sources\n[^1]: https://a.example 'T'\n",
	} {
		if got := Render(text, Style{Width: 80}); got != want {
			t.Errorf("Render(%q)\n%q, want\n%q", text, got, want)
		}
		s := NewStream(Style{Width: 80})
		if got := s.Write(text) + s.Flush(); got != want {
			t.Errorf("streamed %q\n%q, want\n%q", text, got, want)
		}
	}
}

// No word of a text is left out.
func TestEveryWordShows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parts := []string{"[", "]", "]: ", "](", ")", "<", ">", "\n", "\n\n", " ", "|", "|---|---|\n", "- ", "# ", "\n> ", "```\n", "`", "**", "<!-- ", "-->", "\"", "'", "!["}
		var text strings.Builder
		var words []string
		for range rapid.IntRange(1, 16).Draw(t, "words") {
			words = append(words, fmt.Sprintf("w%02dx", len(words)))
			text.WriteString(words[len(words)-1] + strings.Join(rapid.SliceOfN(rapid.SampledFrom(parts), 0, 3).Draw(t, "parts"), ""))
		}
		s := NewStream(Style{})
		streamed := s.Write(text.String()) + s.Flush()
		for _, word := range words {
			if whole := Render(text.String(), Style{}); !strings.Contains(whole, word) || !strings.Contains(streamed, word) {
				t.Fatalf("%q: no %s in %q or %q", text.String(), word, whole, streamed)
			}
		}
	})
}
