package show

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"

	"jp/cmd/jp/internal/agent"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/delegate"
	"jp/cmd/jp/internal/exit"
	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/stream"
	"jp/cmd/jp/internal/subprocess"
	"jp/cmd/jp/internal/term"
	"jp/cmd/jp/internal/wording"
	"jp/convstore"
	"jp/convstore/amount"
	"jp/convstore/usage"
)

// The result of a run, with the keys that other agent programs use (docs/headless.md).

// Complete fills in the rest of a result. limit is the limit that stopped the run, failed the error
// that it ends with.
func Complete(r *stream.Result, limit agent.Limit, failed error) *stream.Result {
	if r.Elsewhere == nil {
		r.Elsewhere = &stream.Elsewhere{}
	}
	switch {
	case r.Status == string(convstore.StateOK):
		r.Subtype = stream.Success
	case limit == agent.LimitTurns:
		r.Subtype = stream.ErrorTurns
	case limit == agent.LimitCost:
		r.Subtype = stream.ErrorBudget
	case errors.As(failed, new(*agent.SchemaError)):
		r.Subtype = stream.ErrorSchema
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

// Failed returns the result of a run that an error ended before it had an outcome.
func Failed(session string, err error) *stream.Result {
	state := convstore.StateError
	switch report := console.Explain(err); report.Code {
	case "deadline":
		state = convstore.StateTimeout
	case "signal", "interrupted", "stopped":
		state = convstore.StateCancelled
	}
	return Complete(&stream.Result{ConversationID: session, Status: string(state), Reason: term.Line(console.Explain(err).Message)}, "", err)
}

// Used is the usage of a run with its sub-agents, by model.
type Used map[string]*usage.Charge

func (u Used) Add(c usage.Charge) {
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
	n := amount.Sum(*have.CostNano, *c.CostNano)
	have.CostNano = &n
}

// Total returns the cost, nil if a price is unknown.
func (u Used) Total() *stream.USD {
	var n int64
	for _, c := range u {
		if c.CostNano == nil {
			return nil
		}
		n = amount.Sum(n, *c.CostNano)
	}
	return USD(&n)
}

// used adds up the usage of a turn. What sub-agents used, also those of before a crash, is in the
// store. Only the agent knows what could not be stored.
func (s *Show) used(ctx context.Context, out agent.Outcome) Used {
	u := Used{}
	alone := !s.run.Resumes() && s.agent.Sub.Calls() == 0
	if alone || s.Unstored {
		for id, spent := range out.Models {
			u.Add(usage.Charge{Model: id, Usage: spent.Usage, CostNano: spent.Cost()})
		}
	}
	if alone {
		return u
	}
	ctx, stop := convstore.Briefly(ctx)
	defer stop()
	spent, err := usage.Spent(ctx, s.run.Store.View, s.run.Conv.ID)
	if err != nil {
		s.con.Warn("%s: what the sub-agents used: %v", s.run.Conv.ID, err)
		return Used{s.model(): {Model: s.model(), Usage: out.Usage}} // makes the total unknown
	}
	for c := range spent.Turn(out.Turn) {
		if !(s.Unstored && c.Conversation == s.run.Conv.ID) {
			u.Add(c)
		}
	}
	return u
}

// model returns the full id of the model that is asked first.
func (s *Show) model() string { return s.agent.Loop.Models[0].Model }

func (s *Show) modelUsage(u Used) map[string]stream.ModelUsage {
	list := map[string]stream.ModelUsage{}
	p := s.run.Providers()
	for id, c := range u {
		info, _ := model.Lookup(id, p) // zero for an unknown model
		if id == s.agent.Info.ID {
			info = s.agent.Info // as its owner knows it, in a sub-agent
		}
		list[id] = stream.ModelUsage{
			InputTokens: c.Usage.Input, OutputTokens: c.Usage.Output, CacheReadInputTokens: c.Usage.CacheRead, CacheCreationInputTokens: c.Usage.CacheWrite,
			CostUSD: USD(c.CostNano), CostBasis: wording.Either(c.CostNano == nil, stream.CostUnknown, stream.CostList),
			ContextWindow: info.Window, MaxOutputTokens: info.MaxOutput,
		}
	}
	return list
}

// session is what the lines of a run are encoded with: the conversation's id if --output-format
// asks for the words of other agents, else nil.
func session(con *console.Console, id string) *string {
	return wording.Either(con.Globals.Elsewhere, &id, nil)
}

// WriteResult writes a result as the only document on stdout. It is the same as the last line of
// stream-json.
func WriteResult(con *console.Console, r *stream.Result) error {
	b, err := stream.Encode(r, session(con, r.ConversationID))
	if err != nil {
		return err
	}
	if con.Format() == console.FormatJSONPretty {
		var out bytes.Buffer
		if err := json.Indent(&out, b, "", "  "); err != nil {
			return err
		}
		b = out.Bytes()
	}
	_, err = con.IO.Out.Write(term.EscapeJSON(b))
	return err
}

func (s *Show) toolCall(c convstore.ToolCall) stream.ToolCall {
	return stream.ToolCall{ConversationID: s.run.Conv.ID.String(), ID: c.ID, Name: c.Name, Arguments: c.Arguments}
}

// apiMessage is a reply of the model in the form of its API.
func (s *Show) apiMessage(m agent.Message) stream.Message {
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
	return stream.NewMessage(m.ID, m.Model, m.Text, stop, calls, Usage(m.Usage))
}

// Result shows how a turn ended; failed is the error that the command ends with.
//
// tidy is what the run does in the conversation when its turn has ended. Who reads JSON reads the
// result after that, and can go on in the conversation at once; its usage is not in the result. A
// person reads the answer before that.
func (s *Show) Result(ctx context.Context, out agent.Outcome, failed error, tidy func()) error {
	r := &stream.Result{
		ConversationID: s.run.Conv.ID.String(), Turn: out.Turn, Status: string(out.State), Reason: out.Reason, Result: out.Text, Structured: out.Structured,
		Model: cmp.Or(out.Model, s.model()), Usage: stream.NewResultUsage(Usage(out.Usage)), CostUSD: USD(out.Cost), TotalCostUSD: USD(out.Cost), DurationMS: time.Since(s.run.Began).Milliseconds(),
		SubCalls: s.agent.Sub.Calls(), Elsewhere: &stream.Elsewhere{PermissionDenials: s.agent.Denied()},
	}
	var u Used
	if s.con.JSON() {
		if !s.run.Delegated() {
			u = s.used(ctx, out)
			s.total(r, u)
		}
		tidy()
	}
	if err := s.last(Complete(r, out.Limit, failed)); err != nil {
		return err
	}
	if s.tree != nil && s.con.IO.ErrTTY {
		if !s.con.JSON() {
			u = s.used(ctx, out)
		}
		s.beside(s.spent(u))
	}
	if !s.con.JSON() {
		tidy()
	}
	return nil
}

// total writes what a run has used, with its sub-agents. The official SDK reads it as a running total
// of all messages of a client.
func (s *Show) total(r *stream.Result, u Used) {
	if c := s.o.Client; c != nil {
		for _, charge := range u {
			c.Paid.Add(*charge)
		}
		u = c.Paid
	}
	r.TotalCostUSD, r.ModelUsage = u.Total(), s.modelUsage(u)
}

// spent says in one line what the run has used, with its sub-agents.
func (s *Show) spent(u Used) string {
	var parts []string
	if n := s.agent.Sub.Calls(); n > 0 {
		parts = append(parts, wording.Plural(n, "sub-agent"))
	}
	var tokens int64
	for _, c := range u {
		tokens = amount.Sum(tokens, c.Usage.Tokens())
	}
	parts = append(parts, term.Count(tokens)+" tokens")
	if cost := u.Total(); cost == nil {
		parts = append(parts, "cost not known")
	} else {
		parts = append(parts, "$"+console.Dollars((*int64)(cost)))
	}
	parts = append(parts, term.Elapsed(time.Since(s.run.Began)))
	return strings.Join(parts, wording.Either(s.con.IO.UTF8, " · ", ", "))
}

// WriteReport writes what `jp query` inside a tool prints about a run, and returns the error with which
// it ends.
func WriteReport(ctx context.Context, con *console.Console, r delegate.Report) error {
	out := agent.Outcome{State: r.State, Reason: r.Reason}
	if status := subprocess.ExitOf(r.State); status != exit.OK {
		if strings.HasPrefix(r.Code, "provider_") {
			status = exit.Provider
		}
		out.Err = &exit.Error{Code: r.Code, Status: status, Msg: r.Reason}
	}
	failed := Failure(ctx, r.Child, "", "resume with: jp query --id "+r.Child.String(), out)
	text := r.Text
	if r.State != convstore.StateOK && r.State != convstore.StatePartial {
		text = ""
	}
	var err error
	switch {
	case con.JSON():
		err = WriteResult(con, Complete(&stream.Result{
			ConversationID: r.Child.String(), Turn: r.Turn, Status: string(r.State), Reason: r.Reason, Result: text, Structured: r.Structured, Reused: r.Reused, Model: r.Model,
			Usage: stream.NewResultUsage(Usage(r.Own.Usage)), CostUSD: USD(r.Own.Cost()), TotalCostUSD: USD(r.Total.Cost()),
			SubCalls: r.SubCalls, DurationMS: r.Duration.Milliseconds(),
		}, "", failed))
	case text != "":
		_, err = io.WriteString(con.IO.Out, strings.TrimSuffix(text, "\n")+"\n")
	}
	return cmp.Or(err, failed)
}
