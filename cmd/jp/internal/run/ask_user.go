package run

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"jp/cmd/jp/internal/term"
	"jp/tools"
)

// askUser returns the function of the tool ask_user. It asks the person at the terminal a question
// of the model. If nobody can answer, detached of the tool decides. With options.exclusive = true
// in the tool's table the model must not answer itself.
func (ag *Agent) askUser(def tools.Definition) tools.Func {
	return func(ctx context.Context, c tools.Call) (tools.Result, error) {
		var a struct {
			Question string   `json:"question"`
			Options  []string `json:"options"`
		}
		if err := json.Unmarshal(c.Arguments, &a); err != nil {
			return tools.Result{}, fmt.Errorf("arguments: %w", err)
		}
		answer, err := "", error(term.ErrNobody)
		if ag.run.req.Asker != nil {
			answer, err = ag.run.req.Asker.Question(ctx, c.ID, a.Question, a.Options)
		} else if ag.run.tty != nil {
			ag.run.aside(func() { answer, err = ag.run.tty.Question(ctx, a.Question, a.Options) })
		}
		if !errors.Is(err, term.ErrNobody) {
			ag.decided.Store(true)
		}
		switch {
		case errors.Is(err, term.ErrNobody):
			exclusive, _ := def.Options["exclusive"].(bool)
			return unasked(def.Detached.Tool, exclusive), nil
		case errors.Is(err, io.EOF):
			return tools.Result{Text: "the user gave no answer", IsError: true}, nil
		}
		return tools.Result{Text: answer}, err
	}
}

// unasked returns the result of a question that nobody can answer.
func unasked(mode tools.DetachedMode, exclusive bool) tools.Result {
	const key = "conversation.tools.ask_user.detached.tool"
	switch {
	case mode == tools.DetachedAuto && !exclusive:
		return tools.Result{Text: "Nobody can answer now: decide yourself what fits the task best, and say in your answer what you decided."}
	case mode == tools.DetachedAuto:
		return tools.Result{Text: "nobody can answer, and only a person may (options.exclusive): leave it open, and say so in your answer", IsError: true}
	case mode == tools.DetachedDefaults:
		return tools.Result{Text: fmt.Sprintf("nobody can answer, %s is %q, and this question has no default", key, mode), IsError: true}
	}
	return tools.Result{Text: fmt.Sprintf("nobody can answer, and %s is %q: with %q you would decide yourself", key, tools.DetachedDeny, tools.DetachedAuto), IsError: true}
}
