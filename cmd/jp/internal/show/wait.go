package show

import (
	"context"
	"fmt"
	"time"

	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/run"
	"jp/cmd/jp/internal/stream"
)

// Waits shows what the model of this run waits for: on the terminal, and as a line for a program.
func (s *Show) Waits() run.Waits {
	return run.Waits{
		Begin: func(_ context.Context, r model.Retrying) {
			s.Aside(func() { s.con.Note("%s", waitText(r)) })
			if s.lines != nil {
				s.write(&stream.Wait{ConversationID: s.run.Conv.ID.String(), Reason: waitReason(r), WaitMS: r.Wait.Milliseconds()})
			}
		},
		End: func(context.Context) {
			if s.lines != nil {
				s.write(&stream.Wait{ConversationID: s.run.Conv.ID.String()})
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

// waitText returns a sentence about a wait.
func waitText(r model.Retrying) string {
	wait := r.Wait.Round(100 * time.Millisecond)
	if r.Err == nil {
		return fmt.Sprintf("the provider limits requests; waiting at least %s", wait)
	}
	return fmt.Sprintf("%v; trying again in %s", r.Err, wait)
}
