// Package stream defines the JSON lines of jp: `jp query --format=stream-json` writes them on
// stdout, and a child process writes the same to its parent. Each line is one object and ends with
// "\n". Its "type" says what it is.
//
//	{"type":"system","subtype":"init",...}   once, first
//	{"type":"stream_event",...}              a part of an assistant message, where the client asked for them (partial.go)
//	{"type":"assistant",...}                 a complete assistant message, with the usage of its model call
//	{"type":"tool_call",...}                 a call about to run
//	{"type":"tool_result",...}               its end
//	{"type":"user",...}                      the same again, in the form of other agents' streams
//	{"type":"wait",...}                      the model cannot be asked yet; without a reason: now it can
//	{"type":"compaction",...}                the model is sent less of what is old from now on
//	{"type":"delegation",...}                a change in a sub-agent, at any depth below
//	{"type":"result",...}                    once, last; absent when the process was killed
//
// These are jp's own words. A stream for a program that was written for another agent's has more:
// user and stream_event, keys in init, message in assistant, the Elsewhere of result, and in each
// line session_id, the conversation of the run; parent_tool_use_id, the call of a tool that a
// sub-agent works for, null for what the run itself does; and uuid, an id of the line.
//
// A published key is not removed. Readers ignore types and keys that they do not know.
package stream

import (
	"bytes"
	"cmp"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"sync"

	"jp/convstore/amount"
	"jp/tools/jsondoc"
	"jp/tools/unseen"
)

// Line is one of *Init, *Partial, *Assistant, *ToolCall, *ToolResult, *User, *Wait, *Compaction,
// *Delegation, *Result or, when read, *Other.
type Line interface{ kind() string }

// Usage counts tokens.
type Usage struct {
	InputTokens      int64 `json:"input_tokens"`
	OutputTokens     int64 `json:"output_tokens"`
	CacheReadTokens  int64 `json:"cache_read_tokens"`
	CacheWriteTokens int64 `json:"cache_write_tokens"`
}

// USD is an amount in nano-dollars, written as a decimal number of dollars without rounding.
type USD int64

// MarshalJSON writes dollars: 14200000 is 0.0142.
func (u USD) MarshalJSON() ([]byte, error) { return []byte(amount.Dollars(int64(u))), nil }

// UnmarshalJSON reads a decimal number of dollars, to the nano-dollar.
func (u *USD) UnmarshalJSON(b []byte) error {
	f, err := strconv.ParseFloat(string(b), 64)
	if err != nil {
		return err
	}
	if f < 0 {
		*u = USD(f*1e9 - 0.5)
	} else {
		*u = USD(f*1e9 + 0.5)
	}
	return nil
}

// The permission modes of other agents that mean what jp does: nobody is asked where nobody can
// answer.
const (
	ModeDefault = "default"
	ModeDontAsk = "dontAsk"
)

// Init opens the stream of a run.
type Init struct {
	ConversationID string   `json:"conversation_id"`
	Turn           int      `json:"turn"`
	Model          string   `json:"model"`
	Profile        string   `json:"profile,omitempty"`
	Tools          []string `json:"tools"`
	*Surroundings  `json:"-"`
}

// MarshalJSON adds the Surroundings. See joined.
func (i Init) MarshalJSON() ([]byte, error) {
	type own Init
	return joined(own(i), i.Surroundings)
}

// Surroundings are keys of init that readers of other agents' streams need.
type Surroundings struct {
	CWD            string         `json:"cwd"`
	MCPServers     []ServerStatus `json:"mcp_servers"` // servers of the tools of this run
	PermissionMode string         `json:"permissionMode"`
	SlashCommands  []string       `json:"slash_commands"` // always empty
	APIKeySource   string         `json:"apiKeySource"`
	OutputStyle    string         `json:"output_style"` // "default"
	Skills         []string       `json:"skills"`
	Plugins        []struct{}     `json:"plugins"` // always empty
	Capabilities   []string       `json:"capabilities,omitempty"`
}

// ServerStatus is an MCP server and its status.
type ServerStatus struct {
	Name   string `json:"name"`
	Status string `json:"status"` // "pending": a server is started by the first call of its tools
}

// Assistant is one complete message of the model. Text is "" where it only called tools.
type Assistant struct {
	ConversationID string   `json:"conversation_id"`
	Text           string   `json:"text"`
	Usage          Usage    `json:"usage"`
	CostUSD        *USD     `json:"cost_usd"`
	Message        *Message `json:"message,omitempty"` // the same in the form of the API, for readers of other agents' streams
}

// ToolCall is a call about to run.
type ToolCall struct {
	ConversationID string          `json:"conversation_id"`
	ID             string          `json:"id"`
	Name           string          `json:"name"`
	Arguments      json.RawMessage `json:"arguments"`
}

// ToolResult is the end of a call. Text is what the model gets.
type ToolResult struct {
	ConversationID string `json:"conversation_id"`
	ID             string `json:"id"`
	Name           string `json:"name"`
	Text           string `json:"text"`
	IsError        bool   `json:"is_error"`
	DurationMS     int64  `json:"duration_ms"`
}

// Wait says that a request to the model is held back, or repeated later.
type Wait struct {
	ConversationID string `json:"conversation_id"`
	Reason         string `json:"reason,omitempty"` // "rate_limit", "overloaded", "network", ...; "" = the wait is over
	WaitMS         int64  `json:"wait_ms"`          // least time
}

// Compaction says that the conversation was made shorter for the model. Tokens are estimates for
// the next request.
type Compaction struct {
	ConversationID string `json:"conversation_id"`
	Reason         string `json:"reason"`  // "asked", "window" or "provider"
	Results        int    `json:"results"` // number of results that are left out
	Summary        bool   `json:"summary"` // whether a summary stands for what was said before
	TokensBefore   int64  `json:"tokens_before"`
	TokensAfter    int64  `json:"tokens_after"`
}

// Phases of a delegation.
const (
	Queued  = "queued"
	Started = "started"
	Running = "running"
	Waiting = "waiting" // waiting for the model; Reason says why
	Ended   = "ended"
)

// Delegation is a change in one sub-agent. Status is the terminal state, set when Phase is Ended.
// Reason is the reason for that state, or what a Waiting sub-agent waits for.
type Delegation struct {
	Phase          string `json:"phase"`
	ConversationID string `json:"conversation_id"` // "" = it was refused; then Ended is its only phase
	ParentID       string `json:"parent_id"`
	CallID         string `json:"call_id"`
	Profile        string `json:"profile"`
	Title          string `json:"title,omitempty"`
	Host           string `json:"host,omitempty"` // machine where it runs; "" = this one
	Tool           string `json:"tool,omitempty"`
	Status         string `json:"status,omitempty"`
	Reason         string `json:"reason,omitempty"`
	Tokens         int64  `json:"tokens"`
	CostUSD        *USD   `json:"cost_usd"`
	ElapsedMS      int64  `json:"elapsed_ms"`

	Place int `json:"-"` // place among the calls of its caller; 0 = not known
}

// On returns where the sub-agent runs, after its name; "" is this machine.
func (d *Delegation) On() string {
	if d.Host == "" {
		return ""
	}
	return " on " + d.Host
}

// Text returns what the sub-agent does, in a few words on one line in which every character shows.
func (d *Delegation) Text() string {
	text := fmt.Sprintf("%s %s%s: %s", d.Profile, d.ConversationID, d.On(), d.Phase)
	if d.Tool != "" {
		text += " " + d.Tool
	}
	if d.Status != "" {
		text += ", " + d.Status
	}
	return unseen.Spell(text)
}

// Result ends the stream. Without its type it is also the document of `--format=json`.
type Result struct {
	ConversationID string `json:"conversation_id"`
	Turn           int    `json:"turn"`
	Status         string `json:"status"`
	Reason         string `json:"reason,omitempty"`
	Result         string `json:"result"`
	Said           string `json:"said,omitempty"` // beginning of the answer of a run that failed
	// Structured is the answer as a value, where it had to match a schema.
	Structured json.RawMessage `json:"structured,omitempty"`
	// Reused marks an answer that was there before: nothing was asked, and nothing is paid.
	Reused     bool        `json:"reused,omitempty"`
	Model      string      `json:"model"`
	Usage      ResultUsage `json:"usage"`
	CostUSD    *USD        `json:"cost_usd"`
	SubCalls   int         `json:"sub_calls"`
	DurationMS int64       `json:"duration_ms"`
	// TotalCostUSD includes sub-agents. It is absent where a price is unknown: readers expect a
	// number, and would add null as 0.
	TotalCostUSD *USD `json:"total_cost_usd,omitempty"`
	*Elsewhere   `json:"-"`
}

// MarshalJSON adds Elsewhere. See joined.
func (r Result) MarshalJSON() ([]byte, error) {
	type own Result
	return joined(own(r), r.Elsewhere)
}

// joined writes one object with the members of both. Package json prepares each type that it finds
// below one, also where the value is nil, and a sub-agent has only jp's own words: as types of
// their own those of other agents cost it nothing.
func joined[T any](own any, others *T) ([]byte, error) {
	b, err := jsondoc.Encode(own)
	if err != nil || others == nil {
		return b, err
	}
	more, err := jsondoc.Encode(others)
	if err != nil {
		return nil, err
	}
	b[len(b)-1] = ',' // in place of the "}"
	return append(b, more[1:]...), nil
}

// Elsewhere has the keys of a result that other agents have, the same numbers among them.
type Elsewhere struct {
	Subtype           string                `json:"subtype"` // Success or one of the errors
	IsError           bool                  `json:"is_error"`
	Errors            []string              `json:"errors,omitempty"` // what went wrong; nil with Success
	NumTurns          int                   `json:"num_turns"`        // number of replies of the model in this run
	DurationAPIMS     int64                 `json:"duration_api_ms"`  // time of all replies together
	StopReason        *string               `json:"stop_reason"`      // stop reason of the last reply; nil = it was cut off, or there was none
	ModelUsage        map[string]ModelUsage `json:"modelUsage"`       // by model, sub-agents included; not empty after a reply
	PermissionDenials []PermissionDenial    `json:"permission_denials"`
	StructuredOutput  json.RawMessage       `json:"structured_output,omitempty"`
}

// ModelUsage is what the calls of one model used.
type ModelUsage struct {
	InputTokens              int64  `json:"inputTokens"`
	OutputTokens             int64  `json:"outputTokens"`
	CacheReadInputTokens     int64  `json:"cacheReadInputTokens"`
	CacheCreationInputTokens int64  `json:"cacheCreationInputTokens"`
	WebSearchRequests        int64  `json:"webSearchRequests"`
	CostUSD                  *USD   `json:"costUSD,omitempty"` // absent when the price is unknown
	CostBasis                string `json:"costBasis"`         // CostList or CostUnknown
	ContextWindow            int    `json:"contextWindow"`     // 0 = unknown
	MaxOutputTokens          int    `json:"maxOutputTokens"`   // 0 = unknown
}

// Where the costUSD of a ModelUsage comes from.
const (
	CostList    = "list"
	CostUnknown = "unknown"
)

// PermissionDenial is a call of a tool that policy or a person denied.
type PermissionDenial struct {
	ToolName  string          `json:"tool_name"`
	ToolUseID string          `json:"tool_use_id"`
	ToolInput json.RawMessage `json:"tool_input"`
}

// Other is a line of an unknown type.
type Other struct{ Raw json.RawMessage }

func (*Init) kind() string       { return "system" }
func (*Partial) kind() string    { return "stream_event" }
func (*Assistant) kind() string  { return "assistant" }
func (*ToolCall) kind() string   { return "tool_call" }
func (*ToolResult) kind() string { return "tool_result" }
func (*User) kind() string       { return "user" }
func (*Wait) kind() string       { return "wait" }
func (*Compaction) kind() string { return "compaction" }
func (*Delegation) kind() string { return "delegation" }
func (*Result) kind() string     { return "result" }
func (*Other) kind() string      { return "" }

// Encode returns the line as JSON with its newline. With a session, which is the id of a
// conversation, the line has the words of other agents too. With nil it has only jp's own, and is
// empty for a line that says nothing in these.
func Encode(l Line, session *string) ([]byte, error) {
	if o, ok := l.(*Other); ok {
		var b bytes.Buffer
		if err := json.Compact(&b, o.Raw); err != nil {
			return nil, fmt.Errorf("stream line: %w", err)
		}
		b.WriteByte('\n')
		return b.Bytes(), nil
	}
	of := envelope{Type: l.kind()}
	if session != nil {
		of.Envelope = &Envelope{SessionID: *session, UUID: newUUID()}
	} else if l = own(l); l == nil {
		return nil, nil
	}
	switch l := l.(type) {
	case *User:
		of.UUID = cmp.Or(l.UUID, of.UUID)
	case *Init:
		of.Subtype = "init"
	case *Delegation:
		if session != nil {
			of.ParentToolUseID = &l.CallID
		}
	}
	head, err := json.Marshal(of)
	if err != nil {
		return nil, fmt.Errorf("stream line %s: %w", l.kind(), err)
	}
	head[len(head)-1] = ',' // in place of the "}"
	b, err := jsondoc.Encode(l)
	if err != nil {
		return nil, fmt.Errorf("stream line %s: %w", l.kind(), err)
	}
	return append(append(head, b[1:]...), '\n'), nil // without the second "{"
}

// envelope begins every line.
type envelope struct {
	Type    string `json:"type"`
	Subtype string `json:"subtype,omitempty"`
	*Envelope
}

// Envelope is what every line of other agents has.
type Envelope struct {
	SessionID       string  `json:"session_id"`
	ParentToolUseID *string `json:"parent_tool_use_id"`
	UUID            string  `json:"uuid"`
}

// own returns a line without what only other agents' readers need; nil if nothing is left.
func own(l Line) Line {
	switch l := l.(type) {
	case *User, *Partial:
		return nil
	case *Init:
		bare := *l
		bare.Surroundings = nil
		return &bare
	case *Assistant:
		bare := *l
		bare.Message = nil
		return &bare
	case *Result:
		bare := *l
		bare.Elsewhere, bare.Usage.CacheNames = nil, nil
		return &bare
	}
	return l
}

// newUUID returns a random UUID of version 4, as RFC 9562 has it.
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// Decode parses one line, without Surroundings and Elsewhere. A line of an unknown type is
// an *Other. A line that is not a JSON object is an error.
func Decode(line []byte) (Line, error) {
	var head struct {
		Type    string `json:"type"`
		Subtype string `json:"subtype"`
	}
	if t := bytes.TrimLeft(line, " \t\r\n"); len(t) == 0 || t[0] != '{' {
		return nil, errors.New("stream line: not a JSON object")
	}
	if err := json.Unmarshal(line, &head); err != nil {
		return nil, fmt.Errorf("stream line: %w", err)
	}
	var l Line
	switch head.Type {
	case "system":
		if head.Subtype != "init" {
			return &Other{Raw: bytes.Clone(line)}, nil
		}
		l = &Init{}
	case "stream_event":
		l = &Partial{}
	case "assistant":
		l = &Assistant{}
	case "tool_call":
		l = &ToolCall{}
	case "tool_result":
		l = &ToolResult{}
	case "user":
		l = &User{}
	case "wait":
		l = &Wait{}
	case "compaction":
		l = &Compaction{}
	case "delegation":
		l = &Delegation{}
	case "result":
		l = &Result{}
	default:
		return &Other{Raw: bytes.Clone(line)}, nil
	}
	if err := json.Unmarshal(line, l); err != nil {
		return nil, fmt.Errorf("stream line %s: %w", head.Type, err)
	}
	return l, nil
}

// Writer writes lines, each with one Write call. Safe for concurrent use.
type Writer struct {
	mu      sync.Mutex
	w       io.Writer
	session *string
	err     error
}

// NewWriter returns a Writer to w; session is as in Encode.
func NewWriter(w io.Writer, session *string) *Writer { return &Writer{w: w, session: session} }

// Write writes one line. After an error every call returns that error, because w may have got half
// a line.
func (w *Writer) Write(l Line) error {
	b, err := Encode(l, w.session)
	if err != nil || b == nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		_, w.err = w.w.Write(b)
	}
	return w.err
}

// Bounds of a line that a Splitter accepts.
const (
	MaxLine   = 16 << 20 // bytes
	maxValues = 1 << 20  // values, about: each can take a hundred times the memory of its bytes
)

// LineError says that a line is too long, has too many values, or is not JSON.
type LineError struct {
	Line int // 1-based
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("stream line %d: %v", e.Line, e.Err) }
func (e *LineError) Unwrap() error { return e.Err }

// Splitter is an io.Writer that gets the stdout of a process in any pieces and passes each complete
// line to Each. Write never fails, so that no line stops the process: a bad line goes to Bad and is
// dropped. Not safe for concurrent use.
type Splitter struct {
	Each func(Line)
	Bad  func(*LineError) // nil = nobody hears of them

	buf  []byte
	n    int
	skip bool // whether the current line is too long
}

func (s *Splitter) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			s.add(p)
			break
		}
		s.add(p[:i])
		s.end()
		p = p[i+1:]
	}
	return n, nil
}

// Close passes on a last line that has no newline.
func (s *Splitter) Close() error {
	if len(s.buf) > 0 || s.skip {
		s.end()
	}
	return nil
}

func (s *Splitter) add(p []byte) {
	if s.skip {
		return
	}
	if len(s.buf)+len(p) > MaxLine {
		s.skip, s.buf = true, nil
		return
	}
	s.buf = append(s.buf, p...)
}

func (s *Splitter) end() {
	s.n++
	line := bytes.TrimSpace(s.buf)
	switch {
	case s.skip:
		s.bad(fmt.Errorf("longer than %d bytes", MaxLine))
	case jsondoc.Crowded(line, maxValues):
		s.bad(fmt.Errorf("more than %d values", maxValues))
	case len(line) > 0:
		l, err := Decode(line)
		if err != nil {
			s.bad(err)
		} else {
			s.Each(l)
		}
	}
	if cap(s.buf) > 1<<20 {
		s.buf = nil
	}
	s.buf, s.skip = s.buf[:0], false
}

func (s *Splitter) bad(err error) {
	if s.Bad != nil {
		s.Bad(&LineError{Line: s.n, Err: err})
	}
}
