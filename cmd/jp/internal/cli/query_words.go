package cli

import (
	"bytes"
	"encoding/json"

	"jp/cmd/jp/internal/agent"
	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/stream"
	"jp/cmd/jp/internal/term"
	"jp/convstore"
)

// What a run says of itself, in the words of other agents (docs/headless.md).

// inOtherWords completes a result; limit is what the run was stopped at.
func inOtherWords(r *stream.Result, limit agent.Limit) *stream.Result {
	switch {
	case r.Status == string(convstore.StateOK):
		r.Subtype = stream.Success
	case limit == agent.LimitTurns:
		r.Subtype = stream.ErrorTurns
	case limit == agent.LimitCost:
		r.Subtype = stream.ErrorBudget
	default:
		r.Subtype = stream.ErrorInExecution
	}
	r.IsError = r.Subtype != stream.Success
	r.TotalCostUSD, r.StructuredOutput = r.CostUSD, r.Structured
	return r
}

// resultDocument writes a result as the one document of stdout: the last line of stream-json, by itself.
func (a *app) resultDocument(r *stream.Result) error {
	b, err := stream.Encode(r, r.ConversationID)
	if err != nil {
		return err
	}
	if a.format() == formatJSONPretty {
		var out bytes.Buffer
		if err := json.Indent(&out, b, "", "  "); err != nil {
			return err
		}
		b = out.Bytes()
	}
	_, err = a.io.Out.Write(term.EscapeJSON(b))
	return err
}

func (s *show) toolCall(c convstore.ToolCall) stream.ToolCall {
	return stream.ToolCall{ConversationID: s.conv.ID.String(), ID: c.ID, Name: c.Name, Arguments: c.Arguments}
}

// apiMessage is a reply of the model as its API would have it.
func (s *show) apiMessage(m agent.Message) stream.Message {
	calls := make([]stream.ToolCall, len(m.Calls))
	for i, c := range m.Calls {
		calls[i] = s.toolCall(c)
	}
	stop := map[model.Stop]string{
		model.StopEnd: stream.StopEndTurn, model.StopToolUse: stream.StopToolUse,
		model.StopMaxTokens: stream.StopMaxTokens, model.StopRefusal: stream.StopRefusal,
	}[m.Stop]
	return stream.NewMessage(m.ID, s.loop.Model, m.Text, stop, calls, usage(m.Usage))
}
