package tools

import (
	"bytes"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// TimeoutError is the cause of a context that a tool's own timeout ended.
type TimeoutError struct {
	Tool  string
	After time.Duration
}

func (e *TimeoutError) Error() string { return fmt.Sprintf("stopped after %s (timeout)", e.After) }

// bound cuts text to at most limit bytes, at a rune, and says so in a last
// line that is part of the limit. how tells how to get the rest. Limits below
// the length of that line leave only a short form of it.
func bound(text string, limit int, how string) string {
	if len(text) <= limit {
		return text
	}
	return cut(text, int64(len(text)), limit, how)
}

// cut is bound for a text of which only the beginning was kept: total is the
// size it had, and more than limit.
func cut(text string, total int64, limit int, how string) string {
	line := func(kept int) string {
		return fmt.Sprintf("\n[truncated: %s -> %s, full output: %s]", sizeText(total), sizeText(kept), how)
	}
	for keep := limit - len(line(limit)); keep >= 0; keep-- {
		kept := Prefix(text, keep)
		if last := line(len(kept)); len(kept)+len(last) <= limit { // the number in it may have grown
			return kept + last
		}
	}
	const short = "[truncated]"
	return short[:max(min(limit, len(short)), 0)]
}

// Prefix is the longest beginning of s of at most n bytes that ends at a rune. Where s is UTF-8, so is the prefix.
func Prefix(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n = max(n, 0); n > 0 && !utf8.RuneStart(s[n]); {
		n--
	}
	return s[:n]
}

// sizeText writes a number of bytes as people do: 999 B, 256 KB, 2 MB, 1.5 MB.
// 1 KB is 1000 bytes. It never rounds up to what is not there.
func sizeText[T int | int64](n T) string {
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

// validText replaces what is not UTF-8.
func validText(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }

// lastLines is the end of b: at most n lines and size bytes, without the final
// line break. cut reports whether something stands before it.
func lastLines(b []byte, n, size int) (tail string, cut bool) {
	b = bytes.TrimRight(b, "\n")
	start := max(len(b)-size, 0)
	for start > 0 && start < len(b) && !utf8.RuneStart(b[start]) {
		start++
	}
	for i := len(b) - 1; i >= start; i-- {
		if b[i] == '\n' {
			if n--; n == 0 {
				start = i + 1
				break
			}
		}
	}
	return validText(string(b[start:])), start > 0
}

// firstFrames is the part of a goroutine's stack that names the panic's place:
// without addresses and without the machinery above it.
func firstFrames(stack []byte) string {
	var out []string
	seen := false
	for line := range strings.Lines(string(stack)) {
		line = strings.TrimRight(line, "\n")
		if strings.HasPrefix(line, "panic(") {
			seen, out = true, nil
			continue
		}
		if !seen || strings.HasPrefix(line, "\t") {
			continue
		}
		if i := strings.LastIndexByte(line, '('); i > 0 {
			line = line[:i]
		}
		if out = append(out, "  at "+line); len(out) == 3 {
			break
		}
	}
	return strings.Join(out, "\n")
}
