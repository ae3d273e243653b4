package model_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"jp/cmd/jp/internal/model"
)

// TestThread: what went before reaches the model as it was, in both formats and from either
// provider; the server refuses what the real ones would.
func TestThread(t *testing.T) {
	server := serve(t, `
[[rule]]
tool = "count"
failed = true
text = "over"
[[rule]]
text = "wrong"
`)
	thread := longThread()
	formats(t, func(t *testing.T, id string) {
		n := len(server.Requests())
		got := collect(t, open(t, id, server.URL), t.Context(), thread)
		if got.err != nil {
			t.Fatal(got.err)
		}
		// OpenAI's format has no is_error
		if strings.HasPrefix(id, "anthropic") && got.text != "over" {
			t.Errorf("text = %q, want over", got.text)
		}
		golden(t, strings.TrimSuffix(id, "/wire")+".json", server.Requests()[n].Body)
	})
	if !reflect.DeepEqual(thread, longThread()) {
		t.Error("the stream changed the request")
	}
}

// longThread has what makes trouble: ids and names that only one provider takes, arguments that are
// no JSON, blank text, reasoning of somebody else, empty results.
func longThread() model.Request {
	return model.Request{
		Model:  "wire",
		System: []model.Section{{Text: "You are terse."}, {Text: " "}, {Text: "Use tools."}},
		Tools: []model.Tool{
			{Name: "count", Description: "Counts.", Schema: json.RawMessage(`{"type":"object","properties":{"b":{"type":"string"},"a":{"type":"integer"}},"required":["b"]}`)},
			{Name: "list", Schema: json.RawMessage(`{"type":"object","properties":{}}`)},
		},
		Messages: []model.Message{
			user("first"),
			{Role: model.Assistant, Content: []model.Content{
				{Reasoning: &model.Reasoning{Text: "hm", Signature: "signed", Opaque: json.RawMessage(`{"field":"reasoning_content"}`), Provider: "elsewhere"}},
				{Text: "I count. "}, {Text: "  "},
				{Call: &model.Call{ID: "functions.count:0", Name: "count", Arguments: []byte(`{"b": "x"}`)}},
				{Call: &model.Call{ID: strings.Repeat("long", 20), Name: "no such tool", Arguments: []byte(`{"b": `)}},
			}},
			{Role: model.ToolRole, Content: []model.Content{
				{Result: &model.CallResult{ID: "functions.count:0", Name: "count", Text: "3"}},
				{Result: &model.CallResult{ID: strings.Repeat("long", 20), Name: "no such tool", IsError: true}},
			}},
			{Role: model.Assistant, Content: []model.Content{{Text: "Three."}}},
			user("second"),
			{Role: model.Assistant, Content: []model.Content{{Call: &model.Call{ID: "call_1", Name: "count", Arguments: []byte(`{"b":"y"}`)}}}},
			{Role: model.ToolRole, Content: []model.Content{{Result: &model.CallResult{ID: "call_1", Name: "count", Text: "failed", IsError: true}}}},
		},
	}
}
