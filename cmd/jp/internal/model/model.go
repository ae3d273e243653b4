// Package model talks to language models. A model is a [Stream]: a function from one
// [Request] to the parts of one reply as they arrive. Limits ([Limit]), the estimate of what
// nobody counts ([Count]) and retrying ([Retry]) are wrappers around it, in this order.
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
//     had told what the broken reply cost. Below [Count] it may be missing.
//   - When the context ends, the error is its cause. Everything else is an [*Error].
//   - Ending the iteration early closes the connection. Nothing runs on afterwards.
//
// Traps: arguments of a tool call are as the model wrote them and may be no JSON; a key never
// stands in an error, but text of a provider does, cleaned and shortened.
package model

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strconv"

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

	// Waits is told when an attempt has failed and is to be repeated, and when the first one is held back: from then until Again
	// nothing is on its way. An error ends the call. nil = an attempt that used or said something is not repeated.
	Waits func(context.Context, Lost) error
	// Again is asked before the request is sent after that. It returns the request to send, which may be shorter; an error ends
	// the call. nil = the same request is sent.
	Again func(context.Context) (Request, error)
	// Named is told how the provider names the reply, and the model that makes it, once it says so; attempts that fail are told
	// of too. Either may be "". nil = nobody.
	Named func(id, model string)
}

// Name tells r.Named what a provider said.
func (r Request) Name(id, model string) {
	if r.Named != nil && (id != "" || model != "") {
		r.Named(id, model)
	}
}

// Lost is an attempt that failed and is to be repeated; the zero value is one that was held back.
type Lost struct {
	Usage     *convstore.Usage // nil = none
	Cost      *int64           // as in Part
	Estimated bool             // the usage, or a part of it
	Said      bool             // parts of it were passed on, and are to be forgotten
	Err       *Error           // why it failed
}

// Anew returns r for a wrapper that remembers what a reply says: forget is called before it is said anew.
func (r Request) Anew(forget func(Lost)) Request {
	if waits := r.Waits; waits != nil {
		r.Waits = func(ctx context.Context, lost Lost) error {
			err := waits(ctx, lost)
			if err == nil && lost.any() {
				forget(lost)
			}
			return err
		}
	}
	return r
}

// any reports whether the attempt used or said something.
func (l Lost) any() bool { return l.Said || l.Usage != nil }

// ErrShown is what Waits returns where somebody has seen what the attempt said: it cannot be said anew. The call then ends with
// the error of that attempt.
var ErrShown = errors.New("what the reply said was shown already")

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

// Part is a piece of a reply: exactly one field is set, those beside Usage left aside.
type Part struct {
	Text           string     // more of the answer
	ReasoningDelta string     // more of the thinking, to be shown; Reasoning repeats it whole
	Reasoning      *Reasoning // a complete block of thinking, to be kept
	CallDelta      string     // more of a tool call, which says that one is being made; Call repeats it whole
	Call           *Call      // a complete tool call
	Usage          *convstore.Usage
	Stop           Stop // the reply is complete

	// Beside Usage.
	Cost      *int64 // what the provider says that the reply costs, in nano-dollars; nil = it does not say
	Estimated bool   // the usage, or a part of it, was not told
}

// content reports whether the part is something that was said.
func (p Part) content() bool {
	return p.Text != "" || p.ReasoningDelta != "" || p.Reasoning != nil || p.CallDelta != "" || p.Call != nil
}

// Stop says why a reply ended.
type Stop string

const (
	StopEnd       Stop = "end"
	StopToolUse   Stop = "tool_use"
	StopMaxTokens Stop = "max_tokens" // cut off; a call that was cut with it is not yielded
	StopRefusal   Stop = "refusal"
)

// UnknownStop is the rule of all providers for a reason to stop that they do not know: a reply that says something is complete, one
// that says nothing is an error, which to ask again would not change.
func (c Config) UnknownStop(reason string, said bool) (Stop, error) {
	if said {
		return StopEnd, nil
	}
	return "", &Error{Provider: c.Name, Kind: KindStream, Final: true,
		Message: "the reply says nothing and stopped for an unknown reason " + c.Clean(strconv.Quote(reason))}
}
