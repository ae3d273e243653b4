package care

import (
	"bufio"
	"bytes"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"jp/cmd/jp/internal/console"
	"jp/cmd/jp/internal/model"
	"jp/cmd/jp/internal/models"
	"jp/cmd/jp/internal/show"
	"jp/cmd/jp/internal/term"
	"jp/convstore"
	"jp/convstore/usage"
	"jp/profiles"
)

// One call without a price makes every sum that it is in unknown, and no other.
func TestUsageOfUnknownPrices(t *testing.T) {
	known := int64(1_500_000)
	charge := func(id convstore.ID, session int, model string, nano *int64) usage.Charge {
		return usage.Charge{
			Conversation: id, Profile: "p" + model, Model: model, Session: session, Usage: convstore.Usage{Input: 100, Output: 10, CacheWrite: 1},
			CostNano: nano, Took: time.Second,
		}
	}
	gone := charge(3, 1, "b", &known)
	gone.Recorded, gone.Took = true, 0
	u := usageOf(usage.Spending{
		Conversation: convstore.Conversation{ID: 1, Title: "t"}, Ledger: 1, Session: 2,
		Charges: []usage.Charge{charge(1, 1, "a", &known), charge(2, 1, "b", nil), gone, charge(1, 2, "a", &known)},
		Runs:    []usage.Run{{Child: 2, Session: 1, Model: "b", Profile: "pb"}, {Child: 3, Session: 1, Model: "b", Profile: "pb"}},
	})
	got, err := json.Marshal(map[string]any{
		"life own": u.Life.Own, "life sub": u.Life.SubCalls, "session": u.Session.Total, "models": u.Models, "removed": u.Removed,
	})
	if err != nil {
		t.Fatal(err)
	}
	sum := func(calls, runs, n int, cost string, unpriced, ms int) string {
		return strings.NewReplacer("CALLS", strconv.Itoa(calls), "RUNS", strconv.Itoa(runs), "TOKENS", strconv.Itoa(111*n), "IN", strconv.Itoa(100*n), "OUT", strconv.Itoa(10*n), "WRITE", strconv.Itoa(n),
			"COST", cost, "UNPRICED", strconv.Itoa(unpriced), "MS", strconv.Itoa(ms)).Replace(
			`"model_calls":CALLS,"runs":RUNS,"tokens":TOKENS,"usage":{"input_tokens":IN,"output_tokens":OUT,"cache_read_tokens":0,"cache_write_tokens":WRITE},` +
				`"cost_usd":COST,"unpriced":UNPRICED,"model_ms":MS,"lost_calls":0,"replayed":0`)
	}
	want := `{"life own":{` + sum(2, 0, 2, "0.003", 0, 2000) + `},"life sub":{` + sum(1, 2, 2, "null", 1, 1000) + `},"models":[{"model":"a",` +
		sum(2, 0, 2, "0.003", 0, 2000) + `},{"model":"b",` + sum(1, 2, 2, "null", 1, 1000) +
		`}],"removed":1,"session":{` + sum(1, 0, 1, "0.0015", 0, 1000) + `}}`
	if string(got) != want {
		t.Errorf("usageOf:\n%s\nwant\n%s", got, want)
	}

	var b bytes.Buffer
	w := bufio.NewWriter(&b)
	g := &Group{Con: &console.Console{IO: &term.IO{}}}
	if err := g.writeUsage(w, u); err != nil {
		t.Fatal(err)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		"sub-calls      1     2    200        2      20       ?  1.0s",
		"cost unknown: 1 call without a price; [providers.llm.prices] can name it",
		"1 run of removed conversations: counted from their records, without calls and time",
	} {
		if !strings.Contains(b.String(), line+"\n") {
			t.Errorf("writeUsage:\n%s\nlacks %q", b.String(), line)
		}
	}
}

func TestModelPrice(t *testing.T) {
	zero, ten := int64(0), int64(10e9)
	for _, tt := range []struct {
		price profiles.Price
		want  model.Price // nano-dollars per token
	}{
		{profiles.Price{Input: 4e9, Output: 20e9}, model.Price{Input: 4000, Output: 20000, CacheRead: 4000, CacheWrite: 5000}},
		{profiles.Price{Input: 4e9, CacheRead: &zero, CacheWrite: &ten}, model.Price{Input: 4000, CacheWrite: 10000}},
	} {
		if got := models.PriceOf(tt.price); got != tt.want {
			t.Errorf("modelPrice(%+v) = %+v, want %+v", tt.price, got, tt.want)
		}
	}
}

// TestUsageBeyondCounting: a sum beyond the largest number is the largest number, not a negative
// one.
func TestUsageBeyondCounting(t *testing.T) {
	huge := int64(math.MaxInt64)
	c := usage.Charge{Conversation: 1, Model: "a", Session: 1, CostNano: &huge, Usage: convstore.Usage{Input: huge, Output: huge}}
	u := usageOf(usage.Spending{Conversation: convstore.Conversation{ID: 1}, Ledger: 1, Session: 1, Charges: []usage.Charge{c, c}})
	if got := u.Life.Total; int64(*got.CostUSD) != huge || got.Tokens != huge {
		t.Errorf("usageOf: %d nano-dollars, %d tokens", *got.CostUSD, got.Tokens)
	}
	run := show.Used{}
	run.Add(c)
	run.Add(c)
	c.Model = "b"
	run.Add(c)
	if total := run.Total(); int64(*total) != huge || run["a"].Usage.Tokens() != huge {
		t.Errorf("used: %d tokens, %d nano-dollars", run["a"].Usage.Tokens(), *total)
	}
}

// TestUsageNarrow: a narrow terminal shows what was spent, whatever the name.
func TestUsageNarrow(t *testing.T) {
	var b strings.Builder
	table := term.Table{Columns: usageColumns("model"), Rows: [][]string{{"anthropic/claude-sonnet-5-5", "1,234", "12", "12,345,678", "1,000", "500", "123,456", "$12.3456", "12m05s"}}}
	if err := table.Write(&b, &term.IO{Width: 40}); err != nil {
		t.Fatal(err)
	}
	if want := "MODEL                            COST\nanthropic/claude-sonnet-5-5  $12.3456\n"; b.String() != want {
		t.Errorf("table:\n%swant\n%s", b.String(), want)
	}
}
