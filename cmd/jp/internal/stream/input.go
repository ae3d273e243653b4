package stream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"jp/tools"
)

// ReadUserLine reads what `jp query --input-format=stream-json` takes on stdin: one line with the message of a user, as other
// agents take it.
//
//	{"type":"user","message":{"role":"user","content":"Why?"}}
//
// The content is a text or a list of {"type":"text","text":"..."}, which are joined by newlines. Other keys of the line are
// left alone. A second message is an error, and so is a line of any other type: nobody would answer it.
func ReadUserLine(b []byte) (string, error) {
	found := false
	var text string
	for n, line := range bytes.Split(b, []byte("\n")) {
		if line = bytes.TrimSpace(line); len(line) == 0 {
			continue
		}
		if found {
			return "", fmt.Errorf("line %d: one message is one run; the next goes on with --resume", n+1)
		}
		found = true
		var err error
		if text, err = userLine(line); err != nil {
			return "", fmt.Errorf("line %d: %w", n+1, err)
		}
	}
	if !found {
		return "", errors.New("no message; want one line of type user")
	}
	return text, nil
}

func userLine(line []byte) (string, error) {
	var l struct {
		Type    string `json:"type"`
		Message *struct {
			Role    string          `json:"role"`
			Content json.RawMessage `json:"content"`
		} `json:"message"`
	}
	if err := json.Unmarshal(line, &l); err != nil {
		return "", tools.ExplainJSON(err)
	}
	switch {
	case l.Type != "user":
		return "", fmt.Errorf("type %q is not read here; only user is", l.Type)
	case l.Message == nil:
		return "", errors.New("message: is missing")
	case l.Message.Role != "user":
		return "", fmt.Errorf("message: role is %q, not user", l.Message.Role)
	}
	var text string
	if json.Unmarshal(l.Message.Content, &text) != nil {
		var blocks []struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}
		if err := json.Unmarshal(l.Message.Content, &blocks); err != nil {
			return "", errors.New("message: content is neither a text nor a list of blocks")
		}
		parts := make([]string, len(blocks))
		for i, block := range blocks {
			if block.Type != "text" {
				return "", fmt.Errorf("message: content: a block of type %q is not read here; only text is", block.Type)
			}
			parts[i] = block.Text
		}
		text = strings.Join(parts, "\n")
	}
	if strings.TrimSpace(text) == "" {
		return "", errors.New("message: content is empty")
	}
	return text, nil
}
