package tools

import (
	"bytes"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"jp/tools/brief"
)

// TimeoutError is the cause of a context that the timeout of a tool has ended.
type TimeoutError struct {
	Tool  string
	After time.Duration
}

func (e *TimeoutError) Error() string { return fmt.Sprintf("stopped after %s (timeout)", e.After) }

// bound cuts text to at most limit bytes, at a rune, and says so in a last line that counts towards
// the limit. how says how to get the rest. If the limit is below the length of that line, only a
// short form of the line is left.
func bound(text string, limit int, how string) string {
	if len(text) <= limit {
		return text
	}
	return cut(text, int64(len(text)), limit, how)
}

// cut is bound for a text of which only the beginning is there. total is its full size, which is
// more than limit.
func cut(text string, total int64, limit int, how string) string {
	line := func(kept int) string {
		return fmt.Sprintf("\n[truncated: %s -> %s, full output: %s]", brief.Size(total), brief.Size(kept), how)
	}
	for keep := limit - len(line(limit)); keep >= 0; keep-- {
		kept := brief.Prefix(text, keep)
		if last := line(len(kept)); len(kept)+len(last) <= limit { // the number in it may have grown
			return kept + last
		}
	}
	const short = "[truncated]"
	return short[:max(min(limit, len(short)), 0)]
}

// lastLines returns the end of what was written: at most n lines and size bytes, without the final
// line break. cut reports whether something was before it.
func lastLines(w *brief.Tail, n, size int) (text string, cut bool) {
	b, lost := w.Bytes()
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
	return brief.UTF8(string(b[start:])), lost || start > 0
}

// firstFrames is the part of a goroutine's stack that shows where it panicked: without addresses
// and without the machinery above it.
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
