package show

import (
	"context"
	"fmt"
	"strings"
	"time"

	"jp/cmd/jp/internal/agent"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/markdown"
	"jp/cmd/jp/internal/stream"
	"jp/cmd/jp/internal/term"
	"jp/convstore"
)

// WriteReused writes an answer that was in the store. On a terminal it says so.
func WriteReused(ctx context.Context, con *console.Console, view convstore.View, a convstore.Answer) error {
	c, err := view.Get(ctx, a.ID)
	if err != nil {
		return err
	}
	var events []convstore.Event
	var at time.Time
	r := &stream.Result{ConversationID: a.ID.String(), Turn: a.Turn, Status: string(convstore.StateOK), Reused: true, Model: c.Model, CostUSD: new(stream.USD), TotalCostUSD: new(stream.USD)}
	for ev, err := range view.Events(ctx, a.ID, convstore.Turn(a.Turn)) {
		if err != nil {
			return err
		}
		events, at = append(events, ev), ev.Time
		switch b := ev.Body.(type) {
		case convstore.Structured:
			r.Structured = b.Data
		case convstore.ModelCall:
			r.Model = b.Model
		}
	}
	r.Result = agent.Answer(events)
	switch {
	case con.Format() == console.FormatStream:
		err = stream.NewWriter(console.Escaping{Writer: con.IO.Out}, session(con, r.ConversationID)).Write(Complete(r, "", nil))
	case con.JSON():
		err = WriteResult(con, Complete(r, "", nil))
	case con.Pretty() && r.Structured == nil:
		_, err = con.IO.Out.Write([]byte(markdown.Render(r.Result, con.Style())))
	default:
		_, err = con.IO.Out.Write([]byte(strings.TrimSuffix(con.IO.Text(r.Result), "\n") + "\n"))
	}
	if err == nil && !con.JSON() && !con.Globals.Quiet {
		dim(con.IO, fmt.Sprintf("%s answered this before, %s ago; nothing was asked", a.ID, term.Elapsed(time.Since(at))))
	}
	return err
}
