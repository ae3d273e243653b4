package stream

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"jp/tools/jsondoc"
)

// Control is a request of the client to this jp that is not a message. Each is answered by one
// line.
type Control struct {
	ID      string // id of the request, which its answer names
	Subtype string // Initialize, Interrupt, ...

	Start        *Start // with Initialize
	CancelQueued bool   // with Interrupt: whether messages that wait are dropped too
	Mode         string // with SetPermissionMode
	Err          error  // why Initialize is refused; nil = it is not
}

// Subtypes of the requests that are carried out.
const (
	Initialize        = "initialize"
	Interrupt         = "interrupt"
	SetPermissionMode = "set_permission_mode"
)

// Start is what a client asks for before its first message.
type Start struct {
	Schema json.RawMessage // schema that each answer must match; nil = free text
	Prompt string          // text that is added to the system prompt
	Title  string          // title of a new conversation
}

func readControl(id string, request json.RawMessage) (*Control, error) {
	if id == "" {
		return nil, errors.New("control_request: request_id is missing")
	}
	var r struct {
		Subtype      string `json:"subtype"`
		Mode         string `json:"mode"`
		CancelQueued bool   `json:"cancel_queued"`
	}
	if err := json.Unmarshal(request, &r); err != nil || r.Subtype == "" {
		return nil, fmt.Errorf("control_request %s: request: has no subtype", id)
	}
	c := &Control{ID: id, Subtype: r.Subtype, Mode: r.Mode, CancelQueued: r.CancelQueued}
	if r.Subtype == Initialize {
		if c.Start, c.Err = readStart(request); c.Err != nil {
			c.Err = fmt.Errorf("initialize: %w", c.Err)
		}
	}
	return c, nil
}

// readStart parses a Start. It refuses what a client asks for and would not get, and ignores keys
// that only change what is shown.
func readStart(request json.RawMessage) (*Start, error) {
	var r struct {
		JSONSchema         json.RawMessage `json:"jsonSchema"`
		AppendSystemPrompt string          `json:"appendSystemPrompt"`
		Title              string          `json:"title"`
		SystemPrompt       json.RawMessage `json:"systemPrompt"`
	}
	if err := json.Unmarshal(request, &r); err != nil {
		return nil, jsondoc.Explain(err)
	}
	var keys map[string]json.RawMessage
	if err := json.Unmarshal(request, &keys); err != nil {
		return nil, jsondoc.Explain(err)
	}
	for _, not := range []struct{ key, why string }{
		{"hooks", "are not called here"},
		{"sdkMcpServers", "tools in the process of the client are not called here"},
		{"mcpServers", "[providers.mcp.NAME] in the user's config.toml, or .mcp.json, names servers"},
		{"agents", "a profile holds an agent, and delegation.profiles names those that may be delegated to"},
		{"plugins", "there are none here"},
		{"skills", "they are not chosen by the client; .jp/skills holds them"},
		{"toolAliases", "there are none here"},
	} {
		if !empty(keys[not.key]) {
			return nil, fmt.Errorf("%s: %s", not.key, not.why)
		}
	}
	if strings.TrimSpace(promptText(r.SystemPrompt)) != "" {
		return nil, errors.New("systemPrompt: a profile holds it: --cfg NAME; appendSystemPrompt adds to it")
	}
	s := &Start{Prompt: r.AppendSystemPrompt, Title: r.Title}
	if !empty(r.JSONSchema) {
		s.Schema = r.JSONSchema
	}
	return s, nil
}

// empty reports whether a JSON value has nothing in it.
func empty(v json.RawMessage) bool {
	return slices.Contains([]string{"", "null", "{}", "[]", `""`}, string(bytes.TrimSpace(v)))
}

// promptText returns a prompt, which is a text or a list of texts. Any other value counts as a
// prompt too.
func promptText(v json.RawMessage) string {
	var text string
	var list []string
	switch {
	case empty(v), json.Unmarshal(v, &text) == nil:
		return text
	case json.Unmarshal(v, &list) == nil:
		return strings.Join(list, "")
	}
	return string(v)
}

// Answer is the line that answers a control request. Err says why the request is not carried out.
type Answer struct {
	ID       string
	Response any // object; nil = the request is only acknowledged
	Err      error
}

// Line returns it as JSON with its newline.
func (a Answer) Line() ([]byte, error) {
	type response struct {
		Subtype   string `json:"subtype"`
		RequestID string `json:"request_id"`
		Response  any    `json:"response,omitempty"`
		Error     string `json:"error,omitempty"`
	}
	r := response{Subtype: "success", RequestID: a.ID, Response: a.Response}
	if a.Err != nil {
		r = response{Subtype: "error", RequestID: a.ID, Error: a.Err.Error()}
	} else if r.Response == nil {
		r.Response = struct{}{}
	}
	b, err := json.Marshal(struct {
		Type     string   `json:"type"`
		Response response `json:"response"`
	}{"control_response", r})
	return append(b, '\n'), err
}

// Initialized answers Initialize. Its lists are empty: other agents offer something there, and jp
// does not.
type Initialized struct {
	Commands              []struct{} `json:"commands"`
	Agents                []struct{} `json:"agents"`
	OutputStyle           string     `json:"output_style"`
	AvailableOutputStyles []string   `json:"available_output_styles"`
	Models                []struct{} `json:"models"`
	Account               struct{}   `json:"account"`
}

// NewInitialized returns the answer.
func NewInitialized() Initialized {
	return Initialized{
		Commands: []struct{}{}, Agents: []struct{}{}, Models: []struct{}{},
		OutputStyle: OutputStyle, AvailableOutputStyles: []string{OutputStyle},
	}
}

// Interrupted answers Interrupt: the messages that still wait, and those that were dropped, by the
// ids of the client.
type Interrupted struct {
	StillQueued []string `json:"still_queued"`
	Cancelled   []string `json:"cancelled,omitempty"`
}

// OutputStyle is the only output style.
const OutputStyle = "default"
