package openai

import (
	"bytes"
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"sync/atomic"

	"jp/cmd/jp/internal/model"
)

// api is one of the vendor's two APIs.
type api struct {
	config  model.Config
	path    string // below the base URL
	request func(model.Request, demands) (any, error)
	answer  func(r model.Request, yield func(model.Part, error) bool, hidden func(bytes int)) answer
	known   *atomic.Pointer[demands] // those that the server has said in this process; nil in it = none
}

// answer puts the events of one reply together and yields its parts.
type answer interface {
	// event handles one event, and names the reply and the model that gives it, where the event
	// says so. It returns false if the consumer wants no more.
	event(e model.Event, name func(id, model string)) (bool, error)
	// whole reports whether no more events are needed, so that a connection that breaks then breaks
	// nothing.
	whole() bool
	// finish yields the last parts of a reply, or an error if it is not complete. err is the error
	// of the connection, nil if the whole answer came.
	finish(err error)
}

// stream is a model.Stream.
func (a api) stream(ctx context.Context, r model.Request) iter.Seq2[model.Part, error] {
	return func(yield func(model.Part, error) bool) {
		var err error
		reply := a.answer(r, yield, func(n int) { model.Hidden(ctx, n) })
		for e, failed := range a.events(ctx, r) {
			if err = failed; err != nil || bytes.HasPrefix(e.Data, []byte("[DONE]")) {
				break
			}
			var more bool
			if more, err = reply.event(e, r.Name); err != nil || more && reply.whole() {
				break
			}
			if !more {
				return
			}
		}
		if reply.whole() {
			err = nil
		} else if err != nil || ctx.Err() != nil {
			err = a.config.Fail(ctx, err)
		}
		reply.finish(err)
	}
}

// events asks and yields the events of the reply. A server that refuses the request for what it
// demands is asked again, as it demands.
func (a api) events(ctx context.Context, r model.Request) iter.Seq2[model.Event, error] {
	return func(yield func(model.Event, error) bool) {
		var d demands
		if known := a.known.Load(); known != nil {
			d = *known
		}
		for refused := true; refused; {
			refused = false
			if d.plain {
				r.Schema = nil
			}
			var request any
			err := r.Check()
			if err == nil {
				request, err = a.request(r, d)
			}
			if err != nil {
				yield(model.Event{}, err)
				return
			}
			header := http.Header{}
			if a.config.Key != "" {
				header.Set("Authorization", "Bearer "+a.config.Key.Reveal())
			}
			for e, err := range a.config.Post(ctx, a.path, header, r.Attempt, request) {
				if next := d.after(r, err); next != d && !a.config.Official() {
					a.known.Store(&next)
					d, refused = next, true
					break
				}
				if !yield(e, err) {
					return
				}
			}
		}
	}
}

// reported returns the error that a server reports in an event, whose field error is given; nil =
// none.
func reported(c model.Config, e model.Event, field json.RawMessage) error {
	if len(field) == 0 || string(field) == "null" {
		return nil
	}
	return c.StreamError(e.Data)
}

// nameless is the error of a tool call without a name. Another try would be paid and change nothing.
func nameless(c model.Config) error {
	return &model.Error{Provider: c.Name, Kind: model.KindStream, Final: true, Message: "a tool call without a name"}
}
