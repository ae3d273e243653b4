package stream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"jp/tools/jsondoc"
)

// Task is what `jp query --input-format=json` reads on stdin: one JSON object. A caller tells its sub-agent so what does not
// fit into the query.
type Task struct {
	Query   string          `json:"query"`
	Schema  json.RawMessage `json:"schema,omitempty"` // that the answer must match
	Context *Context        `json:"context,omitempty"`
}

// Context is what a tool shall be asked before the model is.
type Context struct {
	Tool  string `json:"tool"` // "" = none is configured, which the turn notes
	Query string `json:"query"`
}

// ReadTask reads a task. Unknown keys are errors, and so is what follows the object.
func ReadTask(b []byte) (Task, error) {
	var t Task
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	switch err := dec.Decode(&t); {
	case errors.Is(err, io.EOF):
		return t, errors.New("task: empty; want one JSON object")
	case err != nil:
		return t, fmt.Errorf("task: %w", jsondoc.Explain(err))
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return t, errors.New("task: something follows the object")
	}
	switch {
	case strings.TrimSpace(t.Query) == "":
		return t, errors.New("task: query: is empty")
	case t.Context != nil && strings.TrimSpace(t.Context.Query) == "":
		return t, errors.New("task: context: query: is empty")
	}
	return t, nil
}
