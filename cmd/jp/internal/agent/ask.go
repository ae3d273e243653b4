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

// asker makes calls of one model in a conversation, each within what is left in the account. A turn
// has one. Another model, which writes a summary or a title, gets another asker on the same history
// and bill: see consult.
type asker struct {
	model    Writer
	others   []Writer // those that stand in for it if it fails, which calls must be affordable with too
	replayed bool
	history  *history
	bill     *bill
	paid     *bill            // bill of all that the loop asks
	aside    convstore.Budget // amounts set aside for the closing call of the turn
	since    int              // index in history of the first event that foreseen looks at
	free     bool             // whether no limit holds

	// shows parts of the reply as they come; nil = nobody watches
	text, reasoning func(delta string)

	meter model.Meter // estimates what requests use, and learns from replies
	tell  teller
	note  string           // what the latest call tells of what is left; "" = nothing
	told  convstore.Budget // what that is
	cut   *limit           // limit that made the latest call ask for less output; nil = none
}

// storeError is an error of the store. It ends the run, whatever the model said.
type storeError struct{ error }

func (e storeError) Unwrap() error { return e.error }

// ask makes one call of the model. A limit means that there was no room in the account for the
// call, or for another attempt of it: then there is no reply to store. With an error the reply
// holds what had come by then. An error of the store is a storeError. The caller stores the reply;
// until then the bound of the call is in the account.
func (a *asker) ask(ctx context.Context, req model.Request, closing bool) (reply, *limit, error) {
	c := &asking{asker: a, wanted: req, closing: closing}
	if stop, err := a.begin(ctx, &req, closing, true); err != nil {
		return reply{}, nil, storeError{err}
	} else if stop != nil {
		return reply{}, stop, nil
	}
	req.Waits, req.Again, c.sent = c.waits, c.again, req
	c.reply.began = time.Now()
	err := c.hear(a.model.Ask(ctx, req))
	c.reply.text = c.text.String()
	c.reply.took, c.reply.shown = time.Since(c.reply.began), c.shown
	switch {
	case c.err != nil:
		return reply{}, nil, storeError{c.err}
	case c.stop != nil:
		return reply{}, c.stop, nil
	case err != nil:
		c.reply.calls = nil
		c.reply.any = c.reply.any || c.thinking.Len() > 0
	case !c.reply.guessed:
		a.meter.Learn(c.sent, c.reply.usage, c.reply.attempt)
	}
	c.reply.cost = a.model.Price.Charged(c.reply.usage, c.reply.reported)
	if err == nil || c.reply.any {
		a.pay(a.record(c.reply))
		if a.note != "" {
			a.history.add(convstore.Note{Kind: NoteLeft, Text: a.note}) // with the reply
			a.tell.told = a.told
		}
	}
	return c.reply, nil, err
}

// pay adds a call to the bills, as soon as it is known what it used: whether it can be stored is
// found out later.
func (a *asker) pay(c convstore.ModelCall) {
	a.bill.add(c)
	a.paid.add(c)
}

// record returns the event of the call that the reply came from.
func (a *asker) record(r reply) convstore.ModelCall {
	return convstore.ModelCall{
		Model: a.model.Model, Usage: r.usage, CostNano: r.cost, Stop: string(r.stop), Estimated: r.guessed, Replayed: a.replayed, Duration: r.took,
	}
}

// asking is one call of the model with all its attempts. The bound of an attempt is in the account
// from before it is sent until it has failed. While the call waits for its next attempt no bound is
// there. One transaction takes out the bound of a failed attempt, charges what it used, and finds
// whether there is room for another.
type asking struct {
	asker   *asker
	wanted  model.Request // request before its output was lowered
	sent    model.Request // request of the latest attempt
	closing bool

	reply          reply
	text, thinking strings.Builder
	shown          bool // whether somebody saw a part of the reply

	lost *model.Error // why the latest attempt failed; nil = none did
	stop *limit       // limit that leaves no room for another attempt; nil = there is room
	err  error        // error of the store
}

// hear reads the parts of the reply.
func (c *asking) hear(parts func(func(model.Part, error) bool)) error {
	r := &c.reply
	for part, err := range parts {
		if err != nil {
			return err
		}
		switch {
		case part.Text != "":
			r.any = true
			c.text.WriteString(part.Text)
			c.show(c.asker.text, part.Text)
		case part.ReasoningDelta != "":
			c.thinking.WriteString(part.ReasoningDelta)
			c.show(c.asker.reasoning, part.ReasoningDelta)
		case part.Reasoning != nil:
			r.any = true
			r.reasoning = append(r.reasoning, *part.Reasoning)
		case part.Call != nil:
			r.any = true
			r.calls = append(r.calls, convstore.ToolCall{ID: part.Call.ID, Name: part.Call.Name, Arguments: storedArguments(part.Call.Arguments)})
		case part.Usage != nil:
			r.any = true
			r.usage, r.reported, r.guessed, r.attempt = *part.Usage, part.Cost, part.Estimated, part.Attempt
		case part.Stop != "":
			r.stop = part.Stop
		}
	}
	return nil
}

func (c *asking) show(watch func(string), delta string) {
	if watch != nil {
		c.shown = true
		watch(delta)
	}
}

// errNoRoom ends a call that has no room for its next attempt.
var errNoRoom = errors.New("no room for another attempt")

// waits is model.Request.Waits: the latest attempt has failed, and the next one is not sent yet.
func (c *asking) waits(ctx context.Context, lost model.Lost) error {
	if c.shown {
		return model.ErrShown
	}
	if u := lost.Usage; u != nil {
		failed := reply{
			usage: *u, cost: c.asker.model.Price.Charged(*u, lost.Cost), guessed: lost.Estimated, stop: StopBroken, took: time.Since(c.reply.began),
		}
		call := c.asker.record(failed)
		c.asker.history.add(call)
		c.asker.pay(call)
	}
	c.reply = reply{began: time.Now()}
	c.text.Reset()
	c.thinking.Reset()
	c.lost = lost.Err
	_, err := c.try(ctx, false)
	return err
}

// again is model.Request.Again.
func (c *asking) again(ctx context.Context) (model.Request, error) {
	req, err := c.try(ctx, true)
	if err == nil {
		c.sent, c.reply.began = req, time.Now()
	}
	return req, err
}

// try finds whether there is room for an attempt. It puts its bound into the account if it is sent
// now.
func (c *asking) try(ctx context.Context, now bool) (req model.Request, err error) {
	req = c.wanted
	c.stop, c.err = c.asker.begin(ctx, &req, c.closing, now)
	switch {
	case c.err != nil:
		return req, c.err
	case c.stop == nil:
		return req, nil
	case c.lost != nil:
		c.stop.reason += fmt.Sprintf(", after an attempt that failed: %v", c.lost)
	}
	return req, errNoRoom
}
