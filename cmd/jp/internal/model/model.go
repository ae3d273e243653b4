// Package model talks to language models. A model is a [Stream]: a function from one
// [Request] to the parts of one reply as they arrive. Retrying ([Retry]) and limits ([Limit])
// are wrappers around it.
//
// The package holds what all providers share: the request and its check, errors, the HTTP
// client, the table of known models and their prices, and [Open], which turns an id such as
// "anthropic/claude-sonnet-5-5" into a Stream. A sub-package per wire format does the rest;
// this package imports none of them, so that a program pays only for those that it hands to
// Open.
//
// What holds for each Stream:
//
//   - It ends with exactly one Stop, as its last part, or with exactly one error. A stream
//     that breaks off is an error, never a short success.
//   - Tool calls are complete when they are yielded, in the order in which the model made
//     them, and their ids are unique within the thread.
//   - Usage comes at most once, after all content; before an error too, where the provider
//     had told what the broken reply cost.
//   - When the context ends, the error is its cause. Everything else is an [*Error].
//   - Ending the iteration early closes the connection. Nothing runs on afterwards.
//
// Traps: arguments of a tool call are as the model wrote them and may be no JSON; a key never
// stands in an error, but text of a provider does, cleaned and shortened.
package model

import (
	"context"
	"encoding/json"
	"iter"

	"jp/convstore"
)

// Stream asks a model once and yields its reply. Nothing happens before the iteration starts;
// each iteration is a request of its own. Safe for concurrent use.
type Stream func(ctx context.Context, r Request) iter.Seq2[Part, error]

// Request is one call of a model: the whole thread so far and what may follow.
// Streams read it and do not change it.
type Request struct {
	Model       string          // the provider's own id, without the provider's name
	System      []Section       // the system prompt, in order; may be empty
	Messages    []Message       // the thread; the last message is not the assistant's
	Tools       []Tool          // what is offered; names unique
	MaxTokens   int             // of output; 0 = the model's own limit
	Reasoning   string          // "" = as the model does by itself; none, low, medium, high
	Temperature *float64        // nil = the provider's default
	Schema      json.RawMessage // a JSON schema that the answer must match; nil = free text
	ToolChoice  string          // "" = the model decides; "none" = no calls
	CallIDs     map[string]bool // of calls that Messages may not show, which no call of the reply may have; nil = there are none

	// For script models, which answer by these.
	Profile string // name of the agent profile, "" = none
	Turn    int    // of the conversation, 1-based
	Round   int    // model call within the turn, 1-based; 0 = beside them, for a summary or a title
	Run     string // which run of a recorded tree, see script.Trail; "" = the first one, or of no recording

	Attempt int // set by Retry, 1-based; 0 counts as 1
}

// Section is one part of a system prompt.
type Section struct{ Text string }

// Tool is a tool as it is offered to a model.
type Tool struct {
	Name        string
	Description string
	Schema      json.RawMessage // JSON schema of the arguments, an object
}

// Role says who speaks in a Message.
type Role string

const (
	User      Role = "user"
	Assistant Role = "assistant"
	ToolRole  Role = "tool" // results of the calls in the assistant message before it
)

// Message is one message of a thread.
type Message struct {
	Role    Role
	Content []Content
}

// Content is one piece of a message: exactly one field is set. Text belongs to users and
// assistants, Image to users, Reasoning and Call to assistants, Result to tools.
type Content struct {
	Text      string
	Image     *Image
	Reasoning *Reasoning
	Call      *Call
	Result    *CallResult
}

// Image is a picture that a user shows.
type Image struct {
	MediaType string // one of ImageTypes
	Data      []byte
}

// ImageTypes are the forms of pictures that all providers read.
func ImageTypes() []string { return []string{"image/png", "image/jpeg", "image/gif", "image/webp"} }

// Reasoning is one block of a model's thinking. It goes back only to the provider that made it.
type Reasoning struct {
	Text      string
	Signature string          // the provider's proof that Text is its own
	Opaque    json.RawMessage // what else the provider wants to see again
	Provider  string          // who made it
}

// Call is one call of a tool.
type Call struct {
	ID        string // unique within the thread
	Name      string
	Arguments json.RawMessage // as the model wrote them: may be no JSON; never empty
}

// CallResult answers the Call with the same ID.
type CallResult struct {
	ID      string
	Name    string
	Text    string
	IsError bool
}

// Part is a piece of a reply: exactly one field is set.
type Part struct {
	Text           string     // more of the answer
	ReasoningDelta string     // more of the thinking, to be shown; Reasoning repeats it whole
	Reasoning      *Reasoning // a complete block of thinking, to be kept
	Call           *Call      // a complete tool call
	Usage          *convstore.Usage
	Stop           Stop // the reply is complete
}

// content reports whether the part is something that was said, so that the request can no
// longer be repeated unseen.
func (p Part) content() bool {
	return p.Text != "" || p.ReasoningDelta != "" || p.Reasoning != nil || p.Call != nil
}

// Stop says why a reply ended.
type Stop string

const (
	StopEnd       Stop = "end"
	StopToolUse   Stop = "tool_use"
	StopMaxTokens Stop = "max_tokens" // cut off; a call that was cut with it is not yielded
	StopRefusal   Stop = "refusal"
)
