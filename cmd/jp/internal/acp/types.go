package acp

import (
	"encoding/json"
	"strings"
)

// Version is the version of the protocol.
const Version = 1

// Implementation names a client or an agent.
type Implementation struct {
	Name    string `json:"name"`
	Title   string `json:"title,omitempty"`
	Version string `json:"version"`
}

// Setup is what a client sends to begin or load a session.
type Setup struct {
	Dir     string      `json:"cwd"` // absolute
	Servers []MCPServer `json:"mcpServers"`
	More    []string    `json:"additionalDirectories"`
}

// MCPServer is a server that the client wants the agent to use.
type MCPServer struct {
	Type    string   `json:"type"` // "" = stdio, "http", "sse"
	Name    string   `json:"name"`
	Command string   `json:"command"`
	Args    []string `json:"args"`
	Env     []Pair   `json:"env"`
	URL     string   `json:"url"`
	Headers []Pair   `json:"headers"`
}

// Pair is a variable or a header.
type Pair struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// The types of a Block.
const (
	TypeText     = "text"
	TypeImage    = "image"
	TypeAudio    = "audio"
	TypeLink     = "resource_link"
	TypeResource = "resource"
)

// Block is a part of a prompt or of a message.
type Block struct {
	Type     string    `json:"type"`
	Text     string    `json:"text,omitempty"`
	Data     []byte    `json:"data,omitempty"` // bytes of an image; base64 on the wire
	MIMEType string    `json:"mimeType,omitempty"`
	URI      string    `json:"uri,omitempty"`
	Name     string    `json:"name,omitempty"`
	Resource *Resource `json:"resource,omitempty"`
}

// Resource is the content of something that has an address: a text, or bytes.
type Resource struct {
	URI      string  `json:"uri"`
	MIMEType string  `json:"mimeType,omitempty"`
	Text     *string `json:"text,omitempty"`
	Blob     []byte  `json:"blob,omitempty"`
}

// Text is a block of text.
func Text(s string) Block { return Block{Type: TypeText, Text: s} }

// Update is a change in a session: a Chunk, a ToolCall, a Compaction, an Info, a Chosen or a Usage.
type Update interface{ isUpdate() }

// Chunk is a part of a message.
type Chunk struct {
	Kind    ChunkKind `json:"sessionUpdate"`
	Content Block     `json:"content"`
	Message string    `json:"messageId,omitempty"` // same for all chunks of one message
}

// ChunkKind says whose message a chunk is a part of.
type ChunkKind string

// The kinds of chunks.
const (
	ByUser    ChunkKind = "user_message_chunk"
	ByAgent   ChunkKind = "agent_message_chunk"
	InThought ChunkKind = "agent_thought_chunk"
)

// ToolCall is a call of a tool, or a change of one (Change), in which empty fields do not change.
type ToolCall struct {
	Kind      CallKind      `json:"sessionUpdate,omitempty"`
	ID        string        `json:"toolCallId"`
	Name      string        `json:"name,omitempty"` // name of the tool
	Title     string        `json:"title,omitempty"`
	ToolKind  ToolKind      `json:"kind,omitempty"`
	Status    CallStatus    `json:"status,omitempty"`
	Content   []CallContent `json:"content,omitempty"` // replaces earlier content
	Locations []Location    `json:"locations,omitempty"`
	Input     any           `json:"rawInput,omitempty"`
}

// CallKind says whether a call is new or changed.
type CallKind string

// The kinds of calls.
const (
	NewCall CallKind = "tool_call"
	Change  CallKind = "tool_call_update"
)

// CallStatus is the state of a call.
type CallStatus string

// The states of a call.
const (
	Pending    CallStatus = "pending"
	InProgress CallStatus = "in_progress"
	Completed  CallStatus = "completed"
	Failed     CallStatus = "failed"
)

// ToolKind is what a tool does, for the client to show.
type ToolKind string

// The kinds of tools that are used here.
const (
	KindRead    ToolKind = "read"
	KindEdit    ToolKind = "edit"
	KindSearch  ToolKind = "search"
	KindExecute ToolKind = "execute"
	KindOther   ToolKind = "other"
)

// Location is a file, and maybe a line, that a call reads or changes.
type Location struct {
	Path string `json:"path"` // absolute
	Line int    `json:"line,omitempty"`
}

// CallContent is what a call shows: TextContent or DiffContent makes one.
type CallContent struct {
	Type    string  `json:"type"` // "content" or "diff"
	Content *Block  `json:"content,omitempty"`
	Path    string  `json:"path,omitempty"`
	OldText *string `json:"oldText,omitempty"`
	NewText *string `json:"newText,omitempty"`
}

// TextContent shows a text as it is. Clients show texts as Markdown, which hides parts of some: the
// target of a link, a comment. So it is in a fence that nothing in it can close.
func TextContent(s string) CallContent {
	longest, run := 2, 0
	for i := range len(s) {
		if run++; s[i] != '`' {
			run = 0
		}
		longest = max(longest, run)
	}
	fence := strings.Repeat("`", longest+1)
	b := Text(fence + "\n" + strings.TrimSuffix(s, "\n") + "\n" + fence)
	return CallContent{Type: "content", Content: &b}
}

// DiffContent shows a change of a file; old is nil for a new file.
func DiffContent(path string, old *string, text string) CallContent {
	return CallContent{Type: "diff", Path: path, OldText: old, NewText: &text}
}

// Info is what a client shows of a session.
type Info struct {
	Kind      string `json:"sessionUpdate"` // "session_info_update"
	Title     string `json:"title,omitempty"`
	UpdatedAt string `json:"updatedAt,omitempty"` // RFC 3339
}

// NewInfo returns the update that gives a session its title.
func NewInfo(title, updatedAt string) Info {
	return Info{Kind: "session_info_update", Title: title, UpdatedAt: updatedAt}
}

// ConfigOption is something that the client's user can choose for a session.
type ConfigOption struct {
	ID       string        `json:"id"`
	Name     string        `json:"name"`
	Category string        `json:"category,omitempty"` // "model", "thought_level" or "mode", for the client to show
	Type     string        `json:"type"`               // "select"
	Current  string        `json:"currentValue"`
	Values   []ConfigValue `json:"options"`
}

// ConfigValue is a value of an option.
type ConfigValue struct {
	Value       string `json:"value"`
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
}

// Chosen says that options have changed.
type Chosen struct {
	Kind    string         `json:"sessionUpdate"` // "config_option_update"
	Options []ConfigOption `json:"configOptions"`
}

// NewChosen returns the update that has the options.
func NewChosen(list []ConfigOption) Chosen {
	return Chosen{Kind: "config_option_update", Options: list}
}

// Usage is how full the model's window is, and what the session has cost.
type Usage struct {
	Kind string `json:"sessionUpdate"` // "usage_update"
	Used int64  `json:"used"`          // tokens
	Size int64  `json:"size"`          // tokens
	Cost *Cost  `json:"cost,omitempty"`
}

// Cost is an amount of money.
type Cost struct {
	Amount   json.Number `json:"amount"`
	Currency string      `json:"currency"` // ISO 4217
}

// NewUsage returns the update about used of size tokens. usd is an amount of dollars; "" = unknown.
func NewUsage(used, size int64, usd json.Number) Usage {
	u := Usage{Kind: "usage_update", Used: used, Size: size}
	if usd != "" {
		u.Cost = &Cost{usd, "USD"}
	}
	return u
}

// notice is a line for the user that is not part of the conversation.
type notice struct {
	Kind     string   `json:"sessionUpdate"` // "notice"
	Severity Severity `json:"severity"`
	Title    string   `json:"title"`
}

// Severity is the severity of a notice.
type Severity string

// The severities.
const (
	Information Severity = "info"
	Warning     Severity = "warning"
)

// Compaction says that the model no longer gets the whole conversation.
type Compaction struct {
	ID      string
	Text    string // description for clients that know no compactions
	Summary string // summary that replaces what was left out; "" = none
}

// compaction is a Compaction on the wire.
type compaction struct {
	Kind    string  `json:"sessionUpdate"` // "compaction_update"
	ID      string  `json:"compactionId"`
	Status  string  `json:"status"` // "completed"
	Summary []Block `json:"summary,omitempty"`
}

func (notice) isUpdate()     {}
func (compaction) isUpdate() {}
func (Compaction) isUpdate() {}
func (Chunk) isUpdate()      {}
func (ToolCall) isUpdate()   {}
func (Info) isUpdate()       {}
func (Chosen) isUpdate()     {}
func (Usage) isUpdate()      {}

// Listed is a session that can be loaded.
type Listed struct {
	ID        string `json:"sessionId"`
	Dir       string `json:"cwd"`
	Title     string `json:"title,omitempty"`
	UpdatedAt string `json:"updatedAt,omitempty"` // RFC 3339
}

// Page is a part of the list of sessions. Next names the page after it; "" = this is the last.
type Page struct {
	Sessions []Listed `json:"sessions"`
	Next     string   `json:"nextCursor,omitempty"`
}

// StopReason is how a prompt ended.
type StopReason string

// The reasons.
const (
	EndTurn     StopReason = "end_turn"
	MaxTokens   StopReason = "max_tokens"
	MaxRequests StopReason = "max_turn_requests"
	Refusal     StopReason = "refusal"
	Cancelled   StopReason = "cancelled"
)

// Option is an answer that the client's user may choose.
type Option struct {
	ID   string     `json:"optionId"`
	Name string     `json:"name"`
	Kind OptionKind `json:"kind"`
}

// OptionKind is how the client shows an Option.
type OptionKind string

// The kinds of options.
const (
	AllowOnce    OptionKind = "allow_once"
	AllowAlways  OptionKind = "allow_always"
	RejectOnce   OptionKind = "reject_once"
	RejectAlways OptionKind = "reject_always"
)

// capabilities of a client, as far as they matter here.
type capabilities struct {
	Elicitation *struct {
		Form json.RawMessage `json:"form"`
	} `json:"elicitation"`
	Session struct {
		Notices    json.RawMessage `json:"notices"`
		Compaction json.RawMessage `json:"compaction"`
	} `json:"session"`
}

// has reports whether a client advertises a capability. null means no.
func has(raw json.RawMessage) bool { return raw != nil && string(raw) != "null" }
