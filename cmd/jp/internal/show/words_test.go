package show

import (
	"testing"

	"jp/cmd/jp/internal/agent"
	"jp/cmd/jp/internal/stream"
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
