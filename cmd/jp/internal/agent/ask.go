package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"jp/cmd/jp/internal/model"
	"jp/convstore"
)

// asking is one call of the model with all its attempts. Each attempt is begun in the account before it is sent, and no longer
// begun while the call waits: what an attempt that failed has used is charged in the transaction that takes its bound back, and
// finds whether there is room for the next one.
type asking struct {
	*turn
	wanted  model.Request // before it was cut to what is left
	sent    model.Request // the latest attempt
	closing bool

	reply          reply
	text, thinking strings.Builder
	shown          bool // somebody saw a part of what the reply says

	lost *model.Error // why the latest attempt failed; nil = none did
	stop *limit       // no further attempt fits into what is left
	err  error        // of the store
}

// storeError is an error of the store, which ends a run whatever the model said.
type storeError struct{ error }

func (e storeError) Unwrap() error { return e.error }

// ask makes one call of the model. A limit means that it was not made, or not once more: then nothing of it is left to be
// stored. With an error the reply holds what had come by then; a storeError is the store's.
func (t *turn) ask(ctx context.Context, req model.Request, closing bool) (reply, *limit, error) {
	a := &asking{turn: t, wanted: req, closing: closing}
	if stop, err := t.begin(ctx, &req, closing, true); err != nil {
		return reply{}, nil, storeError{err}
	} else if stop != nil {
		return reply{}, stop, nil
	}
	req.Waits, req.Again, a.sent = a.waits, a.again, req
	a.reply.began = time.Now()
	err := a.hear(t.Ask(ctx, req))
	a.reply.text = a.text.String()
	a.reply.took = time.Since(a.reply.began)
	switch {
	case a.err != nil:
		return reply{}, nil, storeError{a.err}
	case a.stop != nil:
		return reply{}, a.stop, nil
	case err != nil:
		a.reply.calls = nil
		a.reply.any = a.reply.any || a.thinking.Len() > 0
	case !a.reply.guessed:
		t.meter.Told(a.sent, a.reply.usage)
	}
	return a.reply, nil, err
}

// hear reads the parts of the reply.
func (a *asking) hear(parts func(func(model.Part, error) bool)) error {
	r := &a.reply
	for part, err := range parts {
		if err != nil {
			return err
		}
		switch {
		case part.Text != "":
			r.any = true
			a.text.WriteString(part.Text)
			if a.Watch.Text != nil && a.schema == nil { // else it is no answer before it was checked
				a.shown = true
				a.Watch.Text(part.Text)
			}
		case part.ReasoningDelta != "":
			a.thinking.WriteString(part.ReasoningDelta)
			if a.Watch.Reasoning != nil {
				a.shown = true
				a.Watch.Reasoning(part.ReasoningDelta)
			}
		case part.Reasoning != nil:
			r.any = true
			r.reasoning = append(r.reasoning, *part.Reasoning)
		case part.Call != nil:
			r.any = true
			c := convstore.ToolCall{ID: part.Call.ID, Name: part.Call.Name, Arguments: storedArguments(part.Call.Arguments)}
			if tool, ok := a.tools.Set.Get(c.Name); ok {
				c.Source = tool.Source
			}
			r.calls = append(r.calls, c)
		case part.Usage != nil:
			r.any = true
			r.usage, r.told, r.guessed = *part.Usage, part.Cost, part.Estimated
		case part.Stop != "":
			r.stop = part.Stop
		}
	}
	return nil
}

// errNoRoom ends a call whose next attempt does not fit into what is left.
var errNoRoom = errors.New("no room for another attempt")

// waits is model.Request.Waits: nothing is on its way, so nothing is begun.
func (a *asking) waits(ctx context.Context, lost model.Lost) error {
	if a.shown {
		return model.ErrShown
	}
	if u := lost.Usage; u != nil {
		failed := reply{usage: *u, told: lost.Cost, guessed: lost.Estimated, stop: StopBroken, took: time.Since(a.reply.began)}
		call := failed.call(a.Loop)
		a.history.add(call)
		a.bill.add(call)
	}
	a.reply = reply{began: time.Now()}
	a.text.Reset()
	a.thinking.Reset()
	a.lost = lost.Err
	_, err := a.try(ctx, false)
	return err
}

// again is model.Request.Again.
func (a *asking) again(ctx context.Context) (model.Request, error) {
	req, err := a.try(ctx, true)
	if err == nil {
		a.sent, a.reply.began = req, time.Now()
	}
	return req, err
}

// try finds whether an attempt fits into what is left, and begins it where it shall.
func (a *asking) try(ctx context.Context, begin bool) (req model.Request, err error) {
	req = a.wanted
	a.stop, a.err = a.begin(ctx, &req, a.closing, begin)
	switch {
	case a.err != nil:
		return req, a.err
	case a.stop == nil:
		return req, nil
	case a.lost != nil:
		a.stop.reason += fmt.Sprintf(", after an attempt that failed: %v", a.lost)
	}
	return req, errNoRoom
}
