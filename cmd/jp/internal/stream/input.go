package stream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"jp/tools/jsondoc"
)

// Input is a line that a client of `jp query --input-format=stream-json` writes on stdin, in the
// form that other agents take too: the message of a user, a control request, or the answer to a
// request of ours.
//
//	{"type":"user","message":{"role":"user","content":"Why?"}}
//	{"type":"control_request","request_id":"1","request":{"subtype":"interrupt"}}
//
// The content of a message is a text or a list of {"type":"text","text":"..."}, which are joined by
// newlines. Unknown keys are ignored. The zero value is a line without meaning, such as keep_alive.
type Input struct {
	Text    string          // what the user says; "" = the line is not a message, or a bad one
	Bad     error           // reason why the message cannot be answered; nil = it can
	UUID    string          // id that the client gave the message; "" = none
	Message json.RawMessage // message as it came
	Control *Control        // nil = the line is not a control request
	Reply   *Reply          // nil = the line does not answer a Permission
}

// ReadInput parses one line. A type that jp does not answer is an error.
func ReadInput(line []byte) (Input, error) {
	var l struct {
		Type            string          `json:"type"`
		UUID            string          `json:"uuid"`
		Message         json.RawMessage `json:"message"`
		ParentToolUseID string          `json:"parent_tool_use_id"`
		ShouldQuery     *bool           `json:"shouldQuery"`
		RequestID       string          `json:"request_id"`
		Request         json.RawMessage `json:"request"`
		Response        json.RawMessage `json:"response"`
	}
	if !utf8.Valid(line) {
		return Input{}, errors.New("not UTF-8 text")
	}
	if jsondoc.Crowded(line, jsondoc.MaxValues) {
		return Input{}, fmt.Errorf("more than %d values", jsondoc.MaxValues)
	}
	if err := json.Unmarshal(line, &l); err != nil {
		return Input{}, jsondoc.Explain(err)
	}
	switch l.Type {
	case "keep_alive", "control_cancel_request": // requests are answered at once, so there is nothing to cancel
		return Input{}, nil
	case "control_request":
		c, err := readControl(l.RequestID, l.Request)
		return Input{Control: c}, err
	case "control_response":
		r, err := readReply(l.Response)
		return Input{Reply: r}, err
	case "user":
	default:
		return Input{}, fmt.Errorf("type %q is not read here; only user and control_request are", l.Type)
	}
	in := Input{UUID: l.UUID, Message: l.Message}
	switch {
	case l.ParentToolUseID != "":
		in.Bad = fmt.Errorf("message: parent_tool_use_id is %q, and sub-agents take no messages", l.ParentToolUseID)
	case l.ShouldQuery != nil && !*l.ShouldQuery:
		in.Bad = errors.New("message: shouldQuery is false, and each message is answered here")
	default:
		in.Text, in.Bad = userText(l.Message)
	}
	return in, nil
}

func userText(message json.RawMessage) (string, error) {
	var m *struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
	}
	if len(message) > 0 {
		if err := json.Unmarshal(message, &m); err != nil {
			return "", fmt.Errorf("message: %w", jsondoc.Explain(err))
		}
	}
	switch {
	case m == nil:
		return "", errors.New("message: is missing")
	case m.Role != "user":
		return "", fmt.Errorf("message: role is %q, not user", m.Role)
	}
	var text string
	if json.Unmarshal(m.Content, &text) != nil {
		var blocks []struct {
			Type string `json:"type"`
			Text string `json:"text"`
		}
		if err := json.Unmarshal(m.Content, &blocks); err != nil {
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

// OneMessage takes the lines of a client that gets its answer in another form than stream-json, so
// that requests could not be answered. There must be exactly one message of a user, and no other
// line.
type OneMessage struct {
	n    int
	text string
}

// Add reads the next line.
func (m *OneMessage) Add(line []byte) error {
	m.n++
	if line = bytes.TrimSpace(line); len(line) == 0 {
		return nil
	}
	in, err := ReadInput(line)
	switch {
	case err != nil:
	case in.Bad != nil:
		err = in.Bad
	case in.Control != nil:
		err = fmt.Errorf("a control request is answered with --output-format stream-json only")
	case in.Reply != nil:
		err = errors.New("an answer came, and nothing was asked")
	case in.Text != "" && m.text != "":
		err = errors.New("jp answers one message here; send the next with --resume")
	}
	if err != nil {
		return fmt.Errorf("line %d: %w", m.n, err)
	}
	m.text += in.Text
	return nil
}

// Text returns the message after all lines were added.
func (m *OneMessage) Text() (string, error) {
	if m.text == "" {
		return "", ErrNoMessage
	}
	return m.text, nil
}

// ErrNoMessage says that the input of a client ended without a message.
var ErrNoMessage = errors.New("no message; want one line of type user")
