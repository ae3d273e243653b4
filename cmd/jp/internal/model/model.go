// Package model talks to language models. A model is a [Stream]: a function from one [Request] to
// the parts of one reply as they arrive. Limits ([Limit]), the estimate of what nobody counts
// ([Count]) and retrying ([Retry]) are wrappers around it, in this order.
//
// The package holds what all providers share: the request and its check, errors, the HTTP client,
// the table of known models and their prices, and [Open], which turns an id such as
// "anthropic/claude-sonnet-5-5" into a Stream. A sub-package per wire format does the rest; this
// package imports none of them, so that a program pays only for those that it hands to Open.
//
// What holds for each Stream:
//
//   - It ends with exactly one Stop, as its last part, or with exactly one error. A stream
//     that breaks off is an error, never a short success.
//   - Tool calls are complete when they are yielded, once each, in the order in which the model
//     made them, and their ids are unique within the thread.
//   - Usage comes at most once, after all content. It may come before an error too, where the
//     provider reported what the broken reply used. Below [Count] it may be missing.
//   - When the context ends, the error is its cause. Everything else is an [*Error]. A reply that
//     lacks nothing but its formal end is complete, whatever happens then: it was paid for.
//   - Ending the iteration early closes the connection. Nothing of it runs afterwards.
//
// Traps: arguments of a tool call are as the model wrote them and may not be JSON. An error never
// has a key in it, but it may have text of a provider, cleaned and shortened.
package model

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"strconv"

	"jp/convstore"
	"jp/tools/jsondoc"
)

// Stream asks a model once and yields its reply. Nothing happens before the iteration starts. Each
// iteration is another request. Safe for concurrent use.
type Stream func(ctx context.Context, r Request) iter.Seq2[Part, error]

// Request is one call of a model: the whole thread so far and what may follow. Streams read it and
// do not change it. Its JSON is for another process that makes the call: all but the functions.
type Request struct {
	Model       string          `json:",omitempty"` // the provider's own id, without the provider's name
	System      []Section       `json:",omitempty"` // system prompt, in order; may be empty
	Messages    []Message       `json:",omitempty"` // thread; the last message is not the assistant's
	Tools       []Tool          `json:",omitempty"` // tools that are offered; names are unique
	MaxTokens   int             `json:",omitempty"` // most tokens of output; 0 = the model's own limit
	Reasoning   string          `json:",omitempty"` // none, low, medium or high; "" = the model's default
	Brief       bool            `json:",omitempty"` // its few tokens are for an answer: less reasoning than that, where the model is known
	Temperature *float64        `json:",omitempty"` // nil = the provider's default
	Schema      json.RawMessage `json:",omitempty"` // JSON schema that the answer must match; nil = free text
	ToolChoice  string          `json:",omitempty"` // "" = the model decides; "none" = no calls
	// ids that no call of the reply may have, besides those in Messages; nil = none. Another
	// process that makes the call has read them.
	CallIDs map[string]bool `json:"-"`
	// attempt from whose count MaxTokens was computed, see Meter.Learned and Part; 0 = from none
	Learned uint64 `json:"-"`
	// most tokens of input that are reserved for it, above which nothing is estimated; 0 = not
	// known
	MaxInput int64 `json:"-"`

	// For script models, which answer by these.
	Profile string `json:",omitempty"` // name of the agent profile, "" = none
	Turn    int    `json:",omitempty"` // number of the turn in the conversation, from 1
	Round   int    `json:",omitempty"` // number of the model call in the turn, from 1; 0 = a summary or a title
	Run     string `json:",omitempty"` // run of a recorded tree, see script.Trail; "" = the first one, or no recording

	Attempt int `json:",omitempty"` // set by Retry, 1-based; 0 counts as 1

	// Waits is called when an attempt has failed and will be repeated, and when the first one is
	// held back: from then until Again no request is on its way. An error ends the call. nil = an
	// attempt that used or said something is not repeated.
	Waits func(context.Context, Lost) error `json:"-"`
	// Again is called before the next request is sent. It returns that request, which may be
	// shorter. An error ends the call. nil = the same request is sent.
	Again func(context.Context) (Request, error) `json:"-"`
	// Named is called with the provider's names of the reply and of the model that makes it, as
	// soon as they are known, also for attempts that fail. Either may be "". nil = nobody asks.
	Named func(id, model string) `json:"-"`
}

// Name calls r.Named, if there is one.
func (r Request) Name(id, model string) {
	if r.Named != nil && (id != "" || model != "") {
		r.Named(id, model)
	}
}

// Lost is an attempt that failed and will be repeated. The zero value is one that was held back.
type Lost struct {
	Usage     *convstore.Usage // nil = none
	Cost      *int64           // see Part
	Estimated bool             // whether the usage, or a part of it, is an estimate
	Said      bool             // whether parts of it were passed on, which no longer count
	Err       *Error           // why it failed
}

// Anew returns r for a wrapper that remembers what a reply says: forget is called before the reply
// begins again.
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

// ErrShown is what Waits returns where somebody has seen parts of the attempt, so that the reply
// cannot begin again. The call then ends with the error of that attempt.
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
	Text      string      `json:",omitempty"`
	Notice    bool        `json:",omitempty"` // whether jp says the Text, in the name of the user
	Image     *Image      `json:",omitempty"`
	Reasoning *Reasoning  `json:",omitempty"`
	Call      *Call       `json:",omitempty"`
	Result    *CallResult `json:",omitempty"`
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
	Opaque    json.RawMessage // other data that must be sent back to the provider; nil = none
	Provider  string          // provider that made it
}

// reasoningText is a Reasoning in JSON, where Opaque is a text: it may have as many values as a long
// thought has words, and nobody on the way reads them.
type reasoningText struct {
	Text, Signature string
	Opaque          string `json:",omitempty"`
	Provider        string
}

// MarshalJSON implements json.Marshaler.
func (r Reasoning) MarshalJSON() ([]byte, error) {
	return jsondoc.Encode(reasoningText{r.Text, r.Signature, string(r.Opaque), r.Provider})
}

// UnmarshalJSON implements json.Unmarshaler.
func (r *Reasoning) UnmarshalJSON(raw []byte) error {
	var t reasoningText
	err := json.Unmarshal(raw, &t)
	*r = Reasoning{Text: t.Text, Signature: t.Signature, Provider: t.Provider}
	if err == nil && t.Opaque != "" {
		if r.Opaque = json.RawMessage(t.Opaque); !json.Valid(r.Opaque) {
			err = errors.New("reasoning that is no JSON")
		}
	}
	return err
}

// Call is one call of a tool.
type Call struct {
	ID        string // unique within the thread
	Name      string
	Arguments json.RawMessage // text of the model, which may not be JSON; never empty
}

// callText is a Call in JSON, where its arguments are a text: they may not be JSON.
type callText struct{ ID, Name, Arguments string }

// MarshalJSON implements json.Marshaler.
func (c Call) MarshalJSON() ([]byte, error) {
	return jsondoc.Encode(callText{c.ID, c.Name, string(c.Arguments)})
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *Call) UnmarshalJSON(raw []byte) error {
	var t callText
	err := json.Unmarshal(raw, &t)
	*c = Call{t.ID, t.Name, json.RawMessage(t.Arguments)}
	return err
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
	Text           string     `json:",omitempty"` // more of the answer
	ReasoningDelta string     `json:",omitempty"` // more of the thinking, to show; Reasoning repeats it whole
	Reasoning      *Reasoning `json:",omitempty"` // complete block of thinking, to store
	// more of a tool call, which shows that one is being made; Call repeats it whole
	CallDelta string           `json:",omitempty"`
	Call      *Call            `json:",omitempty"` // complete tool call
	Usage     *convstore.Usage `json:",omitempty"`
	Stop      Stop             `json:",omitempty"` // end of a complete reply

	// Beside Usage.
	Cost *int64 `json:",omitempty"` // nano-dollars that the provider reports for the reply; nil = none
	// whether the usage, or a part of it, is an estimate; below Count, whether it was told before all was said
	Estimated bool `json:",omitempty"`
	// number of the attempt, where another process made it, which holds the next one to what this
	// one has counted; 0 = this process did
	Attempt uint64 `json:"-"`
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
	StopMaxTokens Stop = "max_tokens" // cut off; a call that was cut too is not yielded
	StopRefusal   Stop = "refusal"
)

// UnknownStop is the rule of all providers for a stop reason that they do not know. A reply that
// says something may have been cut off, and counts as that. A reply that says nothing is an error,
// and another try would change nothing.
func (c Config) UnknownStop(reason string, said bool) (Stop, error) {
	if said {
		return StopMaxTokens, nil
	}
	return "", &Error{Provider: c.Name, Kind: KindStream, Final: true,
		Message: "the reply says nothing and stopped for an unknown reason " + c.Clean(strconv.Quote(reason))}
}
