package editor

import (
	"io"
	"strings"
	"sync"

	"jp/cmd/jp/internal/acp"
)

// notices passes on the warnings and notes of the Envs of a session, line by line: to jp's stderr,
// and to the editor while a prompt runs. It keeps lines from between prompts for the next one.
type notices struct {
	also io.Writer

	mu   sync.Mutex
	tell func(acp.Severity, string)
	kept []string
}

// maxKept bounds the number of lines that are kept. stderr has all of them.
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

// say sends the editor a line; n.mu is held.
func (n *notices) say(line string) {
	if text, ok := strings.CutPrefix(line, "warning: "); ok {
		n.tell(acp.Warning, text)
		return
	}
	n.tell(acp.Information, line)
}

// to sends the kept lines and all further ones to tell. With nil, further lines are kept.
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
