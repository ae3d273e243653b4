package script

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"regexp"
	"slices"
	"strings"
	"sync"

	"jp/cmd/jp/internal/model"
	"jp/convstore"
)

// Entry is one request of a recorded run and how it was answered, as JSON between the processes of
// a recording. Compile makes rules of them.
type Entry struct {
	Run     string  `json:"run"`
	Profile string  `json:"profile"`
	Turn    int     `json:"turn"`
	Round   int     `json:"round"`
	Attempt int     `json:"attempt"`
	NoCalls bool    `json:"no_calls"`
	System  string  `json:"system"` // the first line of the prompt, of requests beside the rounds
	Asked   *string `json:"asked"`  // the user's words, of the first request
	Failed  *bool   `json:"failed"` // whether a new result is an error; nil = there is none

	Model string       `json:"model"` // full id
	Price *model.Price `json:"price"` // nil = unknown

	Reasoning []string    `json:"reasoning"` // blocks
	Text      string      `json:"text"`
	Calls     []EntryCall `json:"calls"`
	Spent
	Lost  []Spent     `json:"lost"` // by attempts that failed before
	Stop  model.Stop  `json:"stop"`
	Error *EntryError `json:"error"`
	Hang  bool        `json:"hang"` // the run was over before the reply was

	IDs map[string]IDMatch `json:"ids"` // positions in the thread of the conversation ids that the reply names
}

// Spent is what a request used, see model.Part.
type Spent struct {
	Usage     *convstore.Usage `json:"usage"` // nil = not reported
	Cost      *int64           `json:"cost"`
	Estimated bool             `json:"estimated"`
}

// EntryCall is a tool call in an Entry.
type EntryCall struct {
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// EntryError is the error that a reply ended with, after all retries.
type EntryError struct {
	Kind    model.Kind `json:"kind"`
	Status  int        `json:"status"`
	Message string     `json:"message"`
}

// IDMatch is the n-th match, from 1, of one of two patterns in a thread: the results that name a
// sub-conversation as theirs, or any id.
type IDMatch struct {
	Result bool `json:"result"`
	N      int  `json:"n"`
}

// Record returns s, the model of info, and records each reply before it yields the Stop. It must be
// around retries: of a failed attempt that was repeated a recording has what it used, and nothing
// else. If a reply cannot be recorded, the stream ends with that error.
func Record(s model.Stream, info model.Info, keep func(Entry) error) model.Stream {
	return func(ctx context.Context, r model.Request) iter.Seq2[model.Part, error] {
		return func(yield func(model.Part, error) bool) {
			e := about(r)
			e.Model, e.Price = info.ID, info.Price
			var text, thinking strings.Builder // thinking since the last block
			var last *model.Error              // why the latest attempt failed; nil = none did, or nobody said
			end := func(err error) error {
				if err != nil && ctx.Err() == nil && last != nil && !errors.As(err, new(*model.Error)) {
					err = last // there was no room for another attempt, and Lost leaves none in a replay either
				} else {
					e.Lost = slices.DeleteFunc(e.Lost, func(s Spent) bool { return s.Usage == nil })
				}
				e.Text = text.String()
				if thinking.Len() > 0 {
					e.Reasoning = append(e.Reasoning, thinking.String())
				}
				if err != nil {
					e.fail(ctx, err)
				}
				if e.NoCalls { // a server may not heed that, and nobody runs them
					e.Calls = nil
				}
				e.IDs = e.idMatches(r)
				return keep(e)
			}
			if waits := r.Waits; waits != nil {
				r.Waits = func(ctx context.Context, l model.Lost) error {
					err := waits(ctx, l)
					if !errors.Is(err, model.ErrShown) {
						text.Reset()
						thinking.Reset()
						e.Reasoning, e.Calls, e.Spent = nil, nil, Spent{}
						e.Lost, last = append(e.Lost, Spent{l.Usage, l.Cost, l.Estimated}), l.Err
					}
					return err
				}
			}
			for part, err := range s(ctx, r) {
				switch {
				case err != nil, part.Stop != "":
					e.Stop = part.Stop
					if lost := end(err); lost != nil {
						yield(model.Part{}, fmt.Errorf("recording: %w", lost))
						return
					}
				case part.Text != "":
					text.WriteString(part.Text)
				case part.ReasoningDelta != "":
					thinking.WriteString(part.ReasoningDelta)
				case part.Reasoning != nil:
					e.Reasoning = append(e.Reasoning, part.Reasoning.Text)
					thinking.Reset()
				case part.Call != nil:
					e.Calls = append(e.Calls, EntryCall{Name: part.Call.Name, Arguments: string(part.Call.Arguments)})
				case part.Usage != nil:
					e.Spent = Spent{new(*part.Usage), part.Cost, part.Estimated}
				}
				if !yield(part, err) {
					return
				}
			}
		}
	}
}

// about is what a recording says of a request.
func about(r model.Request) Entry {
	e := Entry{
		Run: r.Run, Profile: r.Profile, Turn: r.Turn, Round: r.Round, Attempt: max(r.Attempt, 1), NoCalls: r.ToolChoice == "none",
	}
	if r.Round == 0 && len(r.System) > 0 {
		e.System, _, _ = strings.Cut(r.System[0].Text, "\n")
	}
	if text := asked(r); r.Round == 1 && e.Attempt == 1 && text != "" {
		e.Asked = &text
	}
	if results := (request{Request: r}).results(); len(results) > 0 {
		failed := slices.ContainsFunc(results, func(x model.CallResult) bool { return x.IsError })
		e.Failed = &failed
	}
	return e
}

// fail takes over how a reply failed. Calls of one that broke off were never made.
func (e *Entry) fail(ctx context.Context, err error) {
	e.Calls = nil
	var failed *model.Error
	switch {
	case ctx.Err() != nil:
		e.Hang = true
	case errors.As(err, &failed):
		e.Error = &EntryError{Kind: failed.Kind, Status: failed.Status, Message: failed.Message}
	default:
		e.Error = &EntryError{Kind: model.KindStream, Message: err.Error()}
	}
}

// texts are all that the reply says.
func (e *Entry) texts() []*string {
	list := []*string{&e.Text}
	for i := range e.Reasoning {
		list = append(list, &e.Reasoning[i])
	}
	for i := range e.Calls {
		list = append(list, &e.Calls[i].Name, &e.Calls[i].Arguments)
	}
	if e.Error != nil {
		list = append(list, &e.Error.Message)
	}
	return list
}

// Redact puts what clean makes of it in the place of each text that e holds.
func (e *Entry) Redact(clean func(string) string) {
	list := append(e.texts(), &e.System, &e.Profile)
	if e.Asked != nil {
		list = append(list, e.Asked)
	}
	for _, s := range list {
		*s = clean(*s)
	}
}

// resultID matches a conversation where the result of a delegation names it.
var resultID = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?:<response conversation_id=|"conversation_id":)"(jp-c[0-9]+)"`)
})

// pattern is what finds the id again.
func (p IDMatch) pattern() *regexp.Regexp {
	if p.Result {
		return resultID()
	}
	return conversationID()
}

// idMatches finds the ids that the reply names in the thread that it answers. An id that is not
// there was invented by the model, and the replay repeats it.
func (e *Entry) idMatches(r model.Request) map[string]IDMatch {
	var ids []string
	for _, s := range e.texts() {
		ids = append(ids, conversationID().FindAllString(*s, -1)...)
	}
	if len(ids) == 0 {
		return nil
	}
	found := map[string]IDMatch{}
	// the second is the surer one
	for _, match := range []IDMatch{{Result: false}, {Result: true}} {
		all := matches(r, match.pattern())
		for _, id := range ids {
			if i := slices.Index(all, id); i >= 0 {
				match.N = i + 1
				found[id] = match
			}
		}
	}
	return found
}
