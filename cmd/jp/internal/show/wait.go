package show

import (
	"context"
	"fmt"
	"time"

	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/models"
	"jp/cmd/jp/internal/stream"
	"jp/cmd/jp/internal/term"
)

// Waits shows what the model of this run waits for: on the terminal, and as a line for a program.
func (s *Show) Waits() models.Waits {
	var before *term.IO // streams before the countdown; nil = there is none
	return models.Waits{
		Begin: func(_ context.Context, r model.Retrying) {
			s.con.Note("%s", waitText(r))
			if s.tree != nil {
				s.con.Progress.End()
				before = s.con.IO
				s.con.IO, s.con.Progress = before.Countdown("waiting; Ctrl-C stops, and the run can be resumed", r.Wait, term.ProgressOptions{})
			}
			if s.lines != nil {
				s.write(&stream.Wait{ConversationID: s.run.Conv.ID.String(), Reason: waitReason(r), WaitMS: r.Wait.Milliseconds()})
			}
		},
		End: func(context.Context) {
			if before != nil {
				s.con.Progress.End()
				s.con.IO, s.con.Progress = before.Progress("waiting for the model", term.ProgressOptions{})
				before = nil
			}
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
	if r.Wait > time.Hour {
		return fmt.Sprintf("%v; trying again in %s, at %s", r.Err, wait.Round(time.Second), time.Now().Add(r.Wait).Format("Mon 15:04"))
	}
	return fmt.Sprintf("%v; trying again in %s", r.Err, wait)
}
