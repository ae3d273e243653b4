package mcp

import (
	"bytes"
	"strings"
)

// Bounds of what is remembered and shown of the stderr of a server.
const (
	maxTail  = 2 << 10 // bytes that are remembered
	maxLine  = 500     // bytes of a line that are shown
	maxLines = 200     // lines of one program that are shown
)

// lines passes what is written to it to emit, line by line, as much as a person would read.
type lines struct {
	emit  func(string)
	line  []byte // beginning of a line that has not ended
	count int
}

func (l *lines) Write(p []byte) (int, error) {
	n := len(p)
	for l.count <= maxLines {
		before, after, ended := bytes.Cut(p, []byte("\n"))
		l.line = append(l.line, before[:min(len(before), maxLine-len(l.line))]...)
		if !ended {
			break
		}
		l.end()
		p = after
	}
	return n, nil
}

// end passes the line on.
func (l *lines) end() {
	text := strings.TrimSpace(cleanText(string(l.line)))
	l.line = l.line[:0]
	if text == "" || l.count > maxLines {
		return
	}
	if l.count++; l.count > maxLines {
		text = "(more is left out)"
	}
	l.emit(text)
}
