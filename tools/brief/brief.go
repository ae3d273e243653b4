// Package brief puts values into messages for people and models: a text cut at a rune, shortened or
// quoted, a size in bytes, a number of things, ranges of numbers, a choice between words.
package brief

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Prefix returns the longest beginning of s of at most n bytes that ends at a rune. Where s is
// UTF-8, so is the prefix.
func Prefix(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n = max(n, 0); n > 0 && !utf8.RuneStart(s[n]); {
		n--
	}
	return s[:n]
}

// Cut returns Prefix, and how many bytes of s it leaves out.
func Cut(s string, n int) (head string, rest int) {
	head = Prefix(s, n)
	return head, len(s) - len(head)
}

// Shorten returns s, or its beginning of at most n bytes with "..." behind it.
func Shorten(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return Prefix(s, n) + "..."
}

// Quote returns a Go string literal of s, shortened to 60 bytes.
func Quote(s string) string { return fmt.Sprintf("%q", Shorten(s, 60)) }

// UTF8 returns s with U+FFFD in place of what is not UTF-8.
func UTF8(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// Size writes a number of bytes as people do: 999 B, 256 KB, 2 MB, 1.5 MB. 1 KB is 1000 bytes. It
// never rounds up.
func Size[T int | int64](n T) string {
	const digits = 10 // one decimal
	for _, u := range []struct {
		name string
		size T
	}{{"GB", 1e9}, {"MB", 1e6}, {"KB", 1e3}} {
		if n < u.size {
			continue
		}
		tenths := n / (u.size / digits)
		if tenths%digits == 0 || tenths >= 100*digits {
			return fmt.Sprintf("%d %s", tenths/digits, u.name)
		}
		return fmt.Sprintf("%d.%d %s", tenths/digits, tenths%digits, u.name)
	}
	return fmt.Sprintf("%d B", n)
}

// Count writes a number of things: "1 element", "2 elements".
func Count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// Or writes a choice between words: "a, b or c". There must be at least one.
func Or(words []string) string {
	if len(words) == 1 {
		return words[0]
	}
	return strings.Join(words[:len(words)-1], ", ") + " or " + words[len(words)-1]
}

// Ranges writes sorted numbers: 1-3, 7.
func Ranges(numbers []int) string {
	var parts []string
	for i := 0; i < len(numbers); {
		j := i
		for j+1 < len(numbers) && numbers[j+1] == numbers[j]+1 {
			j++
		}
		part := fmt.Sprint(numbers[i])
		if j > i {
			part += fmt.Sprintf("-%d", numbers[j])
		}
		parts = append(parts, part)
		i = j + 1
	}
	return strings.Join(parts, ", ")
}
