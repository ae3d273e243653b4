package show

import (
	"io"
	"strings"
	"testing"

	"jp/cmd/jp/internal/agent"
	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/delegate"
	"jp/cmd/jp/internal/stream"
	"jp/cmd/jp/internal/term"
	"jp/convstore"
)

func TestInOtherWords(t *testing.T) {
	for _, test := range []struct {
		state convstore.State
		limit agent.Limit
		want  string
	}{
		{convstore.StateOK, "", "success"},
		{convstore.StatePartial, agent.LimitTurns, "error_max_turns"},
		{convstore.StateBudget, agent.LimitCost, "error_max_budget_usd"},
		{convstore.StatePartial, agent.LimitTokens, "error_during_execution"},
		{convstore.StateTimeout, agent.LimitTime, "error_during_execution"},
		{convstore.StatePartial, "", "error_during_execution"},
		{convstore.StateCancelled, "", "error_during_execution"},
		{convstore.StateRefused, "", "error_during_execution"},
		{convstore.StateEmpty, "", "error_during_execution"},
		{convstore.StateError, "", "error_during_execution"},
	} {
		r := Complete(&stream.Result{Status: string(test.state)}, test.limit, nil)
		if r.Subtype != test.want || r.IsError != (test.state != convstore.StateOK) || len(r.Errors) > 0 != r.IsError {
			t.Errorf("inOtherWords(%s, %q) = %s, %v, want %s", test.state, test.limit, r.Subtype, r.IsError, test.want)
		}
	}
}

// TestReported: a run inside a tool ends as the run does, and says why.
func TestReported(t *testing.T) {
	for _, test := range []struct {
		state        convstore.State
		reason, code string
		want         console.Report
	}{
		{convstore.StateOK, "", "ok", console.Report{}},
		{convstore.StateRefused, agent.ModelRefused, "refused", console.Report{Code: "refused", Status: 6, Message: "the model refused to answer"}},
		{convstore.StateRefused, "launcher gpu: it is too old", "refused", console.Report{Code: "refused", Status: 6, Message: "launcher gpu: it is too old"}},
		{convstore.StateError, "script: quota (429)", "provider_quota", console.Report{Code: "provider_quota", Status: 8, Message: "script: quota (429)"}},
		{convstore.StateError, "schema: is no number", "schema", console.Report{Code: "schema", Status: 1, Message: "schema: is no number"}},
		{convstore.StateKilled, "killed by signal 9", "killed", console.Report{Code: "killed", Status: 1, Message: "killed by signal 9"}},
		{convstore.StateCancelled, "a person stopped it", "cancelled", console.Report{Code: "cancelled", Status: 130, Message: "a person stopped it"}},
	} {
		con := &console.Console{IO: &term.IO{Out: io.Discard}}
		err := WriteReport(t.Context(), con, delegate.Report{Child: 1, State: test.state, Reason: test.reason, Code: test.code})
		var got console.Report
		if err != nil {
			got = console.Explain(err)
			got.Message = strings.TrimPrefix(got.Message, "conversation jp-c1: ")
		}
		if got != test.want {
			t.Errorf("%s (%s): %+v, want %+v", test.state, test.reason, got, test.want)
		}
	}
}
