package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"sync"

	"jp/cmd/jp/internal/agent"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/delegate"
	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/stream"
	"jp/cmd/jp/internal/term"
	"jp/cmd/jp/internal/wording"
	"jp/convstore"
	"jp/tools"
)

// What a run says of itself, in the words of other agents (docs/headless.md).

// inOtherWords completes a result; limit is what the run was stopped at, failed what it ends with.
func inOtherWords(r *stream.Result, limit agent.Limit, failed error) *stream.Result {
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
	r.StructuredOutput = r.Structured
	if r.ModelUsage == nil {
		r.ModelUsage = map[string]stream.ModelUsage{}
	}
	if r.PermissionDenials == nil {
		r.PermissionDenials = []stream.PermissionDenial{}
	}
	if r.IsError {
		r.Errors = []string{r.Reason}
		if failed != nil {
			r.Errors[0] = term.Line(console.Explain(failed).Message)
		}
	}
	return r
}

// failedResult is that of a run which an error ended before there was an outcome.
func failedResult(session string, err error) *stream.Result {
	state := convstore.StateError
	switch report := console.Explain(err); report.Code {
	case "deadline":
		state = convstore.StateTimeout
	case "signal", "interrupted":
		state = convstore.StateCancelled
	}
	return inOtherWords(&stream.Result{ConversationID: session, Status: string(state), Reason: term.Line(console.Explain(err).Message)}, "", err)
}

// used is what was paid for in a run, sub-agents included, by model.
type used map[string]*convstore.Charge

func (u used) add(c convstore.Charge) {
	have, ok := u[c.Model]
	if !ok {
		u[c.Model] = &c
		return
	}
	have.Usage = have.Usage.Add(c.Usage)
	if have.CostNano == nil || c.CostNano == nil {
		have.CostNano = nil
		return
	}
	n := convstore.Sum(*have.CostNano, *c.CostNano)
	have.CostNano = &n
}

// total is nil when a price is unknown.
func (u used) total() *stream.USD {
	var n int64
	for _, c := range u {
		if c.CostNano == nil {
			return nil
		}
		n = convstore.Sum(n, *c.CostNano)
	}
	return usd(&n)
}

// sum returns the tokens, and the nano-dollars as far as prices are known.
func (u used) sum() (tokens, cost int64) {
	for _, c := range u {
		tokens = convstore.Sum(tokens, c.Usage.Tokens())
		if c.CostNano != nil {
			cost = convstore.Sum(cost, *c.CostNano)
		}
	}
	return tokens, cost
}

// used adds up what a run has cost. Only what its sub-agents used has to be looked up.
func (q *query) used(ctx context.Context, loop *agent.Loop, d *delegate.Delegator, out agent.Outcome) used {
	u := used{}
	if d.Calls() == 0 {
		if out.Usage != (convstore.Usage{}) {
			u.add(convstore.Charge{Model: loop.Model, Usage: out.Usage, CostNano: out.Cost})
		}
		return u
	}
	s, err := q.store.Spent(context.WithoutCancel(ctx), q.conv.ID)
	if err != nil {
		q.app.con.Warn("%s: what the sub-agents used: %v", q.conv.ID, err)
		u.add(convstore.Charge{Model: loop.Model, Usage: out.Usage}) // no total can be told for it
	}
	for _, c := range s.Charges {
		if c.Session == s.Session {
			u.add(c)
		}
	}
	return u
}

func (q *query) modelUsage(u used) map[string]stream.ModelUsage {
	list := map[string]stream.ModelUsage{}
	p := q.app.env.Providers(q.resolved.Config)
	for id, c := range u {
		info, _ := model.Lookup(id, p) // of an unknown one nothing is known
		list[id] = stream.ModelUsage{
			InputTokens: c.Usage.Input, OutputTokens: c.Usage.Output, CacheReadInputTokens: c.Usage.CacheRead, CacheCreationInputTokens: c.Usage.CacheWrite,
			CostUSD: usd(c.CostNano), CostBasis: wording.Either(c.CostNano == nil, stream.CostUnknown, stream.CostList),
			ContextWindow: info.Window, MaxOutputTokens: info.MaxOutput,
		}
	}
	return list
}

// denials are the calls of tools that were not permitted. Safe for concurrent use.
type denials struct {
	mu   sync.Mutex
	list []stream.PermissionDenial
}

// noted is permit, which also notes what it denies.
func (d *denials) noted(permit func(context.Context, tools.Tool, tools.Call) (tools.Decision, error)) func(context.Context, tools.Tool, tools.Call) (tools.Decision, error) {
	return func(ctx context.Context, t tools.Tool, c tools.Call) (tools.Decision, error) {
		decision, err := permit(ctx, t, c)
		if err != nil || !decision.Allow {
			d.mu.Lock()
			defer d.mu.Unlock()
			d.list = append(d.list, stream.PermissionDenial{ToolName: c.Name, ToolUseID: c.ID, ToolInput: c.Arguments})
		}
		return decision, err
	}
}

func (d *denials) all() []stream.PermissionDenial {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.list)
}

// resultDocument writes a result as the one document of stdout: the last line of stream-json, by itself.
func (a *app) resultDocument(r *stream.Result) error {
	b, err := stream.Encode(r, r.ConversationID)
	if err != nil {
		return err
	}
	if a.con.Format() == console.FormatJSONPretty {
		var out bytes.Buffer
		if err := json.Indent(&out, b, "", "  "); err != nil {
			return err
		}
		b = out.Bytes()
	}
	_, err = a.con.IO.Out.Write(term.EscapeJSON(b))
	return err
}

func (s *show) toolCall(c convstore.ToolCall) stream.ToolCall {
	return stream.ToolCall{ConversationID: s.query.conv.ID.String(), ID: c.ID, Name: c.Name, Arguments: c.Arguments}
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
	s.stopped = nil
	if stop != "" {
		s.stopped = &stop
	}
	return stream.NewMessage(m.ID, s.loop.Model, m.Text, stop, calls, usage(m.Usage))
}
