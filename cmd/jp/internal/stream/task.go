package stream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"jp/tools/jsondoc"
)

// Task is what `jp query --input-format=json` reads on stdin: one JSON object. A caller uses it
// where its sub-agent needs more than the query.
type Task struct {
	Query   string          `json:"query"`
	Schema  json.RawMessage `json:"schema,omitempty"` // schema that the answer must match
	Context *Context        `json:"context,omitempty"`

	Attachments []Attachment `json:"attachments,omitempty"`
}

// Attachment is a file, a page or an image that is shown to the model with the query.
type Attachment struct {
	Source    string `json:"source"`
	MediaType string `json:"media_type"`
	Text      string `json:"text,omitempty"`
	Data      []byte `json:"data,omitempty"` // of an image
}

// Context is a query that a tool answers before the model is asked.
type Context struct {
	Tool  string `json:"tool"` // "" = none is configured; a note of the turn says so
	Query string `json:"query"`
}

// ReadTask reads a task. Unknown keys are errors, and so are keys that are there twice and what
// follows the object.
func ReadTask(b []byte) (Task, error) {
	var t Task
	if len(bytes.TrimSpace(b)) == 0 {
		return t, errors.New("task: empty; want one JSON object")
	}
	if err := jsondoc.Strict(b, &t); err != nil {
		return t, fmt.Errorf("task: %w", err)
	}
	switch {
	case strings.TrimSpace(t.Query) == "":
		return t, errors.New("task: query: is empty")
	case t.Context != nil && strings.TrimSpace(t.Context.Query) == "":
		return t, errors.New("task: context: query: is empty")
	}
	return t, nil
}
