package editor

import (
	"io"
	"strings"
	"sync"

	"jp/cmd/jp/internal/acp"
)

// notices is where the Envs of a session say what they have to say, a line at a time: to jp's
// stderr, and to the editor while a prompt is under way. Before that it is kept for the first one.
type notices struct {
	also io.Writer

	mu   sync.Mutex
	tell func(acp.Severity, string)
	kept []string
}

// maxKept bounds the lines that are kept; all of them are on stderr.
const maxKept = 256

func (n *notices) Write(p []byte) (int, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, _ = n.also.Write(p)
	for line := range strings.Lines(string(p)) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "jp: ")
		switch {
		case line == "":
		case n.tell != nil:
			n.say(line)
		case len(n.kept) < maxKept:
			n.kept = append(n.kept, line)
		}
	}
	return len(p), nil
}

// say tells the editor a line.
func (n *notices) say(line string) {
	if text, ok := strings.CutPrefix(line, "warning: "); ok {
		n.tell(acp.Warning, text)
		return
	}
	n.tell(acp.Information, line)
}

// to has notices told to the editor, or, with nil, kept.
func (n *notices) to(tell func(acp.Severity, string)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.tell = tell; tell == nil {
		return
	}
	for _, line := range n.kept {
		n.say(line)
	}
	n.kept = nil
}
