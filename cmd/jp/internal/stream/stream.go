// Package stream defines the JSON lines of jp: what `jp query --format=stream-json` writes on stdout is what a
// child process tells its parent. One object per line, "\n" only, told apart by "type".
//
//	{"type":"system","subtype":"init",...}   once, first
//	{"type":"stream_event",...}              a part of an assistant message, where the client asked for them (partial.go)
//	{"type":"assistant",...}                 a complete assistant message, with the usage of its model call
//	{"type":"tool_call",...}                 a call about to run
//	{"type":"tool_result",...}               its end
//	{"type":"user",...}                      the same once more, as readers of other agents' streams know it
//	{"type":"wait",...}                      the model cannot be asked yet; and again, without a reason, when it can
//	{"type":"compaction",...}                what is old was left out of what the model is sent
//	{"type":"delegation",...}                a change in a sub-agent, at any depth below
//	{"type":"result",...}                    once, last; absent when the process was killed
//
// Each line also has session_id, the conversation of the run, parent_tool_use_id, the call of a tool that a sub-agent works
// for and null in all that the run itself does, and uuid, its own. With these, with message in assistant and user and with what
// result says twice, a program written for another agent's stream reads this one (message.go).
//
// A published key stays. Readers ignore types and keys that they do not know.
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
)

// Line is one of *Init, *Partial, *Assistant, *ToolCall, *ToolResult, *User, *Wait, *Compaction, *Delegation, *Result or, when read, *Other.
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
func (u USD) MarshalJSON() ([]byte, error) {
	n := int64(u)
	sign := ""
	if n < 0 {
		sign, n = "-", -n
	}
	b := fmt.Appendf(nil, "%s%d.%09d", sign, n/1e9, n%1e9)
	return bytes.TrimRight(bytes.TrimRight(b, "0"), "."), nil
}

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

// The permission modes of other agents that are what happens here: nobody is asked where nobody can be.
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

	// What readers of other agents' streams insist on.
	CWD            string         `json:"cwd"`
	MCPServers     []ServerStatus `json:"mcp_servers"` // those that a tool of this run is of
	PermissionMode string         `json:"permissionMode"`
	SlashCommands  []string       `json:"slash_commands"` // always empty
	APIKeySource   string         `json:"apiKeySource"`
	OutputStyle    string         `json:"output_style"` // "default"
	Skills         []string       `json:"skills"`
	Plugins        []struct{}     `json:"plugins"` // always empty
	Capabilities   []string       `json:"capabilities,omitempty"`
}

// ServerStatus is an MCP server, and how far it has come.
type ServerStatus struct {
	Name   string `json:"name"`
	Status string `json:"status"` // "pending": a server is started by the first call of its tools
}

// Assistant is one complete message of the model; Text is empty when it only called tools.
type Assistant struct {
	ConversationID string  `json:"conversation_id"`
	Text           string  `json:"text"`
	Usage          Usage   `json:"usage"`
	CostUSD        *USD    `json:"cost_usd"`
	Message        Message `json:"message"`
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

// Wait tells that a request to the model is held back, or repeated later.
type Wait struct {
	ConversationID string `json:"conversation_id"`
	Reason         string `json:"reason,omitempty"` // "rate_limit", "overloaded", "network", ...; "" = the wait is over
	WaitMS         int64  `json:"wait_ms"`          // at least
}

// Compaction tells that the conversation was made shorter for the model. Tokens are those of the next request, estimated.
type Compaction struct {
	ConversationID string `json:"conversation_id"`
	Reason         string `json:"reason"`  // "asked", "window" or "provider"
	Results        int    `json:"results"` // that were left out
	Summary        bool   `json:"summary"` // stands for what was said before
	TokensBefore   int64  `json:"tokens_before"`
	TokensAfter    int64  `json:"tokens_after"`
}

// Phases of a delegation.
const (
	Queued  = "queued"
	Started = "started"
	Running = "running"
	Waiting = "waiting" // for the model; Reason says for what
	Ended   = "ended"
)

// Delegation is a change in one sub-agent. Status is the terminal state, set when Phase is Ended; Reason tells of that or of
// what a Waiting one waits for.
type Delegation struct {
	Phase          string `json:"phase"`
	ConversationID string `json:"conversation_id"` // "" for what was refused, whose only phase is Ended
	ParentID       string `json:"parent_id"`
	CallID         string `json:"call_id"`
	Profile        string `json:"profile"`
	Title          string `json:"title,omitempty"`
	Tool           string `json:"tool,omitempty"`
	Status         string `json:"status,omitempty"`
	Reason         string `json:"reason,omitempty"`
	Tokens         int64  `json:"tokens"`
	CostUSD        *USD   `json:"cost_usd"`
	ElapsedMS      int64  `json:"elapsed_ms"`
}

// Text says what the sub-agent does, in a few words.
func (d *Delegation) Text() string {
	text := fmt.Sprintf("%s %s: %s", d.Profile, d.ConversationID, d.Phase)
	if d.Tool != "" {
		text += " " + d.Tool
	}
	if d.Status != "" {
		text += ", " + d.Status
	}
	return text
}

// Result closes the stream; without its type it is also the document of `--format=json`.
type Result struct {
	ConversationID string `json:"conversation_id"`
	Turn           int    `json:"turn"`
	Status         string `json:"status"`
	Reason         string `json:"reason,omitempty"`
	Result         string `json:"result"`
	Said           string `json:"said,omitempty"` // by a run that failed: the beginning of an answer that is none
	// Structured is Result as a value, where the answer had a schema to match.
	Structured json.RawMessage `json:"structured,omitempty"`
	Model      string          `json:"model"`
	Usage      ResultUsage     `json:"usage"`
	CostUSD    *USD            `json:"cost_usd"`
	SubCalls   int             `json:"sub_calls"`
	DurationMS int64           `json:"duration_ms"`

	// What other agents call it.
	Subtype       string   `json:"subtype"` // Success or one of the errors
	IsError       bool     `json:"is_error"`
	Errors        []string `json:"errors,omitempty"` // what went wrong; nil = Success
	NumTurns      int      `json:"num_turns"`        // replies of the model in this run
	DurationAPIMS int64    `json:"duration_api_ms"`  // of all replies together
	StopReason    *string  `json:"stop_reason"`      // of the last reply; nil = it was cut off, or there was none
	// TotalCostUSD includes sub-agents. It is absent when a price is unknown: its readers take it for a number, and null would
	// add up as nothing.
	TotalCostUSD      *USD                  `json:"total_cost_usd,omitempty"`
	ModelUsage        map[string]ModelUsage `json:"modelUsage"` // by model, sub-agents included; not empty after a reply
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

// Other is a line of a type that this version does not know.
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

// Encode returns the line as JSON with its newline, in the stream of a session.
func Encode(l Line, session string) ([]byte, error) {
	if o, ok := l.(*Other); ok {
		var b bytes.Buffer
		if err := json.Compact(&b, o.Raw); err != nil {
			return nil, fmt.Errorf("stream line: %w", err)
		}
		b.WriteByte('\n')
		return b.Bytes(), nil
	}
	var of envelope
	of.Type, of.SessionID, of.UUID = l.kind(), session, newUUID()
	switch l := l.(type) {
	case *User:
		of.UUID = cmp.Or(l.UUID, of.UUID)
	case *Init:
		of.Subtype = "init"
	case *Delegation:
		of.ParentToolUseID = &l.CallID
	}
	head, err := json.Marshal(of)
	if err != nil {
		return nil, fmt.Errorf("stream line %s: %w", l.kind(), err)
	}
	head[len(head)-1] = ',' // for the "}"
	var b bytes.Buffer
	b.Write(head)
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(l); err != nil {
		return nil, fmt.Errorf("stream line %s: %w", l.kind(), err)
	}
	out := b.Bytes()
	return append(out[:len(head)], out[len(head)+1:]...), nil // drop the second "{"
}

// envelope begins every line.
type envelope struct {
	Type            string  `json:"type"`
	Subtype         string  `json:"subtype,omitempty"`
	SessionID       string  `json:"session_id"`
	ParentToolUseID *string `json:"parent_tool_use_id"`
	UUID            string  `json:"uuid"`
}

// newUUID returns a random UUID of version 4, as RFC 9562 has it.
func newUUID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// Decode reads one line. Unknown types come back as *Other; what is not a JSON object is an error.
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
	session string
	err     error
}

// NewWriter returns a Writer onto w of the stream of a session, which is the id of a conversation.
func NewWriter(w io.Writer, session string) *Writer { return &Writer{w: w, session: session} }

// Write writes one line. After an error every call returns that error: half a line may stand on w.
func (w *Writer) Write(l Line) error {
	b, err := Encode(l, w.session)
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		_, w.err = w.w.Write(b)
	}
	return w.err
}

// MaxLine is the longest line that a Splitter takes, in bytes.
const MaxLine = 16 << 20

// LineError tells of a line that could not be taken: too long, or not JSON.
type LineError struct {
	Line int // 1-based
	Err  error
}

func (e *LineError) Error() string { return fmt.Sprintf("stream line %d: %v", e.Line, e.Err) }
func (e *LineError) Unwrap() error { return e.Err }

// Splitter is an io.Writer that takes a process's stdout in any pieces and hands each complete line to Each.
// Write never fails, so that a child is not stopped by what it says: a bad line is handed to Bad and dropped.
// Not for concurrent use.
type Splitter struct {
	Each func(Line)
	Bad  func(*LineError) // nil drops them

	buf  []byte
	n    int
	skip bool // inside a line that is too long
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

// Close hands over a last line that has no newline.
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
