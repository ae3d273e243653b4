package cli

import (
	"context"
	"fmt"
	"time"

	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/run"
	"jp/cmd/jp/internal/stream"
)

// waits shows what the model of this run waits for: as chrome, and to whoever reads our lines.
func (q *query) waits() run.Waits {
	return run.Waits{
		Begin: func(_ context.Context, r model.Retrying) {
			q.tree.Around(func() { q.app.con.Note("%s", waitText(r)) })
			if q.lines != nil {
				_ = q.lines.Write(&stream.Wait{ConversationID: q.conv.ID.String(), Reason: waitReason(r), WaitMS: r.Wait.Milliseconds()})
			}
		},
		End: func(context.Context) {
			if q.lines != nil {
				_ = q.lines.Write(&stream.Wait{ConversationID: q.conv.ID.String()})
			}
		},
	}
}

func waitReason(r model.Retrying) string {
	if r.Err == nil {
		return string(model.KindRateLimit)
	}
	return string(r.Err.Kind)
}

// waitText is a wait in words.
func waitText(r model.Retrying) string {
	wait := r.Wait.Round(100 * time.Millisecond)
	if r.Err == nil {
		return fmt.Sprintf("the provider limits requests; waiting at least %s", wait)
	}
	return fmt.Sprintf("%v; trying again in %s", r.Err, wait)
}
