package openai

import (
	"context"
	"errors"
	"iter"
	"strconv"

	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"

	"jp/cmd/jp/internal/model"
)

// api is one of the vendor's two APIs: P are the parameters of a request, E the events of a reply.
type api[P, E any] struct {
	config model.Config
	params func(model.Request) (P, error)
	open   func(context.Context, P, ...option.RequestOption) *ssestream.Stream[E]
	answer func(model.Request, func(model.Part, error) bool) answer[E]
}

// answer puts the events of one reply together and yields its parts.
type answer[E any] interface {
	// origin is the id of the reply and the model that gives it, "" where the event does not say.
	origin(E) (id, model string)
	// event handles one event. It returns false if the consumer wants no more.
	event(E) bool
	// whole reports whether no more events are needed, so that a connection that breaks then breaks
	// nothing.
	whole() bool
	// finish yields the last parts of a reply, or an error if it is not complete. err is the error
	// of the connection, nil if the whole answer came.
	finish(ctx context.Context, err error)
}

// stream is a model.Stream.
func (a api[P, E]) stream(ctx context.Context, r model.Request) iter.Seq2[model.Part, error] {
	return func(yield func(model.Part, error) bool) {
		var params P
		err := r.Check()
		if err == nil {
			params, err = a.params(r)
		}
		if err != nil {
			yield(model.Part{}, a.config.Fail(ctx, err))
			return
		}
		events := a.open(ctx, params, option.WithHeader("X-Stainless-Retry-Count", strconv.Itoa(max(r.Attempt-1, 0))))
		defer func() { _ = events.Close() }()

		reply := a.answer(r, yield)
		for !reply.whole() && events.Next() {
			e := events.Current()
			r.Name(reply.origin(e))
			if !reply.event(e) {
				return
			}
		}
		if !reply.whole() || ctx.Err() != nil {
			err = fail(ctx, a.config, events.Err())
		}
		reply.finish(ctx, err)
	}
}

// fail maps an error of the SDK. Error objects in the stream are the SDK's own type; what had an
// error status was caught before the SDK saw it.
func fail(ctx context.Context, c model.Config, err error) error {
	if err == nil && ctx.Err() == nil {
		return nil
	}
	var e *ssestream.StreamError
	if errors.As(err, &e) && ctx.Err() == nil {
		return c.StreamError(e.Event.Data)
	}
	return c.Fail(ctx, err)
}
